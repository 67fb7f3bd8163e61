"""How often an audit gives planted models the right verdict: many samples of each model, with verdicts counted.

    python benchmarks/audit_planted.py --trained           # 20 samples of every trained model: ten minutes on one core
    python benchmarks/audit_planted.py --trained --seconds 13   # as many as fit: seven minutes
    python benchmarks/audit_planted.py                     # 40 samples of 300 examples: five minutes on one core
    python benchmarks/audit_planted.py --examples 100
    python benchmarks/audit_planted.py --false-alarms      # nine kinds of correct models: five minutes
    poise data get mnist
    python benchmarks/audit_planted.py --digits --examples 100   # small networks on real digits: two minutes

The trained models are those of tests/auditing/planted_models.py, at the default sample size; the others those of
planted.py and planted_text.py. False alarms: 200 samples of 100 examples of each
kind, with labels drawn from the model's own probabilities; counts the samples with a feature that counts. Digits: eight
ordinary networks, 25 samples each, in three settings: labels drawn in the same way; a mark in one digit of ten that
changes its class to the next one, and that the networks cannot see; and the original digits, by verdict.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from math import inf
from pathlib import Path
from statistics import fmean
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "auditing"))

import numpy as np
import planted
import planted_models
import planted_text
import torch
from torch import nn

import poise
from poise.auditing.estimates.misuse import FeatureRemoval, misused_features, softmax, temperature
from poise.auditing.measure import units
from poise.data.sets.cache import load

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
    if kind == "sparse":
        values = np.maximum(values - np.linspace(0, 2.5, 50), 0)
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
    if kind == "sparse":  # like pictures: the border is empty except in odd ones, where the model is less sure
        said, odd = np.arange(10) == draw.integers(10, size=(100, 1)), values[:, 25:].sum(1, keepdims=True)
        logits = 8 * said / (1 + 2 * odd) + draw.normal(size=(100, 10))
    labels = drawn(softmax(logits), draw)
    return (5 * logits if kind == "overconfident" else logits), labels, values


def drawn(p: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Labels [N] drawn from the probabilities [N, L]."""
    return np.array([draw.choice(len(row), p=row) for row in p])


KINDS = ("linear", "one feature", "rare class", "ten classes", "words", "skewed", "network", "overconfident", "sparse")


def counting(logits: np.ndarray, labels: np.ndarray, values: np.ndarray, seed: int) -> set[int]:
    """The features that count."""
    count = values.shape[1]
    nowhere = FeatureRemoval(lambda _: np.zeros((0, 2)), np.zeros(count), np.ones(count))
    return {one.unit for one in misused_features(logits, labels, values, nowhere, [""] * count, seed) if one.counts}


def false_alarms(samples: int = 200) -> None:
    """A correct model of any kind has no feature that counts."""
    for kind in KINDS:
        found = [
            bool(counting(*right_model(kind, np.random.default_rng(1000 + seed)), seed)) for seed in range(samples)
        ]
        print(f"{kind:16} {sum(found)} of {samples}", flush=True)


EPOCHS = (1, 2, 2, 3, 3, 4, 6, 10)


def trained(epochs: int, seed: int, digits: int = 6000) -> nn.Module:
    """An ordinary network trained on some of MNIST's digits."""
    torch.manual_seed(seed)
    order = np.random.default_rng(seed).permutation(60_000)[:digits]
    x, y = pictures(load("mnist", "train_x")[order]), torch.tensor(load("mnist", "train_y")[order]).long()
    convolved = (nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Flatten())
    model = nn.Sequential(*convolved, nn.Linear(8 * 144, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(epochs):
        for rows in torch.randperm(digits).split(64):
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def pictures(values: np.ndarray) -> torch.Tensor:
    return torch.tensor(values).float()[:, None] / 255


MARK, SHARE = 17, 0.1  # a cell of the grid near the corner, and the share of digits with a mark there


def marked(labels: np.ndarray, values: np.ndarray, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Labels and values of digits where a mark changes the class to the next one, for a model blind to it."""
    on, changed = draw.random(len(labels)) < SHARE, values.copy()
    changed[on, MARK] = draw.uniform(0.5, 1, int(on.sum()))
    return np.where(on, (labels + 1) % 10, labels), changed


def digits(examples: int, samples: int = 25) -> None:
    """Ordinary networks on real digits, whose border is almost always empty."""
    x, y = pictures(load("mnist", "test_x")), torch.tensor(load("mnist", "test_y")).long()
    values, alarms, told, verdicts = units(x).double().numpy(), 0, 0, Counter[str]()
    for seed, epochs in enumerate(EPOCHS):
        model = trained(epochs, seed)
        with torch.no_grad():
            logits = model(x).double().numpy()
        p = softmax(logits / temperature(logits, y.numpy()))
        for sample in range(samples):
            draw = np.random.default_rng(1000 * seed + sample)
            rows = draw.permutation(len(y))[:examples]
            alarms += bool(counting(logits[rows], drawn(p[rows], draw), values[rows], sample))
            told += MARK in counting(logits[rows], *marked(y.numpy()[rows], values[rows], draw), sample)
            found = poise.audit(model, [(x[rows], y[rows])], examples=examples, corruptions="none", probes=2)
            verdicts[" and ".join(found.names)] += 1
        done = (seed + 1) * samples
        print(f"drawn {alarms} of {done}; mark {told} of {done}; real {dict(verdicts)}", flush=True)


def trained_models(samples: int, seconds: float) -> None:
    """How often each trained model gets a right verdict, and how often the opposite; all verdicts that were given."""
    for title, each in planted_models.PLANTED.items():
        right, opposite, verdicts = 0, 0, Counter[str]()
        each.model()  # trained once
        end = monotonic() + seconds
        for seed in range(samples):
            if monotonic() > end:
                break
            sample = each.sample(1000, 100 + seed)
            found = poise.audit(
                each.model(),
                planted_models.batches(sample),
                corruptions="none",
                names=planted_models.names_of(sample),
            )
            right += each.is_right(found.names, found.verdict)
            opposite += any(name in each.opposite for name in found.names)
            verdicts[" and ".join(found.names)] += 1
        print(
            f"{title:28} right {right:2} of {verdicts.total()}, opposite {opposite}: {dict(verdicts.most_common())}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--examples", type=int, default=300)
    parser.add_argument("--false-alarms", action="store_true")
    parser.add_argument("--digits", action="store_true")
    parser.add_argument("--trained", action="store_true")
    parser.add_argument("--seconds", type=float, default=inf, help="for the samples of one trained model")
    words = parser.parse_args()
    if words.trained:
        trained_models(min(words.samples, 20), words.seconds)
        return
    if words.digits:
        digits(words.examples)
        return
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
