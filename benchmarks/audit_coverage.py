"""How often the 95 % intervals of an audit hold the truth: many samples from a population whose numbers are known.

    python benchmarks/audit_coverage.py    # 1,000 samples of 100 from 5,000: three minutes on one core
    python benchmarks/audit_coverage.py --model "lower half unseen" --samples 300

The population are 5,000 pictures of tests/auditing/planted_models.py, measured once by an audit; its numbers are the
truth. Each sample draws 100 of them with replacement and computes all numbers as an audit does. `beside` is a second
model on the same pictures, for the differences of a comparison.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "auditing"))

import numpy as np
import planted_models

from poise.auditing.compare import paired_differences
from poise.auditing.design import PROBES, AuditPlan, AuditSettings, make_plan
from poise.auditing.estimates.numbers import LEAST_OF_SLICE, Measurements, measurements_of, numbers, slices
from poise.auditing.measure import common_loss, measure
from poise.inputs.classifiers import as_classifier
from poise.inputs.examples import Batch

Rows = dict[str, np.ndarray]


def measured(name: str, count: int) -> tuple[Rows, AuditPlan]:
    """All measurements of one planted model on `count` pictures."""
    model = as_classifier(planted_models.PLANTED[name].model(), None)
    x, y = planted_models.pictures(count, 7)
    plan = make_plan(model, x[:64], AuditSettings(probes=PROBES))
    plan = replace(plan, loss=common_loss(model, [x[:32]]))
    chunks = list(measure(model, Batch(x, y, {}), 0, plan))
    return {each: np.concatenate([chunk.rows[each] for chunk in chunks]) for each in chunks[0].rows}, plan


def table_of(rows: Rows, chosen: np.ndarray) -> Measurements:
    part = {name: values[chosen] for name, values in rows.items() if not name.startswith("unit")}
    return measurements_of(part, part["embedding"])


def held(found: dict, truth: dict, hits: dict[str, list[bool]], wide: dict[str, list[float]]) -> None:
    """Note for each number whether its interval holds the truth, and how wide it is."""
    for name, value in truth.items():
        if name in found and found[name]["low"] is not None and value["value"] is not None:
            hits.setdefault(name, []).append(found[name]["low"] <= value["value"] <= found[name]["high"])
            wide.setdefault(name, []).append(found[name]["high"] - found[name]["low"])


def everything(table: Measurements, other: Measurements, plan: AuditPlan) -> dict:
    """All numbers, those of the slices, and the differences of a comparison."""
    found = {name: number.as_dict() for name, number in numbers(table, plan.making, plan.middle).items()}
    for each in slices(table, {}, [], [], plan.middle):
        if each["examples"] >= LEAST_OF_SLICE:
            found |= {f"class {each['value']}: {name}": number for name, number in each["numbers"].items()}
    for name, gap in paired_differences(table, other, plan.making, plan.middle).items():
        found[f"difference: {name}"] = {"value": gap.mean, "low": gap.low, "high": gap.high}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="label noise")
    parser.add_argument("--beside", default="noise-trained")
    parser.add_argument("--population", type=int, default=5000)
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--samples", type=int, default=1000)
    words = parser.parse_args()
    (rows, plan), (others, _) = (measured(name, words.population) for name in (words.model, words.beside))
    whole = np.arange(words.population)
    truth = everything(table_of(rows, whole), table_of(others, whole), plan)
    hits: dict[str, list[bool]] = {}
    wide: dict[str, list[float]] = {}
    draw = np.random.default_rng(0)
    for _ in range(words.samples):
        chosen = draw.integers(words.population, size=words.examples)
        held(everything(table_of(rows, chosen), table_of(others, chosen), plan), truth, hits, wide)
    for name, found in hits.items():
        value, width = truth[name]["value"], np.mean(wide[name])
        print(f"{name:44} truth {value:7.3f}  coverage {np.mean(found):.3f}  width {width:.3f}")


if __name__ == "__main__":
    main()
