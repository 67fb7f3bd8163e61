"""The result of an audit: its numbers, verdict and examples, and the files that store them.

audit.json     all numbers and the verdict (docs/audit.md has the schema)
examples.csv   one row per example
telling.npz    inputs, utility and sensitivity of the examples on the page
index.html     the page, made from audit.json and telling.npz alone
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch

from poise.auditing.design import AuditPlan, noise_of
from poise.auditing.estimates.misuse import MisusedFeature, search_misused_features
from poise.auditing.estimates.numbers import (
    Measurements,
    Number,
    corruption_cells,
    measurements_of,
    not_measured,
    numbers,
    paired_values,
    perturbation,
    slices,
)
from poise.auditing.measure import Collected
from poise.auditing.mismatch import at_chance, look_for_mismatch
from poise.auditing.parts import Parts, look_at_parts
from poise.auditing.verdict import (
    LEAST_DROP,
    LEAST_FAR,
    NEUTRAL,
    RELIES,
    Confusion,
    Verdict,
    confusions,
    from_blindness,
    from_classes,
    from_drop,
    from_features,
    from_outside,
    from_parts,
    judge,
    too_few,
)
from poise.checks import require_several, require_whole
from poise.classifier import Classifier
from poise.corruptions.corrupt import Making
from poise.features.sensitivity import JacobianSensitivity
from poise.io.documents import write_json, write_whole
from poise.io.files import new_file, new_files

PAGE = "index.html"
VERSION = 1
_INTERRUPTED = "interrupted: what the answers depend on was not examined"
RARE = 0.5  # times the mean number of examples of a class


@dataclass(frozen=True, eq=False)
class Audit:
    """The audit of one model; `print` shows it, `save` writes it.

    facts    the content of audit.json.
    table    one row per example.
    arrays   {"x_0", "u_0", "s_0", ...}: the examples listed in facts["telling"].
    sources  the file or row of each example; "" if unknown.
    """

    facts: dict[str, Any]
    table: Measurements = field(repr=False)
    making: Making | None = field(repr=False)
    columns: dict[str, list[str]] = field(repr=False)
    arrays: dict[str, np.ndarray] = field(repr=False)
    sources: list[str] = field(repr=False, default_factory=list)

    @property
    def verdict(self) -> str:
        """The verdict as a sentence."""
        return str(self.facts["verdict"]["sentence"])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the verdict; there may be several.

        "relies", "misses", "breaks", "no weakness found", "mismatch" or "undecided".
        """
        return tuple(self.facts["verdict"]["names"])

    @property
    def middle(self) -> int:
        return int(self.facts["middle"])

    def __getitem__(self, name: str) -> float:
        """A number by its name, such as audit["noise_accuracy"]; nan if it is unknown.

        Raises KeyError if it was not measured, such as the accuracy under an omitted corruption.
        """
        if name not in self.facts["numbers"]:
            raise KeyError(not_measured(name, self.facts["numbers"]))
        value = self.facts["numbers"][name]["value"]
        return float("nan") if value is None else float(value)

    def __str__(self) -> str:
        return summary(self.facts)

    def save(self, folder: Path | str, beside: tuple[Path, ...] = ()) -> Path:
        """Write the four files, all or none, and return the path of the page.

        beside  folders of other audits to show in the plane.
        """
        from poise.reporting.audit_page import audit_page

        home = Path(folder)
        with new_files(home, PAGE) as stage:
            write_audit(self, stage)
            write_whole(stage / PAGE, audit_page(stage, beside))
        return home / PAGE


