"""The page of an evaluation: a leaderboard with intervals, paired tests, heat maps, reliability diagrams, the cost.

It is made from the records of the models alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from poise.reporting.figures.forest import ForestBlock, ForestRow, forest
from poise.reporting.figures.svg import (
    COLOURS,
    WIDTH,
    Cells,
    Figures,
    Key,
    Scale,
    box,
    drawing,
    frame,
    heat_map,
    line,
    polyline,
)
from poise.reporting.render import Cell, Sheet, render
from poise.reporting.statistics import DASH, Difference, number, signed_interval

EvaluationRecord = Mapping[str, Any]
_MOST_MAPS = 24  # models with a heat map of their own
_HIGHER = ("accuracy", "top5", "worst class")


def main_of(record: EvaluationRecord) -> Mapping[str, Any]:
    """The numbers of the mean that leaderboards sort by; {} if only clean images were measured."""
    found: Mapping[str, Any] = record["means"].get(record["main"], {})
    return found


def sorted_by_main(records: Sequence[EvaluationRecord]) -> list[EvaluationRecord]:
    """The models, the best mean accuracy first."""

    def key(record: EvaluationRecord) -> tuple[float, str]:
        numbers = main_of(record) or record["clean"] or {}
        return -numbers.get("accuracy", {}).get("value", 0.0), record["model"]["name"]

    return sorted(records, key=key)


def evaluation_page(records: Sequence[EvaluationRecord], comparisons: Sequence[Mapping[str, Any]]) -> str:
    """The page as HTML that is also well-formed XML."""
    ranked = sorted_by_main(records)
    first = records[0]
    pairs = [row for row in comparisons if row["one"] == first["model"]["name"]]
    galleries = [*_pairs(pairs, first), *_maps(ranked), *_reliability(ranked)]
    return render(
        "evaluation",
        title=f"{first['title']}: {_count(len(records), 'model')}",
        facts=data_facts(first),
        findings=[sentence for row in pairs if (sentence := finding(row, first))],
        leaderboard=leaderboard(ranked),
        meaning=meaning_of_columns(first),
        notes=list(dict.fromkeys(note for record in records for note in record["notes"])),
        galleries=galleries,
        cost=_cost(ranked),
    )


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n:,} {what}s"


def data_facts(record: EvaluationRecord) -> list[str]:
    """Short facts about the images that the models were measured on."""
    data, sample = record["data"], ""
    if data["examples"] < data["of"]:
        sample = f", a random sample of {data['of']:,}"
    return [
        data["name"],
        f"{_count(data['examples'], 'example')}{sample}",
        record["settings"]["made"],
        f"seed {record['settings']['seed']}",
        *filter(None, [record["surroundings"].get("device")]),
    ]


def meaning_of_columns(record: EvaluationRecord) -> str:
    """The meaning of the columns of the leaderboard."""
    corrupted = f"Corrupted: the mean over {record['main']} of {record['title']}. " if main_of(record) else ""
    return (
        f"{corrupted}Below each number its 95 % interval over examples; all corruptions of one example count as one "
        "value. ECE: calibration error in 15 bins. Brier: squared error of the probabilities. Flips: the share of "
        "images whose class differs from that of the clean image. Worst class: lowest accuracy of a class. mCE: errors "
        "relative to AlexNet's."
    )


Pick = Callable[[EvaluationRecord], "Mapping[str, Any] | None"]
_COLUMNS: tuple[tuple[str, Pick, bool], ...] = (
    ("clean", lambda r: (r["clean"] or {}).get("accuracy"), True),
    ("corrupted", lambda r: main_of(r).get("accuracy"), True),
    ("mCE", lambda r: r.get("mCE"), False),
    ("relative mCE", lambda r: r.get("relative mCE"), False),
    ("worst class", lambda r: main_of(r).get("worst class"), True),
    ("flips", lambda r: main_of(r).get("flip"), False),
    ("clean ECE", lambda r: (r["clean"] or {}).get("ece"), False),
    ("corrupted ECE", lambda r: main_of(r).get("ece"), False),
    ("Brier", lambda r: main_of(r).get("brier"), False),
    ("NLL", lambda r: main_of(r).get("nll"), False),
)


def columns_of(records: Sequence[EvaluationRecord]) -> dict[str, tuple[Pick, bool]]:
    """{name: (the number of a record, whether higher is better)} of the columns that some record has."""
    groups = dict.fromkeys(
        name for record in records for name in main_of(record) if name.startswith("worst ") and name != "worst class"
    )
    own = tuple((name, lambda r, name=name: main_of(r).get(name), True) for name in groups)
    return {name: (pick, up) for name, pick, up in (*_COLUMNS, *own) if any(pick(record) for record in records)}


def leaderboard(records: Sequence[EvaluationRecord]) -> Sheet:
    """A row per model, the best of each column in bold."""
    columns = columns_of(records)
    best = {}
    for name, (pick, up) in columns.items():
        values = [found["value"] for record in records if (found := pick(record))]
        best[name] = max(values) if up else min(values)
    rows = []
    for place, record in enumerate(records, start=1):
        cells = [_cell(pick(record), best[name]) for name, (pick, _) in columns.items()]
        rows.append([f"{place}. {record['model']['name']}", *cells])
    return Sheet(["model", *columns], rows)


def _cell(found: Mapping[str, Any] | None, best: float) -> str | Cell:
    if not found:
        return DASH
    below = f"{found['name']}, " if "name" in found else ""
    if found["low"] is not None:
        below += f"{number(found['low'], 3)} to {number(found['high'], 3)}"
    return Cell(number(found["value"]), found["value"] == best, below=below)


def finding(row: Mapping[str, Any], record: EvaluationRecord) -> str:
    """A sentence about one pair; "" if nothing was compared."""
    said = []
    for kind in ("clean", "corrupted"):
        if (gap := row.get(kind)) is None:
            continue
        p = gap["holm"] if gap.get("holm") is not None else gap["p"]
        if p is None or p >= 0.05:
            said.append(f"no significant difference on {kind} images ({_gap(gap)})")
        else:
            how = "more" if gap["value"] > 0 else "less"
            said.append(f"{how} accurate on {kind} images ({_gap(gap)})")
    return f"{row['one']} against {row['other']}: {'; '.join(said)}." if said else ""


def _gap(gap: Mapping[str, Any]) -> str:
    return signed_interval(_difference(gap))


def _difference(gap: Mapping[str, Any]) -> Difference:
    return Difference(gap["value"], 2, gap["low"], gap["high"], gap["p"], gap.get("holm"))


def _pairs(rows: Sequence[Mapping[str, Any]], first: EvaluationRecord) -> list[Figures]:
    """Differences of the first model from every other, with their intervals."""
    kinds = [kind for kind in ("clean", "corrupted") if any(kind in row for row in rows)]
    if not kinds:
        return []
    name = first["model"]["name"]
    cells = [
        ForestRow(row["other"], tuple(_difference(row[kind]) if kind in row else None for kind in kinds))
        for row in rows
    ]
    drawn = forest(f"{name} minus each other model", kinds, [ForestBlock("", tuple(cells))])
    note = (
        "Dots: difference of accuracies on the same examples; bars: 95 % interval; filled: p < .05 after Holm's "
        "correction (clean: McNemar's exact test; corrupted: paired t over examples). comparisons.json has all pairs."
    )
    return [Figures(f"Paired differences: {name} minus each other model", [drawn], note=note)]


def _maps(records: Sequence[EvaluationRecord]) -> list[Figures]:
    cells = {r["model"]["name"]: accuracies(r) for r in records[:_MOST_MAPS] if r["tests"]}
    if not cells:
        return []
    galleries = [
        Figures("Accuracy per corruption and severity", [heat_map(name, held) for name, held in cells.items()])
    ]
    (best, first), *others = cells.items()
    gaps = {f"{name} − {best}": _minus(held, first) for name, held in others}  # noqa: RUF001
    reach = max((abs(v) for gap in gaps.values() for row in gap.values() for v in row.values()), default=0) or 1.0
    maps = [heat_map(title, gap, reach) for title, gap in gaps.items() if gap]
    return [*galleries, Figures(f"Difference from {best}", maps, folded=True)] if maps else galleries


def accuracies(record: EvaluationRecord) -> Cells:
    """{corruption: {severity: accuracy}}"""
    return {
        name: {int(severity): numbers["accuracy"]["value"] for severity, numbers in row.items()}
        for name, row in record["tests"].items()
    }


def _minus(one: Cells, other: Cells) -> Cells:
    shared = {name: row for name, row in one.items() if name in other}
    gaps = {name: {s: v - other[name][s] for s, v in row.items() if s in other[name]} for name, row in shared.items()}
    return {name: row for name, row in gaps.items() if row}


def _reliability(records: Sequence[EvaluationRecord]) -> list[Figures]:
    drawn = [
        reliability_diagram(r["model"]["name"], r["reliability"]) for r in records[:_MOST_MAPS] if r["reliability"]
    ]
    note = "Accuracy against confidence in 15 bins. Below the diagonal a model is too sure of itself."
    keys = [Key(kind, f"var(--c{place})") for kind, place in _KINDS.items()]
    return [Figures("Reliability", drawn, keys, note)] if drawn else []


_KINDS = {"clean": 3, "corrupted": 7}


def reliability_diagram(name: str, kinds: Mapping[str, Sequence[Sequence[float]]]) -> Markup:
    """Accuracy against mean confidence; the height of a bar is the share of images in a bin."""
    x, y = Scale(0, 1, 34, WIDTH - 8), Scale(0, 1, 236, 26)
    parts = [*frame(x, y, name, "confidence"), line(x(0), y(0), x(1), y(1), "average")]
    for kind, bins in kinds.items():
        place = _KINDS[kind] % COLOURS
        total = sum(row[0] for row in bins)
        for count, confidence, _ in bins:
            height = 60 * count / total
            parts.append(box(x(confidence) - 3, y(0) - height, 6, height, class_=f"f{place}", opacity="0.25"))
        points = [(x(confidence), y(accuracy)) for _, confidence, accuracy in bins]
        parts.append(polyline(points, f"mean s{place}"))
        for count, confidence, accuracy in bins:
            title = f"{kind}: {count:,} images, confidence {number(confidence, 3)}, accuracy {number(accuracy, 3)}"
            parts.append(box(x(confidence) - 2.5, y(accuracy) - 2.5, 5, 5, title, rx=2.5, class_=f"f{place}"))
    return drawing(272, f"{name}: accuracy against confidence", *parts)


def _cost(records: Sequence[EvaluationRecord]) -> Sheet:
    head = ["model", "parameters", "image size", "images", "seconds", "images/s", "device"]
    rows = [
        [
            record["model"]["name"],
            f"{record['model']['parameters']:,}",
            str(record["model"]["size"]),
            f"{record['cost']['images']:,}",
            f"{record['cost']['seconds']:,.1f}",
            f"{record['cost']['images per second']:,.0f}",
            str(record["surroundings"].get("device", DASH)),
        ]
        for record in records
    ]
    return Sheet(head, rows)


def summary_of(records: Sequence[EvaluationRecord]) -> str:
    """The leaderboard as text for a terminal."""
    ranked = sorted_by_main(records)
    first, columns = ranked[0], columns_of(ranked)
    shown = [name for name in ("clean", "corrupted", "mCE", "worst class", "corrupted ECE") if name in columns]
    width = max(len(record["model"]["name"]) for record in ranked) + 2
    lines = [", ".join(data_facts(first)[:3]), f"{'':<{width}}" + "".join(f"{name:>24}" for name in shown)]
    for record in ranked:
        cells = [_words(columns[name][0](record)) for name in shown]
        lines.append(f"{record['model']['name']:<{width}}" + "".join(f"{cell:>24}" for cell in cells))
    if main_of(first):
        lines.append(f"corrupted: mean over {first['main']} of {first['title']}")
    return "\n".join(lines)


def _words(found: Mapping[str, Any] | None) -> str:
    if not found:
        return DASH
    ends = "" if found["low"] is None else f" [{number(found['low'], 3)}, {number(found['high'], 3)}]"
    return f"{number(found['value'])}{ends}"
