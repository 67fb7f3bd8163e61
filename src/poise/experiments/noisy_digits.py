"""The task of section 4.2: synthetic MNIST, tested plain and with two kinds of noise (appendix B)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from poise.data.cache import load
from poise.data.noise import PixelNoise, pixel_deviation
from poise.data.synthetic_mnist import Digits, SyntheticMNIST
from poise.data.task import Examples, Task


@dataclass(frozen=True)
class NoisyDigits:
    """The digits of a recipe, and the balanced test set plain, with uniform and with non-uniform noise.

    levels  more shares of noisy pixels to test, as UN/5 for 5 percent.

    Validation has the same two kinds of noise, from another seed, for sweeps that ask for it.
    """

    digits: SyntheticMNIST
    noise: float = 0.15
    noise_seed: int = 0
    levels: tuple[float, ...] = ()

    def __call__(self) -> Task:
        parts = self.digits({name: load("mnist", name) for name in ("train_x", "train_y", "test_x", "test_y")})
        deviation = pixel_deviation(parts["train"].x)
        test, validation = parts["test"], parts["validation"]

        @cache
        def noisy(uniform: bool, share: float) -> Examples:
            noise = PixelNoise(share=share, uniform=uniform, seed=self.noise_seed)
            return Examples(noise(test.x, deviation), test.y)

        @cache
        def validated(uniform: bool) -> Examples:
            noise = PixelNoise(share=self.noise, uniform=uniform, seed=self.noise_seed + 1)
            return Examples(noise(validation.x, deviation), validation.y)

        return Task(
            train=_examples(parts["train"]),
            validation=_examples(validation),
            tests={
                "BAL": lambda: _examples(test),
                "BAL+UN": lambda: noisy(True, self.noise),
                "BAL+NUN": lambda: noisy(False, self.noise),
                **{f"UN/{100 * share:g}": partial(noisy, True, share) for share in self.levels},
                **{f"NUN/{100 * share:g}": partial(noisy, False, share) for share in self.levels},
            },
            num_classes=15,
            validations={
                "validation": lambda: _examples(validation),
                "validation+UN": lambda: validated(True),
                "validation+NUN": lambda: validated(False),
            },
        )


def _examples(digits: Digits) -> Examples:
    return Examples(digits.x, digits.y)
