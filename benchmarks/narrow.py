"""3x3 convolutions with few channels: our kernels against cuDNN's fastest ones and against the memory bandwidth.

    python benchmarks/narrow.py

Measures the first convolution of ResNet-56 and its stages with 16 and 32 channels, bf16, channels last: the output, the
gradient of the input and the gradient of the weights. Our kernels use a fourth colour of zeros, which normalisation has
already written. cuDNN first tries all its kernels. A CUDA graph contains the repeats, to exclude host time. *floor* is
the time of a copy that reads the input and writes the output. All of them benefit from what a large cache keeps of the
last repeat.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import torch
import torch.nn.functional as F
from places import present, some, to_write
from torch import Tensor

from poise.running.record import surroundings
from poise.training.kernels.narrow import COLOURS, conv3x3, input_gradient, weight_gradient, with_another

STAGES = ((COLOURS, 16, 32), (16, 16, 32), (32, 32, 16))  # input channels, output channels, side


def microseconds(work: Callable[[], object], repeats: int) -> float:
    """The time of one call, in a graph of `repeats` calls."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    graph, begin, end = torch.cuda.CUDAGraph(), torch.cuda.Event(True), torch.cuda.Event(True)
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            work()
    graph.replay()
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / repeats * 1000


def stage(c: int, k: int, side: int, batch: int, repeats: int, device: str) -> list[dict[str, float | str]]:
    def pictures(channels: int) -> Tensor:
        drawn = torch.randn(batch, channels, side, side, device=device, dtype=torch.bfloat16)
        return drawn.contiguous(memory_format=torch.channels_last)

    def back(*which: bool) -> object:
        ones = [1, 1]
        return torch.ops.aten.convolution_backward(g, x, half, None, ones, ones, ones, False, [0, 0], 1, which)

    x, g = pictures(c), pictures(k)
    w = torch.randn(k, c, 3, 3, device=device).contiguous(memory_format=torch.channels_last)
    half = w.bfloat16()
    ours_x, ours_w = (with_another(x), with_another(w)) if c == COLOURS else (x, w)
    read, written = torch.empty_like(x), torch.empty_like(g)
    copies = [microseconds(lambda to=to, of=of: to.copy_(of), repeats) for to, of in ((read, x), (written, g))]
    ways = {
        "out": (lambda: conv3x3(ours_x, ours_w), lambda: F.conv2d(x, half, padding=1)),
        "gradient of the input": (lambda: input_gradient(g, ours_w), lambda: back(True, False, False)),
        "gradient of the weights": (lambda: weight_gradient(ours_x, g), lambda: back(False, True, False)),
    }
    size = {"channels": f"{c} to {k}", "side": side, "batch": batch, "floor": sum(copies) / 2}
    return [
        {**size, "what": what, "ours": microseconds(ours, repeats), "cudnn": microseconds(cudnn, repeats)}
        for what, (ours, cudnn) in ways.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=present, default="cuda")
    parser.add_argument("--batch", type=some, default=1024)
    parser.add_argument("--repeats", type=some, default=50)
    parser.add_argument("--out", type=to_write)
    arguments = parser.parse_args()
    if torch.device(arguments.device).type != "cuda":
        parser.error("--device must be a GPU: the kernels do not run on a CPU")
    torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = True, 0
    asked = arguments.batch, arguments.repeats, arguments.device
    found = [row for sizes in STAGES for row in stage(*sizes, *asked)]
    print("| channels | what | ours, µs | cuDNN, µs | cuDNN / ours | floor, µs |\n|---:|---|---:|---:|---:|---:|")
    for row in found:
        ours, cudnn, floor = row["ours"], row["cudnn"], row["floor"]
        times = f"{ours:.0f} | {cudnn:.0f} | {cudnn / ours:.1f} | {floor:.0f}"
        print(f"| {row['channels']} | {row['what']} | {times} |")
    if arguments.out:
        facts = {**surroundings(torch.device(arguments.device)), "cudnn": torch.backends.cudnn.version()}
        arguments.out.write_text(json.dumps({**facts, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
