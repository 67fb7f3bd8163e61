"""The most telling examples: most over-robust, most brittle, and per class where sensitivity follows utility least.

They are chosen as examples come by, so that only a handful is ever held. One whose least useful features do not move
its embedding is not brittle, however few are moved more.

Axes: *D features of one example.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from poise.auditing.measure import Measured
from poise.tokens import Tokens

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
