"""`poise bench`: epoch times of the engine and of a plain eager loop."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from poise.checks import require_known
from poise.cli.completion import complete_bench_cases
from poise.cli.options import Json, device_of, usage, write
from poise.cli.reproduce import Device

Case = Annotated[
    str,
    typer.Option(
        help="What to time: lenet (synthetic MNIST) or resnet56 (CIFAR).", autocompletion=complete_bench_cases
    ),
]


def bench(
    case: Case = "lenet",
    device: Device = "auto",
    epochs: Annotated[int, typer.Option(min=1, metavar="N", help="Epochs to time, after one to warm up.")] = 3,
    share: Annotated[
        float, typer.Option(min=0.001, max=1, metavar="SHARE", help="Share of the images to use, for slow machines.")
    ] = 1.0,
    out: Annotated[Path | None, typer.Option(help="Also write the numbers to this JSON file.")] = None,
    json: Json = False,
) -> None:
    """Time epochs of XE and FCL by the engine and by plain eager PyTorch, on random pixels.

    poise bench --case resnet56 --device cuda

    poise bench --share 0.05
    """
    from poise.running.benchmark import CASES, time_epochs
    from poise.running.record import surroundings

    with usage("--case"):
        require_known("case", case, CASES)
    if out is not None and not out.parent.is_dir():
        raise typer.BadParameter(f"{out.parent} is not a folder: create it first", param_hint="--out")
    place = device_of(device)
    seconds: dict[str, dict[str, float]] = {}
    busy: dict[str, float] = {}
    with usage("--share"):
        for timing in time_epochs(CASES[case], place, epochs, share):
            if not (seconds or json):
                typer.echo(f"{CASES[case].name}: seconds per epoch")
            seconds.setdefault(timing.objective, {})[timing.way] = timing.seconds
            if timing.busy is not None:
                busy[timing.objective] = timing.busy
            if not json:
                at_work = "" if timing.busy is None else f"   GPU busy {timing.busy:.0%}"
                typer.echo(f"  {timing.objective:4} {timing.way:20} {timing.seconds:8.3f}{at_work}")
    for objective, row in {} if json else seconds.items():
        plain, *others = row.items()
        for way, value in others:
            typer.echo(f"  {objective:4} plain / {way:20} {plain[1] / value:8.2f}")
    facts = {"case": case, "epochs": epochs, "share": share, "seconds": seconds, "busy": busy, **surroundings(place)}
    record = dumps(facts, indent=1)
    if out is not None:
        write(out, f"{record}\n", quiet=json)
    if json:
        typer.echo(record)
