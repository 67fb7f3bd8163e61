"""The command line, run in process: what it prints, and its exit codes."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import typer
from data_sets import digits, idx_files, write_folder

from poise import __version__
from poise.cli import main as cli
from poise.cli.app import app
from poise.cli.data import data
from poise.data.sets import cache, catalogue
from poise.recipes import index


def names_of(group: typer.Typer) -> list[str]:
    return list(typer.main.get_command(group).commands)  # type: ignore[attr-defined]


DIGESTS = {name: cache.digest(array) for name, array in digits().items()}


@pytest.fixture(autouse=True)
def _small_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    small = dataclasses.replace(catalogue.MNIST, digests=DIGESTS, addresses=(), packages=())
    monkeypatch.setitem(catalogue.CATALOGUE, "mnist", small)


def poise(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Run a command; returns its exit code, or the sentence it ends with."""
    monkeypatch.setattr(sys, "argv", ["poise", *words])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code


def test_get_list_check_where(tmp_path: Path, monkeypatch, capsys) -> None:
    folder = write_folder(idx_files(digits()), tmp_path / "mine")
    assert poise(monkeypatch, "data", "get", "mnist", "--from", str(folder)) == 0
    assert capsys.readouterr().out == f"mnist: {folder}\n"
    assert poise(monkeypatch, "data", "get", "mnist") == 0
    assert capsys.readouterr().out == f"mnist: already here, by {folder}\n"
    assert poise(monkeypatch, "data", "check") == 0
    assert capsys.readouterr().out == "mnist: right\n"
    assert poise(monkeypatch, "data", "where") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'cache'}\n"
    assert poise(monkeypatch, "data", "list") == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split() == ["set", "what", "MB", "state", "licence"]
    assert any(row.startswith("mnist") and "here, by" in row for row in rows)
    assert any(row.startswith("cifar10 ") and " - " in row for row in rows)


def test_the_list_is_not_cut_in_a_pipe() -> None:
    surroundings = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-m", "poise", "data", "list"]
    rows = subprocess.run(command, capture_output=True, text=True, check=True, env=surroundings).stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["set", *catalogue.CATALOGUE]
    for row, each in zip(rows[1:], catalogue.CATALOGUE.values(), strict=True):
        assert each.about in row and row.rstrip().endswith(each.licence)


def test_a_narrow_list_cuts_nothing(monkeypatch, capsys) -> None:
    """It folds."""
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # as on a terminal
    assert poise(monkeypatch, "data", "list") == 0
    shown = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
    assert "…" not in shown and all(len(row) <= 44 for row in shown.splitlines())
    assert [row.split()[0] for row in shown.splitlines() if row[0] != " "] == ["set", *catalogue.CATALOGUE]


@pytest.mark.parametrize("words", ["list", "--version", "data where"])
def test_an_output_that_is_full_or_closed(words: str) -> None:
    command = f"{sys.executable} -m poise {words}"
    full = subprocess.run(f"{command} > /dev/full", shell=True, stderr=subprocess.PIPE, text=True)
    assert (full.returncode, full.stderr) == (1, "poise: the output cannot be written: No space left on device\n")
    closed = subprocess.run(f"{command} >&-", shell=True, stderr=subprocess.PIPE, text=True)
    assert (closed.returncode, closed.stderr) == (0, "")


def test_a_failure_is_one_sentence_and_exit_code_1(tmp_path: Path, monkeypatch) -> None:
    end = poise(monkeypatch, "data", "get", "mnist", "--from", str(tmp_path / "nowhere"))
    assert end == f"poise: mnist could not be obtained. {tmp_path / 'nowhere'}: {tmp_path / 'nowhere'} does not exist"


LONG = "x" * 300


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("~nobody-here/x", "Could not determine home directory"),
        (LONG, "File name too long"),
        (f"/tmp/{LONG}/y", "File name too long"),
        ("", "it is empty"),
    ],
)
def test_a_path_that_cannot_be_gets_a_sentence(monkeypatch, path: str, reason: str) -> None:
    for words in (("get", "mnist", "--from", path), ("get", "imagenet", "--from", path)):
        sentence = str(poise(monkeypatch, "data", *words))
        assert sentence.startswith("poise: '") and sentence.endswith(f"' cannot be used as a path: {reason}")
        assert len(sentence) < 150


@pytest.mark.parametrize("words", [("list",), ("get", "mnist"), ("check",), ("check", "mnist"), ("where",)])
@pytest.mark.parametrize("path", ["~nobody-here/x", LONG])
def test_a_cache_that_cannot_be_gets_a_sentence(monkeypatch, path: str, words: tuple[str, ...]) -> None:
    monkeypatch.setenv("POISE_DATA", path)
    assert str(poise(monkeypatch, "data", *words)).startswith("poise: POISE_DATA must name a folder: '")


