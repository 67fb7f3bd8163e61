"""ImageNet-C (section 4.3, Table 3 and appendix D): ResNet-v2-50 under 19 common corruptions at 5 severities.

    poise data get imagenet --from /data/imagenet        # folders or shards; and imagenet-c for the published pictures
    torchrun --nproc-per-node 8 -m poise reproduce imagenet-c --device cuda --method FCL      # a row of the table
    torchrun --nproc-per-node 8 -m poise reproduce imagenet-c --device cuda --compressed      # 18 epochs
    poise reproduce imagenet-c --quick --seeds 1         # drawn pictures of 64 px, a small network, two cores

The recipe of section 4.3 and appendix C:

    ResNet-v2-50, batch 1024, SGD with momentum 0.9, rate 0.8 after 5 epochs of ramp, / 10 at 30, 60, 80 of 90 epochs,
    random resized crop and flip; contrastive losses from epoch 60 or the step of `ramp_up` on, summed over the batch

Weight decay 1e-4 follows He et al. "compressed" is a fifth: 18 epochs, and every epoch and step divided by 5.

Corruptions without published pictures are generated from the validation set, with a JPEG pass of quality 85 as in
ImageNet-C. Costs: docs/imagenet.md.

Expected (the paper, XE / FCL / PG+XE / PG+FCL): all 15 .341 / .344 / .363 / .363.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from poise.checks import require_choice
from poise.corruptions.corrupt import corrupt
from poise.corruptions.jpeg import Jpeg
from poise.corruptions.protocols import CORRUPTIONS, EXTRA, GROUPS, SEVERITIES, STANDARD
from poise.data.augment import PatchGaussian
from poise.data.loading.pictures import CentreCrop, Pictures, RandomCrop, Source, workers_for
from poise.data.loading.shards import open_part
from poise.data.sets.cache import manifest_of, root
from poise.data.sets.fetch import folder
from poise.data.sets.folders import Drawn, PackedListing, imagenet_c_part
from poise.errors import DataMismatch
from poise.features.perturbation import Gaussian
from poise.features.selection import TopBottom
from poise.features.utility import GradientUtility
from poise.models.resnet import ResNetV2, resnet_v2_50
from poise.objectives.contrast import InfoNCE
from poise.objectives.fcl import FCL
from poise.objectives.gaussian import CLGaussian, XEGaussian
from poise.objectives.objective import XE
from poise.recipes.paper_corruptions import IMAGENET_C
from poise.recipes.settings import Length
from poise.records.columns import Column
from poise.running.experiment import Build, Experiment, Make, Method, Task
from poise.schedules import Ramp, Steps
from poise.training.plan import SGD, Plan


@dataclass(frozen=True)
class ImageNet:
    """The training pictures: the user's ImageNet, from folders or shards, or generated ones.

    images  the number that the schedule is made for; up to 1 % may be missing.
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
                f"{place} has {len(source)} training pictures, but the schedule needs {self.images}: complete the set"
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
    # On a mean, 1e-4 would have no effect; with running statistics, it diverges while the rate is high (decisions).
    gaussian = XEGaussian(Gaussian(sigma=0.5), weight=1e-4 * length.batch, statistics="batch")
    return (
        Method("XE", XE()),
        Method("XE+Gaussian", gaussian),
        Method("CL+Gaussian", CLGaussian(Gaussian(sigma=0.5), InfoNCE(0.5, "sum"), weight=Ramp(1e-4, start=late))),
        Method("FCL", fcl),
        Method("PG+XE", XE(), patches),
        Method("PG+FCL", patch_fcl, patches),
    )


_JPEG = Jpeg(85, "turbo")  # as in Pillow: a set written by `poise corrupt` is identical
_NOISES = (*GROUPS["noise"], "speckle_noise")  # similar to training with Gaussian noise
_GROUPS = (("XE", "XE+Gaussian", "CL+Gaussian", "FCL"), ("PG+XE", "PG+FCL"))


