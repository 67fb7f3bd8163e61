"""Audit a plain PyTorch model: does it miss something that decides?

    python examples/audit_own_model.py

Images of 20 x 20 pixels show a bright bar, vertical or horizontal, in noise. In one image of four, a dot in the corner
reverses the label. One network is trained with the dot visible; the other never sees that corner. Each is audited with
one call: the second ignores a detail that decides, and its verdict reports that.
"""

import tempfile

import torch
from torch import nn

import poise


def bars(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures [N, 1, 20, 20] in [0, 1] and labels [N]."""
    generator = torch.Generator().manual_seed(seed)
    x = 0.25 * torch.rand(count, 1, 20, 20, generator=generator)
    standing = torch.rand(count, generator=generator) < 0.5
    places = torch.randint(4, 16, (count,), generator=generator)
    for row, place in enumerate(places.tolist()):
        if standing[row]:
            x[row, 0, 4:16, place : place + 2] += 0.6
        else:
            x[row, 0, place : place + 2, 4:16] += 0.6
    dot = torch.rand(count, generator=generator) < 0.25
    x[dot, :, :3, :3] += 0.6
    return x, (standing ^ dot).long()


class HiddenCorner(nn.Module):
    """Blanks the corner where the dot may be."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, :, :4] * 0, x[:, :, 4:]], 2)


def network(first: nn.Module) -> nn.Module:
    return nn.Sequential(
        first,
        nn.Conv2d(1, 8, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 32),
        nn.ReLU(),
        nn.Linear(32, 2),
    )


def fitted(model: nn.Module, steps: int) -> nn.Module:
    x, y = bars(2000, seed=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return model


def main(steps: int = 400) -> dict[str, poise.Audit]:
    torch.manual_seed(0)
    x, y = bars(200, seed=2)
    loader = list(zip(x.split(50), y.split(50), strict=True))  # any DataLoader of (x, y)
    found = {}
    for name, first in {"sees the dot": nn.Identity(), "blind to the dot": HiddenCorner()}.items():
        model = fitted(network(first), steps)
        names = poise.Names(name, "bars", ["lying", "standing"])
        found[name] = poise.audit(model, loader, examples=200, corruptions=["gaussian_noise"], names=names)
        print(f"{name}: accuracy {found[name]['accuracy']:.2f}; {found[name].verdict}")
        print("  page:", found[name].save(tempfile.mkdtemp()))
    return found


if __name__ == "__main__":
    main()
