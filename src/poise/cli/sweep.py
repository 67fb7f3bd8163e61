"""`poise sweep`: trains lists of settings, scores them on validation data, and ranks them."""

from __future__ import annotations

import sys
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from poise.checks import install, require_folder_name
from poise.cli.completion import complete_experiments
from poise.cli.options import (
    Address,
    Engine,
    EngineName,
    GpusPerRun,
    Json,
    Quiet,
    cluster_of,
    describe_os_error,
    device_of,
    failures,
    print_to_stderr,
    usage,
    write,
)
from poise.cli.progress import bars
from poise.cli.reproduce import Compressed, Device, Fleet, Minutes, Out, Quick, deadline_of, length_of

What = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE",
        help="A name from `poise list`, or a Python file that defines SWEEP.",
        autocompletion=complete_experiments,
    ),
]
Name = Annotated[
    str | None, typer.Option(help="Name of one of the experiment's sweeps; for a file, a name for its sweep.")
]

Trials = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Maximum number of settings to try. By default all.")
]
SeedsPerTrial = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Runs per setting. By default the sweep's.")
]


class SamplerName(StrEnum):
    """Strategies to choose settings."""

    grid = "grid"
    tpe = "tpe"


Sampling = Annotated[SamplerName, typer.Option(help="Try all settings, or let Optuna's TPE choose.")]


def sweep(
    what: What,
    name: Name = None,
    sampler: Sampling = SamplerName.grid,
    trials: Trials = None,
    seeds: SeedsPerTrial = None,
    out: Out = Path("runs"),
    compressed: Compressed = False,
    quick: Quick = False,
    device: Device = "auto",
    fleet: Fleet = False,
    engine: Engine = EngineName.local,
    address: Address = None,
    gpus_per_run: GpusPerRun = None,
    minutes: Minutes = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compare settings on validation data, never on a test set. Finished runs are skipped, unfinished ones continue.

    Run the same command several times at once to share the work.

    poise sweep synthetic-mnist --name fcl --sampler tpe --trials 40 --device cuda

    poise sweep my_recipe.py --seeds 2

    poise sweep noisy-cifar10 --compressed --engine ray --address auto
    """
    cluster = cluster_of(engine, address, gpus_per_run, device)
    with print_to_stderr(json):
        chosen, found = _find_sweep(what, name, length_of(compressed, quick))
    if not (name or quiet or json):
        typer.echo(f"running sweep {chosen!r} of {what}; choose another with --name", err=True)
    with failures():
        place = device_of("cpu" if cluster else device)
        with print_to_stderr(json):
            ends = deadline_of(minutes)
            folder = _run_search(found, chosen, out, sampler, trials, seeds, place, fleet, cluster, quiet, ends)
        from poise.reporting.sweep_page import load_sweep, sweep_page, sweep_text

        swept = load_sweep(folder)
        page = folder / "sweep.html"
        if json:
            write(page, sweep_page(swept), quiet=True)
            trials_found = [{**asdict(trial), "values": _parse_values(trial.values)} for trial in swept.trials]
            typer.echo(dumps({"folder": str(folder), "page": str(page), "trials": trials_found}))
        else:
            typer.echo(sweep_text(swept))
            write(page, sweep_page(swept))


def _parse_values(values: Mapping[str, str]) -> dict[str, Any]:
    """Parse literal values, such as numbers; leave others, such as classes, as strings."""
    found: dict[str, Any] = {}
    for path, value in values.items():
        try:
            found[path] = literal_eval(value)
        except (ValueError, SyntaxError):
            found[path] = value
    return found


def _find_sweep(what: str, name: str | None, length: Any) -> tuple[str, Any]:
    from poise.recipes.index import find_sweep, sweep_from_file

    file = Path(what)
    with usage():
        if file.suffix != ".py":
            return find_sweep(what, name, length)
        if length != "full":
            raise ValueError(f"--{length} works only with the names of `poise list`")
        if not file.is_file():
            raise ValueError(f"{file} is not a file")
        require_folder_name("a sweep", name or file.stem)
        return name or file.stem, sweep_from_file(file)


def _run_search(
    found: Any,
    name: str,
    out: Path,
    sampler: SamplerName,
    trials: int | None,
    seeds: int | None,
    device: Any,
    fleet: bool,
    cluster: Any,
    quiet: bool,
    ends: float,
) -> Path:
    """Run the search and return the folder of the sweep."""
    from poise.errors import DataError, TrainingError
    from poise.running.ray_cluster import search_on_cluster
    from poise.running.sweeps import Search

    try:
        with bars(quiet) as listen:
            how = {"listen": listen, "deadline": ends}
            search = Search(found, name, out, device, sampler.value, trials, seeds, fleet, **how)
            search_on_cluster(search, cluster) if cluster else search.run()
    except (TrainingError, DataError) as error:
        sys.exit(f"poise: {error}")
    except OSError as error:
        sys.exit(f"poise: {describe_os_error(error, out)}; finished runs are saved")
    except ModuleNotFoundError as error:
        if error.name == "ray":
            sys.exit(f"poise: {error}")
        if error.name != "optuna":
            raise
        sys.exit(f"poise: optuna is missing: {install('sweep')}")
    return search.folder
