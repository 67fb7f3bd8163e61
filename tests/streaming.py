"""What one of several processes does with streamed pictures, for tests/test_distributed.py."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from miniature import EXPERIMENT
from streams import loader
from toys import ConvNet

from poise import FCL, Constant, Gaussian, GradientUtility, InfoNCE, PatchGaussian, Ramp, TopBottom
from poise.data.loading.pictures import CentreCrop, Pictures, RandomCrop
from poise.data.loading.shards import open_part
from poise.data.sets.folders import Drawn
from poise.distributed import rank, share
from poise.running.experiment import Task
from poise.running.judge import Judge
from poise.training.loop import Now, fit
from poise.training.plan import SGD, Plan


@contextmanager
def _drawn() -> Iterator[Path]:
    """Pictures that all processes find, one of each part damaged."""
    with TemporaryDirectory() as place:
        folder = Path(share(place))
        if rank() == 0:
            home = Drawn(classes=3, train=12, val=9, sizes=((20, 20), (24, 20))).write(folder)
            (home / "val/n00000001/val_0001_00004.JPEG").write_bytes(b"<html>")  # picture 13, for the second of two
            (home / "train/n00000002/train_0002_00003.JPEG").write_bytes(b"")
        share(None)
        yield next(folder.glob("drawn-*"))
        share(None)


def _streams(home: Path, folder: Path | None, stop: tuple[int, int] | None) -> tuple[list[Any], list[torch.Tensor]]:
    """Losses and weights of a run on streamed pictures, which may stop after a batch of an epoch."""
    torch.manual_seed(0)
    model, held = ConvNet(num_classes=3), Pictures(open_part(home, "train"), RandomCrop(16))
    data = loader(held, 8, augment=PatchGaussian(9, 0.5), seed=5, stretch=2)

    def progress(now: Now) -> None:
        time.sleep(0.11 if stop else 0)  # more often than that it is not called
        if (now.epoch, now.batch) == stop:
            raise KeyboardInterrupt

    objective = FCL(GradientUtility(), TopBottom(40), Gaussian(1.0), InfoNCE(0.5, "sum"), Ramp(1e-2, start=3))
    plan = Plan(2, 8, SGD(), Constant(0.1))
    try:
        done = fit(model, objective, data, plan, folder=folder, keep_every=0.0, progress=progress)
    except KeyboardInterrupt:
        return [], []
    return [entry["loss"] for entry in done.log], list(model.state_dict().values())


def goes_on(number: int, size: int) -> dict[str, Any]:
    with _drawn() as home:
        runs = home.parent / "runs"
        straight, _ = _streams(home, None, None), _streams(home, runs, (1, 3))
        kept = sorted(path.stem for path in runs.glob("*.json"))
        share(None)
        return {"straight": straight, "again": _streams(home, runs, None), "kept": kept}


def judged(number: int, size: int) -> dict[str, Any]:
    """What a judge says of a streamed test, and of the pictures that it and the training could not decode."""
    with _drawn() as home:
        torch.manual_seed(0)
        damaged: dict[Path, str] = {}
        train = Pictures(open_part(home, "train"), RandomCrop(16), damaged=damaged)
        test = Pictures(open_part(home, "val"), CentreCrop(16, 16), damaged=damaged)
        model, kept, asked = ConvNet(num_classes=3), home.parent / "tested.jsonl", [test]
        judge = Judge(EXPERIMENT, Task(train, None, {"clean": lambda device: asked.pop()}, 3), torch.device("cpu"))
        said = judge.at_the_end(model, kept)
        share(None)
        assert judge.at_the_end(model, kept) == said  # no process asks for the test again
        return {"counts": said["classes"]["clean"], "damaged": [Path(path).name for path in said["damaged"]]}
