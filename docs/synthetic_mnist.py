"""Draws the figures of docs/synthetic-mnist.md, and prints its tables, from finished runs.

    python docs/synthetic_mnist.py results      # or runs, after the commands of that page

Averages over images are of the first run of XE and of FCL, whose checkpoints lie beside their records.
"""

import argparse
import copy
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean

import matplotlib
import numpy as np
import torch

import poise
from poise.data.pixel_noise import PixelNoise, pixel_deviation
from poise.data.sets.cache import load as load_array
from poise.data.synthetic_mnist import Digits, Scaling, SyntheticMNIST
from poise.errors import DataNotFound, RecordError
from poise.features.sensitivity import spearman
from poise.io.documents import write_whole
from poise.records.columns import Column
from poise.records.schema import Record, Results, load_results
from poise.reporting.figures.frontier import Frontier, area, frontiers, gaps
from poise.reporting.statistics import holm_corrected, paired, summarize
from poise.training.checkpoint import newest, weights_of

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).with_name("synthetic-mnist")
RARE = tuple(range(10, 15))
NOISE, LOOK = Column("noise", ("validation+UN", "validation+NUN")), Column("rare", ("validation",), RARE)
CONTEXTS = ("in context", "out of context")
EXACT = ("CL+Gaussian", "FCL", "random")  # frontiers that were run with exact cross-entropy
COLOURS = {"XE": "0.6", "CL+Gaussian": "tab:blue", "FCL": "tab:red"}  # in every figure
OTHERS = ("tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink", "tab:olive", "tab:cyan", "gold", "lime")
LABELS = {  # of the frontiers, as in the table of the page
    "margin": "margin loss",
    "far x 100": "far view counts 100 times",
    "decisive": "far 100 times, if still learned",
    "none dropped": "far 10 times, never dropped",
    "smooth": "utility over noisy copies",
    "confident": "confident examples alone",
}


def save(figure: plt.Figure, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / f"{name}.png", dpi=110)
    plt.close(figure)


def digits(scaling: Scaling = "area") -> dict[str, Digits]:
    return SyntheticMNIST(scaling=scaling)(
        {name: load_array("mnist", name) for name in ("train_x", "train_y", "test_x", "test_y")}
    )


def draw_data(parts: dict[str, Digits]) -> None:
    """Fig. 1 of the paper and appendix B: samples, the two noises, and how many there are of each class."""
    train, test = parts["train"], parts["test"]
    figure = plt.figure(figsize=(9.5, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.15, 1))
    rows = [("0-4", range(5)), ("5-9", range(5, 10)), ("10-14", range(10, 15))]
    pictures = [[train.x[np.flatnonzero(train.y == label)[3]] for label in labels] for _, labels in rows]
    some = test.x[[np.flatnonzero(test.y == label)[5] for label in (1, 3, 6, 9, 12)]]
    pictures += [PixelNoise()(some), PixelNoise(uniform=False)(some, pixel_deviation(train.x))]
    axes = left.subplots(5, 5)
    for line, row, title in zip(axes, pictures, [name for name, _ in rows] + ["UN", "NUN"], strict=True):
        for axis, picture in zip(line, row, strict=True):
            axis.imshow(picture, cmap="gray", vmin=0, vmax=255)
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(title)
    for axis, (name, part) in zip(right.subplots(2, 1, sharex=True), (("train", train), ("test", test)), strict=True):
        counts = np.bincount(part.y, minlength=15)
        axis.bar(range(15), counts, color=["tab:blue"] * 10 + ["tab:red"] * 5)
        axis.set(yscale="log", ylabel=f"images, {name}", xticks=range(15), ylim=(10, 2e4))
    axis.set_xlabel("class")
    save(figure, "data")


def model_of(folder: Path) -> poise.LeNet:
    held = newest(folder, print)
    if held is None:
        raise SystemExit(f"{folder} has no checkpoint: run the experiment there")
    model = poise.LeNet(num_classes=15)
    model.load_state_dict(weights_of(held))
    return model.eval()


