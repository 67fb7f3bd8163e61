"""Fleets: train runs that differ in seed and lambda only as one batched model.

A small network leaves a GPU idle; ten seeds with six values of lambda fill it as one fleet of sixty. The records are
those of the ordinary runner, and their `engine` names the fleet.

    <experiment>/fleets/<digest>/fleet.json    the members of a fleet, written before its training begins

The weights of a run depend on the size of its fleet. So a fleet that was stopped continues with all its members, even
those that are finished by then; members without their final weights get them from its checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import nn

from poise.data.loading.resident import DeviceLoader
from poise.distributed import world_size
from poise.errors import NotFinite, OutOfTime, RecordError, TrainingError
from poise.io.documents import read_json
from poise.io.files import held, try_lock, wait_lock
from poise.models.replicas import Replicas
from poise.running.experiment import Method
from poise.running.judge import Judge
from poise.running.record import Event, notes
from poise.running.runner import Runner, in_turns
from poise.training.checkpoint import Checkpoint, newest, save, weights_of
from poise.training.fleet import FleetLoader, FleetObjective, fleet_key, fleet_objective
from poise.training.loop import Fit, Now, fit

FLEET = "fleet.json"
Run = tuple[str, int]  # the name of its method, and its seed


@dataclass(frozen=True)
class Member:
    """A run of a fleet."""

    method: Method
    seed: int

    @property
    def run(self) -> Run:
        return self.method.name, self.seed


def run_fleets(
    runner: Runner, methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None, most: int = 100
) -> list[Path]:
    """Train and test runs in fleets of at most `most`, and return the paths of their records, as `Runner.run` does.

    Objectives that wrap another one, such as AugMix, are trained alone after the fleets. Runs and fleets of other
    processes are skipped.
    """
    if world_size() > 1:
        raise TrainingError("--fleet trains in one process: run the command without torchrun")
    wanted = runner.begin(methods, seeds)
    everyone = [Member(method, seed) for method, seed in wanted]
    alone = [member for member in everyone if hasattr(member.method.objective, "objective")]
    try:
        for group in _groups([member for member in everyone if member not in alone], most):
            _run(runner, group)
        in_turns([partial(runner.attempt, member.method, member.seed) for member in alone])
    except OutOfTime as error:
        _tell(runner, everyone[0], "stopping", f": {error}")
    return runner.finished(wanted)


def _run(runner: Runner, group: Sequence[Member]) -> None:
    """Train and test the unfinished runs of a group, unless the deadline has passed."""
    if time.monotonic() >= runner.deadline and not all(_has_record(runner, member) for member in group):
        return
    for fleet in _fleets(runner, group):
        try:
            _train_locked(runner, fleet, group)
        except OutOfTime:
            raise
        except TrainingError as error:
            if all(_is_untrained(runner, member) for member in fleet):  # another choice of runs may succeed
                (_folder(runner, fleet) / FLEET).unlink(missing_ok=True)
            if isinstance(error, NotFinite):
                raise NotFinite(f"{_names(fleet, error.place)}: {error}") from None
            raise
    for member in group:
        _finish(runner, member)


def _names(fleet: Sequence[Member], place: int | None) -> str:
    """The name of the run at a place of a fleet; the names of all if the place is unknown."""
    return ", ".join(
        f"{each.method.name} (seed {each.seed})" for each in ([fleet[place]] if place is not None else fleet)
    )


def _groups(everyone: Sequence[Member], most: int) -> list[list[Member]]:
    """Groups of runs that can be trained as one fleet."""
    alikes: dict[str, list[Member]] = {}
    for member in everyone:
        alikes.setdefault(repr(member.method.augment) + fleet_key(member.method.objective), []).append(member)
    return [runs[start : start + most] for runs in alikes.values() for start in range(0, len(runs), most)]


def _fleets(runner: Runner, group: Sequence[Member]) -> list[list[Member]]:
    """The fleets that train the unfinished runs of a group: those that were begun, and a new one for the others.

    Processes that start at the same time get the same fleets.
    """
    left = {member.run: member for member in group if _is_untrained(runner, member)}
    if not left:
        return []
    with wait_lock(runner.folder / "fleets"):
        begun = [fleet for fleet in _begun(runner, group[0]) if any(member.run in left for member in fleet)]
        for member in (member for fleet in begun for member in fleet):
            left.pop(member.run, None)
        new = [member for member in left.values() if not held(_home(runner, member))]
        if new:
            members = [{"recipe": _recipe(runner, member), "seed": member.seed} for member in new]
            runner.write(_folder(runner, new) / FLEET, {"members": members})
    return [*begun, new] if new else begun


def _begun(runner: Runner, asking: Member) -> Iterator[list[Member]]:
    """The fleets of the experiment on disk, except those with a recipe that it no longer has."""
    methods = {repr(runner.experiment.recipe(method)): method for method in runner.experiment.methods}
    for path in sorted((runner.folder / "fleets").glob(f"*/{FLEET}")):
        try:
            members = read_json(path, "fleet")["members"]
            yield [Member(methods[each["recipe"]], each["seed"]) for each in members]
        except RecordError as error:
            _tell(runner, asking, "warning for", f": {error}; training its unfinished runs in a new fleet")
        except KeyError:
            continue


def _train_locked(runner: Runner, fleet: Sequence[Member], group: Sequence[Member]) -> None:
    """Train a fleet and save the final weights of the runs of the group that lack them.

    If another process is training the fleet, skip it: that process saves the weights of all its runs.
    """
    asked = {member.run for member in group}
    with ExitStack() as locks:
        if not locks.enter_context(try_lock(_folder(runner, fleet))):
            for member in fleet:
                if member.run in asked and _is_untrained(runner, member):
                    _tell(runner, member, "skipping", ": another process is running it")
            return
        wanted = [member for member in fleet if member.run in asked and _is_untrained(runner, member)]
        left = {member.run for member in wanted if locks.enter_context(try_lock(_home(runner, member)))}
        if left:
            _train(runner, runner.judge, fleet, left)


def _train(runner: Runner, judge: Judge, fleet: Sequence[Member], left: Container[Run]) -> None:
    started, first, detail = datetime.now(UTC), fleet[0], f" in a fleet of {len(fleet)}"
    networks = [runner.model(member.seed) for member in fleet]
    for member in fleet:
        if member.run in left:
            runner.write_recipe(member.method, member.seed)
    replicas, objective = _as_one(networks, fleet, runner.device)
    loaders = [runner.data(judge, first.method, member.seed) for member in fleet]
    if not all(isinstance(loader, DeviceLoader) for loader in loaders):
        raise TrainingError("sentences are not supported in fleets: run the command without --fleet")
    data = FleetLoader(tuple(loader for loader in loaders if isinstance(loader, DeviceLoader)))
    folder = _folder(runner, fleet)

    def after_epoch(model: nn.Module) -> dict[str, Any]:
        return _merged([judge.after_epoch(each) for each in _filled(networks, replicas)])

    with notes(folder, runner.trackers, runner.experiment.name) as note:
        done = fit(
            replicas,
            objective,
            data,
            runner.experiment.plan,
            folder=folder,
            validate=after_epoch,
            keep_every=runner.keep_every,
            deadline=runner.deadline,
            progress=lambda now: _tell(runner, first, "training", detail, _of_first(now)),
            warn=lambda sentence: _tell(runner, first, "warning for", f": {sentence}"),
            note=note,
        )
    facts = {"seconds": done.seconds / len(fleet), "engine": done.engine, "started": started.isoformat()}
    facts |= {"peak_memory": done.peak_memory}
    for place, (member, model) in enumerate(zip(fleet, _filled(networks, replicas), strict=True)):
        log = [_of_one(entry, place, len(fleet)) for entry in done.log]
        if member.run in left:
            save(_home(runner, member), len(log), model, None, {**facts, "log": log, "processes": 1})


def _finish(runner: Runner, member: Member) -> None:
    """Test a run that has its final weights and no record, unless another process is running it."""
    with try_lock(_home(runner, member)) as locked:
        if not locked:
            _tell(runner, member, "skipping", ": another process is running it")
        elif _has_record(runner, member):
            _tell(runner, member, "finished")
        elif (last := _last(runner, member)) is not None:
            model = runner.model(member.seed)
            model.load_state_dict(weights_of(last))
            memory, started = last.facts.get("peak_memory"), datetime.fromisoformat(last.facts["started"])
            done = Fit(last.facts["log"], last.facts["seconds"], last.facts["engine"], peak_memory=memory)
            runner.write_record(runner.judge, member.method, member.seed, model, done, started)


def _tell(runner: Runner, member: Member, what: str, detail: str = "", now: Now | None = None) -> None:
    runner.listen(Event(member.method.name, member.seed, what, now, detail))


def _is_untrained(runner: Runner, member: Member) -> bool:
    """Whether a run has neither a record nor its final weights."""
    return not _has_record(runner, member) and _last(runner, member) is None


def _has_record(runner: Runner, member: Member) -> bool:
    return runner.record(member.method, member.seed) is not None


def _last(runner: Runner, member: Member) -> Checkpoint | None:
    """The final weights of a run, if its fleet has finished training and saved them."""
    found = newest(_home(runner, member), lambda sentence: None)
    return found if found is not None and "engine" in found.facts else None


def _home(runner: Runner, member: Member) -> Path:
    return runner.record_path(member.method, member.seed).parent


def _folder(runner: Runner, fleet: Sequence[Member]) -> Path:
    """The folder of a fleet's checkpoints."""
    recipes = [(_recipe(runner, member), member.seed) for member in fleet]
    return runner.folder / "fleets" / sha256(repr(recipes).encode()).hexdigest()[:12]


