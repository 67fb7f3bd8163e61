"""Audits on disk: audit.json and telling.npz of one model, and the reference points that ship with Poise."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from poise.io.files import is_mixed, regular, sweep
from poise.io.json_files import RecordError, read_json, require


@dataclass(frozen=True, eq=False)
class Audited:
    """The facts of audit.json, and arrays of the telling examples: x_0, u_0, s_0 and so on."""

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(repr=False)

    @property
    def name(self) -> str:
        return str(self.facts["model"]["name"])


@dataclass(frozen=True)
class Point:
    """A model in the plane: near and far gain, each (value, low, high); a reference ships with Poise."""

    name: str
    near: tuple[float, float, float]
    far: tuple[float, float, float]
    reference: bool = False


def load_audit(folder: Path) -> Audited:
    """Read the audit in a folder; RecordError if a file is missing or damaged."""
    for home in (folder, folder.parent):  # of one, and of a comparison
        sweep(home)
        if is_mixed(home):
            raise RecordError(f"{home} holds files of two audits: its process was killed, so run that audit again")
    path = folder / "audit.json"
    facts = read_json(path, "audit")
    require(path, facts, "audit", model=dict, data=dict, numbers=dict, verdict=dict, slices=list, telling=list)
    try:
        with regular(folder / "telling.npz").open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except Exception as error:  # whatever a damaged file makes numpy raise
        raise RecordError(f"{folder / 'telling.npz'} cannot be read: {error}") from None
    return Audited(facts, arrays)


def point_of(facts: dict[str, Any], reference: bool = False) -> Point | None:
    """The model in the plane; None if a gain is unknown."""
    ends = [[facts["numbers"][name][end] for end in ("value", "low", "high")] for name in ("near_gain", "far_gain")]
    if any(end is None for side in ends for end in side):
        return None
    (a, b, c), (d, e, f) = ends
    return Point(str(facts["model"]["name"]), (a, b, c), (d, e, f), reference)


def references() -> list[Point]:
    """Reference models, measured by `poise audit`."""
    rows = json.loads(files("poise.reporting").joinpath("audit_references.json").read_text(encoding="utf-8"))
    return [Point(row["name"], tuple(row["near"]), tuple(row["far"]), reference=True) for row in rows]
