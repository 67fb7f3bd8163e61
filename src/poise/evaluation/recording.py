"""Records of an evaluation: one JSON file of all numbers per model, comparisons of the models, and tables for others.

FOLDER/MODEL/evaluation.json   the record of a model: settings, scores with intervals, cost, with a checksum
FOLDER/comparisons.json        paired differences of every two models
FOLDER/results-clean.csv       in the format of timm's results files
FOLDER/results-NAME.csv        the same for the mean over the benchmark, with the differences from clean
FOLDER/tests.csv               one row per model, corruption and severity
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from poise.evaluation.benchmarks import CLEAN, TestSet
from poise.evaluation.clustered import mcnemar, paired_difference
from poise.evaluation.measuring import Measured, Stage
from poise.evaluation.preparing import Prepared
from poise.evaluation.scores import Scored, scores
from poise.io.documents import write_proved, write_whole
from poise.reporting.evaluation_page import evaluation_page
from poise.reporting.statistics import holm

RECORD = "evaluation.json"
COMPARISONS = "comparisons.json"
PAGE = "index.html"


def evaluation_record(
    prepared: Prepared, stage: Stage, measured: Measured, surroundings: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything that is known about a model, for JSON."""
    each, evaluation = measured.contestant, prepared.evaluation
    seconds = sum(measured.seconds.values())
    images = len(prepared.labels) * len(measured.outcomes)
    return {
        "kind": "evaluation of a model",
        "model": {
            "name": each.name,
            "parameters": each.parameters,
            "classes": each.classes,
            "size": each.size or stage.size[0],
            "digest": measured.digest,
        },
        "benchmark": evaluation.benchmark.name,
        "title": evaluation.benchmark.title,
        "main": main_mean(prepared),
        "data": {
            "name": evaluation.facts["data"],
            "examples": len(prepared.labels),
            "of": prepared.total,
            "size": list(stage.size),
            "pixels": stage.pixels,
            "labels": evaluation.facts["labels"],
        },
        "settings": {"seed": evaluation.facts["seed"], "made": stage.made},
        "notes": [*prepared.notes, *filter(None, [each.note])],
        "cost": {"seconds": seconds, "images": images, "images per second": images / max(seconds, 1e-9)},
        **scores(scored_of(prepared, measured)),
        "surroundings": dict(surroundings),
    }


def scored_of(prepared: Prepared, measured: Measured) -> Scored:
    """What the scores of a model are computed from."""
    classes = list(prepared.classes)
    many = measured.contestant.classes > 5
    benchmark = prepared.evaluation.benchmark
    return Scored(benchmark, measured.outcomes, prepared.labels, classes, prepared.groups, prepared.paired, many)


def main_mean(prepared: Prepared) -> str:
    """The name of the mean that leaderboards sort by: the benchmark's first that was measured as a whole."""
    measured = {test.corruption for test in prepared.evaluation.tests}
    whole = (name for name, members in prepared.evaluation.benchmark.means.items() if set(members) <= measured)
    return next(whole, "measured")


def comparisons_of(prepared: Prepared, found: Sequence[Measured], main: str) -> list[dict[str, Any]]:
    """Of every two models the paired differences, clean and corrupted, with p values corrected by Holm."""
    rows = [_comparison(prepared, one, other, main) for one, other in combinations(found, 2)]
    for kind in (CLEAN, "corrupted"):
        held = [row[kind] for row in rows if kind in row]
        for cell, value in zip(held, holm([cell["p"] for cell in held]), strict=True):
            cell["holm"] = value
    return rows


def _comparison(prepared: Prepared, one: Measured, other: Measured, main: str) -> dict[str, Any]:
    row: dict[str, Any] = {"one": one.contestant.name, "other": other.contestant.name}
    clean = TestSet()
    if clean in one.outcomes:
        right = one.outcomes[clean].right, other.outcomes[clean].right
        row[CLEAN] = {**_gap(*right), "p": mcnemar(*right), "test": "McNemar, exact"}
    if one.outcomes.keys() - {clean}:
        values = [_corrupted(scored_of(prepared, each), main) for each in (one, other)]
        row["corrupted"] = {**_gap(*values), "test": "paired t over examples"}
    return row


