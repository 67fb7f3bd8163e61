"""Worst case, lightly: how small a change, chosen against the model, turns its answers.

    m(x') = f_a(x') - max over c != a of f_c(x')     a is the answer for x; x' turns it if m(x') < 0
    radius(x) = min ||x' - x||_p                     over the x' found that turn it; p is inf or 2

Projected gradient descent lowers m in 20 steps. The ball that it stays in has the radius

    m / ||grad m||_q                 at first, with 1/p + 1/q = 1: the exact distance if the model is linear
    + m / ||grad m||_q               while nothing turns the answer
    smaller or larger by a share     afterwards, if the last step turned it or not; the share falls from 1/4 to 1/100

and bisection then shortens the best change. Pictures in [0, 1] stay there. An attack gives an upper bound: a stronger
one may find less. It certifies nothing.

Axes: N examples, B of them, *D features of one example, L classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, cos, inf, nan, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poise.auditing.estimates.numbers import Number
from poise.auditing.reliance import Answers
from poise.classifier import Classifier, evaluating
from poise.features.utility import rows_within

NORMS = {"linf": inf, "l2": 2.0}
STEPS = 20
LEAST, MOST = 10, 50  # examples
_PART = 10  # one example of so many is attacked: less than a fifth of the audit's cost
_HALVINGS = 8
_BEYOND = 1.02  # times the distance to the border, to cross it
_WIDEST, _NARROWEST = 0.25, 0.01  # share of the radius that a step changes
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The radii [N] of one norm, "linf" or "l2"; inf where no attack turned the answer."""

    norm: str
    radii: np.ndarray

    def as_dict(self) -> dict[str, Any]:
        return {
            "norm": self.norm,
            "steps": STEPS,
            "radius": median(self.radii).as_dict(),
            "radii": [float(radius) if np.isfinite(radius) else None for radius in self.radii],
        }


def worst_case(held: Answers, memory: int) -> list[WorstCase]:
    """The radii of the first examples in both norms; none for tokens, or with fewer than 10 examples."""
    x = held.x
    if not isinstance(x, Tensor) or len(x) < LEAST:
        return []
    device = next((p.device for p in held.model.parameters()), torch.device("cpu"))
    count = min(MOST, max(LEAST, len(x) // _PART))
    box = (0.0, 1.0) if x.ndim == 4 and bool((x >= 0).all() and (x <= 1).all()) else (-inf, inf)
    answers = torch.from_numpy(held.predicted[:count])
    with evaluating(held.model):
        size = rows_within(memory, held.model, held.model.embed, x[:1].to(device), "embedding")
        parts = [torch.split(each.to(device), size) for each in (x[:count], answers)]
        found = []
        for name, p in NORMS.items():
            radii = [turning_radii(held.model, a, b, p, box) for a, b in zip(*parts, strict=True)]
            found.append(WorstCase(name, torch.cat(radii).cpu().numpy()))
        return found


def turning_radii(
    model: Classifier, x: Tensor, answers: Tensor, p: float, box: tuple[float, float] = (-inf, inf)
) -> Tensor:
    """The smallest ||x' - x||_p [B] found for which the answer [B] for x changes; inf if none was found."""
    moved, radii, kept = x, x.new_full((len(x),), inf), x
    for step in range(STEPS):
        margin, slope = _margin(model, moved, answers)
        size, turned = _size(moved - x, p), margin < 0
        shorter = turned & (size < radii)
        radii, kept = radii.where(~shorter, size), kept.where(~_wide(shorter, x), moved)
        slope = slope * torch.where(slope > 0, moved > box[0], moved < box[1])  # only where the box leaves room
        decay = (1 + cos(pi * step / STEPS)) / 2
        share = _NARROWEST + (_WIDEST - _NARROWEST) * decay
        reach = _reach(size, margin, _size(slope, _dual(p)), radii, share)
        stride = _wide(reach * (0.1 + 0.9 * decay), x)
        moved = _inside(moved - stride * _steepest(slope, p) - x, reach, p)
        moved = (x + moved).clamp(*box)
    return _shortened(model, x, kept, answers, radii)


def _reach(size: Tensor, margin: Tensor, slope: Tensor, radii: Tensor, share: float) -> Tensor:
    """The radius [B] of the next ball."""
    first = size + _BEYOND * margin.clamp(min=0) / slope.clamp(min=_TINY)
    again = torch.where(margin < 0, (1 - share) * size, (1 + share) * size).minimum((1 - share / 2) * radii)
    return torch.where(radii.isfinite(), again, first)


def _margin(model: Classifier, x: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
    """m(x) [B] and its gradient [B, *D]."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        margin = _lead(model.head(model.embed(x)), answers)
        (slope,) = torch.autograd.grad(margin.sum(), x)
    return margin.detach(), slope.detach()


def _lead(logits: Tensor, answers: Tensor) -> Tensor:
    """How far the logit of the answer is above all others [B]."""
    chosen = answers[:, None]
    return (logits.gather(1, chosen) - logits.scatter(1, chosen, -inf).amax(1, keepdim=True))[:, 0]


@torch.no_grad()
def _shortened(model: Classifier, x: Tensor, kept: Tensor, answers: Tensor, radii: Tensor) -> Tensor:
    """The radii after bisection of the way from x to the best changes."""
    low, high = torch.zeros_like(radii), torch.ones_like(radii)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        turned = _lead(model.head(model.embed(x + _wide(middle, x) * (kept - x))), answers) < 0
        low, high = low.where(turned, middle), high.where(~turned, middle)
    return radii * high


def _dual(p: float) -> float:
    return 1.0 if p == inf else 2.0


def _size(values: Tensor, p: float) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(values.flatten(1), p, dim=1)
    return found


def _steepest(slope: Tensor, p: float) -> Tensor:
    """The direction of norm 1 in which the margin rises most."""
    return slope.sign() if p == inf else slope / _wide(_size(slope, 2).clamp(min=_TINY), slope)


def _inside(change: Tensor, reach: Tensor, p: float) -> Tensor:
    """The nearest change within the ball."""
    ends = _wide(reach, change)
    if p == inf:
        return change.maximum(-ends).minimum(ends)
    return change * (ends / _wide(_size(change, 2).clamp(min=_TINY), change)).clamp(max=1)


def _wide(values: Tensor, x: Tensor) -> Tensor:
    """[B] → [B, 1, ...], to fit x."""
    return values.view(-1, *[1] * (x.ndim - 1))


def median(values: np.ndarray) -> Number:
    """The median [N] with the interval of its order statistics, whatever the distribution; inf counts as large."""
    ordered, count = np.sort(values), len(values)
    below = np.cumsum([comb(count, k) / 2**count for k in range(count)])
    rank = int((below <= 0.025).sum())  # P(fewer than `rank` values below the median) <= .025
    low, high = (ordered[rank - 1], ordered[count - rank]) if rank else (nan, nan)
    return Number(float(np.median(ordered)), float(low), float(high), count)


def paired_radii(entries: Sequence[dict[str, Any]], count: int) -> dict[str, np.ndarray]:
    """{"linf_radius": [count], ...} of audit.json's `worst_case`; nan where nothing was found or attacked."""
    found = {}
    for each in entries:
        radii = [nan if radius is None else radius for radius in each["radii"]][:count]
        found[f"{each['norm']}_radius"] = np.array(radii + [nan] * (count - len(radii)))
    return found
