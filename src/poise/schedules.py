"""Schedules: functions of the optimizer step, for the weight lambda and for learning rates.

    Constant     value
    Ramp         0 before `start`, then a line up to `peak` over `length` steps; length 0 is a switch
    Steps        a line up to `peak` over `warmup` steps; times `factor` at each milestone
    Exponential  initial * rate ** (number of complete periods of `every` steps)
    Cosine       a line up to `peak` over `warmup` steps; then half a cosine wave, down to 0 at the last step

Every schedule counts optimizer steps; recipes convert epochs to steps. A schedule of learning rates works with any
torch optimizer built with lr=1: `torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi
from typing import Protocol

from poise.checks import require_number, require_several, require_whole


class Schedule(Protocol):
    """A number for every optimizer step."""

    def __call__(self, step: int) -> float: ...


@dataclass(frozen=True)
class Constant:
    """The same value at every step."""

    value: float

    def __post_init__(self) -> None:
        require_number("value", self.value)

    def __call__(self, step: int) -> float:
        _require_step(step)
        return self.value


@dataclass(frozen=True)
class Ramp:
    """0 before step `start`; then peak * (step - start) / length, and peak from start + length on.

    >>> [Ramp(peak=0.5, start=2, length=2)(step) for step in range(6)]
    [0.0, 0.0, 0.0, 0.25, 0.5, 0.5]
    """

    peak: float
    start: int = 0
    length: int = 0

    def __post_init__(self) -> None:
        require_number("peak", self.peak)
        require_whole("start", self.start, least=0)
        require_whole("length", self.length, least=0)

    def __call__(self, step: int) -> float:
        _require_step(step)
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
        require_number("peak", self.peak)
        require_number("factor", self.factor)
        require_whole("warmup", self.warmup, least=0)
        require_several("milestones", self.milestones)
        for place, milestone in enumerate(self.milestones):
            require_whole(f"milestones[{place}]", milestone, least=0)
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"milestones={self.milestones} must be steps in ascending order")

    def __call__(self, step: int) -> float:
        _require_step(step)
        warm = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return self.peak * warm * self.factor ** sum(step >= milestone for milestone in self.milestones)


@dataclass(frozen=True)
class Exponential:
    """initial * rate ** (step // every): multiplies by `rate` once per `every` steps, such as once per epoch."""

    initial: float
    rate: float
    every: int = 1

    def __post_init__(self) -> None:
        require_number("initial", self.initial)
        require_number("rate", self.rate, least=0)
        require_whole("every", self.every, least=1)

    def __call__(self, step: int) -> float:
        _require_step(step)
        return self.initial * self.rate ** (step // self.every)


@dataclass(frozen=True)
class Cosine:
    """peak * (step + 1) / warmup, then peak * (1 + cos(pi * (step - warmup) / (steps - warmup))) / 2; 0 afterwards."""

    peak: float
    steps: int
    warmup: int = 0

    def __post_init__(self) -> None:
        require_number("peak", self.peak)
        require_whole("steps", self.steps, least=1)
        require_whole("warmup", self.warmup, least=0)
        if not self.warmup < self.steps:
            raise ValueError(f"warmup={self.warmup} must be a number of steps below steps={self.steps}")

    def __call__(self, step: int) -> float:
        _require_step(step)
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        return self.peak * (1 + cos(pi * min(1.0, (step - self.warmup) / (self.steps - self.warmup)))) / 2


def _require_step(step: int) -> None:
    if type(step) is not int or step < 0:  # skip the full check in the common case
        require_whole("step", step, least=0)


def as_schedule(value: float | Schedule) -> Schedule:
    return value if callable(value) else Constant(float(value))


def moves(schedule: Schedule) -> bool:
    """Whether the value depends on the step; True for schedules of unknown classes."""
    return not (
        isinstance(schedule, Constant) or (isinstance(schedule, Ramp) and schedule.start == schedule.length == 0)
    )
