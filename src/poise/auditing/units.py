"""Features at fixed places, few enough to test each: what the search for unused and overused features looks at.

    pictures   means over the cells of a grid of at most 16 x 16, channel by channel
    tables     the columns; of more than 1024 values, means over runs of neighbours
    tokens     how often each id of the vocabulary stands in the sentence (kept sparse, as ids)

Axes: B examples, J units.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

_GRID = 16
_COLUMNS = 1024


def units(values: Tensor) -> Tensor:
    """[B, *D] → [B, J], means over a unit's features."""
    if values.ndim == 4:
        height, width = (min(_GRID, side) for side in values.shape[2:])
        return F.adaptive_avg_pool2d(values.float(), (height, width)).flatten(1)
    rows = values.flatten(1).float()
    return F.adaptive_avg_pool1d(rows[:, None], _COLUMNS)[:, 0] if rows.shape[1] > _COLUMNS else rows


def unit_names(shape: torch.Size, names: tuple[str, ...] = ()) -> list[str]:
    """What a unit is called, for features of one example of this shape [*D]; `names` are those of a table's columns."""
    if len(shape) == 3:
        height, width = (min(_GRID, side) for side in shape[1:])
        cells = [(row, column) for row in range(height) for column in range(width)]
        return [
            f"{_channel(c, shape[0])}{_where(cell, shape[1:], (height, width))}"
            for c in range(shape[0])
            for cell in cells
        ]
    count = min(shape.numel(), _COLUMNS)
    return list(names) if len(names) == count else [f"feature {number}" for number in range(count)]


def _channel(number: int, count: int) -> str:
    return "" if count == 1 else f"{('red', 'green', 'blue')[number] if count == 3 else f'channel {number}'} at "


def _where(cell: tuple[int, int], shape: Sequence[int], grid: tuple[int, int]) -> str:
    """The middle of a cell, in pixels."""
    row, column = (int((place + 0.5) * side / count) for place, side, count in zip(cell, shape, grid, strict=True))
    return f"row {row}, column {column}"
