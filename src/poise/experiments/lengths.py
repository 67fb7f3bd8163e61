"""How long to train: the recipe as it is written, compressed, or for a quick look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Length:
    """So many epochs of so many images: what the recipe says in epochs and steps shrinks with the whole run.

    of_epochs, of_steps  those of the recipe as it is written.
    looks_at             what a quick look is at.
    """

    name: str
    epochs: int
    images: int
    batch: int
    of_epochs: int
    of_steps: int
    looks_at: str = ""

    @property
    def quick(self) -> bool:
        return self.name == "quick"

    @property
    def title(self) -> str:
        if self.quick:
            return f"a quick look{self.looks_at}"
        compressed = f"compressed to {self.epochs} of {self.of_epochs} epochs"
        return f"{self.epochs} epochs" if self.name == "full" else compressed

    @property
    def suffix(self) -> str:
        return "" if self.name == "full" else f"-{self.name}"

    @property
    def steps(self) -> int:
        """Of the whole run."""
        return self.epochs * (self.images // self.batch)

    def epoch(self, number: int) -> int:
        """The step at which an epoch of the recipe begins here."""
        return round(self.steps * number / self.of_epochs)

    def step(self, number: int) -> int:
        """A step of the recipe, here."""
        return round(self.steps * number / self.of_steps)
