"""`poise list`, `poise reproduce` and `poise run`: run experiments of the paper, or your own."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from json import dumps
from linecache import getline
from pathlib import Path
from traceback import walk_tb
from typing import Annotated, Any

import typer

from poise.checks import require_known
from poise.cli.completion import complete_devices, complete_experiments, complete_methods, complete_trackers
from poise.cli.options import (
    Address,
    Engine,
    EngineName,
    GpusPerRun,
    Json,
    Quiet,
    Seeds,
    cluster_of,
    describe_os_error,
    device_of,
    print_to_stderr,
    usage,
)
from poise.cli.progress import bars

_HOME = Path(__file__).parents[1]

Out = Annotated[Path, typer.Option(help="The folder for all runs.")]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        "--methods",
        metavar="NAME",
        help="A method to run. Repeat for more. By default all.",
        autocompletion=complete_methods,
    ),
]
Device = Annotated[
    str, typer.Option(help="cpu or cuda. By default the GPU if there is one.", autocompletion=complete_devices)
]
Log = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRACKER",
        help="Also log to tensorboard, wandb, trackio, mlflow or csv. Repeat for more.",
        autocompletion=complete_trackers,
    ),
]
Jobs = Annotated[int, typer.Option(min=1, metavar="N", help="Number of processes that share the runs.")]
Fleet = Annotated[
    bool, typer.Option("--fleet", help="Train runs that differ only in seed and lambda as one batched model.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Run a small version, for a first look.")]
Compressed = Annotated[bool, typer.Option("--compressed", help="Train for a tenth of the epochs (ImageNet: a fifth).")]
Minutes = Annotated[
    float | None, typer.Option(min=0, metavar="N", help="Stop after this time. Run the same command to continue.")
]
KeepModels = Annotated[bool, typer.Option("--keep-models", help="Also save the weights, in half precision.")]


def list_experiments(json: Json = False) -> None:
    """List the experiments of the paper.

    poise list
    """
    from poise.recipes.index import FILES, about

    found = {name: about(name) for name in FILES}
    typer.echo(dumps(found) if json else "\n".join(f"{name}: {line}" for name, line in found.items()))


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help="One or more names from `poise list`.", autocompletion=complete_experiments
        ),
    ],
    out: Out = Path("runs"),
    seeds: Seeds = None,
    methods: Methods = None,
    compressed: Compressed = False,
    quick: Quick = False,
    device: Device = "auto",
    jobs: Jobs = 1,
    fleet: Fleet = False,
    engine: Engine = EngineName.local,
    address: Address = None,
    gpus_per_run: GpusPerRun = None,
    minutes: Minutes = None,
    keep_models: KeepModels = False,
    log: Log = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run experiments of the paper. Finished runs are skipped, unfinished ones continue.

    poise reproduce synthetic-mnist --device cuda --fleet

    poise reproduce rare-digits --quick --jobs 2

    poise reproduce cifar-c noisy-cifar --compressed --minutes 9

    poise reproduce cifar-c --engine ray --address auto --gpus-per-run 0.5
    """
    from poise.recipes.index import find_experiments

    with usage():
        length = length_of(compressed, quick)
        experiments = tuple(each for name in names for each in find_experiments(name, length))
    if not quiet:
        print_notices(experiments)
    options = {"trackers": known_trackers(log), "keep_models": keep_models, "deadline": deadline_of(minutes)}
    cluster = cluster_of(engine, address, gpus_per_run, device, jobs, fleet)
    _run(experiments, out, seeds, methods, device, jobs, fleet, cluster, quiet, json, options)


