"""What users are told to install can be installed: the project is on no registry, and its extras are these; torch."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from poise import __version__
from poise.checks import install

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


NO_TORCH = "needs PyTorch, which is not installed: pip install torch (see https://pytorch.org/get-started)"


def without_torch(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"import sys; sys.modules['torch'] = None; {code}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        "reproduce sentiment",
        f"run {__file__}",
        "sweep sentiment",
        "audit net.py:net --data x.npz",
        "corrupt cifar10 --out copy",
        f"advise {__file__}",
        "evaluate net.py:net --data photos --benchmark cifar10-c",
        f"export {__file__}",
        "bench",
    ],
)
def test_a_command_that_needs_torch_says_so(words: str) -> None:
    done = without_torch(f"sys.argv = {['poise', *words.split()]}; from poise.cli.main import main; main()")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"poise: this command {NO_TORCH}\n")


def test_a_name_of_the_library_that_needs_torch_says_so() -> None:
    for code in ("import poise; poise.FCL", "from poise import FCL"):
        assert without_torch(code).stderr.splitlines()[-1] == f"ModuleNotFoundError: poise.FCL {NO_TORCH}"
    assert without_torch("import poise; print(poise.__version__)").stdout == f"{__version__}\n"


@pytest.mark.parametrize("words", ["list", "data list", "data where", "data check", "reproduce --help"])
def test_other_commands_work_without_torch(words: str) -> None:
    done = without_torch(f"sys.argv = {['poise', *words.split()]}; from poise.cli.main import main; main()")
    assert done.returncode == 0 and done.stdout and not done.stderr
