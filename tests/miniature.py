"""A task of a second: bright blobs at one of three places, a run of which costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poise import FCL, XE, CLGaussian, Exponential, Gaussian, GradientUtility, InfoNCE, LeNet, Ramp, TopBottom
from poise.records.columns import Column
from poise.running.experiment import Build, Examples, Experiment, Method, Task
from poise.running.sweeps import Sweep
from poise.training.plan import Adam, Plan


def blobs(count: int, seed: int) -> Examples:
    """uint8 [N, 16, 16] and where the blob is."""
    state = np.random.RandomState(seed)
    x, y = state.randint(0, 90, (count, 16, 16)), state.randint(0, 3, count)
    for image, place in zip(x, y, strict=True):
        image[2 + 4 * place : 6 + 4 * place, 4:12] += 120
    return Examples(x.astype(np.uint8), y.astype(np.uint8))


@dataclass(frozen=True)
class Blobs:
    count: int = 192

    def __call__(self) -> Task:
        def noisy(_: object) -> Examples:
            clean = blobs(100, 2)
            return Examples(
                np.random.RandomState(3).permutation(clean.x.reshape(100, -1).T).T.reshape(clean.x.shape), clean.y
            )

        return Task(blobs(self.count, 0), blobs(60, 1), {"clean": lambda _: blobs(100, 2), "mixed": noisy}, 3)


STEPS = 192 // 32
CONTRAST = Ramp(1e-2, start=2 * STEPS, length=STEPS)
EXPERIMENT = Experiment(
    name="blobs",
    title="Blobs",
    task=Blobs(),
    network=Build(LeNet, num_classes=3, size=16),
    plan=Plan(4, 32, Adam(), Exponential(0.005, 0.9, every=STEPS)),
    methods=(
        Method("XE", XE()),
        Method("CL+Gaussian", CLGaussian(Gaussian(0.5), InfoNCE(0.1), CONTRAST)),
        Method("FCL", FCL(GradientUtility(), TopBottom(k=40), Gaussian(0.5), InfoNCE(0.1), CONTRAST)),
    ),
    columns=(Column("clean", ("clean",)), Column("both", ("clean", "mixed")), Column("clean, 2", ("clean",), (2,))),
    groups=(("XE", "CL+Gaussian", "FCL"),),
    seeds=2,
    paper={"FCL": {"clean": (0.9, 0.01)}},
    rare_classes=(2,),
)

# Of these only the larger rate learns anything.
SWEEP = Sweep(EXPERIMENT, "FCL", {"plan.learning_rate.initial": (1e-7, 0.005), "objective.select.k": (20, 40)}, seeds=1)
