"""The cost of a training step: XE, FCL, and FCL written plainly; and our contrast against pytorch-metric-learning's.

    python benchmarks/step.py --repeats 100                          # a CPU: LeNet, batch 128, float32
    python benchmarks/step.py --network resnet56 --batch 1024 --device cuda --bf16 --compile

Repetitions are interleaved, in one run on one machine. On a GPU times are medians, and "device busy" is one step's. On
a CPU they are the least CPU time of one thread, on which other programs have the least influence. Counting a forward as
1, a backward to the input as 1 and a full backward as 2, XE costs 3, FCL 10 and the plain version 11.

XE and FCL run as in the engine, whose backward pass names the weights. "total.backward()" does not: the image is a
leaf, and gets its gradient twice. "passes alone" are FCL's forward and backward passes, without selection, perturbation
and contrast: a floor.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext

import torch
from places import present, to_write
from torch import Tensor, nn

from poise import FCL, XE, CrossEntropy, Gaussian, GradientUtility, InfoNCE, LeNet, TopBottom, resnet56
from poise.classifier import evaluating
from poise.running.record import surroundings
from poise.training.kernels.backward import inductor

NETWORKS = {"lenet": (lambda: LeNet(15), (1, 28, 28)), "resnet56": (lambda: resnet56(10), (3, 32, 32))}
FCL_STEP = FCL(GradientUtility(), TopBottom(k=256), Gaussian(sigma=0.5), InfoNCE(temperature=0.1), weight=1e-3)


def xe(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return XE()(model, x, y).total


def fcl(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return FCL_STEP(model, x, y).total


def fcl_plainly(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """A separate pass for the utility, then one forward each for x, near and far."""
    image = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(CrossEntropy()(model.head(model.embed(image)), y).sum(), image)
    low, high = FCL_STEP.select(gradient.abs().float())
    z = model.embed(x)
    with evaluating(model):
        near, far = model.embed(FCL_STEP.perturb(x, low)), model.embed(FCL_STEP.perturb(x, high))
    return CrossEntropy()(model.head(z), y).mean() + FCL_STEP.weight * FCL_STEP.contrast(z, near, far)


def passes_alone(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    image = x.detach().requires_grad_()
    z = model.embed(image)
    losses = CrossEntropy()(model.head(z), y)
    torch.autograd.grad(losses.sum(), image, retain_graph=True)
    with evaluating(model):
        views = model.embed(torch.cat([x, x]))
    return losses.mean() + z.mean() + views.mean()


STEPS = {
    "XE": xe,
    "FCL": fcl,
    "FCL, total.backward()": fcl,
    "FCL, the plain way": fcl_plainly,
    "FCL, passes alone": passes_alone,
}


PLAIN = ("FCL, total.backward()", "FCL, the plain way")


def timed(work: Callable[[], object], device: torch.device, calls: int) -> float:
    """Milliseconds per call, over several consecutive calls as in training, so that the device does not wait."""
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    begin = clock()
    for _ in range(calls):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return 1000 * (clock() - begin) / calls


def typical(works: dict[str, Callable[[], object]], device: torch.device, repeats: int) -> dict[str, float]:
    """The time of each, interleaved so that a drift of the machine affects all of them: medians, on a CPU the least."""
    for work in works.values():
        for _ in range(3):
            work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(timed(work, device, calls=5 if device.type == "cuda" else 1))
    summary = statistics.median if device.type == "cuda" else min
    return {name: summary(values) for name, values in times.items()}


def busy(work: Callable[[], object], device: torch.device) -> float | None:
    """Milliseconds of device time in one call, without the host's overhead; CUDA only."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work()
        torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in profile.key_averages()) / 1000


