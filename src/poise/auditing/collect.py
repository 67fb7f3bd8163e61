"""What was measured so far: one row per example, enough for every number, whenever it is asked.

The most telling examples: most over-robust, most brittle, and per class where sensitivity follows utility least.

They are chosen as examples come by, so that only a handful is ever held. One whose least useful features do not move
its embedding is not brittle, however few are moved more.

Axes: *D features of one example.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from poise.auditing.measure import Measured
from poise.tokens import Input, Tokens, shape_of

EACH = 4
CLASSES = 12
LEAST_GAIN = 0.05  # of the shift with random features
_SIDE = 224  # of a picture on the page, at most
BRITTLE, OVER_ROBUST, CLASS = "most brittle", "most over-robust", "follows utility least in its class"


@dataclass(frozen=True, eq=False)
class Example:
    """x, u and s of one example: a tensor [*D]; of a sentence the ids, u and s of its tokens [T], special ones too."""

    number: int
    x: np.ndarray
    u: np.ndarray
    s: np.ndarray
    feature: np.ndarray | None  # of tokens: which may be removed


@dataclass
class Showcase:
    """Keeps the first `EACH` of every order, and one example of each of the first `CLASSES` classes."""

    kept: dict[str, list[tuple[float, Example]]] = field(default_factory=dict)

    def look(self, found: Measured, first: int, middle: int) -> None:
        """Offer all examples of a chunk."""
        rows = found.rows
        near, far = (rows[f"{side}_shift"][:, middle] for side in ("near", "far"))
        for row in range(len(near)):
            self._offer(BRITTLE, -float(near[row]), found, row, first + row, EACH)
            self._offer(OVER_ROBUST, float(far[row]), found, row, first + row, EACH)
            label = f"{CLASS}: {int(rows['label'][row])}"
            if label in self.kept or sum(name.startswith(CLASS) for name in self.kept) < CLASSES:
                self._offer(label, float(rows["rank_correlation"][row]), found, row, first + row, 1)

    def chosen(self, near_gain: np.ndarray) -> list[tuple[str, Example]]:
        """Each example once, with why it was chosen; near_gain [N] of all examples that came by."""
        names = [BRITTLE, OVER_ROBUST, *sorted(n for n in self.kept if n.startswith(CLASS))]
        pairs: list[tuple[str, Example]] = []
        for name in names:
            for _, example in self.kept.get(name, []):
                if name == BRITTLE and not near_gain[example.number] >= LEAST_GAIN:
                    continue
                if example.number not in {seen.number for _, seen in pairs}:
                    pairs.append((name.partition(":")[0], example))
        return pairs

    def _offer(self, name: str, order: float, found: Measured, row: int, number: int, room: int) -> None:
        held = self.kept.setdefault(name, [])
        if not np.isfinite(order) or (len(held) == room and order >= held[-1][0]):
            return
        held.append((order, _example(found, row, number)))
        held.sort(key=lambda pair: pair[0])
        del held[room:]


def _example(found: Measured, row: int, number: int) -> Example:
    x, u, s = found.batch.x, found.u[row].detach().float().cpu(), found.s[row].detach().float().cpu()
    if isinstance(x, Tokens):
        there = x.mask[row].cpu()
        ids, feature = x.ids[row].cpu()[there], x.features[row].cpu()[there]
        return Example(number, ids.numpy(), u[there].numpy(), s[there].numpy(), feature.numpy())
    picture, utility, sensitivity = (_small(part).numpy() for part in (x[row].detach().float().cpu(), u, s))
    return Example(number, picture, utility, sensitivity, None)


def _small(values: torch.Tensor) -> torch.Tensor:
    """A picture [C, H, W] no larger than the page shows it."""
    if values.ndim != 3 or max(values.shape[1:]) <= _SIDE:
        return values
    scale = _SIDE / max(values.shape[1:])
    size = [max(1, round(side * scale)) for side in values.shape[1:]]
    return torch.nn.functional.interpolate(values[None], size, mode="area")[0]


_KEPT = 2**28  # bytes of examples


@dataclass
class Collected:
    """Rows of arrays, columns of words, and of text the words themselves.

    inputs   the first examples, as many as fit into 256 MB: what can be measured again.
    sources  where each example comes from; "" where that is not known.
    """

    middle: int
    parts: dict[str, list[np.ndarray]] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    words: list[np.ndarray] = field(default_factory=list)
    word_sensitivity: list[np.ndarray] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    showcase: Showcase = field(default_factory=Showcase)
    shape: torch.Size = field(default_factory=torch.Size)
    tokens: bool = False
    _room: int = _KEPT

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts.get("label", []))

    def add(self, found: Measured) -> None:
        """One more chunk."""
        self.showcase.look(found, len(self), self.middle)
        for name, values in found.batch.columns.items():
            self.columns.setdefault(name, [""] * len(self)).extend(values)
        for name, rows in found.rows.items():
            self.parts.setdefault(name, []).append(rows)
        for name, held in self.columns.items():
            held.extend([""] * (len(self) - len(held))) if name not in found.batch.columns else None
        self.sources += found.batch.sources or [""] * len(found.batch)
        self._keep(found.batch.x, found.s)

    def rows(self) -> dict[str, np.ndarray]:
        """Everything measured, example by example."""
        return {name: np.concatenate(parts) for name, parts in self.parts.items()}

    def _keep(self, x: Input, s: torch.Tensor) -> None:
        self.shape = shape_of(x)[1:]
        self._room -= shape_of(x).numel() * (16 if isinstance(x, Tokens) else x.element_size())
        if self._room >= 0:
            self.inputs.append(x.to("cpu"))
        if not isinstance(x, Tokens):
            return
        self.tokens = True
        for ids, feature, row in zip(x.ids.cpu(), x.features.cpu(), s.detach().cpu(), strict=True):
            self.words.append(ids[feature].numpy())
            self.word_sensitivity.append(row[feature].numpy())


def embedding_distance(embeddings: np.ndarray) -> float:
    """The root mean square distance of two embeddings [N, E]: sqrt(2 tr Cov)."""
    if len(embeddings) < 2:
        return float("nan")
    return float(np.sqrt(2 * embeddings.astype(float).var(0, ddof=1).sum()))
