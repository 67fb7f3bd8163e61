"""The precision that leave-one-out utility needs: which tokens are chosen in bfloat16, with and without an exact head.

    python benchmarks/removal_precision.py                 # two cores, SST-2 in the cache: two minutes

Trains a small Transformer for two epochs on some phrases, then measures the utility of 1,024 longer phrases in float32,
in bfloat16 with the head in float32 (as in RemovalUtility), and in bfloat16 only.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from poise.classifier import evaluating, run
from poise.features.selection import TopBottomFraction
from poise.features.utility import RemovalUtility
from poise.losses import CrossEntropy
from poise.models.transformer import Transformer
from poise.recipes.sentiment.treebank import VOCABULARY, experiment
from poise.running.experiment import Build
from poise.running.judge import loader
from poise.tokens import Tokens, without_each
from poise.training.loop import fit

CPU = torch.device("cpu")


def all_in_bfloat16(model: nn.Module, x: Tokens, y: Tensor) -> Tensor:
    """Leave-one-out with autocast around everything."""
    with evaluating(model), torch.no_grad():
        whole = run(model, x, y, CrossEntropy()).losses
        u = whole.new_zeros(x.ids.shape)
        for rows, places, shorter in without_each(x, "mask", 1000):
            u[rows, places] = (whole[rows] - run(model, shorter, y[rows], CrossEntropy()).losses).abs()
    return u * x.features


def chosen(u: Tensor, x: Tokens) -> tuple[Tensor, Tensor]:
    return TopBottomFraction(0.1)(u, x.features, torch.Generator().manual_seed(0))


def longer_phrases(data: object, batches: int) -> Iterator[tuple[Tokens, Tensor]]:
    planned = data.batches(0)
    wide = [pair for pair in zip(planned.rows, planned.widths, strict=True) if pair[1] >= 12]
    for rows, width in wide[:batches]:
        yield data.batch(rows, torch.Generator(), width)


def main() -> None:
    network = Build(Transformer, num_classes=2, vocabulary=VOCABULARY, width=64, max_length=128, dropout=0.0)
    recipe = experiment(phrases=12_800, epochs=2, warmup=20, precision="float32", average=0.98, network=network)
    task = recipe.task()
    torch.manual_seed(0)
    model = recipe.network()
    done = fit(model, recipe.methods[0].objective, loader(task.train, recipe.plan, None, 0, CPU), recipe.plan)
    print(f"trained: xe {done.log[-1]['loss']['xe']:.3f}")
    common: dict[str, list[Tensor]] = {}
    for x, y in longer_phrases(loader(task.train, recipe.plan, None, 1, CPU), 8):
        low, high = chosen(RemovalUtility()(model, x, y), x)
        with torch.autocast("cpu", torch.bfloat16):
            ways = {"exact head": RemovalUtility()(model, x, y), "all bfloat16": all_in_bfloat16(model, x, y)}
        for way, u in ways.items():
            other_low, other_high = chosen(u, x)
            shares = [(low & other_low).sum() / low.sum(), (high & other_high).sum() / high.sum()]
            common.setdefault(way, []).append(torch.stack(shares))
    for way, shares in common.items():
        bottom, top = torch.stack(shares).mean(0).tolist()
        print(f"{way:13} in common with float32: bottom 10 % {bottom:.3f}, top 10 % {top:.3f}")


if __name__ == "__main__":
    main()