def test_check_names_what_is_wrong(tmp_path: Path, monkeypatch) -> None:
    folder = write_folder(idx_files(digits()), tmp_path / "mine")
    assert poise(monkeypatch, "data", "get", "mnist", "--from", str(folder)) == 0
    (tmp_path / "cache" / "mnist" / "test_y.npy").write_bytes(b"")
    sentence = str(poise(monkeypatch, "data", "check", "mnist"))
    assert "mnist is incomplete" in sentence and sentence.endswith("poise data get mnist --again")


@pytest.mark.parametrize(
    "words",
    [
        ("data", "get", "nmist"),
        ("data", "get"),
        ("data", "get", "mnist", "cifar10", "--from", "x"),
        ("data", "fetch"),
        ("data", "check", "nmist"),
    ],
)
def test_a_wrong_call_is_exit_code_2(monkeypatch, capsys, words: tuple[str, ...]) -> None:
    assert poise(monkeypatch, *words) == 2
    assert "Usage:" in capsys.readouterr().err


def test_nothing_stored_is_said(monkeypatch, capsys) -> None:
    assert poise(monkeypatch, "data", "check") == 0
    assert capsys.readouterr().out.startswith("no data sets are stored in")


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "poise", "data", "where"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(cache.root())
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["typer", "numpy"])
def test_a_missing_extra_is_named(name: str) -> None:
    without = f"import sys; sys.modules[{name!r}] = None; sys.argv = ['poise', 'data', 'list']"
    code = f"{without}; from poise.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == 'poise: the command line needs more packages: pip install ".[cli]" in a clone of Poise\n'


