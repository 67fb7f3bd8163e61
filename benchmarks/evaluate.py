"""The cost of CIFAR-10-C with ResNet-56: `poise evaluate` beside a plain loop, in the same run.

    poise data get cifar10
    pip install imagecorruptions-imaug                    # the other library; optional
    OMP_NUM_THREADS=2 python benchmarks/evaluate.py       # 1,000 images, 19 corruptions, 5 severities

`poise evaluate` runs as its users call it, in a process of its own, with its records, intervals and page. The loop is
what a user of torch and imagecorruptions writes: corrupt image by image, stack, normalize, count right answers. It has
ImageNet's constants only, so its numbers differ; it is timed on a part of the images and scaled. CPU seconds are those
of all threads; divided by the number of cores they say what an idle machine would take.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from corruptions import cifar, peer_seconds
from places import to_write

import poise
from poise.corruptions.protocols import CORRUPTIONS, SEVERITIES

_PART = 20  # images of the plain loop


def command_seconds(count: int, home: Path, *options: str) -> dict[str, float]:
    """Wall and CPU seconds of the command, and the accuracy it found."""
    weights = home / "resnet56.safetensors"
    if not weights.exists():
        torch.manual_seed(0)
        poise.save_model(poise.resnet56(10), weights, "resnet56", num_classes=10)
    out = home / f"evaluation-{len(list(home.iterdir()))}"
    words = ["evaluate", str(weights), "--examples", str(count), "--published", "none", "--out", str(out), "--quiet"]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "poise", *words, *options], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.perf_counter() - begin, "cpu seconds": cpu}


def model_seconds(count: int) -> dict[str, float]:
    """The plain loop's passes through the model, scaled from a part of them."""
    model, x = poise.resnet56(10).eval(), torch.from_numpy(cifar(100)).permute(0, 3, 1, 2).float() / 255
    with torch.inference_mode():
        model(x)
        begin, cpu = time.perf_counter(), time.process_time()
        for _ in range(3):
            model(x)
    passes = count * (1 + len(CORRUPTIONS) * len(SEVERITIES)) / (3 * len(x))
    return {"seconds": (time.perf_counter() - begin) * passes, "cpu seconds": (time.process_time() - cpu) * passes}


def loop_seconds() -> dict[str, float] | None:
    """Corrupting by the other library, seconds for one image under all 95; None if it is missing."""
    images, total = cifar(_PART), 0.0
    for name in CORRUPTIONS:
        found = peer_seconds(np.ascontiguousarray(images), name)
        if found is None:
            return None
        total += found / len(images) * len(SEVERITIES)
    return {"seconds per image": total}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="images")
    parser.add_argument("--out", type=to_write, help="write the numbers to this file as JSON")
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as home:
        found = {
            "images": args.count,
            "sets": 1 + len(CORRUPTIONS) * len(SEVERITIES),
            "poise evaluate": command_seconds(args.count, Path(home)),
            "poise evaluate --bfloat16": command_seconds(args.count, Path(home), "--bfloat16"),
            "plain loop, model": model_seconds(args.count),
            "plain loop, imagecorruptions": loop_seconds(),
            "load": os.getloadavg()[0],
            "cores": cores,
            "torch": torch.__version__,
            "processor": platform.machine(),
        }
    text = json.dumps(found, indent=1)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
