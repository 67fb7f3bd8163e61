"""The search for features that go with the errors: what is tested, and how it is taken away.

    tensors   units of the features (units.py), which get their mean
    text      the words that stand in five sentences or more, at most the 1000 most frequent ones, which are removed

Axes: N examples, J units or words, M examples that were kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from poise.auditing.collect import Collected
from poise.auditing.measure import shifted, unit_names, units
from poise.auditing.statistics.errors_by_feature import Removing
from poise.auditing.statistics.misuse import Leftover, leftover
from poise.classifier import Classifier, evaluating
from poise.tokens import Input, Tokens

_WORDS = 1000
_OFTEN = 5


def search(
    model: Classifier,
    rows: dict[str, np.ndarray],
    collected: Collected,
    features: Sequence[str],
    word: Callable[[int], str],
) -> list[Leftover]:
    """The features that go with the errors most, each by its name and with what is wrong with it."""
    logits, labels = rows["logits"].astype(float), rows["label"]
    if not collected.tokens:
        values = rows["units"].astype(float)
        titles = unit_names(collected.shape, tuple(features))
        removing = _at_mean(model, collected, values.mean(0), rows["unit_sensitivity"].mean(0))
        return leftover(logits, labels, values, removing, titles)
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
    return leftover(logits, labels, values, _removed(model, collected, vocabulary, sensitivity / values.sum(0)), titles)


def _removed(model: Classifier, collected: Collected, vocabulary: Sequence[int], sensitivity: np.ndarray) -> Removing:
    def without(chosen: Sequence[int]) -> np.ndarray:
        numbers = torch.tensor([vocabulary[place] for place in chosen])

        def change(x: Input) -> Input:
            x = cast(Tokens, x)
            return x.without(torch.isin(x.ids, numbers.to(x.ids.device)) & x.features)

        return _logits(model, collected.inputs, change)

    return Removing(without, np.zeros(len(vocabulary)), sensitivity)


def _at_mean(model: Classifier, collected: Collected, means: np.ndarray, sensitivity: np.ndarray) -> Removing:
    def without(chosen: Sequence[int]) -> np.ndarray:
        def change(x: Input) -> Input:
            x = cast(Tensor, x)
            for unit in chosen:
                x = shifted(x, unit, (float(means[unit]) - units(x)[:, unit]).to(x.dtype))
            return x

        return _logits(model, collected.inputs, change)

    return Removing(without, means, sensitivity)


@torch.no_grad()
def _logits(model: Classifier, inputs: Sequence[Input], change: Callable[[Input], Input]) -> np.ndarray:
    """[M, L] of the changed examples."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    with evaluating(model):
        parts = [model.head(model.embed(change(x.to(device)))).double().cpu().numpy() for x in inputs]
    return np.concatenate(parts) if parts else np.empty((0, 0))