def draw_utility(models: Mapping[str, poise.LeNet], test: Digits, count: int = 200) -> None:
    """The average image and the average utility of each digit with a corner digit, each scaled to its own range."""
    figure, axes = plt.subplots(1 + len(models), 10, figsize=(10, 1.1 * (1 + len(models)) + 0.3), layout="constrained")
    for digit in range(10):
        places = np.flatnonzero((test.digit == digit) & (test.corner >= 0))[:count]
        x = torch.from_numpy(test.x[places])[:, None] / 255
        y = torch.from_numpy(test.y[places]).long()
        maps = [poise.GradientUtility()(model, x, y).mean(0)[0] for model in models.values()]
        for axis, picture, name in zip(axes[:, digit], (x.mean(0)[0], *maps), ("image", *models), strict=True):
            axis.imshow(picture, cmap="gray" if name == "image" else "magma")
            axis.set(xticks=[], yticks=[])
            if digit == 0:
                axis.set_ylabel(name if name == "image" else f"utility, {name}", fontsize=8)
        axes[0, digit].set_title(f"{digit}, class {digit if digit > 4 else digit + 10}", fontsize=8)
    save(figure, "utility")


def draw_front(models: Mapping[str, poise.LeNet], test: Digits, results: Results) -> None:
    """The picture of the README: two images with their views, how far the embedding goes, and accuracy under noise."""
    figure = plt.figure(figsize=(12.5, 4.7), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(2.6, 1))
    kinds = {
        "0 with a corner digit: class 10,\nthe corner decides": (test.y >= 10, 10),
        "7 with a corner digit: class 7,\nthe corner means nothing": ((test.digit >= 5) & (test.corner >= 0), 7),
    }
    for line, (kind, (chosen, label)) in zip(
        left.subplots(2, 5, width_ratios=(1, 1, 1, 1, 1.5)), kinds.items(), strict=True
    ):
        draw_views(line, models["FCL"], test, int(np.flatnonzero(chosen & (test.y == label))[3]))
        line[0].set_ylabel(kind, fontsize=9)
        draw_shifts(line[4], models, test, np.flatnonzero(chosen)[:1000])
    axis = right.subplots()
    for method, colour in COLOURS.items():
        draw_levels(axis, results.runs[method], "UN", label=method, color=colour)
    axis.set(title="accuracy, uniform noise", xlabel="noisy pixels, %")
    axis.legend()
    save(figure, "front")


def views(model: poise.LeNet, test: Digits, places: np.ndarray) -> tuple[torch.Tensor, ...]:
    """Images, utility, near and far views, as in training."""
    x, y = torch.from_numpy(test.x[places])[:, None] / 255, torch.from_numpy(test.y[places]).long()
    chance = torch.Generator().manual_seed(0)
    u = poise.GradientUtility()(model, x, y)
    return x, u, *(poise.Gaussian(sigma=0.5)(x, side, chance) for side in poise.TopBottom(k=256)(u, generator=chance))


def draw_views(line: np.ndarray, model: poise.LeNet, test: Digits, place: int) -> None:
    titles = ("x", "utility u", "near: least useful move", "far: most useful move")
    for axis, picture, title in zip(line, views(model, test, np.array([place])), titles, strict=False):
        limits = {} if title == "utility u" else {"vmin": 0, "vmax": 1}
        axis.imshow(picture[0, 0], cmap="magma" if title == "utility u" else "gray", **limits)
        axis.set(xticks=[], yticks=[])
        axis.set_title(title, fontsize=8)


