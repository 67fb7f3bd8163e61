"""Run experiments and sweeps on a Ray cluster.

Each run is a Ray task that uses the folders, checkpoints and records of the local runner.

    driver                                      worker, on any node
    sends a run, its recipe by value        →   trains it into the shared folder
    reports the events of all workers       ←   puts its events into the driver's mailbox
    sends it again if its worker was lost   →   continues from its last checkpoint

A run is one process on at most one GPU; use torchrun to train one model with several processes. Ray is imported when a
connection is made, either to an existing cluster or to one started on this machine.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import torch

from poise.checks import install
from poise.distributed import world_size
from poise.errors import DataError, TrainingError
from poise.running.experiment import neighbours
from poise.running.record import Event, Listener
from poise.running.runner import Runner
from poise.running.sweeps import Search
from poise.running.watchdog import ended_with_us

_STORE = 100_000_000  # bytes: recipes and events are small
_SILENCE, _PATIENCE = 3, 10  # seconds before a message, and to wait for an answer
_PAUSE = 0.2  # seconds between two reads of the mailbox
_EVERY, _LOST = 2, 40  # seconds between two checks of the head, and without an answer; Ray itself gives up after 60
_SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # Ray uses gRPC over HTTP/2: both sides begin with a SETTINGS frame, type 4
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS
_ELSE = "start a cluster (ray start --head), give another --address, or none to start Ray on this machine"
_AGAIN = "finished work is saved; run the same command to continue"
_NEIGHBOURS = "put the modules of the recipe beside it, or install them on every node"


@dataclass(frozen=True)
class Cluster:
    """The Ray cluster to use, and the resources of a run.

    address       the address of a cluster, or "auto" for the one on this node; None starts one on this machine.
    gpus_per_run  a fraction lets several runs share a GPU; None is one GPU if the cluster has any.
    device        "cpu" uses no GPUs, "cuda" requires them.
    retries       how often a run is sent again after its worker was lost.
    """

    address: str | None = None
    gpus_per_run: float | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    retries: int = 3

    def __post_init__(self) -> None:
        if self.gpus_per_run is not None and not 0 <= self.gpus_per_run <= 1:
            raise ValueError(f"gpus_per_run={self.gpus_per_run} must lie in [0, 1]: a run is one process on one GPU")
        if (self.device == "cpu" and self.gpus_per_run) or (self.device == "cuda" and self.gpus_per_run == 0):
            raise ValueError(f"gpus_per_run={self.gpus_per_run} and device={self.device!r} contradict each other")


def run_on_cluster(
    runner: Runner, cluster: Cluster, methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> list[Path]:
    """Run methods and seeds like `Runner.run`, each run in its own worker. Runs of other processes are skipped."""
    if world_size() > 1:
        raise TrainingError("Ray starts its own processes: run the command without torchrun")
    wanted = runner.begin(methods, seeds)
    sent = replace(runner, out=runner.out.resolve(), store=runner.store and runner.store.resolve(), listen=_silent)
    ends = time.time() + runner.deadline - time.monotonic()  # monotonic clocks differ between nodes
    left = [(method.name, seed) for method, seed in wanted if not runner.is_finished(method, seed)]
    if left:
        with connected(cluster) as ray:
            jobs = [_Job(method, seed, partial(_run, sent, method, seed, ends)) for method, seed in left]
            _work(ray, jobs, cluster, _share(ray, cluster), runner.listen)
    return runner.finished(wanted)


def search_on_cluster(search: Search, cluster: Cluster) -> None:
    """Search like `Search.run`, with as many searches at once as the cluster has room for."""
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
    """The resources of a run: its part of a GPU and one core, or without a GPU one core per thread."""
    there = ray.cluster_resources().get("GPU", 0)
    wanted = cluster.gpus_per_run
    gpus = (1 if there or cluster.device == "cuda" else 0) if wanted is None else wanted
    gpus = 0 if cluster.device == "cpu" else gpus
    if gpus > there:
        raise TrainingError(f"a run needs {gpus:g} GPU, but the cluster has {there:g}")
    most = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=1)
    return {"GPU": gpus, "CPU": 1 if gpus else max(1, min(torch.get_num_threads(), most))}


@dataclass(frozen=True)
class _Job:
    """The work of a worker, and its name in messages."""

    method: str
    seed: int
    run: Callable[[torch.device, Listener], object]


def _work(ray: Any, jobs: Sequence[_Job], cluster: Cluster, share: dict[str, float], listen: Listener) -> None:
    """Run all jobs. A job whose worker is lost is sent again; the first job that fails ends them all."""
    mailbox = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Mailbox).remote()
    task = ray.remote(num_cpus=share["CPU"], num_gpus=share["GPU"], max_retries=0)(_serve)
    here = {name: os.environ[name] for name in ("POISE_DATA",) if name in os.environ}
    device = torch.device("cuda" if share["GPU"] else "cpu")

    def send(job: _Job) -> Any:
        try:
            return task.remote(partial(job.run, device), mailbox, torch.get_num_threads(), here)
        except TypeError as error:  # the recipe contains something that cannot be pickled, such as an open file
            why = str(error.__cause__ or error).splitlines()[0]
            raise TrainingError(f"the recipe cannot be sent to Ray's workers: {why}") from None

    for module in neighbours():  # workers may be unable to import them
        ray.cloudpickle.register_pickle_by_value(module)
    look = watch(ray.get_runtime_context().gcs_address)
    lost = dict.fromkeys(jobs, 0)
    sent = {send(job): job for job in jobs}
    while sent:
        look()
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
    """A worker was lost."""


def _end(ray: Any, task: Any) -> Exception | None:
    """The error of a task that ended, None if it succeeded."""
    try:
        found: Exception | None = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, ray.exceptions.RaySystemError):
            raise  # a bug in Poise: keep the worker's traceback
        why = str(error.cause).splitlines()[0].removeprefix("System error: ")
        raise TrainingError(f"a worker cannot read the recipe: {why}; {_NEIGHBOURS}") from None
    except ray.exceptions.RayError as error:
        return _Lost(type(error).__name__)
    return found


def _serve(run: Callable[[Listener], object], mailbox: Any, threads: int, here: dict[str, str]) -> Exception | None:
    """Run a job in a worker, with the driver's number of threads and data folder; returns errors of known kinds."""
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
        import_module("ray").get(last)  # deliver all events before the task ends
    return None


