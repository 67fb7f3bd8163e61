"""The implementation of `poise audit`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from json import dumps
from pathlib import Path

import typer

from poise.auditing.audit import audit
from poise.auditing.baseline import Baseline, Worsening, read_baseline, worsened
from poise.auditing.compare import Comparison, Condition, compare, read_condition, require_measured
from poise.auditing.design import corruption_problem, select_corruptions
from poise.auditing.estimates.numbers import number_names
from poise.auditing.fitting import (
    AuditData,
    AuditedModel,
    AuditRequest,
    load_requested,
    prepare,
    require_valid,
)
from poise.auditing.result import Audit
from poise.auditing.texts import with_sentences
from poise.checks import install
from poise.cli.options import describe_os_error, device_of, exit_on_ctrl_c, print_to_stderr
from poise.cli.progress import announced, counting
from poise.errors import INTERRUPTED, AuditError, RecordError
from poise.features.external import TeacherUtility
from poise.features.utility import GradientUtility, RemovalUtility
from poise.inputs.examples import is_text, read_lines
from poise.inputs.model_sources import describe_exception, is_from_user_code, with_options
from poise.io.files import is_part, remove_parts, require_writable
from poise.reporting.audit_page import load_audit


def run_audit(request: AuditRequest) -> None:
    """Audit one model, or compare two, and check the conditions. Invalid arguments are reported before the audit."""
    with _usage():
        require_valid(request)
        conditions = [read_condition(text) for text in request.fail_if or []]
        baseline = read_baseline(request.baseline) if request.baseline is not None else None
        names, _ = select_corruptions(_corruptions(request), None)
        if conditions:
            require_measured(conditions, number_names(() if is_text(request.data) else names))
    if baseline is not None and len(request.models) > 1:
        raise typer.BadParameter("--baseline takes the place of the first model: pass one model")
    if len(request.models) > 2 or (request.weights and len(request.weights) != len(request.models)):
        raise typer.BadParameter("pass one or two models, and --weights once for each of them")
    place = device_of(request.device)
    nothing = "interrupted before anything was measured; nothing was written"
    loading = announced(f"loading {', '.join(request.models)} and {request.data}", request.quiet)
    with _failures(request.out), print_to_stderr(request.json), exit_on_ctrl_c(nothing), loading:
        _require_free_folder(request.out, len(request.models))
        require_writable(request.out)
        sentences = _sentences(request)
        for folder in request.beside or []:
            load_audit(folder)
        loaded = [load_requested(request, number).to(place) for number in range(len(request.models))]
        data, models = prepare(request, loaded, place)
    with _usage():
        if conditions:
            require_measured(conditions, number_names(() if corruption_problem(data.shape) else names))
    with _failures(request.out), print_to_stderr(request.json):
        audits = []
        for each in models:
            audits.append(_audit(request, each, data, sentences))
            if not audits[-1].facts["complete"]:
                break
        result, page = _save(audits, request)
    typer.echo(dumps(result.facts) if request.json else str(result))
    if not request.json:
        typer.echo(f"\n{page}")
    if not audits[-1].facts["complete"]:
        _end_early(audits, len(models))
    worse = [] if baseline is None else _worse(baseline, audits[0])
    _check_conditions(conditions, audits)
    sys.exit(1 if worse else 0)


def _end_early(audits: Sequence[Audit], models: int) -> None:
    last = audits[-1].facts
    which = f" of {last['model']['name']}" if models > 1 else ""
    again = "; run the same command to compare both from the start" if models > len(audits) else ""
    typer.echo(f"poise: interrupted after {last['examples']} examples{which}; the page covers these{again}", err=True)
    sys.exit(INTERRUPTED)


def _sentences(request: AuditRequest) -> list[str]:
    found = [*(request.sentence or []), *(read_lines(request.sentences) if request.sentences else [])]
    if found and not is_text(request.data):
        raise AuditError("--sentence needs --data with sentences, and a tokenizer")
    if not all(each.strip() for each in found):
        raise AuditError("--sentence is empty")
    return found


def _worse(baseline: Baseline, audit: Audit) -> list[Worsening]:
    """What is significantly worse than in the baseline; a sentence for each number goes to stderr."""
    with _usage():
        found = worsened(audit, baseline)
    for each in found:
        typer.echo(f"poise: worse than {baseline.path}: {each}", err=True)
    if not found:
        typer.echo(f"no number is significantly worse than in {baseline.path}", err=True)
    return found


def _check_conditions(conditions: Sequence[Condition], audits: Sequence[Audit]) -> None:
    """Exit with code 1 if a condition holds for any of the models."""
    broken = []
    for condition in conditions:
        for each in audits:
            with _usage():
                if condition.holds(each.facts):
                    broken.append(f"{each.facts['model']['name']}: {condition.text}")
    if broken:
        sys.exit(f"poise: failed: {'; '.join(broken)}")


def _audit(request: AuditRequest, model: AuditedModel, data: AuditData, sentences: Sequence[str]) -> Audit:
    utility = None
    if model.reference is not None:
        own = GradientUtility() if data.tokenizer is None else RemovalUtility()
        utility = TeacherUtility(model.reference.model, model.reference.name, own)  # type: ignore[arg-type]
    with counting("examples", request.quiet) as report, _interruptible():
        report(model.loaded.name, 0, data.count)
        found = audit(
            model.loaded.model,
            data.batches(),
            utility=utility,
            strengths=None if request.strength is None else tuple(sorted(request.strength)),
            probes=request.probes,
            corruptions=_corruptions(request),
            examples=max(2, data.count),
            seed=request.seed,
            worst_case=request.worst_case,
            names=replace(data.names, model=model.loaded.name),
            progress=lambda _, done, total: report(model.loaded.name, done, total),
        )
    notes = [*data.notes(), *filter(None, [model.loaded.note]), *found.facts["notes"]]
    found = replace(found, facts={**found.facts, "notes": notes})
    if not sentences or data.tokenizer is None:
        return found
    return with_sentences(found, model.loaded.model, data.tokenizer, sentences)  # type: ignore[arg-type]


def _save(audits: Sequence[Audit], request: AuditRequest) -> tuple[Audit | Comparison, Path]:
    """Save the result and return it with its page. If a comparison ended early, save the first audit in its folder."""
    beside = tuple(request.beside or [])
    if len(audits) == 2:
        both = compare(*audits)
        return both, both.save(request.out, beside)
    home = request.out if len(request.models) == 1 else request.out / "1"
    return audits[0], audits[0].save(home, beside)


def _require_free_folder(out: Path, models: int) -> None:
    """Raise AuditError unless the folder is new, empty, or contains an audit of the same kind, finished or not."""
    remove_parts(out)
    if not out.exists() or (out.is_dir() and all(map(is_part, out.iterdir()))):
        return
    one, two = ("audit.json",), ("comparison.json", "1/audit.json")
    own, others = (one, two) if models == 1 else (two, one)
    if not out.is_dir() or not any((out / name).is_file() for name in own):
        there = any((out / name).is_file() for name in others)
        what = f"an audit of {'two models' if models == 1 else 'one model'}" if there else "other files"
        raise AuditError(f"{out} contains {what}: choose an empty or a new folder with --out")


def _corruptions(request: AuditRequest) -> str | list[str]:
    return request.corruptions if request.corruptions in ("fast", "all", "none") else request.corruptions.split(",")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the measurements and keep those so far."""
    before = signal.getsignal(signal.SIGINT)
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("poise: interrupted before two examples were measured; nothing was written", err=True)
        sys.exit(INTERRUPTED)
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, before)


@contextmanager
def _usage() -> Iterator[None]:
    try:
        yield
    except (AuditError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None


@contextmanager
def _failures(out: Path) -> Iterator[None]:
    """Turn failures into one sentence and exit code 1."""
    try:
        yield
    except (AuditError, RecordError, ValueError, TypeError) as error:
        sys.exit(f"poise: {with_options(str(error))}")
    except ModuleNotFoundError as error:
        sys.exit(f"poise: {error.name or error} is missing: {install('experiments')}")
    except OSError as error:
        sys.exit(f"poise: {describe_os_error(error, out)}")
    except (Exception, SystemExit) as error:
        if not isinstance(error, RuntimeError | IndexError) and not is_from_user_code(error):
            raise
        sys.exit(f"poise: the model failed on the data with {describe_exception(error)}")