def draw_shifts(axis: plt.Axes, models: Mapping[str, poise.LeNet], test: Digits, places: np.ndarray) -> None:
    for number, (name, model) in enumerate(models.items()):
        x, _, *both = views(model, test, places)
        with torch.no_grad():
            shifts = [float((1 - torch.cosine_similarity(model.embed(x), model.embed(view))).mean()) for view in both]
        bars = axis.bar([number * 0.4 + place for place in range(2)], shifts, 0.36, label=name, color=COLOURS[name])
        axis.bar_label(bars, fmt="%.2f", fontsize=8)
    axis.set(xticks=(0.2, 1.2), xticklabels=("near", "far"), yticks=[])
    axis.set_title("the embedding moves by 1 - cosine", fontsize=8)
    axis.margins(y=0.15)
    axis.legend(fontsize=8)


def draw_levels(axis: plt.Axes, runs: Mapping[int, Record], kind: str, **style: object) -> None:
    scores = {0.0: "BAL", 15.0: f"BAL+{kind}"}
    scores |= {float(s.split("/")[1]): s for s in next(iter(runs.values())).scores if s.startswith(f"{kind}/")}
    levels = sorted(scores)
    axis.plot(
        levels, [fmean(run.scores[scores[level]] for run in runs.values()) for level in levels], marker=".", **style
    )
    axis.grid(alpha=0.3)


def draw_noise_levels(results: Results) -> None:
    """Accuracy against the share of noisy pixels, every method."""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True, layout="constrained")
    for axis, kind in zip(axes, ("UN", "NUN"), strict=True):
        others = iter(OTHERS)
        for method, runs in results.runs.items():
            draw_levels(axis, runs, kind, label=method, color=COLOURS.get(method) or next(others))
        axis.set(title=kind, xlabel="noisy pixels, %")
    axes[0].set_ylabel("accuracy")
    axes[1].legend(fontsize=8)
    save(figure, "noise-levels")


