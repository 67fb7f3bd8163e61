"""From what was measured to the result: numbers, slices, verdict, and the facts for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import torch

from poise.auditing.collect import Collected, embedding_distance
from poise.auditing.design import Plan
from poise.auditing.result import Audit
from poise.auditing.statistics.numbers import (
    Table,
    corruption_cells,
    numbers,
    perturbation,
    plane_draws,
    rare_classes,
    slices,
    table_of,
)
from poise.auditing.statistics.search import search
from poise.auditing.verdict import (
    LEAST_FAR,
    MOST_NEAR_SHIFT,
    NEUTRAL,
    SURE,
    confusions,
    from_classes,
    from_features,
    in_a_ring,
    judge,
    misnumbered,
)
from poise.checks import require_several, require_whole
from poise.classifier import Classifier
from poise.features.sensitivity import JacobianSensitivity

VERSION = 1


@dataclass(frozen=True)
class Names:
    """What things are called, for the page.

    features  the columns of a table
    rare      the rare classes; by default those with less than half of the average number of examples
    decode    the word of a token id
    """

    model: str = ""
    data: str = "given examples"
    classes: Sequence[str] = ()
    features: Sequence[str] = ()
    rare: Sequence[int] | None = None
    decode: Callable[[int], str] | None = None

    def __post_init__(self) -> None:
        for name in ("model", "data"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name}={getattr(self, name)!r} must be a word")
        for name in ("classes", "features"):
            require_several(name, getattr(self, name))
        if self.rare is not None:
            require_several("rare", self.rare)
            for place, number in enumerate(self.rare):
                require_whole(f"rare[{place}]", number, least=0)
        if self.decode is not None and not callable(self.decode):
            raise TypeError(f"decode={self.decode!r} must be a function from an id to its word")


def summed_up(
    model: Classifier, collected: Collected, plan: Plan, names: Names, complete: bool, seconds: float
) -> Audit:
    """Every number of what was collected, whether all of it was or only a part."""
    rows = collected.rows()
    table = table_of(rows, embedding_distance(rows["embedding"]))
    counts = Counter(int(label) for label in table.label)
    found = numbers(table, plan.making, plan.middle)
    errors = search(model, rows, collected, names.features, lambda number: _word(number, names))
    chance = max(counts.values()) / len(table.label)
    draws = plane_draws(table, plan.middle)
    taken = confusions(table.label, table.predicted)
    better = found["accuracy"].low > chance  # one that guesses takes every class for another
    told = [*from_features(errors), *(from_classes(taken, names.classes) if better else [])]
    verdict = misnumbered(judge(found, draws, told, chance), in_a_ring(taken), names.classes)
    rare = rare_classes(counts) if names.rare is None else list(names.rare)
    telling, arrays = _telling(collected, table, plan, names)
    facts: dict[str, Any] = {
        "version": VERSION,
        "kind": "audit",
        "complete": complete,
        "examples": len(table.label),
        "seconds": round(seconds, 2),
        "model": _model(model, names.model, rows),
        "data": {
            "name": names.data,
            "kind": "tokens" if collected.tokens else "tensor",
            "shape": list(collected.shape),
            "class_names": [str(each) for each in names.classes],
            "feature_names": [str(each) for each in names.features],
            "classes_seen": len(counts),
        },
        "settings": _settings(plan),
        "middle": plan.middle,
        "verdict": verdict.as_dict(),
        "thresholds": {"least_far": LEAST_FAR, "neutral": NEUTRAL, "most_near_shift": MOST_NEAR_SHIFT, "sure": SURE},
        "leftover": [each.as_dict() for each in errors],
        "confusions": [each.as_dict() for each in taken],
        "numbers": {name: number.as_dict() for name, number in found.items()},
        "estimator": _estimator(plan),
        "perturbation": perturbation(table, tuple(step.strength for step in plan.steps)),
        "corruptions": corruption_cells(table, plan.making),
        "slices": slices(table, collected.columns, names.classes, rare, plan.middle),
        "telling": telling,
        "notes": [*plan.notes, *_warnings(table, counts, rows["logits"].shape[1])],
    }
    return Audit(facts, table, plan.making, collected.columns, arrays, collected.sources)


def _model(model: Classifier, name: str, rows: dict[str, np.ndarray]) -> dict[str, Any]:
    weights = sum(p.numel() for p in model.parameters())
    device = next((str(p.device) for p in model.parameters()), "cpu")
    shape = {"classes": rows["logits"].shape[1], "embedding": rows["embedding"].shape[1]}
    return {"name": name, **shape, "weights": weights, "device": device, "torch": torch.__version__}


def _settings(plan: Plan) -> dict[str, Any]:
    return {
        "utility": repr(plan.utility),
        "sensitivity": repr(plan.sensitivity),
        "strengths": [step.strength for step in plan.steps],
        "select": repr(plan.steps[plan.middle].select),
        "corruptions": list(plan.making.corruptions) if plan.making else [],
        "severities": list(plan.making.severities) if plan.making else [],
        "profile": plan.making.profile if plan.making else None,
        "seed": plan.seed,
    }


def _estimator(plan: Plan) -> dict[str, Any]:
    """How sensitivity was measured, and the standard error of one feature's estimate relative to its value."""
    probes = plan.sensitivity.probes if isinstance(plan.sensitivity, JacobianSensitivity) else None
    return {"probes": probes, "relative_error": 0.0 if probes is None else 1 / sqrt(2 * probes)}


def _word(number: int, names: Names) -> str:
    return names.decode(number) if names.decode else str(number)


def _telling(
    collected: Collected, table: Table, plan: Plan, names: Names
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    entries: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    near, far = (table.gain(side, plan.middle) for side in ("near", "far"))
    for place, (why, example) in enumerate(collected.showcase.chosen(near)):
        number = example.number
        entry: dict[str, Any] = {
            "why": why,
            "example": number,
            "source": collected.sources[number] or None,
            "label": int(table.label[number]),
            "predicted": int(table.predicted[number]),
            "confidence": float(table.confidence[number]),
            "observed_rank_correlation": _known(table.rank_correlation[number]),
            "near_gain": _known(near[number]),
            "far_gain": _known(far[number]),
        }
        if example.feature is not None:
            entry["words"] = [_word(int(word), names) for word in example.x]
            entry["feature"] = [bool(each) for each in example.feature]
        entries.append(entry)
        arrays |= {f"x_{place}": example.x, f"u_{place}": example.u, f"s_{place}": example.s}
    return entries, arrays


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _warnings(table: Table, counts: Counter[int], num_classes: int) -> list[str]:
    notes = []
    if len(counts) == 1:
        notes.append("all examples are of one class: shuffle the loader")
    elif len(counts) < min(num_classes, len(table.label)) / 2:
        notes.append(
            f"the sample holds {len(counts)} of {num_classes} classes: shuffle the loader, or take more examples"
        )
    if len(table.label) < 50:
        notes.append("fewer than 50 examples: intervals are wide and verdicts rarely sure")
    unranked = int(np.isnan(table.rank_correlation).sum())
    if unranked:
        notes.append(f"{unranked} examples have no rank correlation: constant, or fewer than 3 features")
    return notes
