"""The reference points of the plane: near and far gain of finished audits, by name.

    poise audit runs/synthetic-mnist/xe/seed-00 --data synthetic-mnist --examples 1000 --out audits/xe
    python benchmarks/audit_references.py "XE, synthetic MNIST=audits/xe" "FCL, synthetic MNIST=audits/fcl"

Overwrites the file with the points in this order.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from poise.errors import RecordError
from poise.reporting.audit_page import load_audit, point_of

TARGET = Path(__file__).parents[1] / "src" / "poise" / "reporting" / "audit_references.json"


def main(words: list[str]) -> None:
    if not words:
        raise SystemExit('name the audits: "NAME=FOLDER" ...')
    rows = []
    for word in words:
        name, _, folder = word.rpartition("=")
        try:
            point = point_of(load_audit(Path(folder)).facts)
        except RecordError as error:
            raise SystemExit(str(error)) from None
        if not name or point is None:
            raise SystemExit(f"{word} must be NAME=FOLDER of an audit with a point on the plane")
        near, far = ([round(end, 4) for end in side] for side in (point.near, point.far))
        rows.append({"name": name, "near": near, "far": far})
    lines = ",\n".join(f" {json.dumps(row)}" for row in rows)
    TARGET.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
