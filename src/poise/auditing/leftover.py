"""What the labels would reward and the model does not do: features that are left unused, or used too much.

A model's own utility cannot show what it is blind to: where s_j = 0, u_j = 0. But then its errors go with the feature.
With r = onehot(y) - p, centred, and a feature v, centred and of variance 1, over the examples,

    g_c = mean of r_c v                       the score of one more weight, from v to the logit of class c
    gain = 1/2 sum_c g_c^2 / mean p_c(1-p_c)  what that weight would take off the mean loss, to second order

The largest correlation of a feature with any r_c is compared with the largest of all features and classes in each of
500 permutations of the examples, which counts everything that was tried (maxT). p is first brought to the temperature
that fits best, or every overconfident model would seem to overuse everything.

    unused     the embedding is less than half as sensitive to the feature as to the median one
    overused   it is more than twice as sensitive, and the logits go with the feature against its score
    unclear    neither

Features must stand at fixed places (units.py), or be words; in photographs that are not aligned, nothing will be found.

Axes: N examples, L classes, J units.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

LEVEL = 0.02
LEAST_GAIN = 0.05  # of the mean loss
_PERMUTATIONS = 500
_LEAST_EXAMPLES = 30
_CLASSES = 50
_SHOWN = 5


@dataclass(frozen=True)
class Leftover:
    """A feature that goes with the model's errors.

    kind   "unused", "overused" or "unclear".
    gain   the share of the mean loss that one weight on this feature would take off.
    p      of the permutation test, over all features and classes tried.
    """

    kind: str
    unit: int
    name: str
    label: int
    correlation: float
    gain: float
    p: float

    @property
    def counts(self) -> bool:
        """Whether it is significant and large enough to matter."""
        return self.p < LEVEL and self.gain >= LEAST_GAIN

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def leftover(
    logits: np.ndarray, labels: np.ndarray, values: np.ndarray, sensitivity: np.ndarray, names: list[str], seed: int = 0
) -> list[Leftover]:
    """The features that go with the errors most, at most five; none where there are too few examples to tell.

    logits [N, L], labels [N], values [N, J]; sensitivity [J], the mean over examples.
    """
    usable = np.flatnonzero(values.std(0) > 1e-9)
    if len(labels) < _LEAST_EXAMPLES or not len(usable):
        return []
    features = _standard(values[:, usable])
    p = _softmax(logits / temperature(logits, labels))
    residual = (np.arange(p.shape[1]) == labels[:, None]) - p
    kept = np.argsort(-residual.var(0), kind="stable")[:_CLASSES]
    kept = kept[residual[:, kept].std(0) > 1e-9]
    if not len(kept):
        return []
    errors = _standard(residual[:, kept])
    correlations = errors.T @ features / len(labels)  # [L, J]
    scores = (residual - residual.mean(0)).T @ features / len(labels)
    loss = -np.log(np.maximum(p[np.arange(len(labels)), labels], 1e-12)).mean()
    gains = 0.5 * (scores**2 / np.maximum((p * (1 - p)).mean(0), 1e-9)[:, None]).sum(0) / max(loss, 1e-9)
    follows = (scores * ((logits - logits.mean(0)).T @ features)).sum(0)
    largest = np.abs(correlations).max(0)
    chance = _permuted(errors, features, seed)
    found = []
    for column in np.argsort(-largest, kind="stable")[:_SHOWN]:
        unit, row = int(usable[column]), int(np.abs(correlations[:, column]).argmax())
        kind = _kind(float(sensitivity[unit]), float(np.median(sensitivity)), float(follows[column]))
        beaten = (1 + int((chance >= largest[column]).sum())) / (1 + len(chance))
        shares = float(correlations[row, column]), float(min(gains[column], 1.0)), beaten
        found.append(Leftover(kind, unit, names[unit], int(kept[row]), *shares))
    return found


def temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """T that makes softmax(logits / T) fit the labels best, between 1/20 and 20, by golden section on log T."""
    low, high, part = -3.0, 3.0, (5**0.5 - 1) / 2
    for _ in range(40):
        left, right = high - part * (high - low), low + part * (high - low)
        if _loss(logits / np.exp(left), labels) < _loss(logits / np.exp(right), labels):
            high = right
        else:
            low = left
    return float(np.exp((low + high) / 2))


def _kind(sensitivity: float, typical: float, follows: float) -> str:
    if sensitivity < typical / 2:
        return "unused"
    return "overused" if sensitivity > 2 * typical and follows < 0 else "unclear"


def _permuted(errors: np.ndarray, features: np.ndarray, seed: int) -> np.ndarray:
    """The largest correlation of all in each permutation."""
    generator = np.random.default_rng(seed)
    orders = (generator.permutation(len(errors)) for _ in range(_PERMUTATIONS))
    return np.array([np.abs(errors[order].T @ features).max() / len(errors) for order in orders])


def _standard(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = (values - values.mean(0)) / values.std(0)
    return found


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    found: np.ndarray = powers / powers.sum(1, keepdims=True)
    return found


def _loss(logits: np.ndarray, labels: np.ndarray) -> float:
    top = logits.max(1)
    total = top + np.log(np.exp(logits - top[:, None]).sum(1))
    return float((total - logits[np.arange(len(labels)), labels]).mean())
