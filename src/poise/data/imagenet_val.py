"""The labels of ImageNet's validation pictures where all lie in one folder, from the files that people have beside it.

    LOC_val_solution.csv                          ILSVRC2012_val_00000001,n01751748 111 108 431 323    (Kaggle)
    imagenet_2012_validation_synset_labels.txt    one wnid per line, in the order of the pictures
    ILSVRC2012_validation_ground_truth.txt        one number per line; map_clsloc.txt or meta.mat, which come with it in
                                                  the development kit, say which wnid a number is

They are looked for in the folder of the pictures, beside it, in a development kit beside it, and above (Kaggle's tree).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from poise.data.errors import DataMismatch, DataNotFound

WNID = re.compile(r"n\d{8}")


def val_labels(val: Path) -> dict[str, str]:
    """{name of a picture without its ending: wnid}, for all 50,000."""
    for name, read in READERS.items():
        for place in _places(val):
            if (place / name).is_file():
                return _sound(read(place / name), place / name)
    raise DataNotFound(
        f"{val} holds pictures without class folders, and none of {', '.join(READERS)} is beside it to label them"
    )


def _places(val: Path) -> Iterator[Path]:
    yield from (val, val.parent)
    yield from sorted(val.parent.glob("*devkit*/data"))
    yield from val.parent.parents[:3]


def _kaggle(path: Path) -> dict[str, str]:
    rows = (line.partition(",") for line in _lines(path)[1:])
    return {name: prediction.split(" ")[0] for name, _, prediction in rows}


def _in_order(path: Path) -> dict[str, str]:
    return _numbered(_lines(path))


def _ground_truth(path: Path) -> dict[str, str]:
    wnids = _wnids_of_numbers(path.parent)
    return _numbered([wnids.get(line, line) for line in _lines(path)])


def _wnids_of_numbers(folder: Path) -> dict[str, str]:
    if (folder / "map_clsloc.txt").is_file():
        rows = [line.split(" ") for line in _lines(folder / "map_clsloc.txt")]
        return {row[1]: row[0] for row in rows if len(row) > 1}
    if (folder / "meta.mat").is_file():
        return _from_matlab(folder / "meta.mat")
    raise DataNotFound(
        f"{folder} has neither map_clsloc.txt nor meta.mat, which say what the ground truth's numbers mean"
    )


def _from_matlab(path: Path) -> dict[str, str]:
    try:
        matlab = import_module("scipy.io")
    except ModuleNotFoundError:
        raise DataNotFound(f"{path} needs a package more: pip install scipy") from None
    try:
        rows = matlab.loadmat(path, squeeze_me=True)["synsets"]
        return {str(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in rows}
    except Exception as error:  # whatever a damaged file makes the reader raise
        raise DataMismatch(f"{path} is not the development kit's meta.mat: {error}") from None


def _numbered(wnids: list[str]) -> dict[str, str]:
    return {f"ILSVRC2012_val_{number:08d}": wnid for number, wnid in enumerate(wnids, start=1)}


def _sound(labels: dict[str, str], path: Path) -> dict[str, str]:
    wrong = [wnid for wnid in labels.values() if not WNID.fullmatch(wnid)]
    if wrong or not labels:
        found = f"found {wrong[0][:60]!r}" if wrong else "it is empty"
        raise DataMismatch(f"{path} does not label pictures with classes such as n01440764: {found}")
    return labels


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf8").splitlines() if line]
    except UnicodeDecodeError:
        raise DataMismatch(f"{path} is not a text in UTF-8") from None


READERS: dict[str, Callable[[Path], dict[str, str]]] = {
    "LOC_val_solution.csv": _kaggle,
    "imagenet_2012_validation_synset_labels.txt": _in_order,
    "ILSVRC2012_validation_ground_truth.txt": _ground_truth,
}
