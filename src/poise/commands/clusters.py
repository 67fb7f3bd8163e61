"""Where runs are made: the options of a cluster, and what goes with them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from poise.commands.results import usage


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
    from poise.experiments.connection import Cluster

    with usage("--gpus-per-run"):
        return Cluster(address, gpus_per_run, device)  # type: ignore[arg-type]
