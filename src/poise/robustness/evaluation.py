"""A classifier's accuracy under every corruption and severity, in one call.

Axes: N images, H rows, W columns, L classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from poise.choices import require_choice
from poise.classifier import evaluating
from poise.corruptions.corrupt import Corruption, corrupt
from poise.data.errors import DataNotFound
from poise.protocols import CORRUPTIONS, SEVERITIES
from poise.robustness.scores import Robustness

Progress = Callable[[str, int, int], None]
_CLEAN = {"cifar10-c": "cifar10", "cifar100-c": "cifar100"}


def evaluate(
    model: Callable[[Tensor], Tensor],
    data: str | tuple[Tensor, Tensor],
    *,
    corruptions: Sequence[str] = CORRUPTIONS,
    severities: Sequence[int] = SEVERITIES,
    profile: str | None = None,
    seed: int = 0,
    jpeg: int | None = None,
    limit: int | None = None,
    batch_size: int = 1000,
    device: torch.device | str | None = None,
    source: str = "auto",
    progress: Progress | None = None,
) -> Robustness:
    """Accuracy on clean images and under each corruption and severity.

    model     images in [0, 1] [N, 3, H, W] to logits [N, L]; it normalises them itself. A module is put into eval mode
              and back.
    data      "cifar10-c" or "cifar100-c", or a pair: images [N, 3, H, W] as `poise.corrupt` takes them, labels [N].
    limit     only the first images.
    device    by default that of the model's weights, or the CPU.
    source    "generated" by `poise.corrupt`, "official" from the published files in the cache, or "auto": those files
              if they are there. The result says which.
    progress  called with the corruption, how many of the settings are done, and how many there are.
    """
    wanted = [(name, severity) for name in corruptions for severity in severities]
    for name, severity in wanted:
        Corruption(name, profile or "cifar").at(severity)
    require_choice("source", source, "auto", "generated", "official")
    place = _device_of(model) if device is None else torch.device(device)
    test = _find(data, limit, source)
    images, labels = test.images.to(place), test.labels.to(place)
    accuracy: dict[str, dict[int, float]] = {name: {} for name in corruptions}
    mode = evaluating(model) if isinstance(model, nn.Module) else nullcontext()
    with mode, torch.inference_mode():
        clean = _accuracy(model, images, labels, batch_size)
        for done, (name, severity) in enumerate(wanted):
            if progress is not None:
                progress(name, done, len(wanted))
            if test.published is None:
                shown, answers = corrupt(images, name, severity, profile, seed=seed, jpeg=jpeg), labels
            else:
                shown, answers = (part.to(place) for part in test.published(name, severity))
            accuracy[name][severity] = _accuracy(model, shown, answers, batch_size)
    origin = f"generated with seed {seed}" if test.published is None else "the published files"
    return Robustness(test.name, len(labels), origin, clean, accuracy)


@dataclass(frozen=True)
class _Test:
    """Clean images and labels, and the published corrupted ones where they are used."""

    name: str
    images: Tensor
    labels: Tensor
    published: Callable[[str, int], tuple[Tensor, Tensor]] | None = None


def _find(data: str | tuple[Tensor, Tensor], limit: int | None, source: str) -> _Test:
    if not isinstance(data, str):
        images, labels = data
        if len(images) != len(labels):
            raise ValueError(f"{len(images)} images need as many labels, got {len(labels)}")
        return _Test("given images", images[:limit], labels[:limit])
    require_choice("data", data, *_CLEAN)
    from poise.data.cache import load, manifest_of  # numpy is an extra
    from poise.data.loader import on_device

    if manifest_of(_CLEAN[data]) is None:
        raise DataNotFound(f"{_CLEAN[data]} is not here: get it with  poise data get {_CLEAN[data]}")
    clean = on_device(load(_CLEAN[data], "test_x")[:limit], load(_CLEAN[data], "test_y")[:limit])
    if source == "generated" or (source == "auto" and manifest_of(data) is None):
        return _Test(data, *clean)

    def published(name: str, severity: int) -> tuple[Tensor, Tensor]:
        """Severity-major, with labels of their own: CIFAR-100 is stored in another order than theirs."""
        part = slice((severity - 1) * 10_000, severity * 10_000)
        return on_device(load(data, name)[part][:limit], load(data, "labels")[part][:limit])

    return _Test(data, *clean, published)


def _accuracy(model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, batch_size: int) -> float:
    right = torch.zeros((), dtype=torch.int64, device=labels.device)
    for start in range(0, len(labels), batch_size):
        x, y = images[start : start + batch_size], labels[start : start + batch_size]
        logits = model(x.float() / 255 if x.dtype == torch.uint8 else x)
        if logits.dim() != 2 or len(logits) != len(x):
            raise ValueError(f"the model must return logits [N, L] for {len(x)} images, got {list(logits.shape)}")
        right += (logits.argmax(1) == y).sum()
    return int(right) / max(len(labels), 1)


def _device_of(model: Callable[[Tensor], Tensor]) -> torch.device:
    weights = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if weights is None else weights.device
