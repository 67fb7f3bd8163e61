"""A custom recipe: FCL on synthetic MNIST with the utility of a trained teacher, instead of its own or mixed with it.

    poise data get mnist
    poise run examples/taught_digits.py --device cuda --fleet

A recipe file defines EXPERIMENT. This one takes an existing table and replaces its methods; all other settings stay.
"""

from dataclasses import replace
from pathlib import Path

import poise
from poise.features.utility import Utility
from poise.recipes import Method
from poise.recipes.synthetic_mnist.ablation import EXPERIMENT as ABLATION
from poise.recipes.synthetic_mnist.table_1 import fcl, rising
from poise.training.checkpoint import newest, weights_of

RUN = Path(__file__).parents[1] / "results" / "synthetic-mnist" / "xe" / "seed-00"


def trained(folder: Path) -> poise.LeNet:
    """The network of a finished run."""
    held = newest(folder, warn=print)
    if held is None:
        raise ValueError(f"{folder} has no checkpoint: choose the folder of a finished run")
    network = poise.LeNet(num_classes=15)
    network.load_state_dict(weights_of(held))
    return network.eval().requires_grad_(False)


OWN, TEACHER = poise.GradientUtility(), poise.TeacherUtility(trained(RUN), name="XE, seed 0")
UTILITIES: dict[str, Utility] = {
    "own utility": OWN,
    "teacher's utility": TEACHER,
    "both": poise.MixedUtility((OWN, TEACHER), (0.5, 0.5)),
}
STEPS = 50_250 // 128  # of an epoch
METHODS = tuple(Method(name, replace(fcl(rising(STEPS)), utility=utility)) for name, utility in UTILITIES.items())
EXPERIMENT = replace(
    ABLATION,
    name="taught-digits",
    title="Synthetic MNIST: whose utility?",
    methods=METHODS,
    groups=(tuple(UTILITIES),),
)
