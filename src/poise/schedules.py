"""Schedules: functions of the optimizer step, for the weight lambda and for learning rates.

    Constant     value
    Ramp         0 before `start`, then a line up to `peak` over `length` steps; length 0 is a switch
    Steps        a line up to `peak` over `warmup` steps; times `factor` at each milestone
    Exponential  initial * rate ** (number of whole periods of `every` steps)
    Cosine       a line up to `peak` over `warmup` steps; then half a wave of a cosine, down to 0 at the last step

One clock: the optimizer step. Recipes turn epochs into steps where they are written. A schedule of learning rates
drives any torch optimizer built with lr=1: `torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi
from typing import Protocol


class Schedule(Protocol):
    """A number for every optimizer step."""

    def __call__(self, step: int) -> float: ...


@dataclass(frozen=True)
class Constant:
    """The same value at every step."""

    value: float

    def __call__(self, step: int) -> float:
        return self.value


@dataclass(frozen=True)
class Ramp:
    """0 before step `start`; then peak * (step - start) / length, and peak from start + length on."""

    peak: float
    start: int = 0
    length: int = 0

    def __post_init__(self) -> None:
        _require_steps(start=self.start, length=self.length)

    def __call__(self, step: int) -> float:
        if step < self.start:
            return 0.0
        return self.peak * min(1.0, (step - self.start) / self.length) if self.length else self.peak


@dataclass(frozen=True)
class Steps:
    """peak * min(1, (step + 1) / warmup) * factor ** (number of milestones reached)."""

    peak: float
    milestones: tuple[int, ...]
    factor: float = 0.1
    warmup: int = 0

    def __post_init__(self) -> None:
        _require_steps(warmup=self.warmup)
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"milestones={self.milestones} must be steps in ascending order")

    def __call__(self, step: int) -> float:
        warm = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return self.peak * warm * self.factor ** sum(step >= milestone for milestone in self.milestones)


@dataclass(frozen=True)
class Exponential:
    """initial * rate ** (step // every): one drop per `every` steps, as a rate per epoch has it."""

    initial: float
    rate: float
    every: int = 1

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every={self.every} must be at least one step")

    def __call__(self, step: int) -> float:
        return self.initial * self.rate ** (step // self.every)


@dataclass(frozen=True)
class Cosine:
    """peak * (step + 1) / warmup, then peak * (1 + cos(pi * (step - warmup) / (steps - warmup))) / 2; 0 afterwards."""

    peak: float
    steps: int
    warmup: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < self.steps:
            raise ValueError(f"warmup={self.warmup} must be a number of steps below steps={self.steps}")

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        return self.peak * (1 + cos(pi * min(1.0, (step - self.warmup) / (self.steps - self.warmup)))) / 2


def as_schedule(value: float | Schedule) -> Schedule:
    return value if callable(value) else Constant(float(value))


def _require_steps(**steps: int) -> None:
    for name, step in steps.items():
        if step < 0:
            raise ValueError(f"{name}={step} must be a number of steps >= 0")
