"""Classifiers of pictures [B, 3, 8, 8], each in the architecture of its family, as small as it goes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 3)
        self.fc1, self.fc2, self.fc3 = nn.Linear(20, 8), nn.Linear(8, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.conv2(self.conv1(x).relu()).relu(), 2)
        return self.fc3(self.fc2(self.fc1(x.flatten(1)).relu()).relu())


class BatchNormed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(F.avg_pool2d(self.features(x), 6).view(len(x), -1))


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu_(self.bn1(self.conv1(x)))))
        out += x
        return F.relu_(out)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.layer1 = nn.Sequential(Residual(4), Residual(4))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(self.avgpool(self.layer1(self.bn1(self.conv1(x)).relu())), 1))


class Timm(ResNet):
    """As timm has it: pooling and the head in forward_head, and a word for the classifier."""

    def get_classifier(self) -> nn.Module:
        return self.fc

    def forward_features(self, x: Tensor) -> Tensor:
        return self.layer1(self.bn1(self.conv1(x)).relu())

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        x = self.avgpool(x).flatten(1)
        return x if pre_logits else self.fc(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))


class TimmHead(nn.Module):
    """timm's ConvNeXt: head is a module of pooling, norm and fc."""

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.drop, self.fc = nn.LayerNorm(4), nn.Dropout(0.2), nn.Linear(4, 3)

        def forward(self, x: Tensor, pre_logits: bool = False) -> Tensor:
            x = self.drop(self.norm(x.mean((2, 3))))
            return x if pre_logits else self.fc(x)

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 4, 2, 2), self.Head()

    def get_classifier(self) -> nn.Module:
        return self.head.fc

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.stem(x).relu())


class Attention(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, dropout, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 12), nn.GELU(), nn.Dropout(dropout), nn.Linear(12, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """torchvision's: the head is heads.head."""

    def __init__(self, class_token: bool) -> None:
        super().__init__()
        self.class_token = nn.Parameter(torch.randn(1, 1, 6)) if class_token else None
        self.patches = nn.Conv2d(3, 6, 4, 4)
        self.positions = nn.Parameter(0.02 * torch.randn(1, 4 + class_token, 6))
        self.blocks, self.norm = nn.Sequential(Attention(6, 0.1), Attention(6, 0.1)), nn.LayerNorm(6)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(6, 3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1)
        x = self.norm(self.blocks(x + self.positions))
        return self.heads(x.mean(1) if self.class_token is None else x[:, 0])


class ChannelsNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.LayerNorm(4)
        self.wide, self.narrow = nn.Linear(4, 8), nn.Linear(8, 4)
        self.layer_scale = nn.Parameter(torch.full((4,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.layer_scale * self.narrow(F.gelu(self.wide(y)))
        keep = torch.rand(len(x), 1, 1, 1) > 0.2 if self.training else 1  # stochastic depth
        return x + y.permute(0, 3, 1, 2) * keep


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 2, 2), ChannelsNorm(4), ConvNeXtBlock(), ConvNeXtBlock())
        self.classifier = nn.Sequential(ChannelsNorm(4), nn.Flatten(1), nn.Linear(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(F.adaptive_avg_pool2d(self.features(x.contiguous(memory_format=torch.channels_last)), 1))


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(3 + 2 * i), nn.ReLU(), nn.Conv2d(3 + 2 * i, 2, 3, padding=1)) for i in range(3)
        )
        self.norm, self.classifier = nn.BatchNorm2d(9), nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return self.classifier(F.relu(self.norm(torch.cat(found, 1)), inplace=True).mean((2, 3)))


class VGG(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(4))
        self.classifier = nn.Sequential(nn.Linear(16, 6), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(6, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).flatten(1))


class SqueezeNet(nn.Module):
    """Logits by a 1x1 convolution and a mean over places; torchvision's has a ReLU in between."""

    def __init__(self, bend: bool) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU())
        after = [nn.ReLU()] if bend else []
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Conv2d(5, 3, 1), *after, nn.AdaptiveAvgPool2d(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x)).flatten(1)


class Inception(nn.Module):
    """(logits, aux) in train mode, logits in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.branches = nn.ModuleList([nn.Conv2d(4, 2, 1), nn.Conv2d(4, 2, 3, padding=1)])
        self.aux = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        x = self.stem(x).relu()
        aux = self.aux(x) if self.training else None
        logits = self.fc(torch.cat([branch(x) for branch in self.branches], 1).relu().mean((2, 3)))
        return logits if aux is None else (logits, aux)


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 6, 4, 4), nn.LayerNorm(6)
        self.tokens = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 4))
        self.channels = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 6))
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2)
        x = (x + self.tokens(x)).transpose(1, 2)
        return self.head(self.norm(x + self.channels(x)).mean(1))


class UNet(nn.Module):
    """Down, up again with a skip, and a class from the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 6, 2, 2)
        self.up, self.last = nn.ConvTranspose2d(6, 4, 2, 2), nn.Conv2d(8, 5, 3, padding=1)
        self.output = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.first(x).relu()
        x = self.up(self.down(skip).relu())
        return self.output(self.last(torch.cat([skip, x], 1)).relu().amax((2, 3)))


class MobileNet(nn.Module):
    """Inverted residual with squeeze and excitation: 1x1 convolutions inside, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.widen, self.depthwise = nn.Conv2d(3, 6, 1), nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.squeeze, self.excite = nn.Conv2d(6, 2, 1), nn.Conv2d(2, 6, 1)
        self.narrow = nn.Conv2d(6, 3, 1)
        self.classifier = nn.Sequential(nn.Linear(3, 5), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(5, 3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(F.hardswish(self.widen(x)))
        y = y * F.hardsigmoid(self.excite(self.squeeze(y.mean((2, 3), keepdim=True)).relu()))
        return self.classifier((x + self.narrow(y)).mean((2, 3)))


class Checkpointed(ResNet):
    """Activations of the body are computed again in the backward pass: in train mode alone, as in transformers, or
    always, as in timm."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.always = always

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x)).relu()
        again = self.always or self.training
        x = checkpoint(self.layer1, x, use_reentrant=False) if again else self.layer1(x)
        return self.fc(self.avgpool(x).flatten(1))


class Grayscale3d(nn.Module):
    """Slices as depth, and a 1x1x1 convolution at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Conv3d(1, 4, 3), nn.Conv3d(4, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x[:, None]).relu().mean((2, 3, 4), keepdim=True)).flatten(1)
