"""`poise run` and `poise reproduce`, run in process: places that cannot be written, little memory, wrong calls."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from poise.cli import main as cli
from poise.cli import reproduce
from poise.cli.options import seeds_of

FILE = Path(__file__).parents[1] / "miniature.py"


@pytest.mark.parametrize("words", [["--jobs", "3"], ["--jobs=3"]])
def test_a_helper_starts_no_helpers(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(sys, "argv", ["poise", "run", "a.py", *words, "--seeds", "3"])
    monkeypatch.setattr(reproduce.subprocess, "Popen", lambda command, **_: started.append(command))
    reproduce._helpers(2)
    assert [command[3:] for command in started] == [["run", "a.py", "--seeds", "3"]] * 2


def test_seeds_are_how_many_or_which() -> None:
    assert list(seeds_of("3")) == [0, 1, 2] and list(seeds_of("3-4")) == [3, 4] and list(seeds_of("2-2")) == [2]
    for wrong in ("0", "4-3", "-2", "3-", "1,2", "x", ""):
        with pytest.raises(typer.BadParameter, match="must be a number of seeds, such as 5, or a range, such as 3-4"):
            seeds_of(wrong)


@pytest.mark.miniature
def test_some_seeds_are_run_and_the_others_are_not_missed(tmp_path: Path, monkeypatch, capsys) -> None:
    words = ["poise", "run", str(FILE), "--seeds", "3-4", "--method", "XE", "--out", str(tmp_path), "--quiet"]
    monkeypatch.setattr(sys, "argv", [*words, "--device", "cpu"])
    with pytest.raises(SystemExit) as end:
        cli.run()
    assert end.value.code in (0, None) and capsys.readouterr().out == f"{tmp_path}/blobs: 2 finished\n"
    assert sorted(path.name for path in (tmp_path / "blobs/xe").iterdir()) == ["seed-03", "seed-04"]


def ended(monkeypatch: pytest.MonkeyPatch, *words: object) -> object:
    """Run a command in this process; its exit code, or the sentence it ends with."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["poise", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 kB, where one may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.miniature
def test_a_full_disk_is_a_sentence_and_leaves_nothing_half_written(small_disk: Path, monkeypatch) -> None:
    end = str(ended(monkeypatch, "run", FILE, "--out", small_disk, "--device", "cpu", "--quiet"))
    assert end.startswith(f"poise: {small_disk}/models/") and "\n" not in end
    assert (
        "cannot be written (No space left on device): the run has no checkpoint yet; free some space, then run the same"
        in end
    )
    assert not list(small_disk.rglob("*.part"))


def test_a_read_only_disk_is_a_sentence(small_disk: Path, monkeypatch) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    end = ended(monkeypatch, "run", FILE, "--out", small_disk, "--device", "cpu", "--quiet")
    assert end == f"poise: {small_disk / 'blobs'}: Read-only file system; choose another --out"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_a_sentence(tmp_path: Path, monkeypatch) -> None:
    tmp_path.chmod(0o555)
    end = ended(monkeypatch, "run", FILE, "--out", tmp_path, "--device", "cpu", "--quiet")
    assert end == f"poise: {tmp_path / 'blobs'}: Permission denied; choose another --out"


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("x")
    for place in (Path("/proc/nowhere"), tmp_path / "file" / "runs"):
        end = str(ended(monkeypatch, "run", FILE, "--out", place, "--device", "cpu", "--quiet"))
        assert end.startswith(f"poise: {place}") and "\n" not in end


GREEDY = """
from dataclasses import dataclass, replace
import torch
from miniature import EXPERIMENT as SMALL
from poise import XE

@dataclass(frozen=True)
class Greedy(XE):
    def __call__(self, *batch, **options):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

EXPERIMENT = replace(SMALL, methods=(replace(SMALL.methods[0], objective=Greedy()), *SMALL.methods[1:]))
"""


def test_too_little_memory_names_the_setting_to_lower(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "greedy.py").write_text(GREEDY)
    end = ended(monkeypatch, "run", tmp_path / "greedy.py", "--out", tmp_path, "--method", "XE", "--device", "cpu")
    assert end == "poise: out of GPU memory: lower batch_size=32, or use precision='bfloat16' (now float32)"
    assert not list(tmp_path.rglob("record.json"))


