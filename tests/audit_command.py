"""`poise audit` in this process, for its tests."""

import json
import sys
from pathlib import Path

import pytest

from poise.cli import app as cli


def poise(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Run a command; returns its exit code, or the sentence it ends with."""
    monkeypatch.setattr(sys, "argv", ["poise", "audit", *words])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code


def facts(home: Path) -> dict:
    """What it wrote."""
    return json.loads((home / "audit" / "audit.json").read_text())
