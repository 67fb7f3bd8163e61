"""What the labels would reward and the model does not do: features that are left unused, or used too much.

A model's own utility cannot show what it is blind to: where s_j = 0, u_j = 0. But then its errors go with the feature.
With a residual r, centred, and a feature v, centred and of variance 1, over n examples,

    g = mean of r v                           the score of one more weight, from v to a logit
    gain = 1/2 g^2 / mean p(1-p)              what that weight would take off the mean loss, to second order

    overall    r_c = [y = c] - p_c for each class c, over all examples; gains add up over classes
    exception  r = [right] - confidence, over the examples that are taken for one class: what turns the answer round

z = sqrt(n) corr(r, v) of each feature is compared with the largest of all features and classes in each of 500
permutations of the examples, which counts everything that was tried (maxT), and p is doubled for the two families.
Probabilities are first brought to the temperature that fits best, or every overconfident model would seem to overuse
everything.

    unused     the embedding is less than half as sensitive to the feature as to the median one
    overused   it is more than five times as sensitive, and the logits go with the feature against its score
    unclear    neither

Features must stand at fixed places (units.py), or be words; in photographs that are not aligned, nothing will be found.

Axes: N examples, L classes, J units, P permutations.
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
_CONSTANT = 1e-9


@dataclass(frozen=True)
class Leftover:
    """A feature that goes with the model's errors.

    kind   "unused", "overused" or "unclear".
    label  the class whose errors it goes with.
    gain   the share of the mean loss that one weight on this feature would take off.
    p      of the permutation test, over all features and classes tried.
    """

    kind: str
    unit: int
    name: str
    label: int
    z: float
    gain: float
    p: float

    @property
    def counts(self) -> bool:
        """Whether it is significant and large enough to matter."""
        return self.p < LEVEL and self.gain >= LEAST_GAIN

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class _Tests:
    """One family: for each row, of a class, z, the gain and whether the logits follow the score, of all features."""

    labels: list[int]
    z: np.ndarray  # [rows, J]
    gain: np.ndarray  # [rows, J] in nats
    follows: np.ndarray  # [rows, J]
    chance: np.ndarray  # [P] the largest |z| of all


def leftover(
    logits: np.ndarray, labels: np.ndarray, values: np.ndarray, sensitivity: np.ndarray, names: list[str], seed: int = 0
) -> list[Leftover]:
    """The features that go with the errors most, at most five; none where there are too few examples to tell.

    logits [N, L], labels [N], values [N, J]; sensitivity [J], the mean over examples.
    """
    usable = np.flatnonzero(values.std(0) > _CONSTANT)
    if len(labels) < _LEAST_EXAMPLES or not len(usable):
        return []
    p = _softmax(logits / temperature(logits, labels))
    loss = max(float(-np.log(np.maximum(p[np.arange(len(labels)), labels], 1e-12)).mean()), 1e-9)
    found: dict[int, Leftover] = {}
    for tests in (
        _overall(logits, p, labels, values[:, usable], seed),
        _exceptions(logits, p, labels, values[:, usable], seed),
    ):
        if tests is None:
            continue
        for column in np.argsort(-np.abs(tests.z).max(0), kind="stable")[:_SHOWN]:
            unit, row = int(usable[column]), int(np.abs(tests.z[:, column]).argmax())
            beaten = (1 + int((tests.chance >= abs(tests.z[row, column])).sum())) / (1 + len(tests.chance))
            kind = _kind(float(sensitivity[unit]), float(np.median(sensitivity)), float(tests.follows[row, column]))
            gain = min(1.0, float(tests.gain[row, column]) / loss)
            one = Leftover(
                kind, unit, names[unit], tests.labels[row], float(tests.z[row, column]), gain, min(1.0, 2 * beaten)
            )
            if unit not in found or one.p < found[unit].p:
                found[unit] = one
    return sorted(found.values(), key=lambda each: (each.p, -abs(each.z)))[:_SHOWN]


def _overall(logits: np.ndarray, p: np.ndarray, labels: np.ndarray, values: np.ndarray, seed: int) -> _Tests | None:
    residual = (np.arange(p.shape[1]) == labels[:, None]) - p
    kept = np.argsort(-residual.var(0), kind="stable")[:_CLASSES]
    kept = kept[residual[:, kept].std(0) > _CONSTANT]
    if not len(kept):
        return None
    count, features, errors = len(labels), _standard(values), _standard(residual[:, kept])
    scores = (residual - residual.mean(0)).T @ features / count  # [L, J]
    gain = 0.5 * (scores**2 / np.maximum((p * (1 - p)).mean(0), 1e-9)[:, None]).sum(0)
    follows = (scores * ((logits - logits.mean(0)).T @ features)).sum(0)
    rows = (len(kept), values.shape[1])
    z = errors.T @ features / np.sqrt(count)
    return _Tests(
        kept.tolist(), z, np.broadcast_to(gain, rows), np.broadcast_to(follows, rows), _permuted(errors, features, seed)
    )


def _exceptions(logits: np.ndarray, p: np.ndarray, labels: np.ndarray, values: np.ndarray, seed: int) -> _Tests | None:
    taken_for, found = p.argmax(1), []
    for label in np.unique(taken_for):
        inside = np.flatnonzero(taken_for == label)
        residual = (labels[inside] == label) - p[inside, label]
        if len(inside) < _LEAST_EXAMPLES or residual.std() < _CONSTANT:
            continue
        spread = values[inside].std(0) > _CONSTANT
        features = _standard(values[inside]) * spread
        errors = _standard(residual[:, None])
        score = (residual - residual.mean()) @ features / len(labels)
        sure = max(float((p[inside, label] * (1 - p[inside, label])).sum()) / len(labels), 1e-9)
        margin = logits[inside, label] - logits[inside].mean(1)
        follows = score * ((margin - margin.mean()) @ features)
        z = errors[:, 0] @ features / np.sqrt(len(inside))
        found.append((int(label), z, 0.5 * score**2 / sure, follows, _permuted(errors, features, seed)))
    if not found:
        return None
    names, z, gains, follows, chances = zip(*found, strict=True)
    return _Tests(list(names), np.stack(z), np.stack(gains), np.stack(follows), np.max(chances, 0))


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
    return "overused" if sensitivity > 5 * typical and follows < 0 else "unclear"


def _permuted(errors: np.ndarray, features: np.ndarray, seed: int) -> np.ndarray:
    """The largest |z| of all in each permutation [P]."""
    generator = np.random.default_rng(seed)
    orders = (generator.permutation(len(errors)) for _ in range(_PERMUTATIONS))
    return np.array([np.abs(errors[order].T @ features).max() / np.sqrt(len(errors)) for order in orders])


def _standard(values: np.ndarray) -> np.ndarray:
    """Centred, of variance 1; what is constant becomes 0."""
    spread = values.std(0)
    found: np.ndarray = (values - values.mean(0)) / np.where(spread > _CONSTANT, spread, np.inf)
    return found


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    found: np.ndarray = powers / powers.sum(1, keepdims=True)
    return found


def _loss(logits: np.ndarray, labels: np.ndarray) -> float:
    top = logits.max(1)
    total = top + np.log(np.exp(logits - top[:, None]).sum(1))
    return float((total - logits[np.arange(len(labels)), labels]).mean())
