"""Which features go with the errors of a model: two families of tests, each over all features at once.

With a residual r, a feature v and the model's own logit f, all of them centred, over n examples,

    z = sqrt(n) corr(r, v - (v'f / f'f) f)

    overall     r_c = [y = c] - p_c for each class c, with f the logit of c, over all examples
    exceptions  r = [right] - confidence, with f the log odds of the confidence: what turns the answer round; over the
                examples that are taken for one class, and over all of them together, centred within those of each class

What f explains of a feature is left out: the temperature makes r'f about 0 already, so that such a part of a feature
could not go with the errors and would only hide the rest.

One example can make such a z as large as sqrt(n): the only one with ink in a corner, if it is taken for another class.
So a feature must be carried by several examples: what they add to the sum, r_i v_i, must come to 2.6 of its own
standard errors,

    |sum of r_i v_i| >= 2.576 sqrt(sum of (r_i v_i)^2)

which needs seven examples at least, since m of them come to sqrt(m) at most; and it holds where residuals are larger
with some values of the feature than with others, as those of odd pictures are.

z of each feature that is carried is compared with the largest of the whole family in each of 500 permutations of r
(maxT), among the examples over which it is centred, which counts everything that was tried.

Axes: N examples, L classes, J features, R rows (residuals), P permutations.

What a model makes of a feature that goes with its errors: measured by taking the feature away.

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
class FeatureRemoval:
    """logits [M, L] of the first M examples without some units; `rest` [J] are the values that these then have.

    sensitivity  [J] how far the embedding moves with each, the mean over examples.
    """

    without: Callable[[Sequence[int]], np.ndarray]
    rest: np.ndarray
    sensitivity: np.ndarray

    def is_insensitive(self, unit: int) -> bool:
        """Whether the embedding moves no more with it than with others."""
        return bool(self.sensitivity[unit] <= MOST_SENSITIVE * np.median(self.sensitivity))


@dataclass(frozen=True, eq=False)
class LogitChange:
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
    logits: np.ndarray,
    labels: np.ndarray,
    change: LogitChange,
    removal: FeatureRemoval,
    unit: int,
    fitted_temperature: float,
) -> tuple[str, float | None, float | None]:
    """The kind, the use of the feature, and the share of the loss that goes without it."""
    less = removal.without([unit])
    count = len(less)
    if count < _LEAST_EXAMPLES:
        return "unclear", None, None
    scaled, left, labels = logits[:count] / fitted_temperature, less / fitted_temperature, labels[:count]
    effect, wanted = _centred(scaled - left), _centred(change.wanted(float(removal.rest[unit]))[:count])
    size = max(float((wanted**2).sum()), 1e-12)
    use = float((effect * wanted).sum()) / size
    slack = STANDARD_ERRORS * float(np.sqrt((((effect - use * wanted) * wanted).sum(1) ** 2).sum())) / size
    loss = max(float(loss_of(scaled, labels).mean()), 1e-9)
    share = 1 - float(loss_of(left, labels).mean()) / loss
    if use + slack < 0 and share >= LEAST_COST:
        return "overused", use, share
    unused = abs(use) + slack < MOST_USE and removal.is_insensitive(unit)
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


LEAST_EXAMPLES = 30
CONSTANT = 1e-9
_PERMUTATIONS = 500
_CLASSES = 50
_LEAST_LEFT = 1e-3  # of a feature's variance, beside what the logit explains


@dataclass(frozen=True, eq=False)
class Family:
    """z [R, J] of all features.

    labels  [R] the class that a row is about; None for all of them.
    carried [R, J] whether several examples say so.
    chance  [P] the largest |z| of all.
    inside  [R, N] the examples that a row is about.
    step    (row, feature) → the Newton step of one weight on the feature, for one standard deviation [L] or [N, L].
    """

    labels: list[int | None]
    z: np.ndarray
    carried: np.ndarray
    chance: np.ndarray
    inside: np.ndarray
    step: Callable[[int, int], np.ndarray]

    @property
    def strength(self) -> np.ndarray:
        """|z| [R, J]; 0 where it is not carried."""
        found: np.ndarray = np.abs(self.z) * self.carried
        return found


def overall(p: np.ndarray, labels: np.ndarray, values: np.ndarray, seed: int) -> Family | None:
    """Classes that a feature would speak for, or against. p [N, L], labels [N], values [N, J]."""
    residual = (np.arange(p.shape[1]) == labels[:, None]) - p
    kept = np.argsort(-residual.var(0), kind="stable")[:_CLASSES]
    kept = kept[residual[:, kept].std(0) > CONSTANT]
    if not len(kept):
        return None
    everywhere = np.ones((len(kept), len(labels)), bool)
    one_group = np.zeros(len(labels), int)
    tested = _tested(residual[:, kept], _log_odds(p[:, kept]), values, one_group, everywhere, seed)
    scores = (residual - residual.mean(0)).T @ _standard(values) / len(labels)  # [L, J]
    step = scores / np.maximum((p * (1 - p)).mean(0), 1e-9)[:, None]
    return Family(kept.tolist(), *tested, everywhere, lambda row, feature: step[:, feature])


def exceptions(p: np.ndarray, labels: np.ndarray, values: np.ndarray, seed: int) -> Family | None:
    """Where a feature is large, what the model says is wrong."""
    taken_for, confidence = p.argmax(1), p.max(1)
    residual = (taken_for == labels) - confidence
    names, counts = np.unique(taken_for, return_counts=True)
    groups = [(int(name), taken_for == name) for name in names[counts >= LEAST_EXAMPLES]]
    together: list[tuple[int | None, np.ndarray]] = [(None, counts[np.searchsorted(names, taken_for)] > 1)]
    rows = [*groups, *(together if len(names) > 1 and together[0][1].sum() >= LEAST_EXAMPLES else [])]
    rows = [(name, inside) for name, inside in rows if residual[inside].std() > CONSTANT]
    if not rows:
        return None
    insides = np.stack([inside for _, inside in rows])
    errors, odds = (np.repeat(each[:, None], len(rows), 1) for each in (residual, _log_odds(confidence)))
    tested = _tested(errors, odds, values, taken_for, insides, seed)
    said = (np.arange(p.shape[1]) == taken_for[:, None]).astype(float)

    def step(row: int, feature: int) -> np.ndarray:
        inside = insides[row]
        score = float((_standard(residual[inside, None]) * _standard(values[inside, feature, None])).mean())
        sure = max(float((confidence[inside] * (1 - confidence[inside])).mean()), 1e-9)
        found: np.ndarray = score * residual[inside].std() / sure * said
        return found

    return Family([name for name, _ in rows], *tested, insides, step)


def _tested(
    errors: np.ndarray, about: np.ndarray, values: np.ndarray, groups: np.ndarray, insides: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """z [R, J], whether it is carried [R, J], and the largest |z| in each permutation [P].

    errors [N, R] and about [N, R], the logit beside each; groups [N] within which everything is centred and permuted.
    """
    mine = insides.T
    features = _centred_columns(values, groups)
    energy = features**2
    logit = _unit(_centred_columns(about, groups) * mine)
    errors = _centred_columns(errors, groups) * mine
    errors = _unit(errors - logit * (errors * logit).sum(0))
    explained = logit.T @ features
    whole = mine.T @ energy
    left = whole - explained**2
    spread = np.sqrt(np.where(left > np.maximum(_LEAST_LEFT * whole, CONSTANT), left, np.inf))
    scale = np.sqrt(mine.sum(0))[:, None] / spread

    def total(rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = rows.T @ features - (rows * logit).sum(0)[:, None] * explained
        return found

    weight = errors**2  # and the sum of r^2 (v - b f)^2, multiplied out
    squares = weight.T @ energy - 2 * explained * ((weight * logit).T @ features)
    squares += explained**2 * (weight * logit**2).sum(0)[:, None]
    carried = total(errors) ** 2 >= STANDARD_ERRORS**2 * np.maximum(squares, CONSTANT**2)

    draw, first = np.random.default_rng(seed), np.argsort(groups, kind="stable")
    chance, order = np.empty(_PERMUTATIONS), np.empty(len(groups), int)
    for number in range(_PERMUTATIONS):
        order[first] = np.lexsort((draw.random(len(groups)), groups))
        chance[number] = np.abs(total(errors[order]) * scale).max()
    return total(errors) * scale, carried, chance


def _log_odds(p: np.ndarray) -> np.ndarray:
    held = np.clip(p, 1e-9, 1 - 1e-9)
    found: np.ndarray = np.log(held / (1 - held))
    return found


def _centred_columns(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Less the mean of each group [N, *]."""
    names, place = np.unique(groups, return_inverse=True)
    member = place[:, None] == np.arange(len(names))
    found: np.ndarray = values - ((member / member.sum(0)).T @ values)[place]
    return found


def _unit(values: np.ndarray) -> np.ndarray:
    """Columns of length 1; what is constant becomes 0."""
    size = np.sqrt((values**2).sum(0))
    found: np.ndarray = values / np.where(size > CONSTANT, size, np.inf)
    return found


def _standard(values: np.ndarray) -> np.ndarray:
    """Centred, of variance 1; what is constant becomes 0."""
    spread = values.std(0)
    found: np.ndarray = (values - values.mean(0)) / np.where(spread > CONSTANT, spread, np.inf)
    return found
