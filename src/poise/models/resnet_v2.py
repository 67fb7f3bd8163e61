"""ResNet-v2-50 for ImageNet (appendix C): blocks [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)].

Pre-activation bottlenecks (He et al. 2016b): norm and ReLU before every convolution, stride in the 3x3 convolution of
a stage's first block, four times as many maps out as `filters`, a last norm and ReLU before the mean over places.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from poise.choices import require_whole
from poise.models.normalize import Normalize, require_blocks, require_pictures

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ResNetV2(nn.Module):
    """x [B, 3, H, W] in [0, 1] → z [B, 2048] → logits [B, num_classes]."""

    def __init__(
        self,
        num_classes: int,
        blocks: Sequence[tuple[int, int, int]],
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
    ) -> None:
        super().__init__()
        require_whole("num_classes", num_classes, least=1)
        require_blocks(blocks)
        width = blocks[0][1]
        self.normalize = Normalize(mean, std)
        self.stem = nn.Conv2d(len(mean), width, 7, stride=2, padding=3, bias=False)
        layers: list[nn.Module] = []
        for number, filters, stride in blocks:
            for index in range(number):
                layers.append(_Bottleneck(width, filters, stride if index == 0 else 1))
                width = 4 * filters
        self.blocks = nn.Sequential(*layers)
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def embed(self, x: Tensor) -> Tensor:
        """z [B, E]: the mean over places of the last maps."""
        require_pictures(x, self.stem, exact=False)
        x = F.max_pool2d(self.stem(self.normalize(x)), 3, stride=2, padding=1)
        return F.relu(self.norm(self.blocks(x))).mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embed(x))
        return logits


def resnet_v2_50(num_classes: int) -> ResNetV2:
    """The ImageNet network of appendix C: 25,549,352 weights for 1000 classes."""
    return ResNetV2(num_classes, [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)])


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
