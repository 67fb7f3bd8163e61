"""What users are told to install can be installed: the project is on no registry, and its extras are these."""

import re
import tomllib
from pathlib import Path

from poise.extras import install

ROOT = Path(__file__).parents[1]


def test_hints_name_extras_of_a_clone() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    told = [
        name for path in (ROOT / "src").rglob("*.py") for name in re.findall(r"install\('(\w+)'\)", path.read_text())
    ]
    assert len(told) > 9 and set(told) <= set(extras)
    assert install("text") == 'pip install ".[text]" in a clone of Poise'


def test_nobody_is_sent_to_a_registry() -> None:
    files = [path for place in ("src", "docs", "examples") for path in (ROOT / place).rglob("*.[pm][yd]")]
    assert [path.name for path in [*files, ROOT / "README.md"] if "install" + ' "poise' in path.read_text()] == []
