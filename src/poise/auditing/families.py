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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poise.auditing.effects import STANDARD_ERRORS

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
    features = _centred(values, groups)
    energy = features**2
    logit = _unit(_centred(about, groups) * mine)
    errors = _centred(errors, groups) * mine
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


def _centred(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
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