def run(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A Python file that defines EXPERIMENT. It is executed.")
    ],
    out: Out = Path("runs"),
    seeds: Seeds = None,
    methods: Methods = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    fleet: Fleet = False,
    engine: Engine = EngineName.local,
    address: Address = None,
    gpus_per_run: GpusPerRun = None,
    minutes: Minutes = None,
    keep_models: KeepModels = False,
    log: Log = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run an experiment of your own. Finished runs are skipped, unfinished ones continue.

    poise run my_recipe.py --seeds 5 --method XE --method FCL
    """
    from poise.recipes.index import experiment_from_file

    if not file.is_file():
        raise typer.BadParameter(f"{file} is not a file")
    with usage(), print_to_stderr(json):
        experiment = experiment_from_file(file)
    options = {"trackers": known_trackers(log), "keep_models": keep_models, "deadline": deadline_of(minutes)}
    cluster = cluster_of(engine, address, gpus_per_run, device, jobs, fleet)
    _run((experiment,), out, seeds, methods, device, jobs, fleet, cluster, quiet, json, options)


def _run(
    experiments: tuple[Any, ...],
    out: Path,
    seeds: range | None,
    methods: list[str] | None,
    device: str,
    jobs: int,
    fleet: bool,
    cluster: Any,
    quiet: bool,
    json: bool,
    options: dict[str, Any],
) -> None:
    from poise.distributed import rank, start, stop
    from poise.running.runner import Runner

    with usage("--method"):
        known = list(dict.fromkeys(method.name for each in experiments for method in each.methods))
        for name in methods or []:
            require_known("method", name, known)
    with usage():
        place = start(device_of("cpu" if cluster else device).type)
    first, helpers = rank() == 0, list[subprocess.Popen[bytes]]()
    try:
        with print_to_stderr(json), bars(quiet or not first) as listen:
            helpers += _helpers(jobs - 1)
            runners = [Runner(experiment, out, place, listen=listen, **options) for experiment in experiments]
            run = _choose_runner(runners, fleet, cluster)
            done = run(methods, seeds)
            if helpers:
                _wait(helpers)  # then run what they left unfinished
                done = run(methods, seeds)
    except BaseException as error:  # including Ctrl-C, which may reach this process only
        if sentence := _sentence_of(error, out):
            sys.exit(f"poise: {sentence}")
        _stop_helpers(helpers)
        raise
    finally:
        _wait(helpers)
        stop()
    if first:
        asked = {runner: len(runner.experiment.runs(methods, seeds)) for runner in done}
        print_summary(
            {runner.folder: (records, asked[runner] - len(records)) for runner, records in done.items()}, json
        )
        if options["keep_models"]:
            warn_missing_weights([record for records in done.values() for record in records])


def _sentence_of(error: BaseException, out: Path) -> str:
    """What to say of an error; empty if its traceback says more."""
    from poise.errors import DataError, TrainingError

    if isinstance(error, OSError) and not isinstance(error, DataError):
        return describe_os_error(error, out)
    known = isinstance(error, TrainingError | DataError | ModuleNotFoundError)
    return str(error) if known or (isinstance(error, TypeError | ValueError) and _is_refusal(error)) else ""


def _is_refusal(error: BaseException) -> bool:
    """Whether a check of Poise raised the error, of data for example. Errors of other code keep their traceback."""
    *_, (frame, line) = walk_tb(error.__traceback__)
    file = frame.f_code.co_filename
    return Path(file).is_relative_to(_HOME) and getline(file, line).lstrip().startswith("raise ")


def _choose_runner(runners: list[Any], fleet: bool, cluster: Any) -> Callable[[Any, Any], dict[Any, list[Path]]]:
    """The function that runs the experiments: one by one, as fleets, or on a cluster."""
    from poise.running.fleets import run_fleets
    from poise.running.ray_cluster import run_on_cluster
    from poise.running.runner import run_together

    if cluster:
        return lambda methods, seeds: {each: run_on_cluster(each, cluster, methods, seeds) for each in runners}
    if fleet:
        return lambda methods, seeds: {each: run_fleets(each, methods, seeds) for each in runners}
    return partial(run_together, runners)


def print_notices(experiments: tuple[Any, ...]) -> None:
    """Print what the experiments are if they are not those of the paper, such as miniatures."""
    for notice in dict.fromkeys(each.notice for each in experiments if each.notice):
        typer.echo(notice, err=True)


def known_trackers(names: list[str] | None) -> tuple[str, ...]:
    """The names given with --log, each once."""
    from poise.running.trackers import TRACKERS

    with usage("--log"):
        for name in names or []:
            require_known("tracker", name, TRACKERS)
    return tuple(dict.fromkeys(names or []))


def length_of(compressed: bool, quick: bool) -> Any:
    """The version of an experiment that two flags select."""
    if compressed and quick:
        raise typer.BadParameter("--compressed and --quick exclude each other: choose one")
    return "compressed" if compressed else "quick" if quick else "full"


def deadline_of(minutes: float | None) -> float:
    """The deadline in the time of time.monotonic()."""
    return math.inf if minutes is None else time.monotonic() + 60 * minutes


def _helpers(count: int) -> list[subprocess.Popen[bytes]]:
    """Start the same command `count` times without output; these processes train unclaimed runs."""
    if count < 1:
        return []
    words = [word for before, word in pairwise(["", *sys.argv[1:]]) if before != "--jobs" and not _is_jobs(word)]
    command = [sys.executable, "-m", "poise", *words]
    nothing = subprocess.DEVNULL
    return [subprocess.Popen(command, stdout=nothing, stderr=nothing) for _ in range(count)]


def _is_jobs(word: str) -> bool:
    return word == "--jobs" or word.startswith("--jobs=")


def _wait(helpers: list[subprocess.Popen[bytes]]) -> None:
    for helper in helpers:
        helper.wait()


def _stop_helpers(helpers: list[subprocess.Popen[bytes]], within: float = 20) -> None:
    """Send SIGINT to all helpers; kill those that do not exit within 20 s, for example during an import."""
    for helper in helpers:
        helper.send_signal(signal.SIGINT)
    for helper in helpers:
        try:
            helper.wait(within)
        except subprocess.TimeoutExpired:
            helper.kill()


def print_summary(done: dict[Path, tuple[list[Path], int]], json: bool) -> None:
    """Print the folder of each experiment and its finished and remaining runs, as text or one JSON document."""
    if json:
        found = [
            {"folder": str(f), "records": [str(path) for path in r], "left": left} for f, (r, left) in done.items()
        ]
        typer.echo(dumps(found[0] if len(found) == 1 else found))
        return
    for folder, (records, left) in done.items():
        typer.echo(
            f"{folder}: {len(records)} finished" + (f"; {left} left, run the same command to continue" if left else "")
        )


def warn_missing_weights(records: list[Path]) -> None:
    """Print a warning about finished runs without weights, if --keep-models asks for them."""
    from poise.running.record import has_weights

    if bare := [record for record in records if not has_weights(record)]:
        others = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
        typer.echo(f"no weights beside {bare[0]}{others}: remove the record to train and test it again", err=True)
