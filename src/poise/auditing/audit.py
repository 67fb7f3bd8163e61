"""The audit: what does a trained classifier rely on, what does it miss, and when does it break?

An audit leaves the model unchanged. If Ctrl-C interrupts it, it returns the result for the examples measured so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any

import torch
from torch import nn

from poise.auditing.design import PROBES, AuditPlan, AuditSettings, make_plan
from poise.auditing.measure import Collected, common_loss, measure
from poise.auditing.result import Audit, Names, build_audit
from poise.checks import require_part, require_several, require_whole
from poise.classifier import Classifier, check_batch
from poise.features.sensitivity import JacobianSensitivity, RemovalSensitivity
from poise.features.utility import Utility
from poise.inputs.classifiers import as_classifier, precision_note, require_gradients
from poise.inputs.examples import Batch, batches, kind_of, sample_size
from poise.models.heads import known_head
from poise.tokens import Input

Progress = Callable[[str, int, int], None]
_OPENING = 32  # examples that set the common scale of the logits
_MEMORY = {"cpu": 2**28, "cuda": 2**33}


def audit(
    model: nn.Module | Classifier,
    loader: Iterable[Any],
    *,
    head: str | None = None,
    utility: Utility | None = None,
    sensitivity: JacobianSensitivity | RemovalSensitivity | None = None,
    strengths: tuple[float, ...] | None = None,
    fraction: float = 0.1,
    probes: int | None = PROBES,
    corruptions: str | Iterable[str] = "fast",
    severities: Iterable[int] | None = None,
    examples: int | None = None,
    seed: int = 0,
    memory: int | None = None,
    worst_case: bool = True,
    names: Names | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit a classifier on labelled examples: a verdict, numbers with intervals, and notable examples.

    model        any classifier with `embed` and `head`, or one that `split` supports; `head` names its last layer.
    loader       batches (x, y), (x, y, columns) or dicts in the style of Hugging Face; images in [0, 1], or Tokens.
                 Columns {name: values} define slices. A column named "utility" holds the utility of the features.
    utility      by default that of the model itself; TeacherUtility uses another model.
    strengths    sigmas of the noise, by default .1, .25 and .5; for text, the fractions of tokens to remove.
    fraction     the fraction of the features that counts as least and as most useful.
    probes       random probes, with relative error 1 / sqrt(2 probes) per feature; None for the exact Jacobian.
    corruptions  "fast" (one of each group, three severities), "all" (19 x 5), "none", or names.
    examples     their maximum, in the loader's order; by default 1000; on a CPU 100 images or 300 sentences.
    memory       the maximum size of a graph in bytes; by default 256 MB on a CPU and 8 GB on a GPU.
    worst_case   whether to attack some examples; not for tokens.
    names        display names of the model, data, classes, features and tokens.
    progress     called with the unit, the number of completed examples, and their maximum.
    """
    begin = time.perf_counter()
    _check_settings(loader, utility, sensitivity, examples, seed, memory, names, progress)
    classifier, device = _as_classifier(model, head)
    flow = batches(loader, device, examples)
    first = _first_batch(flow, classifier)
    limit = sample_size(kind_of(first.x), device) if examples is None else examples
    memory = memory or _MEMORY.get(device.type, 2**28)
    settings = AuditSettings(utility, sensitivity, strengths, fraction, probes, corruptions, severities, seed, memory)
    opening = _opening(chain([first], flow))
    loss = common_loss(classifier, _first_inputs(opening))
    plan = replace(make_plan(classifier, first.x, settings), loss=loss, worst_case=worst_case)
    plan = replace(plan, notes=(*plan.notes, *filter(None, [precision_note(model)])))  # type: ignore[arg-type]
    collected, complete = _collect(classifier, chain(opening, flow), plan, limit, progress)
    seconds = time.perf_counter() - begin
    return build_audit(classifier, collected, plan, _with_model_name(names or Names(), model), complete, seconds)


def _opening(flow: Iterable[Batch]) -> list[Batch]:
    """The first batches, with 32 examples or more if there are as many."""
    found: list[Batch] = []
    for batch in flow:
        found.append(batch)
        if sum(map(len, found)) >= _OPENING:
            break
    return found


def _first_inputs(opening: Sequence[Batch]) -> list[Input]:
    """The inputs of the first 32 examples, however they are batched."""
    starts = accumulate((len(batch) for batch in opening), initial=0)
    parts = [batch.rows(slice(0, max(0, _OPENING - start))).x for batch, start in zip(opening, starts, strict=False)]
    return [part for part in parts if len(part)]


def _check_settings(
    loader: Any, utility: Any, sensitivity: Any, examples: Any, seed: int, memory: Any, names: Any, progress: Any
) -> None:
    """Check the settings that do not depend on the data."""
    require_several("loader", loader)
    if examples is not None:
        require_whole("examples", examples, least=2)
    require_whole("seed", seed)
    if memory is not None:
        require_whole("memory", memory, least=1)
    if names is not None and not isinstance(names, Names):
        raise TypeError(f"names={names!r} must be poise.Names(...), not a {type(names).__name__}")
    if utility is not None:
        require_part("utility", utility, "check")
    for name, part in (("sensitivity", sensitivity), ("progress", progress)):
        if part is not None:
            require_part(name, part)


def _with_model_name(names: Names, model: object) -> Names:
    return names if names.model else replace(names, model=type(model).__name__)


def _as_classifier(model: nn.Module | Classifier, head: str | None) -> tuple[Classifier, torch.device]:
    """The model as embed and head, and the device of its weights."""
    whole = getattr(model, "_orig_mod", model)  # of torch.compile
    if isinstance(head, str) and isinstance(whole, nn.Module) and not hasattr(whole, head):
        known_head(whole, head)
    classifier: Any = as_classifier(model, head)  # type: ignore[arg-type]
    return classifier, next((p.device for p in classifier.parameters()), torch.device("cpu"))


def _first_batch(flow: Iterator[Batch], model: Classifier) -> Batch:
    first = next(flow, None)
    if first is None:
        raise ValueError("the loader has no examples")
    check_batch(model, first.x, first.y)
    require_gradients(model, first.x)
    return first


def _collect(
    model: Classifier, flow: Iterable[Batch], plan: AuditPlan, limit: int, progress: Progress | None
) -> tuple[Collected, bool]:
    collected = Collected(plan.middle)
    try:
        for batch in flow:
            for part in measure(model, batch, len(collected), plan):
                collected.add(part)
                if progress is not None:
                    progress("examples", len(collected), limit)
    except KeyboardInterrupt:
        if len(collected) < 2:
            raise
        return collected, False
    if len(collected) < 2:
        raise ValueError("an audit needs at least 2 examples")
    return collected, True
