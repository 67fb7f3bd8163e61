"""Which seeds a command is about: how many, or from one to another.

Where runs are made: the options of a cluster, and what goes with them.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

import typer

from poise.cli.output import usage


class Way(StrEnum):
    """By whom."""

    local = "local"
    ray = "ray"


Engine = Annotated[Way, typer.Option(help="Train on this machine, or as Ray tasks.")]
Address = Annotated[
    str | None, typer.Option(help="Address of a Ray cluster, or auto for this node's. By default, start a local one.")
]
GpusPerRun = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="N",
        help="Share of a GPU for each run on Ray. By default a whole one, if there are any.",
    ),
]


def cluster_of(
    engine: Way, address: str | None, gpus_per_run: float | None, device: str, jobs: int = 1, fleet: bool = False
) -> Any:
    """The cluster that the options ask for; None for this machine alone."""
    if engine is Way.local:
        if address is not None or gpus_per_run is not None:
            raise typer.BadParameter("--address and --gpus-per-run are for --engine ray")
        return None
    if fleet or jobs > 1:
        word = "--fleet trains all runs in one process" if fleet else "--jobs starts processes on this machine"
        raise typer.BadParameter(f"{word}: leave out either it or --engine ray")
    if device not in ("auto", "cpu", "cuda"):
        raise typer.BadParameter(f"device {device!r}: choose auto, cpu or cuda")
    from poise.running.ray_cluster import Cluster

    with usage("--gpus-per-run"):
        return Cluster(address, gpus_per_run, device)  # type: ignore[arg-type]


def seeds_of(word: str) -> range:
    """`5` are 0 to 4, `3-4` are 3 and 4."""
    if written := re.fullmatch(r"(?:(\d+)-)?(\d+)", word):
        first, last = written.groups()
        found = range(int(last)) if first is None else range(int(first), int(last) + 1)
        if found:
            return found
    raise typer.BadParameter(f"{word!r}: give how many, such as 5, or which, such as 3-4")


Seeds = Annotated[
    range | None,
    typer.Option(
        parser=seeds_of, metavar="N|FROM-TO", help="How many seeds, from 0 on, or which. By default the recipe's."
    ),
]
