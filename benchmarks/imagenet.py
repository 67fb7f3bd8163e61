"""The cost of ImageNet: decoding per core, and training ResNet-v2-50 with synthetic input and with real JPEGs.

    python benchmarks/imagenet.py --device cuda --out results/benchmarks/imagenet-h200.json     # 250 s
    python benchmarks/imagenet.py --decode-only --out results/benchmarks/imagenet-2-cores.json  # on any machine

The pictures are generated at ImageNet's usual sizes. The plain loop is eager PyTorch with a stock DataLoader; the
engine captures a step, and compiles it where the label has "compiled". "no graph" is how the engine runs under
torchrun.

Times are those of a steady state: networks are tuned before a loader starts, so that no queue fills meanwhile; loaders
are timed over complete rounds of their workers, whose batches arrive in bursts. Every number is written at once. The
benchmark stops after --seconds; the same command on the same commit and device measures the rest.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import torch
from places import present, to_write
from steady import Bench, Enough, Long, Meter, resident, stop_after, streamed, tuning
from torch.utils.data import DataLoader

from poise import FCL, XE, Gaussian, GradientUtility, InfoNCE, TopBottom, resnet_v2_50
from poise.data.loading.pictures import Pictures, PictureSet, RandomCrop, Source, StreamLoader, stream_epoch
from poise.data.loading.resident import DeviceLoader, to_unit
from poise.data.loading.shards import open_part, write_shards
from poise.data.sets.folders import Drawn, PackedListing, imagenet_part
from poise.running.benchmark import plain_fcl, plain_xe
from poise.schedules import Constant
from poise.training.engine import Engine
from poise.training.plan import SGD, Plan, in_layout

Batches: TypeAlias = Iterator[tuple[torch.Tensor, torch.Tensor]]
SIZES = ((500, 375), (500, 333), (375, 500), (640, 480), (400, 300))
SECONDS = {"XE": 8.0, "FCL": 3.0}  # with JPEGs: XE waits for the workers, whose pace varies, FCL for the GPU
OBJECTIVES: dict[str, Any] = {
    "XE": XE(),
    "FCL": FCL(GradientUtility(), TopBottom(k=512), Gaussian(sigma=1.0), InfoNCE(0.5, "sum"), weight=2e-4),
}


def decoding(source: Source, workers: int) -> float:
    """Crops per second with this number of workers; 0 means one thread, per second of processor time."""
    threads, clock = torch.get_num_threads(), time.perf_counter if workers else time.process_time
    meter = Meter(torch.device("cpu"), 32, 4 * max(1, workers), 3.0, max(1, workers), clock)
    torch.set_num_threads(1)  # idle torch threads spin, and would count as well
    with suppress(Enough):
        for _ in stream_epoch(PictureSet(source, RandomCrop()), 32, 0, workers=workers):
            meter()
    torch.set_num_threads(threads)
    return meter.rate


def plan_for(batch: int) -> Plan:
    return Plan(1, batch, SGD(nesterov=False, weight_decay=1e-4), Constant(0.1), "bfloat16")


def network(device: torch.device, plan: Plan) -> Any:
    torch.manual_seed(0)
    return in_layout(resnet_v2_50(1000).to(device), plan)


def synthetic(batch: int, device: torch.device) -> DeviceLoader:
    images = torch.randint(0, 256, (4 * batch, 3, 224, 224), dtype=torch.uint8, device=device)
    labels = torch.randint(0, 1000, (4 * batch,), device=device)
    return DeviceLoader(images.contiguous(memory_format=torch.channels_last), labels, batch)


def by_engine(
    data: Any, objective: Any, device: torch.device, meter: Meter, graph: bool = True, compiled: bool = False
) -> float:
    plan = plan_for(data.batch_size)
    model = network(device, plan)
    if compiled:
        model.embed = torch.compile(model.embed, dynamic=False)
    engine = Engine(model, objective, data, plan.optimizer(model.parameters(), device), plan)
    engine._captures = engine._captures and graph
    for each in (tuning(device, data.batch_size), meter):
        with suppress(Enough):
            for epoch in count():
                engine.epoch(epoch, each)
    return meter.rate


def plainly(batches: Batches, first: Batches, loss: Any, device: torch.device, meter: Meter) -> float:
    """Train with a plain eager loop; the first batches tune it."""
    model = network(device, plan_for(meter.batch))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    model.train()
    for source, each in ((first, tuning(device, meter.batch)), (batches, meter)):
        with suppress(Enough):
            for x, y in source:
                optimizer.zero_grad()
                with torch.autocast(device.type, torch.bfloat16):
                    total = loss(model, x, y)
                total.backward()
                optimizer.step()
                each()
    return meter.rate


def _resident(data: DeviceLoader) -> Batches:
    for epoch in count():
        yield from data.epoch(epoch)


def _from_jpegs(source: Source, batch: int, workers: int, device: torch.device) -> Batches:
    """A stock DataLoader with the same number of workers and pinned memory."""
    places = [(0, index) for index in source.order(0, 0).tolist()]
    pictures, pin = PictureSet(source, RandomCrop()), device.type == "cuda"
    for x, y in DataLoader(pictures, batch, sampler=places, num_workers=workers, pin_memory=pin, drop_last=True):
        on_device = x.to(device, non_blocking=True).contiguous(memory_format=torch.channels_last)
        yield to_unit(on_device), y.to(device, non_blocking=True)


def measure_decoding(bench: Bench, folder: Source, shards: Source) -> None:
    cores = bench.found["cores"]
    bench.rate("decode, 1 core", partial(decoding, folder, 0))
    bench.rate(f"decode, {cores} workers", partial(decoding, folder, cores))
    bench.rate(f"decode from shards, {cores} workers", partial(decoding, shards, cores))


def measure_training(bench: Bench, source: Source, batch: int) -> None:
    device, cores = bench.device, bench.found["cores"]
    torch.backends.cudnn.benchmark = True
    plain = {"XE": plain_xe, "FCL": plain_fcl(OBJECTIVES["FCL"])}
    held, labels = synthetic(batch, device), torch.from_numpy(source.labels).to(device)
    for name, objective in OBJECTIVES.items():
        label, meter = f"{name}, batch {batch}, synthetic", partial(resident, device, batch)
        bench.rate(f"{label}, plain", partial(plainly, _resident(held), _resident(held), plain[name], device, meter()))
        bench.rate(f"{label}, engine", partial(by_engine, held, objective, device, meter()))
    for name, objective in OBJECTIVES.items():
        label, meter = f"{name}, batch {batch}, JPEGs", partial(streamed, device, batch, cores, SECONDS[name])
        jpegs = _from_jpegs(source, batch, cores, device)
        bench.rate(f"{label}, plain", partial(plainly, jpegs, _resident(held), plain[name], device, meter()))
        data = StreamLoader(Pictures(source, RandomCrop(), cores), labels, batch, layout=torch.channels_last)
        bench.rate(f"{label}, engine", partial(by_engine, data, objective, device, meter()))
    for size, graph, compiled, said in (
        (128, False, False, "no graph"),
        (16, False, False, "no graph"),
        (batch, True, True, "compiled"),
    ):
        for name, objective in OBJECTIVES.items():
            how, data = (resident(device, size), graph, compiled), synthetic(size, device)
            label = f"{name}, batch {size}, synthetic, engine, {said}"
            bench.rate(label, partial(by_engine, data, objective, device, *how))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=present, default="cpu")
    parser.add_argument("--decode-only", action="store_true")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--pictures", type=int, default=2000, help="JPEGs to generate, at least 100")
    parser.add_argument("--seconds", type=int, default=300, help="stop after this time")
    parser.add_argument("--out", type=to_write)
    arguments = parser.parse_args()
    recipe = Drawn(classes=100, train=max(1, arguments.pictures // 100), val=1, sizes=SIZES, quality=92)
    with tempfile.TemporaryDirectory() as place:
        stop_after(arguments.seconds, place)
        bench = Bench(torch.device(arguments.device), arguments.out)
        begun = time.monotonic()
        folder = recipe.write(Path(place), bench.found["cores"])
        write_shards(folder, Path(place, "shards"), 500)
        files = [path.stat().st_size for path in (folder / "train").rglob("*.JPEG")]
        bench.found["jpegs"] = {"count": len(files), "mean_kb": sum(files) / len(files) / 1000}
        print(f"drawn: {len(files)} JPEGs in {time.monotonic() - begun:.1f} s", flush=True)
        source = Long(PackedListing(imagenet_part(folder, "train")))
        measure_decoding(bench, source, Long(open_part(Path(place, "shards"), "train")))
        if not arguments.decode_only:
            measure_training(bench, source, arguments.batch)


if __name__ == "__main__":
    main()
