"""`poise bench`: the engine against a plain eager loop, in one run."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from poise.choices import require_known
from poise.commands.reproduce import device_of
from poise.commands.results import Json, usage, write

Case = Annotated[str, typer.Option(help="lenet (synthetic MNIST) or resnet56 (CIFAR).")]


def bench(
    case: Case = "lenet",
    device: Annotated[str, typer.Option(help="cpu or cuda; by default the GPU if there is one.")] = "auto",
    epochs: Annotated[int, typer.Option(min=1, help="Epochs to time, after one that warms up.")] = 3,
    share: Annotated[float, typer.Option(min=0.001, max=1, help="Of the images, for slow machines.")] = 1.0,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the numbers.")] = None,
    json: Json = False,
) -> None:
    """Time epochs of XE and FCL by the engine and by plain eager PyTorch, on random pixels.

    poise bench --case resnet56 --device cuda

    poise bench --share 0.05
    """
    from poise.experiments.benchmark import CASES, measure
    from poise.experiments.environment import surroundings

    with usage("--case"):
        require_known("case", case, CASES)
    place = device_of(device)
    seconds: dict[str, dict[str, float]] = {}
    with usage("--share"):
        for objective, way, value in measure(CASES[case], place, epochs, share):
            if not (seconds or json):
                typer.echo(f"{CASES[case].name}: seconds of an epoch")
            seconds.setdefault(objective, {})[way] = value
            if not json:
                typer.echo(f"  {objective:4} {way:20} {value:8.3f}")
    for objective, row in {} if json else seconds.items():
        plain, engine = row.values()
        typer.echo(f"  {objective:4} plain / engine {plain / engine:13.2f}")
    facts = {"case": case, "epochs": epochs, "share": share, "seconds": seconds, **surroundings(place)}
    record = dumps(facts, indent=1)
    if out is not None:
        write(out, f"{record}\n", quiet=json)
    if json:
        typer.echo(record)
