"""How often an audit calls planted models by their names: many samples of each, verdicts counted.

    python benchmarks/audit_planted.py                     # 40 samples of 300 examples: five minutes on one core
    python benchmarks/audit_planted.py --examples 100
    python benchmarks/audit_planted.py --false-alarms      # eight kinds of models that are right: four minutes

The models are those of tests/auditing/planted.py and planted_text.py. False alarms: of 200 samples of 100 examples of
each kind, with labels drawn from the model's own probabilities, how many have a feature that counts.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "auditing"))

import numpy as np
import planted
import planted_text

import poise
from poise.auditing.effects import Removing, softmax
from poise.auditing.leftover import leftover

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


def right_model(kind: str, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """logits [100, L], labels drawn from them, values [100, 50]."""
    values = draw.normal(size=(100, 50))
    if kind == "words":
        values = (draw.random((100, 50)) < 0.1).astype(float)
    if kind == "skewed":
        values = np.exp(values)
    odds = {
        "one feature": 3 * values[:, 0],
        "rare class": 2 * values[:, :4].sum(1) - 4,
        "words": values @ (2 * draw.normal(size=50)),
        "skewed": np.clip(2 * (values[:, :8].sum(1) - 13), -8, 8),
    }.get(kind, 2 * values[:, :8].sum(1))
    logits = np.stack([-odds / 2, odds / 2], 1)
    if kind == "ten classes":
        logits = values @ (0.3 * draw.normal(size=(50, 10)))
    if kind == "network":
        logits = np.maximum(values @ draw.normal(size=(50, 20)) / 3, 0) @ draw.normal(size=(20, 3))
    labels = np.array([draw.choice(logits.shape[1], p=row) for row in softmax(logits)])
    return (5 * logits if kind == "overconfident" else logits), labels, values


KINDS = ("linear", "one feature", "rare class", "ten classes", "words", "skewed", "network", "overconfident")


def false_alarms(samples: int = 200) -> None:
    """A model that is right has no feature that counts, whatever its kind."""
    nowhere = Removing(lambda _: np.zeros((0, 2)), np.zeros(50), np.ones(50))
    for kind in KINDS:
        found = [
            leftover(*right_model(kind, np.random.default_rng(1000 + seed)), nowhere, [""] * 50, seed)
            for seed in range(samples)
        ]
        print(f"{kind:16} {sum(any(one.counts for one in each) for each in found)} of {samples}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--examples", type=int, default=300)
    parser.add_argument("--false-alarms", action="store_true")
    words = parser.parse_args()
    if words.false_alarms:
        false_alarms()
        return
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