def test_a_file_that_fails_is_named_with_its_line(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "mine.py").write_text("import math\n\nmath.sqrt(-1)\n")
    assert ended(monkeypatch, "run", tmp_path / "mine.py") == 2
    words = "".join(capsys.readouterr().err.replace("│", "").split())
    assert f"{tmp_path}/mine.py,line3:ValueError:" in words
    (tmp_path / "mine.py").write_text("import sys\nsys.exit(3)\n")
    assert ended(monkeypatch, "run", tmp_path / "mine.py") == 2
    words = "".join(capsys.readouterr().err.replace("│", "").split())
    assert f"{tmp_path}/mine.py,line2:SystemExit:3" in words


TALKING = """
from dataclasses import dataclass, replace
import miniature
from poise import XE

print("read")

@dataclass(frozen=True)
class Talking(XE):
    def __call__(self, *batch, **options):
        print("asked")
        return super().__call__(*batch, **options)

ALONE = (replace(miniature.EXPERIMENT.methods[0], objective=Talking()),)
EXPERIMENT = replace(miniature.EXPERIMENT, methods=ALONE, groups=(), seeds=1)
SWEEP = replace(miniature.SWEEP, choices={"plan.learning_rate.initial": (0.005,)}, method="XE", experiment=EXPERIMENT)
"""


@pytest.mark.miniature
@pytest.mark.parametrize("command", ["run", "sweep"])
def test_what_a_file_prints_is_not_in_the_document(tmp_path: Path, monkeypatch, capsys, command: str) -> None:
    (tmp_path / "talking.py").write_text(TALKING)
    words = ("--out", tmp_path, "--device", "cpu", "--quiet", "--json")
    assert ended(monkeypatch, command, tmp_path / "talking.py", *words) == 0
    said = capsys.readouterr()
    assert str(tmp_path) in json.loads(said.out)["folder"]
    assert "read" in said.err and "asked" in said.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "nowhere.py"), "nowhere.py is not a file"),
        (("run", "tests/toys.py"), "must define EXPERIMENT"),
        (("run", "tests/miniature.py", "--methods", "FLC"), "no method is called 'FLC': did you mean 'FCL'?"),
        (("run", "tests/miniature.py", "--methods", "fcl"), "no method is called 'fcl': did you mean 'FCL'?"),
        (("run", "tests/miniature.py", "--sedes", "1"), "--seeds"),
        (("run", "tests/miniature.py", "--seeds", "0"), "--seeds"),
        (("run", "tests/miniature.py", "--jobs", "0"), "--jobs"),
        (("tabel", "x"), "Did you mean 'table'?"),
        (("data", "get", "nmist"), "no data set is called 'nmist': did you mean 'mnist'?"),
        (("bench", "--case", "lent"), "no case is called 'lent': did you mean 'lenet'?"),
        (("bench", "--share", "0.001"), "batch_size=128 must lie between 1 and"),
        (("run", "tests/miniature.py", "--device", "gpu"), "device 'gpu'"),
        (
            ("sweep", "tests/miniature.py", "--name", "../x"),
            "a sweep is called '../x': choose a valid folder name",
        ),
        (("reproduce", "synthetic-mnits"), "did you mean 'synthetic-mnist'"),
    ],
)
def test_wrong_calls_end_with_2(words: tuple[str, ...], sentence: str, monkeypatch, capsys) -> None:
    assert ended(monkeypatch, *words) == 2
    assert sentence in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_several_experiments_are_one_json_document(tmp_path: Path, monkeypatch, capsys) -> None:
    words = ("reproduce", "noisy-cifar", "--quick", "--minutes", "0", "--device", "cpu", "--json", "--out", tmp_path)
    assert ended(monkeypatch, *words) == 0
    printed = capsys.readouterr()
    said = json.loads(printed.out)
    assert [each["folder"] for each in said] == [f"{tmp_path}/noisy-cifar{n}-quick" for n in (10, 100)]
    assert [line.partition(":")[0] for line in printed.err.splitlines()[:2]] == ["A miniature"] * 2


EXPLODING = """
from dataclasses import replace
from miniature import EXPERIMENT as SMALL
from poise import Constant

EXPERIMENT = replace(SMALL, plan=replace(SMALL.plan, epochs=1, learning_rate=Constant(1e30)))
"""


def test_a_loss_that_is_not_finite_is_said_with_its_run(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "exploding.py").write_text(EXPLODING)
    words = ("--out", tmp_path, "--method", "XE", "--device", "cpu", "--quiet")
    end = str(ended(monkeypatch, "run", tmp_path / "exploding.py", *words))
    assert end.startswith("poise: XE (seed 0): xe is not finite at step")
