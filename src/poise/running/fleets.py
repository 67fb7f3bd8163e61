"""The runner's other way: runs that differ in seed and lambda only are trained as one batched model, a fleet.

Small networks leave a GPU idle; ten seeds with six values of lambda fill it as one fleet of sixty. The records are
those of the ordinary runner, and `engine` names the fleet.

    <experiment>/fleets/<digest>/fleet.json    whose runs they are, written before the training begins

A run in a smaller fleet comes to other weights. So a fleet that was stopped goes on as it was, whichever of its runs
are finished by then, and those that lack their last weights get them from its checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import nn

from poise.data.loading.resident import DeviceLoader
from poise.distributed import world_size
from poise.errors import NotFinite, OutOfTime, TrainingError
from poise.io.json_files import RecordError, read_json
from poise.io.locks import held, try_lock, wait_lock
from poise.models.replicas import Replicas
from poise.running.experiment import Method
from poise.running.judge import Judge
from poise.running.record import Event, notes
from poise.running.runner import Runner
from poise.training.checkpoint import Checkpoint, newest, save, weights_of
from poise.training.fleet import FleetLoader, FleetObjective, alike, together
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
    """Like Runner.run, in fleets of at most so many runs; what another process is at is left to it."""
    if world_size() > 1:
        raise TrainingError("--fleet trains in one process: start it without torchrun")
    wanted = runner.begin(methods, seeds)
    everyone = [Member(method, seed) for method, seed in wanted]
    try:
        for group in _groups(everyone, most):
            _run(runner, group)
    except OutOfTime as error:
        _tell(runner, everyone[0], "stopping", f": {error}")
    return runner.finished(wanted)


def _run(runner: Runner, group: Sequence[Member]) -> None:
    """Train what is left of a group, and test it, unless the time is over."""
    if time.monotonic() >= runner.deadline and not all(_has_record(runner, member) for member in group):
        return
    for fleet in _fleets(runner, group):
        try:
            _train_ours(runner, fleet, group)
        except OutOfTime:
            raise
        except TrainingError as error:
            if all(_is_left(runner, member) for member in fleet):  # others may be asked for, and end well
                (_folder(runner, fleet) / FLEET).unlink(missing_ok=True)
            if isinstance(error, NotFinite):
                raise NotFinite(f"{_who(fleet, error.place)}: {error}") from None
            raise
    for member in group:
        _finish(runner, member)


def _who(fleet: Sequence[Member], place: int | None) -> str:
    """The run at a place of a fleet; all of them where it is not known."""
    return ", ".join(
        f"{each.method.name} (seed {each.seed})" for each in ([fleet[place]] if place is not None else fleet)
    )


def _groups(everyone: Sequence[Member], most: int) -> list[list[Member]]:
    """Runs that can be one fleet."""
    alikes: dict[str, list[Member]] = {}
    for member in everyone:
        alikes.setdefault(repr(member.method.augment) + alike(member.method.objective), []).append(member)
    return [runs[start : start + most] for runs in alikes.values() for start in range(0, len(runs), most)]


def _fleets(runner: Runner, group: Sequence[Member]) -> list[list[Member]]:
    """The fleets that train what is left of a group: those that were begun, and a new one of the rest. Processes that
    begin at once find the same ones."""
    left = {member.run: member for member in group if _is_left(runner, member)}
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
    """The fleets of the experiment that are on disk, but for those with a recipe that it no longer has."""
    methods = {repr(runner.experiment.recipe(method)): method for method in runner.experiment.methods}
    for path in sorted((runner.folder / "fleets").glob(f"*/{FLEET}")):
        try:
            members = read_json(path, "fleet")["members"]
            yield [Member(methods[each["recipe"]], each["seed"]) for each in members]
        except RecordError as error:
            _tell(runner, asking, "warning for", f": {error}; a fleet of what is left is trained")
        except KeyError:
            continue


def _train_ours(runner: Runner, fleet: Sequence[Member], group: Sequence[Member]) -> None:
    """Train a fleet, and give their last weights to those runs of the group that lack them; another process that is at
    the fleet does so for all."""
    asked = {member.run for member in group}
    with ExitStack() as locks:
        if not locks.enter_context(try_lock(_folder(runner, fleet))):
            for member in fleet:
                if member.run in asked and _is_left(runner, member):
                    _tell(runner, member, "skipping", ": another process is running it")
            return
        wanted = [member for member in fleet if member.run in asked and _is_left(runner, member)]
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
        raise TrainingError("sentences are not supported in fleets: run it without --fleet")
    data = FleetLoader(tuple(loader for loader in loaders if isinstance(loader, DeviceLoader)))
    folder = _folder(runner, fleet)

    def after_epoch(model: nn.Module) -> dict[str, Any]:
        return _merged([judge.after_epoch(each) for each in _filled(networks, replicas)])

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
        note=notes(folder, runner.tensorboard),
    )
    facts = {"seconds": done.seconds / len(fleet), "engine": done.engine, "started": started.isoformat()}
    facts |= {"peak_memory": done.peak_memory}
    for place, (member, model) in enumerate(zip(fleet, _filled(networks, replicas), strict=True)):
        log = [_of_one(entry, place, len(fleet)) for entry in done.log]
        if member.run in left:
            save(_home(runner, member), len(log), model, None, {**facts, "log": log, "processes": 1})


def _finish(runner: Runner, member: Member) -> None:
    """Test a run that has its last weights, unless another process is at it or it has its record."""
    with try_lock(_home(runner, member)) as ours:
        if not ours:
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


def _is_left(runner: Runner, member: Member) -> bool:
    """Whether a run is still to be trained."""
    return not _has_record(runner, member) and _last(runner, member) is None


def _has_record(runner: Runner, member: Member) -> bool:
    return runner.record(member.method, member.seed) is not None


def _last(runner: Runner, member: Member) -> Checkpoint | None:
    """The last weights of a run, if its fleet is trained and has given them to it."""
    found = newest(_home(runner, member), lambda sentence: None)
    return found if found is not None and "engine" in found.facts else None


def _home(runner: Runner, member: Member) -> Path:
    return runner.record_path(member.method, member.seed).parent


def _folder(runner: Runner, fleet: Sequence[Member]) -> Path:
    """Of the checkpoints of a fleet."""
    recipes = [(_recipe(runner, member), member.seed) for member in fleet]
    return runner.folder / "fleets" / sha256(repr(recipes).encode()).hexdigest()[:12]


def _recipe(runner: Runner, member: Member) -> str:
    return repr(runner.experiment.recipe(member.method))


def _as_one(
    networks: Sequence[nn.Module], fleet: Sequence[Member], device: torch.device
) -> tuple[Replicas, FleetObjective]:
    try:
        return Replicas(networks).to(device), together([member.method.objective for member in fleet], device)
    except ValueError as error:
        raise TrainingError(f"{error}: run it without --fleet") from None


def _filled(networks: Sequence[nn.Module], replicas: Replicas) -> Sequence[nn.Module]:
    """The networks with the weights that their replicas have come to."""
    for place, network in enumerate(networks):
        network.load_state_dict(replicas.state_of(place))
    return networks


def _merged(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Entries of one shape as one, a list at every leaf."""
    return {
        name: _merged([entry[name] for entry in entries]) if isinstance(value, dict) else [e[name] for e in entries]
        for name, value in entries[0].items()
    }


def _of_first(now: Now) -> Now:
    return now if now.last is None else replace(now, last=_of_one(now.last, 0, 1))


def _of_one(entry: dict[str, Any], place: int, count: int) -> dict[str, Any]:
    """The entry of one run; its time is its share."""

    def own(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: own(each) for name, each in value.items()}
        return value[place] if isinstance(value, list) else value

    return {**own(entry), "seconds": entry["seconds"] / count}
