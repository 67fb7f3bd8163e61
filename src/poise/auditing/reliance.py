"""Reliance: which part of the input carries the answer, and what happens without it.

A part is a region of the picture (a grid of 4 x 4, and the windows half a cell around the strongest one), its colour, a
column of a table, or a frequent word. Two examples i and j with different answers form a pair. The part of j replaces
that of i, and nothing else changes:

    followed   the share of pairs in which the answer for i becomes that for j: the part carried it
    changed    the share of pairs in which the answer for i becomes any other

If one small part is followed in most pairs, the rest of the input, which stays, decides in few of them. A word is put
in the place of another one, in sentences without it that have another answer than most sentences with it; `purity` is
the share of the latter that have their common answer.

The five parts that change most answers are also taken out: a region or a column gets its mean, a word is removed.

Axes: N examples, P pairs, *D features of one example, L classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from poise.auditing.estimates.numbers import Number, paired_drop, proportion
from poise.auditing.measure import Proof, only_example
from poise.classifier import Classifier, evaluating
from poise.tokens import Input, Tokens

REGION, COLOUR, COLUMN, WORD = "region", "colour", "column", "word"
LEAST_PAIRS = 10
_GRID = 4
_COLUMNS = 64
_TAKEN_OUT = 5
_WORDS, _OFTEN, _SENTENCES = 20, 5, 100
_ROWS = 256  # examples at once


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a tensor: the values under `mask` [*D], or the colour of the whole picture.

    box    rows and columns of a region: top, left, bottom, right.
    share  the part's share of the input.
    """

    name: str
    kind: str
    mask: Tensor
    box: tuple[int, int, int, int] | None = None

    @property
    def share(self) -> float:
        return float(self.mask.float().mean())

    def put(self, x: Tensor, other: Tensor) -> Tensor:
        """x [B, *D] with this part of `other`."""
        if self.kind == COLOUR:
            return (grey(x) + other - grey(other)).clamp(0, 1)
        return torch.where(self.mask.to(x.device), other, x)

    def content(self, x: Tensor) -> Tensor:
        """The values of the part [B, M]."""
        return (x - grey(x)).flatten(1) if self.kind == COLOUR else x.flatten(1)[:, self.mask.flatten()]


@dataclass(frozen=True)
class Influence:
    """What the answers make of one part.

    pairs    how many pairs were tried.
    purity   of a word: the share of its sentences that have their common answer.
    without  answers that change, and the accuracy that is lost, without the part; None unless it was taken out.
    """

    name: str
    kind: str
    share: float | None
    pairs: int
    followed: Number
    changed: Number
    accuracy_drop: Number
    box: tuple[int, int, int, int] | None = None
    purity: float | None = None
    without_changed: Number | None = None
    without_accuracy_drop: Number | None = None
    moved: float = field(default=0.0, repr=False)  # the largest change of a logit
    word: tuple[int, int] | None = field(default=None, repr=False)  # a word's id, and the answer that goes with it

    def as_dict(self) -> dict[str, Any]:
        numbers = ("followed", "changed", "accuracy_drop", "without_changed", "without_accuracy_drop")
        held = {name: getattr(self, name) for name in numbers}
        return {
            **{name: getattr(self, name) for name in ("name", "kind", "share", "pairs", "purity")},
            "box": None if self.box is None else list(self.box),
            **{name: None if number is None else number.as_dict() for name, number in held.items()},
        }


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a model to the first examples of an audit: x, labels [N] and logits [N, L]."""

    model: Classifier
    x: Input
    labels: np.ndarray
    logits: np.ndarray

    @property
    def predicted(self) -> np.ndarray:
        found: np.ndarray = self.logits.argmax(1)
        return found

    def first(self, count: int) -> Answers:
        return Answers(self.model, self.x[slice(count)], self.labels[:count], self.logits[:count])

    @property
    def right(self) -> np.ndarray:
        found: np.ndarray = (self.predicted == self.labels).astype(float)
        return found


@torch.no_grad()
def batched_logits(model: Classifier, x: Input) -> np.ndarray:
    """The logits [N, L] of any number of examples."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    with evaluating(model):
        parts = [
            model.head(model.embed(x[start : start + _ROWS].to(device))).double().cpu().numpy()
            for start in range(0, len(x), _ROWS)
        ]
    return np.concatenate(parts)


