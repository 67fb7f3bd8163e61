"""What can go wrong with data, each with one sentence that says what to do.

DataError
├── DataNotFound     a set is not here, and no way led to it; also a FileNotFoundError
├── DataMismatch     what arrived is not what it should be: digest, shape or count
├── DataUnsafe       a pickle or an archive that asks for more than data
└── CacheError       the cache itself cannot be written
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
