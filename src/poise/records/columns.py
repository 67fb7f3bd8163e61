"""Columns of a table. A column computes one number from the scores of a record:

a mean                  over one or more test sets
of some classes         the mean of their accuracies, each class counting once
worst class             the lowest accuracy of a class, the mean over the test sets
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
    """A column with a name: the mean of some scores.

    of       the names of the scores.
    classes  if given, the mean of the accuracies of these classes only.
    errors   the error of a reference for each score; if given, the column is an error relative to them.
    worst    the lowest accuracy of a class, of `classes` or of all that a test set has.
    """

    name: str
    of: tuple[str, ...]
    classes: tuple[int, ...] = ()
    errors: tuple[float, ...] = ()
    worst: bool = False

    def __post_init__(self) -> None:
        if self.errors and len(self.errors) != len(self.of):
            raise ValueError(f"errors={self.errors} must have one error for each of {self.of}")

    @property
    def lower_is_better(self) -> bool:
        return bool(self.errors)

    def value(self, scores: Mapping[str, float], classes: Mapping[str, Counts]) -> float | None:
        """The number for a record; None unless all parts of the column were measured."""
        if self.worst:
            parts = [_worst(classes.get(name, ()), self.classes) for name in self.of]
        elif self.classes:
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
    """The corruption in the name of a score, such as `fog` in `fog/3`; None if there is none."""
    name = score.split("/")[0]
    return name if name in CORRUPTIONS else None


def seen_and_unseen(overlaps: Collection[str], scores: Collection[str]) -> tuple[Column, ...]:
    """Two columns: the tested corruptions that resemble a training augmentation (`overlaps`), and the others.

    Empty if no tested corruption resembles one.
    """
    seen = tuple(score for score in scores if score in overlaps or score.split("/")[0] in overlaps)
    unseen = tuple(score for score in scores if score not in seen and corruption_of(score))
    both = (Column(f"seen ({_count(seen)})", seen), Column(f"unseen ({_count(unseen)})", unseen))
    return tuple(column for column in both if column.of) if seen else ()


def corruption_error(reference: str, scores: Collection[str]) -> Column | None:
    """The mean corruption error (mCE); None unless the reference has errors and all corruptions were tested."""
    errors = REFERENCE_ERRORS.get(reference, {})
    of = {f"{name}/{severity}": error for name, error in errors.items() for severity in SEVERITIES}
    if not of or not of.keys() <= set(scores):
        return None
    return Column("mCE", tuple(of), errors=tuple(of.values()))


def _worst(counts: Counts, wanted: tuple[int, ...]) -> float | None:
    chosen = [count for number, count in enumerate(counts) if not wanted or number in wanted]
    return min((correct / total for correct, total in chosen if total), default=None)


def _of_classes(counts: Counts, wanted: tuple[int, ...]) -> float | None:
    held = [counts[number] for number in wanted if number < len(counts)]
    shares = [correct / total for correct, total in held if total]
    return fmean(shares) if len(shares) == len(wanted) else None


def _count(scores: tuple[str, ...]) -> int:
    return len({score.split("/")[0] for score in scores})
