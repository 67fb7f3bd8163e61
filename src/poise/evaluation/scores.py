"""Scores: the numbers of a model from its outcomes, with intervals over examples.

    accuracy, top5     the share of examples whose label has the largest logit, or one of the five largest
    nll, brier         means over examples
    ece                the expected calibration error in 15 bins
    flip               the share of examples whose class differs from that of the clean image
    worst class        the lowest accuracy of a class, and of a group
    mCE                mean_c error_c / reference error_c, over the 15 corruptions with a reference
    relative mCE       mean_c (error_c - clean error) / (reference error_c - reference clean error)

Over several test sets every number is the mean of those of the test sets, first over the severities of a corruption.
Its interval is over examples: the values of an example under all corruptions are one value.

Axes: N examples, T test sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from poise.corruptions.protocols import REFERENCE_CLEAN_ERRORS
from poise.evaluation.benchmarks import Benchmark, TestSet
from poise.evaluation.clustered import (
    Interval,
    calibration_bins,
    calibration_error,
    calibration_of,
    of_calibration,
    of_lowest,
    of_mean,
    of_share,
    resamples,
)
from poise.evaluation.outcomes import Outcomes

BINS = 15
Numbers = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Scored:
    """What the scores of a model are computed from.

    labels  [N].
    groups  {column: the value of each example}.
    paired  whether row i of the clean images and of every test set is the same image.
    """

    benchmark: Benchmark
    outcomes: Mapping[TestSet, Outcomes]
    labels: np.ndarray
    classes: Sequence[str]
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    paired: bool = True
    many_classes: bool = True

    def weights(self, names: Sequence[str]) -> dict[TestSet, float]:
        """The weight of each test set in a mean over corruptions; {} unless all of them were measured."""
        held = {name: [test for test in self.outcomes if test.corruption == name] for name in names}
        if not all(held.values()):
            return {}
        return {test: 1 / len(tests) / len(names) for tests in held.values() for test in tests}

    def mean_of(self, weights: Mapping[TestSet, float], value: str) -> np.ndarray:
        """The weighted mean over test sets of a value of each example [N]."""
        total = np.zeros(len(next(iter(self.outcomes.values()))))
        for test, weight in weights.items():
            total += weight * self._values(test, value)
        return total

    def _values(self, test: TestSet, value: str) -> np.ndarray:
        outcomes = self.outcomes[test]
        if value == "accuracy":
            return outcomes.right
        if value == "flip":
            clean = self.outcomes[TestSet()]
            flipped: np.ndarray = outcomes.predicted != clean.predicted
            return flipped
        found: np.ndarray = outcomes.rank < 5 if value == "top5" else getattr(outcomes, value)
        return found

    @property
    def flips(self) -> bool:
        """Whether the clean images were measured in the same order."""
        return self.paired and TestSet() in self.outcomes


def scores(scored: Scored) -> Numbers:
    """All numbers of a model, for JSON."""
    drawn = resamples(len(scored.labels))
    means = {name: scored.weights(members) for name, members in scored.benchmark.means.items()}
    means = {name: weights for name, weights in means.items() if weights}
    if not means:
        everything = sorted({test.corruption for test in scored.outcomes if test.severity})
        means = {"measured": scored.weights(everything)} if everything else {}
    clean = TestSet()
    found: Numbers = {
        "clean": _numbers(scored, {clean: 1.0}, drawn, True) if clean in scored.outcomes else None,
        "means": {name: _numbers(scored, weights, drawn, n == 0) for n, (name, weights) in enumerate(means.items())},
        "tests": _by_test(scored),
        "reliability": _reliability(scored, means),
    }
    return found | _corruption_errors(scored)


def _numbers(scored: Scored, weights: Mapping[TestSet, float], drawn: np.ndarray, worst: bool) -> Numbers:
    """The numbers of a mean over test sets; `worst` adds those that need the examples of every class."""
    right = scored.mean_of(weights, "accuracy")
    found = {"accuracy": of_share(right).as_dict()}
    if scored.many_classes:
        found["top5"] = of_share(scored.mean_of(weights, "top5")).as_dict()
    for name in ("nll", "brier"):
        found[name] = of_mean(scored.mean_of(weights, name)).as_dict()
    found["ece"] = _calibration(scored, weights, drawn).as_dict()
    if scored.flips and TestSet() not in weights:
        found["flip"] = of_share(scored.mean_of(weights, "flip")).as_dict()
    if worst:
        found |= _worst(scored, right)
    return found


def _calibration(scored: Scored, weights: Mapping[TestSet, float], drawn: np.ndarray) -> Interval:
    held = [scored.outcomes[test] for test in weights]
    each = [calibration_of(outcomes.confidence, outcomes.right.astype(float), drawn, BINS) for outcomes in held]
    return of_calibration(each, list(weights.values()))


def _worst(scored: Scored, right: np.ndarray) -> Numbers:
    label, number = of_lowest(right, scored.labels)
    name = scored.classes[label] if label < len(scored.classes) else str(label)
    found = {"worst class": {**number.as_dict(), "name": name}}
    for column, values in scored.groups.items():
        names, members = np.unique(np.asarray(values), return_inverse=True)
        group, number = of_lowest(right, members)
        found[f"worst {column}"] = {**number.as_dict(), "name": str(names[group])}
    return found


def _by_test(scored: Scored) -> dict[str, dict[str, Numbers]]:
    """{corruption: {severity: numbers}}"""
    found: dict[str, dict[str, Numbers]] = {}
    for test, outcomes in scored.outcomes.items():
        if not test.severity:
            continue
        right = outcomes.right.astype(float)
        row: Numbers = {
            "accuracy": of_share(right).as_dict(),
            "nll": float(outcomes.nll.mean()),
            "brier": float(outcomes.brier.mean()),
            "ece": calibration_error(outcomes.confidence, right, BINS),
        }
        if scored.many_classes:
            row["top5"] = float((outcomes.rank < 5).mean())
        if scored.flips:
            row["flip"] = float(scored._values(test, "flip").mean())
        found.setdefault(test.corruption, {})[str(test.severity)] = row
    return found


def _reliability(scored: Scored, means: Mapping[str, Mapping[TestSet, float]]) -> dict[str, list[list[float]]]:
    """Of the clean and of all corrupted images: [examples, mean confidence, accuracy] of each bin that has some."""
    kinds: dict[str, list[TestSet]] = {}
    if TestSet() in scored.outcomes:
        kinds["clean"] = [TestSet()]
    if means:
        kinds["corrupted"] = list(next(iter(means.values())))
    found = {}
    for kind, tests in kinds.items():
        confidence = np.concatenate([scored.outcomes[test].confidence for test in tests]).astype(float)
        right = np.concatenate([scored.outcomes[test].right for test in tests])
        bins = calibration_bins(confidence, BINS)
        counts, sums, hits = (np.bincount(bins, held, BINS) for held in (None, confidence, right))
        found[kind] = [[int(n), float(s / n), float(h / n)] for n, s, h in zip(counts, sums, hits, strict=True) if n]
    return found


def _corruption_errors(scored: Scored) -> Numbers:
    """mCE and relative mCE, if the benchmark has a reference for these classes; both are linear in the errors."""
    reference = scored.benchmark.reference
    if reference is None or len(scored.classes) != scored.benchmark.classes:
        return {}
    if not (weights := scored.weights(list(reference))):
        return {}
    scale = {test: weight / reference[test.corruption] for test, weight in weights.items()}
    found = {"mCE": of_mean(sum(scale.values()) - scored.mean_of(scale, "accuracy")).as_dict()}
    clean_error = REFERENCE_CLEAN_ERRORS[scored.benchmark.name]
    if scored.flips:
        scale = {test: w / (reference[test.corruption] - clean_error) for test, w in weights.items()}
        clean = scored.outcomes[TestSet()].right * sum(scale.values())
        found["relative mCE"] = of_mean(clean - scored.mean_of(scale, "accuracy")).as_dict()
    return found
