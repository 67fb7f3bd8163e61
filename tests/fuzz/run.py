"""Fuzz from the command line: python tests/fuzz/run.py --calls 50000 --jobs 2

Prints progress with the time that is left, every call at fault as Python that can be pasted, and a table; exits with 1
where there was a fault.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])]

_BATCH = 100
Found = tuple[int, str, str, str]


def judged(seeds: range) -> list[Found]:
    """Seed, kind, what is wrong and the call, for each of the seeds."""
    import torch
    from fuzz import pieces
    from fuzz.calls import RECIPES
    from fuzz.generator import make
    from fuzz.judge import judge

    torch.set_num_threads(1)
    names = {name: getattr(pieces, name) for name in pieces.__all__}
    found: list[Found] = []
    for seed in seeds:
        call = make(seed, RECIPES)
        verdict = judge(call, names)
        found.append((seed, verdict.kind, verdict.why, str(call) if verdict.fault else call.recipe.name))
    return found


def fuzz(calls: int, first: int, jobs: int) -> Counter[str]:
    """How many calls came to what; faults are printed when they are found."""
    counts: Counter[str] = Counter()
    begin = shown = time.monotonic()
    for part in _parts(calls, first, jobs):
        for seed, kind, why, call in part:
            counts[kind] += 1
            if why:
                print(f"\r{' ' * 60}\r# seed {seed}: {kind}, {why}\n{call}\n", flush=True)
        if time.monotonic() - shown > 1:
            shown = time.monotonic()
            left = (shown - begin) * (calls / counts.total() - 1)
            print(f"\r{counts.total():,} of {calls:,} calls, {left:.0f} s left  ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return counts


def _parts(calls: int, first: int, jobs: int) -> Iterator[list[Found]]:
    batches = [range(at, min(at + _BATCH, first + calls)) for at in range(first, first + calls, _BATCH)]
    if jobs == 1:
        yield from map(judged, batches)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(judged, batches)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=50_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    counts = fuzz(options.calls, options.first, options.jobs)
    from fuzz.judge import FAULTS, KINDS

    print("".join(f"{head:>10}" for head in ("calls", *KINDS)))
    print("".join(f"{number:>10,}" for number in (counts.total(), *(counts[kind] for kind in KINDS))))
    return int(any(counts[kind] for kind in FAULTS))


if __name__ == "__main__":
    raise SystemExit(main())
