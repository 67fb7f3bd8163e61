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


def shifted(x: Tensor, unit: int, amount: Tensor) -> Tensor:
    """x [B, *D] with `amount` [B] added to every feature of a unit."""
    if x.ndim == 4:
        height, width = (min(_GRID, side) for side in x.shape[2:])
        channel, cell = divmod(unit, height * width)
        (top, bottom), (left, right) = (
            _ends(place, side, count)
            for place, side, count in zip(divmod(cell, width), x.shape[2:], (height, width), strict=True)
        )
        moved = x.clone()
        moved[:, channel, top:bottom, left:right] += amount[:, None, None]
        return moved
    moved = x.clone().flatten(1)
    first, last = _ends(unit, moved.shape[1], min(_COLUMNS, moved.shape[1]))
    moved[:, first:last] += amount[:, None]
    return moved.view(x.shape)


def _ends(place: int, side: int, count: int) -> tuple[int, int]:
    """Where a run of an adaptive mean begins and ends."""
    return place * side // count, -((-(place + 1) * side) // count)


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
