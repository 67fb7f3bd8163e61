"""Leaderboards: the records of many models, and published results of others, as a page and as a table.

Records are the `evaluation.json` files below a folder, loose or packed. Published results are `published.json` files;
their rows are marked as theirs and have no intervals:

    {"version": 1, "benchmark": "cifar10-c", "mean": "all 15", "source": "RobustBench", "link": "https://...",
     "rows": [{"model": "AugMix, WRN-40-2", "clean": 0.9508, "corrupted": 0.8882}]}

Nothing here needs torch. `as_parquet` needs pyarrow.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from poise.checks import install
from poise.errors import RecordError
from poise.io.documents import documents, read_json, require
from poise.reporting.evaluation_page import columns_of, main_of
from poise.reporting.figures.svg import WIDTH, Figures, box, drawing, line, scale_of, short, words
from poise.reporting.render import Cell, Sheet, render
from poise.reporting.statistics import DASH, number

OURS, THEIRS = "measured", "published"
Row = dict[str, Any]
_ENDS = ("", "_low", "_high")


def rows_below(folder: Path) -> list[Row]:
    """A row per model and benchmark of all records and published results; RecordError if there is none."""
    if not folder.is_dir():
        raise RecordError(f"{folder} is not a folder")
    rows = [_row(read_evaluation(path), path.relative_to(folder)) for path in documents(folder, "**/evaluation.json")]
    for path in sorted(folder.glob("**/published.json")):
        rows += _published(path)
    if not rows:
        raise RecordError(f"{folder} has no evaluation.json below it: make some with `poise evaluate`")
    rows.sort(
        key=lambda row: (row["benchmark"], row["mean"] or "", -(row["corrupted"] or row["clean"] or 0), row["model"])
    )
    return rows


def read_evaluation(path: Path) -> dict[str, Any]:
    """The record of a model; RecordError if it is damaged or something else."""
    record = read_json(path, "evaluation")
    require(path, record, "evaluation", model=dict, benchmark=str, data=dict, means=dict, tests=dict, cost=dict)
    return record


def _row(record: Mapping[str, Any], place: Path) -> Row:
    found: Row = {
        "model": record["model"]["name"],
        "origin": OURS,
        "source": str(place),
        "link": None,
        "benchmark": record["benchmark"],
        "title": record["title"],
        "mean": record["main"] if main_of(record) else None,
        "data": record["data"]["name"],
        "examples": record["data"]["examples"],
        "of": record["data"]["of"],
        "labels": record["data"]["labels"],
        "made": record["settings"]["made"],
        "parameters": record["model"]["parameters"],
        "size": record["model"]["size"],
        "seconds": record["cost"]["seconds"],
    }
    found |= dict.fromkeys(f"{kind}{end}" for kind in ("clean", "corrupted") for end in _ENDS)
    for name, (pick, _) in columns_of([record]).items():
        numbers = pick(record) or {}
        for end, key in zip(_ENDS, ("value", "low", "high"), strict=True):
            found[f"{name.replace(' ', '_')}{end}"] = numbers.get(key)
    return found


def _published(path: Path) -> list[Row]:
    content = read_json(path, "list of published results")
    require(path, content, "list of published results", benchmark=str, mean=str, source=str, rows=list)
    rows = []
    for each in content["rows"]:
        if not isinstance(each, dict) or not isinstance(each.get("model"), str):
            raise RecordError(f"{path} has a row without a model")
        values = {name: each.get(name) for name in ("clean", "corrupted")}
        if any(value is not None and not (isinstance(value, float) and 0 <= value <= 1) for value in values.values()):
            raise RecordError(f"{path}: {each['model']} has an accuracy that is not a number from 0 to 1")
        facts = {"benchmark": content["benchmark"], "title": content["benchmark"], "mean": content["mean"]}
        source = {"origin": THEIRS, "source": content["source"], "link": content.get("link")}
        rows.append({"model": each["model"], **source, **facts, **values})
    return rows


def rows_as_csv(rows: Sequence[Row]) -> str:
    """All rows, with the columns that any of them has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_parquet(rows: Sequence[Row]) -> bytes | None:
    """The same as one Parquet file; None without pyarrow."""
    try:
        import pyarrow  # type: ignore[import-not-found,unused-ignore]
        from pyarrow import parquet  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError:
        return None
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pyarrow.table({name: [row.get(name) for row in rows] for name in names})
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


NO_PARQUET = f"no Parquet file, since pyarrow is missing: {install('parquet')}"


