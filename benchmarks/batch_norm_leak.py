"""How much batch statistics change the ranking of utility: the training forward against an eval-mode one.

    python benchmarks/batch_norm_leak.py IMAGES.npy LABELS.npy --device cuda

Trains ResNet-56 with XE (batch 1024, SGD, crop and flip) on the images, uint8 [N, 32, 32, 3], and compares at several
epochs, on one augmented batch: the rank correlation of the two utilities and the share of top-k and bottom-k features
that they have in common (k = 256 of 3072; a random choice shares 0.083). Two eval-mode utilities of the same images,
before and after one more step, show how much a single step of training moves the same ranking.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from places import present, to_read, to_write
from torch import Tensor

from poise import XE, CrossEntropy, GradientUtility, Standard, Steps, TopBottom, resnet56
from poise.classifier import leaf, run, untracked


def training_utility(model: torch.nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The utility in FCL: from a pass in train mode, with batch statistics."""
    with untracked(model):
        return GradientUtility()(model, x, y, forward=run(model, leaf(x), y, CrossEntropy()))


def rank_correlation(a: Tensor, b: Tensor) -> float:
    """Spearman's, averaged over examples."""
    ranks = [u.flatten(1).argsort(1).argsort(1).float() for u in (a, b)]
    centred = [r - r.mean(1, keepdim=True) for r in ranks]
    return float(((centred[0] * centred[1]).sum(1) / (centred[0].norm(dim=1) * centred[1].norm(dim=1))).mean())


def overlap(a: Tensor, b: Tensor, k: int) -> tuple[float, float]:
    """The share of bottom-k and of top-k features that two utilities have in common."""
    low, high = zip(TopBottom(k)(a), TopBottom(k)(b), strict=True)
    return tuple(float((side[0] & side[1]).sum() / side[0].sum()) for side in (low, high))


def compare(a: Tensor, b: Tensor) -> dict[str, float]:
    low, high = overlap(a, b, 256)
    return {"rank correlation": rank_correlation(a, b), "bottom-256 in common": low, "top-256 in common": high}


def array(path: Path) -> Tensor:
    try:
        return torch.from_numpy(np.load(path))
    except (ValueError, EOFError):
        raise SystemExit(f"{path} is not an .npy file of numbers") from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=to_read)
    parser.add_argument("labels", type=to_read)
    parser.add_argument("--device", type=present, default="cpu")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--out", type=to_write)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device(arguments.device)
    images = array(arguments.images).to(device).permute(0, 3, 1, 2).float().div(255)
    labels = array(arguments.labels).to(device).long()
    epoch_steps = len(images) // arguments.batch
    total = arguments.epochs * epoch_steps
    model = resnet56(10).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = Steps(0.5, (total // 2, total * 3 // 4), warmup=total // 20)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    measured = (1, 5, 15, arguments.epochs // 2, arguments.epochs)
    augment, rows = Standard(4), []
    print(
        "| epoch | XE | what | rank correlation | bottom-256 in common | top-256 in common |\n|---|---|---|---|---|---|"
    )
    for epoch in range(arguments.epochs):
        order = torch.randperm(len(images), device=device)
        for batch in order[: epoch_steps * arguments.batch].view(epoch_steps, -1):
            x = augment(images[batch]).contiguous(memory_format=torch.channels_last)
            y = labels[batch]
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16):
                loss = XE()(model, x, y, 0)
            loss.total.backward()
            before = GradientUtility()(model, x, y) if epoch + 1 in measured else None
            optimizer.step()
            scheduler.step()
        if before is not None:
            eval_mode = GradientUtility()(model, x, y)
            comparisons = {
                "train mode / eval mode": compare(training_utility(model, x, y), eval_mode),
                "eval mode / eval mode, one step earlier": compare(before, eval_mode),
            }
            for what, numbers in comparisons.items():
                rows.append({"epoch": epoch + 1, "xe": loss.total.item(), "what": what, **numbers})
                values = " | ".join(f"{value:.3f}" for value in numbers.values())
                print(f"| {epoch + 1} | {loss.total.item():.3f} | {what} | {values} |", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
