"""Blobs for two processes: a network with batch norm over both, and a method that loses a worker once, in mid-run."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from miniature import CONTRAST
from miniature import EXPERIMENT as SMALL
from toys import ConvNet

from poise import FCL, Gaussian, GradientUtility, InfoNCE, TopBottom
from poise.distributed import rank
from poise.running.experiment import Build, Method


@dataclass(frozen=True)
class Deadly(Gaussian):
    """Gaussian noise; the process with the last rank kills itself at the tenth call, if none was killed before."""

    calls: list[None] = field(default_factory=list, repr=False, compare=False)

    def __call__(self, x: torch.Tensor, chosen: torch.Tensor, generator: object = None) -> torch.Tensor:
        self.calls.append(None)
        killed = Path(os.environ["KILLED"])
        if len(self.calls) == 10 and rank() == int(os.environ.get("WORLD_SIZE", "1")) - 1 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(x, chosen, generator)


def fcl(perturb: Gaussian) -> FCL:
    return FCL(GradientUtility(), TopBottom(k=40), perturb, InfoNCE(0.1), CONTRAST)


EXPERIMENT = replace(
    SMALL,
    network=Build(ConvNet, channels=1, num_classes=3),
    plan=replace(SMALL.plan, sync_batch_norm=True),
    methods=(Method("FCL", fcl(Gaussian(0.5))), Method("killed", fcl(Deadly(0.5)))),
    groups=(),
    paper={},
)