def leaderboard_page(rows: Sequence[Row]) -> str:
    """The page as HTML that is also well-formed XML: a section per benchmark and mean."""
    sections: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        sections.setdefault((row["benchmark"], row["mean"]), []).append(row)
    shown = [_section(held) for held in sections.values()]
    return render("leaderboard", title="Leaderboard", sections=shown)


def _section(rows: Sequence[Row]) -> dict[str, Any]:
    title = next((row["title"] for row in rows if row["origin"] == OURS), rows[0]["title"])
    notes = []
    if len({row["labels"] for row in rows if row["origin"] == OURS}) > 1:
        notes.append("Not all models were measured on the same examples: compare intervals, not ranks.")
    if len(made := list(dict.fromkeys(row["made"] for row in rows if row["origin"] == OURS))) > 1:
        notes.append(f"The images were not made in the same way: {'; '.join(made)}.")
    sources = dict.fromkeys(f"{row['source']}" for row in rows if row["origin"] == THEIRS)
    if sources:
        notes.append(
            f"Published results of others ({'; '.join(sources)}) are theirs: on all images, without intervals, and not "
            "measured again."
        )
    drawn = interval_plot([row for row in rows if row["corrupted"] is not None])
    return {
        "title": f"{title}, mean over {rows[0]['mean']}" if rows[0]["mean"] else f"{title}, clean images only",
        "facts": _facts(rows),
        "notes": notes,
        "sheet": _sheet(rows),
        "figure": Figures("Mean accuracy on corrupted images", [drawn]) if drawn else None,
    }


def _facts(rows: Sequence[Row]) -> list[str]:
    ours = [row for row in rows if row["origin"] == OURS]
    sizes = dict.fromkeys(f"{row['examples']:,} of {row['of']:,} examples of {row['data']}" for row in ours)
    return [*sizes, *dict.fromkeys(row["made"] for row in ours)]


_SHOWN = ("clean", "corrupted", "mCE", "relative_mCE", "worst_class", "flips", "clean_ECE", "corrupted_ECE")


def _sheet(rows: Sequence[Row]) -> Sheet:
    names = [name for name in _SHOWN if any(row.get(name) is not None for row in rows)]
    body: list[list[str | Cell]] = []
    for place, row in enumerate(rows, start=1):
        origin = row["source"].partition(",")[0] if row["origin"] == THEIRS else f"{row['examples']:,} examples"
        body.append([f"{place}. {row['model']}", *(_cell(row, name) for name in names), origin])
    return Sheet(["model", *(name.replace("_", " ") for name in names), "from"], body)


def _cell(row: Row, name: str) -> str | Cell:
    if row.get(name) is None:
        return DASH
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return Cell(
        number(row[name]), below="" if low is None or high is None else f"{number(low, 3)} to {number(high, 3)}"
    )


def interval_plot(rows: Sequence[Row]) -> Markup | None:
    """Mean accuracies with their intervals, the best first; published ones are hollow."""
    if not rows:
        return None
    longest = max(len(row["model"]) for row in rows)
    left = min(220.0, 16 + 6.1 * longest)
    width = max(WIDTH, round(left) + 220)
    ends = [value for row in rows for end in _ENDS if (value := row.get(f"corrupted{end}")) is not None]
    x, top = scale_of(ends, left + 8, width - 48), 26
    bottom = top + 17 * len(rows)
    parts = [line(x(tick), top - 6, x(tick), bottom, "grid") for tick in x.ticks(4)]
    parts += [words(x(tick), bottom + 14, short(tick), "small", "middle") for tick in x.ticks(4)]
    room = int((left - 8) / 6.1)
    for place, row in enumerate(rows):
        y, value = top + 17 * place + 6.5, row["corrupted"]
        name = row["model"] if len(row["model"]) <= room else f"{row['model'][: room - 1]}…"
        parts.append(words(8, y + 3.5, name, ""))
        if row.get("corrupted_low") is not None:
            parts.append(line(x(row["corrupted_low"]), y, x(row["corrupted_high"]), y, "interval higher"))
        kind = "higher dot" if row["origin"] == OURS else "hollow undecided"
        parts.append(box(x(value) - 4, y - 4, 8, 8, f"{row['model']}: {number(value)}", rx=4, class_=kind))
        parts.append(words(width - 4, y + 3.5, number(value, 3), "small", "end"))
    return drawing(bottom + 22, "Mean accuracy on corrupted images, by model", *parts, width=width)
