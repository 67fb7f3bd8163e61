"""Misused features: features that a model ignores or overuses, found by their correlation with its errors.

A model's own utility cannot show the features that it ignores: where s_j = 0, u_j = 0. But its errors correlate with
them. The tests are in errors_by_feature.py; p corrects for all of them, and is doubled for two families. The
probabilities are first scaled by the best temperature; otherwise every overconfident model would seem to overuse all
features.

    gain = 1 - min over t of loss(logits + t v d) / loss(logits)     what one weight on v, along d, would take off

A correlation does not show what is wrong with the feature. To measure that, the feature is removed:

    tensors   units of the features (measure.py) get their mean
    text      words that occur in at least five sentences, at most the 1000 most frequent ones, are removed

Errors may also correlate with a feature because it occurs together with the actual cause. So if the model goes the
wrong way with some features, significant or not, another feature counts as unused only if the errors still correlate
with it when those are removed.

Features must be at fixed places, or be words. In photographs that are not aligned, the search finds nothing.

Axes: N examples, L classes, J units or words, M examples that were kept.
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
from poise.auditing.statistics.errors_by_feature import (
    CONSTANT,
    LEAST_EXAMPLES,
    FeatureRemoval,
    LogitChange,
    exceptions,
    loss_of,
    measured_effect,
    overall,
    softmax,
    temperature,
)
from poise.classifier import Classifier, evaluating
from poise.tokens import Input, Tokens

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
        removal = _at_mean(model, collected, values.mean(0), rows["unit_sensitivity"].mean(0))
        return misused_features(logits, labels, values, removal, titles)
    counts = Counter(number for words in collected.words for number in {*words.tolist()})
    vocabulary = [number for number, count in counts.most_common(_WORDS) if count >= _OFTEN]
    if not vocabulary:
        return []
    places = {number: place for place, number in enumerate(vocabulary)}
    values, sensitivity = np.zeros((len(labels), len(vocabulary))), np.zeros(len(vocabulary))
    for row, (words, s) in enumerate(zip(collected.words, collected.word_sensitivity, strict=True)):
        for number, strength in zip(words.tolist(), s.tolist(), strict=True):
            if number in places:
                values[row, places[number]] += 1
                sensitivity[places[number]] += strength
    titles = [f"the word {word(number)!r}" for number in vocabulary]
    return misused_features(
        logits, labels, values, _removed(model, collected, vocabulary, sensitivity / values.sum(0)), titles
    )


def _removed(
    model: Classifier, collected: Collected, vocabulary: Sequence[int], sensitivity: np.ndarray
) -> FeatureRemoval:
    def without(chosen: Sequence[int]) -> np.ndarray:
        numbers = torch.tensor([vocabulary[place] for place in chosen])

        def change(x: Input) -> Input:
            x = cast(Tokens, x)
            return x.without(torch.isin(x.ids, numbers.to(x.ids.device)) & x.features)

        return _logits(model, collected.inputs, change)

    return FeatureRemoval(without, np.zeros(len(vocabulary)), sensitivity)


def _at_mean(model: Classifier, collected: Collected, means: np.ndarray, sensitivity: np.ndarray) -> FeatureRemoval:
    def without(chosen: Sequence[int]) -> np.ndarray:
        def change(x: Input) -> Input:
            x = cast(Tensor, x)
            for unit in chosen:
                x = shifted(x, unit, (float(means[unit]) - units(x)[:, unit]).to(x.dtype))
            return x

        return _logits(model, collected.inputs, change)

    return FeatureRemoval(without, means, sensitivity)


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
    unused = [one.unit for one in found if one.kind == "unused"]
    if not unused:
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
    low, high, part = 0.0, _MOST_STEPS, (5**0.5 - 1) / 2
    wanted = change.wanted()
    for _ in range(20):
        left, right = high - part * (high - low), low + part * (high - low)
        if loss_of(logits + left * wanted, labels).mean() < loss_of(logits + right * wanted, labels).mean():
            high = right
        else:
            low = left
    return (low + high) / 2
