"""The rows, in the order of the table."""

from __future__ import annotations

from torture import audits, cache_files, checkpoints, errors, get_killed, killed, random_kills, records, soak, sources
from torture.row import Row

_FILES = (killed, random_kills, errors, checkpoints, records, sources, get_killed, cache_files, audits, soak)
ROWS: dict[str, Row] = {row.name: row for file in _FILES for row in file.ROWS}
