"""Tables as columns of words: TSV and CSV with a head, JSONL with an object per line."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

from poise.auditing.errors import AuditError

Columns = dict[str, list[str]]
_DELIMITED = (".tsv", ".csv")


def read_rows(path: Path) -> Columns:
    """{column: one word per row}; an AuditError names the line that is wrong."""
    if path.suffix not in (*_DELIMITED, ".jsonl", ".ndjson"):
        raise AuditError(f"{path} must be a .tsv, .csv or .jsonl file")
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = _delimited(stream, path) if path.suffix in _DELIMITED else _objects(stream, path)
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise AuditError(f"{path} is not written in UTF-8") from None
    if not rows:
        raise AuditError(f"{path} has no rows")
    names = list(rows[0])
    for number, row in enumerate(rows):
        if list(row) != names and set(row) != set(names):
            raise AuditError(f"{path}: row {number + 1} has the columns {', '.join(row)}, the first {', '.join(names)}")
    return {name: [row[name] for row in rows] for name in names}


def _delimited(stream: Any, path: Path) -> list[dict[str, str]]:
    csv.field_size_limit(sys.maxsize)
    tabs = path.suffix == ".tsv"
    rows = list(
        csv.reader(stream, delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL)
    )
    head, *body = rows or [[]]
    for number, row in enumerate(body):
        if row and len(row) != len(head):
            raise AuditError(f"{path}: line {number + 2} has {len(row)} fields, the head has {len(head)}")
    return [dict(zip(head, row, strict=True)) for row in body if row]


def _objects(stream: Any, path: Path) -> list[dict[str, str]]:
    rows = []
    for number, line in enumerate(stream):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise AuditError(f"{path}: line {number + 1} is not JSON ({error})") from None
        if not isinstance(row, dict):
            raise AuditError(f"{path}: line {number + 1} is not an object")
        rows.append({str(name): str(value) for name, value in row.items()})
    return rows
