"""The design of an audit: which utility, sensitivity, perturbations and corruptions it uses.

float tensors   gradient utility, Jacobian sensitivity by probes, noise of several sigma on the least and most useful
                tenth of the features
tokens          removal utility, removal sensitivity, removal of several fractions of the least and most useful tokens
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch

from poise.checks import is_whole, require_number, require_several
from poise.classifier import Classifier, evaluating
from poise.corruptions.corrupt import Making, require_corruption
from poise.corruptions.protocols import CORRUPTIONS, SEVERITIES
from poise.features.perturbation import Gaussian, Perturbation, Remove
from poise.features.selection import Selection, TopBottomFraction
from poise.features.sensitivity import JacobianSensitivity, RemovalSensitivity
from poise.features.utility import GradientUtility, RemovalUtility, Utility
from poise.losses import CrossEntropy, ExampleLoss
from poise.tokens import Input, Tokens

SIGMAS = (0.1, 0.25, 0.5)
FRACTIONS = (0.1, 0.2, 0.4)
FAST = ("gaussian_noise", "motion_blur", "fog", "jpeg_compression")
FAST_SEVERITIES = (1, 3, 5)
PROBES = 16
_SMALL, _MIDDLE = 48, 128  # pixels up to which the constants made for 32 and 64 px fit best
_LEAST = 16


@dataclass(frozen=True)
class Step:
    """One strength of perturbation: sigma, or the fraction of tokens removed."""

    strength: float
    select: Selection
    perturb: Perturbation


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """The design for given data.

    making  the corruptions; None if the inputs are not images.
    loss    the loss of the model's own utility.
    worst_case  whether to attack some examples.
    notes   a sentence for each omission.
    """

    utility: Utility
    sensitivity: JacobianSensitivity | RemovalSensitivity
    steps: tuple[Step, ...]
    making: Making | None
    seed: int
    memory: int
    notes: tuple[str, ...] = ()
    loss: ExampleLoss = CrossEntropy()
    worst_case: bool = True

    @property
    def is_own(self) -> bool:
        """Whether the utility is that of the model itself."""
        return isinstance(self.utility, GradientUtility | RemovalUtility)

    @property
    def middle(self) -> int:
        """The index of the middle strength, which the numbers and the verdict use."""
        return len(self.steps) // 2


@dataclass(frozen=True, eq=False)
class AuditSettings:
    """The settings of an audit, as the user gave them."""

    utility: Utility | None = None
    sensitivity: JacobianSensitivity | RemovalSensitivity | None = None
    strengths: tuple[float, ...] | None = None
    fraction: float = 0.1
    probes: int | None = PROBES
    corruptions: str | Iterable[str] = "fast"
    severities: Iterable[int] | None = None
    seed: int = 0
    memory: int = 2**28


def make_plan(model: Classifier, x: Input, settings: AuditSettings) -> AuditPlan:
    """The plan for inputs like x; raise ValueError or TypeError for settings that do not apply to them."""
    memory, strengths = settings.memory, settings.strengths
    _check_strengths(strengths)
    select_corruptions(settings.corruptions, settings.severities)
    making: Making | None = None
    notes: tuple[str, ...] = ()
    if isinstance(x, Tokens):
        utility = settings.utility or RemovalUtility(memory=memory)
        sensitivity = settings.sensitivity or RemovalSensitivity(memory=memory)
        steps = tuple(Step(f, TopBottomFraction(f), Remove()) for f in strengths or FRACTIONS)
    else:
        utility = settings.utility or GradientUtility()
        utility.check(x)
        sensitivity = _cheapest(model, x, settings.sensitivity or JacobianSensitivity(settings.probes, memory=memory))
        steps = tuple(Step(s, TopBottomFraction(settings.fraction), Gaussian(s)) for s in strengths or SIGMAS)
        making, notes = _making(x, settings.corruptions, settings.severities, settings.seed)
    utility.check(x)
    return AuditPlan(utility, sensitivity, steps, making, settings.seed, memory, notes)


def noise_of(plan: AuditPlan) -> str:
    """The middle perturbation in words, with {} for the features that it is applied to."""
    step = plan.steps[plan.middle]
    if isinstance(step.perturb, Remove):
        return f"removal of the {{}} {100 * step.strength:.0f} % of the tokens"
    return f"noise of sigma {step.strength:g} on the {{}} features"


def _check_strengths(strengths: tuple[float, ...] | None) -> None:
    if strengths is None:
        return
    require_several("strengths", strengths)
    if not len(strengths):
        raise ValueError(f"strengths={strengths} must hold at least one number above 0")
    for place, strength in enumerate(strengths):
        require_number(f"strengths[{place}]", strength, above=0)


def _cheapest(model: Classifier, x: torch.Tensor, sensitivity: Any) -> Any:
    """The exact Jacobian if it needs no more backward passes than the probes; else probes in two equal halves."""
    if not isinstance(sensitivity, JacobianSensitivity) or sensitivity.probes is None:
        return sensitivity
    if sensitivity.at == "embedding":
        with evaluating(model), torch.no_grad():
            width = model.embed(x[:2]).flatten(1).shape[1]
        if width <= sensitivity.probes:
            return replace(sensitivity, probes=None)
    return replace(sensitivity, probes=2 * max(1, sensitivity.probes // 2))


def _making(
    x: torch.Tensor, corruptions: str | Iterable[str], severities: Iterable[int] | None, seed: int
) -> tuple[Making | None, tuple[str, ...]]:
    names, levels = select_corruptions(corruptions, severities)
    if not names:
        return None, ()
    if reason := corruption_problem(tuple(x.shape[1:])):
        return None, (reason,)
    low, high = float(x.min()), float(x.max())
    if low < 0 or high > 1:
        return None, (
            f"no corruptions: they need images in [0, 1], got {low:.3g} to {high:.3g}. The sigmas of the noise assume "
            "[0, 1] too: move the normalization into the model",
        )
    height, width = x.shape[2:]
    side = max(height, width)
    profile = "cifar" if side <= _SMALL else "tiny" if side <= _MIDDLE else "imagenet"
    making = Making(names, levels, profile, seed)
    making.require_size(height, width)
    return making, ()


def corruption_problem(shape: tuple[int, ...]) -> str:
    """Why examples of this shape cannot be corrupted; "" if they can."""
    if len(shape) != 3 or shape[0] not in (1, 3):
        return f"no corruptions: they need images [3, H, W], got examples {list(shape)}"
    return "" if min(shape[1:]) >= _LEAST else f"no corruptions: images must be at least {_LEAST} pixels high and wide"


def select_corruptions(
    corruptions: str | Iterable[str], severities: Iterable[int] | None
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The names and severities of "fast" (one per group, three severities), "all" (19 x 5), "none", or a list."""
    words = {"fast": FAST, "all": CORRUPTIONS, "none": ()}
    if isinstance(corruptions, str) and corruptions not in words:
        raise ValueError(f"corruptions={corruptions!r} must be 'fast', 'all', 'none', or a list of names")
    require_several("corruptions", () if isinstance(corruptions, str) else corruptions)
    names = words[corruptions] if isinstance(corruptions, str) else tuple(dict.fromkeys(corruptions))
    for name in names:
        require_corruption(name)
    levels = SEVERITIES if corruptions == "all" else FAST_SEVERITIES
    if severities is None:
        return names, levels
    require_several("severities", severities)
    severities = tuple(severities)
    for severity in severities:
        if not is_whole(severity) or severity not in SEVERITIES:
            raise ValueError(f"severity={severity!r} must be 1, 2, 3, 4 or 5")
    return names, tuple(sorted(set(severities)))
