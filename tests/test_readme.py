"""The README's code blocks run as written, and the pages point at things that exist."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer

from poise.cli.app import app

ROOT = Path(__file__).parents[1]
RUN = ("README.md", "docs/start.md", "docs/audit.md", "docs/corruptions.md", "docs/experiments.md")
BLOCKS = [block for page in RUN for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.readme
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_code_block_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out


@pytest.mark.readme
def test_every_page_has_a_code_block() -> None:
    assert all("```python\n" in (ROOT / page).read_text() for page in RUN)


def commands_in(page: Path) -> list[str]:
    """The lines of a page's shell blocks that call `poise`."""
    blocks = "".join(re.findall(r"```shell\n(.*?)```", page.read_text(), re.DOTALL)).replace("\\\n", " ")
    return re.findall(r"^ *(?:\w+=\S+ )*poise (.+)$", blocks, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_are_valid(page: Path) -> None:
    """They have the options and arguments that the page gives them; nothing is run."""
    for line in commands_in(page):
        words = shlex.split(re.split(r" (?:&&|\||&|>) ", line)[0], comments=True)
        command = typer.main.get_command(app)
        while hasattr(command, "commands") and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        with command.make_context("poise", words) as context:
            assert context.command is command, line


def test_the_readme_shows_one_of_each_command() -> None:
    shown = [line.split()[0] for line in commands_in(ROOT / "README.md")]
    assert shown == ["advise", "audit", "evaluate"]


def names_in(path: Path) -> set[str]:
    """Functions and classes of a file, and `Class.method`."""
    tree = ast.parse(path.read_text())
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return names | {f"{c.name}.{f.name}" for c in classes for f in c.body if isinstance(f, ast.FunctionDef)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    missing = [t for t in targets if not t.startswith("http") and not (page.parent / t).exists()]
    assert missing == []


def test_the_paper_map_names_functions_that_exist() -> None:
    """Every `file.py:name` or `file.py:Class.method` of the map is in that file under src/poise."""
    places = re.findall(r"`([\w/]+\.py):([\w.]+)`", (ROOT / "docs" / "paper-map.md").read_text())
    assert len(places) > 30
    assert [f"{f}:{n}" for f, n in places if n not in names_in(ROOT / "src" / "poise" / f)] == []


def test_the_paper_map_s_tests_exist() -> None:
    files = re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "docs" / "paper-map.md").read_text())
    assert [name for name in files if not (ROOT / name).exists()] == []
