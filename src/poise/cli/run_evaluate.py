"""The implementation of `poise evaluate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path

import typer

from poise.checks import install
from poise.cli.options import describe_os_error, device_of, print_to_stderr
from poise.cli.progress import counting
from poise.errors import AuditError, DataError, RecordError
from poise.evaluation.measuring import measure_missing
from poise.evaluation.preparing import EvaluationRequest, prepare_evaluation, require_possible
from poise.evaluation.recording import comparisons_of, evaluation_record, main_mean, save_evaluation
from poise.inputs.model_sources import with_options
from poise.reporting.evaluation_page import summary_of
from poise.running.record import surroundings


def run_evaluate(request: EvaluationRequest) -> None:
    """Measure what is missing, then write records, tables and the page."""
    try:
        require_possible(request)
    except (AuditError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    place = device_of(request.device)
    with _failures(request.out), print_to_stderr(request.json):
        with counting("images", request.quiet) as report:
            prepared = prepare_evaluation(request, place, report)
            prepared.evaluation.claim()
        with counting("images", request.quiet) as report:
            found = [
                (stage, measured)
                for stage in prepared.stages
                for measured in measure_missing(prepared.evaluation, stage, report)
            ]
        around = surroundings(place)
        records = [evaluation_record(prepared, stage, measured, around) for stage, measured in found]
        comparisons = comparisons_of(prepared, [measured for _, measured in found], main_mean(prepared))
        page = save_evaluation(prepared, records, comparisons)
    typer.echo(dumps({"models": records, "comparisons": comparisons}) if request.json else summary_of(records))
    if not request.json:
        typer.echo(f"\n{page}")


@contextmanager
def _failures(out: Path) -> Iterator[None]:
    """Turn failures into one sentence and exit code 1."""
    try:
        yield
    except (AuditError, RecordError, DataError, ValueError, TypeError) as error:
        sys.exit(f"poise: {with_options(str(error))}")
    except MemoryError:
        sys.exit("poise: too little memory: choose a smaller --batch, or fewer --examples")
    except ModuleNotFoundError as error:
        sys.exit(f"poise: {error.name or error} is missing: {install('experiments')}")
    except OSError as error:
        sys.exit(f"poise: {describe_os_error(error, out)}")