@dataclass(frozen=True)
class Names:
    """Display names for the page.

    features  the columns of a table
    rare      the rare classes; by default those with less than half of the average number of examples
    decode    maps a token id to its word
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
                raise TypeError(f"{name}={getattr(self, name)!r} must be a string")
        for name in ("classes", "features"):
            require_several(name, getattr(self, name))
        if self.rare is not None:
            require_several("rare", self.rare)
            for place, number in enumerate(self.rare):
                require_whole(f"rare[{place}]", number, least=0)
        if self.decode is not None and not callable(self.decode):
            raise TypeError(f"decode={self.decode!r} must be a function from a token id to its word")


def build_audit(
    model: Classifier, collected: Collected, plan: AuditPlan, names: Names, complete: bool, seconds: float
) -> Audit:
    """Compute the numbers and the verdict from the measurements so far."""
    rows = collected.rows()
    table = measurements_of(rows, rows["embedding"])
    counts = Counter(int(label) for label in table.label)
    found = numbers(table, plan.making, plan.middle)
    word = partial(_word, names=names)
    errors = search_misused_features(model, rows, collected, names.features, word)
    confused = confusions(table.label, table.predicted)
    enough = complete and not too_few(len(table.label), len(counts))  # after Ctrl-C, only what was measured
    parts = look_at_parts(model, collected, rows, names.features, word) if enough else Parts()
    verdict = _verdict(rows, found, errors, confused, parts, collected, plan, names.classes)
    rare = rare_classes(counts) if names.rare is None else list(names.rare)
    telling, arrays = _notable_examples(collected, table, plan, names)
    proofs, shown = _proofs(parts, collected, names)
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
        "thresholds": {"least_drop": LEAST_DROP, "least_far": LEAST_FAR, "neutral": NEUTRAL},
        "leftover": [each.as_dict() for each in errors],
        **parts.as_dict(),
        "worst_case": _worst_case(parts, plan),
        "proofs": proofs,
        "confusions": [each.as_dict() for each in confused],
        "numbers": {name: number.as_dict() for name, number in found.items()},
        "estimator": _estimator(plan),
        "perturbation": perturbation(table, tuple(step.strength for step in plan.steps)),
        "corruptions": corruption_cells(table, plan.making),
        "slices": slices(table, collected.columns, names.classes, rare, plan.middle),
        "telling": telling,
        "notes": [*plan.notes, *_warnings(table, counts, rows["logits"].shape[1], complete)],
    }
    return Audit(facts, table, plan.making, collected.columns, arrays | shown, collected.sources)


def _verdict(
    rows: dict[str, np.ndarray],
    found: dict[str, Number],
    errors: Sequence[MisusedFeature],
    confused: Sequence[Confusion],
    parts: Parts,
    collected: Collected,
    plan: AuditPlan,
    names: Sequence[str],
) -> Verdict:
    """The verdict from the answers: too few examples, then a mismatch, then everything else."""
    labels, count = rows["label"], len(rows["label"])
    if few := too_few(count, len(np.unique(labels))):
        return judge(few, count)
    unfit, first = look_for_mismatch(rows["logits"].astype(float), labels, found, names, parts.held)
    if unfit:
        return judge(unfit, count)
    chance = at_chance(found["accuracy"], labels)
    outside = from_outside(found) if collected.outside or not plan.is_own else []
    reliance = [*from_features(errors), *from_parts(parts.influences)]
    if chance and not outside and not any(each.name == RELIES for each in reliance):
        return judge(chance, count)
    misses = [] if chance else [*from_classes(confused, names), *from_blindness(parts.blind)]
    return judge([*reliance, *outside, *misses, *from_drop(found, noise_of(plan))], count, first)


def _worst_case(parts: Parts, plan: AuditPlan) -> list[dict[str, Any]]:
    """The radii at which answers turn, if they are wanted."""
    if parts.held is None or not plan.worst_case:
        return []
    from poise.auditing.worst_case import worst_case

    return [each.as_dict() for each in worst_case(parts.held, plan.memory)]


def _model(model: Classifier, name: str, rows: dict[str, np.ndarray]) -> dict[str, Any]:
    weights = sum(p.numel() for p in model.parameters())
    device = next((str(p.device) for p in model.parameters()), "cpu")
    shape = {"classes": rows["logits"].shape[1], "embedding": rows["embedding"].shape[1]}
    return {"name": name, **shape, "weights": weights, "device": device, "torch": torch.__version__}


def _settings(plan: AuditPlan) -> dict[str, Any]:
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


def _estimator(plan: AuditPlan) -> dict[str, Any]:
    """The number of probes, and the relative standard error of the sensitivity of one feature."""
    probes = plan.sensitivity.probes if isinstance(plan.sensitivity, JacobianSensitivity) else None
    return {"probes": probes, "relative_error": 0.0 if probes is None else 1 / sqrt(2 * probes)}


def rare_classes(counts: Mapping[int, int]) -> list[int]:
    """Classes with less than half as many examples as a class has on average."""
    if not counts:
        return []
    average = sum(counts.values()) / len(counts)
    return sorted(label for label, count in counts.items() if count < RARE * average)


def _word(number: int, names: Names) -> str:
    return names.decode(number) if names.decode else str(number)


def _notable_examples(
    collected: Collected, table: Measurements, plan: AuditPlan, names: Names
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


def _proofs(parts: Parts, collected: Collected, names: Names) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Examples before and after a change; sentences as words."""
    entries: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    for place, (part, proof) in enumerate([*parts.proofs, *collected.showcase.flipped()]):
        entry = {
            "part": part,
            "example": proof.example,
            "source": collected.sources[proof.example] or None,
            "answer_before": proof.answer_before,
            "answer_after": proof.answer_after,
        }
        for when, x in (("before", proof.before), ("after", proof.after)):
            if collected.tokens:
                entry[f"words_{when}"] = [_word(int(word), names) for word in x]
            arrays[f"{when}_{place}"] = x
        entries.append(entry)
    return entries, arrays


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _warnings(table: Measurements, counts: Counter[int], num_classes: int, complete: bool) -> list[str]:
    notes = [] if complete else [_INTERRUPTED]
    if len(counts) == 1:
        notes.append("all examples belong to one class: shuffle the loader")
    elif len(counts) < min(num_classes, len(table.label)) / 2:
        notes.append(
            f"the sample contains {len(counts)} of {num_classes} classes: shuffle the loader, or use more examples"
        )
    if len(table.label) < 50:
        notes.append("fewer than 50 examples: intervals are wide, and only large weaknesses show")
    unranked = int(np.isnan(table.rank_correlation).sum())
    if unranked:
        notes.append(f"{unranked} examples have no rank correlation: they are constant, or have fewer than 3 features")
    return notes