def time_steps(
    arguments: argparse.Namespace, device: torch.device, compiled: bool
) -> dict[str, dict[str, float | None]]:
    build, shape = NETWORKS[arguments.network]
    layout = torch.channels_last if arguments.bf16 else torch.contiguous_format  # as plans choose it
    x = torch.rand(arguments.batch, *shape, device=device).contiguous(memory_format=layout)
    y = torch.randint(10, (arguments.batch,), device=device)
    works = {}
    for name, step in STEPS.items():
        torch.manual_seed(0)
        model = build().to(device, memory_format=layout)
        leaves = None if name in PLAIN else list(model.parameters())
        if compiled:
            model.embed = torch.compile(model.embed, backend="inductor" if name in PLAIN else inductor)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, nesterov=True)

        def work(model: nn.Module = model, step=step, optimizer=optimizer, leaves=leaves) -> None:
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16) if arguments.bf16 else nullcontext():
                total = step(model, x, y)
            total.backward(inputs=leaves)
            optimizer.step()

        works[name] = work
    times = typical(works, device, arguments.repeats)
    return {name: {"ms": times[name], "busy": busy(work, device)} for name, work in works.items()}


def contrasts(batch: int, device: torch.device) -> dict[str, Callable[[], object]]:
    """One forward and backward of Eq. 6 on [batch, 64], ours and with explicit pairs in pytorch-metric-learning."""
    from pytorch_metric_learning.losses import NTXentLoss

    z, near, far = (torch.randn(batch, 64, device=device, requires_grad=True) for _ in range(3))
    own = torch.arange(batch, device=device)
    anchors, others = (own[:, None] != own[None, :]).nonzero().unbind(1)
    pairs = (own, own + batch, torch.cat([anchors, own]), torch.cat([others, own + 2 * batch]))
    peer, ours = NTXentLoss(temperature=0.1), InfoNCE(temperature=0.1)
    return {
        "ours": lambda: ours(z, near, far).backward(),
        "pytorch-metric-learning": lambda: peer(torch.cat([z, near, far]), indices_tuple=pairs).backward(),
    }


def contrast_memory(batch: int, device: torch.device) -> dict[str, float]:
    """The peak memory of the same, in MB; CUDA only."""
    peaks = {}
    for name, work in contrasts(batch, device).items():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        peaks[name] = (torch.cuda.max_memory_allocated() - before) / 1e6
    return peaks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS, default="lenet")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--device", type=present, default="cpu")
    parser.add_argument("--bf16", action="store_true", help="bf16 autocast")
    parser.add_argument("--compile", action="store_true", help="also with torch.compile")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--contrast", type=int, nargs="*", default=[128, 256], help="batch sizes for the contrast")
    parser.add_argument("--out", type=to_write, help="write the numbers as JSON")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    threads = f"{platform.machine()}, {torch.get_num_threads()} threads"
    name = torch.cuda.get_device_name() if device.type == "cuda" else threads
    record: dict[str, object] = {**surroundings(device), "device": name}
    precision = "bf16" if arguments.bf16 else "float32"
    print(f"{arguments.network}, batch {arguments.batch}, {precision}, {name}, torch {torch.__version__}\n")
    print("| step | how | ms | / XE | / FCL | device busy, ms | / XE |\n|---|---|---:|---:|---:|---:|---:|")
    for how in ["eager", "compiled"] if arguments.compile else ["eager"]:
        times = time_steps(arguments, device, how == "compiled")
        record[how] = times
        xe_time, fcl_time = times["XE"], times["FCL"]
        for step, time_of in times.items():
            ratios = f"{time_of['ms'] / xe_time['ms']:.2f} | {time_of['ms'] / fcl_time['ms']:.2f}"
            share = (
                f"{time_of['busy']:.2f} | {time_of['busy'] / xe_time['busy']:.2f}" if device.type == "cuda" else "- | -"
            )
            print(f"| {step} | {how} | {time_of['ms']:.2f} | {ratios} | {share} |", flush=True)
    print("\n| contrast, forward and backward | batch | ms | / ours | MB |\n|---|---:|---:|---:|---:|")
    for batch in arguments.contrast:
        times = typical(contrasts(batch, device), device, min(arguments.repeats, 5))
        memory = contrast_memory(batch, device) if device.type == "cuda" else {}
        record[f"contrast {batch}"] = {"ms": times, "MB": memory}
        for name, ms in times.items():
            megabytes = f"{memory[name]:.0f}" if memory else "-"
            print(f"| {name} | {batch} | {ms:.2f} | {ms / times['ours']:.1f} | {megabytes} |", flush=True)
    if arguments.out:
        arguments.out.write_text(
            json.dumps({**record, "arguments": {k: str(v) for k, v in vars(arguments).items() if k != "out"}}, indent=1)
        )


if __name__ == "__main__":
    main()
