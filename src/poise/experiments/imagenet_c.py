"""ImageNet-C (section 4.3, Table 3 and appendix D): ResNet-v2-50 under 19 common corruptions at 5 severities.

    poise data get imagenet --from /data/imagenet        # folders or shards; and imagenet-c for the published pictures
    torchrun --nproc-per-node 8 -m poise reproduce imagenet-c --device cuda --method FCL      # a row of the table
    torchrun --nproc-per-node 8 -m poise reproduce imagenet-c --device cuda --compressed      # 18 epochs
    poise reproduce imagenet-c --quick --seeds 1         # drawn pictures of 64 px, a small network, two cores

Corruptions that are not among the published pictures are made from the validation set by our own suite, with the JPEG
pass of quality 85 that ImageNet-C was saved with. What it costs: docs/imagenet.md.

Expected (the paper, XE / FCL / PG+XE / PG+FCL): all 15 .341 / .344 / .363 / .363.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from poise.choices import require_choice
from poise.corruptions.corrupt import corrupt
from poise.corruptions.jpeg import Jpeg
from poise.data.cache import manifest_of
from poise.data.drawn import Drawn
from poise.data.errors import DataMismatch
from poise.data.folders import Packed, imagenet_c_part
from poise.data.imagenet import CentreCrop, RandomCrop, Source
from poise.data.shards import open_part
from poise.data.sources import folder
from poise.data.streamed import Pictures, workers_for
from poise.data.task import Make, Task
from poise.experiments.experiment import Column, Experiment
from poise.experiments.imagenet import LENGTHS, ImageNet, methods, network_of, plan_of
from poise.experiments.lengths import Length
from poise.experiments.paper_imagenet_c import PAPER
from poise.protocols import CORRUPTIONS, EXTRA, GROUPS, SEVERITIES, STANDARD

_JPEG = Jpeg(85, "turbo")  # as Pillow saves and reads pictures: a set written by `poise corrupt` is the same
_NOISES = (*GROUPS["noise"], "speckle_noise")  # what training with Gaussian noise has seen something like
_GROUPS = (("XE", "XE+Gaussian", "CL+Gaussian", "FCL"), ("PG+XE", "PG+FCL"))


@dataclass(frozen=True)
class CorruptedImageNet:
    """The validation pictures plain, and under every corruption and severity: `fog/3`; decoded as they are tested.

    profile  whose constants the corruptions have that we make.
    source   "official", "generated", or "auto": the published pictures as far as they are there.
    first    only so many pictures of each test, for a quick look.
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
        """The corruptions whose pictures are here, each severity as it is needed."""
        if self.source == "generated" or (self.source == "auto" and manifest_of("imagenet-c") is None):
            return {}
        place = folder("imagenet-c")

        def part(name: str, severity: int) -> Source:
            listing = imagenet_c_part(place, name, severity)
            if listing is None:
                raise DataMismatch(f"{place} lacks severity {severity} of {name}")
            pictures = Packed(listing)
            _require_classes(place / name / str(severity), train, pictures)
            return pictures

        there = [name for name in CORRUPTIONS if imagenet_c_part(place, name, 1) is not None]
        if self.source == "official" and (missing := set(CORRUPTIONS) - set(there)):
            raise DataMismatch(f"{place} lacks {', '.join(sorted(missing))}: source='auto' makes what is missing")
        return {name: partial(part, name) for name in there}

    def _made(self, clean: Pictures, name: str, severity: int, device: torch.device) -> Pictures:
        def change(images: Tensor, index: Tensor) -> Tensor:
            return _JPEG.apply(corrupt(images, name, severity, self.profile, index=index))

        return replace(clean, change=change)

    def _read(
        self, part: Callable[[int], Source], severity: int, damaged: dict[Path, str], device: torch.device
    ) -> Pictures:
        """They are cut already: nothing is scaled."""
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
        paper={} if quick else PAPER,
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
        raise DataMismatch(
            f"{place} has pictures of {len(other.classes)} classes, not the {len(train.classes)} of train"
        )


EXPERIMENTS = {length.name: (table(length),) for length in LENGTHS}
