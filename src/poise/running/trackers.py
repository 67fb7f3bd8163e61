"""Experiment trackers: where the numbers of every epoch go besides log.jsonl, with `--log NAME`.

    tensorboard   <run>/tensorboard/, for `tensorboard --logdir runs`
    csv           <run>/log.csv, a line per epoch
    wandb         project and run of Weights & Biases; WANDB_MODE=offline keeps them on this machine
    trackio       the same, on this machine
    mlflow        experiment and run; MLFLOW_TRACKING_URI says where, by default a database in the working directory

A tracker is a function of the run's folder and the experiment's name that yields a function of a log's entries. A run
that continues goes on in the same run of the tracker.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from poise.checks import install, require_known
from poise.io.documents import write_whole

Entry: TypeAlias = Mapping[str, Any]
Write: TypeAlias = Callable[[Sequence[Entry]], None]  # gets the log so far after every epoch
_RUN = "mlflow.txt"  # in a run's folder: the run's identity in MLflow


def numbers_of(entry: Entry) -> dict[str, float]:
    """The numbers of an epoch: `loss/xe`, `measures/...`, `validation`, `learning_rate`."""
    found = {f"{kind}/{name}": v for kind in ("loss", "measures") for name, v in (entry.get(kind) or {}).items()}
    found |= {name: entry[name] for name in ("learning_rate", "validation") if name in entry}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def tracker(name: str, folder: Path, experiment: str) -> AbstractContextManager[Write]:
    """The tracker of this name for a run; raises ModuleNotFoundError with what to install."""
    require_known("tracker", name, TRACKERS)
    return TRACKERS[name](folder, experiment)


def run_name(folder: Path) -> str:
    """`fcl/seed-03`."""
    return f"{folder.parent.name}/{folder.name}"


@contextmanager
def to_tensorboard(folder: Path, experiment: str) -> Iterator[Write]:
    writer = _load("tensorboard", "torch.utils.tensorboard").SummaryWriter(str(folder / "tensorboard"))

    def write(log: Sequence[Entry]) -> None:
        for name, value in numbers_of(log[-1]).items():
            writer.add_scalar(name, value, log[-1]["epoch"])
        writer.flush()

    try:
        yield write
    finally:
        writer.close()


@contextmanager
def to_csv(folder: Path, experiment: str) -> Iterator[Write]:
    def write(log: Sequence[Entry]) -> None:
        rows = [{"epoch": entry["epoch"], **numbers_of(entry)} for entry in log]
        stream = io.StringIO()
        table = csv.DictWriter(stream, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        write_whole(folder / "log.csv", stream.getvalue())

    yield write


@contextmanager
def to_wandb(folder: Path, experiment: str) -> Iterator[Write]:
    wandb = _load("wandb")
    identity = sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    settings = {"id": identity, "resume": "allow", "reinit": "create_new", "dir": str(folder)}
    run = wandb.init(project=experiment, name=run_name(folder), **settings)
    try:
        yield lambda log: run.log(numbers_of(log[-1]), step=log[-1]["epoch"])
    finally:
        run.finish()


@contextmanager
def to_trackio(folder: Path, experiment: str) -> Iterator[Write]:
    run = _load("trackio").init(project=experiment, name=run_name(folder), resume="allow", embed=False)
    try:
        yield lambda log: run.log(numbers_of(log[-1]), step=log[-1]["epoch"])
    finally:
        run.finish()


@contextmanager
def to_mlflow(folder: Path, experiment: str) -> Iterator[Write]:
    client, known = _load("mlflow").MlflowClient(), folder / _RUN
    if not known.exists():
        held = client.get_experiment_by_name(experiment)
        number = held.experiment_id if held else client.create_experiment(experiment)
        run = client.create_run(number, run_name=run_name(folder))
        write_whole(known, run.info.run_id)
    identity = known.read_text(encoding="utf8")

    def write(log: Sequence[Entry]) -> None:
        for name, value in numbers_of(log[-1]).items():
            client.log_metric(identity, name, value, step=log[-1]["epoch"])

    yield write
    client.set_terminated(identity)


TRACKERS: dict[str, Callable[[Path, str], AbstractContextManager[Write]]] = {
    "tensorboard": to_tensorboard,
    "wandb": to_wandb,
    "trackio": to_trackio,
    "mlflow": to_mlflow,
    "csv": to_csv,
}


def _load(extra: str, module: str = "") -> Any:
    try:
        return import_module(module or extra)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{extra} is not installed: {install(extra)}") from None