def _recipe(runner: Runner, member: Member) -> str:
    return repr(runner.experiment.recipe(member.method))


def _as_one(
    networks: Sequence[nn.Module], fleet: Sequence[Member], device: torch.device
) -> tuple[Replicas, FleetObjective]:
    try:
        return Replicas(networks).to(device), fleet_objective([member.method.objective for member in fleet], device)
    except ValueError as error:
        raise TrainingError(f"{error}: run the command without --fleet") from None


def _filled(networks: Sequence[nn.Module], replicas: Replicas) -> Sequence[nn.Module]:
    """Copy the weights of the replicas into the networks, and return these."""
    for place, network in enumerate(networks):
        network.load_state_dict(replicas.state_of(place))
    return networks


def _merged(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge entries of the same shape into one, with a list at every leaf."""
    return {
        name: _merged([entry[name] for entry in entries]) if isinstance(value, dict) else [e[name] for e in entries]
        for name, value in entries[0].items()
    }


def _of_first(now: Now) -> Now:
    return now if now.last is None else replace(now, last=_of_one(now.last, 0, 1))


def _of_one(entry: dict[str, Any], place: int, count: int) -> dict[str, Any]:
    """The entry of one run in a merged entry; its time is an equal share."""

    def own(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: own(each) for name, each in value.items()}
        return value[place] if isinstance(value, list) else value

    return {**own(entry), "seconds": entry["seconds"] / count}
