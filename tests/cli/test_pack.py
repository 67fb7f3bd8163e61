"""`poise pack`, run in process."""

import json
import sys
from pathlib import Path

import pytest
from fake_records import cifar, mnist, path_of

from poise.cli import main as cli


def poise(monkeypatch: pytest.MonkeyPatch, *words: object) -> object:
    monkeypatch.setattr(sys, "argv", ["poise", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code


def test_what_was_packed_is_said(tmp_path: Path, monkeypatch, capsys) -> None:
    one, two = mnist(tmp_path / "a", seeds=2), cifar(tmp_path / "b", seeds=1)
    (tmp_path / "a" / "none").mkdir()
    (tmp_path / "a" / "none" / "experiment.json").write_bytes((one / "experiment.json").read_bytes())
    assert poise(monkeypatch, "pack", tmp_path / "a", tmp_path / "b") == 0
    said = [f"{tmp_path / 'a' / 'none'}: no finished runs to pack"]
    for folder, count in ((one, 6), (two, 6)):
        path = folder / "runs.jsonl.gz"
        said.append(f"{path}: {count} documents, {path.stat().st_size:,} bytes")
    assert capsys.readouterr().out.splitlines() == said
    for command in ("table", "report"):
        assert poise(monkeypatch, command, two) == 0
    capsys.readouterr()
    assert poise(monkeypatch, "pack", tmp_path, "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_one_document_for_scripts(tmp_path: Path, monkeypatch, capsys) -> None:
    home = mnist(tmp_path, seeds=1)
    path = path_of(home, "FCL", 0)
    path.write_text("{")
    assert poise(monkeypatch, "pack", tmp_path, "--json") == 0
    shown = capsys.readouterr()
    (held,) = json.loads(shown.out)
    assert held.pop("bytes") > 1000
    assert held == {"path": str(home / "runs.jsonl.gz"), "documents": 2, "taken": 2, "damaged": [str(path)]}
    assert shown.err == f"poise: {path} is damaged or cannot be packed: it stays\n"


def test_failures_are_one_sentence(tmp_path: Path, monkeypatch) -> None:
    assert poise(monkeypatch, "pack") == 2
    assert poise(monkeypatch, "pack", tmp_path / "no") == f"poise: {tmp_path / 'no'} is not there"
    home = mnist(tmp_path, seeds=1)
    (home / "runs.jsonl.gz").write_bytes(b"no pack")
    for command in ("pack", "table", "report"):
        end = str(poise(monkeypatch, command, home))
        assert end.startswith(f"poise: {home / 'runs.jsonl.gz'} is damaged or cut short: ") and "\n" not in end
    assert len(list(home.rglob("record.json"))) == 3
