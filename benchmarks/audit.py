"""The cost of an audit: ResNet-v2-50 at 224 pixels, with the defaults of `poise audit`.

    python benchmarks/audit.py --pictures 100                    # two cores: the default sample
    python benchmarks/audit.py --pictures 1000 --device cuda     # one GPU

Weights and pictures are random, which costs as much as trained ones. A first audit of a few pictures warms up.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Iterator

import torch
from places import present, to_write
from torch import Tensor

import poise
from poise.running.record import surroundings


def pictures(count: int, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Smooth pictures with some noise."""
    generator = torch.Generator().manual_seed(0)
    for start in range(0, count, batch):
        rows = min(batch, count - start)
        coarse = torch.rand(rows, 3, 14, 14, generator=generator)
        smooth = torch.nn.functional.interpolate(coarse, size=224, mode="bicubic")
        noisy = smooth + 0.03 * torch.randn(smooth.shape, generator=generator)
        yield noisy.clamp(0, 1), torch.randint(1000, (rows,), generator=generator)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--device", type=present, default="cpu")
    parser.add_argument("--corruptions", default="fast")
    parser.add_argument("--probes", type=int, default=16)
    parser.add_argument("--out", type=to_write)
    words = parser.parse_args()
    device = torch.device(words.device)
    torch.manual_seed(0)
    model = poise.resnet_v2_50(1000).to(device)
    settings = {"corruptions": words.corruptions, "probes": words.probes}
    poise.audit(model, pictures(2, 2), examples=2, **settings)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    begin, used = time.perf_counter(), time.process_time()
    found = poise.audit(
        model,
        pictures(words.pictures, 64),
        examples=words.pictures,
        progress=lambda _, done, total: print(f"{done}/{total} {time.perf_counter() - begin:.1f} s", flush=True),
        **settings,
    )
    seconds, used = time.perf_counter() - begin, time.process_time() - used
    peak = (
        torch.cuda.max_memory_allocated()
        if device.type == "cuda"
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    )
    record = {
        "pictures": words.pictures,
        "seconds": round(seconds, 2),
        "seconds_per_picture": round(seconds / words.pictures, 4),
        "processor_seconds": round(used, 2),
        "peak_memory": peak,
        "settings": found.facts["settings"],
        "threads": torch.get_num_threads(),
        **surroundings(device),
    }
    print(json.dumps(record, indent=1))
    if words.out is not None:
        words.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
