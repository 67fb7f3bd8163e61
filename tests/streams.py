"""Streamed batches, one by one."""

from __future__ import annotations

import torch

from poise.data.loading.pictures import Pictures, StreamLoader


def loader(held: Pictures, batch_size: int = 6, **options: object) -> StreamLoader:
    return StreamLoader(held, torch.from_numpy(held.source.labels), batch_size, **options)


def fed(data: StreamLoader, epoch: int, start: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What a training loop sees of an epoch."""
    rows, generator = data.batches(epoch).rows, torch.Generator().manual_seed(0)
    return [tuple(part.clone() for part in data.batch(rows[0], generator)) for _ in data.feed(epoch, rows, start)]
