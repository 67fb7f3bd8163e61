"""The paper's grids (section 4.3 and appendix C), for the sweeps of every table.

Where the paper gives the ends of a range only, "[0.0001...0.0004]", the values between are those of appendix C or ours.

How long to train: the recipe as it is written, compressed, or for a quick look.
"""

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


TEMPERATURES = (2.0, 1.0, 0.5, 0.1)  # tau
WEIGHTS = (1e-4, 2e-4, 4e-4)  # lambda
COUNTS = (256, 512, 1024, 2048)  # k
SIGMAS = (0.1, 0.3, 0.5)  # of Gaussian and of the perturbation
TOKEN_TEMPERATURES = (1.0, 0.1, 0.02)  # tau of section 4.1: the ends, and one between
TOKEN_FRACTIONS = (0.1, 0.2, 0.3)  # of the tokens of a sentence
PATCH_SIZES = (15, 20, 25)
PATCH_SIGMAS = (0.01, 0.05, 0.1)
WEIGHT_DECAYS = (5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3)  # not in the paper
