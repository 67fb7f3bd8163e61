"""Data fitted to a model: which examples are taken, and which class of the model a label means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from poise.auditing.errors import AuditError
from poise.auditing.examples import Examples


def sample(count: int, wanted: int, seed: int) -> list[int]:
    """`wanted` of `count` examples at random, the same for every model of a seed."""
    order = np.random.default_rng(seed).permutation(count)
    return [int(row) for row in order[: min(wanted, count)]]


def in_classes_of(found: Examples, names: Sequence[str], num_classes: int) -> Examples:
    """Labels as the model counts its classes: by name where its names are known, else in order.

    A folder with other classes than the model's cannot be put in order without the names.
    """
    if names and len(names) != num_classes:
        raise AuditError(f"{len(names)} names of classes were given, but the model has {num_classes} classes")
    if names and set(found.classes) <= set(names):
        places = np.array([list(names).index(name) for name in found.classes])
        return replace(found, labels=places[found.labels], classes=list(names))
    numbered = list(found.classes) == [str(place) for place in range(len(found.classes))]
    if int(found.labels.max(initial=0)) >= num_classes:
        raise AuditError(f"{found.name} has label {found.labels.max()}, but the model has {num_classes} classes")
    if numbered:
        called = names or (found.called if len(found.called) == num_classes else found.classes)
        return replace(found, classes=list(called))
    if len(found.classes) != num_classes:
        raise AuditError(
            f"{found.name} has {_folders(len(found.classes))}, the model {num_classes} classes: give its names, "
            "one per line in its order, with --classes FILE, and call the folders so"
        )
    return found


def _folders(count: int) -> str:
    return "1 class folder" if count == 1 else f"{count} class folders"
