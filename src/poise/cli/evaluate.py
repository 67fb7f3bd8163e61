"""`poise evaluate`: benchmarks of any image classifiers, with intervals, paired tests and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poise.cli.audit import Classes, Json, Labels, Network, Normalize, Trust
from poise.cli.completion import complete_benchmarks, complete_corruptions
from poise.cli.options import Quiet, exit_on_ctrl_c
from poise.cli.reproduce import Device

_MODELS = "torchvision:NAME, timm:NAME, hf:NAME, a Hugging Face folder, a Poise run or weights, or file.py:function."
_DATA = "Clean images: class folders, ImageNet's folder, .npz, .npy, cifar10, cifar100. By default the benchmark's own."
_PUBLISHED = "Published corrupted images: a folder of .npy or of pictures, cifar10-c, or none to generate them."
Models = Annotated[list[str], typer.Argument(metavar="MODEL...", help=_MODELS)]
Name = Annotated[
    list[str] | None, typer.Option("--name", metavar="TEXT", help="Name of a model on the page. Once for each model.")
]
Weights = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="A file of weights, once for each model of torchvision and timm, in order."),
]
Examples = Annotated[
    int | None, typer.Option(min=2, metavar="N", help="Number of examples, at random. By default all.")
]
Size = Annotated[
    int | None, typer.Option(min=16, metavar="N", help="Size of images from a folder. By default each model's.")
]
Metadata = Annotated[Path | None, typer.Option(help="A table with one row per image. See --group.")]
GroupBy = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column of the data whose worst group to show. Repeat for more."),
]
Corruption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Name of a corruption. Repeat for more. By default all.",
        autocompletion=complete_corruptions,
    ),
]
Severity = Annotated[list[int] | None, typer.Option(metavar="N", help="1 to 5. Repeat for more. By default all.")]


def evaluate(
    models: Models,
    benchmark: Annotated[
        str, typer.Option(help="Name of a benchmark, such as imagenet-c.", autocompletion=complete_benchmarks)
    ] = "cifar10-c",
    data: Annotated[str | None, typer.Option(help=_DATA)] = None,
    published: Annotated[str | None, typer.Option(help=_PUBLISHED)] = None,
    out: Annotated[Path, typer.Option(help="The folder for records, tables and the page.")] = Path("evaluation"),
    examples: Examples = None,
    weights: Weights = None,
    name: Name = None,
    network: Network = None,
    normalize: Normalize = None,
    size: Size = None,
    labels: Labels = None,
    classes: Classes = None,
    metadata: Metadata = None,
    group: GroupBy = None,
    corruption: Corruption = None,
    severity: Severity = None,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Number of images at once.")] = 100,
    bfloat16: Annotated[bool, typer.Option("--bfloat16", help="Run models in bfloat16: faster, less precise.")] = False,
    workers: Annotated[int, typer.Option(min=0, metavar="N", help="Threads that decode images.")] = 2,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed for the sample and the random draws.")] = 0,
    trust: Trust = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure the robustness of image classifiers: corruptions, calibration, worst classes, with intervals.

    The command continues after a stop, test set by test set.

    poise evaluate results/cifar10-c/pg-fcl/seed-00 --benchmark cifar10-c --examples 1000

    poise evaluate timm:resnet50 hf:microsoft/resnet-50 --weights resnet50.safetensors --data imagenet/ --benchmark
    imagenet-c
    """
    request = dict(locals())
    with exit_on_ctrl_c("interrupted before anything was measured; nothing was written"):
        from poise.cli.run_evaluate import run_evaluate
        from poise.evaluation.preparing import EvaluationRequest

    run_evaluate(EvaluationRequest(**request))
