"""The work of `poise audit`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from json import dumps
from pathlib import Path

import typer

from poise.auditing.audit import SAMPLE, audit
from poise.auditing.compare import Comparison, compare
from poise.auditing.conditions import Condition, read_condition
from poise.auditing.errors import AuditError
from poise.auditing.plan import chosen
from poise.auditing.result import Audit, write_audit
from poise.auditing.sentences import with_sentences
from poise.commands.audited import Data, Order, Ready, data_for, lines_of, load
from poise.commands.progress import counting
from poise.commands.reproduce import device_of
from poise.features.external import TeacherUtility
from poise.features.utility import GradientUtility, RemovalUtility
from poise.reporting.audit_page import audit_page
from poise.reporting.files import RecordError, write_whole


def carry_out(order: Order) -> None:
    """Audit one model, or two side by side; then judge the conditions."""
    with _usage():
        conditions = [read_condition(text) for text in order.fail_if or []]
        chosen(_corruptions(order), None)
    if len(order.models) > 2 or (order.weights and len(order.weights) != len(order.models)):
        raise typer.BadParameter("name one or two models, and --weights once for each of them")
    place = device_of(order.device)
    with _failures():
        _require_free(order.out, len(order.models))
        loaded = [load(order, number).to(place) for number in range(len(order.models))]
        data = data_for(order, loaded[0], SAMPLE.get(place.type, 100) if order.examples is None else order.examples)
        audits = []
        for each in loaded:
            audits.append(_audit(order, each, data))
            if not audits[-1].facts["complete"]:
                break
        result = compare(*audits) if len(audits) == 2 else audits[0]
        page = _save(result, order)
    typer.echo(dumps(result.facts) if order.json else str(result))
    if not order.json:
        typer.echo(f"\n{page}")
    if not audits[-1].facts["complete"]:
        typer.echo(f"poise: interrupted after {audits[-1].facts['examples']} examples; the page has these", err=True)
        sys.exit(130)
    _judge(conditions, audits)


def _judge(conditions: Sequence[Condition], audits: Sequence[Audit]) -> None:
    """Exit code 1 if one of them holds for any of the models."""
    broken = []
    for condition in conditions:
        for each in audits:
            with _usage():
                if condition.holds(each.facts):
                    broken.append(f"{each.facts['model']['name']}: {condition.text}")
    if broken:
        sys.exit(f"poise: failed, since {'; '.join(broken)}")


def _audit(order: Order, ready: Ready, data: Data) -> Audit:
    utility = None
    if ready.reference is not None:
        own = GradientUtility() if data.tokenizer is None else RemovalUtility()
        utility = TeacherUtility(ready.reference.model, ready.reference.name, own)  # type: ignore[arg-type]
    with counting("examples") as report, _stoppable():
        found = audit(
            ready.loaded.model,
            data.batches(),
            utility=utility,
            strengths=None if order.strength is None else tuple(sorted(order.strength)),
            probes=order.probes,
            corruptions=_corruptions(order),
            examples=max(2, data.count),
            seed=order.seed,
            names=replace(data.names, model=ready.loaded.name),
            progress=lambda _, done, total: report(ready.loaded.name, done, total),
        )
    spoken = [*(order.sentence or []), *(lines_of(order.sentences) if order.sentences else [])]
    if not spoken:
        return found
    if data.tokenizer is None:
        raise AuditError("--sentence needs data of sentences and a tokenizer")
    return with_sentences(found, ready.loaded.model, data.tokenizer, spoken)  # type: ignore[arg-type]


def _save(result: Audit | Comparison, order: Order) -> Path:
    beside = tuple(order.beside or [])
    if isinstance(result, Comparison):
        return result.save(order.out, beside)
    write_audit(result, order.out)
    write_whole(order.out / "index.html", audit_page(order.out, beside))
    return order.out / "index.html"


def _require_free(out: Path, models: int) -> None:
    """A folder that is new, empty, or holds an audit of the same kind."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not out.is_dir() or not (out / ("audit.json" if models == 1 else "comparison.json")).is_file():
        raise AuditError(f"{out} holds something else: choose an empty or a new folder with --out")


def _corruptions(order: Order) -> str | list[str]:
    return order.corruptions if order.corruptions in ("fast", "all", "none") else order.corruptions.split(",")


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C ends the measuring and keeps what was measured."""
    before = signal.getsignal(signal.SIGINT)
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("poise: interrupted before two examples were measured; nothing was written", err=True)
        sys.exit(130)
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, before)


@contextmanager
def _usage() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@contextmanager
def _failures() -> Iterator[None]:
    """One sentence and exit code 1."""
    try:
        yield
    except (AuditError, RecordError, ValueError, TypeError) as error:
        sys.exit(f"poise: {error}")
    except ModuleNotFoundError as error:
        sys.exit(f'poise: {error.name or error} is missing: pip install "poise[experiments]"')
    except OSError as error:
        sys.exit(f"poise: {error.filename or ''}: {error.strerror or error}")
