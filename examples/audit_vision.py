"""Audit a network of torchvision or timm.

    pip install torchvision timm
    python examples/audit_vision.py torchvision
    python examples/audit_vision.py timm

To avoid downloads, the network is briefly trained on coloured squares. With your own weights, on the command line:

    poise audit torchvision:resnet50 --weights resnet50.safetensors --data photos/
"""

import importlib
import sys
import tempfile

import torch
from torch import nn

import poise

COLOURS = ["red", "green", "blue"]


def squares(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures [N, 3, 64, 64] in [0, 1] of a square in one of three colours."""
    generator = torch.Generator().manual_seed(seed)
    x, y = 0.4 * torch.rand(count, 3, 64, 64, generator=generator), torch.arange(count) % 3
    for row, (top, left) in enumerate(torch.randint(0, 44, (count, 2), generator=generator).tolist()):
        x[row, y[row], top : top + 20, left : left + 20] += 0.6
    return x, y


def network(library: str) -> nn.Module:
    if library not in ("torchvision", "timm"):
        sys.exit(f"{library!r} must be torchvision or timm")
    try:
        found = importlib.import_module(library)
    except Exception as error:  # it is missing, or does not fit this torch
        sys.exit(f"{library} cannot be imported ({str(error).splitlines()[0]}): pip install {library}")
    return found.create_model("resnet18", num_classes=3) if library == "timm" else found.models.resnet18(num_classes=3)


def main(library: str = "torchvision", steps: int = 20) -> poise.Audit:
    torch.manual_seed(0)
    model, (x, y) = network(library), squares(240, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        rows = torch.arange(24) + 24 * (step % 10)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    loader = list(zip(*(part.split(12) for part in squares(60, seed=1)), strict=True))
    settings = {"corruptions": ["gaussian_noise", "fog"], "severities": [3], "probes": 8}
    found = poise.audit(
        model, loader, examples=60, names=poise.Names(f"{library} resnet18", "squares", COLOURS), **settings
    )
    print(found)
    print(found.save(tempfile.mkdtemp()))
    return found


if __name__ == "__main__":
    main(*sys.argv[1:2])
