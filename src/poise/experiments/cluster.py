"""Runs on a cluster: each is a task of Ray, with the folders, checkpoints and records of the local runner.

    driver                                      worker, on any node
    sends a run, its recipe by value        →   trains it into the shared folder
    tells all events in one place           ←   puts its events into the driver's mailbox
    sends it again if its worker was lost   →   goes on from its last checkpoint

A run is one process on one GPU at most; several processes that train one model are torchrun's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from poise.data.errors import DataError
from poise.distributed import world_size
from poise.experiments.connection import Cluster, connected
from poise.experiments.logs import Event, Listener
from poise.experiments.runner import Runner
from poise.experiments.search import Search
from poise.training.errors import TrainingError

_PAUSE = 0.2  # seconds between two looks into the mailbox


@dataclass(frozen=True)
class _Job:
    """What a worker is to do, and what it is called when it is lost."""

    method: str
    seed: int
    run: Callable[[torch.device, Listener], object]


def run_on_cluster(
    runner: Runner, cluster: Cluster, methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> list[Path]:
    """Like Runner.run, every run on a worker of its own; what another process is at is left to it."""
    if world_size() > 1:
        raise TrainingError("Ray starts processes of its own: start it without torchrun")
    wanted = runner.begin(methods, seeds)
    sent = replace(runner, out=runner.out.resolve(), store=runner.store and runner.store.resolve(), listen=_silent)
    ends = time.time() + runner.deadline - time.monotonic()  # nodes have monotonic clocks of their own
    left = [(method.name, seed) for method, seed in wanted if not runner.is_finished(method, seed)]
    if left:
        with connected(cluster) as ray:
            jobs = [_Job(method, seed, partial(_run, sent, method, seed, ends)) for method, seed in left]
            _work(ray, jobs, cluster, _share(ray, cluster), runner.listen)
    return [path for method, seed in wanted if (path := runner.record_path(method, seed)).exists()]


def search_on_cluster(search: Search, cluster: Cluster) -> None:
    """Like Search.run, by as many searchers at once as the cluster has room for."""
    sent = replace(search, out=search.out.resolve(), listen=_silent)
    ends = time.time() + search.deadline - time.monotonic()
    with connected(cluster) as ray:
        share = _share(ray, cluster)
        room = min(int(ray.cluster_resources().get(name, 0) / part) for name, part in share.items() if part)
        most = min(len(search.sweep), search.trials or len(search.sweep))
        jobs = [
            _Job(search.sweep.method, number, partial(_search, sent, ends)) for number in range(max(1, min(room, most)))
        ]
        _work(ray, jobs, cluster, share, search.listen)


def _run(runner: Runner, method: str, seed: int, ends: float, device: torch.device, listen: Listener) -> None:
    deadline = time.monotonic() + ends - time.time()
    replace(runner, device=device, listen=listen, deadline=deadline).run([method], [seed])


def _search(search: Search, ends: float, device: torch.device, listen: Listener) -> None:
    deadline = time.monotonic() + ends - time.time()
    replace(search, device=device, listen=listen, deadline=deadline).run()


def _share(ray: Any, cluster: Cluster) -> dict[str, float]:
    """What a run takes of the cluster: its part of a GPU and a core; or without a GPU, a core for each thread."""
    there = ray.cluster_resources().get("GPU", 0)
    wanted = cluster.gpus_per_run
    gpus = (1 if there or cluster.device == "cuda" else 0) if wanted is None else wanted
    gpus = 0 if cluster.device == "cpu" else gpus
    if gpus > there:
        raise TrainingError(f"a run asks for {gpus:g} GPU, and the cluster has {there:g}")
    most = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=1)
    return {"GPU": gpus, "CPU": 1 if gpus else max(1, min(torch.get_num_threads(), most))}


def _work(ray: Any, jobs: Sequence[_Job], cluster: Cluster, share: dict[str, float], listen: Listener) -> None:
    """All jobs to their ends; a job whose worker is lost is sent again. The first that fails ends them all."""
    mailbox = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Mailbox).remote()
    task = ray.remote(num_cpus=share["CPU"], num_gpus=share["GPU"], max_retries=0)(_serve)
    here = {name: os.environ[name] for name in ("POISE_DATA",) if name in os.environ}
    device = torch.device("cuda" if share["GPU"] else "cpu")

    def send(job: _Job) -> Any:
        return task.remote(partial(job.run, device), mailbox, torch.get_num_threads(), here)

    lost = dict.fromkeys(jobs, 0)
    sent = {send(job): job for job in jobs}
    while sent:
        done, _ = ray.wait(list(sent), timeout=_PAUSE)
        for event in ray.get(mailbox.take.remote()):
            listen(event)
        for each in done:
            job = sent.pop(each)
            error = _end(ray, each)
            if isinstance(error, _Lost):
                lost[job] += 1
                if lost[job] > cluster.retries:
                    where = f"{job.method} (seed {job.seed})"
                    raise TrainingError(
                        f"{where}: its worker was lost {lost[job]} times ({error}); its checkpoints are saved"
                    )
                detail = f" from its last checkpoint: its worker was lost ({error})"
                listen(Event(job.method, job.seed, "restarting", detail=detail))
                sent[send(job)] = job
            elif error is not None:
                raise error


class _Lost(Exception):
    """A worker that is no more."""


def _end(ray: Any, task: Any) -> Exception | None:
    """None, or why a task could not end well."""
    try:
        found: Exception | None = ray.get(task)
    except ray.exceptions.RayTaskError:
        raise  # a fault of ours, with the worker's traceback
    except ray.exceptions.RayError as error:
        return _Lost(type(error).__name__)
    return found


def _serve(run: Callable[[Listener], object], mailbox: Any, threads: int, here: dict[str, str]) -> Exception | None:
    """A job, in a worker, with the driver's threads and data folder; a failure with a sentence comes back as one."""
    os.environ.update(here)
    torch.set_num_threads(threads)
    last = [mailbox.put.remote()]

    def tell(event: Event) -> None:
        last[0] = mailbox.put.remote(event)

    try:
        run(tell)
    except (TrainingError, DataError, OSError, ModuleNotFoundError) as error:
        return error
    finally:
        import_module("ray").get(last)  # events are heard before the end
    return None


class _Mailbox:
    """Events of all workers, in the order in which they came; an actor."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def put(self, *events: Event) -> None:
        self._events += events

    def take(self) -> list[Event]:
        taken, self._events = self._events, []
        return taken


def _silent(event: Event) -> None:
    """Nobody is told here; the worker has a listener of its own."""
