"""A LeNet-like network (section 4.2): two convolutions and two fully connected layers are phi, a linear layer is h."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poise.checks import require_whole, require_wholes
from poise.tokens import require_pictures


class LeNet(nn.Module):
    """LeNet-5 with ReLU and max pooling for square images of side `size`, values in [0, 1].

    The paper gives no widths; the defaults are LeNet-5's: maps 6 and 16, units 120 and 84.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int = 1,
        size: int = 28,
        maps: tuple[int, int] = (6, 16),
        units: tuple[int, int] = (120, 84),
    ) -> None:
        super().__init__()
        require_whole("num_classes", num_classes, least=1)
        require_whole("in_channels", in_channels, least=1)
        require_whole("size", size)
        require_wholes("maps", maps, 2, least=1)
        require_wholes("units", units, 2, least=1)
        if size < 16:
            raise ValueError(f"size={size} must be at least 16 pixels for two 5x5 convolutions with pooling")
        side = (size // 2 - 4) // 2
        self.conv1 = nn.Conv2d(in_channels, maps[0], 5, padding=2)
        self.conv2 = nn.Conv2d(maps[0], maps[1], 5)
        self.fc1 = nn.Linear(maps[1] * side * side, units[0])
        self.fc2 = nn.Linear(units[0], units[1])
        self.head = nn.Linear(units[1], num_classes)

    def embed(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] → z [B, E]."""
        if not torch.jit.is_scripting():  # type: ignore[attr-defined]
            self._require(x)
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return F.relu(self.fc2(x))

    def _require(self, x: Tensor) -> None:
        """Raise for images with another number of channels or of another size."""
        require_pictures(x, self.conv1)
        if isinstance(x, Tensor) and not torch.compiler.is_compiling():
            rows, columns = ((side // 2 - 4) // 2 for side in x.shape[2:])
            if rows * columns * self.conv2.out_channels != self.fc1.in_features:
                raise ValueError(
                    f"x has images of {x.shape[2]} x {x.shape[3]} pixels: the network was built for another size"
                )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embed(x))
        return logits
