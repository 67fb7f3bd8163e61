"""What was measured so far: one row per example, enough for every number, whenever it is asked."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from poise.auditing.measure import Measured
from poise.auditing.telling import Showcase
from poise.tokens import Input, Tokens, shape_of

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