def draw_understanding(results: Results) -> None:
    """Where utility and sensitivity lie, per seed, and how one follows the other during training."""
    methods = [name for name in ("XE", "CL+Gaussian", "FCL") if name in results.runs]
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
    titles = ("corner utility", "corner sensitivity", "corner top-k")
    for axis, measure in zip(axes, titles, strict=False):
        for place, method in enumerate(methods):
            for context, colour in zip(CONTEXTS, ("tab:red", "tab:blue"), strict=True):
                values = [run.scores[f"{measure}, {context}"] for run in results.runs[method].values()]
                where = place + (0.15 if context == CONTEXTS[1] else -0.15)
                axis.plot([where] * len(values), values, ".", color=colour, alpha=0.6, label=context)
        axis.set(title=f"{measure}, share", xticks=range(len(methods)), xticklabels=methods, ylim=(0, None))
        axis.tick_params(axis="x", labelsize=8)
    handles, labels = axes[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    axes[0].legend(unique.values(), unique.keys(), fontsize=8)
    for method in methods:
        for context, style in zip(CONTEXTS, ("-", "--"), strict=True):
            name = f"rank correlation, {context}"
            logs = [[e["measures"][name] for e in run.log if "measures" in e] for run in results.runs[method].values()]
            if logs and logs[0]:
                means = np.mean(logs, axis=0)
                axes[3].plot(
                    range(1, len(means) + 1),
                    means,
                    style,
                    color=COLOURS[method],
                    label=method if style == "-" else None,
                )
    axes[3].set(title="rank correlation", xlabel="epoch (dashed: out of context)")
    if axes[3].lines:
        axes[3].legend(fontsize=8)
    save(figure, "understanding")


def draw_frontier(name: str, found: list[Frontier], least: float) -> None:
    """Rare classes against noise, and rare classes against lambda: a point is a mean over seeds."""
    figure, axes = plt.subplots(1, 2, figsize=(12.5, 4.4), layout="constrained")
    others = iter((*OTHERS, "teal", "navy"))
    for frontier in found:
        means = {peak: np.mean(list(runs.values()), axis=0) for peak, runs in frontier.points.items()}
        grey = {"Gaussian": "0.1", "patch of 7": "0.4", "patch of 14": "0.7"}.get(frontier.name[14:])
        colour = grey or COLOURS.get(frontier.name) or next(others)
        style = {"marker": ".", "color": colour, "label": LABELS.get(frontier.name, frontier.name)}
        style |= {"linewidth": 2.5, "zorder": 3} if frontier.name in COLOURS else {"linewidth": 1}
        if len(frontier.areas) < 10:
            style |= {"linestyle": ":", "label": f"{style['label']}, {len(frontier.areas)} seeds"}
        axes[0].plot(*np.array(list(means.values())).T, **style)
        if not frontier.name.startswith("augmentation"):
            axes[1].plot(list(means), [mean[1] for mean in means.values()], **style)
    axes[0].set(xlabel="accuracy under noise", ylabel="accuracy on the rare classes, clean", ylim=(least, least + 0.33))
    axes[1].set(xlabel="lambda", ylabel="accuracy on the rare classes, clean", xscale="log")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right", fontsize=8)
    save(figure, name)


def augmented(results: Results) -> list[Frontier]:
    """The frontiers of augmentations, over sigma."""
    points: dict[str, dict[float, dict[int, tuple[float, float]]]] = {}
    for record in results.records:
        name, _, sigma = record.method.rpartition(", sigma = ")
        if name:
            across, up = (each.value(record.scores, record.classes) for each in (NOISE, LOOK))
            points.setdefault(f"augmentation: {name}", {}).setdefault(float(sigma), {})[record.seed] = (across, up)
    return [Frontier(name, values) for name, values in points.items()]


def row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def print_understanding(runs: Mapping[str, Mapping[int, Record]]) -> None:
    names = [
        f"{measure}, {context}"
        for measure in ("corner utility", "corner sensitivity", "corner top-k", "rank correlation")
        for context in CONTEXTS
    ]
    print(row(["measure", *runs, "FCL - XE, 95 % interval, p (Holm)"]))
    print(row(["---"] * (len(runs) + 2)))
    per_seed = {m: {n: {s: r.scores[n] for s, r in seeds.items()} for n in names} for m, seeds in runs.items()}
    gaps = holm_corrected([paired(per_seed["FCL"][name], per_seed["XE"][name]) for name in names])
    for name, gap in zip(names, gaps, strict=True):
        cells = [
            f"{(each := summarize(list(per_seed[m][name].values()))).mean:.3f} ± {each.std or 0:.3f}" for m in runs
        ]
        print(
            row(
                [
                    name,
                    *cells,
                    ""
                    if gap is None or gap.low is None
                    else f"{gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}], {gap.holm:.2g}",
                ]
            )
        )


def print_shifts(runs: Mapping[str, Mapping[int, Record]]) -> None:
    """How far the embedding goes with noise on the least useful pixels, on the most useful ones, and their ratio."""
    for context in CONTEXTS:
        ratios: dict[str, dict[int, float]] = {}
        for method in COLOURS:
            near, far = (
                np.array([record.scores[f"{view} shift, {context}"] for record in runs[method].values()])
                for view in ("near", "far")
            )
            cells = [f"{each.mean():.3f} ±{each.std(ddof=1):.3f}" for each in (near, far, far / near)]
            print(f"{context}: {method}: near, far, far / near: {', '.join(cells)}")
            ratios[method] = dict(enumerate(far / near))
        gap = paired(ratios["FCL"], ratios["CL+Gaussian"])
        print(f"{context}: far / near, FCL - CL+Gaussian: {gap.mean:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]")


def print_against_contrast(runs: Mapping[str, Mapping[int, Record]]) -> None:
    """What FCL has over plain contrast and over cross entropy on the same noise, before any correction."""
    columns = [
        *(Column(name, (name,)) for name in runs["FCL"][0].scores if "UN" in name),
        Column("10-14, BAL+NUN", ("BAL+NUN",), RARE),
        Column("0-4, BAL+NUN", ("BAL+NUN",), tuple(range(5))),
    ]
    for other in ("CL+Gaussian", "XE+Gaussian"):
        for column in columns:
            mine, theirs = (
                {seed: column.value(run.scores, run.classes) for seed, run in runs[method].items()}
                for method in ("FCL", other)
            )
            gap = paired(mine, theirs)
            print(f"FCL - {other}, {column.name}: {gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}], p {gap.p:.2g}")


def print_largest_utility(models: Mapping[str, poise.LeNet], train: Digits) -> None:
    """The median of the largest utility of a training image, by kind of class."""
    kinds = {"0-4": train.y < 5, "5-9": (train.y >= 5) & (train.y < 10), "10-14": train.y >= 10}
    for name, model in models.items():
        for kind, chosen in kinds.items():
            places = np.flatnonzero(chosen)[:1000]
            x, y = torch.from_numpy(train.x[places])[:, None] / 255, torch.from_numpy(train.y[places]).long()
            largest = poise.GradientUtility()(model, x, y).flatten(1).amax(1).median()
            print(f"largest utility, median: {name}, {kind}: {float(largest):.1g}")


def connection(model: poise.LeNet, test: Digits) -> dict[str, dict[str, float]]:
    """Appendix A: norms of the utility and of the true class's sensitivity, where the prediction is right, or wrong."""
    x = (torch.from_numpy(test.x)[:, None] / 255).double().requires_grad_()
    y = torch.from_numpy(test.y).long()
    logits = copy.deepcopy(model).double()(x)
    chance = logits.softmax(1).gather(1, y[:, None])[:, 0]
    (u,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, y, reduction="sum"), x, retain_graph=True)
    (s,) = torch.autograd.grad(chance.sum(), x)
    norms = [each.flatten(1).norm(dim=1) for each in (u, s)]
    found = {}
    for word, chosen in (("right", logits.argmax(1) == y), ("wrong", logits.argmax(1) != y)):
        u_norm, s_norm = (each[chosen] for each in norms)
        low, middle, high = np.quantile((u_norm / s_norm).numpy(), (0.05, 0.5, 0.95))
        found[word] = {
            "images": int(chosen.sum()),
            "median utility": float(u_norm.median()),
            "median sensitivity": float(s_norm.median()),
            "ratio, 5 %": float(low),
            "ratio, median": float(middle),
            "ratio, 95 %": float(high),
            "rank correlation": float(spearman(u_norm[None], s_norm[None])),
        }
    return found


