"""A connection to Ray: to a cluster that is there, or to one of this machine's own. Ray is imported here, and late."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, Literal
from uuid import uuid4

from poise.extras import install
from poise.training.errors import TrainingError

_STORE = 100_000_000  # bytes: recipes and events are small
_SILENCE, _PATIENCE = 3, 10  # seconds
_SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # Ray speaks gRPC, so HTTP/2: both sides begin with a frame of settings, kind 4
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS
_ELSE = "start one (ray start --head), give another --address, or none for a Ray of this machine's own"


@dataclass(frozen=True)
class Cluster:
    """Where runs go.

    address       that of a Ray cluster, or "auto" for the one of this node; None starts one on this machine.
    gpus_per_run  a part of a GPU lets several runs share one; None is a whole one where there are any.
    device        "cpu" leaves GPUs alone, "cuda" asks for them.
    retries       how often a run is sent again because its worker was lost.
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


@contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """Ray, connected; what it started goes down with us. It says little, and tells nobody that it was used."""
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token()} if cluster.address is None else {}
    with _environment({"RAY_USAGE_STATS_ENABLED": "0", **own}), _interruptible():
        try:
            ray: Any = import_module("ray")
        except ModuleNotFoundError:
            raise ModuleNotFoundError(f"ray is missing: {install('cluster')}", name="ray") from None
        small = {"include_dashboard": False, "object_store_memory": _STORE} if cluster.address is None else {}
        place = _found(cluster.address)
        try:
            with _told(place):
                _require_answer(place)
                ray.init(address=place or "local", log_to_driver=False, logging_level=logging.ERROR, **small)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            why = (str(error) or type(error).__name__).splitlines()[0]
            token = "; if it asks for a token, set RAY_AUTH_MODE and RAY_AUTH_TOKEN" if cluster.address else ""
            raise TrainingError(f"no Ray at {place or 'this machine'}: {why}{token}") from None
        try:
            with redirect_stdout(sys.stderr):  # where Ray speaks of lost workers; ours is for results
                yield ray
        finally:
            ray.shutdown()


@cache
def _token() -> str:
    """Of this process: Ray remembers the first one that it was given."""
    return uuid4().hex


def _found(address: str | None) -> str | None:
    """Where "auto" leads: to the Ray of this node, or to the last one that was started here, which may be gone."""
    if address != "auto":
        return address
    try:
        return str(import_module("ray._private.services").canonicalize_bootstrap_address(address))
    except (ImportError, AttributeError):  # a Ray that keeps it elsewhere: it looks for itself, in its own time
        return address
    except ConnectionError:
        raise TrainingError(f"no Ray runs on this node: {_ELSE}") from None


@contextmanager
def _told(address: str | None) -> Iterator[None]:
    """Says whom we wait for, if it takes long."""
    sentence = f"Ray at {address} is asked, and has not answered yet" if address else "a Ray is started on this machine"
    timer = threading.Timer(_SILENCE, partial(print, sentence, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _require_answer(address: str | None) -> None:
    """A sentence for a place where no Ray listens: Ray itself would look for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    secret = os.environ.get("RAY_USE_TLS", "0") not in ("", "0")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE) as line:
            line.sendall(b"" if secret else _HELLO)
            answer = _SETTINGS if secret else line.recv(9)
    except TimeoutError:
        raise TrainingError(f"no Ray answers at {address}: nothing came in {_PATIENCE} seconds; {_ELSE}") from None
    except OSError as error:
        raise TrainingError(f"no Ray answers at {address}: {error.strerror or error}; {_ELSE}") from None
    if answer[3:4] != _SETTINGS[3:4]:
        raise TrainingError(f"no Ray answers at {address}: something else does; {_ELSE}")


@contextmanager
def _environment(more: dict[str, str]) -> Iterator[None]:
    """These variables, where the user has not set them, for Ray and what it starts."""
    added = {name: value for name, value in more.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ray's calls end at a KeyboardInterrupt, at no other answer to Ctrl-C; the caller's answer is given after it."""
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
