"""How much of a trained ResNet is still active: channels that weight decay moved to 0 get no gradient any more.

    python benchmarks/dead_channels.py results/noisy-cifar10/*/seed-00/model.safetensors

A channel inside a block is dead if its filter in the first convolution has a norm below 1e-3 (it starts at about 1.4;
other thresholds change the count by some channels). A block whose channels are all dead is its shortcut and a constant;
blocks are counted from 0.
"""

from __future__ import annotations

import argparse

import torch
from places import to_read
from torch import Tensor

import poise
from poise.models.resnet import ResNet

DEAD = 1e-3


def dead_of(model: ResNet) -> list[Tensor]:
    """For each block, which of its inner channels are dead."""
    return [block.conv1.weight.detach().float().flatten(1).norm(dim=1) < DEAD for block in model.blocks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=to_read)
    for path in parser.parse_args().models:
        try:
            model = poise.load_model(path)
        except ValueError as error:
            raise SystemExit(str(error)) from None
        if not isinstance(model, ResNet):
            raise SystemExit(f"{path} is a {type(model).__name__}, must be a CIFAR ResNet")
        blocks = dead_of(model)
        gone = [number for number, block in enumerate(blocks) if block.all()]
        alive = ~torch.cat(blocks)
        print(f"{path}: {alive.sum()} of {len(alive)} channels alive, {len(gone)} of {len(blocks)} blocks dead: {gone}")


if __name__ == "__main__":
    main()
