"""The cost of data: opening a set, synthesising MNIST with its noises, and an epoch of augmented CIFAR-10 batches.

    poise data get mnist cifar10
    python benchmarks/data.py                    # two cores
    python benchmarks/data.py --device cuda      # also an XE epoch of ResNet-56
    OMP_NUM_THREADS=1 python benchmarks/data.py --augmentations    # images per second of each augmentation

Sets that are not in the cache are replaced by random pixels of the same shape, which cost the same.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch
from places import present, to_write
from timing import seconds

from poise import (
    PRIME,
    XE,
    AugMix,
    Chain,
    GaussianNoise,
    PatchGaussian,
    PixMix,
    RandAugment,
    Standard,
    TrivialAugment,
    resnet56,
)
from poise.data.loading.resident import DeviceLoader, on_device
from poise.data.pixel_noise import PixelNoise, pixel_deviation
from poise.data.sets.cache import load, manifest_of
from poise.data.synthetic_mnist import SyntheticMNIST

SHAPES = {"mnist": (28, 28), "cifar10": (32, 32, 3)}


def arrays(name: str) -> dict[str, np.ndarray]:
    if manifest_of(name) is not None:
        return {item: load(name, item) for item in ("train_x", "train_y", "test_x", "test_y")}
    generator, counts = np.random.default_rng(0), {"train": 60_000 if name == "mnist" else 50_000, "test": 10_000}
    made = {}
    for part, count in counts.items():
        made[f"{part}_x"] = generator.integers(0, 256, (count, *SHAPES[name]), dtype=np.uint8)
        made[f"{part}_y"] = generator.integers(0, 10, count, dtype=np.uint8)
    return made


def open_whole(name: str) -> None:
    """Every array of a set, read into memory as tensors."""
    opened = arrays(name)
    for part in ("train", "test"):
        on_device(opened[f"{part}_x"], opened[f"{part}_y"])


def synthesise(mnist: dict[str, np.ndarray]) -> None:
    parts = SyntheticMNIST()(mnist)
    deviation = pixel_deviation(parts["train"].x)
    for noise in (PixelNoise(), PixelNoise(uniform=False)):
        noise(parts["test"].x, deviation)


def xe_epoch(loader: DeviceLoader, model: torch.nn.Module, optimizer: torch.optim.Optimizer, augmented: bool) -> None:
    """An epoch of training; without augmentation, the same batch at every step."""
    device = loader.images.device
    batches = loader.epoch(0) if augmented else [next(loader.epoch(0))] * len(loader)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16):
            loss = XE()(model, x.contiguous(memory_format=torch.channels_last), y)
        loss.total.backward()
        optimizer.step()


def augmentations(device: torch.device, batch: int) -> dict[str, float]:
    """Images of 32 px per second of each augmentation, in batches; the fractals of PixMix are made before."""
    x, rates = torch.rand(batch, 3, 32, 32, device=device), {}
    several = (Standard(), PatchGaussian(25, 0.1), GaussianNoise(0.2), AugMix(), RandAugment(), TrivialAugment())
    for augment in (*several, PixMix(), PRIME()):
        augment(x)
        rates[type(augment).__name__] = batch / seconds(lambda augment=augment: augment(x), device)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=present, default="cpu")
    parser.add_argument("--augmentations", action="store_true", help="only images per second of each augmentation")
    parser.add_argument("--out", type=to_write)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if arguments.augmentations:
        rates = augmentations(device, 256 if device.type == "cpu" else 1024)
        print("| augmentation, 32 px | images per second |\n|---|---:|")
        for name, value in rates.items():
            print(f"| {name} | {value:,.0f} |")
        facts = {"torch": torch.__version__, "device": str(device), "threads": torch.get_num_threads()}
        if arguments.out:
            arguments.out.write_text(json.dumps({**facts, "images per second": rates}, indent=1))
        return
    rows = {"open CIFAR-10, train and test": seconds(lambda: open_whole("cifar10"), device)}
    mnist, cifar = arrays("mnist"), arrays("cifar10")
    rows["synthetic MNIST, UN and NUN"] = seconds(lambda: synthesise(mnist), device)
    images, labels = on_device(cifar["train_x"], cifar["train_y"], device)
    for name, augment in {
        "CIFAR epoch of batches: crop, flip": Standard(4),
        "CIFAR epoch of batches: crop, flip, Patch Gaussian": Chain((Standard(4), PatchGaussian(25, 0.1))),
    }.items():
        loader = DeviceLoader(images, labels, 1024, augment)
        rows[name] = seconds(lambda loader=loader: [None for _ in loader.epoch(0)], device)
    if device.type == "cuda":
        loader = DeviceLoader(images, labels, 1024, Standard(4))
        model = resnet56(10).to(device, memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        rows["XE epoch of ResNet-56, one batch again and again"] = seconds(
            lambda: xe_epoch(loader, model, optimizer, augmented=False), device
        )
        rows["XE epoch of ResNet-56, augmented"] = seconds(
            lambda: xe_epoch(loader, model, optimizer, augmented=True), device
        )
    print("| what | seconds |\n|---|---:|")
    for name, value in rows.items():
        print(f"| {name} | {value:.3f} |")
    if arguments.out:
        arguments.out.write_text(
            json.dumps({"torch": torch.__version__, "device": str(device), "seconds": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
