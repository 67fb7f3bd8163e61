"""The documentation site: `make docs` builds it from README.md and docs/ into build/site.

The pages are Markdown that GitHub shows, too. Three things are added when the site is built: the contents list, the API
reference (api.py) and the commands (commands.py); and the cells of tutorials are executed (cells.py).
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from docutils import nodes  # noqa: E402

from docs.site import api, cells, commands, docstrings  # noqa: E402

project, author = "Poise", "The Poise authors"
copyright = "The Poise authors"  # noqa: A001
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "results/README.md", "docs/*.md", "docs/**/*.md"]
html_theme = "furo"
html_title = "Poise"
html_static_path: list[str] = []
html_copy_source = False
myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
toc_object_entries = False
suppress_warnings = ["autodoc.mocked_object"]

CONTENTS = """
```{toctree}
:caption: Begin
:hidden:

docs/start
docs/glossary
```

```{toctree}
:caption: Tutorials
:hidden:
:glob:

docs/tutorials/*
```

```{toctree}
:caption: Use
:hidden:

%(use)s
```

```{toctree}
:caption: Reference
:hidden:

docs/commands
docs/api
docs/results
docs/benchmarks
docs/reliability
docs/decisions
docs/code
CHANGELOG
CONTRIBUTING
```

```{toctree}
:caption: The paper
:hidden:

docs/paper-map
docs/claims
docs/rare-details
docs/synthetic-mnist
docs/cifar
docs/imagenet
docs/sentiment
docs/leaderboard
results/README
```
"""
USE = (
    "guide",
    "advise",
    "audit",
    "evaluate",
    "corruptions",
    "data",
    "experiments",
    "sweeps",
    "cluster",
    "trackers",
)
PARTS = ("synthetic-mnist", "cifar")  # pages with a folder of further pages
REPOSITORY = os.environ.get("POISE_REPOSITORY", "")  # links to code lead there if it is known
_LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def setup(app: Any) -> None:
    app.connect("source-read", completed)
    app.connect("autodoc-process-docstring", docstrings.as_rst)
    app.connect("doctree-resolved", remember_external_links)
    app.connect("build-finished", finish)
    app.add_directive("code-cell", cells.CodeCell)


def completed(app: Any, name: str, source: list[str]) -> None:
    """Add to a page what is made when the site is built."""
    text = source[0]
    if name == "README":
        there = [page for page in USE if (ROOT / "docs" / f"{page}.md").exists()]
        text += CONTENTS % {"use": "\n".join(f"docs/{page}" for page in there)}
    elif name == "docs/api":
        text += api.reference()
    elif name == "docs/commands":
        text += commands.reference()
    elif name.removeprefix("docs/") in PARTS:
        text += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{name.removeprefix('docs/')}/*\n```\n"
    source[0] = _LINK.sub(lambda found: _link(found, (ROOT / name).parent), text)


EXTERNAL: dict[str, set[str]] = {}  # address → pages; Sphinx checks the links between pages, these are listed


def remember_external_links(app: Any, doctree: Any, name: str) -> None:
    for node in doctree.findall(nodes.reference):
        address = node.get("refuri", "")
        if address.startswith(("http:", "https:")):
            EXTERNAL.setdefault(address, set()).add(name)


def finish(app: Any, error: Exception | None) -> None:
    """List the external links, and lead from index.html to the first page."""
    first = '<!DOCTYPE html><meta http-equiv="refresh" content="0; url=README.html"/><a href="README.html">Poise</a>\n'
    (Path(app.outdir) / "index.html").write_text(first, encoding="utf8")
    lines = [f"{address}  {' '.join(sorted(pages))}\n" for address, pages in sorted(EXTERNAL.items())]
    (Path(app.outdir) / "external-links.txt").write_text("".join(lines), encoding="utf8")


def _link(found: re.Match[str], folder: Path) -> str:
    """A link to a file that is no page of the site leads to the repository, or is only its name."""
    words, target, anchor = found.groups()
    path = Path(os.path.normpath(folder / target))
    if path.suffix == ".md" or not path.exists():  # a link that leads nowhere is reported by Sphinx
        return found[0]
    place = path.relative_to(ROOT).as_posix()
    return f"[{words}]({REPOSITORY}/blob/main/{place}{anchor or ''})" if REPOSITORY else f"{words} (`{place}`)"
