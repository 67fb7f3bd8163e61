"""Records of runs: results, recipe and environment, with the training log and the weights beside them.

    record.json         scores, log, recipe, commit, versions and device of a finished run
    recipe.json         the recipe, written when the run begins: a folder holds runs of one recipe
    log.jsonl           one line per epoch; TensorBoard files on request
    model.safetensors   the tested weights, on request

Training the same recipe again, on other hardware or versions, gives other weights. So a finished run gets its weights
only from the checkpoint that has its log.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from poise.errors import RecordError, TrainingError
from poise.io.documents import documents, is_proved, is_there, text_of
from poise.models.saved import WEIGHTS, save_model
from poise.records.recipe_text import common_differences, differences
from poise.records.schema import RECORD, Record, read_record, record_paths, require_distinct
from poise.running.experiment import Build, Experiment, Method
from poise.running.trackers import tracker
from poise.training.checkpoint import newest
from poise.training.loop import Fit, Now

Entry = dict[str, Any]
RECIPE = "recipe.json"


def record_of(
    experiment: Experiment,
    method: Method,
    seed: int,
    done: Fit,
    tested: dict[str, Any],
    device: torch.device,
    started: datetime,
) -> dict[str, Any]:
    """The record of a run that was trained and tested."""
    return {
        "experiment": experiment.name,
        "method": method.name,
        "seed": seed,
        "recipe": repr(experiment.recipe(method)),
        **tested,
        "log": done.log,
        "trunk": {"epochs": done.trunk} if done.trunk else None,
        "seconds": done.seconds,
        "peak_memory": done.peak_memory,
        **surroundings(device),
        "engine": done.engine,
        "started": started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def surroundings(device: torch.device) -> dict[str, Any]:
    """Commit, versions and device, for the record."""
    return {
        "commit": _commit(),
        "version_of_poise": _version("poise"),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": _version("numpy")},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"{_processor()}, {_threads()}",
    }


def _commit() -> str | None:
    """The commit of the checkout that contains this file, with a + if the package has changes; None if installed."""
    here = Path(__file__).parents[1]
    try:
        found = _git(here, "rev-parse", "--short", "HEAD")
        return found + ("+" if _git(here, "status", "--porcelain", "--", str(here)) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    return platform.machine() or "CPU"


def _threads() -> str:
    count = torch.get_num_threads()
    return f"{count} thread{'s' if count > 1 else ''}"


def refuse_mixing(folder: Path, recipes: dict[str, str]) -> None:
    """Raise TrainingError if the folder of an experiment cannot take these runs: its table would be refused.

    Runs of one method need one recipe, and runs of all methods the same task, network and plan.

    recipes  {folder of the method: recipe}.
    """
    records = _readable(_documents(record_paths, folder))
    try:
        require_distinct(records.items())
    except RecordError as error:
        raise TrainingError(str(error)) from None
    for run in sorted({path.parent for path in _documents(_recipes_and_records, folder)}) if recipes else []:
        record, own = records.get(run / RECORD), recipes.get(run.parent.name)
        held = _saved_recipe(run / RECIPE) if record is None else record.recipe
        recipe = next(iter(recipes.values())) if own is None else own
        changed = [] if held is None else (common_differences if own is None else differences)(held, recipe)
        if changed:
            raise TrainingError(
                f"{run} holds a run with another recipe (there, here): {'; '.join(changed)}; "
                "use another --out, or give the experiment another name"
            )


def _recipes_and_records(folder: Path) -> list[Path]:
    return [path for name in (RECORD, RECIPE) for path in documents(folder, f"*/seed-*/{name}")]


def _documents(find: Callable[[Path], list[Path]], folder: Path) -> list[Path]:
    try:
        return find(folder)
    except RecordError as error:  # a pack that cannot be read: its runs would be repeated
        raise TrainingError(f"{error}: restore it from a copy, or remove it to repeat its runs") from None


def _readable(paths: list[Path]) -> dict[Path, Record]:
    """The records that are not damaged."""
    records = {}
    for path in paths:
        with suppress(RecordError):
            records[path] = read_record(path)
    return records


def _saved_recipe(path: Path) -> str | None:
    """The recipe in recipe.json; None if the file is missing, or if the run is packed, so that it is finished."""
    if not is_there(path):
        return None
    try:
        content = json.loads(text_of(path))
        if is_proved(content):
            return str(content["recipe"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    if not path.exists():
        return None
    raise TrainingError(f"{path} is damaged: remove it to continue the run from its checkpoint, if it has one")


def keep_weights(record: Path, model: nn.Module, network: Build) -> None:
    """Save the weights beside a record, in half precision: 1.7 MB for ResNet-56."""
    save_model(model, record.with_name(WEIGHTS), network.name, **network.settings)


def has_weights(record: Path) -> bool:
    return record.with_name(WEIGHTS).exists()


def can_get_weights(record: Path, log: list[Any], trained: Path) -> bool:
    """Whether the weights beside a record are missing and the folder of its training still has them.

    log  the log of the record, which the checkpoint must have.
    """
    found = None if has_weights(record) else newest(trained, lambda sentence: None)
    return found is not None and bool(found.facts["log"] == log)


@dataclass(frozen=True)
class Event:
    """A progress event of a run: `what` the runner is doing, such as "training", with more in `detail`."""

    method: str
    seed: int
    what: str
    now: Now | None = None
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.method} (seed {self.seed}){self.detail}"


Listener = Callable[[Event], None]


@contextmanager
def notes(folder: Path, trackers: Sequence[str], experiment: str) -> Iterator[Callable[[list[Entry]], None]]:
    """A function that writes the training logs after an epoch, also for trackers."""
    with ExitStack() as stack:
        writers = [json_lines(folder), *(stack.enter_context(tracker(name, folder, experiment)) for name in trackers)]

        def write(log: list[Entry]) -> None:
            for each in writers:
                each(log)

        yield write


def json_lines(folder: Path) -> Callable[[list[Entry]], None]:
    """A function that writes log.jsonl: all epochs so far when a run starts or continues, then one line per epoch."""
    path, written = folder / "log.jsonl", 0

    def write(log: list[Entry]) -> None:
        nonlocal written
        with path.open("a" if written else "w") as stream:
            stream.writelines(json.dumps(entry) + "\n" for entry in log[written:])
        written = len(log)

    return write
