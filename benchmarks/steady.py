"""Steady-state timing: results that are saved as they are measured, a meter of steps, and very long epochs."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import numpy as np
import torch

from poise.data.loading.pictures import Source
from poise.running.record import surroundings

TIMES = 40


class Bench:
    """Numbers by name, saved as they are measured; numbers of an earlier call are reused if they match this machine."""

    def __init__(self, device: torch.device, out: Path | None) -> None:
        here = {"cores": len(os.sched_getaffinity(0)), **surroundings(device)}
        before = json.loads(out.read_text()) if out is not None and out.exists() else {}
        same = all(before.get(name) == value for name, value in here.items())
        self.device, self.out, self.found = device, out, before if same else {**here, "rates": {}}

    def rate(self, name: str, measure: Callable[[], float]) -> None:
        """Measure images per second."""
        if name in self.found["rates"]:
            return
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        begun = time.monotonic()
        value = measure()
        self.found["rates"][name] = {"images_per_second": value, "took": time.monotonic() - begun}
        if self.device.type == "cuda":
            self.found["rates"][name]["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
            torch.cuda.empty_cache()
        print(f"{name}: {value:.1f} images/s ({time.monotonic() - begun:.1f} s)", flush=True)
        if self.out is not None:
            part = self.out.with_suffix(".part")
            part.write_text(json.dumps(self.found, indent=1) + "\n")
            part.replace(self.out)


class Enough(Exception):
    """The measurement is complete in the middle of an epoch."""


@dataclass
class Meter:
    """Call after every step. The clock starts after `warm` steps and stops after `least` seconds, both at the end of a
    complete round of steps; then it raises Enough.
    """

    device: torch.device
    batch: int
    warm: int
    least: float
    round: int = 1
    clock: Callable[[], float] = time.perf_counter
    steps: int = 0
    begun: float = 0.0
    rate: float = 0.0

    def __call__(self, batch: int = 0) -> None:
        self.steps += 1
        timed = self.steps - self.warm
        if timed < 0 or timed % self.round:
            return
        wait(self.device)
        now = self.clock()
        if timed == 0:
            self.begun = now
        elif now - self.begun >= self.least:
            self.rate = timed * self.batch / (now - self.begun)
            raise Enough


def tuning(device: torch.device, batch: int) -> Meter:
    return Meter(device, batch, warm=3, least=0.0)


def resident(device: torch.device, batch: int) -> Meter:
    return Meter(device, batch, warm=4, least=2.0, round=8)


def streamed(device: torch.device, batch: int, workers: int, least: float) -> Meter:
    return Meter(device, batch, warm=workers, least=least, round=workers)


class Long:
    """The pictures of a source, repeated TIMES times: an epoch that outlasts any measurement, since its end stops the
    workers.
    """

    def __init__(self, source: Source) -> None:
        self._source, self.classes = source, source.classes
        self.labels = np.tile(source.labels, TIMES)

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, index: int) -> Path:
        return self._source.name(index % len(self._source))

    def read(self, index: int) -> bytes:
        return self._source.read(index % len(self._source))

    def order(self, seed: int, epoch: int) -> np.ndarray:
        size = len(self._source)
        return np.concatenate([self._source.order(seed, TIMES * epoch + turn) + turn * size for turn in range(TIMES)])


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def stop_after(seconds: int, place: str) -> None:
    """Exit immediately on timeout: torch.compile would report an exception as its own failure."""

    def over(signal: int, frame: object) -> None:
        print("time limit reached: run the same command to measure the rest", flush=True)
        rmtree(place, ignore_errors=True)
        os._exit(0)

    signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
