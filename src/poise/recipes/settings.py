"""Common settings of the recipes: the length of training (full, compressed, quick), and the paper's grids for sweeps.

The grids are those of section 4.3 and appendix C. Where the paper gives only the ends of a range,
"[0.0001...0.0004]", the values between are those of appendix C or ours.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Length:
    """A number of epochs and images. The recipe's epochs and steps scale with the length of the run.

    of_epochs, of_steps  the length of the full recipe.
    looks_at             what a quick look uses, for its title.
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
        """The steps of the whole run."""
        return self.epochs * (self.images // self.batch)

    def epoch(self, number: int) -> int:
        """The step of this run that corresponds to the start of an epoch of the recipe."""
        return round(self.steps * number / self.of_epochs)

    def step(self, number: int) -> int:
        """The step of this run that corresponds to a step of the recipe."""
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
