"""The methods of the study, each with cross-entropy and with adjusted logits, over lambda or sigma.

    XE                cross-entropy
    recommended       `poise.balanced_contrast` as it is: random, adjusted, with a constant lambda
    AugMix            images mixed with their augmentations; AugMix+recommended is the recommended one with it
    XE+Gaussian       a second cross-entropy on noisy inputs with the weight of the first, over sigma
    Gaussian noise    noise on half of every batch, over sigma
    Patch Gaussian    noise inside a square, over sigma
    CL+Gaussian       a contrast with noise on all features, over lambda
    random            a contrast with noise on random features, over lambda
    FCL               a contrast with noise on the least useful features, over lambda
    oracle            FCL with the true utility, which only made data have, over lambda

A method is called "NAME SETTING", adjusted "NAME, adjusted SETTING".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from poise.data.augment import Augmentation, GaussianNoise, PatchGaussian
from poise.data.augmix import AugMix
from poise.features.external import EqualUtility
from poise.features.perturbation import Gaussian, Perturbation
from poise.features.selection import AtRandomFraction, TopBottomFraction
from poise.features.utility import GradientUtility, Utility
from poise.losses import CrossEntropy, ExampleLoss, LogitAdjusted
from poise.objectives.balanced import balanced_contrast
from poise.objectives.contrast import InfoNCE
from poise.objectives.fcl import FCL
from poise.objectives.gaussian import CLGaussian, XEGaussian
from poise.objectives.jensen_shannon import JensenShannon
from poise.objectives.objective import XE, Objective
from poise.recipes.rare_details.measures import PairAccuracy
from poise.records.columns import Column
from poise.running.experiment import Experiment, Method
from poise.schedules import Ramp

SHARE = 1 / 3  # of the features on each side


@dataclass(frozen=True)
class Grid:
    """What the methods have in common on one kind of data.

    counts   training examples of each class.
    rising   lambda's schedule for a peak.
    lambdas  of the contrasts.
    sigmas   of noise on the input of a cross-entropy; none for text.
    patch    the side of Patch Gaussian's square; 0 leaves it out.
    perturb  the views of the contrasts.
    utility  the paper's.
    oracle   the true utility, if it is known.
    augment  what every method does to its inputs.
    """

    counts: tuple[int, ...]
    rising: Callable[[float], Ramp]
    lambdas: tuple[float, ...]
    sigmas: tuple[float, ...] = ()
    patch: int = 0
    perturb: Perturbation = Gaussian(0.5)
    utility: Utility = GradientUtility()
    oracle: Utility | None = None
    share: float = SHARE
    temperature: float = 0.1
    augment: Callable[[Augmentation | None], Any] = lambda more: more

    def methods(self) -> tuple[Method, ...]:
        """Those that answer the question first come first, so that a deadline cuts the others."""
        both = [(name, loss) for name, loss in (("", CrossEntropy()), (", adjusted", LogitAdjusted(self.counts)))]
        plain = tuple(Method(f"XE{word}", XE(loss), self.augment(None)) for word, loss in both)
        families = (self._contrasts, self._noises)
        best = balanced_contrast(self.counts, perturb=self.perturb, share=self.share, temperature=self.temperature)
        return (
            *plain,
            Method("recommended", best, self.augment(None)),
            *self._mixed({**{f"AugMix{word}": XE(loss) for word, loss in both}, "AugMix+recommended": best}),
            *(each for family in families for each in family(both)),
        )

    def _mixed(self, objectives: dict[str, Objective]) -> list[Method]:
        """The objectives with AugMix, if the inputs are images."""
        wrapped = {name: JensenShannon(each, AugMix()) for name, each in objectives.items() if self.sigmas}
        return [Method(name, each, self.augment(None)) for name, each in wrapped.items()]

    def _contrasts(self, both: Sequence[tuple[str, ExampleLoss]]) -> list[Method]:
        found: list[Method] = []
        for name, make in self._makers().items():
            for word, loss in both:
                found += [
                    Method(f"{name}{word} {peak:g}", make(self.rising(peak), loss), self.augment(None))
                    for peak in self.lambdas
                ]
        return found

    def _makers(self) -> dict[str, Callable[[Ramp, ExampleLoss], Objective]]:
        makers: dict[str, Callable[[Ramp, ExampleLoss], Objective]] = {
            "FCL": lambda weight, loss: self._fcl(self.utility, weight, loss),
            "random": lambda weight, loss: replace(
                self._fcl(EqualUtility(), weight, loss), select=AtRandomFraction(self.share)
            ),
        }
        if self.oracle is not None:
            oracle = self.oracle
            makers["oracle"] = lambda weight, loss: self._fcl(oracle, weight, loss)
        if isinstance(self.perturb, Gaussian):
            noise, contrast = self.perturb, InfoNCE(self.temperature)
            makers["CL+Gaussian"] = lambda weight, loss: CLGaussian(noise, contrast, weight, loss=loss)
        return makers

    def _fcl(self, utility: Utility, weight: Ramp, loss: ExampleLoss) -> FCL:
        contrast = InfoNCE(self.temperature)
        return FCL(utility, TopBottomFraction(self.share), self.perturb, contrast, weight, loss=loss)

    def _noises(self, both: Sequence[tuple[str, ExampleLoss]]) -> list[Method]:
        found: list[Method] = []
        for sigma in self.sigmas:
            for word, loss in both:
                second = XEGaussian(Gaussian(sigma), weight=1.0, loss=loss)
                found.append(Method(f"XE+Gaussian{word} {sigma:g}", second, self.augment(None)))
                noise: dict[str, Augmentation] = {"Gaussian noise": GaussianNoise(sigma)}
                patch: dict[str, Augmentation] = (
                    {"Patch Gaussian": PatchGaussian(self.patch, sigma)} if self.patch else {}
                )
                found += [
                    Method(f"{name}{word} {sigma:g}", XE(loss), self.augment(augment))
                    for name, augment in {**noise, **patch}.items()
                ]
        return found


def columns(clean: str, noisy: tuple[str, ...], rare: tuple[int, ...], pairs: bool) -> tuple[Column, ...]:
    """Both halves of the question: all classes and rare ones, without and with noise; worst class; pairs."""
    tested = (("", (clean,)), (", noise", noisy))
    found = [Column("clean", (clean,)), Column("noise", noisy)]
    found += [Column(f"rare{word}", tests, rare) for word, tests in tested]
    found += [Column(f"worst class{word}", tests, worst=True) for word, tests in tested]
    if pairs:
        found += [Column(f"pairs{word}", tuple(f"{test}, pairs" for test in tests)) for word, tests in tested]
    return tuple(found)


def study(
    base: Experiment, grid: Grid, clean: str, noisy: tuple[str, ...], rare: tuple[int, ...], pairs: bool
) -> Experiment:
    """The experiment with the methods of the grid and the columns of both halves."""
    methods = grid.methods()
    return replace(
        base,
        methods=methods,
        details={},
        paper={},
        measures=PairAccuracy() if pairs else None,
        watch=None,
        testing=True,
        columns=columns(clean, noisy, rare, pairs),
        groups=(tuple(method.name for method in methods),),
        rare_classes=rare,
        frontier=("noise", "rare"),
    )
