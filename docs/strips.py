"""Draws docs/sentiment.png, the strips of docs/sentiment.md, from the records of finished runs.

python docs/strips.py results/sentiment-cpu
"""

import argparse
from pathlib import Path

import matplotlib

from poise.reporting.colours import STRENGTH, colour, text_on
from poise.reporting.files import RecordError
from poise.reporting.records import load
from poise.reporting.strips import Strip, chosen_strips

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

WIDTH = 100  # letters on a line
LABEL = 8


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the folder of the experiment")
    parser.add_argument("out", type=Path, nargs="?", default=Path(__file__).with_name("sentiment.png"))
    arguments = parser.parse_args()
    try:
        found = load(arguments.runs)
        strips = [strip for results in found for strip in chosen_strips(results, list(results.runs), each=3)]
    except RecordError as error:
        parser.error(str(error))
    if not strips:
        parser.error(f"{arguments.runs} has no strips of two methods")
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
