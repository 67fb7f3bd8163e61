"""The reliability suite from the command line: python tests/torture/run.py --jobs 2

Prints progress with the time that is left, each failure with a line that tries it again, and a table of the rows; exits
with 1 where something was lost or wrong.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])]

Try = tuple[str, str]
Map = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]
_WARM: set[str] = set()


def listed(name: str, work: Path, patterns: Sequence[str]) -> list[Try]:
    """The cases of a row that are called so; their subjects run undisturbed for that."""
    from torture.forks import forked
    from torture.rows import ROWS

    row, first = ROWS[name], [pattern.split()[0] for pattern in patterns or ("*",)]
    subjects = tuple(each for each in row.subjects if any(fnmatchcase(each, pattern) for pattern in first))
    end = forked(lambda: row.cases(work, subjects), limit=600)
    if end.code:
        raise RuntimeError(f"{name}: {end.said}")
    return [(name, case) for case in end.value if any(fnmatchcase(case, pattern) for pattern in patterns or ("*",))]


def judged(one: Try, work: Path) -> tuple[str, str, str]:
    """Row, case and what is lost or wrong."""
    from torture.forks import start
    from torture.rows import ROWS
    from torture.subjects import warm

    name, case = one
    row = ROWS[name]
    own = {each for each in row.subjects if each == case.split()[0]} or set(row.subjects)
    if cold := own - _WARM:
        warm(tuple(cold), work)
        _WARM.update(cold)
        gc.freeze()  # what no collection visits, forks share
    with TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as home:
        end = start(lambda: row.judge(case, work, Path(home)), leads=True).wait(row.limit)
    if end.code is None:
        return name, case, f"no end within {row.limit:g} s"
    return name, case, end.value if end.code == 0 else f"the judge fails: {end.wrong}"


def begin() -> None:
    """One thread per process: a fork takes only one along."""
    import torch

    torch.set_num_threads(1)


@contextmanager
def mapping(jobs: int) -> Iterator[Map]:
    """A map, in an order of its own, in so many processes; one is this one."""
    if jobs == 1:
        begin()
        yield map
        return
    os.environ["PYTHONWARNINGS"] = "ignore::UserWarning:multiprocessing.resource_tracker"  # of what the killed held
    with get_context("spawn").Pool(jobs, begin) as pool:
        yield pool.imap_unordered


def torture(
    rows: Sequence[str], patterns: Sequence[str], sample: int | None, seed: int, jobs: int
) -> dict[str, Counter[str]]:
    """Survivors and losses of each row; what is lost is printed when it is found."""
    counts = {row: Counter[str]() for row in rows}
    with TemporaryDirectory(prefix="torture-") as folder, mapping(jobs) as each:
        work, order = Path(folder), random.Random(seed)
        found = sorted(each(partial(listed, work=work, patterns=patterns), rows), key=lambda tries: tries[:1])
        tries = [one for row in found for one in _sampled(row, sample, order)]
        order.shuffle(tries)  # so that the time left can be told from the time gone
        for row, case, why in _progress(each(partial(judged, work=work), tries), len(tries)):
            counts[row]["lost" if why else "survived"] += 1
            if why:
                again = f"python tests/torture/run.py --row {row} --case {shlex.quote(case)}"
                print(f"\r{' ' * 40}\r", end="", file=sys.stderr, flush=True)
                print(f"# {row}, {case}: {why}\n{again}\n", flush=True)
    return counts


def _sampled(tries: list[Try], sample: int | None, order: random.Random) -> list[Try]:
    return tries if sample is None else order.sample(tries, min(sample, len(tries)))


def _progress(found: Iterable[tuple[str, str, str]], count: int) -> Iterator[tuple[str, str, str]]:
    start = shown = time.monotonic()
    for done, each in enumerate(found, 1):
        yield each
        if time.monotonic() - shown > 1:
            shown = time.monotonic()
            left = (shown - start) * (count / done - 1)
            print(f"\r{done:,} of {count:,} tries, {left:.0f} s left  ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def table(counts: dict[str, Counter[str]]) -> str:
    """In Markdown."""
    from torture.rows import ROWS

    lines = ["| test | tries | survived | lost or wrong |", "|---|---:|---:|---:|"]
    for name, found in counts.items():
        each = ROWS[name].counts
        numbers = (found.total() * each, found["survived"] * each, found["lost"] * each)
        lines.append(f"| {ROWS[name].title} | {' | '.join(f'{number:,}' for number in numbers)} |")
    return "\n".join(lines)


def main() -> int:
    from torture.rows import ROWS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--row", action="append", choices=list(ROWS), help="a row; repeat for more, by default all")
    parser.add_argument("--cases", type=int, metavar="N", help="a sample of so many of each row")
    parser.add_argument(
        "--case", action="append", metavar="PATTERN", help="cases that are called so, such as 'plain *'"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sample and the order")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    rows = options.row or list(ROWS)
    counts = torture(rows, options.case or (), options.cases, options.seed, options.jobs)
    print(table(counts))
    return int(any(found["lost"] for found in counts.values()) or not any(found.total() for found in counts.values()))


if __name__ == "__main__":
    raise SystemExit(main())
