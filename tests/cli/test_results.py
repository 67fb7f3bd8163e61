"""`poise table` and `poise report`, run in process and in a pipe."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_records import cifar, mnist, path_of

from poise.cli import main as cli


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def poise(monkeypatch: pytest.MonkeyPatch, *words: object) -> object:
    monkeypatch.setattr(sys, "argv", ["poise", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code


def test_every_format(tmp_path: Path, monkeypatch, capsys) -> None:
    folder = mnist(tmp_path)
    shown = {}
    for name in ("text", "markdown", "latex", "csv", "json"):
        assert poise(monkeypatch, "table", folder, "--format", name) == 0
        shown[name] = capsys.readouterr().out
    assert shown["text"].startswith("Synthetic MNIST (Table 1)\n") and "| method |" in shown["markdown"]
    assert len(list(csv.DictReader(io.StringIO(shown["csv"])))) == 12
    assert len(json.loads(shown["json"])[0]["cells"]) == 12 and r"\toprule" in shown["latex"]
    assert poise(monkeypatch, "table", folder) == 0
    assert capsys.readouterr().out == shown["text"]


def test_a_file_instead(tmp_path: Path, monkeypatch, capsys) -> None:
    folder, out = mnist(tmp_path), tmp_path / "table.md"
    assert poise(monkeypatch, "table", folder, "--format", "markdown", "--out", out) == 0
    assert capsys.readouterr().out == f"{out}\n" and "| method |" in out.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["synthetic-mnist", "table.md"]


def test_the_report_lies_in_the_folder_by_default(tmp_path: Path, monkeypatch, capsys) -> None:
    folder = cifar(tmp_path, seeds=2)
    assert poise(monkeypatch, "report", folder) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    ElementTree.fromstring((folder / "report.html").read_text().removeprefix("<!DOCTYPE html>\n"))
    assert poise(monkeypatch, "report", tmp_path, "--out", tmp_path / "all.html") == 0
    assert "CIFAR-10-C" in (tmp_path / "all.html").read_text()


def test_runs_that_were_only_validated_have_no_table(tmp_path: Path, monkeypatch) -> None:
    folder = cifar(tmp_path, seeds=1)
    for path in folder.glob("*/*/record.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "scores": {"validation+UN": 0.5}}))
    described = json.loads((folder / "experiment.json").read_text())
    described["details"] = {"fog": [{"name": "fog", "of": ["fog/1"]}]}
    (folder / "experiment.json").write_text(json.dumps(described))
    said = f"poise: {tmp_path} has no tested runs. Runs of a sweep are not tested: see its sweep.html"
    assert poise(monkeypatch, "table", tmp_path) == said


def test_details_that_nobody_was_tested_on_are_left_out(tmp_path: Path, monkeypatch, capsys) -> None:
    folder = cifar(tmp_path, seeds=1)
    described = json.loads((folder / "experiment.json").read_text())
    described["details"] = {"hail": [{"name": "hail", "of": ["hail/1"]}], "fog": [{"name": "fog", "of": ["fog/1"]}]}
    (folder / "experiment.json").write_text(json.dumps(described))
    assert poise(monkeypatch, "table", folder) == 0
    shown = capsys.readouterr().out
    assert "(Table 3): fog" in shown and "hail" not in shown


def test_one_document_for_scripts(tmp_path: Path, monkeypatch, capsys) -> None:
    folder = mnist(tmp_path)
    assert poise(monkeypatch, "report", folder, "--json") == 0
    page = {"page": f"{folder}/report.html", "runs": {"synthetic-mnist": len(list(folder.rglob("record.json")))}}
    assert json.loads(capsys.readouterr().out) == page
    assert poise(monkeypatch, "table", folder, "--json") == 0
    shown = capsys.readouterr().out
    assert poise(monkeypatch, "table", folder, "--format", "json") == 0
    assert capsys.readouterr().out == shown and json.loads(shown)
    assert poise(monkeypatch, "table", folder, "--json", "--out", tmp_path / "x.json") == 0
    assert capsys.readouterr().out == "" and (tmp_path / "x.json").read_text() == shown
    assert poise(monkeypatch, "table", folder, "--json", "--format", "csv") == 2
    assert "--json and --format csv are two formats: choose one" in capsys.readouterr().err


def test_where_a_page_cannot_be_written_another_place_is_asked_for(tmp_path: Path, monkeypatch) -> None:
    folder = mnist(tmp_path)
    places = {tmp_path / "no/x.html": "create its folder first", tmp_path: "choose another --out"}
    for place, remedy in places.items():
        end = str(poise(monkeypatch, "report", folder, "--out", place))
        assert end.startswith(f"poise: {place} cannot be written: ") and end.endswith(f"; {remedy}")


@pytest.mark.parametrize("command", ["table", "report"])
def test_failures_are_one_sentence(tmp_path: Path, monkeypatch, command: str) -> None:
    assert poise(monkeypatch, command, tmp_path / "none") == f"poise: {tmp_path / 'none'} is not there"
    path = path_of(mnist(tmp_path), "FCL", 1)
    path.write_text(path.read_text()[:500])
    end = str(poise(monkeypatch, command, tmp_path))
    assert end.startswith(f"poise: {path} is damaged or cut short") and "\n" not in end
    assert not list(tmp_path.rglob("*.html"))


@pytest.mark.parametrize("command", ["table", "report"])
@pytest.mark.parametrize("place", ["no/folder/out", "file/out", "/proc/out", "folder"])
def test_where_nothing_can_be_written(tmp_path: Path, monkeypatch, command: str, place: str) -> None:
    folder = mnist(tmp_path, seeds=2)
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    end = str(poise(monkeypatch, command, folder, "--out", tmp_path / place))
    assert end.startswith(f"poise: {tmp_path / place} cannot be written: ") and "\n" not in end
    assert (tmp_path / "file").read_text() == "kept" and not list((tmp_path / "folder").iterdir())
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    "words", [("table",), ("report",), ("table", "x", "--format", "pdf"), ("report", "x", "--format", "html")]
)
def test_a_wrong_call_is_exit_code_2(monkeypatch, capsys, words: tuple[str, ...]) -> None:
    assert poise(monkeypatch, *words) == 2
    assert "Usage:" in capsys.readouterr().err


def test_clean_in_a_pipe(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    surroundings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "40"}
    command = [sys.executable, "-m", "poise", "table", str(folder)]
    done = subprocess.run(command, capture_output=True, env=surroundings, check=True)
    assert b"\x1b" not in done.stdout and done.stderr == b""
    assert max(map(len, done.stdout.decode().splitlines())) > 120  # a pipe has no width


def test_a_reader_that_leaves_is_no_failure_to_tell(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "poise", "table", str(mnist(tmp_path)), "--format", "json"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert done.stderr == b""


@pytest.mark.parametrize(("package", "command"), [("scipy", "table"), ("jinja2", "report")])
def test_a_missing_package_is_named(package: str, command: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from poise.cli.main import main; main()"
    words = [sys.executable, "-c", code, command, str(mnist(tmp_path, seeds=1))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f'poise: {package} is missing: pip install ".[experiments]" in a clone of Poise\n'


def test_the_table_in_the_docs_is_that_of_the_records(monkeypatch, capsys) -> None:
    root = Path(__file__).parents[2]
    assert poise(monkeypatch, "table", root / "results" / "synthetic-mnist") == 0
    shown = (root / "docs" / "results.md").read_text().split("```")[3].strip("\n")
    assert shown.startswith(" ") and shown in capsys.readouterr().out