def write_connection(folder: Path, models: Mapping[str, poise.LeNet], test: Digits) -> None:
    """What docs/claims.py says of appendix A."""
    found = {name: connection(model, test) for name, model in models.items()}
    write_whole(folder / "benchmarks/appendix-a.json", json.dumps(found, indent=1) + "\n")


def print_mistakes(name: str, model: poise.LeNet, test: Digits) -> None:
    """What images of 0-4 under uniform noise, no corner digit on them, are taken for."""
    noisy = torch.from_numpy(PixelNoise()(test.x))[:, None] / 255
    with torch.no_grad():
        taken = model(noisy[torch.from_numpy(test.y) < 5]).argmax(1)
    right = float((taken == torch.from_numpy(test.y[test.y < 5])).float().mean())
    rare, others = float((taken >= 10).float().mean()), float(((taken >= 5) & (taken < 10)).float().mean())
    print(f"0-4 under uniform noise: {name}: {right:.2f} right, {rare:.2f} become 10-14, {others:.2f} become 5-9")


def print_gap(name: str, one: Mapping[int, float], two: Mapping[int, float]) -> None:
    gap = paired(one, two)
    print(f"{name}: {gap.mean:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}], p {gap.p:.2g}")


def print_frontiers(found: list[Frontier]) -> None:
    print(row(["choice", "seeds", "area", "minus CL+Gaussian, 95 % interval", "p (Holm)"]))
    print(row(["---"] * 5))
    gap = gaps(found, "CL+Gaussian")
    for each in found:
        area, apart = summarize(list(each.areas.values())), gap.get(each.name)
        against = (
            ["", ""]
            if apart is None or apart.low is None
            else [f"{apart.mean:+.4f} [{apart.low:+.4f}, {apart.high:+.4f}]", f"{apart.holm:.2g}"]
        )
        print(row([each.name, str(len(each.areas)), f"{area.mean:.4f} ± {area.std or 0:.4f}", *against]))
    held = {each.name: each.areas for each in found}
    print_gap("random - FCL", held["random"], held["FCL"])


