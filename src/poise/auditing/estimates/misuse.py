"""Misused features: features that a model ignores or overuses, found by their correlation with its errors.

A model's own utility cannot show the features that it ignores: where s_j = 0, u_j = 0. But its errors correlate with
them. p is corrected for all tests, and doubled for the two families. The probabilities are first scaled by the best
temperature; otherwise every overconfident model would seem to overuse all features.

    gain = 1 - min over t of loss(logits + t v d) / loss(logits)     what one weight on v, along d, would take off

A correlation does not show what is wrong with the feature. To measure that, the feature is removed:

    tensors   units of the features (measure.py) get their mean
    text      words that occur in at least five sentences, at most the 1000 most frequent ones, are removed

Errors may also correlate with a feature because it occurs together with the actual cause. So if the model goes the
wrong way with some features, significant or not, another feature counts as unused only if the errors still correlate
with it when those are removed.

Features must be at fixed places, or be words. In photographs that are not aligned, the search finds nothing.

Two families of tests find the features. With a residual r, a feature v and the model's own logit f, all of them
centred, over n examples,

    z = sqrt(n) corr(r, v - (v'f / f'f) f)

    overall     r_c = [y = c] - p_c for each class c, with f the logit of c, over all examples
    exceptions  r = [right] - confidence, with f the log odds of the confidence: what reverses the prediction; over the
                examples predicted as one class, and over all of them together, centred within those of each class

The part of a feature that f explains is removed: the temperature makes r'f about 0, so this part cannot correlate with
the errors and would only hide the rest.

A single example can make z as large as sqrt(n), such as the only digit with ink in a corner, if it is misclassified. So
several examples must contribute to a feature: the sum of their contributions r_i v_i must reach 2.6 of its own standard
errors,

    |sum of r_i v_i| >= 2.576 sqrt(sum of (r_i v_i)^2)

This needs at least seven examples, since m of them reach at most sqrt(m). The z of each such feature is compared with
the maximum over the family in each of 500 permutations of r (maxT), among the examples over which it is centred. This
corrects for all tests.

The effect of a feature is measured by removing it: a word wherever it occurs; a unit of a tensor gets its mean over the
examples. With f the scaled logits, f' those without the feature, and w the change of the logits that the labels would
reward, all centred over classes,

    use      sum of (f - f') w / sum of w w          how far the model already goes in that direction: 0 not at all
    without  1 - mean loss(f') / mean loss(f)        the cost of the feature: above 0 the model is better without it

    overused   use is below 0: the model goes the wrong way; and without is at least 5 % of the loss
    unused     use is between -1/4 and 1/4, and the loss moves with the feature no more than with others (its utility is
               at most 1.5 times that of the median one)
    unclear    all others: the interval crosses a border, or the model goes in the right direction, but not far enough

where use counts with 2.6 standard errors over examples, which leaves 1 % to chance.

Axes: N examples, L classes, J units or words, R rows (residuals), P permutations, M examples that were kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from poise.auditing.measure import Collected, shifted, unit_names, units
from poise.classifier import Classifier, evaluating
from poise.tokens import Input, Tokens

LEAST_COST = 0.05  # of the mean loss
MOST_USE = 0.25
MOST_USEFUL = 1.5  # times the median
STANDARD_ERRORS = 2.576  # leave 1 % to chance
CONSTANT = 1e-9
LEAST_EXAMPLES = 30
_PERMUTATIONS = 500
_CLASSES = 50
_LEAST_LEFT = 1e-3  # of a feature's variance, after removing the part that the logit explains


@dataclass(frozen=True, eq=False)
class Family:
    """The tests of one family, z [R, J].

    labels   [R] the class of a row; None for all classes.
    carried  [R, J] whether several examples contribute.
    chance   [P] the largest |z| in each permutation.
    inside   [R, N] the examples of a row.
    step     (row, feature) → the Newton step of one weight on the feature, for one standard deviation [L] or [N, L].
    """

    labels: list[int | None]
    z: np.ndarray
    carried: np.ndarray
    chance: np.ndarray
    inside: np.ndarray
    step: Callable[[int, int], np.ndarray]

    @property
    def strength(self) -> np.ndarray:
        """|z| [R, J]; 0 unless several examples contribute."""
        found: np.ndarray = np.abs(self.z) * self.carried
        return found


def overall(p: np.ndarray, labels: np.ndarray, values: np.ndarray, seed: int) -> Family | None:
    """Tests for features that indicate a class, or exclude it. p [N, L], labels [N], values [N, J]."""
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
    """Tests for features that make the model's predictions wrong."""
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
    predicted = (np.arange(p.shape[1]) == taken_for[:, None]).astype(float)

    def step(row: int, feature: int) -> np.ndarray:
        inside = insides[row]
        score = float((_standard(residual[inside, None]) * _standard(values[inside, feature, None])).mean())
        sure = max(float((confidence[inside] * (1 - confidence[inside])).mean()), 1e-9)
        found: np.ndarray = score * residual[inside].std() / sure * predicted
        return found

    return Family([name for name, _ in rows], *tested, insides, step)


