"""The methods to compare, with their settings, and the Python that makes each of them.

    XE                 cross-entropy
    XE+Gaussian        a second cross-entropy on inputs with Gaussian noise, over sigma; pictures and tables
    XE+deletion        cross-entropy on texts of which a share of the tokens is deleted; texts
    CL+Gaussian        a contrast with Gaussian noise on all features, over lambda; pictures and tables
    random features    a contrast with noise on random features, over lambda
    FCL                a contrast with noise on the least useful features, over lambda
    ..., adjusted      the same with adjusted logits; "balanced_contrast" is "random features, adjusted"

A candidate is called "NAME SETTING". The setting is sigma, the share of tokens, or lambda.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from poise.advising.own_data import Kind, OwnData
from poise.data.loading.sentences import PieceDropout
from poise.features.external import EqualUtility
from poise.features.perturbation import Gaussian, Remove
from poise.features.selection import AtRandomFraction, TopBottomFraction
from poise.features.utility import GradientUtility, RemovalUtility
from poise.losses import CrossEntropy, ExampleLoss, LogitAdjusted
from poise.objectives.balanced import balanced_contrast
from poise.objectives.contrast import InfoNCE
from poise.objectives.fcl import FCL
from poise.objectives.gaussian import CLGaussian, XEGaussian
from poise.objectives.objective import XE, Objective
from poise.running.experiment import Method
from poise.schedules import Ramp

BASELINE = "XE"
RECOMMENDED = "balanced_contrast"
EVEN = 1.5  # largest class / smallest class: below, adjusted logits are nearly those of cross-entropy
SHARE, TEXT_SHARE, TEMPERATURE = 1 / 3, 0.15, 0.1
_SIGMA = 0.5  # of the contrasts' views
_SIGMAS = {"pictures": (0.1, 0.3), "table": (0.25, 0.75)}
_LAMBDAS = (0.01, 0.1)
_DELETED = (0.1, 0.3)
_WARM_UP = 0.1  # of the steps without a contrast, and as many in which lambda rises


@dataclass(frozen=True)
class Candidate:
    """A method to compare, and the expression that makes its objective, with `counts` for those of the classes."""

    family: str
    setting: float | None
    objective: Objective
    code: str
    deleted: float = 0.0

    @property
    def name(self) -> str:
        return self.family if self.setting is None else f"{self.family} {self.setting:g}"

    @property
    def method(self) -> Method:
        return Method(self.name, self.objective, PieceDropout(self.deleted) if self.deleted else None)


def candidates_for(data: OwnData, steps: int, few: bool = False) -> tuple[Candidate, ...]:
    """All candidates for a training of `steps` steps, cross-entropy first; with `few`, one setting of each method."""
    uneven = max(data.counts) / min(data.counts) >= EVEN
    losses = [_Loss("", CrossEntropy(), "")]
    if uneven:
        losses.append(_Loss(", adjusted", LogitAdjusted(data.counts), ", loss=poise.LogitAdjusted(counts)"))
    found = [Candidate(f"XE{loss.word}", None, XE(loss.loss), f"poise.XE({loss.code[2:]})") for loss in losses]
    for loss in losses:
        text = data.kind == "text"
        found += _deletions(loss, few) if text else _noises(data.kind, loss, few)
        for weight in _LAMBDAS[1:] if few else _LAMBDAS:
            ramp = Ramp(weight, start=int(_WARM_UP * steps), length=int(_WARM_UP * steps))
            found += _text_contrasts(data, loss, ramp) if text else _contrasts(data, loss, ramp)
    return tuple(found)


@dataclass(frozen=True)
class _Loss:
    """A loss per example, the word for it in names, and the argument that passes it."""

    word: str
    loss: ExampleLoss
    code: str


def _noises(kind: Kind, loss: _Loss, few: bool) -> Iterator[Candidate]:
    for sigma in _SIGMAS[kind][few:]:
        made = XEGaussian(Gaussian(sigma), 1.0, loss=loss.loss)
        code = f"poise.XEGaussian(poise.Gaussian({sigma}), weight=1.0{loss.code})"
        yield Candidate(f"XE+Gaussian{loss.word}", sigma, made, code)


def _deletions(loss: _Loss, few: bool) -> Iterator[Candidate]:
    for share in _DELETED[few:]:
        yield Candidate(f"XE+deletion{loss.word}", share, XE(loss.loss), f"poise.XE({loss.code[2:]})", share)


def _contrasts(data: OwnData, loss: _Loss, weight: Ramp) -> Iterator[Candidate]:
    noise, contrast = Gaussian(_SIGMA), InfoNCE(TEMPERATURE)
    slots = f"poise.{noise!r}, poise.{contrast!r}, poise.{weight!r}{loss.code})"
    plain = CLGaussian(noise, contrast, weight, loss=loss.loss)
    yield Candidate(f"CL+Gaussian{loss.word}", weight.peak, plain, f"poise.CLGaussian({slots}")
    fcl = FCL(GradientUtility(), TopBottomFraction(SHARE), noise, contrast, weight, loss=loss.loss)
    choice = "poise.GradientUtility(), poise.TopBottomFraction(1 / 3)"
    yield Candidate(f"FCL{loss.word}", weight.peak, fcl, f"poise.FCL({choice}, {slots}")
    if loss.word:
        balanced = balanced_contrast(data.counts, weight)
        yield Candidate(RECOMMENDED, weight.peak, balanced, f"poise.balanced_contrast(counts, poise.{weight!r})")
        return
    random = FCL(EqualUtility(), AtRandomFraction(SHARE), noise, contrast, weight)
    choice = "poise.EqualUtility(), poise.AtRandomFraction(1 / 3)"
    yield Candidate("random features", weight.peak, random, f"poise.FCL({choice}, {slots}")


def _text_contrasts(data: OwnData, loss: _Loss, weight: Ramp) -> Iterator[Candidate]:
    remove, contrast, share = Remove(), InfoNCE(TEMPERATURE), TEXT_SHARE
    slots = f"poise.Remove(), poise.{contrast!r}, poise.{weight!r}{loss.code})"
    fcl = FCL(RemovalUtility(), TopBottomFraction(share), remove, contrast, weight, loss=loss.loss)
    choice = f"poise.RemovalUtility(), poise.TopBottomFraction({share})"
    yield Candidate(f"FCL{loss.word}", weight.peak, fcl, f"poise.FCL({choice}, {slots}")
    if loss.word:
        balanced = balanced_contrast(data.counts, weight, share=share, perturb=remove)
        code = f"poise.balanced_contrast(counts, poise.{weight!r}, share={share}, perturb=poise.Remove())"
        yield Candidate(RECOMMENDED, weight.peak, balanced, code)
        return
    random = FCL(EqualUtility(), AtRandomFraction(share), remove, contrast, weight)
    choice = f"poise.EqualUtility(), poise.AtRandomFraction({share})"
    yield Candidate("random features", weight.peak, random, f"poise.FCL({choice}, {slots}")
