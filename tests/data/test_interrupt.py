"""Ctrl-C, sent to the real command in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from data_sets import Server, digits, idx_files, tar_bytes, write_folder

from poise.data.sets.download import Package

SENTENCE = "poise: interrupted. Finished work is saved; run the same command to continue.\n"
COMMAND = """
import dataclasses, sys
from data_sets import digits
from poise.cli.main import main
from poise.data.sets import cache, catalogue
from poise.data.sets.download import Package

digests = {name: cache.digest(array) for name, array in digits().items()}
ways = {"addresses": (), "packages": (), "digests": digests, **eval(sys.argv[1])}
catalogue.CATALOGUE["mnist"] = dataclasses.replace(catalogue.MNIST, **ways)
sys.argv[1:] = ["data", "get", "mnist"]
main()
"""


def start(**ways: object) -> subprocess.Popen[str]:
    """`poise data get mnist`, with MNIST in small and only these ways to it."""
    command = [sys.executable, "-c", COMMAND, repr(ways)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings())


def surroundings() -> dict[str, str]:
    """Of a process that imports what we import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}


def await_file(process: subprocess.Popen[str], awaited: Path) -> None:
    end = time.monotonic() + 30
    while not (awaited.exists() and awaited.stat().st_size > 0):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)


def interrupt(process: subprocess.Popen[str], awaited: Path) -> tuple[int, str, str]:
    """Send SIGINT as soon as a file has something in it: exit code, stdout and stderr."""
    await_file(process, awaited)
    process.send_signal(signal.SIGINT)
    out, complaints = process.communicate(timeout=20)
    return process.returncode, out, complaints


IMPORT = """
import atexit, signal, sys, time
from pathlib import Path
from poise.cli.main import main

def wait(place):
    Path(place).write_text("x")
    time.sleep(20 if place.endswith("importing") else 1)

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "poise.cli.app":
            if sys.argv[2] == "its own":
                signal.signal(signal.SIGINT, signal.default_int_handler)
            wait(sys.argv[1] + "/importing")

sys.meta_path.insert(0, Slow())
atexit.register(wait, sys.argv[1] + "/leaving")
main()
"""


@pytest.mark.parametrize("handler", ["ours", "its own"])
def test_twice_ctrl_c_from_import_to_exit_is_one_sentence(tmp_path: Path, handler: str) -> None:
    command = [sys.executable, "-c", IMPORT, str(tmp_path), handler]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    await_file(process, tmp_path / "importing")
    process.send_signal(signal.SIGINT)
    assert interrupt(process, tmp_path / "leaving") == (130, "", SENTENCE)


MEETING = """
import os, signal, sys
from poise.cli.main import main

setting = signal.signal

def signal_during(number, handler):
    if handler is signal.SIG_IGN:
        os.kill(os.getpid(), signal.SIGINT)
    return setting(number, handler)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "poise.cli.app":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal = signal_during
sys.meta_path.insert(0, Interrupting())
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there os.kill ends the process")
def test_a_second_ctrl_c_does_not_meet_the_first_on_its_way_out() -> None:
    ended = subprocess.run([sys.executable, "-c", MEETING], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", SENTENCE)


def files_below(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


@pytest.mark.miniature
def test_an_interrupted_download_ends_with_a_sentence_and_goes_on_later(server: Server, cache_folder: Path) -> None:
    server.bodies["/mnist.tar.gz"] = tar_bytes(idx_files(digits()))
    server.stall.add("/mnist.tar.gz")
    ways = {"addresses": ((f"{server.url}/mnist.tar.gz",),)}
    part = cache_folder / ".downloads" / "mnist" / "mnist.tar.gz.part"
    assert interrupt(start(**ways), part) == (130, "", SENTENCE)
    assert files_below(cache_folder) == [".downloads/mnist/mnist.tar.gz.part", ".mnist.lock"]
    server.stall.clear()
    again = start(**ways)
    assert again.communicate(timeout=60) == ("mnist: the official address\n", "")
    assert server.requests == [("/mnist.tar.gz", None), ("/mnist.tar.gz", "bytes=10-")]


@pytest.mark.skipif(sys.platform == "win32", reason="the client is a shell script")
def test_an_interrupted_client_is_ended_and_leaves_nothing(
    tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "bin" / "npm"
    client.parent.mkdir()
    client.write_text(f"#!/bin/sh\necho half > work/half.tgz\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    process = start(packages=(Package("npm", "digits-pack", "1.0.0"),))
    assert interrupt(process, tmp_path / "pid") == (130, "", SENTENCE)
    assert files_below(cache_folder) == [".mnist.lock"]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


KILLING = """
import itertools, os, shutil, signal, sys
from pathlib import Path
from data_sets import digits, offer
from poise.data.sets import cache, catalogue, fetch as sources

class Plain:
    setitem = staticmethod(dict.__setitem__)

offer(Plain, catalogue.MNIST, digits(), addresses=eval(sys.argv[1]))
source, again = eval(sys.argv[2])
home = cache.root()

def dying(number):
    seen = itertools.count(1)
    def hook(event, arguments):
        if str(home) in str(arguments) and next(seen) == number:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

def killed(number):
    if child := os.fork():
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    dying(number)
    try:
        sources.get("mnist", source, again)
    finally:
        os._exit(0)

for number in itertools.count(1):
    shutil.rmtree(home, ignore_errors=True)
    if again:
        sources.get("mnist", source)
    if not killed(number):
        break
    here = again and not (home / "mnist").exists() and not list(home.glob(".mnist-old-*"))
    sources.get("mnist", source)
    sources.check("mnist")
    left = [path.name for path in home.iterdir() if path.suffix != ".lock" and path.name != "mnist"]
    if here or left:
        print("killed at", number, "of the file operations, the next one leaves", left)
print(number)
"""


@pytest.mark.miniature
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("way", ["folder", "again", "address"])
def test_a_get_killed_at_any_file_operation_is_swept_by_the_next(
    way: str, tmp_path: Path, server: Server, cache_folder: Path
) -> None:
    server.bodies["/mnist.tar.gz"] = tar_bytes(idx_files(digits()))
    folder = write_folder(idx_files(digits()), tmp_path / "mine")
    addresses = ((f"{server.url}/mnist.tar.gz",),) if way == "address" else ()
    what = (None if addresses else str(folder), way == "again")
    command = [sys.executable, "-c", KILLING, repr(addresses), repr(what)]
    ended = subprocess.run(command, capture_output=True, text=True, env=surroundings(), timeout=300)
    assert ended.returncode == 0, ended.stderr
    *problems, operations = ended.stdout.splitlines()
    assert problems == []
    assert int(operations) > 25
