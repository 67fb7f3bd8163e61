"""Two commands run code of few files and change between few folders: how far a reader has to follow them."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

pytestmark = pytest.mark.miniature


def walked(command: str, tmp_path: Path) -> list[str]:
    """The files in the order of their first call."""
    script = [sys.executable, str(Path(__file__).with_name("walk.py")), command, str(tmp_path / "cache")]
    done = subprocess.run(
        [*script, str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    return [line for line in done.stdout.splitlines() if line.endswith(".py")]


@pytest.mark.parametrize(
    ("command", "most", "turns", "last"), [("reproduce", 36, 22, "objectives"), ("audit", 45, 18, "reporting")]
)
def test_a_command_walks_through_few_files(command: str, most: int, turns: int, last: str, tmp_path: Path) -> None:
    files = walked(command, tmp_path)
    folders = [file.split("/")[0] for file in files if "/" in file]
    assert len(files) <= most, files
    assert folders[0] == "cli" and folders[-1] == last
    assert sum(one != other for one, other in pairwise(folders)) <= turns, folders
