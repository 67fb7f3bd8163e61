"""The paper's residual networks (appendix C): ResNet-56 for CIFAR and ResNet-v2-50 for ImageNet.

ResNet-56: blocks [(9, 16, 1), (9, 32, 2), (9, 64, 2)] of (number, filters, stride). The 6n+2-layer network of He et al.
2016: two 3x3 convolutions per block, and shortcuts without weights that skip every second pixel and fill new channels
with zeros.

ResNet-v2-50: blocks [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)]. Pre-activation bottlenecks (He et al. 2016b):
norm and ReLU before every convolution, stride in the 3x3 convolution of a stage's first block, four times as many
output maps as `filters`, a last norm and ReLU before the mean over positions.

Both normalise inside: images are in [0, 1] everywhere else, so that sigma has one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor, nn

from poise.checks import require_number, require_several, require_whole, require_wholes
from poise.tokens import require_pictures

CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
Blocks: TypeAlias = Sequence[tuple[int, int, int]]


class Normalize(nn.Module):
    """(x - mean) / std for each channel. x [B, C, *]."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("std", std)):
            require_several(name, values)
            for place, value in enumerate(values):
                require_number(f"{name}[{place}]", value)
        if not len(mean) or len(mean) != len(std) or min(std) <= 0:
            raise ValueError(f"mean={mean} and std={std} must have one value per channel, std above 0")
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def _require_channels(self, x: Tensor) -> None:
        """Raise for another number of channels: a single channel would be broadcast silently."""
        channels = len(self.mean)
        if channels > 1 and (x.ndim < 3 or x.shape[-3] != channels):
            raise ValueError(f"x must be images with {channels} channels, got {list(x.shape)}")

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Tensor):  # a torch.fx proxy has no shape to check
            self._require_channels(x)
        return (x - self.mean) / self.std


class ResNet(nn.Module):
    """x [B, 3, H, W] in [0, 1] → z [B, 64] → logits [B, num_classes]."""

    def __init__(
        self,
        num_classes: int,
        blocks: Blocks,
        mean: Sequence[float] = CIFAR_MEAN,
        std: Sequence[float] = CIFAR_STD,
    ) -> None:
        super().__init__()
        width = _first_width(num_classes, blocks)
        self.normalize = Normalize(mean, std)
        self.stem = nn.Conv2d(len(mean), width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.blocks, width = _stack(_Block, width, blocks, growth=1)
        self.head = nn.Linear(width, num_classes)
        _initialise(self, "fan_in")

    def embed(self, x: Tensor) -> Tensor:
        """z [B, E]: the mean of the last maps over positions."""
        require_pictures(x, self.stem, exact=False)
        x = F.relu(self.norm(self.stem(self.normalize(x))))
        z: Tensor = self.blocks(x).mean(dim=(2, 3))
        return z

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embed(x))
        return logits


class ResNetV2(nn.Module):
    """x [B, 3, H, W] in [0, 1] → z [B, 2048] → logits [B, num_classes]."""

    def __init__(
        self,
        num_classes: int,
        blocks: Blocks,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
    ) -> None:
        super().__init__()
        width = _first_width(num_classes, blocks)
        self.normalize = Normalize(mean, std)
        self.stem = nn.Conv2d(len(mean), width, 7, stride=2, padding=3, bias=False)
        self.blocks, width = _stack(_Bottleneck, width, blocks, growth=4)
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, num_classes)
        _initialise(self, "fan_out")

    def embed(self, x: Tensor) -> Tensor:
        """z [B, E]: the mean of the last maps over positions."""
        require_pictures(x, self.stem, exact=False)
        x = F.max_pool2d(self.stem(self.normalize(x)), 3, stride=2, padding=1)
        return F.relu(self.norm(self.blocks(x))).mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embed(x))
        return logits


def resnet56(num_classes: int) -> ResNet:
    """The CIFAR network of appendix C, with CIFAR-10's channel means and deviations: 853,018 weights for 10 classes."""
    return ResNet(num_classes, [(9, 16, 1), (9, 32, 2), (9, 64, 2)])


def resnet_v2_50(num_classes: int) -> ResNetV2:
    """The ImageNet network of appendix C: 25,549,352 weights for 1000 classes."""
    return ResNetV2(num_classes, [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)])


class _Block(nn.Module):
    def __init__(self, width: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, filters, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.stride, self.new_channels = stride, filters - width

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self._shortcut(x))

    def _shortcut(self, x: Tensor) -> Tensor:
        if self.stride == 1 and self.new_channels == 0:
            return x
        before = self.new_channels // 2
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.new_channels - before))


class _Bottleneck(nn.Module):
    def __init__(self, width: int, filters: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(width, filters, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, stride, padding=1, bias=False)
        self.norm3 = nn.BatchNorm2d(filters)
        self.conv3 = nn.Conv2d(filters, 4 * filters, 1, bias=False)
        same = stride == 1 and width == 4 * filters
        self.shortcut = None if same else nn.Conv2d(width, 4 * filters, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x))
        shortcut = x if self.shortcut is None else self.shortcut(active)
        y = self.conv2(F.relu(self.norm2(self.conv1(active))))
        total: Tensor = self.conv3(F.relu(self.norm3(y))) + shortcut
        return total


def _first_width(num_classes: int, blocks: Blocks) -> int:
    """The filters of the first block; raise for settings that build no network."""
    require_whole("num_classes", num_classes, least=1)
    require_several("blocks", blocks)
    for place, block in enumerate(blocks):
        require_wholes(f"blocks[{place}]", block, 3, least=1)
    if not len(blocks):
        raise ValueError("blocks must hold at least one (number, filters, stride)")
    return blocks[0][1]


def _stack(
    block: Callable[[int, int, int], nn.Module], width: int, blocks: Blocks, growth: int
) -> tuple[nn.Sequential, int]:
    """All blocks on maps of this width, each with `growth` times its filters as output maps; and the last width."""
    layers: list[nn.Module] = []
    for number, filters, stride in blocks:
        for index in range(number):
            layers.append(block(width, filters, stride if index == 0 else 1))
            width = growth * filters
    return nn.Sequential(*layers), width


def _initialise(model: nn.Module, mode: Literal["fan_in", "fan_out"]) -> None:
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
