"""CIFAR-10-LT: CIFAR-10 whose classes become rarer and rarer, tested on the balanced test set, noisy and corrupted.

    poise data get cifar10                                    # and cifar10-c for the published pictures
    poise reproduce cifar10-lt-choice --device cuda --compressed      # choose settings on validation
    poise reproduce cifar10-lt --device cuda --compressed             # 45 epochs, 5 seeds of all methods
    poise reproduce cifar10-lt --quick --seeds 1                      # four methods, a small network, on one core

    n_c = floor(5000 * 100^(-c / 9)), c = 0, ..., 9       12,406 pictures (Cao et al. 2019); imbalance 100

The rare classes are the last three, with 139, 83 and 50 pictures. The first class takes all its pictures, so none is
left to choose settings on: cifar10-lt-choice keeps the last 500 of each class for validation, has the profile of 4,500,
and looks at no test set. Batches have 128 pictures and a rate of 0.1: of 1,024, an epoch would have 12.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from poise.corruptions.protocols import CORRUPTIONS, SEVERITIES
from poise.data.sets.cache import load
from poise.random import Stream
from poise.recipes.cifar import noisy_cifar
from poise.recipes.cifar.cifar_c import CorruptedCifar
from poise.recipes.cifar.recipe import HELD_OUT, LENGTHS, Cifar
from poise.recipes.rare_details.by_class import first_of_each, last_of_each
from poise.recipes.rare_details.corner_cifar import grid_of
from poise.recipes.rare_details.digits import first_look
from poise.recipes.rare_details.methods import study
from poise.recipes.settings import Length
from poise.records.columns import Column
from poise.running.experiment import Examples, Experiment, Make, Task
from poise.schedules import Steps
from poise.training.plan import Plan

TAIL = (7, 8, 9)
BATCH, RATE = 128, 0.1
QUICK_EPOCHS = 15


@dataclass(frozen=True)
class LongTailed(Cifar):
    """CIFAR-10 with an exponential profile of its classes.

    held_out   pictures for validation, a tenth of them from each class.
    first      draw from this many pictures, a tenth of them from each class, for a quick look.
    imbalance  the first class is this many times as frequent as the last.
    seed       the seed of the draw.
    """

    name: str = "cifar10"
    imbalance: float = 100.0
    seed: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Training pictures of each class."""
        return tuple(int(self.images // 10 * self.imbalance ** (-label / 9) + 1e-9) for label in range(10))

    def train(self) -> Examples:
        x, y = load(self.name, "train_x"), np.asarray(load(self.name, "train_y"))
        stream, pool = Stream(self.seed, "long-tailed cifar"), first_of_each(y, (self.images // 10,) * 10)
        pool = pool[stream.permutation(len(pool))]
        rows = np.sort(pool[first_of_each(y[pool], self.counts)])
        return Examples(np.asarray(x[rows]), y[rows])

    def validation(self) -> Examples | None:
        if not self.held_out:
            return None
        x, y = load(self.name, "train_x"), np.asarray(load(self.name, "train_y"))
        rows = last_of_each(y, 10, self.held_out // 10)
        return Examples(np.asarray(x[rows]), y[rows])


@dataclass(frozen=True)
class TailUnderNoise:
    """The balanced test pictures: clean, with both kinds of noise, and as CIFAR-10-C.

    source  of CIFAR-10-C, see `CorruptedCifar`.
    """

    training: LongTailed
    source: str = "auto"

    def __call__(self) -> Task:
        noisy = noisy_cifar.NoisyCifar(self.training)()
        corrupted = CorruptedCifar(self.training, self.source)()
        tests = {name: noisy.tests[name] for name in ("Clean", "UN", "NUN")}
        held = noisy.validation
        plain: dict[str, Make] = {} if held is None else {"validation": lambda device: held}
        return replace(
            noisy,
            tests={**tests, **corrupted.tests},
            validations={**plain, **noisy.validations},
            origins=corrupted.origins,
        )


def _plan(plan: Plan, length: Length) -> Plan:
    rate = Steps(RATE, tuple(length.epoch(number) for number in (200, 300, 400)), warmup=length.epoch(15))
    return replace(plan, batch_size=BATCH, learning_rate=rate)


def table(length: Length, choosing: bool = False) -> Experiment:
    """choosing: on validation, instead of the test set."""
    quick, name = length.quick, "cifar10-lt-choice" if choosing else "cifar10-lt"
    made = LongTailed(held_out=(500 if quick else HELD_OUT) if choosing else 0, first=10_000 if quick else None)
    length = replace(length, images=sum(made.counts), batch=BATCH, epochs=QUICK_EPOCHS if quick else length.epochs)
    base = noisy_cifar.table("cifar10", length)
    what = ", choosing settings" if choosing else ""
    base = replace(
        base,
        name=f"{name}{length.suffix}",
        title=f"Long-tailed CIFAR-10 under noise{what}, {length.title}",
        task=noisy_cifar.NoisyCifar(made, first=1000) if quick and not choosing else TailUnderNoise(made),
        plan=_plan(base.plan, length),
    )
    clean, noise = ("validation", ("validation+UN", "validation+NUN")) if choosing else ("Clean", ("UN", "NUN"))
    found = study(base, grid_of(made.counts, length), clean, noise, TAIL, pairs=False)
    if choosing:
        found = replace(found, testing=False)
    elif not quick:
        found = _with_corruptions(found)
    return replace(first_look(found), seeds=2) if quick else found


def _with_corruptions(found: Experiment) -> Experiment:
    every = tuple(f"{name}/{severity}" for name in CORRUPTIONS for severity in SEVERITIES)
    both = (Column("CIFAR-10-C", every), Column("rare, CIFAR-10-C", every, TAIL))
    return replace(found, columns=(*found.columns, *both))


EXPERIMENTS = {length.name: (table(length), table(length, choosing=True)) for length in LENGTHS}
