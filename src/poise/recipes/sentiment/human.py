"""Compare a trained model with human token scores, and export the token strips that a figure shows.

Sentences are the positive and negative ones of the trees, spelled as in GLUE, token by token. "all" is train, dev and
test together: the models were trained on the sentences of train with their labels, and on the sign of many tokens,
since GLUE's phrases may be single words; the strength of a token is new to them.

Axes: B sentences of a batch, T positions, W tokens of a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import nn

from poise.data.loading.sentences import WordPieces
from poise.data.sets.cache import path_of
from poise.data.sets.fetch import folder
from poise.data.sets.sst import Sentence, Split, as_glue, read_sentences
from poise.features.sensitivity import word_gradient, word_removal
from poise.recipes.sentiment.alignment import Agreement, agreement, counts, is_marked, sentence_r
from poise.running.experiment import Task
from poise.tokens import Tokens

Values = dict[str, list[np.ndarray]]  # measure → an array [W] per sentence
COLUMNS = ("raw", "recovered", "leaf")  # recovered: raw without estimated scores
PAPERS_SENTENCE = "A well-made and often lovely depiction of the mysteries of friendship ."
_DIGITS = 5


@dataclass(frozen=True)
class Alignment:
    """{score: value} of a model: sensitivity, utility and gradient sensitivity against the columns of human scores.

    most    use only the first sentences of each split; None uses all.
    probes  the number of random directions for the gradient's norm.
    """

    most: int | None = None
    probes: int = 16

    def __call__(self, model: nn.Module, task: Task) -> dict[str, float]:
        """Scores on dev if the task has no tests; else on dev, test and all splits."""
        splits: tuple[Split, ...] = get_args(Split) if task.tests else ("dev",)
        sentences = {split: labelled(folder("sst"), split, self.most) for split in splits}
        values = {split: values_of(model, held, self.probes) for split, held in sentences.items()}
        scores: dict[str, float] = {}
        for name in ("dev", "test", "all") if task.tests else ("dev",):
            parts = splits if name == "all" else [split for split in splits if split == name]
            chosen = [sentence for part in parts for sentence in sentences[part]]
            for column in COLUMNS:
                human = [human_scores(sentence, column) for sentence in chosen]
                for measure in values[parts[0]]:
                    found = agreement(human, [each for part in parts for each in values[part][measure]])
                    scores |= {} if found is None else _named(found, measure, f"{name}, {column}")
        return scores


@dataclass(frozen=True)
class Strips:
    """strips.json: tokens, human scores and sensitivities of a fixed list of test sentences.

    The paper's sentence first, then those with at least `marked` tokens that carry sentiment and at most `longest` in
    total, in the order of the data.
    """

    marked: int = 5
    longest: int = 22
    most: int = 200

    def __call__(self, model: nn.Module, task: Task) -> dict[str, dict[str, Any]]:
        chosen = [each for each in labelled(folder("sst"), "test", None) if self._fits(each)]
        chosen.sort(key=lambda each: each.text != PAPERS_SENTENCE)
        shown = chosen[: self.most]
        values = values_of(model, shown, probes=0)["sensitivity"] if shown else []
        column = _column(shown[0]) if shown else "leaf"
        rows = [_strip(each, column, s) for each, s in zip(shown, values, strict=True)]
        return {"strips": {"column": column, "sentences": rows}}

    def _fits(self, sentence: Sentence) -> bool:
        scores = human_scores(sentence, _column(sentence))
        long_enough = is_marked(scores).sum() >= self.marked and len(scores) <= self.longest
        return counts(scores) and (bool(long_enough) or sentence.text == PAPERS_SENTENCE)


def human_scores(sentence: Sentence, column: str) -> np.ndarray:
    """[W] in [0, 1], nan for a token without a score."""
    if column == "leaf":
        return np.array(sentence.leaf_scores)
    if sentence.raw_scores is None:
        return np.full(len(sentence.tokens), np.nan)
    raw = np.array(sentence.raw_scores)
    return raw if column == "raw" else np.where(np.array(sentence.recovered), raw, np.nan)


def values_of(model: Any, sentences: list[Sentence], probes: int, size: int = 128) -> Values:
    """Sensitivity, utility and, with probes, gradient sensitivity of every token; batches have sentences of similar
    length.
    """
    device = next(model.parameters()).device
    names = ["sensitivity", "utility", *(["gradient"] if probes else [])]
    found: Values = {name: [np.empty(0)] * len(sentences) for name in names}
    generator = torch.Generator(device).manual_seed(0)
    for places, x, words, y in batches_of(sentences, size):
        x, words, y = x.to(device), words.to(device), y.to(device)
        measured = [*word_removal(model, x, words, y)]
        measured += [word_gradient(model, x, words, probes, generator)] if probes else []
        for name, numbers in zip(names, measured, strict=True):
            for place, row in zip(places, numbers.float().cpu().numpy(), strict=True):
                found[name][place] = of_words(row, len(sentences[place].tokens))
    return found


def of_words(row: np.ndarray, count: int) -> np.ndarray:
    """[W]: tokens at the end of a sentence without a piece have the value 0."""
    return np.pad(row[:count], (0, max(0, count - len(row)))).astype(float)


def batches_of(sentences: list[Sentence], size: int) -> Iterator[tuple[list[int], Tokens, torch.Tensor, torch.Tensor]]:
    pieces = _pieces(path_of("bert-vocab", "vocab.txt"))
    order = sorted(range(len(sentences)), key=lambda place: len(sentences[place].tokens))
    for start in range(0, len(order), size):
        places = order[start : start + size]
        x, words = pieces([[as_glue(token) for token in sentences[place].tokens] for place in places])
        yield places, x, words, torch.tensor([int(sentences[place].label == 1) for place in places])


@cache
def labelled(home: Path, split: Split, most: int | None = None) -> list[Sentence]:
    return [each for each in read_sentences(home, split) if each.label is not None][:most]


@cache
def _pieces(vocabulary: Path) -> WordPieces:
    return WordPieces(vocabulary)


def _column(sentence: Sentence) -> str:
    return "leaf" if sentence.raw_scores is None else "raw"


def _named(found: Agreement, measure: str, where: str) -> dict[str, float]:
    statistics = {"r": found.r, "pooled r": found.pooled_r, "rho": found.rho, "top-3": found.top_three}
    named = {f"{measure} {name}, {where}": value for name, value in statistics.items()}
    return {**named, f"sentences, {where}": float(found.sentences), f"tokens, {where}": float(found.tokens)}


def _strip(sentence: Sentence, column: str, sensitivity: np.ndarray) -> dict[str, Any]:
    scores = human_scores(sentence, column)
    return {
        "title": "The paper's sentence" if sentence.text == PAPERS_SENTENCE else "",
        "tokens": list(sentence.tokens),
        "label": sentence.label,
        "human": [None if np.isnan(score) else float(score) for score in scores],
        "sensitivity": [float(f"{value:.{_DIGITS}g}") for value in sensitivity],
        "r": round(sentence_r(scores, sensitivity), _DIGITS),
    }
