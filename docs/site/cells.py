"""Tutorials are notebooks in Markdown (MyST, which Jupytext opens): their cells run here, in one process, in order."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class CodeCell(SphinxDirective):
    """A cell: its code, and below it what it prints. An error in it is a warning of the build."""

    has_content = True
    optional_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"tags": str}

    def run(self) -> list[nodes.Node]:
        code = "\n".join(self.content)
        block = nodes.literal_block(code, code, language="python")
        hidden = "remove-input" in self.options.get("tags", "")
        printed = run_cell(code, self.env.temp_data.setdefault("cells", {}), f"{self.env.docname}, line {self.lineno}")
        output = nodes.literal_block(printed, printed, language="text", classes=["output"])
        return [*([] if hidden else [block]), *([output] if printed else [])]


def run_cell(code: str, names: dict[str, Any], place: str) -> str:
    """Run a cell with the names of the cells before it, in a folder of the notebook's own; returns what it prints."""
    folder = names.setdefault("_folder", tempfile.mkdtemp())
    before, printed = Path.cwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, place, "exec"), names)
    finally:
        os.chdir(before)
    return printed.getvalue().rstrip()
