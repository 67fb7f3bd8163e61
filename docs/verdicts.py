"""When a claim of the paper holds.

A claim is a list of parts, each a comparison and what the paper says of it. A part is shown, contradicted or undecided:

above, below   shown if significant in this direction, contradicted if significant in the other
kept           shown if the interval lies above -MARGIN; contradicted if it lies below 0 and is not shown
alike          shown if the interval lies within ±ALIKE; contradicted if significant and not shown
useless        contradicted if significantly above 0, shown if the interval ends below MARGIN
reached        shown if the interval holds 0, contradicted if not

Significant is p < .05 after Holm's correction over the parts of the claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from docs.evidence import Effect
from poise.reporting.statistics import LEVEL, Difference, holm_corrected

MARGIN, ALIKE = 0.005, 0.025
Says = Literal["above", "below", "kept", "alike", "useless", "reached"]


@dataclass(frozen=True)
class Part:
    """A comparison that a claim makes; `effect` is None as long as nothing was run."""

    name: str
    says: Says
    effect: Effect | None


@dataclass(frozen=True)
class Claim:
    """A row. The first part is the effect that is shown.

    whole  every part must hold: one that is contradicted refutes the claim.
    known  a verdict that no effect decides, such as an identity, with its word of evidence.
    """

    number: str
    text: str
    link: str
    parts: tuple[Part, ...] = ()
    whole: bool = False
    known: tuple[str, str] | None = None


def state(says: Says, gap: Difference) -> int:
    """1 shown, -1 contradicted, 0 undecided."""
    if gap.low is None or gap.high is None:
        return 0
    sign = 0 if gap.holm is None or gap.holm >= LEVEL else 1 if gap.mean > 0 else -1
    if says in ("above", "below"):
        return sign if says == "above" else -sign
    if says == "kept":
        return 1 if gap.low > -MARGIN else min(sign, 0)
    if says == "alike":
        return 1 if gap.low > -ALIKE and gap.high < ALIKE else -abs(sign)
    if says == "useless":
        return -1 if sign > 0 else int(gap.high < MARGIN)
    return 1 if gap.low <= 0 <= gap.high else -1


def verdict(claim: Claim) -> str:
    """One word: holds, partly, refuted or open."""
    if claim.known:
        return claim.known[0]
    effects = [part.effect for part in claim.parts]
    gaps = holm_corrected([effect.gap if effect else None for effect in effects])
    states = [state(part.says, gap) if gap else 0 for part, gap in zip(claim.parts, gaps, strict=True)]
    if states and min(states) == 1:
        return "holds"
    if -1 in states and (claim.whole or 1 not in states):
        return "refuted"
    return "partly" if 1 in states else "open"
