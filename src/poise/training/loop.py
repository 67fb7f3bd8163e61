"""fit: the training loop of every experiment.

    for every epoch: train, check that losses are finite, log, save a checkpoint

Long epochs of streamed sets also save checkpoints between their stretches. A run that stops anywhere continues from its
last checkpoint and ends as if it had never stopped: bit-identical on a CPU, and on a GPU up to the order in which its
kernels add.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from poise.data.loading.resident import Loader
from poise.distributed import agreed, lost_another, share, world_size
from poise.errors import TrainingError, out_of_time
from poise.objectives.objective import Objective
from poise.training.average import Average
from poise.training.batch_norm import synchronised
from poise.training.checkpoint import Checkpoint, Entry, Keeper, newest, order_of, restore
from poise.training.engine import Engine, compiled, compiles, uncompiled
from poise.training.plan import Plan


@dataclass(frozen=True)
class Now:
    """The current state of a run, for progress displays."""

    epoch: int
    epochs: int
    batch: int
    batches: int
    batch_size: int
    seconds: float
    last: Entry | None


@dataclass(frozen=True)
class Fit:
    """The result of a run: an entry per epoch, its seconds, how its steps ran, the number of epochs of its trunk, and
    its peak GPU memory in bytes.
    """

    log: list[Entry]
    seconds: float
    engine: str
    trunk: int = 0
    peak_memory: int | None = None


class Begun(NamedTuple):
    """The state that a run continues with: its log, seconds and peak memory so far, the number of epochs of a trunk,
    and the loss parts of a partial epoch.
    """

    log: list[Entry]
    seconds: float = 0.0
    trunk: int = 0
    parts: Tensor | None = None
    peak_memory: int | None = None


def fit(
    model: nn.Module,
    objective: Objective,
    data: Loader,
    plan: Plan,
    *,
    folder: Path | None = None,
    branch: Checkpoint | None = None,
    until: int | None = None,
    validate: Callable[[nn.Module], Entry] | None = None,
    keep_every: float = 30.0,
    deadline: float = math.inf,
    progress: Callable[[Now], None] = lambda now: None,
    warn: Callable[[str], None] = lambda sentence: None,
    note: Callable[[list[Entry]], None] = lambda log: None,
) -> Fit:
    """Train a model in place; if the plan averages weights, the model ends with the average.

    folder      receives checkpoints; the run continues from the newest one in it.
    branch      the checkpoint to start from if the folder has none: the end of a shared trunk.
    until       stop after this epoch instead of the plan's last.
    validate    called after each epoch; its entries are added to the log.
    keep_every  seconds between checkpoints; the last epoch always has one.
    deadline    a time.monotonic() after which no epoch or stretch begins: saves a checkpoint and raises OutOfTime.
    warn        called with a message about each damaged checkpoint.
    note        called with the log after every epoch.
    """
    begun, last = time.monotonic(), plan.epochs if until is None else until
    optimizer = plan.optimizer(model.parameters(), data.labels.device)
    average = None if plan.average is None else Average(model, plan.average)
    log, spent, trunk, done, peak = _resumed(model, optimizer, average, folder, branch, warn, data)
    keeper = Keeper(folder, model, optimizer, average, log, trunk, begun - spent, keep_every, data, peak)
    with _surroundings(model, plan, data), _clear_about_failures(plan):
        engine = Engine(model, objective, data, optimizer, plan, average)
        pause = partial(keeper.between, engine, deadline)
        for epoch in range(len(log), last):
            entry, done = _train(engine, keeper, plan, epoch, last, progress, pause, done, begun), None
            if validate is not None:
                with uncompiled(model), nullcontext() if average is None else average.in_place():
                    entry |= validate(model)
            log.append(entry)
            note(log)
            over, due = share((epoch + 1 < last and time.monotonic() >= deadline, keeper.due))
            if over or due or epoch + 1 == last:
                keeper.keep()
            if over:
                raise out_of_time(f"epoch {epoch + 1} of {last}")
    if average is not None:
        average.give()
    return Fit(log, spent + time.monotonic() - begun, engine.description, trunk, keeper.memory.peak)


def _resumed(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: Average | None,
    folder: Path | None,
    branch: Checkpoint | None,
    warn: Callable[[str], None],
    data: Loader,
) -> Begun:
    """The state in the newest checkpoint, after loading its weights. The data again know the damaged examples found so
    far.
    """
    own = None if folder is None else newest(folder, warn)
    found = own or branch
    if not agreed(None if found is None else found.facts.get("sha256")):
        raise TrainingError(f"the processes find different checkpoints in {folder}: use a folder that all nodes share")
    if found is None:
        return Begun([])
    processes = found.facts["processes"]
    if processes != world_size():
        raise TrainingError(
            f"the run was started with {processes} processes, not {world_size()}: continue with {processes}"
        )
    restore(found, model, optimizer, average)
    data.damaged.update({Path(path): str(why) for path, why in found.facts.get("damaged", {}).items()})
    log, begun = list(found.facts["log"]), found.facts.get("begun")
    if begun is not None and found.facts.get("order") != order_of(data, len(log)):
        raise TrainingError(
            f"epoch {len(log) + 1} was started in another order, or on other or differently stored data: restore them, "
            f"or delete checkpoint-{len(log) + 1:04d}-* from {folder} to start the epoch again"
        )
    trunk = len(log) if own is None else int(found.facts.get("trunk", 0))
    parts = None if begun is None else torch.tensor(begun)
    return Begun(log, float(found.facts["seconds"]), trunk, parts, found.facts.get("peak_memory"))


def _train(
    engine: Engine,
    keeper: Keeper,
    plan: Plan,
    epoch: int,
    last: int,
    progress: Callable[[Now], None],
    pause: Callable[[int], None],
    done: Tensor | None,
    begun: float,
) -> Entry:
    start, data, log = time.monotonic(), keeper.data, keeper.log
    shown = 0.0

    def report(batch: int) -> None:
        nonlocal shown
        if (now := time.monotonic()) - shown < 0.1 and batch + 1 < len(data):
            return
        shown = now
        entry = log[-1] if log else None
        progress(Now(epoch, last, batch + 1, len(data), plan.batch_size, now - begun, entry))

    parts = engine.epoch(epoch, report, pause, done)
    step = (epoch + 1) * len(data)
    keeper.require_finite(parts)
    return {
        "epoch": epoch + 1,
        "step": step,
        "loss": means(parts),
        "learning_rate": plan.learning_rate(step - 1),
        "seconds": time.monotonic() - start,
    }


def means(parts: dict[str, Tensor]) -> dict[str, Any]:
    """The mean over the steps of an epoch, [steps] or [steps, R]; a term that starts during the epoch is averaged from
    there.
    """
    found = {name: values.mean(0) for name, values in parts.items()}
    if "weight" in parts and not (on := parts["weight"].view(len(parts["weight"]), -1).any(1)).all():
        begun = [name for name, values in parts.items() if name != "weight" and not values[~on].any()]
        found |= {name: parts[name][on].mean(0) for name in begun}
    return {name: mean.tolist() for name, mean in found.items()}


@contextmanager
def _surroundings(model: nn.Module, plan: Plan, data: Loader) -> Iterator[None]:
    """Restore the caller's random state, cuDNN's setting and the model's own embed, convolutions and batch norms."""
    device = data.labels.device
    over_all = synchronised(model) if plan.sync_batch_norm else nullcontext()
    with over_all, torch.random.fork_rng([device] if device.type == "cuda" else []):
        tuned, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        try:
            with compiled(model) if compiles(model, plan, device) else nullcontext():
                yield
        finally:
            torch.backends.cudnn.benchmark = tuned


@contextmanager
def _clear_about_failures(plan: Plan) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:
        raise TrainingError(
            f"out of GPU memory: lower batch_size={plan.batch_size}, or use precision='bfloat16' (now {plan.precision})"
        ) from None
    except RuntimeError as error:
        if "DataLoader worker" in str(error):
            raise TrainingError(
                f"a process that decodes pictures died ({error}); run the same command to continue"
            ) from None
        if not lost_another(error):
            raise
        raise TrainingError(
            "another process of this run was lost: torchrun restarts all of them if --max-restarts allows, or run the "
            "same command to continue from the last checkpoint"
        ) from None
