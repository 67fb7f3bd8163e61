"""The journal of a sweep: Optuna's format, cut lines, full disks, and two processes at once."""

import errno
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from miniature import SWEEP

from poise.cli import app as cli
from poise.errors import TrainingError
from poise.running.journal import Journal
from poise.running.search import Search

ENTRIES = [{"op_code": 4, "trial": number} for number in range(5)]
needs_optuna = pytest.mark.skipif(find_spec("optuna") is None, reason="optuna is not installed")


@needs_optuna
def test_the_file_is_optunas(tmp_path: Path) -> None:
    from optuna.storages.journal import JournalFileBackend

    theirs, ours = JournalFileBackend(str(tmp_path / "log")), Journal(tmp_path / "log")
    theirs.append_logs(ENTRIES[:2])
    ours.append_logs(ENTRIES[2:])
    for start in range(6):
        assert list(ours.read_logs(start)) == list(theirs.read_logs(start)) == ENTRIES[start:]


@pytest.mark.parametrize("cut", [b"", b"{", b'{"op_code":4,"tri', b"7\n", b"\xff\n", b'{"op_code":4,{"op_code":4}\n'])
def test_a_line_that_was_cut_is_no_line(cut: bytes, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "log")
    journal.append_logs(ENTRIES[:2])
    with journal.path.open("ab") as stream:
        stream.write(cut)
    assert list(journal.read_logs(0)) == ENTRIES[:2]
    journal.append_logs(ENTRIES[2:])
    assert list(Journal(tmp_path / "log").read_logs(0)) == ENTRIES


def test_processes_take_turns(tmp_path: Path) -> None:
    code = "import sys; from pathlib import *; from poise.running.journal import *\n"
    code += "for n in range(50): Journal(Path(sys.argv[1])).append_logs([{'n': n}, {'n': -n}])"
    begun = [subprocess.Popen([sys.executable, "-c", code, tmp_path / "log"]) for _ in range(2)]
    assert [process.wait() for process in begun] == [0, 0]
    found = [entry["n"] for entry in Journal(tmp_path / "log").read_logs(0)]
    assert sorted(found) == sorted([*range(50), *range(0, -50, -1)] * 2)
    assert all(one == -other for one, other in zip(found[::2], found[1::2], strict=True))


@needs_optuna
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc")
@pytest.mark.parametrize("call", [1, 2, 5])
def test_a_full_disk_is_one_sentence(call: int, tmp_path: Path, monkeypatch) -> None:
    left, sync = call, os.fsync

    def full(number: int) -> None:
        nonlocal left
        if os.readlink(f"/proc/self/fd/{number}").endswith("journal.log"):
            left -= 1
            if left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        sync(number)

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(Search, "_records", lambda search, labels: [])
    file = Path(__file__).parents[1] / "miniature.py"
    monkeypatch.setattr(sys, "argv", ["poise", "sweep", str(file), "--out", str(tmp_path), "--device", "cpu"])
    with pytest.raises(SystemExit) as end:
        cli.run()
    journal = next(tmp_path.rglob("journal.log"))
    remedy = "free some space, or choose another --out; finished runs are saved"
    assert end.value.code == f"poise: {journal}: No space left on device; {remedy}"


@needs_optuna
def test_a_damaged_journal_is_one_sentence(tmp_path: Path) -> None:
    import torch

    search = Search(SWEEP, "own", tmp_path, torch.device("cpu"))
    search.folder.mkdir(parents=True)
    (search.folder / "journal.log").write_text('{"op_code": 4}\n')
    with pytest.raises(TrainingError, match=r"journal\.log is damaged: remove it; finished runs are saved"):
        search.run()
