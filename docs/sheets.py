"""Draws the contact sheets of docs/data.md from the sets in the cache.

poise data get mnist cifar10 frost
poise data get cifar100 --from FOLDER
python docs/sheets.py
"""

from pathlib import Path

import matplotlib
import numpy as np

from poise.data.cache import load, manifest_of, path_of
from poise.data.layouts import decode_image
from poise.data.noise import PixelNoise, pixel_deviation
from poise.data.synthetic_mnist import SyntheticMNIST

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).with_name("data")


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


if __name__ == "__main__":
    main()