@pytest.mark.parametrize("heavy", ["torch", "numpy"])
def test_the_command_line_starts_without_what_is_heavy(heavy: str) -> None:
    code = f"import poise.cli.app, sys; assert {heavy!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_experiments_are_listed_without_torch() -> None:
    start = "import sys; sys.modules['torch'] = None; sys.argv = ['poise', 'list', '--json']"
    code = f"{start}; from poise.cli.main import run; run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    listed = json.loads(done.stdout)
    assert listed["synthetic-mnist"].startswith("Synthetic MNIST (section 4.2, Table 1)")
    assert listed["noisy-cifar"].endswith("Parts: noisy-cifar10, noisy-cifar100.")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("poise reproduce synthetic-mnist-a", ["synthetic-mnist-ablation"]),
        ("poise sweep noisy-cifar1", ["noisy-cifar10", "noisy-cifar100"]),
    ],
)
def test_a_shell_completes_names(words: str, completed: list[str]) -> None:
    asked = {"_POISE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    code = "import sys; sys.argv = ['poise']; from poise.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == completed


def test_help_names_every_command() -> None:
    shown = subprocess.run([sys.executable, "-m", "poise", "--help"], capture_output=True, text=True, check=True).stdout
    for command in (
        "list",
        "data",
        "reproduce",
        "run",
        "sweep",
        "table",
        "report",
        "pack",
        "audit",
        "corrupt",
        "bench",
    ):
        assert f" {command} " in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("words", [("--help",), ("tabel",)], ids=" ".join)
def test_ci_is_a_pipe_without_colours(words: tuple[str, ...]) -> None:
    """Typer takes GitHub's runners for terminals."""
    command = [sys.executable, "-m", "poise", *words]
    done = subprocess.run(command, env=os.environ | {"GITHUB_ACTIONS": "true"}, capture_output=True, check=False)
    assert b"table" in done.stdout + done.stderr and b"\x1b" not in done.stdout + done.stderr


COMMANDS = [*((name,) for name in names_of(app) if name != "data"), *(("data", name) for name in names_of(data))]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_has_an_example(monkeypatch, capsys, words: tuple[str, ...]) -> None:
    assert poise(monkeypatch, *words, "--help") == 0
    shown = capsys.readouterr().out
    assert f" poise {' '.join(words)}" in shown.partition("Usage:")[2].partition("\n")[2]
    assert "\x1b" not in shown


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("words", [(), ("data",), *COMMANDS], ids=" ".join)
def test_the_help_of_a_flag_names_no_type(monkeypatch, capsys, words: tuple[str, ...], width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert poise(monkeypatch, *words, "--help") == 0
    shown = capsys.readouterr().out
    assert "--help" in shown and "bool" not in shown.lower() and "…" not in shown
    assert all(len(line) <= width for line in shown.splitlines())


def test_lists_for_scripts(tmp_path: Path, monkeypatch, capsys) -> None:
    assert poise(monkeypatch, "list", "--json") == 0
    assert "Table 1" in json.loads(capsys.readouterr().out)["synthetic-mnist"]
    folder = write_folder(idx_files(digits()), tmp_path / "mine")
    assert poise(monkeypatch, "data", "get", "mnist", "--from", str(folder), "--quiet") == 0
    capsys.readouterr()
    assert poise(monkeypatch, "data", "list", "--json") == 0
    rows = {row["name"]: row["here_by"] for row in json.loads(capsys.readouterr().out)}
    assert rows == {**dict.fromkeys(catalogue.CATALOGUE), "mnist": str(folder)}


def test_data_for_scripts(tmp_path: Path, monkeypatch, capsys) -> None:
    folder = write_folder(idx_files(digits()), tmp_path / "mine")
    assert poise(monkeypatch, "data", "check", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert poise(monkeypatch, "data", "get", "mnist", "--from", str(folder), "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "mnist", "way": str(folder), "error": None}]
    assert poise(monkeypatch, "data", "check", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "mnist", "state": "right", "error": None}]
    assert poise(monkeypatch, "data", "where", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(tmp_path / "cache")}
    end = poise(monkeypatch, "data", "get", "mnist", "imagenet", "--json")
    good, bad = json.loads(capsys.readouterr().out)
    assert good == {"name": "mnist", "way": f"already here, by {folder}", "error": None}
    assert (bad["name"], bad["way"], f"poise: {bad['error']}") == ("imagenet", None, end)


def test_what_is_said_of_a_folder_has_no_escapes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "poise", "table", str(tmp_path / "\x1b[31mred")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "[31mred" in done.stderr and "\x1b" not in done.stderr


@pytest.mark.torch
def test_the_version_needs_no_torch() -> None:
    start = "import sys; sys.modules['torch'] = None; sys.argv = ['poise', '--version']"
    code = f"{start}; from poise.cli.main import run; run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"poise {__version__}, torch {metadata.version('torch')}\n"


def test_every_command_that_says_something_says_it_in_json() -> None:
    """Those without --json would have no answer for a script."""
    commands = {**typer.main.get_command(app).commands, **typer.main.get_command(data).commands}
    without = [name for name, each in commands.items() if "--json" not in {o for p in each.params for o in p.opts}]
    assert without == ["data"]


@pytest.mark.miniature
def test_bench_for_scripts(tmp_path: Path, monkeypatch, capsys) -> None:
    words = ("bench", "--share", "0.005", "--epochs", "1", "--device", "cpu", "--json")
    assert poise(monkeypatch, *words, "--out", str(tmp_path / "times.json")) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown) == json.loads((tmp_path / "times.json").read_text())
    assert all(value > 0 for row in json.loads(shown)["seconds"].values() for value in row.values())
    assert poise(monkeypatch, *words, "--out", str(tmp_path / "no" / "x")) == 2  # before anything is measured
    assert "no is not a folder: create it first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "offered"), [("poise re", ["report", "reproduce"]), ("poise data get mn", ["mnist"])]
)
def test_a_shell_completes(typed: str, offered: list[str]) -> None:
    asked = {"_POISE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    code = "import sys; sys.argv = ['poise']; from poise.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True)
    assert (sorted(done.stdout.split()), done.stderr) == (offered, "")


CIFAR = ["AugMix", "AugMix+FCL", "AugMix+random"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("poise reproduce sentiment --method ", ["XE", "FCL"]),
        ("poise reproduce --method XE cifar10-c --quick --method Aug", CIFAR),
        ("poise reproduce sentiment noisy-cifar --method Aug", CIFAR),
        ("poise reproduce --method AugMix+F", ["AugMix+FCL"]),
        ("poise run mine.py --method AugMix+F", ["AugMix+FCL"]),
        ("poise data check bert", ["bert-vocab"]),
        ("poise audit net.py:net --data sy", ["synthetic-mnist"]),
        ("poise audit net.py:net --corruptions f", ["fast", "frost", "fog"]),
        ("poise audit net.py:net --corruptions fog,fr", ["fog,frost"]),
        ("poise corrupt cifar10 --corruption sp", ["speckle_noise", "spatter", "sparkles"]),
        ("poise corrupt cifar1", ["cifar10", "cifar100"]),
        ("poise bench --case r", ["resnet56"]),
        *((f"poise {name} --device c", ["cpu", "cuda"]) for name in ("reproduce", "run", "sweep", "audit", "bench")),
    ],
)
def test_a_shell_completes_without_torch(typed: str, offered: list[str]) -> None:
    asked = {"_POISE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    code = "import sys; sys.modules['torch'] = None; sys.argv = ['poise']; from poise.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (offered, "")


@pytest.mark.torch
def test_the_methods_that_a_shell_completes_are_those_of_the_recipes() -> None:
    for name in index.FILES:
        assert set(index.method_names([name])) == {
            method.name for each in index.find_experiments(name) for method in each.methods
        }
