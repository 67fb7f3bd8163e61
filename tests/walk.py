"""Walk through a command: which of our files does its code run through, and in which order?

    python tests/walk.py reproduce CACHE OUT    until the first value of FCL's contrast
    python tests/walk.py audit CACHE OUT        a classifier of digits, to the end

Prints a file per line, in the order of their first call. Imports do not count: only functions that run.
"""

from __future__ import annotations

import os
import sys
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import poise
from poise.cli.main import main
from poise.data.sets import cache

HOME = f"{Path(poise.__file__).parent}{os.sep}"


class Arrived(BaseException):
    """The walk is at its end."""


def files_of(words: list[str], end: str = "") -> list[str]:
    """The files whose functions `poise WORDS` runs, until a call of one in the file `end` has returned."""
    seen: dict[str, None] = {}

    def look(frame: FrameType, event: str, arg: Any) -> None:
        file = frame.f_code.co_filename.removeprefix(HOME)
        if file == frame.f_code.co_filename or not frame.f_code.co_flags & CO_OPTIMIZED or _imports(frame):
            return
        seen.setdefault(file)
        if event == "return" and file == end and frame.f_code.co_name == "__call__" and isinstance(arg, torch.Tensor):
            sys.setprofile(None)
            raise Arrived

    sys.argv[1:] = words
    sys.setprofile(look)
    try:
        main()
    except (Arrived, SystemExit):
        pass
    finally:
        sys.setprofile(None)
    return list(seen)


def _imports(frame: FrameType | None) -> bool:
    """Whether a call is a part of an import, of a constant say."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(HOME):
            return True
        frame = frame.f_back
    return False


def drawn_digits() -> None:
    """Pictures of noise in MNIST's place in the cache, as many as the quick version takes."""
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(256, (24_000, 28, 28), generator=generator, dtype=torch.uint8).numpy()
    labels = (torch.arange(24_000) % 10).byte().numpy()
    parts = {"train_x": pictures[:23_000], "train_y": labels[:23_000], "test_x": pictures[23_000:]}
    cache.store("mnist", {**parts, "test_y": labels[23_000:]}.items(), "a test", {})


if __name__ == "__main__":
    command, place, out = sys.argv[1:]
    os.environ["POISE_DATA"] = place
    drawn_digits()
    if command == "reproduce":
        words = ["reproduce", "synthetic-mnist", "--quick", "--method", "FCL", "--seeds", "1", "--out", out]
        walked = files_of(words, end="objectives/contrast.py")
    else:
        network = Path(out).with_suffix(".safetensors")
        poise.save_model(poise.LeNet(10), network, "LeNet", num_classes=10)
        walked = files_of(["audit", str(network), "--data", "mnist", "--examples", "4", "--out", out])
    print("\n".join(walked))
