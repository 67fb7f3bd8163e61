"""Contestants: the classifiers of an evaluation, each a function from bytes [B, 3, H, W] to logits [B, L].

A model gets the images at its own size: those of another size are resized after they were corrupted. One that takes
grey images only gets the luma of the corrupted RGB ones.

Axes: B images, H rows, W columns, L classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poise.classifier import both_classes, logits_of
from poise.errors import AuditError
from poise.inputs.model_sources import describe_exception

_LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True, eq=False)
class Contestant:
    """A named model for images in [0, 1], in eval mode.

    size     the size of its images; None for any size.
    classes  the number of classes.
    grey     whether it takes [B, 1, H, W].
    fast     whether it runs in bfloat16, with channels last.
    """

    name: str
    source: str
    model: nn.Module
    classes: int
    size: int | None = None
    grey: bool = False
    fast: bool = False
    note: str = ""

    def __call__(self, pixels: Tensor) -> Tensor:
        """Logits [B, L] of bytes [B, 3, H, W]; AuditError if the model fails."""
        x = _prepared(pixels, self.size, self.grey, _precision(self.model))
        x = x.contiguous(memory_format=torch.channels_last) if self.fast else x
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.fast):
            return _logits(self.name, self.model, x)

    def in_bfloat16(self) -> Contestant:
        """The same model, faster and less precise."""
        note = "; ".join(filter(None, [self.note, f"{self.name} ran in bfloat16"]))
        model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return replace(self, model=model, fast=True, note=note)

    def digest(self) -> str:
        """Of all weights and buffers, by name."""
        found = sha256(repr(type(self.model)).encode())
        found.update(b"bfloat16" if self.fast else b"")
        for name, value in sorted(self.model.state_dict().items()):
            if isinstance(value, Tensor):
                found.update(f"{name}{value.dtype}{list(value.shape)}".encode())
                found.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return found.hexdigest()

    @property
    def parameters(self) -> int:
        return sum(each.numel() for each in self.model.parameters())


def contestant(
    name: str, source: str, model: nn.Module, size: int | None, pixels: Tensor, note: str = ""
) -> Contestant:
    """The contestant of a model, which is tried on two images, in RGB and then in grey; AuditError if both fail."""
    precision = _precision(model)
    try:
        logits = _logits(name, model, _prepared(pixels, size, False, precision))
        return Contestant(name, source, model, logits.shape[1], size, note=note)
    except AuditError as error:
        try:
            logits = _logits(name, model, _prepared(pixels, size, True, precision))
        except AuditError:
            raise error from None
    said = "; ".join(filter(None, [note, "it takes grey images: it got the luma of the corrupted RGB images"]))
    return Contestant(name, source, model, logits.shape[1], size, True, note=said)


def _precision(model: nn.Module) -> torch.dtype:
    weight = next((each for each in model.parameters() if each.is_floating_point()), None)
    return torch.float32 if weight is None else weight.dtype


def _prepared(pixels: Tensor, size: int | None, grey: bool, precision: torch.dtype) -> Tensor:
    x = pixels.float() / 255
    if grey:
        x = (x * x.new_tensor(_LUMA)[:, None, None]).sum(1, keepdim=True)
    if size is not None and x.shape[2:] != (size, size):
        x = F.interpolate(x, (size, size), mode="bilinear", align_corners=False, antialias=True).clamp(0, 1)
    return x.to(precision)


def _logits(name: str, model: nn.Module, x: Tensor) -> Tensor:
    try:
        with torch.inference_mode():
            found: Any = both_classes(logits_of(model(x)))
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise AuditError(f"{name}: too little memory for {len(x)} images at once: choose a smaller --batch") from error
    except Exception as error:  # any error of a model on unsuitable data
        if "memory" in str(error).lower() and "alloc" in str(error).lower():
            raise AuditError(
                f"{name}: too little memory for {len(x)} images at once: choose a smaller --batch"
            ) from error
        raise AuditError(f"{name} does not accept images {list(x.shape[1:])}: {describe_exception(error)}") from error
    if found.ndim != 2 or len(found) != len(x):
        raise AuditError(f"{name} must return logits [N, L] for {len(x)} images, got {list(found.shape)}")
    logits: Tensor = found if found.dtype == torch.float64 else found.float()
    return logits
