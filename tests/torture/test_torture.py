"""Reliability: a sample of what `make torture` tries; and that it tells when something is lost."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from torture.damage import change, cut, flip, oddity
from torture.subjects import difference, settled

HERE = Path(__file__).parent
PATHS = [str(HERE.parents[1] / "src"), str(HERE.parent)]


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300)


@pytest.mark.miniature
@pytest.mark.skipif(sys.platform != "linux", reason="forks and /proc")
def test_a_sample_survives() -> None:
    rows = [word for row in ("killed", "random", "errors", "get") for word in ("--row", row)]
    done = python(
        str(HERE / "run.py"), *rows, "--case", "plain *", "--case", "archive *", "--cases", "5", "--jobs", "1"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("| 5 | 5 | 0 |") == 4


LOSING = """
import sys
sys.path[:0] = {paths}
from torture import rows, run
from torture.row import Row

def judge(case, work, home):
    if case == "killed":
        import os
        os.kill(os.getpid(), 9)
    return {{"fine": "", "lost": "records differ"}}[case]

rows.ROWS = {{"some": Row("some", "some cases", lambda work, subjects: ["fine", "lost", "killed"], judge)}}
sys.argv = ["run.py", "--jobs", "1"]
raise SystemExit(run.main())
"""


@pytest.mark.miniature
@pytest.mark.skipif(sys.platform != "linux", reason="forks and /proc")
def test_what_is_lost_is_told_with_a_line_that_tries_it_again() -> None:
    done = python("-c", LOSING.format(paths=PATHS))
    assert done.returncode == 1, done.stderr
    assert "# some, lost: records differ\npython tests/torture/run.py --row some --case lost\n" in done.stdout
    assert "# some, killed: the judge fails: signal 9" in done.stdout
    assert done.stdout.endswith("| some cases | 3 | 1 | 2 |\n")


WATCHED = """
import errno, os, sys
from pathlib import Path
sys.path[:0] = {paths}
from torture.forks import forked
from torture.operations import count, die_at, fail_at

folder = Path({folder!r})

def work(begin):
    def run():
        seen = begin()
        (folder / "a").mkdir()
        with (folder / "a" / "b").open("wb") as stream:
            stream.write(b"12")
            stream.flush()
            os.fsync(stream.fileno())
        (folder / "a" / "b").replace(folder / "c")
        (folder / "c").unlink()
        (folder / "a").rmdir()
        return seen
    return run

print([kind for kind, path in forked(work(lambda: count(folder))).value])
print(forked(work(lambda: die_at(folder, 2))).code, (folder / "a" / "b").read_text())
(folder / "a" / "b").unlink()
(folder / "a").rmdir()
print(forked(work(lambda: fail_at(folder, 4, errno.EIO))).wrong)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks and /proc")
def test_every_operation_is_counted_killed_at_and_failed(tmp_path: Path) -> None:
    done = python("-c", WATCHED.format(paths=PATHS, folder=str(tmp_path)))
    assert done.stdout.splitlines() == [
        "['mkdir', 'open', 'write', 'fsync', 'rename', 'remove', 'rmdir']",
        "-9 1",
        f"exit code 1: OSError: [Errno 5] Input/output error: '{tmp_path / 'c'}'",
    ], done.stderr


def test_damage_changes_a_file(tmp_path: Path) -> None:
    content = {"log": [{"loss": 0.5, "epoch": 1}], "method": "XE", "trunk": None}
    for seed in range(40):
        path, draw = tmp_path / "a.json", random.Random(seed)
        path.write_text(json.dumps(content))
        before = path.read_bytes()
        draw.choice((flip, cut, change, oddity))(path, draw)
        assert path.read_bytes() != before


def test_outcomes_differ_but_for_times() -> None:
    one = {"a": {"log": [{"loss": 1.0, "seconds": 2.0}], "started": "now"}}
    assert difference(settled(one), settled({"a": {"log": [{"loss": 1.0, "seconds": 3.0}], "started": "then"}})) == ""
    assert difference(settled(one), {"a": {"log": [{"loss": 1.5}]}}) == "a: log: 0: loss: 1.0 became 1.5"
    assert difference({"a": 1}, {}) == "a is missing" and difference({}, {"a": 1}) == "a is new"
