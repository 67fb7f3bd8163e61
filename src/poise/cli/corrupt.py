"""`poise corrupt`: corrupted copies of data sets, arrays or folders of images, and contact sheets of one image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poise.cli.completion import complete_corrupt_devices, complete_corrupt_sources, complete_corruptions
from poise.cli.options import Json, Quiet

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="cifar10, cifar100, a folder of images, an image, or an .npy [N, H, W, 3].",
        autocompletion=complete_corrupt_sources,
    ),
]
Corruptions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Name of a corruption, or c-bar for the ten of C-bar. Repeat for more. By default the 19.",
        autocompletion=complete_corruptions,
    ),
]


def corrupt(
    source: Source,
    out: Annotated[Path | None, typer.Option(help="A new folder, or an unfinished one to continue.")] = None,
    sheet: Annotated[
        Path | None, typer.Option(help="Instead of a copy, write one image under every corruption, as PNG or JPEG.")
    ] = None,
    corruption: Corruptions = None,
    severity: Annotated[
        list[int] | None, typer.Option(metavar="N", help="1 to 5. Repeat for more. By default all.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="cifar, tiny or imagenet. For arrays, by default chosen by size.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for the random draws.")] = 0,
    libraries: Annotated[
        str, typer.Option(help="2018, as in the published sets, or today. Affects four corruptions.")
    ] = "2018",
    jpeg: Annotated[
        bool | None, typer.Option(help="Write JPEG of quality 85, as in ImageNet-C. By default for tiny and imagenet.")
    ] = None,
    resize: Annotated[bool, typer.Option(help="Crop and resize images as in the profile's data set.")] = True,
    labels: Annotated[Path | None, typer.Option(help="An .npy of labels for an .npy of images.")] = None,
    image: Annotated[int, typer.Option(help="Index of the image for --sheet.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.", autocompletion=complete_corrupt_devices)] = "cpu",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Corrupt images with the corruptions of CIFAR-10-C and ImageNet-C, or of C-bar.

    The output has the same bits as the original code with the libraries of CIFAR-10-C (ImageMagick before October
    2019, IJG's libjpeg 9c, SciPy before 1.6), or with current ones for --libraries today. Random draws are our own.
    The installed Pillow encodes JPEG files.

    poise corrupt cifar10 --out CIFAR-10-C --device cuda

    poise corrupt photos --out photos-C --profile imagenet --corruption fog --severity 3

    poise corrupt cifar10 --out CIFAR-10-C-bar --corruption c-bar

    poise corrupt cifar10 --sheet sheet.png
    """
    from poise.cli.run_corrupt import CorruptRequest, run_corrupt

    making = (corruption, severity, profile, seed, libraries, jpeg, resize)
    run_corrupt(CorruptRequest(source, out, sheet, *making, labels, image, device, quiet, json))
