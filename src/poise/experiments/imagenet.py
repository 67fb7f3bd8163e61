"""What the ImageNet experiment is made of (section 4.3, appendix C): data, schedule, methods.

    ResNet-v2-50, batch 1024, SGD with momentum 0.9, rate 0.8 after 5 epochs of ramp, / 10 at 30, 60, 80 of 90 epochs,
    random resized crop and flip; contrastive losses from epoch 60 or the step of `ramp_up` on, summed over the batch

The rest is He et al.'s: weight decay 1e-4. "compressed" is a fifth: 18 epochs, and every epoch and step divided by 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from poise.data.augment import PatchGaussian
from poise.data.cache import root
from poise.data.drawn import Drawn
from poise.data.errors import DataMismatch
from poise.data.imagenet import RandomCrop
from poise.data.shards import open_part
from poise.data.sources import folder
from poise.data.streamed import Pictures, workers_for
from poise.experiments.experiment import Build, Method
from poise.experiments.lengths import Length
from poise.features.perturbation import Gaussian
from poise.features.selection import TopBottom
from poise.features.utility import GradientUtility
from poise.models.resnet_v2 import ResNetV2, resnet_v2_50
from poise.objectives.cl_gaussian import CLGaussian
from poise.objectives.contrast import InfoNCE
from poise.objectives.fcl import FCL
from poise.objectives.xe import XE
from poise.objectives.xe_gaussian import XEGaussian
from poise.schedules import Ramp, Steps
from poise.training.plan import SGD, Plan


@dataclass(frozen=True)
class ImageNet:
    """The pictures that are trained on: your ImageNet's, from folders or shards, or some that are drawn.

    images  how many the schedule is made for; up to 1 % may be missing.
    """

    images: int = 1_281_167
    crop: RandomCrop = field(default_factory=RandomCrop)
    drawn: Drawn | None = None

    def folder(self) -> Path:
        return folder("imagenet") if self.drawn is None else self.drawn.write(root())

    def train(self, damaged: dict[Path, str]) -> Pictures:
        place = self.folder()
        source = open_part(place, "train")
        if abs(len(source) - self.images) > self.images / 100:
            raise DataMismatch(
                f"{place} has {len(source)} pictures to train on; the schedule is made for {self.images}"
            )
        return Pictures(source, self.crop, workers_for(len(source)), damaged=damaged)


def plan_of(length: Length) -> Plan:
    peak = 0.1 if length.quick else 0.8  # for batches of a hundred
    rate = Steps(peak, tuple(length.epoch(number) for number in (30, 60, 80)), warmup=length.epoch(5))
    plan = Plan(length.epochs, length.batch, SGD(nesterov=False, weight_decay=1e-4), rate)
    return plan if length.quick else replace(plan, precision="bfloat16", compile=True)


def network_of(length: Length) -> Build:
    if length.quick:
        return Build(ResNetV2, num_classes=100, blocks=((1, 8, 1), (1, 16, 2), (1, 32, 2)))
    return Build(resnet_v2_50, num_classes=1000)


FULL = Length("full", 90, images=1_281_167, batch=1024, of_epochs=90, of_steps=90 * 1251)
COMPRESSED = replace(FULL, name="compressed", epochs=18)
QUICK = replace(FULL, name="quick", epochs=6, images=2_000, batch=100, looks_at=" at drawn pictures")
LENGTHS = (FULL, COMPRESSED, QUICK)


def methods(length: Length) -> tuple[Method, ...]:
    """The paper's six, as in appendix C."""
    late, share = length.step(78_000), 8 if length.quick else 1  # a quick picture has a twelfth of the values
    fcl = FCL(
        GradientUtility(),
        TopBottom(k=512 // share),
        Gaussian(sigma=1.0),
        InfoNCE(0.5, "sum"),
        weight=Ramp(2e-4, start=length.epoch(60)),
    )
    patch_fcl = FCL(
        GradientUtility(),
        TopBottom(k=2048 // share),
        Gaussian(sigma=0.5),
        InfoNCE(1.0, "sum"),
        weight=Ramp(4e-4, start=late),
    )
    patches = PatchGaussian(250 if share == 1 else 64, 1.0, random_size=True)
    # Of a mean, 1e-4 would do nothing; and on running statistics it diverges while the rate is high (decisions).
    gaussian = XEGaussian(Gaussian(sigma=0.5), weight=1e-4 * length.batch, statistics="batch")
    return (
        Method("XE", XE()),
        Method("XE+Gaussian", gaussian),
        Method("CL+Gaussian", CLGaussian(Gaussian(sigma=0.5), InfoNCE(0.5, "sum"), weight=Ramp(1e-4, start=late))),
        Method("FCL", fcl),
        Method("PG+XE", XE(), patches),
        Method("PG+FCL", patch_fcl, patches),
    )
