"""Experiments that nobody ran: realistic records, drawn from a seed, written as a runner writes them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from poise.corruptions.protocols import CORRUPTIONS, GROUPS, SEVERITIES, STANDARD
from poise.io.documents import VERSION, write_proved
from poise.records.schema import Record

RECIPE = (
    "Recipe(name='{method}', model=LeNet(widths=(6, 16), units=(120, 84)), objective=FCL(utility=GradientUtility("
    "per='value', own_forward=False), select=TopBottom(k=256), perturb=Gaussian(sigma=0.5, clip=None), "
    "contrast=InfoNCE(temperature=0.1), weight=Ramp(peak={peak}, start=784, length=784), statistics='running'), "
    "plan=Plan(epochs=20, batch_size=128, optimizer='adam', learning_rate=Exponential(0.01, 0.89, every=392)), "
    "tests={{'BAL': Balanced(), 'BAL+UN': Noise(0.15)}}, seed={seed})"
)
MNIST = {"XE": (0.902, 0.485, 0.642), "CL+Gaussian": (0.899, 0.62, 0.70), "FCL": (0.899, 0.661, 0.729)}
PAPER = {"XE": (0.925, 0.4123, 0.5473), "FCL": (0.9207, 0.6384, 0.6896)}
TESTS = ("BAL", "BAL+UN", "BAL+NUN")


def mnist(out: Path, seeds: int = 6, methods: tuple[str, ...] = tuple(MNIST)) -> Path:
    """Synthetic MNIST: three test sets, 15 classes of which five are rare."""
    folder = out / "synthetic-mnist"
    columns: list[dict[str, Any]] = [{"name": name, "of": [name]} for name in TESTS]
    columns.append({"name": "BAL, classes 10-14", "of": ["BAL"], "classes": [10, 11, 12, 13, 14]})
    experiment = {
        "version": VERSION,
        "name": "synthetic-mnist",
        "title": "Synthetic MNIST (Table 1)",
        "columns": columns,
        "methods": list(MNIST),
        "groups": [list(MNIST)],
        "overlaps": {},
        "rare_classes": [10, 11, 12, 13, 14],
        "class_names": [str(number) for number in range(15)],
        "paper": {
            m: {t: {"mean": v, "std": 0.01} for t, v in zip(TESTS, row, strict=True)} for m, row in PAPER.items()
        },
    }
    _write(folder / "experiment.json", experiment)
    for method in methods:
        for seed in range(seeds):
            _write(path_of(folder, method, seed), mnist_record(method, seed))
    return folder


def write_record(path: Path, written: Record) -> None:
    """As a runner writes it."""
    write_proved(path, asdict(written))


def path_of(folder: Path, method: str, seed: int) -> Path:
    return folder / method.lower().replace("+", "-") / f"seed-{seed:02}" / "record.json"


def mnist_record(method: str, seed: int) -> dict[str, Any]:
    draw = np.random.default_rng([seed, *method.encode()])
    common = np.random.default_rng(seed).normal(0, 0.02)  # runs of one seed have something in common
    scores = {t: float(m + common + draw.normal(0, 0.008)) for t, m in zip(TESTS, MNIST[method], strict=True)}
    classes = {name: _counts(score, draw, 15, 5) for name, score in scores.items()}
    scores = {name: sum(right for right, _ in counts) / (15 * 980) for name, counts in classes.items()}
    return {
        **record("synthetic-mnist", method, seed, scores, draw),
        "classes": classes,
        "trunk": {"epochs": 2} if method != "XE" else None,
    }


def record(experiment: str, method: str, seed: int, scores: dict[str, float], draw: Any) -> dict[str, Any]:
    return {
        "version": VERSION,
        "experiment": experiment,
        "method": method,
        "seed": seed,
        "recipe": RECIPE.format(method=method, peak=0.001, seed=seed),
        "scores": scores,
        "classes": {},
        "validation": 0.93,
        "log": _log(method, draw),
        "trunk": None,
        "seconds": 12.3 + seed,
        "peak_memory": 123456789,
        "commit": "abc1234",
        "version_of_poise": "0.1.0",
        "versions": {"python": "3.12.3", "torch": "2.11.0", "cuda": "13.0"},
        "device": "NVIDIA H200",
        "engine": "compiled, CUDA graph, bfloat16",
        "started": "2026-11-15T06:00:00+00:00",
        "finished": f"2026-11-15T06:00:{12 + seed % 40}+00:00",
    }


def cifar(out: Path, name: str = "cifar-10-c", seeds: int = 5) -> Path:
    """Corruptions and severities, two groups, an augmentation that resembles the noises."""
    folder = out / name
    every = {"All, 15": STANDARD, "All, 19": CORRUPTIONS, **{group.title(): of for group, of in GROUPS.items()}}
    columns = [{"name": "Clean", "of": ["clean"]}]
    columns += [{"name": key, "of": [f"{c}/{s}" for c in of for s in SEVERITIES]} for key, of in every.items()]
    groups = [["XE", "XE+Gaussian", "CL+Gaussian", "FCL"], ["PG+XE", "PG+FCL"]]
    methods = [method for group in groups for method in group]
    noises = [*GROUPS["noise"], "speckle_noise"]
    experiment = {
        "version": VERSION,
        "name": name,
        "title": f"{name.upper()} (Table 3)",
        "columns": columns,
        "methods": methods,
        "groups": groups,
        "overlaps": {"PG+XE": noises, "PG+FCL": noises},
        "paper": {"XE": {"All, 19": {"mean": 0.7137, "std": 0.0038}, "Noise": {"mean": 0.4967, "std": None}}},
        "rare_classes": [],
        "class_names": [],
    }
    _write(folder / "experiment.json", experiment)
    for place, method in enumerate(methods):
        for seed in range(seeds):
            draw = np.random.default_rng([seed, place])
            scores = _corrupted(place, draw)
            _write(path_of(folder, method, seed), record(name, method, seed, scores, draw))
    return folder


def _corrupted(place: int, draw: Any) -> dict[str, float]:
    def accuracy(name: str, severity: int) -> float:
        hard = {"noise": 0.11, "blur": 0.06, "weather": 0.03}.get(name.split("_")[-1], 0.04)
        gain = 0.02 * place if "noise" in name else 0.004 * place
        return float(np.clip(0.93 - hard * severity + gain * severity / 3 + draw.normal(0, 0.006), 0.1, 0.99))

    named = {f"{c}/{s}": accuracy(c, s) for c in CORRUPTIONS for s in SEVERITIES}
    return {"clean": float(0.938 + draw.normal(0, 0.001)), **named}


def _counts(score: float, draw: Any, classes: int, rare: int) -> list[list[int]]:
    shares = [score + 0.08 - (0.28 if n >= classes - rare else 0) + draw.normal(0, 0.02) for n in range(classes)]
    right = [int(np.clip(share, 0, 1) * 980) for share in shares]
    for _ in range(round(score * classes * 980) - sum(right)):  # those that cutting took
        right[right.index(min(right))] += 1
    return [[correct, 980] for correct in right]


def _log(method: str, draw: Any) -> list[dict[str, Any]]:
    def line(epoch: int) -> dict[str, Any]:
        loss = {"xe": float(1.6 * 0.8**epoch + 0.05 + abs(draw.normal(0, 0.02)))}
        if method != "XE":
            loss |= {"contrast": float(4 * 0.93**epoch + draw.normal(0, 0.05)), "weight": 0.001 * min(1, epoch / 4)}
        rate = 0.01 * 0.89**epoch
        validation = float(0.93 - 0.4 * 0.7**epoch + draw.normal(0, 0.005))
        facts = {"epoch": epoch, "step": 392 * epoch, "loss": loss, "learning_rate": rate, "seconds": 0.4}
        return facts | {"validation": validation}

    return [line(epoch) for epoch in range(1, 21)]


def _write(path: Path, content: dict[str, Any]) -> None:
    """Without waiting for the disk, as hundreds of them are written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
