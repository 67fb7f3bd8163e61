"""Networks small enough to carry their formula, for tests that know the answer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from poise import Tokens


class Linear(nn.Module):
    """phi(x) = W x, h(z) = V z, for x of any shape [B, *D] flattened. So d phi / d x_j = W[:, j]."""

    def __init__(self, num_features: int, width: int = 4, num_classes: int = 3) -> None:
        super().__init__()
        self.body = nn.Linear(num_features, width, bias=False)
        self.head = nn.Linear(width, num_classes, bias=False)
        self.calls = 0

    def embed(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.body(x.flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))

    def check_head(self, x: object) -> None:
        """Seen in forward: passes are counted, and a check would be one."""


class Smooth(Linear):
    """phi(x) = tanh(W x): a network with a curved loss and no two equal gradients."""

    def embed(self, x: Tensor) -> Tensor:
        return super().embed(x).tanh()


class BagOfWords(nn.Module):
    """phi(tokens) = sum of the words' embeddings, h(z) = V z. So removing token j moves phi by its embedding."""

    def __init__(self, vocabulary: int = 20, width: int = 5, num_classes: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, num_classes, bias=False)
        self.rows = 0

    def embed(self, x: Tokens) -> Tensor:
        self.rows += len(x)
        return (self.words(x.ids) * x.mask[:, :, None]).sum(1)

    def forward(self, x: Tokens) -> Tensor:
        return self.head(self.embed(x))

    def check_head(self, x: object) -> None:
        """Seen in forward: passes are counted, and a check would be one."""


class ConvNet(nn.Module):
    """A convolution with batch norm and dropout: everything that train mode changes."""

    def __init__(self, channels: int = 3, num_classes: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(8, num_classes)
        self.modes: list[tuple[bool, int]] = []

    def embed(self, x: Tensor) -> Tensor:
        self.modes.append((self.norm.training, len(x)))
        return self.dropout(self.norm(self.conv(x)).relu()).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))

    def check_head(self, x: object) -> None:
        """Seen in forward: passes are counted, and a check would be one."""


def sentences(lengths: list[int], vocabulary: int = 20, special: bool = False) -> Tokens:
    """Random sentences of these lengths, padded on the right; with `special`, the first and last token are special."""
    mask = torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]
    ids = torch.randint(1, vocabulary, mask.shape) * mask
    ends = torch.zeros_like(mask)
    if special:
        ends[:, 0] = True
        ends[torch.arange(len(lengths)), torch.tensor(lengths) - 1] = True
    return Tokens(ids, mask, ends if special else None)


def state_of(model: nn.Module) -> dict[str, object]:
    """All that measuring must leave alone: weights, buffers, gradients, requires_grad and modes."""
    return {
        "values": {name: value.clone() for name, value in model.state_dict().items()},
        "grads": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "requires_grad": [p.requires_grad for p in model.parameters()],
        "modes": [module.training for module in model.modules()],
        "tracking": [getattr(module, "track_running_stats", None) for module in model.modules()],
    }


def same_state(a: dict[str, object], b: dict[str, object]) -> bool:
    equal = all(torch.equal(a["values"][name], b["values"][name]) for name in a["values"])
    grads = all((p is None and q is None) or torch.equal(p, q) for p, q in zip(a["grads"], b["grads"], strict=True))
    return equal and grads and all(a[key] == b[key] for key in ("requires_grad", "modes", "tracking"))
