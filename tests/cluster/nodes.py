"""Two nodes on one machine: a network, a host name and known hosts each, where the system allows it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = ("poise-0", "poise-1")


@dataclass(frozen=True)
class Nodes:
    """first   the name of the first node, for the others.
    enter   what comes before a command on each node.
    """

    first: str
    enter: tuple[tuple[str, ...], ...]

    def run(self, command: list[str], **more: str) -> list[subprocess.CompletedProcess[str]]:
        """The command on all nodes at once, to its ends."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        begun = [
            subprocess.Popen([*enter, *command], env=environment(**more), text=True, cwd=ROOT, **pipes)
            for enter in self.enter
        ]
        said = [process.communicate(timeout=200) for process in begun]
        return [
            subprocess.CompletedProcess(process.args, process.returncode, *words)
            for process, words in zip(begun, said, strict=True)
        ]


def environment(**more: str) -> dict[str, str]:
    paths = os.pathsep.join(["src", "tests", os.environ.get("PYTHONPATH", "")])
    own = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PYTHONPATH": paths, "PATH": own, "OMP_NUM_THREADS": "1", **more}


@contextmanager
def two_nodes(folder: Path) -> Iterator[Nodes]:
    """Network namespaces with a cable between them; where the system does not allow them, this host twice."""
    spaces = [f"{name}-{os.getpid()}" for name in NAMES]
    try:
        if not _cabled(spaces):
            yield Nodes("localhost", ((), ()))
            return
        hosts = folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n10.77.0.1 poise-0 poise-0.poise\n10.77.0.2 poise-1 poise-1.poise\n")
        settle = f'mount --bind {hosts} /etc/hosts && hostname "$0" && exec "$@"'
        enter = [
            ("ip", "netns", "exec", space, "unshare", "--mount", "--uts", "sh", "-c", settle, name)
            for space, name in zip(spaces, NAMES, strict=True)
        ]
        yield Nodes("poise-0", tuple(enter))
    finally:
        for space in spaces:
            _done("ip", "netns", "delete", space)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _cabled(spaces: list[str]) -> bool:
    one, other = spaces
    steps = [
        ["ip", "netns", "add", one],
        ["ip", "netns", "add", other],
        ["ip", "link", "add", "cable", "netns", one, "type", "veth", "peer", "name", "cable", "netns", other],
        *(
            ["ip", "-n", space, "address", "add", f"10.77.0.{n}/24", "dev", "cable"]
            for n, space in enumerate(spaces, 1)
        ),
        *(["ip", "-n", space, "link", "set", device, "up"] for space in spaces for device in ("cable", "lo")),
        ["ip", "netns", "exec", one, "unshare", "--mount", "--uts", "true"],
    ]
    return all(_done(*step) for step in steps)


def _done(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
