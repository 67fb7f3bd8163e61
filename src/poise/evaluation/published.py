"""Published corrupted images: the files of CIFAR-10-C and its like, and the folders of ImageNet-C.

FOLDER/fog.npy, FOLDER/labels.npy                    severity after severity [5 * N, H, W, 3]
FOLDER/[<group>/]<corruption>/<severity>/<class>/    images
cifar10-c, cifar100-c                                from the cache
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poise.corruptions.protocols import SEVERITIES
from poise.data.sets.cache import load, manifest_of
from poise.data.sets.folders import imagenet_c_part
from poise.errors import AuditError, DataError
from poise.evaluation.benchmarks import TestSet
from poise.inputs.examples import AuditExamples
from poise.inputs.images import from_array, from_listing, open_array


@dataclass(frozen=True)
class PublishedFiles:
    """The files of a corrupted set; `read` maps (test set, size) to its examples."""

    name: str
    read: Callable[[TestSet, int | None], AuditExamples]

    def available(self, tests: Sequence[TestSet], asked: bool) -> list[TestSet]:
        """Those of the test sets that are there; AuditError if there is none, or one is missing that was asked for."""
        found, missing = [], []
        for test in tests:
            try:
                self.read(test, None)
                found.append(test)
            except (AuditError, DataError) as error:
                missing.append(str(error))
        if missing and (asked or not found):
            raise AuditError(missing[0])
        return found


def published_files(source: str) -> PublishedFiles:
    """The published files of a folder, or of a set in the cache; AuditError if there are none."""
    folder = Path(source)
    if manifest_of(source) is not None:
        return PublishedFiles(
            source, lambda test, size: _part(source, load(source, test.corruption), load(source, "labels"), test)
        )
    if not folder.is_dir():
        raise AuditError(f"{source} is neither a folder of published corrupted images nor a set in the cache")
    if (folder / "labels.npy").is_file():
        return PublishedFiles(folder.name, lambda test, size: _from_arrays(folder, test))
    return PublishedFiles(folder.name, lambda test, size: _from_folders(folder, test, size))


def _from_arrays(folder: Path, test: TestSet) -> AuditExamples:
    return _part(folder.name, open_array(folder / f"{test.corruption}.npy"), open_array(folder / "labels.npy"), test)


def _part(name: str, images: np.ndarray, labels: np.ndarray, test: TestSet) -> AuditExamples:
    """The images of a severity; labels are those of all five, or of one."""
    count = len(images) // len(SEVERITIES)
    part = slice((test.severity - 1) * count, test.severity * count)
    own = labels[part] if len(labels) == len(images) else labels
    return from_array(f"{name} ({test})", images[part], own)


def _from_folders(folder: Path, test: TestSet, size: int | None) -> AuditExamples:
    listing = imagenet_c_part(folder, test.corruption, test.severity)
    if listing is None:
        raise AuditError(f"{folder} has no folder {test.corruption}/{test.severity}")
    return from_listing(f"{folder.name} ({test})", listing, folder, size)
