"""What was measured so far: one row per example, enough for every number, whenever it is asked.

Axes: N examples, *D features of one example, K strengths.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from poise.auditing.measure import Measured
from poise.auditing.telling import Showcase
from poise.tokens import Input, Tokens, shape_of


@dataclass
class Collected:
    """Rows of arrays, columns of words, and sums for the typical distance of two inputs."""

    middle: int
    parts: dict[str, list[np.ndarray]] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    words: list[np.ndarray] = field(default_factory=list)
    word_sensitivity: list[np.ndarray] = field(default_factory=list)
    showcase: Showcase = field(default_factory=Showcase)
    shape: torch.Size = field(default_factory=torch.Size)
    tokens: bool = False
    _sum: torch.Tensor | None = None
    _square: float = 0.0

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
        self._weigh(found.batch.x, found.s)

    def rows(self) -> dict[str, np.ndarray]:
        """Everything measured, example by example."""
        return {name: np.concatenate(parts) for name, parts in self.parts.items()}

    def input_distance(self) -> float:
        """The root mean square distance of two inputs; of sentences sqrt(2 T), as counts of words have it."""
        count = max(2, len(self))
        if self.tokens:
            return float(np.sqrt(2 * np.mean([len(words) for words in self.words])))
        assert self._sum is not None
        variance = (self._square - float((self._sum**2).sum()) / count) / (count - 1)
        return float(np.sqrt(2 * max(variance, 0.0)))

    def _weigh(self, x: Input, s: torch.Tensor) -> None:
        self.shape = shape_of(x)[1:]
        if isinstance(x, Tokens):
            self.tokens = True
            for ids, feature, row in zip(x.ids.cpu(), x.features.cpu(), s.detach().cpu(), strict=True):
                self.words.append(ids[feature].numpy())
                self.word_sensitivity.append(row[feature].numpy())
            return
        rows = x.detach().double().cpu()
        total = rows.sum(0)
        self._sum = total if self._sum is None else self._sum + total
        self._square += float((rows**2).sum())


def embedding_distance(embeddings: np.ndarray) -> float:
    """The root mean square distance of two embeddings [N, E]: sqrt(2 tr Cov)."""
    if len(embeddings) < 2:
        return float("nan")
    return float(np.sqrt(2 * embeddings.astype(float).var(0, ddof=1).sum()))