def _tested(
    errors: np.ndarray, about: np.ndarray, values: np.ndarray, groups: np.ndarray, insides: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """z [R, J], whether several examples contribute [R, J], and the largest |z| in each permutation [P].

    errors  [N, R] the residuals.
    about   [N, R] the logit of each residual.
    groups  [N] the groups within which all values are centred and permuted.
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


@dataclass(frozen=True, eq=False)
class FeatureRemoval:
    """The removal of features.

    without  returns the logits [M, L] of the first M examples without the given units.
    rest     [J] the value of a removed unit.
    utility  [J] how far the loss moves with each unit, the mean over examples.
    """

    without: Callable[[Sequence[int]], np.ndarray]
    rest: np.ndarray
    utility: np.ndarray

    def is_minor(self, unit: int) -> bool:
        """Whether the loss moves no more with this unit than with others."""
        return bool(self.utility[unit] <= MOST_USEFUL * np.median(self.utility))


@dataclass(frozen=True, eq=False)
class LogitChange:
    """The change of the logits by one weight on a feature.

    values  [N] the values of the feature.
    step    [L] or [N, L] the change for one standard deviation of the feature.
    inside  [N] the examples that it applies to.
    """

    values: np.ndarray
    step: np.ndarray
    inside: np.ndarray

    def wanted(self, beside: float | None = None) -> np.ndarray:
        """The change [N, L] relative to the mean value of the feature, or to another value."""
        held = self.values[self.inside]
        away = (self.values - (held.mean() if beside is None else beside)) / max(float(held.std()), 1e-12) * self.inside
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
    """The kind of misuse, the use of the feature, and the share of the loss that disappears without it."""
    less = removal.without([unit])
    count = len(less)
    if count < LEAST_EXAMPLES:
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
    unused = abs(use) + slack < MOST_USE and removal.is_minor(unit)
    return "unused" if unused else "unclear", use, share


def temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The T for which softmax(logits / T) fits the labels best, between 1/20 and 20, by golden section on log T."""
    return float(np.exp(_lowest(lambda power: float(loss_of(logits / np.exp(power), labels).mean()), -3.0, 3.0, 40)))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Softmax over classes [N, L]."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    found: np.ndarray = powers / powers.sum(1, keepdims=True)
    return found


def loss_of(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The cross-entropy of each example [N]."""
    away = logits - logits.max(1, keepdims=True)
    found: np.ndarray = np.log(np.exp(away).sum(1)) - away[np.arange(len(labels)), labels]
    return found


def _centred(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = values - values.mean(1, keepdims=True)
    return found


def _log_odds(p: np.ndarray) -> np.ndarray:
    held = np.clip(p, 1e-9, 1 - 1e-9)
    found: np.ndarray = np.log(held / (1 - held))
    return found


def _centred_columns(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The values [N, *] minus the mean of their group."""
    names, place = np.unique(groups, return_inverse=True)
    member = place[:, None] == np.arange(len(names))
    found: np.ndarray = values - ((member / member.sum(0)).T @ values)[place]
    return found


def _unit(values: np.ndarray) -> np.ndarray:
    """Columns of length 1; constant columns become 0."""
    size = np.sqrt((values**2).sum(0))
    found: np.ndarray = values / np.where(size > CONSTANT, size, np.inf)
    return found


def _standard(values: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1; constant columns become 0."""
    spread = values.std(0)
    found: np.ndarray = (values - values.mean(0)) / np.where(spread > CONSTANT, spread, np.inf)
    return found


LEVEL = 0.01
LEAST_GAIN = 0.05  # of the mean loss
_SHOWN = 5
_MOST_STEPS = 8.0  # Newton steps
_WORTH_FITTING = 0.2  # p
_WORDS = 1000
_OFTEN = 5


@dataclass(frozen=True)
class MisusedFeature:
    """A feature that correlates with the model's errors.

    kind     "unused", "overused" or "unclear".
    label    the class whose errors it correlates with; None for all classes.
    gain     the share of the mean loss that one weight on this feature would remove; 0 if p is .2 or more.
    p        of the permutation test, over all features and classes.
    use      the model's own use of the feature, relative to that weight: 0 is none, below 0 the wrong way.
    without  the share of the mean loss that disappears without the feature; below 0 the loss increases.

    `use` and `without` are None unless the feature counts.
    """

    kind: str
    unit: int
    name: str
    label: int | None
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


def search_misused_features(
    model: Classifier,
    rows: dict[str, np.ndarray],
    collected: Collected,
    features: Sequence[str],
    word: Callable[[int], str],
) -> list[MisusedFeature]:
    """The features of an audit that correlate most with the errors, by name."""
    logits, labels = rows["logits"].astype(float), rows["label"]
    if not collected.tokens:
        values = rows["units"].astype(float)
        titles = unit_names(collected.shape, tuple(features))
        removal = _at_mean(model, collected, values.mean(0), rows["unit_utility"].mean(0))
        return misused_features(logits, labels, values, removal, titles)
    counts = Counter(number for words in collected.words for number in {*words.tolist()})
    vocabulary = [number for number, count in counts.most_common(_WORDS) if count >= _OFTEN]
    if not vocabulary:
        return []
    places = {number: place for place, number in enumerate(vocabulary)}
    values, utility = np.zeros((len(labels), len(vocabulary))), np.zeros(len(vocabulary))
    for row, (words, u) in enumerate(zip(collected.words, collected.word_utility, strict=True)):
        for number, strength in zip(words.tolist(), u.tolist(), strict=True):
            if number in places:
                values[row, places[number]] += 1
                utility[places[number]] += strength
    titles = [f"the word {word(number)!r}" for number in vocabulary]
    return misused_features(
        logits, labels, values, _removed(model, collected, vocabulary, utility / values.sum(0)), titles
    )


def _removed(model: Classifier, collected: Collected, vocabulary: Sequence[int], utility: np.ndarray) -> FeatureRemoval:
    def without(chosen: Sequence[int]) -> np.ndarray:
        numbers = torch.tensor([vocabulary[place] for place in chosen])

        def change(x: Input) -> Input:
            x = cast(Tokens, x)
            return x.without(torch.isin(x.ids, numbers.to(x.ids.device)) & x.features)

        return _logits(model, collected.inputs, change)

    return FeatureRemoval(without, np.zeros(len(vocabulary)), utility)


def _at_mean(model: Classifier, collected: Collected, means: np.ndarray, utility: np.ndarray) -> FeatureRemoval:
    def without(chosen: Sequence[int]) -> np.ndarray:
        def change(x: Input) -> Input:
            x = cast(Tensor, x)
            for unit in chosen:
                x = shifted(x, unit, (float(means[unit]) - units(x)[:, unit]).to(x.dtype))
            return x

        return _logits(model, collected.inputs, change)

    return FeatureRemoval(without, means, utility)


@torch.no_grad()
def _logits(model: Classifier, inputs: Sequence[Input], change: Callable[[Input], Input]) -> np.ndarray:
    """The logits [M, L] of the changed examples."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    with evaluating(model):
        parts = [model.head(model.embed(change(x.to(device)))).double().cpu().numpy() for x in inputs]
    return np.concatenate(parts) if parts else np.empty((0, 0))


def misused_features(
    logits: np.ndarray,
    labels: np.ndarray,
    values: np.ndarray,
    removal: FeatureRemoval,
    names: Sequence[str],
    seed: int = 0,
) -> list[MisusedFeature]:
    """The features that correlate most with the errors, at most five; none if there are too few examples.

    logits [N, L], labels [N], values [N, J]; `removal` gives the logits without some of the features.
    """
    fitted_temperature = temperature(logits, labels)
    hits = _candidates(logits / fitted_temperature, labels, values, names, seed)

    def effect(one: MisusedFeature, change: LogitChange) -> MisusedFeature:
        kind, use, without = measured_effect(logits, labels, change, removal, one.unit, fitted_temperature)
        return replace(one, kind=kind, use=use, without=without)

    found = [effect(one, change) if one.counts else one for one, change in hits]
    if not (unused := [one.unit for one in found if one.kind == "unused"]):
        return found
    culprits = [one.unit for one in found if one.kind != "unused" and (one.use or 0.0) < 0]
    doubtful = [effect(one, change) for one, change in hits if not one.counts and one.gain >= LEAST_GAIN]
    culprits += [one.unit for one in doubtful if one.kind == "overused"]
    still = _still_misused(labels, values, removal.without(culprits), names, seed, unused) if culprits else unused
    return [replace(o, kind="unclear") if o.kind == "unused" and o.unit not in still else o for o in found]


def _still_misused(
    labels: np.ndarray, values: np.ndarray, left: np.ndarray, names: Sequence[str], seed: int, only: Sequence[int]
) -> set[int]:
    """The features of `only` that correlate with the errors of the logits `left`."""
    known = labels[: len(left)]
    hits = _candidates(left / temperature(left, known), known, values[: len(left)], names, seed, only)
    return {one.unit for one, _ in hits if one.counts}


def _candidates(
    logits: np.ndarray,
    labels: np.ndarray,
    values: np.ndarray,
    names: Sequence[str],
    seed: int,
    only: Sequence[int] = (),
) -> list[tuple[MisusedFeature, LogitChange]]:
    """The features with the largest |z|, or `only` some, by significance, each with the change of logits to make."""
    usable = np.flatnonzero(values.std(0) > CONSTANT)
    if len(labels) < LEAST_EXAMPLES or not len(usable):
        return []
    p, loss = softmax(logits), max(float(loss_of(logits, labels).mean()), 1e-9)
    found: dict[int, tuple[MisusedFeature, LogitChange]] = {}
    for tests in (overall(p, labels, values[:, usable], seed), exceptions(p, labels, values[:, usable], seed)):
        if tests is None:
            continue
        order = np.argsort(-tests.strength.max(0), kind="stable")
        for column in [c for c in order if usable[c] in only] if only else order[:_SHOWN]:
            unit, row = int(usable[column]), int(tests.strength[:, column].argmax())
            beaten = (1 + int((tests.chance >= tests.strength[row, column]).sum())) / (1 + len(tests.chance))
            change = LogitChange(values[:, unit], tests.step(row, column), tests.inside[row])
            z, p_value = float(tests.z[row, column]), min(1.0, 2 * beaten)
            best = _best_step(logits, labels, change) if p_value < _WORTH_FITTING else 0.0
            gain = max(0.0, 1 - float(loss_of(logits + best * change.wanted(), labels).mean()) / loss)
            one = MisusedFeature("unclear", unit, names[unit], tests.labels[row], z, gain, p_value)
            if unit not in found or (one.p, -abs(one.z)) < (found[unit][0].p, -abs(found[unit][0].z)):
                found[unit] = one, replace(change, step=best * change.step)
    return sorted(found.values(), key=lambda pair: (pair[0].p, -abs(pair[0].z)))[: len(only) or _SHOWN]


def _best_step(logits: np.ndarray, labels: np.ndarray, change: LogitChange) -> float:
    """The t that minimizes the convex loss of logits + t v d, between 0 and 8 Newton steps, by golden section."""
    wanted = change.wanted()
    return _lowest(lambda t: float(loss_of(logits + t * wanted, labels).mean()), 0.0, _MOST_STEPS, 20)


def _lowest(function: Callable[[float], float], low: float, high: float, steps: int) -> float:
    """The place of the minimum of a convex function, by golden section."""
    part = (5**0.5 - 1) / 2
    for _ in range(steps):
        left, right = high - part * (high - low), low + part * (high - low)
        if function(left) < function(right):
            high = right
        else:
            low = left
    return (low + high) / 2
