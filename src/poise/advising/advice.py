"""`advise`: which method suits a user's own data; and `with_test`, which tests its answer on the test set.

advice.json     the answer, and all that the page shows
advice.html     the page
frontier.svg    its figure
recommended.py  the training loop to paste, if something was decided
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from poise.advising.budget import SEEDS, new_budget, saved_budget
from poise.advising.candidates import BASELINE
from poise.advising.comparison import Report, run_rounds, runners, scores_of
from poise.advising.decision import LOSS, decide
from poise.advising.own_data import OwnData
from poise.classifier import both_classes, evaluating
from poise.data.loading.resident import as_read
from poise.errors import TrainingError
from poise.io.documents import write_proved, write_whole
from poise.reporting.advice_page import advice_page, frontier_figure
from poise.reporting.figures.forest import standalone
from poise.running.judge import placed

ANSWER = "advice.json"


def _silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


def advise(
    data: OwnData,
    out: Path,
    minutes: float,
    device: torch.device,
    report: Report = _silent,
    accepted: float = LOSS,
    keep: bool = False,
) -> dict[str, Any]:
    """Compare the candidates for at most this long, and write and return the answer.

    accepted  what a recommended method may lose in a column.
    keep      keep the weights of all candidates, to test them.
    """
    deadline = time.monotonic() + 60 * minutes
    out.mkdir(parents=True, exist_ok=True)
    budget = saved_budget(out, data) or new_budget(out, data, minutes, device)
    compared = run_rounds(data, budget, out, device, deadline, report, keep)
    found = decide(data, budget, compared, scores_of(data), accepted)
    write_answer(out, found)
    return found


def write_answer(out: Path, found: dict[str, Any]) -> None:
    """Write the files of an answer."""
    write_proved(out / ANSWER, found)
    write_whole(out / "advice.html", advice_page(found))
    write_whole(out / "frontier.svg", standalone(frontier_figure(found)))
    if found["code"]:
        write_whole(out / "recommended.py", found["code"])


def with_test(data: OwnData, out: Path, found: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The answer, also with the chosen method and cross-entropy on the test set; it is written again."""
    names = [BASELINE, *([found["chosen"]] if found["chosen"] != BASELINE else [])]
    found = {**found, "test": measured_on_test(data, out, names, device)}
    write_answer(out, found)
    return found


def measured_on_test(
    data: OwnData, out: Path, names: list[str], device: torch.device, first: int = SEEDS[-1]
) -> dict[str, dict[str, float]]:
    """{method: {column: mean over the first seeds}} of trained methods on the test set."""
    budget = saved_budget(out, data)
    if budget is None or data.test is None:
        raise TrainingError(f"{data.path.name} defines no test" if budget else f"{out} has no plan")
    trained, tested = runners(data, budget, out, device), runners(data, budget, out, device, test=True)
    for runner in dict.fromkeys(tested):
        runner.begin(names, None)
    found: dict[str, dict[str, float]] = {}
    for name in names:
        method = next(each for each in tested[0].experiment.methods if each.name == name)
        seeds = [seed for seed, runner in enumerate(trained[:first]) if runner.is_finished(method, seed)]
        for seed in seeds:
            tested[seed].attempt(method, seed, again=True)
        records = [record for seed in seeds if (record := tested[seed].record(method, seed))]
        values = {
            column.name: [v for r in records if (v := column.value(r.scores, r.classes)) is not None]
            for column in tested[0].experiment.columns
        }
        found[name] = {column: float(np.mean(each)) for column, each in values.items() if each}
    return found


def require_fitting(data: OwnData, device: torch.device) -> None:
    """ValueError unless the network runs on the data and has a logit for each class."""
    rows, _ = placed(data.parts(0)[1], device)
    model = data.network().to(device)
    logits = _logits(data, model, as_read(rows[:2]))
    if logits.ndim != 2 or logits.shape[1] != data.num_classes:
        raise ValueError(
            f"{data.path}: network returns logits {list(logits.shape)} for two examples, but train has "
            f"{data.num_classes} classes: return [B, {data.num_classes}]"
        )
    if not math.isfinite(float(logits.sum())):
        raise ValueError(f"{data.path}: a new network returns logits that are not finite")


def _logits(data: OwnData, model: nn.Module, x: Any) -> torch.Tensor:
    try:
        with evaluating(model), torch.no_grad():
            return both_classes(model(x))
    except Exception as error:  # a user's network may raise anything
        words = " ".join(str(error).split())
        raise ValueError(
            f"{data.path}: network fails on two examples of shape {list(getattr(x, 'ids', x).shape)}: "
            f"{type(error).__name__}: {words[:200]}"
        ) from None
