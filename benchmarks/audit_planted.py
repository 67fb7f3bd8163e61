"""How often an audit calls planted models by their names: many samples of each, verdicts counted.

    python benchmarks/audit_planted.py                     # 40 samples of 300 examples: five minutes on one core
    python benchmarks/audit_planted.py --examples 100

The models are those of tests/auditing/planted.py and planted_text.py.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "auditing"))

import planted
import planted_text

import poise

MODELS = {
    "linear": (planted.linear(), planted.plain_rows),
    "sees the planted column": (planted.Switching(), planted.rows),
    "blind to it": (planted.Switching(sees_planted=False), planted.rows),
    "over-sensitive, not read by the head": (planted.over_sensitive(), planted.plain_rows),
    "over-sensitive, read by the head": (planted.over_sensitive(read_by_head=1.0), planted.plain_rows),
    "text, well-behaved": (planted_text.Reader(), planted_text.sentences),
    "text, blind to a word": (planted_text.Reader(sees_not=False), planted_text.sentences),
    "text, over-sensitive, read by the head": (planted_text.Reader(loud=4.0), planted_text.sentences),
    "text, over-sensitive, not read": (planted_text.Reader(moved=6.0), planted_text.sentences),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--examples", type=int, default=300)
    words = parser.parse_args()
    for name, (model, rows) in MODELS.items():
        found = [
            poise.audit(model, planted_text.batches(*rows(words.examples, seed + 10)), examples=words.examples)
            for seed in range(words.samples)
        ]
        verdicts = Counter(" and ".join(audit.names) for audit in found)
        near, far = (fmean(audit[f"{side}_gain"] for audit in found) for side in ("near", "far"))
        print(f"{name:38} near {near:.2f}, far {far:.2f}: {dict(verdicts.most_common())}")


if __name__ == "__main__":
    main()
