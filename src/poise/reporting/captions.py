"""Captions: the test, seeds, commits and devices behind a table, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from poise.records.schema import Results

MEANING = (
    "Mean ± standard deviation over seeds; ours | paper. Bold: significantly better than every other method of its "
    "group. ↑ ↓: significantly above or below the first method of its group. Test: two-sided paired t over common "
    "seeds, p < .05 after Holm's correction over the columns."
)

_NAMED = 12  # methods without runs; more would bury the other notes
ENOUGH = 5  # with fewer seeds, a t test depends heavily on its assumption that differences are normal


def caption_of(results: Results) -> str:
    """The meaning of the marks, and the origin of the numbers."""
    seeds = sorted({record.seed for record in results.records})
    commits = _distinct(record.commit for record in results.records)
    devices = _distinct(record.device for record in results.records)
    parts = [
        f"{'Seeds' if len(seeds) > 1 else 'One seed:'} {spans(seeds)}",
        f"{'commits' if len(commits) > 1 else 'commit'} {', '.join(commits) or 'unknown'}",
        f"on {', '.join(devices) or 'an unknown device'}",
    ]
    parts += [f"{what} {', '.join(ways)}" for what, ways in _origins(results).items()]
    meaning = MEANING if results.experiment.paper else MEANING.replace("; ours | paper", "", 1)
    return f"{meaning} {'; '.join(parts)}."


def notes_of(results: Results) -> tuple[str, ...]:
    """Warnings: too few or missing seeds, mixed code or devices, shared first epochs, leakage, damaged pictures."""
    notes = [*_few_seeds(results), *_missing(results), *_mixed(results), *_trunks(results), *_leakage(results)]
    return (*notes, *_damaged(results), *_counted(results))


def spans(numbers: Sequence[int]) -> str:
    """`0-4, 7` of 0 1 2 3 4 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def _few_seeds(results: Results) -> list[str]:
    single = [method for method, runs in results.runs.items() if len(runs) == 1]
    few = [method for method, runs in results.runs.items() if 1 < len(runs) < ENOUGH]
    notes = [f"Only one seed, so no deviation and no test: {_row(single)}."] if single else []
    hint = f"Fewer than {ENOUGH} seeds, so the marks are weak evidence: {_row(few)}."
    return notes + ([hint] if few else [])


def _missing(results: Results) -> list[str]:
    absent = [method for method in results.experiment.methods if method not in results.runs]
    others = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
    notes = [f"No finished runs: {_row(absent[:_NAMED])}{others}."] if absent else []
    seeds = {record.seed for record in results.records}
    short = {method: sorted(seeds - set(runs)) for method, runs in results.runs.items()}
    lacking = [f"{method} (seeds {spans(missing)})" for method, missing in short.items() if missing]
    return notes + ([f"Missing runs: {_row(lacking)}."] if lacking else [])


def _mixed(results: Results) -> list[str]:
    facts = {
        "commits": _distinct(record.commit for record in results.records),
        "devices": _distinct(record.device for record in results.records),
        "engines": _distinct(record.engine for record in results.records),
        "test sets": _distinct(origin for record in results.records for origin in record.origins.values()),
    }
    mixed = [f"{name} ({', '.join(values)})" for name, values in facts.items() if len(values) > 1]
    return [f"The runs differ in {'; '.join(mixed)}."] if mixed else []


def _damaged(results: Results) -> list[str]:
    named = _distinct(picture for record in results.records for picture in record.damaged)
    first = f"{', '.join(named[:3])}{', …' if len(named) > 3 else ''}"
    return (
        [f"{len(named)} damaged pictures were skipped ({first}); the records list them with the reasons."]
        if named
        else []
    )


def _trunks(results: Results) -> list[str]:
    """Groups of methods that share their first epochs, whose logs agree to the second, and how many epochs."""
    said = []
    for group in _sharing(results):
        lengths: dict[str, list[str]] = {}
        for method in group:
            others = [_common(results, method, other) for other in group if other != method]
            longest = [max(common.get(seed, 0) for common in others) for seed in set().union(*others)]
            lengths.setdefault(_span(longest), []).append(method)
        said.append(", and ".join(f"{span} of {_row(methods)}" for span, methods in lengths.items()))
    return [f"First epochs trained once per seed and shared: {'. '.join(said)}."] if said else []


def _sharing(results: Results) -> list[list[str]]:
    """Groups of methods that share at least one epoch in every common seed."""
    found: list[list[str]] = []
    for method in results.runs:
        for group in found:
            if any(min(_common(results, method, other).values(), default=0) for other in group):
                group.append(method)
                break
        else:
            found.append([method])
    return [group for group in found if len(group) > 1]


def _common(results: Results, one: str, other: str) -> dict[int, int]:
    """The number of first epochs that two methods share, per seed; only runs with a trunk share any."""
    runs, others = results.runs[one], results.runs[other]
    branch = {seed: bool(runs[seed].trunk or others[seed].trunk) for seed in runs if seed in others}
    return {seed: _alike(runs[seed].log, others[seed].log) if branch[seed] else 0 for seed in branch}


def _alike(one: Sequence[object], other: Sequence[object]) -> int:
    """The number of equal entries at the start of two logs."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def _span(epochs: Sequence[int]) -> str:
    low, high = min(epochs), max(epochs)
    return f"{low} to {high} epochs" if low < high else f"{low} epoch{'s' * (low > 1)}"


def _counted(results: Results) -> list[str]:
    """The numbers of sentences that averages are over, from scores such as "sentences, dev, raw"."""
    counts = {
        name: {int(record.scores[name]) for record in results.records if name in record.scores}
        for name in dict.fromkeys(name for record in results.records for name in record.scores)
        if name.startswith("sentences, ")
    }
    said = [f"{'/'.join(f'{n:,}' for n in sorted(held))} ({name[11:]})" for name, held in counts.items()]
    return [f"Number of sentences in averages over sentences: {'; '.join(said)}."] if said else []


def _leakage(results: Results) -> list[str]:
    overlaps = {method: names for method, names in results.experiment.overlaps.items() if method in results.runs}
    methods = {names: [m for m, held in overlaps.items() if held == names] for names in overlaps.values() if names}
    return [
        f"Leakage: the training augmentation of {listed(among)} resembles tested corruptions "
        f"({', '.join(names)}); seen and unseen corruptions have a table of their own below."
        for names, among in methods.items()
    ]


def _row(names: Sequence[str]) -> str:
    """`a, b`, or `a; b, c` if a name contains a comma."""
    return ("; " if any("," in name for name in names) else ", ").join(names)


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _origins(results: Results) -> dict[str, list[str]]:
    whats = dict.fromkeys(what for record in results.records for what in record.origins)
    return {what: _distinct(record.origins.get(what) for record in results.records) for what in whats}


def _distinct(values: Iterable[str | None]) -> list[str]:
    return sorted({value for value in values if value})