class _Mailbox:
    """An actor that collects the events of all workers, in the order of their arrival."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def put(self, *events: Event) -> None:
        self._events += events

    def take(self) -> list[Event]:
        taken, self._events = self._events, []
        return taken


def _silent(event: Event) -> None:
    """Ignore an event: in a worker, another listener is used."""


@contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """Connect to Ray for the block. A Ray that is started here ends with the block or with this process.

    Ray's usage statistics are off, and it logs errors only.
    """
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token()} if cluster.address is None else {}
    watched = ended_with_us() if cluster.address is None else nullcontext()
    with _interruptible(), watched, _environment({"RAY_USAGE_STATS_ENABLED": "0", **own}):
        try:
            ray: Any = import_module("ray")
        except ModuleNotFoundError:
            raise ModuleNotFoundError(f"ray is missing: {install('cluster')}", name="ray") from None
        small = {"include_dashboard": False, "object_store_memory": _STORE} if cluster.address is None else {}
        place = _found(cluster.address)
        try:
            with _waiting_message(place), _keep_sigterm():
                _require_answer(place)
                ray.init(address=place or "local", log_to_driver=False, logging_level=logging.ERROR, **small)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            why = (str(error) or type(error).__name__).splitlines()[0]
            token = "; if it asks for a token, set RAY_AUTH_MODE and RAY_AUTH_TOKEN" if cluster.address else ""
            raise TrainingError(f"cannot connect to Ray at {place or 'this machine'}: {why}{token}") from None
        try:
            with redirect_stdout(sys.stderr):  # Ray prints messages about lost workers; stdout is for results
                yield ray
        except ray.exceptions.RayTaskError:
            raise  # a bug in Poise: keep the worker's traceback
        except ray.exceptions.RayError as error:
            raise TrainingError(f"lost the connection to Ray ({type(error).__name__}); {_AGAIN}") from None
        finally:
            ray.shutdown()


@cache
def _token() -> str:
    """The token of this process: Ray keeps using the first one."""
    return uuid4().hex


def _found(address: str | None) -> str | None:
    """Resolve "auto" to the Ray on this node, or to the last one started here, which may have ended."""
    if address != "auto":
        return address
    try:
        return str(import_module("ray._private.services").canonicalize_bootstrap_address(address))
    except (ImportError, AttributeError):  # another version of Ray: let it resolve the address itself
        return address
    except ConnectionError:
        raise TrainingError(f"no Ray is running on this node: {_ELSE}") from None


@contextmanager
def _waiting_message(address: str | None) -> Iterator[None]:
    """Print what the block is waiting for if it takes longer than a few seconds."""
    sentence = f"waiting for Ray at {address} to answer" if address else "starting Ray on this machine"
    timer = threading.Timer(_SILENCE, partial(print, sentence, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _require_answer(address: str | None) -> None:
    """Raise TrainingError if no Ray listens at an address: Ray itself would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    secret = os.environ.get("RAY_USE_TLS", "0") not in ("", "0")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE) as line:
            line.sendall(b"" if secret else _HELLO)
            answer = _SETTINGS if secret else line.recv(9)
    except TimeoutError:
        raise TrainingError(f"no Ray at {address}: no answer within {_PATIENCE} seconds; {_ELSE}") from None
    except OSError as error:
        raise TrainingError(f"no Ray at {address}: {error.strerror or error}; {_ELSE}") from None
    if answer[3:4] != _SETTINGS[3:4]:
        raise TrainingError(f"no Ray at {address}: another service answers; {_ELSE}")


def watch(address: str) -> Callable[[], None]:
    """A function to call regularly, which raises TrainingError when Ray's head has not answered for a while.

    Ray itself would end this process a little later, with a message of its own.
    """
    host, _, port = address.rpartition(":")
    heard = asked = time.monotonic()

    def look() -> None:
        nonlocal heard, asked
        now = time.monotonic()
        if now - asked < _EVERY:
            return
        asked = now
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_EVERY).close()
            heard = now
        except OSError:
            if now - heard > _LOST:
                raise TrainingError(f"lost the connection to Ray's head at {address}; {_AGAIN}") from None

    return look


@contextmanager
def _environment(more: dict[str, str]) -> Iterator[None]:
    """Set environment variables for Ray and its processes, unless the user has set them."""
    added = {name: value for name, value in more.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, which ends Ray's calls; the caller's own handler runs afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, before)
        signal.raise_signal(signal.SIGINT)
        raise
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _keep_sigterm() -> Iterator[None]:
    """Keep the caller's SIGTERM handler: Ray installs its own when it starts, which exits without a message."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit:  # raised by Ray's handler
        raise KeyboardInterrupt from None
    finally:
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, before)
