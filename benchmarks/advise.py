"""Does the advice of `poise advise` hold on test data? On three sets that no page uses, made here or by scikit-learn.

    python benchmarks/advise.py --minutes 10 --out results/benchmarks/advise-2-cores.json
    python benchmarks/advise.py --set table --minutes 10                  # one of digits, table, text

    digits   8 x 8 digits of which one class has a tenth of the examples, and a small convolutional network
    table    the breast cancer table, and two hidden layers
    text     made sequences: the more frequent of two topics decides, or one rare word; a bag of words

Every candidate is then tested on the test set, with the seeds that all of them have. Regret is the best candidate's
score there minus that of the answer; a score is the mean of the columns. The seconds of the processor are those of this
process: with other work on the machine, fewer of them fit into the minutes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from places import to_write

from poise.advising.advice import advise, measured_on_test, require_fitting
from poise.advising.budget import SEEDS
from poise.advising.own_data import read_recipe
from poise.running.record import surroundings

RECIPES = {
    "digits": """
import numpy as np
from sklearn.datasets import load_digits
from torch import nn
held = load_digits()
order = np.random.default_rng(0).permutation(len(held.target))
x, y = (held.images[order] / 16).astype(np.float32), held.target[order]
kept = np.setdiff1d(np.arange(1000), np.flatnonzero(y[:1000] == 8)[15:])
train, test = (x[kept], y[kept]), (x[1000:], y[1000:])
def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
    )
""",
    "table": """
import numpy as np
from sklearn.datasets import load_breast_cancer
from torch import nn
x, y = load_breast_cancer(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
train, test = (x[order[:340]], y[order[:340]]), (x[order[340:]], y[order[340:]])
def network():
    return nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2))
""",
    "text": """
import torch
from torch import nn
generator = torch.Generator().manual_seed(0)
x = torch.randint(1, 60, (4000, 16), generator=generator)
topics = (x <= 20).sum(1) - ((x > 20) & (x <= 40)).sum(1)
y = (topics > 0).long()
marked = torch.rand(4000, generator=generator) < 0.05
x[marked, torch.randint(16, (4000,), generator=generator)[marked]] = 60
y[marked] = 2
kept = (topics != 0) | marked
x, y = x[kept], y[kept]
train, test = (x[:1500], y[:1500]), (x[1500:], y[1500:])
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.hidden, self.last = nn.EmbeddingBag(61, 32, padding_idx=0), nn.Linear(32, 32), nn.Linear(32, 3)
    def forward(self, ids):
        return self.last(self.hidden(self.words(ids)).relu())
network, head = Words, "last"
""",
}


def measured(name: str, minutes: float, folder: Path) -> dict[str, Any]:
    """The answer for one set, and the test of all candidates."""
    path, cpu = folder / f"{name}.py", torch.device("cpu")
    path.write_text(RECIPES[name])
    begun, spent = time.monotonic(), time.process_time()
    data = read_recipe(path)
    require_fitting(data, cpu)
    found = advise(data, folder / "out", minutes, cpu, keep=True)
    seconds = {"seconds": time.monotonic() - begun, "processor": time.process_time() - spent}
    names = [row["name"] for row in found["methods"] if row["seeds"] >= SEEDS[0]]
    tested = measured_on_test(data, folder / "out", names, cpu, first=SEEDS[0])
    scores = {name: fmean(columns.values()) for name, columns in tested.items()}
    bold = advise(data, folder / "out", minutes, cpu, accepted=1.0, keep=True)["chosen"]
    best = max(scores, key=lambda name: scores[name])
    return {
        **{key: found[key] for key in ("sentence", "chosen", "finished", "data")},
        **seconds,
        "answer": {"score": scores[found["chosen"]], **tested[found["chosen"]]},
        "XE": {"score": scores["XE"], **tested["XE"]},
        "best": {"name": best, "score": scores[best], **tested[best]},
        "regret": scores[best] - scores[found["chosen"]],
        "regret of XE": scores[best] - scores["XE"],
        "if any loss is accepted": {"chosen": bold, "regret": scores[best] - scores[bold]},
        "scores": scores,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=RECIPES, action="append", help="by default all")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--out", type=to_write, default=None)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {"minutes": asked.minutes, **surroundings(torch.device("cpu")), "sets": {}}
    for name in asked.set or RECIPES:
        with tempfile.TemporaryDirectory() as folder:
            results["sets"][name] = found = measured(name, asked.minutes, Path(folder))
        print(f"{name}: {found['sentence']}")
        print(f"  test: {found['answer']['score']:.3f}, best {found['best']['name']} {found['best']['score']:.3f}")
    if asked.out is not None:
        asked.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
