"""The runner's other way: runs that differ in seed and lambda only are trained as one batched model, a fleet.

Small networks leave a GPU idle; ten seeds with six values of lambda fill it as one fleet of sixty. The records are
those of the ordinary runner, and `engine` names the fleet.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
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
from poise.io.locks import busy
from poise.models.replicas import Replicas
from poise.running.experiment import Method
from poise.running.judge import Judge
from poise.running.logs import Event, notes
from poise.running.runner import Runner
from poise.training.checkpoint import newest, save, weights_of
from poise.training.fleet import FleetLoader, FleetObjective, alike, together
from poise.training.loop import Fit, Now, fit


@dataclass(frozen=True)
class Member:
    """A run of a fleet."""

    method: Method
    seed: int


def run_fleets(
    runner: Runner, methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None, most: int = 100
) -> list[Path]:
    """Like Runner.run, in fleets of at most so many runs; what another process is at is left to it."""
    if world_size() > 1:
        raise TrainingError("--fleet trains in one process: start it without torchrun")
    everyone = [Member(method, seed) for method, seed in runner.begin(methods, seeds)]
    try:
        _train_all(runner, _fleets(everyone, most))
    except OutOfTime as error:
        runner.listen(Event(everyone[0].method.name, everyone[0].seed, "stopping", detail=f": {error}"))
    return [path for each in everyone if (path := runner.record_path(each.method, each.seed)).exists()]


def _train_all(runner: Runner, fleets: Sequence[Sequence[Member]]) -> None:
    for fleet in fleets:
        with ExitStack() as locks:
            left = [member for member in fleet if _is_left(runner, member, locks)]
            if left and time.monotonic() >= runner.deadline:
                return
            left = [member for member in left if not _finished(runner, runner.judge, member)]
            if left:
                try:
                    _train(runner, runner.judge, left)
                except NotFinite as error:
                    raise NotFinite(f"{_who(left, error.place)}: {error}") from None


def _who(fleet: Sequence[Member], place: int | None) -> str:
    """The run at a place of a fleet; all of them where it is not known."""
    return ", ".join(
        f"{each.method.name} (seed {each.seed})" for each in ([fleet[place]] if place is not None else fleet)
    )


def _fleets(everyone: Sequence[Member], most: int) -> list[list[Member]]:
    alikes: dict[str, list[Member]] = {}
    for member in everyone:
        alikes.setdefault(repr(member.method.augment) + alike(member.method.objective), []).append(member)
    return [runs[start : start + most] for runs in alikes.values() for start in range(0, len(runs), most)]


def _is_left(runner: Runner, member: Member, locks: ExitStack) -> bool:
    """Whether a run is still to be made, by us: its folder stays ours until the locks are given back."""
    path = runner.record_path(member.method, member.seed)
    if not locks.enter_context(busy(path.parent)):
        event = Event(member.method.name, member.seed, "skipping", detail=": another process is running it")
        runner.listen(event)
        return False
    if path.exists():
        runner.listen(Event(member.method.name, member.seed, "finished"))
    return not path.exists()


def _train(runner: Runner, judge: Judge, fleet: Sequence[Member]) -> None:
    started, first, detail = datetime.now(UTC), fleet[0].method, f" in a fleet of {len(fleet)}"
    networks = [runner.model(member.seed) for member in fleet]
    for member in fleet:
        recipe = {"recipe": repr(runner.experiment.recipe(member.method))}
        runner.write(runner.record_path(member.method, member.seed).with_name("recipe.json"), recipe)
    replicas, objective = _as_one(networks, fleet, runner.device)
    loaders = [runner.data(judge, first, member.seed) for member in fleet]
    if not all(isinstance(loader, DeviceLoader) for loader in loaders):
        raise TrainingError("sentences are not supported in fleets: run it without --fleet")
    data = FleetLoader(tuple(loader for loader in loaders if isinstance(loader, DeviceLoader)))
    folder = runner.folder / "fleets" / _digest(runner, fleet)
    folder.mkdir(parents=True, exist_ok=True)

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
        progress=lambda now: runner.listen(Event(first.name, fleet[0].seed, "training", _of_first(now), detail)),
        warn=lambda sentence: runner.listen(Event(first.name, fleet[0].seed, "warning for", detail=f": {sentence}")),
        note=notes(folder, runner.tensorboard),
    )
    facts = {"seconds": done.seconds / len(fleet), "engine": done.engine, "started": started.isoformat()}
    facts |= {"peak_memory": done.peak_memory}
    for place, (member, model) in enumerate(zip(fleet, _filled(networks, replicas), strict=True)):
        log = [_of_one(entry, place, len(fleet)) for entry in done.log]
        save(_home(runner, member), len(log), model, None, {**facts, "log": log, "processes": 1})
    for member in fleet:
        _finished(runner, judge, member)


def _finished(runner: Runner, judge: Judge, member: Member) -> bool:
    """Test a run whose fleet is trained, if it is: the last weights are in every folder before the first record is."""
    held = newest(_home(runner, member), lambda sentence: None)
    if held is None or "engine" not in held.facts:
        return False
    model = runner.model(member.seed)
    model.load_state_dict(weights_of(held))
    memory = held.facts.get("peak_memory")
    done = Fit(held.facts["log"], held.facts["seconds"], held.facts["engine"], peak_memory=memory)
    runner.write_record(judge, member.method, member.seed, model, done, datetime.fromisoformat(held.facts["started"]))
    return True


def _home(runner: Runner, member: Member) -> Path:
    return runner.record_path(member.method, member.seed).parent


def _as_one(
    networks: Sequence[nn.Module], fleet: Sequence[Member], device: torch.device
) -> tuple[Replicas, FleetObjective]:
    try:
        return Replicas(networks).to(device), together([member.method.objective for member in fleet], device)
    except ValueError as error:
        raise TrainingError(f"{error}: run it without --fleet") from None


def _digest(runner: Runner, fleet: Sequence[Member]) -> str:
    recipes = [(repr(runner.experiment.recipe(member.method)), member.seed) for member in fleet]
    return sha256(repr(recipes).encode()).hexdigest()[:12]


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