def print_readings(found: Mapping[str, Results]) -> None:
    """The frontiers that every reading of the corner digit has, their areas averaged over the readings."""
    names = ("synthetic-mnist-frontier", "synthetic-mnist-frontier-bilinear", "synthetic-mnist-frontier-nearest")
    if not all(name in found for name in names):
        return
    curves = [{each.name: each.areas for each in frontiers(found[name].records, NOISE, LOOK)} for name in names]
    means = {
        choice: {seed: fmean(each[choice][seed] for each in curves) for seed in curves[0][choice]}
        for choice in ("CL+Gaussian", "FCL", "random")
    }
    for one, two in (("FCL", "CL+Gaussian"), ("random", "CL+Gaussian"), ("random", "FCL")):
        print_gap(f"mean of three readings: {one} - {two}", means[one], means[two])


def print_where_frontiers_end(found: list[Frontier]) -> None:
    """What the area owes to where a curve ends, and to how many points it has."""
    held = {each.name: each for each in found}
    base, margin = held["CL+Gaussian"].points, held["margin"].points
    ends = {seed: max(runs[seed][0] for runs in margin.values()) for seed in held["margin"].areas}
    for other in ("CL+Gaussian", "FCL"):
        one, two = (
            {
                seed: area([(min(across, end), up) for across, up in (runs[seed] for runs in points.values())])
                for seed, end in ends.items()
            }
            for points in (margin, held[other].points)
        )
        print_gap(f"margin - {other}, whole", held["margin"].areas, held[other].areas)
        print_gap(f"margin - {other}, cut where margin ends", one, two)
    same = Frontier("", {peak: runs for peak, runs in margin.items() if peak in base})
    print_gap("margin - CL+Gaussian, the lambdas of both", same.areas, held["CL+Gaussian"].areas)
    for name in ("CL+Gaussian", "margin"):
        for peak, runs in held[name].points.items():
            across, up = np.mean(list(runs.values()), axis=0)
            print(f"{name}, lambda {peak:g}: {across:.3f} under noise, {up:.3f} of the rare classes")
    for first in (0, 1):
        fewer = Frontier("", dict(list(base.items())[first::2]))
        lost = fmean(held["CL+Gaussian"].areas.values()) - fmean(fewer.areas.values())
        print(f"CL+Gaussian with every second lambda loses {lost:.4f} of its area")


def print_gains(found: Mapping[str, Results]) -> None:
    """By how much the scaling of the corner digit changes FCL's gain under non-uniform noise."""
    gains = {
        name: {seed: fcl.scores["BAL+NUN"] - runs["XE"][seed].scores["BAL+NUN"] for seed, fcl in runs["FCL"].items()}
        for name in ("synthetic-mnist", "synthetic-mnist-bilinear", "synthetic-mnist-nearest")
        if name in found and (runs := found[name].runs)
    }
    for name, gain in gains.items():
        gap = paired(gain, gains["synthetic-mnist"])
        if gap.low is not None:
            apart = f"{gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}], p {gap.p:.2g}"
            print(f"{name}: gain under NUN minus that of Table 1: {apart}")