def write_audit(audit: Audit, home: Path) -> None:
    """Write all files except the page."""
    home.mkdir(parents=True, exist_ok=True)
    write_whole(home / "examples.csv", _csv(audit))
    with new_file(home / "telling.npz") as stream:
        np.savez_compressed(stream, **audit.arrays)  # type: ignore[arg-type]
    write_json(home / "audit.json", audit.facts)


def summary(facts: dict[str, Any]) -> str:
    """The verdict and the numbers as text."""
    model, data = facts["model"], facts["data"]
    part = "" if facts["complete"] else " (interrupted)"
    lines = [f"{model['name']} on {data['name']}, {facts['examples']} examples{part}", facts["verdict"]["sentence"], ""]
    lines.append(f"{'':30}{'value':>8}   95 % interval")
    for name, number in facts["numbers"].items():
        lines.append(f"{name.replace('_', ' '):30}{_cell(number['value']):>8}   {_span(number)}")
    lines += _attacked(facts.get("worst_case", []))
    lines += ["", *(f"note: {note}" for note in facts["notes"])] if facts["notes"] else []
    return "\n".join(lines)


def _attacked(entries: Sequence[dict[str, Any]]) -> list[str]:
    """The radii at which half of the answers turn, and that they certify nothing."""
    if not entries:
        return []
    count, steps = entries[0]["radius"]["examples"], entries[0]["steps"]
    lines = ["", f"smallest change that an attack of {steps} steps found to turn half of {count} answers"]
    lines += [
        f"{each['norm'] + ' radius':30}{_cell(each['radius']['value']):>8}   {_span(each['radius'])}"
        for each in entries
    ]
    return [*lines, "no certificate: a stronger attack may find less"]


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _span(number: dict[str, Any]) -> str:
    if number["low"] is None:
        return ""
    return f"{number['low']:.3f} " + ("or more" if number["high"] is None else f"to {number['high']:.3f}")


def _csv(audit: Audit) -> str:
    """One row per example; gains at the middle strength."""
    table, middle = audit.table, audit.middle
    columns: dict[str, Any] = {
        "example": np.arange(len(table.label)),
        "source": audit.sources or [""] * len(table.label),
        "label": table.label,
        "predicted": table.predicted,
        "confidence": table.confidence,
        "observed_rank_correlation": table.rank_correlation,
        "top_overlap": table.top_overlap,
        "near_gain": table.gain("near", middle),
        "far_gain": table.gain("far", middle),
    }
    columns |= paired_values(table, audit.making, middle)
    columns |= {f"data.{name}" if name in columns else name: values for name, values in audit.columns.items()}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_plain(values) for values in columns.values()), strict=True))
    return stream.getvalue()


def _plain(values: Any) -> list[Any]:
    """Numbers with six digits, words unchanged."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return [f"{value:.6g}" for value in values]
    return list(values)
