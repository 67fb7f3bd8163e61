"""The errors that Poise raises for problems with data, training and audits; each message says what to do.

DataError
├── DataNotFound     a data set is missing and no source has it; also a FileNotFoundError
├── DataMismatch     the data have the wrong digest, shape or count
├── DataUnsafe       a pickle or an archive that contains more than data
└── CacheError       the cache cannot be written
TrainingError
├── NotFinite        a part of the loss is NaN or infinite
└── OutOfTime        the time limit of a run is over
AuditError           a model, data or a condition that an audit or an evaluation does not support
RecordError          a file or a folder that no table can be made of
"""

from __future__ import annotations

INTERRUPTED = 130  # the exit code of a command after Ctrl-C


class DataError(Exception):
    """Any failure to get, read or store data."""


class DataNotFound(DataError, FileNotFoundError):
    """A data set was not found; the message lists where we looked."""


class DataMismatch(DataError):
    """The data differ from the expected data; nothing is stored."""


class CacheError(DataError):
    """The cache is full, read-only or not a folder; trying another source does not help."""


class DataUnsafe(DataError):
    """An archive with paths outside its folder, or a pickle that names anything except numpy arrays."""


def excerpt(said: object) -> str:
    """Words from outside, as far as a terminal should show them."""
    text = "".join(letter if letter.isprintable() else "?" for letter in str(said).strip())
    return text if len(text) <= 200 else f"{text[:200]}…"


class TrainingError(Exception):
    """A run cannot continue; the message says how far it got and what to do."""


class NotFinite(TrainingError):
    """A part of the loss is NaN or infinite, because of the settings; `place` is the run's position in a fleet."""

    def __init__(self, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.place = place


class OutOfTime(TrainingError):
    """The time limit of a run is over; its checkpoint is saved."""


def out_of_time(after: str) -> OutOfTime:
    """The error of a run that stops after an epoch, a batch or a test."""
    return OutOfTime(f"the time limit was reached after {after}; run the same command to continue")


class AuditError(Exception):
    """A model, data or a condition that an audit or an evaluation does not support."""


class RecordError(Exception):
    """A file or a folder that no table can be made of; the message is one sentence that names it."""
