"""Draws the contact sheets of docs/data.md from the sets in the cache.

poise data get mnist cifar10 frost bert-vocab
poise data get cifar100 --from FOLDER           # likewise sst and sst2
python docs/sheets.py
"""

from pathlib import Path

import matplotlib
import numpy as np

from poise.data.loading.sentences import WordPieces
from poise.data.pixel_noise import PixelNoise, pixel_deviation
from poise.data.sets.cache import load, manifest_of, path_of
from poise.data.sets.fetch import folder
from poise.data.sets.layouts import decode_image
from poise.data.sets.sst import read_phrases, read_sentences
from poise.data.synthetic_mnist import SyntheticMNIST

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).with_name("data")
Line = list[tuple[str, float]]  # words, each with a score in [0, 1]


def save(name: str, rows: list[np.ndarray], titles: list[str], scale: float = 0.55) -> None:
    """Rows of pictures, each with a title at its left."""
    height, width = len(rows), max(len(row) for row in rows)
    figure, axes = plt.subplots(height, width, figsize=(scale * width + 1, scale * height), squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for line, row, title in zip(axes, rows, titles, strict=True):
        for axis, picture in zip(line, row, strict=False):
            axis.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        line[0].text(-0.15, 0.5, title, ha="right", va="center", transform=line[0].transAxes, fontsize=8)
    figure.subplots_adjust(left=0.12, right=0.99, top=0.99, bottom=0.01, wspace=0.05, hspace=0.05)
    figure.savefig(FOLDER / f"{name}.png", dpi=100)
    plt.close(figure)


def by_class(x: np.ndarray, y: np.ndarray, classes: range, count: int = 12) -> list[np.ndarray]:
    return [x[np.flatnonzero(y == label)[:count]] for label in classes]


def save_text(name: str, lines: list[Line], titles: list[str]) -> None:
    """Lines of words, each on the colour of its score: red is 0, white 0.5, blue 1."""
    width = max(sum(len(word) + 1 for word, _ in line) for line in lines)
    figure, axis = plt.subplots(figsize=(0.072 * (width + 10), 0.24 * len(lines)))
    axis.set(xlim=(-10, width), ylim=(len(lines) - 0.5, -0.5))
    axis.axis("off")
    for row, (line, title) in enumerate(zip(lines, titles, strict=True)):
        axis.text(-10, row, title, va="center", fontsize=8)
        column = 0
        for word, score in line:
            box = {"facecolor": plt.get_cmap("RdBu")(0.15 + 0.7 * score), "edgecolor": "none", "pad": 1.5}
            axis.text(column, row, word, va="center", fontsize=8, family="monospace", bbox=box)
            column += len(word) + 1
    figure.subplots_adjust(left=0.01, right=0.99, top=0.98, bottom=0.02)
    figure.savefig(FOLDER / f"{name}.png", dpi=100)
    plt.close(figure)


def save_sentences() -> None:
    """Both columns of scores; phrases with their labels; word pieces, coloured by turns with the token they are of."""
    sentences = [s for s in read_sentences(folder("sst"), "dev") if 40 < len(s.text) < 90][:8]
    rows = [list(zip(s.tokens, column, strict=True)) for s in sentences for column in (s.raw_scores, s.leaf_scores)]
    save_text("sst", rows, ["raw", "leaf"] * len(sentences))
    phrases = [(text, label) for text, label in read_phrases(folder("sst2")) if 20 < len(text) < 90][:16]
    save_text("sst2", [[(text, 0.25 + 0.5 * label)] for text, label in phrases], [str(label) for _, label in phrases])
    pieces = WordPieces(path_of("bert-vocab", "vocab.txt"))
    names = path_of("bert-vocab", "vocab.txt").read_text(encoding="utf8").split("\n")
    x, words = pieces([s.tokens for s in sentences])
    lines = [
        [(names[i], 0.5 if w < 0 else 0.25 + 0.5 * (w % 2)) for i, w in zip(ids, places, strict=True) if i != 0]
        for ids, places in zip(x.ids.tolist(), words.tolist(), strict=True)
    ]
    save_text("bert-vocab", lines, ["pieces"] * len(lines))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    mnist = {name: load("mnist", name) for name in ("train_x", "train_y", "test_x", "test_y")}
    save("mnist", by_class(mnist["train_x"], mnist["train_y"], range(10)), [str(digit) for digit in range(10)])
    parts = SyntheticMNIST()(mnist)
    train, test = parts["train"], parts["test"]
    save("synthetic_mnist", by_class(train.x, train.y, range(15)), [str(label) for label in range(15)])
    deviation, some = pixel_deviation(train.x), test.x[:: len(test) // 12][:12]
    noisy = [some, PixelNoise()(some), PixelNoise(uniform=False)(some, deviation)]
    save("mnist_noise", noisy, ["BAL", "BAL+UN", "BAL+NUN"], scale=0.9)
    for name in ("cifar10", "cifar100"):
        if manifest_of(name) is None:
            continue
        x, y = load(name, "train_x"), load(name, "train_y")
        save(name, by_class(x, y, range(10)), [str(label) for label in range(10)])
        if name == "cifar100":
            continue
        clean = load(name, "test_x")[:12]
        kinds = [PixelNoise(uniform=u, kind=k) for k in ("grey", "colour", "value") for u in (True, False)]
        rows = [clean, *(noise(clean, pixel_deviation(x)) for noise in kinds)]
        names = ["clean", *(f"{'UN' if noise.uniform else 'NUN'} {noise.kind}" for noise in kinds)]
        save(f"{name}_noise", rows, names, scale=0.9)
    frost = [f"frost{i}.{'png' if i < 4 else 'jpg'}" for i in range(1, 7)]
    save("frost", [[decode_image(path_of("frost", name).read_bytes()) for name in frost]], ["frost"], scale=1.8)
    if None not in (manifest_of("sst"), manifest_of("sst2"), manifest_of("bert-vocab")):
        save_sentences()


if __name__ == "__main__":
    main()
