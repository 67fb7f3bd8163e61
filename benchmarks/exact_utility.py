"""The accuracy of utility once the model is confident: torch's cross-entropy and ours in float32, against float64.

    python benchmarks/exact_utility.py results/synthetic-mnist/xe/seed-00/checkpoint-0020.safetensors

Uses synthetic MNIST's training images, a run's LeNet, and MNIST in the cache. Two cores: a minute.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from places import to_read
from safetensors.torch import load_file
from torch import Tensor

from poise.data.sets.cache import load
from poise.data.synthetic_mnist import SyntheticMNIST
from poise.features.selection import TopBottom
from poise.features.sensitivity import overlap, spearman
from poise.losses import CrossEntropy
from poise.models.lenet import LeNet

LOSSES = {"torch's": lambda f, y: F.cross_entropy(f, y, reduction="none"), "ours": CrossEntropy()}


def utility(model: Any, x: Tensor, y: Tensor, loss: Any) -> Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(loss(model(x), y).sum(), x)[0].abs()


def chosen(u: Tensor) -> tuple[Tensor, Tensor]:
    return TopBottom(k=256)(u, None, torch.Generator().manual_seed(0))


def agreements(model: Any, x: Tensor, y: Tensor) -> dict[str, list[Tensor]]:
    """For each loss in float32: rank correlation and common top and bottom features with float64, for each example."""
    truth = utility(model.double(), x.double(), y, LOSSES["ours"])
    model.float()
    found = {}
    for name, loss in LOSSES.items():
        u = utility(model, x, y, loss)
        common = [overlap(one, other) for one, other in zip(chosen(u), chosen(truth), strict=True)]
        found[name] = [spearman(u, truth), *common]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=to_read)
    parser.add_argument("--images", type=int, default=5000)
    given = parser.parse_args()
    model = LeNet(num_classes=15)
    tensors = load_file(given.checkpoint)
    model.load_state_dict({name.removeprefix("model/"): value for name, value in tensors.items() if "model/" in name})
    digits = SyntheticMNIST()({name: load("mnist", name) for name in ("train_x", "train_y", "test_x", "test_y")})
    some = np.random.default_rng(0).choice(len(digits["train"].y), given.images, replace=False)
    x = torch.as_tensor(digits["train"].x[some]).float().view(-1, 1, 28, 28) / 255
    y = torch.as_tensor(digits["train"].y[some]).long()
    with torch.no_grad():
        sure = model.eval()(x).softmax(1).gather(1, y[:, None])[:, 0] == 1
    print(f"{sure.float().mean():.1%} of {len(y)} training images have p_y = 1 in float32\n")
    print("| images | loss | rank correlation | common top 256 | common bottom 256 |\n|---|---|---:|---:|---:|")
    for images, rows in {"p_y = 1": sure, "others": ~sure}.items():
        for name, numbers in agreements(model, x[rows], y[rows]).items():
            print(f"| {images} | {name} | " + " | ".join(f"{each.nanmean():.3f}" for each in numbers) + " |")


if __name__ == "__main__":
    main()
