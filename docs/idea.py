"""Draws docs/idea.png, the picture of the README, from two networks trained on the spot (half a minute on two cores).

    python docs/idea.py

A dot in the corner decides the class of a cross, and nothing about a ring. Each row shows one image, its utility under
the FCL network, the two views that FCL makes of it, and how far each view moves the embedding: average over 500 images
of the row's kind, for a network trained with cross-entropy alone and one trained with FCL.
"""

from pathlib import Path

import matplotlib
import torch
from torch import Tensor

import poise

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SIZE, DOT = 16, 3
KINDS = {"cross, with a dot: the dot decides": (1, True), "ring, with a dot: the dot means nothing": (0, True)}
FCL = poise.FCL(
    utility=poise.GradientUtility(),
    select=poise.TopBottom(k=24),
    perturb=poise.Gaussian(sigma=0.5),
    contrast=poise.InfoNCE(temperature=0.1),
    weight=poise.Ramp(0.1, start=200, length=100),
)


def images(cross: Tensor, dot: Tensor, generator: torch.Generator) -> Tensor:
    """[B, 1, 16, 16]: a cross or a ring near the middle, perhaps a dot in one corner, some noise."""
    count = len(cross)
    grid = torch.arange(SIZE).float()
    centre = 7.5 + torch.randint(-1, 2, (2, count, 1, 1), generator=generator)
    rows, columns = (grid[:, None] - centre[0]).abs(), (grid[None, :] - centre[1]).abs()
    crosses = (torch.minimum(rows, columns) < 1) & (torch.maximum(rows, columns) < 4)
    rings = ((rows**2 + columns**2).sqrt() - 3.5).abs() < 0.8
    corner = torch.randint(0, 2, (2, count, 1, 1), generator=generator) * (SIZE - DOT)
    dots = ((grid[:, None] - corner[0] - 1).abs() <= 1) & ((grid[None, :] - corner[1] - 1).abs() <= 1)
    shapes = torch.where(cross[:, None, None], crosses, rings) | (dots & dot[:, None, None])
    return (0.8 * shapes + 0.1 * torch.rand(shapes.shape, generator=generator))[:, None]


def batch(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rings (0) with and without a dot, crosses without (1), and now and then one with a dot (2)."""
    cross = torch.rand(count, generator=generator) < 0.5
    dot = torch.rand(count, generator=generator) < torch.where(cross, 0.1, 0.5)
    return images(cross, dot, generator), torch.where(cross, 1 + dot.long(), 0)


def train(objective: poise.Objective, steps: int = 600) -> poise.LeNet:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = poise.LeNet(num_classes=3, size=SIZE, units=(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(steps):
        x, y = batch(128, generator)
        optimizer.zero_grad()
        objective(model, x, y, step, generator=generator).total.backward()
        optimizer.step()
    return model.eval()


def views(model: poise.LeNet, x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    u = FCL.utility(model, x, y)
    low, high = FCL.select(u, generator=generator)
    return u, FCL.perturb(x, low, generator), FCL.perturb(x, high, generator)


def moves(model: poise.LeNet, x: Tensor, y: Tensor) -> list[float]:
    """1 - cosine similarity of the embedding to those of the near and the far view, averaged."""
    _, near, far = views(model, x, y, torch.Generator().manual_seed(1))
    with torch.no_grad():
        z = model.embed(x)
        return [float((1 - torch.cosine_similarity(z, model.embed(view))).mean()) for view in (near, far)]


def main() -> None:
    models = {"cross-entropy": train(poise.XE()), "FCL": train(FCL)}
    figure, axes = plt.subplots(2, 5, figsize=(11, 4.6), width_ratios=[1, 1, 1, 1, 1.5], layout="constrained")
    for row, (title, (cross, dot)) in zip(axes, KINDS.items(), strict=True):
        generator = torch.Generator().manual_seed(4)
        flags = torch.full((500,), bool(cross)), torch.full((500,), dot)
        x = images(*flags, generator)
        y = torch.full((500,), 2 if cross else 0)
        u, near, far = views(models["FCL"], x, y, generator)
        pictures = {
            "x": x[0, 0],
            "utility u": u[0, 0],
            "near: least useful moved": near[0, 0],
            "far: most useful moved": far[0, 0],
        }
        for axis, (name, picture) in zip(row[:4], pictures.items(), strict=True):
            heat = name == "utility u"
            axis.imshow(picture, cmap="magma" if heat else "gray", **({} if heat else {"vmin": -0.6, "vmax": 1.4}))
            axis.set_title(name, fontsize=9)
            axis.set_xticks([]), axis.set_yticks([])
        row[0].set_ylabel(title.replace(": ", ":\n"), fontsize=9)
        for offset, (name, model) in enumerate(models.items()):
            bars = row[4].bar(
                [offset - 0.18, 2.2 + offset - 0.18], moves(model, x, y), 0.8, label=name, color=["0.7", "C3"][offset]
            )
            row[4].bar_label(bars, fmt="%.2f", fontsize=8)
        row[4].set_xticks([0.3, 2.5], ["near", "far"])
        row[4].set_title("the embedding moves by (1 - cosine)", fontsize=9)
        row[4].spines[["top", "right"]].set_visible(False)
        row[4].margins(y=0.15)
    axes[1, 4].legend(fontsize=8, frameon=False, loc="upper left")
    figure.savefig(Path(__file__).with_name("idea.png"), dpi=130)


if __name__ == "__main__":
    main()
