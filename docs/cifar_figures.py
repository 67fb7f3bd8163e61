"""Draws the figures of docs/cifar.md into docs/cifar/, from records and kept models.

python docs/cifar_figures.py results cifar10                 # noisy-cifar10 and cifar10-c in results/
python docs/cifar_figures.py results cifar10 --compressed    # the compressed ones
python docs/cifar_figures.py results all                     # both data sets and lengths, as far as there are runs

corruptions   accuracy per corruption and severity, difference to XE
noise         accuracy against the share of replaced pixels, and against Gaussian noise
cost          accuracy under noise against the minutes of training (--epochs: what benchmarks/epochs.py has measured)
maps          utility and sensitivity on real pictures, for XE and FCL (needs their models, and CIFAR in the cache)
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib
import numpy as np

import poise
from poise.corruptions.profiles import PROFILES
from poise.corruptions.protocols import CORRUPTIONS, GROUPS, SEVERITIES
from poise.data.loading.resident import on_device
from poise.data.sets.cache import load
from poise.errors import DataError, RecordError
from poise.records.schema import Results
from poise.records.schema import load_results as load_records
from poise.reporting.tables import corruption_gaps

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SETS = ("cifar10", "cifar100")
SHARES = {0: "Clean", 5: "UN 5%", 10: "UN 10%", 15: "UN", 20: "UN 20%", 30: "UN 30%"}
GROUPS_OF_ROWS = [len(members) for members in GROUPS.values()]


def results_of(folder: Path) -> Results | None:
    return load_records(folder)[0] if folder.is_dir() else None


def methods_of(results: Results) -> list[str]:
    return [method for method in results.experiment.methods if method in results.runs]


def colour_of(results: Results, method: str) -> str:
    """The same in every figure."""
    return f"C{results.experiment.methods.index(method)}"


def corruptions(results: Results, path: Path) -> None:
    """A panel per method: 19 rows, 5 severities and their mean, the difference to XE with the same seeds in points."""
    others = [method for method in methods_of(results) if results.runs[method].keys() & results.runs["XE"].keys()]
    gaps = {method: corruption_gaps(results, method, "XE") for method in others if method != "XE"}
    if not gaps:
        return
    tables = {
        method: 100 * np.array([[gap[c][s] for s in SEVERITIES] for c in CORRUPTIONS]) for method, gap in gaps.items()
    }
    largest = max(float(np.abs(table).max()) for table in tables.values())
    reach = min(25.0, largest)  # or the differences of one method would hide those of the others
    figure, axes = plt.subplots(
        1, len(tables), figsize=(2.1 + 1.75 * len(tables), 6.2), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, (method, table) in zip(axes[0], tables.items(), strict=True):
        shown = np.concatenate([table, table.mean(1, keepdims=True)], axis=1)
        image = axis.imshow(shown, cmap="RdBu", vmin=-reach, vmax=reach, aspect="auto")
        for (row, column), value in np.ndenumerate(shown):
            colour = "white" if abs(value) > 0.6 * reach else "black"
            axis.text(column, row, signed(value), ha="center", va="center", fontsize=6.5, color=colour)
        axis.set_title(f"{method}\n{signed(table.mean(), 1)} in the mean", fontsize=9)
        axis.set_xticks(range(6), [*map(str, SEVERITIES), "all"], fontsize=7)
        axis.axvline(4.5, color="white", linewidth=2)
        for border in np.cumsum(GROUPS_OF_ROWS):
            axis.axhline(border - 0.5, color="white", linewidth=2)
        axis.tick_params(length=0)
    axes[0, 0].set_yticks(range(len(CORRUPTIONS)), [name.replace("_", " ") for name in CORRUPTIONS], fontsize=8)
    extend = "both" if largest > reach else "neither"
    figure.colorbar(image, ax=axes, shrink=0.6, label="accuracy - XE's, points", pad=0.01, extend=extend)
    finish(figure, path, f"{results.experiment.title}: difference to XE per corruption and severity")


def signed(value: float, digits: int = 0) -> str:
    """`+3`, `-1`, and 0 without a sign."""
    return f"{value:+.{digits}f}" if round(value, digits) else "0"


def noise(noisy: Results, corrupted: Results | None, path: Path) -> None:
    """Left: pixels replaced by grey noise. Right: Gaussian noise at the five severities."""
    figure, axes = plt.subplots(
        1, 2 if corrupted else 1, figsize=(10 if corrupted else 5.5, 4), squeeze=False, layout="constrained"
    )
    lines(axes[0, 0], noisy, list(SHARES), list(SHARES.values()))
    axes[0, 0].set_xlabel("pixels replaced by a random grey, %")
    axes[0, 0].set_title(in_two_lines(noisy.experiment.title), fontsize=9)
    if corrupted:
        sigmas = [0.0, *(float(setting.scale) for setting in PROFILES["cifar"]["gaussian_noise"])]
        lines(axes[0, 1], corrupted, sigmas, ["Clean", *(f"gaussian_noise/{severity}" for severity in SEVERITIES)])
        axes[0, 1].set_xlabel("sigma of Gaussian noise")
        axes[0, 1].set_title(in_two_lines(corrupted.experiment.title), fontsize=9)
    axes[0, 0].set_ylabel("accuracy")
    handles = axes[0, 0].get_legend_handles_labels()
    axes[0, -1].legend(*handles, fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    several = any(len(runs) > 1 for results in (noisy, corrupted) if results for runs in results.runs.values())
    finish(figure, path, "accuracy against noise" + several * "; bands are ± a deviation over seeds")


def in_two_lines(title: str) -> str:
    return title.replace(", ", ",\n", 1)


def lines(axis: plt.Axes, results: Results, places: list[float], scores: list[str]) -> None:
    for method in methods_of(results):
        runs = results.runs[method].values()
        values = np.array([[run.scores[score] for score in scores] for run in runs])
        mean, colour = values.mean(0), colour_of(results, method)
        axis.plot(
            places,
            mean,
            marker="o",
            markersize=3,
            color=colour,
            label=method,
            linestyle="--" if "FCL" in method else "-",
        )
        if len(values) > 1:
            spread = values.std(0, ddof=1)
            axis.fill_between(places, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", alpha=0.3)


def minutes_of(log: Sequence[dict[str, Any]], seconds: dict[str, float]) -> float:
    """Of a run with nothing beside it, without compiling: the epochs before its contrast begins, and the others; the
    one in which it begins in proportion, as the log has its mean weight."""
    weights = [entry["loss"].get("weight", 0.0) for entry in log]
    shares = [weight / max(weights) if weight else 0.0 for weight in weights]
    return sum(seconds["before"] + share * (seconds["after"] - seconds["before"]) for share in shares) / 60


def times_of(word: str) -> dict[str, Any]:
    """What benchmarks/epochs.py has written."""
    try:
        found = json.loads(Path(word).read_text())
        if found["length"] == "quick":
            raise argparse.ArgumentTypeError(f"{word} has the epochs of a quick look, not those of the recipe")
        _ = found["device"], [seconds["before"] + seconds["after"] for seconds in found["epochs"].values()]
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{word}: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, AttributeError):
        raise argparse.ArgumentTypeError(f"{word} is not what benchmarks/epochs.py writes") from None
    return dict(found)


def cost(results: Results, measured: dict[str, Any], path: Path) -> None:
    """The mean accuracy under the three noises against the minutes of one training run; labels beside, from below."""
    figure, axis = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    methods = methods_of(results)
    minutes = {method: minutes_of(log_of(results, method), measured["epochs"][method]) for method in methods}
    heights = {method: under_noise(results, method, list(results.runs[method])) for method in methods}
    right, low, high = max(minutes.values()), min(heights.values()), max(heights.values())
    place = low
    for method in sorted(methods, key=heights.__getitem__):
        point, colour = (minutes[method], heights[method]), colour_of(results, method)
        axis.plot(*point, "o", color=colour)
        place = max(point[1], place)
        line = {"arrowstyle": "-", "color": colour, "alpha": 0.4}
        label = f"{method}{price(results, method, minutes)}"
        axis.annotate(label, point, (1.08 * right, place), fontsize=8, arrowprops=line)
        place += max(high - low, 1) / 18
    axis.set_xlabel(f"minutes of training a seed, alone on one {measured['device']}")
    axis.set_ylabel("accuracy, mean of the noise group, %")
    axis.set_xlim(0, 1.75 * right)
    axis.margins(y=0.12)
    axis.spines[["top", "right"]].set_visible(False)
    what = "points and seconds of training above the first of the group, or above XE; compiling left out"
    finish(figure, path, f"{results.experiment.title}\n{what}")


def log_of(results: Results, method: str) -> Sequence[dict[str, Any]]:
    return next(iter(results.runs[method].values())).log


def under_noise(results: Results, method: str, seeds: Sequence[int]) -> float:
    """Points, over these seeds."""
    scores = [f"{name}/{severity}" for name in GROUPS["noise"] for severity in SEVERITIES]
    return 100 * fmean(results.runs[method][seed].scores[score] for seed in seeds for score in scores)


def price(results: Results, method: str, minutes: dict[str, float]) -> str:
    """What a method gains over the first of its group, and the first over XE, with the same seeds."""
    group = next(group for group in results.experiment.groups if method in group)
    first = next(each for each in group if each in minutes)
    base = first if method != first else "XE"
    seeds = sorted(results.runs[method].keys() & results.runs[base].keys())
    if method == base or not seeds:
        return ""
    gain = under_noise(results, method, seeds) - under_noise(results, base, seeds)
    seconds = 60 * (minutes[method] - minutes[base])
    each = f", {seconds / gain:.1f} s a point" if gain > 0.5 and seconds / gain > 0.1 else ""
    return f": {signed(gain, 1)} for {signed(seconds)} s{each}"


def model_of(folder: Path, method: str) -> Path:
    return folder / method.lower() / "seed-00/model.safetensors"


def maps(folder: Path, data: str, path: Path, count: int = 6) -> None:
    """Pictures with utility and sensitivity: the sum over channels of the one, the norm of the other."""
    models = {name: poise.load_model(model_of(folder, name)) for name in ("XE", "FCL")}
    labels = load(data, "test_y")
    chosen = [int(np.flatnonzero(labels == label)[0]) for label in range(count)]
    x, y = on_device(load(data, "test_x")[chosen], labels[chosen])
    x = x / 255
    columns = {"picture": x.permute(0, 2, 3, 1)}
    for name, model in models.items():
        columns[f"utility, {name}"] = poise.GradientUtility()(model, x, y).sum(1)
        columns[f"sensitivity, {name}"] = poise.JacobianSensitivity()(model, x).norm(dim=1)
    figure, axes = plt.subplots(count, len(columns), figsize=(1.35 * len(columns), 1.3 * count), layout="constrained")
    for column, (title, pictures) in enumerate(columns.items()):
        for axis, picture in zip(axes[:, column], pictures, strict=True):
            axis.imshow(picture.detach(), cmap="magma", vmin=0, interpolation="nearest")
            axis.set_xticks([]), axis.set_yticks([])
        axes[0, column].set_title(title, fontsize=8)
    finish(figure, path, "black is 0, the brightest of each map its largest value")


def finish(figure: plt.Figure, path: Path, title: str) -> None:
    figure.suptitle(title, fontsize=10)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(path)


def draw(given: argparse.Namespace, parser: argparse.ArgumentParser, data: str, suffix: str) -> None:
    """The figures of a data set at a length."""
    try:
        noisy, corrupted = (results_of(given.runs / f"{name}{suffix}") for name in (f"noisy-{data}", f"{data}-c"))
    except RecordError as error:
        parser.error(str(error))
    name = f"{data}{suffix}"
    for results in (noisy, corrupted):
        if results and ("XE" not in results.runs or len(results.runs) < 2):
            parser.error(f"{results.folder} needs runs of XE and of another method")
    if not noisy and not corrupted:
        parser.error(f"{given.runs} has neither noisy-{name} nor {data}-c{suffix}")
    if corrupted and given.epochs and (missing := set(methods_of(corrupted)) - set(given.epochs["epochs"])):
        parser.error(f"--epochs has no times of {', '.join(sorted(missing))}: measure them again")
    try:
        if corrupted:
            corruptions(corrupted, given.out / f"{name}-corruptions.png")
        if noisy:
            noise(noisy, corrupted, given.out / f"{name}-noise.png")
        if corrupted and given.epochs:
            cost(corrupted, given.epochs, given.out / f"{name}-cost.png")
        if noisy and all(model_of(noisy.folder, method).exists() for method in ("XE", "FCL")):
            maps(noisy.folder, data, given.out / f"{name}-maps.png")
    except (DataError, ValueError) as error:
        sys.exit(str(error))
    except KeyError as error:
        sys.exit(f"a record in {given.runs} lacks {error}, which the figure needs: make its run again")
    except OSError as error:
        sys.exit(f"{given.out}: {error.strerror}")
    except KeyboardInterrupt:
        sys.exit(130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("data", choices=[*SETS, "all"])
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--compressed", action="store_true")
    length.add_argument("--quick", action="store_true")
    parser.add_argument("--epochs", type=times_of, metavar="FILE")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("cifar"))
    given = parser.parse_args()
    if given.data != "all":
        draw(given, parser, given.data, "-compressed" if given.compressed else "-quick" if given.quick else "")
        return
    for data in SETS:
        for suffix in ("", "-compressed"):
            if (given.runs / f"noisy-{data}{suffix}").is_dir():
                draw(given, parser, data, suffix)


if __name__ == "__main__":
    main()
