"""What differs between versions of Python, and what is tested with those beside the one of .venv (`make pythons`)."""

import re
import subprocess
import symtable
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp"}


def comprehensions(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    """Those of a function, and those in them."""
    for child in table.get_children():
        if child.get_name() in COMPREHENSIONS:
            yield child
            yield from comprehensions(child)


def shared(table: symtable.SymbolTable) -> Iterator[str]:
    """`function: name` for each name that is a comprehension's variable and, in the same function, a global."""
    if table.get_type() == "function" and table.get_name() not in COMPREHENSIONS:
        inside = list(comprehensions(table))
        bound = {symbol.get_name() for each in inside for symbol in each.get_symbols() if symbol.is_local()}
        read = {symbol.get_name() for each in [table, *inside] for symbol in each.get_symbols() if symbol.is_global()}
        yield from (f"{table.get_name()}: {name}" for name in sorted(bound & read))
    for child in table.get_children():
        yield from shared(child)


def shared_in(text: str) -> list[str]:
    return list(shared(symtable.symtable(text, "text", "exec")))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="its symbol tables have no comprehensions")
@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "examples"])
def test_no_function_has_a_global_and_a_comprehension_s_variable_of_one_name(folder: str) -> None:
    """Python 3.12 inlines comprehensions, and some of its releases take both for one local variable."""
    both = "def f(x):\n    small = [n for n in x]\n    return [n(y) for y in small]\n"
    assert shared_in(both) == ["f: n"] and shared_in(both.replace("n(y)", "m(y)")) == []
    files = (ROOT / folder).rglob("*.py")
    assert {str(path): found for path in files if (found := shared_in(path.read_text()))} == {}


@pytest.mark.parametrize("name", ["synthetic-mnist", "noisy-cifar10-compressed", "sentiment"])
def test_a_page_of_real_records_is_written(tmp_path: Path, name: str) -> None:
    page = tmp_path / "page.html"
    command = [sys.executable, "-W", "error", "-m", "poise", "report", str(ROOT / "results" / name), "--out", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{page}\n", "")
    assert page.read_text().rstrip().endswith("</html>")


@pytest.mark.torch
def test_other_pythons_test_what_needs_no_torch() -> None:
    """The list is not empty, its files are there, and reports are among them."""
    listed = subprocess.run(["make", "-pnq", "lint"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    (light,) = re.findall(r"^LIGHT := (.*)$", listed, re.MULTILINE)
    files = [ROOT / word for word in re.findall(r"tests/\S+", light)]
    assert ROOT / "tests" / "reporting" in files and Path(__file__) in files and len(files) > 20
    assert [path for path in files if not path.exists()] == []
