"""Several experiments in one process: method after method, and each method in all of them before the next.

What one experiment has trained, the others test right away, so that whatever has to be carried off a machine is records
and not models. What was compiled and loaded serves all. Runs that need what another process trains come later.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from poise.experiments.experiment import Method
from poise.experiments.folders import in_turns
from poise.experiments.runner import Runner
from poise.training.errors import NotFinite


def run_together(
    runners: Sequence[Runner], methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> dict[Runner, list[Path]]:
    """The records of every runner; a method whose loss is not finite does not keep the others from being run."""
    for runner in runners:
        finished = all(runner.is_finished(*run) for run in runner.experiment.runs(methods, seeds))
        if time.monotonic() < runner.deadline and not finished:
            _ = runner.judge  # data that are missing are missed before the first hour, not after it
    wanted = {runner: runner.begin(methods, seeds) for runner in runners}
    failures: dict[tuple[Runner, str], str] = {}

    def attempt(runner: Runner, method: Method, seed: int, again: bool) -> bool:
        """As the runner's; of a method that failed no more seeds."""
        try:
            return (runner, method.name) in failures or runner.attempt(method, seed, again)
        except NotFinite as error:
            failures[runner, method.name] = str(error)  # not the error, which holds on to all that was on the device
            return True

    names = dict.fromkeys(method.name for runs in wanted.values() for method, _ in runs)
    in_turns(
        [
            partial(attempt, runner, method, seed)
            for name in names
            for runner in runners
            for method, seed in wanted[runner]
            if method.name == name
        ]
    )
    if failures:
        raise NotFinite("; ".join(failures.values()))
    return {
        runner: [path for method, seed in runs if (path := runner.record_path(method, seed)).exists()]
        for runner, runs in wanted.items()
    }
