"""Records of evaluations as `poise evaluate` writes them, and published results, made by hand."""

from typing import Any


def number(value: float, reach: float = 0.01, **more: Any) -> dict[str, Any]:
    return {"value": value, "low": value - reach, "high": value + reach, **more}


def evaluated(name: str, clean: float, corrupted: float, examples: int = 500, labels: str = "a") -> dict[str, Any]:
    """The record of a model as `poise evaluate` writes it."""
    numbers = {"accuracy": number(corrupted), "ece": number(0.1), "flip": number(0.2), "nll": number(1.5)}
    cell = {"accuracy": number(corrupted), "nll": 1.5, "brier": 0.4, "ece": 0.1}
    return {
        "kind": "evaluation of a model",
        "model": {"name": name, "parameters": 1000, "classes": 10, "size": 32, "digest": name},
        "benchmark": "cifar10-c",
        "title": "CIFAR-10-C",
        "main": "all 15",
        "data": {"name": "cifar10 (test)", "examples": examples, "of": 10_000, "size": [32, 32], "labels": labels},
        "settings": {"seed": 0, "made": "made as the published set was"},
        "notes": [f"a note on {name}"],
        "cost": {"seconds": 5.0, "images": 100, "images per second": 20.0},
        "clean": {"accuracy": number(clean), "ece": number(0.05)},
        "means": {"all 15": {**numbers, "worst class": number(corrupted / 2, name="cat")}},
        "tests": {"fog": {"1": cell, "5": cell}},
        "reliability": {"clean": [[30, 0.5, 0.4], [70, 0.9, 0.95]], "corrupted": [[100, 0.8, 0.5]]},
        "surroundings": {"device": "a CPU"},
    }


THEIRS = {
    "benchmark": "cifar10-c",
    "mean": "all 15",
    "source": "RobustBench, commit 78fcc9e",
    "rows": [{"model": "AugMix", "clean": 0.9508, "corrupted": 0.8882}],
}
