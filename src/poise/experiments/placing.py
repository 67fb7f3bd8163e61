"""Examples put on a device, and the loader that fits their kind: images, pictures that are streamed, or sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from poise.data.loader import DeviceLoader, Loader, on_device
from poise.data.sentences import TokenLoader, tokens_of
from poise.data.streamed import Pictures, StreamLoader
from poise.data.task import Examples
from poise.tokens import Input, Tokens
from poise.training.plan import Plan


def placed(examples: Examples, device: torch.device) -> tuple[Input, Tensor]:
    """uint8 images as a tensor, word pieces as Tokens, and their labels."""
    if isinstance(examples.x, Tensor) or examples.x.dtype == np.uint8:
        return on_device(examples.x, examples.y, device)
    return tokens_of(examples.x, device), torch.from_numpy(np.array(examples.y)).long().to(device)


def loader(rows: Input | Pictures, labels: Tensor, plan: Plan, augment: Any, seed: int) -> Loader:
    """Batches to train on."""
    if isinstance(rows, Pictures):
        return StreamLoader(rows, labels, plan.batch_size, augment, seed, plan.layout)
    if isinstance(rows, Tokens):
        return TokenLoader(rows, labels, plan.batch_size, augment, seed)
    return DeviceLoader(rows, labels, plan.batch_size, augment, seed)
