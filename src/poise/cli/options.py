"""Options and helpers that several commands share."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout, suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from poise import __version__ as __version__
from poise.checks import install
from poise.errors import INTERRUPTED
from poise.io.files import new_file


class EngineName(StrEnum):
    """Where the runs are trained."""

    local = "local"
    ray = "ray"


Engine = Annotated[EngineName, typer.Option(help="Train on this machine, or as Ray tasks.")]
Address = Annotated[
    str | None, typer.Option(help="Address of a Ray cluster, or auto for this node's. By default, start a local one.")
]
GpusPerRun = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="N",
        help="Share of a GPU for each run on Ray. By default one GPU, if available.",
    ),
]


def cluster_of(
    engine: EngineName, address: str | None, gpus_per_run: float | None, device: str, jobs: int = 1, fleet: bool = False
) -> Any:
    """The cluster that the options describe; None for this machine only."""
    if engine is EngineName.local:
        if address is not None or gpus_per_run is not None:
            raise typer.BadParameter("--address and --gpus-per-run need --engine ray")
        return None
    if fleet or jobs > 1:
        word = "--fleet trains all runs in one process" if fleet else "--jobs starts processes on this machine"
        raise typer.BadParameter(f"{word}: omit it, or --engine ray")
    if device not in ("auto", "cpu", "cuda"):
        raise typer.BadParameter(f"device {device!r}: choose auto, cpu or cuda")
    from poise.running.ray_cluster import Cluster

    with usage("--gpus-per-run"):
        return Cluster(address, gpus_per_run, device)  # type: ignore[arg-type]


def seeds_of(word: str) -> range:
    """The seeds of an option: `5` means 0 to 4, `3-4` means 3 and 4."""
    if written := re.fullmatch(r"(?:(\d+)-)?(\d+)", word):
        first, last = written.groups()
        found = range(int(last)) if first is None else range(int(first), int(last) + 1)
        if found:
            return found
    raise typer.BadParameter(f"{word!r} must be a number of seeds, such as 5, or a range, such as 3-4")


Seeds = Annotated[
    range | None,
    typer.Option(
        parser=seeds_of,
        metavar="N|FROM-TO",
        help="Number of seeds from 0, or a range of seeds. By default the recipe's.",
    ),
]


def device_of(name: str) -> Any:
    """The device of an option; typer.BadParameter if it is not available."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda") or (name == "cuda" and not torch.cuda.is_available()):
        there = "cpu and cuda" if torch.cuda.is_available() else "cpu"
        raise typer.BadParameter(f"device {name!r}: this machine has {there}")
    return torch.device(name)


Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def _print_version(asked: bool) -> None:
    """Print the versions; that of torch is read from its metadata, without importing it."""
    if asked:
        from importlib import metadata

        try:
            torch = f"torch {metadata.version('torch')}"
        except metadata.PackageNotFoundError:
            torch = "torch is missing"
        typer.echo(f"poise {__version__}, {torch}")
        raise typer.Exit


def options_before_a_command(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the versions of Poise and torch."),
    ] = False,
) -> None:
    """Called before every command."""


class _PlainFlags:
    """Omits the type of flags in the help, since they take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_PlainFlags, TyperCommand):
    """A command of Poise."""


class Group(_PlainFlags, TyperGroup):
    """A group of commands of Poise."""


def print_to_stderr(json: bool) -> AbstractContextManager[object]:
    """With --json, redirect the output of the user's code to stderr, so that stdout is one JSON document."""
    return redirect_stdout(sys.stderr) if json else nullcontext()


@contextmanager
def usage(option: str | None = None) -> Iterator[None]:
    """Turn ValueError into a usage error, with exit code 2."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


@contextmanager
def exit_on_ctrl_c(sentence: str) -> Iterator[None]:
    """Print a sentence and exit on Ctrl-C, during imports and loading.

    An exception would not be reliable: a library may catch it during its import, and fail later.
    """

    def leave(*_: object) -> NoReturn:
        sys.stdout.flush()
        os.write(2, f"poise: {sentence}\n".encode())
        os._exit(INTERRUPTED)

    before = signal.getsignal(signal.SIGINT)
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, leave)
    try:
        yield
    except KeyboardInterrupt:  # raised by a library with its own handler
        print(f"poise: {sentence}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, before)


@contextmanager
def failures() -> Iterator[None]:
    """Turn failures into one sentence and exit code 1."""
    from poise.errors import RecordError

    try:
        import poise.reporting.statistics  # noqa: F401, fails early without scipy

        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("onnx", "onnxscript"):
            sys.exit(f"poise: --onnx needs {package}, which is missing: {install('onnx')}")
        if package not in ("jinja2", "markupsafe", "safetensors", "scipy"):
            raise
        sys.exit(f"poise: {package} is missing: {install('experiments')}")
    except RecordError as error:
        sys.exit(f"poise: {error}")
    except BrokenPipeError:
        raise  # the reader has closed the pipe; Typer exits silently
    except OSError as error:
        sys.exit(f"poise: {error.filename or 'the output cannot be written'}: {error.strerror or error}")


def describe_os_error(error: OSError, out: Path, option: str = "--out") -> str:
    """The file, the error and, for a file of the output, what to do."""
    if error.errno is None:
        return str(error)  # Poise's own message
    ours = error.filename is None or Path(str(error.filename)).is_relative_to(out)
    return f"{error.filename or out}: {error.strerror or error}{_remedy(error, option) if ours else ''}"


def _remedy(error: OSError, option: str) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"; free some space, or choose another {option}"
    cannot = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG)
    return f"; choose another {option}" if error.errno in cannot else ""


def write(path: Path, content: str, quiet: bool = False) -> None:
    """Write a file and print its path; on failure print one sentence and exit with code 1."""
    try:
        with new_file(path) as stream:
            stream.write(content.encode())
    except OSError as error:
        made = "; create its folder first" if error.errno == errno.ENOENT else _remedy(error, "--out")
        sys.exit(f"poise: {path} cannot be written: {error.strerror or error}{made}")
    if not quiet:
        typer.echo(str(path))
