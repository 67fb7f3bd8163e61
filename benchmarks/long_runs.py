"""The long runs on CIFAR, of the tables and of rare details, in the order in which they are wanted.

    python benchmarks/long_runs.py                          # what is done and what is left
    python benchmarks/long_runs.py --device cuda --minutes 25 --out runs      # go on for 25 minutes
    poise pack runs/noisy-cifar10 runs/cifar10-c --out results                # then keep the records

Each item is a `poise reproduce` with what it says here. Finished runs are skipped and unfinished ones continue, so the
same command goes on where the last one stopped. `minutes` are an estimate for one H200 before anything is run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from poise.recipes import index
from poise.running.runner import Runner

CONTRASTS = ("XE", "XE+Gaussian", "CL+Gaussian", "FCL")
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Item:
    """One call of `poise reproduce`."""

    about: str
    names: tuple[str, ...]
    methods: tuple[str, ...]  # all, if empty
    seeds: int
    minutes: float
    length: index.Version = "full"

    @property
    def words(self) -> list[str]:
        length = [] if self.length == "full" else [f"--{self.length}"]
        methods = [word for method in self.methods for word in ("--method", method)]
        return [*self.names, *length, "--seeds", str(self.seeds), *methods]


QUEUE = (
    Item("CIFAR-10, four methods", ("noisy-cifar10", "cifar10-c"), CONTRASTS, 5, 72),
    Item("CIFAR-10, random features in FCL's place", ("cifar-controls",), ("FCL, random k",), 5, 20),
    Item("CIFAR-100, four methods", ("noisy-cifar100", "cifar100-c"), CONTRASTS, 3, 54),
    Item("CIFAR-10 with Patch Gaussian", ("noisy-cifar10", "cifar10-c"), ("PG+XE", "PG+FCL"), 3, 24),
    Item("CIFAR-10, which features, over lambda", ("cifar10-frontier",), (), 5, 35, "compressed"),
    Item("CIFAR-100, which features", ("cifar100-choices",), (), 5, 15, "compressed"),
    Item(
        "XE+Gaussian with the statistics and start of FCL",
        ("cifar-controls",),
        ("XE+Gaussian, running statistics, from epoch 300",),
        5,
        12,
    ),
    Item("Corner CIFAR, all methods", ("corner-cifar",), (), 5, 120, "compressed"),
    Item("CIFAR-10-LT, choosing settings on validation", ("cifar10-lt-choice",), (), 2, 45, "compressed"),
    Item("CIFAR-10-LT, all methods", ("cifar10-lt",), (), 5, 130, "compressed"),
)


def go_on(item: Item, out: Path, device: str, minutes: float) -> None:
    """Run an item for some minutes."""
    command = [sys.executable, "-m", "poise", "reproduce", *item.words, "--out", str(out), "--device", device]
    code = subprocess.call([*command, "--minutes", f"{minutes:.3f}", "--keep-models"])
    if code:
        sys.exit(f"stopped at '{item.about}': poise reproduce ended with {code}")


def left_of(item: Item, out: Path) -> tuple[int, int]:
    """How many runs of an item have no record under `out`, and how many it has."""
    parts = [each for name in item.names for each in index.find_experiments(name, item.length)]
    runners = [Runner(each, out, torch.device("cpu")) for each in parts]
    runs = [(each, run) for each in runners for run in each.experiment.runs(item.methods or None, range(item.seeds))]
    return sum(not runner.is_finished(*run) for runner, run in runs), len(runs)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=ROOT / "runs", help="the folder of the runs")
    chosen = parser.parse_args(words)
    end = time.monotonic() + 60 * chosen.minutes
    for item in QUEUE:
        if time.monotonic() < end:
            go_on(item, chosen.out, chosen.device, (end - time.monotonic()) / 60)
    for number, item in enumerate(QUEUE, 1):
        left, runs = left_of(item, chosen.out)
        minutes = item.minutes * left / runs
        print(f"{number:2}  {item.about:50} {runs - left:3} of {runs:3} runs, about {minutes:3.0f} min left")


if __name__ == "__main__":
    main()
