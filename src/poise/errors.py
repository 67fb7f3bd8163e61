"""What a user can get wrong with an audit, each in one sentence that says what to do.

What can go wrong with data, each with one sentence that says what to do.

DataError
├── DataNotFound     a set is not here, and no way led to it; also a FileNotFoundError
├── DataMismatch     what arrived is not what it should be: digest, shape or count
├── DataUnsafe       a pickle or an archive that asks for more than data
└── CacheError       the cache itself cannot be written

What can go wrong in training, said in a sentence.
"""

from __future__ import annotations


class DataError(Exception):
    """Any failure to get, read or store data."""


class DataNotFound(DataError, FileNotFoundError):
    """A set that is nowhere to be found; the message lists where we looked."""


class DataMismatch(DataError):
    """Data that are not the ones expected; nothing of them is kept."""


class CacheError(DataError):
    """A cache that is full, read-only or not a folder: no other way would help."""


class DataUnsafe(DataError):
    """An archive that leaves its folder, or a pickle that names anything but numpy arrays."""


def printable(said: object) -> str:
    """Words from outside, as far as a terminal should show them."""
    text = "".join(letter if letter.isprintable() else "?" for letter in str(said).strip())
    return text if len(text) <= 200 else f"{text[:200]}…"


class TrainingError(Exception):
    """A run cannot go on; the message says where it stands and what to do."""


class NotFinite(TrainingError):
    """A part of the loss is NaN or infinite: it is the settings that are wrong; `place` is the run's in a fleet."""

    def __init__(self, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.place = place


class OutOfTime(TrainingError):
    """The time that a run was given is over; its checkpoint is kept."""


def out_of_time(after: str) -> OutOfTime:
    """The error of a run that stops after an epoch, a batch or a test."""
    return OutOfTime(f"the time limit was reached after {after}; run the same command to continue")


class AuditError(Exception):
    """A model, data or a condition that an audit cannot work with."""