def pairs_of(predicted: np.ndarray, labels: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Examples i [P] and donors j [P] of another label and another answer; each i at most once."""
    draw = np.random.default_rng(seed)
    rows, donors = [], []
    for row in range(len(labels)):
        fitting = np.flatnonzero((predicted != predicted[row]) & (labels != labels[row]))
        if len(fitting):
            rows.append(row)
            donors.append(int(draw.choice(fitting)))
    return np.array(rows, int), np.array(donors, int)


def parts_of(x: Tensor, names: Sequence[str], weights: np.ndarray) -> list[Part]:
    """Regions and colour of pictures, or columns; weights [J] rank the columns if there are more than 64."""
    shape = x.shape[1:]
    if len(shape) == 3:
        height, width = shape[1:]
        rows, columns = (
            [(place * side // count, (place + 1) * side // count) for place in range(count)]
            for side, count in ((height, min(_GRID, height)), (width, min(_GRID, width)))
        )
        found = [region((top, left, bottom, right), shape) for top, bottom in rows for left, right in columns]
        whole = torch.ones(shape, dtype=torch.bool)
        return [*found, Part("the colours", COLOUR, whole)] if _has_colours(x) else found
    count = shape.numel()
    order = np.argsort(-weights, kind="stable")[:_COLUMNS] if count == len(weights) > _COLUMNS else range(count)
    if count > len(weights):
        return []
    return [_column(int(place), shape, names) for place in order]


def _column(place: int, shape: torch.Size, names: Sequence[str]) -> Part:
    mask = torch.zeros(shape.numel(), dtype=torch.bool)
    mask[place] = True
    name = names[place] if len(names) == shape.numel() else f"feature {place}"
    return Part(name, COLUMN, mask.view(shape))


def region(box: tuple[int, int, int, int], shape: torch.Size) -> Part:
    """The part of a picture [C, H, W] in a box."""
    top, left, bottom, right = box
    mask = torch.zeros(shape, dtype=torch.bool)
    mask[:, top:bottom, left:right] = True
    return Part(region_name(box, shape), REGION, mask, box)


def region_name(box: tuple[int, int, int, int], shape: Sequence[int]) -> str:
    """Such as "the lower right corner (rows 21 to 27, columns 21 to 27)"."""
    top, left, bottom, right = box
    height, width = shape[1:]
    level = _third((top + bottom) / 2 / height, ("upper", "", "lower"))
    side = _third((left + right) / 2 / width, ("left", "", "right"))
    corner = level and side and (top == 0 or bottom == height) and (left == 0 or right == width)
    where = " ".join(filter(None, [level, side, "corner" if corner else "part"])) if level or side else "middle"
    return f"the {where} (rows {top} to {bottom - 1}, columns {left} to {right - 1})"


def _third(place: float, names: tuple[str, str, str]) -> str:
    return names[0] if place < 1 / 3 else names[2] if place > 2 / 3 else names[1]


def grey(x: Tensor) -> Tensor:
    """Each picture [B, C, H, W] with the mean of its channels in all of them."""
    return x.mean(1, keepdim=True).expand_as(x)


def _has_colours(x: Tensor) -> bool:
    return x.shape[1] == 3 and bool(((x - grey(x)).abs() > 1e-3).any())


def influences(held: Answers, parts: Sequence[Part], seed: int = 0) -> list[Influence]:
    """What the answers make of each part of a tensor, by the answers that change."""
    rows, donors = pairs_of(held.predicted, held.labels, seed)
    if len(rows) < LEAST_PAIRS or not isinstance(held.x, Tensor):
        return []
    found = {part.name: (part, _swapped(held, part, rows, donors)) for part in parts}
    regions = [each for each in found.values() if each[0].kind == REGION]
    if regions:
        strongest = max(regions, key=lambda each: each[1].followed.value)[0]
        shifted = {part.name: (part, _swapped(held, part, rows, donors)) for part in _around(strongest)}
        best = max([*shifted.values(), found[strongest.name]], key=lambda each: each[1].followed.value)
        found[best[0].name] = best
    ranked = sorted(found.values(), key=lambda each: (-each[1].changed.value, -each[1].followed.value))
    taken = [_taken_out(held, part, one) for part, one in ranked[:_TAKEN_OUT]]
    return [*taken, *(one for _, one in ranked[_TAKEN_OUT:])]


def _around(part: Part) -> list[Part]:
    """The windows of the same size, half a cell away in each direction."""
    top, left, bottom, right = part.box or (0, 0, 0, 0)
    height, width = part.mask.shape[1:]
    steps = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
    boxes = []
    for down, across in steps:
        y, x = top + down * max(1, (bottom - top) // 2), left + across * max(1, (right - left) // 2)
        box = (y, x, y + bottom - top, x + right - left)
        if box[0] >= 0 and box[1] >= 0 and box[2] <= height and box[3] <= width:
            boxes.append(box)
    return [region(box, part.mask.shape) for box in boxes]


def _swapped(held: Answers, part: Part, rows: np.ndarray, donors: np.ndarray) -> Influence:
    x = cast(Tensor, held.x)
    logits = batched_logits(held.model, part.put(x[rows], x[donors]))
    return _influence(held, part.name, part.kind, rows, logits, held.predicted[donors], part)


def _influence(
    held: Answers,
    name: str,
    kind: str,
    rows: np.ndarray,
    logits: np.ndarray,
    wanted: np.ndarray | int,
    part: Part | None = None,
) -> Influence:
    answers, before = logits.argmax(1), held.predicted[rows]
    return Influence(
        name,
        kind,
        None if part is None else part.share,
        len(rows),
        proportion((answers == wanted).astype(float)),
        proportion((answers != before).astype(float)),
        paired_drop(held.right[rows], (answers == held.labels[rows]).astype(float)),
        None if part is None else part.box,
        moved=float(np.abs(logits - held.logits[rows]).max()),
    )


def _taken_out(held: Answers, part: Part, one: Influence) -> Influence:
    x = cast(Tensor, held.x)
    return _without(held, one, part.put(x, x.mean(0, keepdim=True).expand_as(x)))


def _without(held: Answers, one: Influence, changed: Input) -> Influence:
    answers = batched_logits(held.model, changed).argmax(1)
    return replace(
        one,
        without_changed=proportion((answers != held.predicted).astype(float)),
        without_accuracy_drop=paired_drop(held.right, (answers == held.labels).astype(float)),
    )


def word_influences(held: Answers, word: Callable[[int], str], seed: int = 0) -> list[Influence]:
    """What the answers make of the words that go with them most, by the answers that change."""
    x = cast(Tokens, held.x)
    found = []
    for number in _telling_words(x, held.predicted):
        has = (torch.isin(x.ids, torch.tensor(number)) & x.features).any(1).numpy()
        said, count = Counter(held.predicted[has].tolist()).most_common(1)[0]
        rows = np.flatnonzero(~has & (held.predicted != said) & x.features.any(1).numpy())[:_SENTENCES]
        if len(rows) < LEAST_PAIRS:
            continue
        logits = batched_logits(held.model, with_word(x[torch.from_numpy(rows)], number, seed))
        one = _influence(held, f"the word {word(number)!r}", WORD, rows, logits, said)
        found.append((number, replace(one, purity=count / int(has.sum()), word=(number, said))))
    ranked = sorted(found, key=lambda each: (-each[1].changed.value, -each[1].followed.value))
    taken = []
    for number, one in ranked[:_TAKEN_OUT]:
        gone = torch.isin(x.ids, torch.tensor(number)) & x.features
        taken.append(_without(held, one, x.without(gone)))
    return [*taken, *(one for _, one in ranked[_TAKEN_OUT:])]


def with_word(x: Tokens, number: int, seed: int) -> Tokens:
    """The sentences with one of their words, at random, replaced."""
    chance = torch.rand(x.ids.shape, generator=torch.Generator().manual_seed(seed)).where(x.features, -1.0)
    place = chance.argmax(1, keepdim=True)
    return replace(x, ids=x.ids.scatter(1, place, number))


def _telling_words(x: Tokens, predicted: np.ndarray) -> list[int]:
    """The words that stand in at least five sentences, by how far the answers with them are from the others."""
    sentences = [{*ids[feature].tolist()} for ids, feature in zip(x.ids, x.features, strict=True)]
    counts = Counter(number for words in sentences for number in words)
    classes = np.bincount(predicted) / len(predicted)
    told = {}
    for number, count in counts.items():
        if count < _OFTEN:
            continue
        answers = predicted[[number in words for words in sentences]]
        gap = np.bincount(answers, minlength=len(classes)) / count - classes
        told[number] = float(np.abs(gap).max() * np.sqrt(count))
    return sorted(told, key=lambda number: -told[number])[:_WORDS]


def proof_of(held: Answers, parts: Sequence[Part], follows: bool, seed: int = 0) -> Proof | None:
    """A right example with the parts of another one: its answer follows them, or does not move at all."""
    rows, donors = pairs_of(held.predicted, held.labels, seed)
    x = cast(Tensor, held.x)
    moved = x[rows]
    for part in parts:
        moved = part.put(moved, x[donors])
    answers = batched_logits(held.model, moved).argmax(1)
    wanted = held.predicted[donors] if follows else held.predicted[rows]
    return _first_proof(held, rows, moved, answers, wanted)


def word_proof(held: Answers, number: int, answer: int, seed: int = 0) -> Proof | None:
    """A right sentence whose answer follows a word that is put into it."""
    x = cast(Tokens, held.x)
    rows = np.flatnonzero((held.predicted != answer) & ~(x.ids == number).any(1).numpy() & x.features.any(1).numpy())
    moved = with_word(x[torch.from_numpy(rows)], number, seed)
    answers = batched_logits(held.model, moved).argmax(1) if len(rows) else rows
    return _first_proof(held, rows, moved, answers, np.full(len(rows), answer))


def _first_proof(
    held: Answers, rows: np.ndarray, moved: Input, answers: np.ndarray, wanted: np.ndarray
) -> Proof | None:
    shows = np.flatnonzero((answers == wanted) & (held.right[rows] > 0))
    if not len(shows):
        return None
    place, row = int(shows[0]), int(rows[shows[0]])
    before, after = only_example(held.x[row : row + 1]), only_example(moved[place : place + 1])
    return Proof(row, before, after, int(held.predicted[row]), int(answers[place]))
