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

from poise.auditing.audit import audit
from poise.auditing.compare import Comparison, compare
from poise.auditing.conditions import Condition, read_condition, require_measured
from poise.auditing.design import chosen, why_not
from poise.auditing.inputs.examples import is_text
from poise.auditing.inputs.fitting import Data, Order, Ready, fitted, lines_of, load, require_sense
from poise.auditing.inputs.models import of_user, raised, with_options
from poise.auditing.result import Audit
from poise.auditing.sentence import with_sentences
from poise.auditing.statistics.numbers import number_names
from poise.checks import install
from poise.cli.options import apart, device_of, told
from poise.cli.progress import counting
from poise.cli.stopping import INTERRUPTED, ending_at_once
from poise.errors import AuditError
from poise.features.external import TeacherUtility
from poise.features.utility import GradientUtility, RemovalUtility
from poise.io.files import is_part, require_writable, sweep
from poise.io.json_files import RecordError
from poise.reporting.audit_files import load_audit


def carry_out(order: Order) -> None:
    """Audit one model, or two side by side; then judge the conditions. What can be wrong is said first."""
    with _usage():
        require_sense(order)
        conditions = [read_condition(text) for text in order.fail_if or []]
        names, _ = chosen(_corruptions(order), None)
        if conditions:
            require_measured(conditions, number_names(() if is_text(order.data) else names))
    if len(order.models) > 2 or (order.weights and len(order.weights) != len(order.models)):
        raise typer.BadParameter("give one or two models, and --weights once for each of them")
    place = device_of(order.device)
    nothing = "interrupted before anything was measured; nothing was written"
    with _failures(order.out), apart(order.json), ending_at_once(nothing):
        _require_free(order.out, len(order.models))
        require_writable(order.out)
        spoken = _spoken(order)
        for folder in order.beside or []:
            load_audit(folder)
        loaded = [load(order, number).to(place) for number in range(len(order.models))]
        data, models = fitted(order, loaded, place)
    with _usage():
        if conditions:
            require_measured(conditions, number_names(() if why_not(data.shape) else names))
    with _failures(order.out), apart(order.json):
        audits = []
        for each in models:
            audits.append(_audit(order, each, data, spoken))
            if not audits[-1].facts["complete"]:
                break
        result, page = _save(audits, order)
    typer.echo(dumps(result.facts) if order.json else str(result))
    if not order.json:
        typer.echo(f"\n{page}")
    if not audits[-1].facts["complete"]:
        _end_early(audits, len(models))
    _judge(conditions, audits)


def _end_early(audits: Sequence[Audit], models: int) -> None:
    last = audits[-1].facts
    which = f" of {last['model']['name']}" if models > 1 else ""
    again = "; run the same command to compare both from the start" if models > len(audits) else ""
    typer.echo(f"poise: interrupted after {last['examples']} examples{which}; the page covers these{again}", err=True)
    sys.exit(INTERRUPTED)


def _spoken(order: Order) -> list[str]:
    found = [*(order.sentence or []), *(lines_of(order.sentences) if order.sentences else [])]
    if found and not is_text(order.data):
        raise AuditError("--sentence needs --data with sentences, and a tokenizer")
    if not all(each.strip() for each in found):
        raise AuditError("--sentence is empty")
    return found


def _judge(conditions: Sequence[Condition], audits: Sequence[Audit]) -> None:
    """Exit code 1 if one of them holds for any of the models."""
    broken = []
    for condition in conditions:
        for each in audits:
            with _usage():
                if condition.holds(each.facts):
                    broken.append(f"{each.facts['model']['name']}: {condition.text}")
    if broken:
        sys.exit(f"poise: failed: {'; '.join(broken)}")


def _audit(order: Order, ready: Ready, data: Data, spoken: Sequence[str]) -> Audit:
    utility = None
    if ready.reference is not None:
        own = GradientUtility() if data.tokenizer is None else RemovalUtility()
        utility = TeacherUtility(ready.reference.model, ready.reference.name, own)  # type: ignore[arg-type]
    with counting("examples", order.quiet) as report, _stoppable():
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
    notes = [*data.notes(), *filter(None, [ready.loaded.note]), *found.facts["notes"]]
    found = replace(found, facts={**found.facts, "notes": notes})
    if not spoken or data.tokenizer is None:
        return found
    return with_sentences(found, ready.loaded.model, data.tokenizer, spoken)  # type: ignore[arg-type]


def _save(audits: Sequence[Audit], order: Order) -> tuple[Audit | Comparison, Path]:
    """What was found and its page; of a comparison that ended with its first model, that one's, in its own folder."""
    beside = tuple(order.beside or [])
    if len(audits) == 2:
        both = compare(*audits)
        return both, both.save(order.out, beside)
    home = order.out if len(order.models) == 1 else order.out / "1"
    return audits[0], audits[0].save(home, beside)


def _require_free(out: Path, models: int) -> None:
    """A folder that is new, empty, or holds an audit of the same kind, be it a part of one."""
    sweep(out)
    if not out.exists() or (out.is_dir() and all(map(is_part, out.iterdir()))):
        return
    one, two = ("audit.json",), ("comparison.json", "1/audit.json")
    own, others = (one, two) if models == 1 else (two, one)
    if not out.is_dir() or not any((out / name).is_file() for name in own):
        there = any((out / name).is_file() for name in others)
        what = f"an audit of {'two models' if models == 1 else 'one model'}" if there else "something else"
        raise AuditError(f"{out} holds {what}: choose an empty or a new folder with --out")


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
    """One sentence and exit code 1."""
    try:
        yield
    except (AuditError, RecordError, ValueError, TypeError) as error:
        sys.exit(f"poise: {with_options(str(error))}")
    except ModuleNotFoundError as error:
        sys.exit(f"poise: {error.name or error} is missing: {install('experiments')}")
    except OSError as error:
        sys.exit(f"poise: {told(error, out)}")
    except (Exception, SystemExit) as error:
        if not isinstance(error, RuntimeError | IndexError) and not of_user(error):
            raise
        sys.exit(f"poise: the model failed on the data with {raised(error)}")
