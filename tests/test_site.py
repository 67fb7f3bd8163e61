"""The site's own parts, and the examples in docstrings. `make docs` builds the whole and runs the tutorials."""

import doctest
import re
from importlib import import_module
from pathlib import Path

import poise
from docs.site import api, commands, docstrings

ROOT = Path(__file__).parents[1]


def test_examples_in_docstrings_are_right() -> None:
    finder, runner, tried = doctest.DocTestFinder(), doctest.DocTestRunner(), 0
    for name in sorted(set(poise._HOME.values())):
        for found in finder.find(import_module(name)):
            tried += runner.run(found).attempted
    assert runner.summarize(verbose=False).failed == 0 and tried > 25


def test_every_public_name_is_in_the_reference_once() -> None:
    named = re.findall(r"\.\. auto\w+:: poise\.(\w+)", api.reference())
    assert sorted(named) == poise.__all__


def test_every_command_is_in_the_reference() -> None:
    text = commands.reference()
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert {"poise audit", "poise reproduce", "poise data get"} <= set(titles)
    assert "| `--jobs` | N | Number of processes that share the runs. By default `1`. |" in text
    assert "| `--engine` | local, ray |" in text and "poise list\n```" in text


def test_a_search_for_how_to_choose_lambda_ends_in_the_guide() -> None:
    """Sphinx ranks a page first if the words that are searched for stand in one of its headings."""
    headings = {
        line.lower(): path.name
        for path in (ROOT / "docs").rglob("*.md")
        for line in path.read_text().splitlines()
        if line.startswith("#")
    }
    assert {page for line, page in headings.items() if "how to choose lambda" in line} == {"guide.md"}


DOCSTRING = """One line with a * star.

    a formula | with | marks

name   what it is,
       on two lines
other  and another

>>> 1 + 1
2
"""


def test_a_docstring_becomes_text_formulas_lists_and_examples() -> None:
    lines = list(docstrings.converted(DOCSTRING.splitlines()))
    assert [each.strip("\n") for each in "\n".join(lines).split("\n\n")] == [
        "One line with a \\* star.",
        "::",
        "    a formula | with | marks",
        "``name``\n    what it is,\n    on two lines",
        "``other``\n    and another",
        ">>> 1 + 1\n2",
    ]


def test_tutorials_are_notebooks_with_cells() -> None:
    pages = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    assert len(pages) >= 4
    for page in pages:
        text = page.read_text(encoding="utf8")
        assert text.startswith("---\njupytext:") and "```{code-cell}" in text and "```python" not in text
