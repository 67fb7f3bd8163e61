"""The plan of a comparison: successive halving over seeds, and the number of epochs that fits the time.

    round    1    2      3
    seeds    2    3      5            of each candidate, in total
    kept     all  1 / 2  the best 3   beside cross-entropy

Every run has the same length, so a method that needs many steps is not judged by its first ones. A step costs what it
takes on this machine: each family is timed on a few batches.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path

import torch

from poise.advising.candidates import Candidate, candidates_for
from poise.advising.noisy_sets import names_of_sets
from poise.advising.own_data import OwnData
from poise.errors import TrainingError
from poise.evaluation.accuracy import count_right
from poise.io.documents import read_json, write_proved
from poise.running.judge import loader, placed
from poise.schedules import Cosine
from poise.training.engine import TrainStep
from poise.training.plan import Adam, Plan

SEEDS = (2, 3, 5)
FINAL = 3
_SPENT = 0.8  # of the time; the rest is for what the timing missed
_START = 0.1  # seconds of a run without its steps and tests: the network, the files
_WANTED, _STEPS = 30, 1000  # epochs, or more for a small set: these steps
_SHORT = 0.5  # of the epochs that are wanted: with fewer, one setting of each method is tried
FILE = "plan.json"


@dataclass(frozen=True)
class Budget:
    """What one comparison does. It is saved, so that a continued comparison does the same.

    few  one setting of each method.
    """

    digest: str
    epochs: int
    batch_size: int
    learning_rate: float
    few: bool

    def steps(self, examples: int) -> int:
        return self.epochs * (examples // self.batch_size)

    def plan(self, examples: int) -> Plan:
        return Plan(self.epochs, self.batch_size, Adam(), Cosine(self.learning_rate, self.steps(examples)))


def kept(count: int) -> list[int]:
    """How many of `count` candidates besides cross-entropy take part in each round."""
    return [min(count, max(number, FINAL)) for number in (count, ceil(count / 2), FINAL)]


def saved_budget(out: Path, data: OwnData) -> Budget | None:
    """The budget in a folder; TrainingError if it belongs to another recipe or other data."""
    if not (out / FILE).exists():
        return None
    content = read_json(out / FILE, "plan")
    try:
        found = Budget(**{name: content[name] for name in Budget.__dataclass_fields__})
    except KeyError as error:
        raise TrainingError(f"{out / FILE} is not a plan of poise advise: it has no {error}") from None
    if found.digest != data.digest:
        raise TrainingError(
            f"{out} belongs to another version of {data.path.name} or of its data: use another --out, or remove it"
        )
    return found


def new_budget(out: Path, data: OwnData, minutes: float, device: torch.device) -> Budget:
    """Time a few steps, choose the number of epochs, and save the budget."""
    examples = data.trained_on
    batch_size = min(int(data.given.get("batch_size", _batch_size(examples))), examples)
    steps = examples // batch_size  # of an epoch
    rate = float(data.given.get("learning_rate", 1e-3))
    wanted = int(data.given.get("epochs", max(_WANTED, ceil(_STEPS / steps))))
    cost = _Cost.measured(data, Budget(data.digest, 1, batch_size, rate, few=True).plan(examples), device)
    seconds = 60 * minutes * _SPENT
    few = cost.epochs(candidates_for(data, steps), seconds) < _SHORT * wanted
    tried = candidates_for(data, steps, few)
    found = cost.epochs(tried, seconds)
    if found < 1:
        needed = ceil((cost.of(tried, 0) + cost.of(tried, 1)) / 60 / _SPENT)
        raise TrainingError(
            f"{minutes:g} minutes are too few for one epoch of each method here: give --minutes {needed} or more"
        )
    budget = Budget(data.digest, min(wanted, found), batch_size, rate, few)
    write_proved(out / FILE, asdict(budget))
    return budget


def _batch_size(examples: int) -> int:
    return 128 if examples >= 1280 else 64 if examples >= 320 else 32


@dataclass(frozen=True)
class _Cost:
    """Seconds of an epoch of each family, and of the tests of one run."""

    epoch: dict[str, float]
    tests: float

    @classmethod
    def measured(cls, data: OwnData, plan: Plan, device: torch.device) -> _Cost:
        steps = data.trained_on // plan.batch_size
        found = {name: steps * seconds for name, seconds in seconds_per_step(data, plan, device).items()}
        rows, labels = placed(data.parts(0)[1], device)
        model = data.network().to(device)
        begun = time.monotonic()
        count_right(model, rows, labels, data.num_classes)
        return cls(found, 2 * len(names_of_sets(data)) * (time.monotonic() - begun))  # a run reads each set twice

    def epochs(self, tried: Sequence[Candidate], seconds: float) -> int:
        """How many fit."""
        return int((seconds - self.of(tried, 0)) / (self.of(tried, 1) - self.of(tried, 0)))

    def of(self, tried: Sequence[Candidate], epochs: int) -> float:
        """The seconds of all rounds, with candidates that stay as costly as the mean."""
        baseline, *others = (epochs * self.epoch[each.family] + self.tests + _START for each in tried)
        return baseline * SEEDS[-1] + sum(others) / len(others) * runs_of_rounds(len(others))


def runs_of_rounds(count: int) -> int:
    """The runs of `count` candidates in all rounds."""
    before, found = 0, 0
    for seeds, number in zip(SEEDS, kept(count), strict=True):
        found, before = found + number * (seeds - before), seeds
    return found


def seconds_per_step(data: OwnData, plan: Plan, device: torch.device, steps: int = 5) -> dict[str, float]:
    """{family: seconds}, after a first step that loads kernels."""
    rows, labels = placed(data.parts(0)[0], device)
    found: dict[str, float] = {}
    for candidate in candidates_for(data, 0, few=True):
        model = data.network().to(device)
        batches = loader(rows, labels, plan, candidate.method.augment, 0)
        step, optimizer = TrainStep(model, candidate.objective), plan.optimizer(model.parameters(), device)
        chosen, generator, begun = batches.batches(0), torch.Generator(device), time.monotonic()
        for number in range(steps):
            row = number % len(chosen.rows)
            x, y = batches.batch(chosen.rows[row], generator, chosen.widths[row])
            optimizer.zero_grad()
            step(x, y, number, generator=generator).total.backward()
            optimizer.step()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            begun = begun if number else time.monotonic()
        found[candidate.family] = (time.monotonic() - begun) / (steps - 1)
    return found
