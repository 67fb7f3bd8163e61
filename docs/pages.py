"""Writes what the documents take from the records of results/: tables, answers, forest plots, claims, the list of runs.

    python -m docs.pages      # or `make pages`, which draws the other figures as well

A page keeps its words; between `<!-- made: NAME -->` and `<!-- end -->` stands what a function of BLOCKS makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from docs import claims, results_list
from docs.cifar_numbers import BLOCKS as CIFAR_BLOCKS
from docs.cifar_numbers import FIGURES as CIFAR_FIGURES
from docs.digits_numbers import BLOCKS as DIGITS_BLOCKS
from docs.digits_numbers import FIGURES as DIGITS_FIGURES
from docs.evidence import Evidence
from docs.leaderboard_numbers import BLOCKS as LEADERBOARDS
from docs.rare_numbers import BLOCKS as RARE_BLOCKS
from docs.rare_numbers import FIGURES as RARE_FIGURES
from poise.io.documents import write_whole

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- made: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
BLOCKS: Mapping[str, Callable[[Evidence], str]] = {**CIFAR_BLOCKS, **DIGITS_BLOCKS, **RARE_BLOCKS, **LEADERBOARDS}
FIGURES: Mapping[str, Callable[[Evidence], str]] = {**CIFAR_FIGURES, **DIGITS_FIGURES, **RARE_FIGURES}


def pages() -> Sequence[Path]:
    """The pages that hold blocks."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if BLOCK.search(path.read_text(encoding="utf8"))]


def filled(text: str, known: Evidence) -> str:
    """A page with its blocks written anew."""

    def made(found: re.Match[str]) -> str:
        if found[2] not in BLOCKS:
            raise ValueError(f"no function makes {found[2]!r}: name one of {', '.join(BLOCKS)}")
        return f"{found[1]}{BLOCKS[found[2]](known).strip()}\n{found[4]}"

    return BLOCK.sub(made, text)


def everything(known: Evidence) -> Iterator[tuple[Path, str]]:
    """Every file that is made from records, with its content."""
    yield results_list.RESULTS / "README.md", results_list.page()
    yield claims.PAGE, claims.page(known)
    for path in pages():
        yield path, filled(path.read_text(encoding="utf8"), known)
    for name, draw in FIGURES.items():
        yield ROOT / "docs" / name, draw(known)


def main() -> None:
    for path, content in everything(Evidence()):
        if not path.exists() or path.read_text(encoding="utf8") != content:
            write_whole(path, content)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
