"""What training costs: the seconds of a run's epochs, without compiling, capturing and testing.

    seconds = sum over phases of (median seconds of an epoch) * (number of epochs)

A phase is the epochs whose loss has the same parts: before a contrast is switched on, and after. The median leaves out
the epoch in which a step is compiled, and one that another process disturbed.
"""

from __future__ import annotations

from statistics import median

from poise.reporting.records import Record


def training_seconds(record: Record) -> float | None:
    """Of the whole run, a shared beginning included; None for a log without times."""
    phases: dict[tuple[str, ...], list[float]] = {}
    for entry in record.log:
        if "seconds" in entry:
            phases.setdefault(tuple(entry.get("loss") or ()), []).append(float(entry["seconds"]))
    return sum(median(times) * len(times) for times in phases.values()) if phases else None