def _gap(one: np.ndarray, other: np.ndarray) -> dict[str, Any]:
    gap = paired_difference(one, other)
    return {"value": gap.value, "low": gap.low, "high": gap.high, "p": gap.p}


def _corrupted(scored: Scored, main: str) -> np.ndarray:
    """The accuracy of each example over the main mean [N]."""
    everything = sorted({test.corruption for test in scored.outcomes if test.severity})
    return scored.mean_of(scored.weights(scored.benchmark.means.get(main, everything)), "accuracy")


def save_evaluation(
    prepared: Prepared, records: Sequence[Mapping[str, Any]], comparisons: Sequence[Mapping[str, Any]]
) -> Path:
    """Write the records, tables and page of an evaluation; returns the path of the page."""
    folder = prepared.evaluation.folder
    for record in records:
        write_proved(prepared.evaluation.home(record["model"]["name"]) / RECORD, record)
    write_proved(folder / COMPARISONS, {"kind": "comparisons", "rows": list(comparisons)})
    tables = {"tests.csv": tests_table(records)}
    if any(record["clean"] for record in records):
        tables["results-clean.csv"] = timm_table(records, None)
    if any(record["means"] for record in records):
        tables[f"results-{prepared.evaluation.benchmark.name}.csv"] = timm_table(records, main_mean(prepared))
    for name, content in {**tables, PAGE: evaluation_page(records, comparisons)}.items():
        write_whole(folder / name, content)
    return folder / PAGE


_TIMM = ("model", "img_size", "top1", "top1_err", "top5", "top5_err", "param_count", "crop_pct", "interpolation")


def timm_table(records: Sequence[Mapping[str, Any]], mean: str | None) -> str:
    """A results file as timm publishes them: percentages, sorted by top1; a mean adds differences from clean."""
    rows = []
    for record in records:
        numbers = record["clean"] if mean is None else record["means"].get(mean)
        if numbers:
            rows.append(_timm_row(record, numbers, mean is not None))
    rows.sort(key=lambda row: -float(row["top1"]))
    extra = ("top1_diff", "top5_diff") if mean is not None else ()
    return _csv([*_TIMM, *extra], rows)


def _timm_row(record: Mapping[str, Any], numbers: Mapping[str, Any], with_gap: bool) -> dict[str, str]:
    top = {name: numbers[key]["value"] for name, key in (("top1", "accuracy"), ("top5", "top5")) if key in numbers}
    row = {
        "model": record["model"]["name"],
        "img_size": str(record["model"]["size"]),
        "param_count": f"{record['model']['parameters'] / 1e6:,.2f}",
        "crop_pct": "0.875" if record["data"]["size"][0] >= 128 else "1.000",
        "interpolation": "bilinear",
    }
    for name, value in top.items():
        row |= {name: f"{100 * value:.3f}", f"{name}_err": f"{100 - 100 * value:.3f}"}
        key = "accuracy" if name == "top1" else name
        if with_gap and record["clean"]:
            row[f"{name}_diff"] = f"{100 * (value - record['clean'][key]['value']):+.3f}"
    return row


def tests_table(records: Sequence[Mapping[str, Any]]) -> str:
    """One row per model, corruption and severity; shares from 0 to 1."""
    rows = []
    for record in records:
        for corruption, row in record["tests"].items():
            for severity, numbers in row.items():
                plain = {name: f"{value:.6g}" for name, value in numbers.items() if isinstance(value, float)}
                ends = {"accuracy": "value", "accuracy_low": "low", "accuracy_high": "high"}
                accuracy = {name: f"{numbers['accuracy'][end]:.6g}" for name, end in ends.items()}
                names = {"model": record["model"]["name"], "corruption": corruption, "severity": severity}
                rows.append(names | accuracy | plain)
    head = ["model", "corruption", "severity", "accuracy", "accuracy_low", "accuracy_high"]
    return _csv([*head, "top5", "nll", "brier", "ece", "flip"], rows)


def _csv(head: Sequence[str], rows: Sequence[Mapping[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, head, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def files_of(folder: Path) -> list[Path]:
    """The records of all models below a folder."""
    return sorted(folder.glob(f"**/{RECORD}"))
