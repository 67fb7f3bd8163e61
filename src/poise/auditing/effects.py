"""What a model makes of a feature that goes with its errors: measured by taking the feature away.

A word is removed wherever it stands; a unit of a tensor gets its mean over the examples. With f the scaled logits, f'
those without the feature, and w the change of the logits that the labels would reward (leftover.py), all centred over
classes,

    use      sum of (f - f') w / sum of w w          how far the model goes that way by itself: 0 not at all
    without  1 - mean loss(f') / mean loss(f)        what the feature costs: above 0 the model does better without it

    overused   use is below 0: the model goes the wrong way; and without is at least 5 % of the loss
    unused     use is between -1/4 and 1/4, and the embedding moves with the feature no more than with others (at most
               1.5 times as much as with the median one)
    unclear    the rest: the error of the measurement covers a border, or the model goes the right way, but not far

where use counts with 2.6 standard errors over examples, which leaves 1 % to chance.

Axes: N examples, L classes, M examples that were kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

LEAST_COST = 0.05  # of the mean loss
MOST_USE = 0.25
MOST_SENSITIVE = 1.5  # times the median
STANDARD_ERRORS = 2.576  # leave 1 % to chance
_LEAST_EXAMPLES = 30


@dataclass(frozen=True, eq=False)
class Removing:
    """logits [M, L] of the first M examples without some units; `rest` [J] are the values that these then have.

    sensitivity  [J] how far the embedding moves with each, the mean over examples.
    """

    without: Callable[[Sequence[int]], np.ndarray]
    rest: np.ndarray
    sensitivity: np.ndarray

    def hardly_seen(self, unit: int) -> bool:
        """Whether the embedding moves no more with it than with others."""
        return bool(self.sensitivity[unit] <= MOST_SENSITIVE * np.median(self.sensitivity))


@dataclass(frozen=True, eq=False)
class Push:
    """One weight on a feature: what it adds to the logits of the examples inside.

    values  [N] of the feature.
    step    [L] or [N, L] for one standard deviation.
    inside  [N] which examples it is about.
    """

    values: np.ndarray
    step: np.ndarray
    inside: np.ndarray

    def wanted(self, beside: float | None = None) -> np.ndarray:
        """[N, L] relative to the mean value, or to another one."""
        held = self.values[self.inside]
        spread = max(float(held.std()), 1e-12)
        away = (self.values - (held.mean() if beside is None else beside)) / spread * self.inside
        found: np.ndarray = away[:, None] * self.step
        return found


def measured_effect(
    logits: np.ndarray, labels: np.ndarray, push: Push, removing: Removing, unit: int, warmth: float
) -> tuple[str, float | None, float | None]:
    """The kind, the use of the feature, and the share of the loss that goes without it."""
    less = removing.without([unit])
    count = len(less)
    if count < _LEAST_EXAMPLES:
        return "unclear", None, None
    scaled, left, labels = logits[:count] / warmth, less / warmth, labels[:count]
    effect, wanted = _centred(scaled - left), _centred(push.wanted(float(removing.rest[unit]))[:count])
    size = max(float((wanted**2).sum()), 1e-12)
    use = float((effect * wanted).sum()) / size
    slack = STANDARD_ERRORS * float(np.sqrt((((effect - use * wanted) * wanted).sum(1) ** 2).sum())) / size
    loss = max(float(loss_of(scaled, labels).mean()), 1e-9)
    share = 1 - float(loss_of(left, labels).mean()) / loss
    if use + slack < 0 and share >= LEAST_COST:
        return "overused", use, share
    unused = abs(use) + slack < MOST_USE and removing.hardly_seen(unit)
    return "unused" if unused else "unclear", use, share


def temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """T that makes softmax(logits / T) fit the labels best, between 1/20 and 20, by golden section on log T."""
    low, high, part = -3.0, 3.0, (5**0.5 - 1) / 2
    for _ in range(40):
        left, right = high - part * (high - low), low + part * (high - low)
        if loss_of(logits / np.exp(left), labels).mean() < loss_of(logits / np.exp(right), labels).mean():
            high = right
        else:
            low = left
    return float(np.exp((low + high) / 2))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over classes [N, L]."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    found: np.ndarray = powers / powers.sum(1, keepdims=True)
    return found


def loss_of(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The cross-entropy of each example [N]."""
    top = logits.max(1)
    total = top + np.log(np.exp(logits - top[:, None]).sum(1))
    found: np.ndarray = total - logits[np.arange(len(labels)), labels]
    return found


def _centred(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = values - values.mean(1, keepdims=True)
    return found