def print_studies(studies: Iterable[Results]) -> None:
    """What the studies on validation found, a line for each method of each."""
    scores = [Column(name, (name,)) for name in ("validation", "validation+UN", "validation+NUN")]
    print(row(["study", "method", "seeds", *(score.name for score in scores), "10-14"]))
    print(row(["---"] * 7))
    for results in studies:
        for method, runs in results.runs.items():
            values = [[each.value(run.scores, run.classes) for run in runs.values()] for each in (*scores, LOOK)]
            cells = [f"{(found := summarize(each)).mean:.3f} ±{found.std or 0:.3f}" for each in values]
            print(row([results.experiment.title.removeprefix("Synthetic MNIST: "), method, str(len(runs)), *cells]))


def print_choices(found: Mapping[str, Results]) -> None:
    """What other batches and widths change on validation, uncorrected."""
    base = found.get("synthetic-mnist-choices")
    for name in ("batch-64", "batch-256", "width-2"):
        if base is not None and (other := found.get(f"synthetic-mnist-{name}")) is not None:
            for method, runs in other.runs.items():
                for score in ("validation", "validation+UN", "validation+NUN"):
                    one, two = (
                        {seed: run.scores[score] for seed, run in held.items()} for held in (runs, base.runs[method])
                    )
                    print_gap(f"{name}, {method}, {score}", one, two)


def print_scaling(scaling: Scaling, found: Mapping[str, Results]) -> None:
    """Another reading of the corner digit: its frontier, measures and mistakes, as far as they were run."""
    print(f"corner digits scaled by {scaling}")
    if curves := found.get(f"synthetic-mnist-frontier-{scaling}"):
        lines = frontiers(curves.records, NOISE, LOOK)
        draw_frontier(f"frontier-{scaling}", lines, 0.53)
        print_frontiers(lines)
    if results := found.get(f"synthetic-mnist-{scaling}"):
        print_understanding(results.runs)
        print_shifts(results.runs)
        print_against_contrast(results.runs)
        for name in ("XE", "FCL"):
            print_mistakes(name, model_of(results.folder / name.lower() / "seed-00"), digits(scaling)["test"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the folder that holds the experiments")
    folder = parser.parse_args().runs
    try:
        found = {each.experiment.name: each for each in load_results(folder)}
    except RecordError as error:
        parser.error(str(error))
    needed = ("synthetic-mnist", "synthetic-mnist-frontier", "synthetic-mnist-augmentation")
    if missing := [name for name in needed if name not in found]:
        parser.error(f"{folder} has no {', '.join(missing)}: run them first, as docs/synthetic-mnist.md says")
    try:
        parts = digits()
    except DataNotFound as error:
        parser.error(str(error))
    results = found["synthetic-mnist"]
    models = {name: model_of(results.folder / name.lower() / "seed-00") for name in ("XE", "FCL")}
    draw_data(parts)
    print_studies(
        each
        for each in found.values()
        if not {"XE", "own utility"}.isdisjoint(each.runs) and "validation" in [c.name for c in each.experiment.columns]
    )
    curves = frontiers(found["synthetic-mnist-frontier"].records, NOISE, LOOK)
    curves += augmented(found["synthetic-mnist-augmentation"])
    draw_frontier("frontier", curves, 0.45)
    print_frontiers([each for each in curves if each.name in EXACT])
    print_frontiers(curves)
    print_where_frontiers_end(curves)
    print_choices(found)
    print_readings(found)
    print_gains(found)
    for scaling in ("bilinear", "nearest"):
        print_scaling(scaling, found)
    draw_noise_levels(results)
    draw_understanding(results)
    print_understanding(results.runs)
    if "near shift, in context" in results.records[0].scores:  # records of 73a61b0 have none
        print_shifts(results.runs)
    print_against_contrast(results.runs)
    draw_utility(models, parts["test"])
    draw_front(models, parts["test"], results)
    print_largest_utility(models, parts["train"])
    write_connection(folder, models, parts["test"])
    for name, model in models.items():
        print_mistakes(name, model, parts["test"])


if __name__ == "__main__":
    main()
