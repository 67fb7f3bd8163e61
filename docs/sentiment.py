"""Draws docs/sentiment.png, the strips of docs/sentiment.md, from finished runs, and prints the numbers beside them.

python docs/sentiment.py results/sentiment
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np

from poise.errors import RecordError
from poise.io.documents import documents, text_of
from poise.recipes.sentiment.alignment import is_marked, pearson, strength
from poise.records.schema import Record, Results, load_results
from poise.reporting.figures.strips import STRIPS, Strip, chosen_strips
from poise.reporting.figures.svg import STRENGTH, colour, text_on
from poise.reporting.statistics import number, paired, summarize

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

WIDTH = 100  # letters on a line
LABEL = 8
MEASURES = ("sensitivity", "utility", "gradient")


def lines_of(tokens: tuple[str, ...]) -> list[list[int]]:
    """The places of the tokens, line by line."""
    lines: list[list[int]] = [[]]
    for place, token in enumerate(tokens):
        if sum(len(tokens[held]) + 2 for held in lines[-1]) + len(token) + 2 > WIDTH:
            lines.append([])
        lines[-1].append(place)
    return lines


def draw(axis: plt.Axes, strip: Strip, top: float) -> float:
    """The strip below `top`; where the next one may begin."""
    axis.text(0, top + 0.5, strip.caption, va="center", fontsize=9, weight="bold")
    for places in lines_of(strip.tokens):
        for name, shares in strip.rows.items():
            top += 1
            column = float(LABEL)
            axis.text(0, top + 0.5, name, va="center", fontsize=8, color="#5b6675")
            for place in places:
                fill, token = colour(STRENGTH, shares[place]), strip.tokens[place]
                axis.add_patch(Rectangle((column, top + 0.04), len(token) + 1.8, 0.92, facecolor=fill, linewidth=0))
                axis.text(
                    column + (len(token) + 1.8) / 2,
                    top + 0.5,
                    token,
                    ha="center",
                    va="center",
                    fontsize=8,
                    family="monospace",
                    color=text_on(fill),
                )
                column += len(token) + 2
        top += 0.4
    return top + 1.4


def print_gains(runs: Mapping[str, Mapping[int, Record]]) -> None:
    """All statistics of all measures, sets and columns of scores: both methods, their difference, p uncorrected."""
    first, method = "XE", "FCL"
    every = [run.scores for held in (first, method) for run in runs[held].values()]
    names = [name for name in every[0] if name.split(" ")[0] in MEASURES and all(name in scores for scores in every)]
    rising: dict[str, list[bool]] = {}
    for name in names:
        before, after = ({seed: run.scores[name] for seed, run in runs[held].items()} for held in (first, method))
        means = [summarize(list(values.values())) for values in (before, after)]
        gap = paired(after, before)
        told = " ".join(number(each.mean, 3) + (f" ±{number(each.std, 3)}" if each.std else "") for each in means)
        if gap is not None and gap.low is not None and gap.high is not None:
            ends = ", ".join(number(end, 3, sign=True) for end in (gap.low, gap.high))
            told += f" {number(gap.mean, 3, sign=True)} [{ends}], p {gap.p:.2g}"
            group = f"{name.split(' ')[0]}, {name.split(', ')[-1]}"
            rising.setdefault(group, []).append(gap.low > 0)
        print(f"{name}: {told}")
    for group, above in rising.items():
        print(f"{group}: {sum(above)} of {len(above)} intervals above 0")


def print_strips(results: Results) -> None:
    """The asked-for sentences, seed by seed: r, r without the mark nearest to neutral, the first five tokens."""
    by_method: dict[str, dict[str, list[float]]] = {"xe": {}, "fcl": {}}
    for path in documents(results.folder, f"*/seed-*/{STRIPS}"):
        method, seed = path.parts[-3:-1]
        held = json.loads(text_of(path))["sentences"]
        by_method[method][seed] = [sentence["r"] for sentence in held]
        for sentence in (each for each in held if each.get("title")):
            scores = np.array([np.nan if score is None else score for score in sentence["human"]])
            values, human = np.array(sentence["sensitivity"]), strength(scores)
            kept = is_marked(scores)
            kept[np.argmin(np.where(kept, human, np.inf))] = False
            order = [sentence["tokens"][place] for place in np.argsort(-values)[:5]]
            print(f"{method} {seed}: r {sentence['r']:.2f}, {pearson(values[kept], human[kept]):.2f} without; {order}")
    both = sorted(by_method["xe"].keys() & by_method["fcl"].keys())
    before, after = (np.mean([by_method[method][seed] for seed in both], axis=0) for method in ("xe", "fcl"))
    means = " to ".join(number(float(values.mean()), 3) for values in (before, after))
    print(f"r rises in {(after > before).sum()} of {len(before)} sentences, from {means} on average, {len(both)} seeds")


def print_grid(folder: Path) -> None:
    """What every setting of a sweep came to on dev, seed by seed."""
    for path in documents(folder, "trials/*/trial.json"):
        setting = ", ".join(f"{name} {value}" for name, value in json.loads(text_of(path))["values"].items())
        for record in documents(path.parent, "*/seed-*/record.json"):
            found = json.loads(text_of(record))
            r = [found["scores"].get(f"sensitivity {name}, dev, raw", np.nan) for name in ("r", "pooled r")]
            print(f"{setting}: {record.parent.name} {found['validation']:.4f}, r {r[0]:.3f}, pooled {r[1]:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the folder of the experiment")
    parser.add_argument("out", type=Path, nargs="?", default=Path(__file__).with_name("sentiment.png"))
    arguments = parser.parse_args()
    if arguments.out.is_dir():
        parser.error(f"{arguments.out} is a folder: name a file")
    try:
        found = load_results(arguments.runs)
        strips = [strip for results in found for strip in chosen_strips(results, list(results.runs), each=3)]
    except RecordError as error:
        parser.error(str(error))
    if not strips or not all({"XE", "FCL"} <= results.runs.keys() for results in found):
        parser.error(f"{arguments.runs} has no strips of XE and FCL")
    for results in found:
        print_gains(results.runs)
        print_strips(results)
        for name in ("xe", "xe-regularisation", "fcl"):
            print_grid(results.folder / "sweeps" / name)
    height = sum(1.4 + sum(len(strip.rows) + 0.4 for _ in lines_of(strip.tokens)) for strip in strips)
    figure, axis = plt.subplots(figsize=(0.087 * (WIDTH + LABEL), 0.2 * (height + 1)))
    axis.set(xlim=(0, WIDTH + LABEL + 1), ylim=(height + 1, 0))
    axis.axis("off")
    top = 0.0
    for strip in strips:
        top = draw(axis, strip, top)
    figure.subplots_adjust(left=0.01, right=0.99, top=0.99, bottom=0.01)
    try:
        figure.savefig(arguments.out, dpi=110)
    except (OSError, ValueError) as error:
        parser.error(f"{arguments.out} cannot be written: {error}")


if __name__ == "__main__":
    main()
