"""The task of section 4.2: synthetic MNIST, tested plain and with two kinds of noise (appendix B)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from poise.data.cache import load
from poise.data.noise import PixelNoise, pixel_deviation
from poise.data.synthetic_mnist import Digits, SyntheticMNIST
from poise.data.task import Examples, Make, Task


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

        def noisy(uniform: bool, share: float) -> Make:
            noise = PixelNoise(share=share, uniform=uniform, seed=self.noise_seed)
            return _once(lambda: Examples(noise(test.x, deviation), test.y))

        def validated(uniform: bool) -> Make:
            noise = PixelNoise(share=self.noise, uniform=uniform, seed=self.noise_seed + 1)
            return _once(lambda: Examples(noise(validation.x, deviation), validation.y))

        return Task(
            train=_examples(parts["train"]),
            validation=_examples(validation),
            tests={
                "BAL": lambda _: _examples(test),
                "BAL+UN": noisy(True, self.noise),
                "BAL+NUN": noisy(False, self.noise),
                **{f"UN/{100 * share:g}": noisy(True, share) for share in self.levels},
                **{f"NUN/{100 * share:g}": noisy(False, share) for share in self.levels},
            },
            num_classes=15,
            validations={
                "validation": lambda _: _examples(validation),
                "validation+UN": validated(True),
                "validation+NUN": validated(False),
            },
        )


def _once(make: Callable[[], Examples]) -> Make:
    """Made when it is first asked for, and kept."""
    made = cache(make)
    return lambda device: made()


def _examples(digits: Digits) -> Examples:
    return Examples(digits.x, digits.y)
