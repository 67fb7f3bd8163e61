"""What the labels would reward and the model does not do: features that are left unused, or used too much.

A model's own utility cannot show what it is blind to: where s_j = 0, u_j = 0. But then its errors go with the feature.
With a residual r, centred, and a feature v, centred and of variance 1, over n examples,

    z = sqrt(n) corr(r, v)

    overall    r_c = [y = c] - p_c for each class c, over all examples
    exception  r = [right] - confidence, over the examples that are taken for one class: what turns the answer round

z of each feature is compared with the largest of all features and classes in each of 500 permutations of the examples,
which counts everything that was tried (maxT), and p is doubled for the two families. Probabilities are first brought to
the temperature that fits best, or every overconfident model would seem to overuse everything.

    gain = 1 - min over t of loss(logits + t v d) / loss(logits)     what one weight on v, along d, would take off

That says that something is wrong with the feature, not what. What is wrong is measured by taking the feature away
(effects.py). An error may also go with a feature only because that one stands beside the culprit: where the model goes
the wrong way with some, others are unused only if the errors go with them still when those are taken away.

Features must stand at fixed places (units.py), or be words; in photographs that are not aligned, nothing will be found.

Axes: N examples, L classes, J units, P permutations, M examples that were kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from poise.auditing.effects import Push, Removing, loss_of, measured_effect, softmax, temperature

LEVEL = 0.01
LEAST_GAIN = 0.05  # of the mean loss
_PERMUTATIONS = 500
_LEAST_EXAMPLES = 30
_CLASSES = 50
_SHOWN = 5
_CONSTANT = 1e-9
_FURTHEST = 8.0  # Newton steps
_WORTH_FITTING = 0.2  # p


@dataclass(frozen=True)
class Leftover:
    """A feature that goes with the model's errors.

    kind     "unused", "overused" or "unclear".
    label    the class whose errors it goes with.
    gain     the share of the mean loss that one weight on this feature would take off; 0 where p is .2 or more.
    p        of the permutation test, over all features and classes tried.
    use      the model's own use of the feature, relative to that weight: 0 is none, below 0 the wrong way.
    without  the share of the mean loss that goes when the feature is taken away; below 0 the loss grows.
    Both are None where they were not measured: only of what counts.
    """

    kind: str
    unit: int
    name: str
    label: int
    z: float
    gain: float
    p: float
    use: float | None = None
    without: float | None = None

    @property
    def counts(self) -> bool:
        """Whether it is significant and large enough to matter."""
        return self.p < LEVEL and self.gain >= LEAST_GAIN

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class _Tests:
    """One family: z [rows, J] and the Newton step of one weight [rows, J, L], of all features; a row is a class.

    chance  [P] the largest |z| of all
    inside  [rows, N] the examples that a row is about
    """

    labels: list[int]
    z: np.ndarray
    step: np.ndarray
    chance: np.ndarray
    inside: np.ndarray


def leftover(
    logits: np.ndarray,
    labels: np.ndarray,
    values: np.ndarray,
    removing: Removing,
    names: Sequence[str],
    seed: int = 0,
) -> list[Leftover]:
    """The features that go with the errors most, at most five; none where there are too few examples to tell.

    logits [N, L], labels [N], values [N, J]; `removing` gives the logits without some of the features.
    """
    found = []
    warmth = temperature(logits, labels)
    for one, push in _hits(logits / warmth, labels, values, names, seed):
        found.append(one)
        if one.counts:
            kind, use, without = measured_effect(logits, labels, push, removing, one.unit, warmth)
            found[-1] = replace(one, kind=kind, use=use, without=without)
    culprits = [one.unit for one in found if one.kind != "unused" and (one.use or 0.0) < 0]
    unused = [one.unit for one in found if one.kind == "unused"]
    if culprits and unused:
        left = removing.without(culprits)
        known = labels[: len(left)]
        hits = _hits(left / temperature(left, known), known, values[: len(left)], names, seed, unused)
        still = {one.unit for one, _ in hits if one.counts}
        found = [replace(o, kind="unclear") if o.kind == "unused" and o.unit not in still else o for o in found]
    return found


def _hits(
    logits: np.ndarray,
    labels: np.ndarray,
    values: np.ndarray,
    names: Sequence[str],
    seed: int,
    asked: Sequence[int] = (),
) -> list[tuple[Leftover, Push]]:
    """Those with the largest |z|, or those asked for, the surest first, each with the change of the logits it wants."""
    usable = np.flatnonzero(values.std(0) > _CONSTANT)
    if len(labels) < _LEAST_EXAMPLES or not len(usable):
        return []
    p, loss = softmax(logits), max(float(loss_of(logits, labels).mean()), 1e-9)
    found: dict[int, tuple[Leftover, Push]] = {}
    for tests in (_overall(p, labels, values[:, usable], seed), _exceptions(p, labels, values[:, usable], seed)):
        if tests is None:
            continue
        order = np.argsort(-np.abs(tests.z).max(0), kind="stable")
        for column in [c for c in order if usable[c] in asked] if asked else order[:_SHOWN]:
            unit, row = int(usable[column]), int(np.abs(tests.z[:, column]).argmax())
            beaten = (1 + int((tests.chance >= abs(tests.z[row, column])).sum())) / (1 + len(tests.chance))
            push = Push(values[:, unit], tests.step[row, column], tests.inside[row])
            z, p_value = float(tests.z[row, column]), min(1.0, 2 * beaten)
            best = _furthest(logits, labels, push) if p_value < _WORTH_FITTING else 0.0
            gain = max(0.0, 1 - float(loss_of(logits + best * push.wanted(), labels).mean()) / loss)
            one = Leftover("unclear", unit, names[unit], tests.labels[row], z, gain, p_value)
            if unit not in found or (one.p, -abs(one.z)) < (found[unit][0].p, -abs(found[unit][0].z)):
                found[unit] = one, replace(push, step=best * push.step)
    return sorted(found.values(), key=lambda pair: (pair[0].p, -abs(pair[0].z)))[: len(asked) or _SHOWN]


def _overall(p: np.ndarray, labels: np.ndarray, values: np.ndarray, seed: int) -> _Tests | None:
    residual = (np.arange(p.shape[1]) == labels[:, None]) - p
    kept = np.argsort(-residual.var(0), kind="stable")[:_CLASSES]
    kept = kept[residual[:, kept].std(0) > _CONSTANT]
    if not len(kept):
        return None
    count, features, errors = len(labels), _standard(values), _standard(residual[:, kept])
    scores = (residual - residual.mean(0)).T @ features / count  # [L, J]
    step = (scores / np.maximum((p * (1 - p)).mean(0), 1e-9)[:, None]).T  # [J, L]
    z = errors.T @ features / np.sqrt(count)
    rows = len(kept)
    everywhere = np.ones((rows, count), bool)
    steps = np.broadcast_to(step, (rows, *step.shape))
    return _Tests(kept.tolist(), z, steps, _permuted(errors, features, seed), everywhere)


def _exceptions(p: np.ndarray, labels: np.ndarray, values: np.ndarray, seed: int) -> _Tests | None:
    taken_for, found = p.argmax(1), []
    for label in np.unique(taken_for):
        inside = np.flatnonzero(taken_for == label)
        residual = (labels[inside] == label) - p[inside, label]
        if len(inside) < _LEAST_EXAMPLES or residual.std() < _CONSTANT:
            continue
        features = _standard(values[inside])
        errors = _standard(residual[:, None])
        score = (residual - residual.mean()) @ features / len(inside)
        sure = max(float((p[inside, label] * (1 - p[inside, label])).mean()), 1e-9)
        step = (score / sure)[:, None] * (np.arange(p.shape[1]) == label)
        z = errors[:, 0] @ features / np.sqrt(len(inside))
        found.append((int(label), z, step, _permuted(errors, features, seed), taken_for == label))
    if not found:
        return None
    names, z, steps, chances, places = zip(*found, strict=True)
    return _Tests(list(names), np.stack(z), np.stack(steps), np.max(chances, 0), np.stack(places))


def _furthest(logits: np.ndarray, labels: np.ndarray, push: Push) -> float:
    """The t of least loss of logits + t v d, between 0 and 8 Newton steps, by golden section: it is convex."""
    low, high, part = 0.0, _FURTHEST, (5**0.5 - 1) / 2
    wanted = push.wanted()
    for _ in range(20):
        left, right = high - part * (high - low), low + part * (high - low)
        if loss_of(logits + left * wanted, labels).mean() < loss_of(logits + right * wanted, labels).mean():
            high = right
        else:
            low = left
    return (low + high) / 2


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