@dataclass(frozen=True)
class CorruptedImageNet:
    """The validation pictures, clean and under every corruption and severity: `fog/3`; decoded during the test.

    profile  the constants of generated corruptions.
    source   "official", "generated", or "auto": the published pictures if they exist.
    first    use only the first pictures of each test, for a quick look.
    """

    training: ImageNet
    crop: CentreCrop = field(default_factory=CentreCrop)
    profile: str = "imagenet"
    source: str = "auto"
    first: int | None = None

    def __post_init__(self) -> None:
        require_choice("source", self.source, "auto", "generated", "official")

    def __call__(self) -> Task:
        damaged: dict[Path, str] = {}
        train = self.training.train(damaged)
        val = open_part(self.training.folder(), "val")
        _require_classes(self.training.folder(), train.source, val)
        published = self._published(train.source)
        clean = Pictures(val, self.crop, workers_for(len(val)), None, self.first, damaged)
        tests: dict[str, Make] = {"Clean": lambda device: clean}
        for name in CORRUPTIONS:
            for severity in SEVERITIES:
                make = published.get(name)
                tests[f"{name}/{severity}"] = (
                    partial(self._made, clean, name, severity)
                    if make is None
                    else partial(self._read, make, severity, damaged)
                )
        classes = len(train.source.classes)
        return Task(train, None, tests, classes, origins={"corruptions": _origin(published)})

    def _published(self, train: Source) -> dict[str, Callable[[int], Source]]:
        """The corruptions with published pictures, opened for each severity on demand."""
        if self.source == "generated" or (self.source == "auto" and manifest_of("imagenet-c") is None):
            return {}
        place = folder("imagenet-c")

        def part(name: str, severity: int) -> Source:
            listing = imagenet_c_part(place, name, severity)
            if listing is None:
                raise DataMismatch(f"{place} has no severity {severity} of {name}")
            pictures = PackedListing(listing)
            _require_classes(place / name / str(severity), train, pictures)
            return pictures

        there = [name for name in CORRUPTIONS if imagenet_c_part(place, name, 1) is not None]
        if self.source == "official" and (missing := set(CORRUPTIONS) - set(there)):
            raise DataMismatch(
                f"{place} has no {', '.join(sorted(missing))}: use source='auto' to generate what is missing"
            )
        return {name: partial(part, name) for name in there}

    def _made(self, clean: Pictures, name: str, severity: int, device: torch.device) -> Pictures:
        def change(images: Tensor, index: Tensor) -> Tensor:
            return _JPEG.apply(corrupt(images, name, severity, self.profile, index=index))

        return replace(clean, change=change)

    def _read(
        self, part: Callable[[int], Source], severity: int, damaged: dict[Path, str], device: torch.device
    ) -> Pictures:
        """The published pictures, which are already cropped and need no scaling."""
        pictures, size = part(severity), self.crop.size
        return Pictures(pictures, CentreCrop(size, size), workers_for(len(pictures)), None, self.first, damaged)


def table(length: Length) -> Experiment:
    quick = length.quick
    averages = {"All, 15": STANDARD, "All, 19": CORRUPTIONS, **{name.title(): of for name, of in GROUPS.items()}}
    kinds = {**GROUPS, "extra": EXTRA}
    drawn = ImageNet(length.images, RandomCrop(64), Drawn(train=length.images // 100, val=1))
    return Experiment(
        name=f"imagenet-c{length.suffix}",
        title=f"ImageNet-C (Table 3), {length.title}",
        task=CorruptedImageNet(drawn, CentreCrop(64, 64), "tiny", "generated")
        if quick
        else CorruptedImageNet(ImageNet(length.images)),
        network=network_of(length),
        plan=plan_of(length),
        methods=methods(length),
        columns=(Column("Clean", ("Clean",)), *(Column(name, _scores(of)) for name, of in averages.items())),
        groups=_GROUPS,
        details={
            f"{kind}, one by one": tuple(Column(name, _scores((name,))) for name in of) for kind, of in kinds.items()
        },
        seeds=1 if quick else 5,
        paper={} if quick else IMAGENET_C,
        overlaps=dict.fromkeys(("XE+Gaussian", "CL+Gaussian", "FCL", "PG+XE", "PG+FCL"), _NOISES),
        reference="" if quick else "imagenet-c",
    )


def _scores(corruptions: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}/{severity}" for name in corruptions for severity in SEVERITIES)


def _origin(published: dict[str, Callable[[int], Source]]) -> str:
    made = [name for name in CORRUPTIONS if name not in published]
    if not published:
        return f"generated with seed 0, JPEG {_JPEG.quality}"
    return "the published pictures" + (
        f"; {', '.join(made)} generated with seed 0, JPEG {_JPEG.quality}" if made else ""
    )


def _require_classes(place: Path, train: Source, other: Source) -> None:
    if other.classes != train.classes:
        raise DataMismatch(f"{place} has {len(other.classes)} classes, but train has {len(train.classes)}")


EXPERIMENTS = {length.name: (table(length),) for length in LENGTHS}
