"""Blindness: parts of the input that no answer depends on, and whether they tell anything.

A part is unseen if swapping it between examples of different classes moves no logit by more than 1/10,000 of the
typical distance of the two largest, although its content differs between examples. All such parts are swapped together
once more; only if nothing moves then, too, do they count.

What is unseen may be empty. So a linear model (ridge regression on the labels, trained on four fifths of the examples
and tested on the last) reads the unseen parts alone:

    alone      its accuracy, against that of the most frequent class
    on errors  how often, where the audited model is wrong, it prefers the right class to the model's answer; if the
               unseen parts told nothing beyond the rest, that would be half of them at most

Axes: N examples, M values of the unseen parts, L classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from poise.auditing.estimates.numbers import Number, proportion, sign_test, top_gap
from poise.auditing.measure import units
from poise.auditing.reliance import COLOUR, REGION, Answers, Influence, Part, batched_logits, pairs_of

_STILL = 1e-4  # of the typical distance of the two largest logits
_FOLDS = 5


@dataclass(frozen=True)
class Blindness:
    """The parts that no answer depends on.

    name    all of them in words.
    share   of the input that they are.
    alone   the accuracy of a linear model that reads only them; `chance` that of the most frequent class.
    helped  on how many of the model's errors, out of `errors`, it prefers the right class; p of a sign test.
    """

    name: str
    parts: tuple[str, ...]
    boxes: tuple[tuple[int, int, int, int], ...]
    kind: str
    share: float
    alone: Number
    chance: float
    helped: int
    errors: int
    p: float

    def as_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("name", "kind", "share", "chance", "helped", "errors", "p")},
            "parts": list(self.parts),
            "boxes": [list(box) for box in self.boxes],
            "alone": self.alone.as_dict(),
        }


def blindness(held: Answers, parts: Sequence[Part], found: Sequence[Influence]) -> list[Blindness]:
    """The unseen parts: of regions or columns together, and of the colours."""
    still = _STILL * float(top_gap(held.logits).mean())
    unseen = {one.name for one in found if one.moved <= still}
    dark = [part for part in parts if part.name in unseen and _varies(part, held)]
    empty = [part for part in parts if part.kind != COLOUR and not _varies(part, held)]
    groups = [[part for part in dark if part.kind != COLOUR], [part for part in dark if part.kind == COLOUR]]
    return [_of(held, group, empty) for group in groups if group and _is_still(held, group, still)]


def _varies(part: Part, held: Answers) -> bool:
    return bool((part.content(cast(Tensor, held.x)).std(0) > 1e-6).any())


def _is_still(held: Answers, group: Sequence[Part], still: float) -> bool:
    """Whether no logit moves if all the parts are swapped at once."""
    rows, donors = pairs_of(held.predicted, held.labels, seed=1)
    x = cast(Tensor, held.x)
    moved = x[rows]
    for part in group:
        moved = part.put(moved, x[donors])
    return bool(np.abs(batched_logits(held.model, moved) - held.logits[rows]).max() <= still)


def _of(held: Answers, group: Sequence[Part], empty: Sequence[Part]) -> Blindness:
    kind = group[0].kind
    scores = read_alone(_content(held, group), held.labels, held.logits.shape[1])
    said = scores.argmax(1)
    counts = np.unique(held.labels, return_counts=True)[1]
    wrong = np.flatnonzero(held.predicted != held.labels)
    helped = int((scores[wrong, held.labels[wrong]] > scores[wrong, held.predicted[wrong]]).sum())
    total = 1.0 if kind == COLOUR else sum(part.share for part in group)
    return Blindness(
        _name(group, empty),
        tuple(part.name for part in group),
        tuple(part.box for part in group if part.box is not None),
        kind,
        total,
        proportion((said == held.labels).astype(float)),
        float(counts.max() / len(held.labels)),
        helped,
        len(wrong),
        sign_test(helped, len(wrong)),
    )


def read_alone(values: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Scores [N, L] of ridge regressions on the labels, each trained without the fifth that it scores."""
    fold = np.random.default_rng(0).permutation(len(labels)) % _FOLDS
    wanted, scores = np.eye(classes)[labels], np.zeros((len(labels), classes))
    for number in range(_FOLDS):
        train, test = fold != number, fold == number
        centre, spread = values[train].mean(0), values[train].std(0)
        scale = np.where(spread > 1e-6, spread, np.inf)
        a, b = ((values[rows] - centre) / scale for rows in (train, test))
        base = wanted[train].mean(0)
        slack = (0.1 + a.shape[1] / len(a)) * len(a)
        weights = np.linalg.solve(a.T @ a + slack * np.eye(a.shape[1]), a.T @ (wanted[train] - base))
        scores[test] = base + b @ weights
    return scores


def _content(held: Answers, group: Sequence[Part]) -> np.ndarray:
    """The values of the parts [N, M], pictures reduced to the cells of a grid."""
    x = cast(Tensor, held.x)
    if group[0].kind == COLOUR:
        chroma = group[0].content(x).view(x.shape)
        return torch.nn.functional.adaptive_avg_pool2d(chroma, 4).flatten(1).double().numpy()
    mask = torch.stack([part.mask for part in group]).any(0)
    if group[0].kind == REGION:
        inside = units(mask[None].float())[0] > 0.99
        return units(x)[:, inside].double().numpy()
    return x.flatten(1)[:, mask.flatten()].double().numpy()


def _name(group: Sequence[Part], empty: Sequence[Part]) -> str:
    """The parts in words; a half of the picture, if the rest of that half is the same in all examples."""
    kind = group[0].kind
    if kind == COLOUR:
        return "all colours"
    if kind != REGION:
        names = [part.name for part in group]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more columns" if len(names) > 3 else "")
    unseen, same = _covered(group), _covered([*group, *empty])
    height, width = unseen.shape
    halves = {
        "the upper half": (slice(height // 2), slice(None)),
        "the lower half": (slice(height // 2, None), slice(None)),
        "the left half": (slice(None), slice(width // 2)),
        "the right half": (slice(None), slice(width // 2, None)),
    }
    for name, place in halves.items():
        if same[place].all() and bool(unseen[place].sum() == unseen.sum()):
            return f"{name} of the picture"
    return f"{float(unseen.float().mean()):.0%} of the picture" if len(group) > 1 else group[0].name


def _covered(parts: Sequence[Part]) -> Tensor:
    """The pixels [H, W] of the parts."""
    return torch.stack([part.mask for part in parts]).any(0)[0]
