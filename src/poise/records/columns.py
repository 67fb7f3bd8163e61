"""The columns of a table: each is a number that a record's scores give.

a mean                  over one or more test sets
of some classes         the mean of their accuracies, each class counting once
mean corruption error   mean of (1 - accuracy) / the reference's error: lower is better
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from poise.corruptions.protocols import CORRUPTIONS, REFERENCE_ERRORS, SEVERITIES

Counts = Sequence[Sequence[int]]  # per class: correct, total


@dataclass(frozen=True)
class Column:
    """A name and the scores it is the mean of.

    classes  if any, only these classes count.
    errors   a reference's error for each score; if any, the column is an error relative to it.
    """

    name: str
    of: tuple[str, ...]
    classes: tuple[int, ...] = ()
    errors: tuple[float, ...] = ()

    @property
    def lower_is_better(self) -> bool:
        return bool(self.errors)

    def value(self, scores: Mapping[str, float], classes: Mapping[str, Counts]) -> float | None:
        """None unless all of its parts were measured."""
        if self.classes:
            parts = [_of_classes(classes.get(name, ()), self.classes) for name in self.of]
        else:
            parts = [scores.get(name) for name in self.of]
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts):
            return None
        if self.errors:
            known = [(1 - part) / error for part, error in zip(known, self.errors, strict=True)]
        return fmean(known)


def corruption_of(score: str) -> str | None:
    """The corruption that a test set shows, if it does: `fog` of `fog/3`."""
    name = score.split("/")[0]
    return name if name in CORRUPTIONS else None


def seen_and_unseen(overlaps: Collection[str], scores: Collection[str]) -> tuple[Column, ...]:
    """The tested corruptions that resemble a training augmentation, and the others, as two columns."""
    seen = tuple(score for score in scores if score in overlaps or score.split("/")[0] in overlaps)
    unseen = tuple(score for score in scores if score not in seen and corruption_of(score))
    both = (Column(f"seen ({_count(seen)})", seen), Column(f"unseen ({_count(unseen)})", unseen))
    return tuple(column for column in both if column.of) if seen else ()


def corruption_error(reference: str, scores: Collection[str]) -> Column | None:
    """The mean corruption error (mCE), where the reference has errors and all corruptions and severities are there."""
    errors = REFERENCE_ERRORS.get(reference, {})
    of = {f"{name}/{severity}": error for name, error in errors.items() for severity in SEVERITIES}
    if not of or not of.keys() <= set(scores):
        return None
    return Column("mCE", tuple(of), errors=tuple(of.values()))


def _of_classes(counts: Counts, wanted: tuple[int, ...]) -> float | None:
    held = [counts[number] for number in wanted if number < len(counts)]
    shares = [correct / total for correct, total in held if total]
    return fmean(shares) if len(shares) == len(wanted) else None


def _count(scores: tuple[str, ...]) -> int:
    return len({score.split("/")[0] for score in scores})
