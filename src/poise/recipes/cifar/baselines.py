"""Augmentations and optimizers that others propose against corruptions, alone and with a contrast on random features.

    AugMix           with random features (alone and with FCL it is in recipe.py)
    RandAugment      two of fourteen operations, on every picture of the batch
    TrivialAugment   one of fourteen, at a random strength
    PixMix           mixed with fractals made by code
    PRIME            random filters, warps and colors, with AugMix's Jensen-Shannon term
    SAM              the gradient at nearby weights where the loss is worse

The random contrast is FCL's with features that are drawn, so that no utility is computed.
"""

from __future__ import annotations

from dataclasses import replace

from poise.data.augment import Augmentation, Chain, Standard
from poise.data.augmix import AugMix
from poise.data.pixmix import PixMix
from poise.data.prime import PRIME
from poise.data.randaugment import RandAugment
from poise.data.trivialaugment import TrivialAugment
from poise.features.external import EqualUtility
from poise.features.selection import AtRandom
from poise.objectives.fcl import FCL
from poise.objectives.jensen_shannon import JensenShannon
from poise.objectives.objective import XE, Objective
from poise.objectives.sam import SAM
from poise.running.experiment import Method

NAMES = ("RandAugment", "TrivialAugment", "PixMix", "PRIME", "SAM")
GROUPS = tuple((name, f"{name}+random") for name in NAMES)


def baselines(fcl: FCL) -> tuple[Method, ...]:
    """The rows of each baseline, and of AugMix with random features."""
    random = replace(fcl, utility=EqualUtility(), select=AtRandom(k=256))
    rows = [Method("AugMix+random", JensenShannon(random, AugMix()), Standard())]
    for name in NAMES:
        rows += [_row(name, XE()), replace(_row(name, random), name=f"{name}+random")]
    return tuple(rows)


def _row(name: str, objective: Objective) -> Method:
    operations: dict[str, Augmentation] = {
        "RandAugment": RandAugment(),
        "TrivialAugment": TrivialAugment(),
        "PixMix": PixMix(),
    }
    if name in operations:
        return Method(name, objective, Chain((Standard(), operations[name])))
    wrapped = SAM(objective) if name == "SAM" else JensenShannon(objective, PRIME())
    return Method(name, wrapped, Standard())
