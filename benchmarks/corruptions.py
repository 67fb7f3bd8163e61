"""The cost of the corruptions, compared with another library in the same run.

    poise data get cifar10
    pip install imagecorruptions-imaug           # the other library; optional
    OMP_NUM_THREADS=1 python benchmarks/corruptions.py  # 1,000 CIFAR images, severity 3
    OMP_NUM_THREADS=1 python benchmarks/corruptions.py --c-bar --imagenet 8    # C-bar alone
    python benchmarks/corruptions.py --device cuda --whole --imagenet 512

The other library has ImageNet's constants only and processes one image at a time; its work per image has the same kind
and size. If CIFAR-10 is not in the cache, random pixels replace it, which hardly changes the times.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch
from places import present, to_write
from timing import seconds
from torch import Tensor

from poise import corrupt
from poise.corruptions.protocols import C_BAR, CORRUPTIONS, SEVERITIES
from poise.data.sets.cache import load, manifest_of


def cifar(count: int) -> np.ndarray:
    if manifest_of("cifar10") is not None:
        return np.array(load("cifar10", "test_x")[:count])
    return np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)


def as_tensor(images: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().to(device)


def large(count: int) -> np.ndarray:
    """Smooth pictures of 224 px with some noise."""
    generator = np.random.default_rng(0)
    coarse = torch.from_numpy(generator.uniform(0, 255, (count, 3, 14, 14)))
    smooth = torch.nn.functional.interpolate(coarse, size=224, mode="bicubic")
    noisy = smooth + torch.from_numpy(generator.normal(0, 8, smooth.shape))
    return noisy.clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


def peer_seconds(images: np.ndarray, name: str) -> float | None:
    try:
        from imagecorruptions import corrupt as peer
    except ImportError:
        return None
    peer(images[0], corruption_name=name, severity=3)
    begin = time.perf_counter()
    for image in images:
        peer(image, corruption_name=name, severity=3)
    return time.perf_counter() - begin


def glass_by_loop(image: np.ndarray) -> np.ndarray:
    """glass_blur at 224 px and severity 3 like the original: pixel by pixel, in Python."""
    from scipy.ndimage import gaussian_filter

    x = np.uint8(gaussian_filter(image / 255, (1, 1, 0), mode="nearest") * 255)
    for _ in range(3):
        for row in range(222, 2, -1):
            for column in range(222, 2, -1):
                right, down = np.random.randint(-2, 2, size=2)
                there = row + down, column + right
                x[row, column], x[there] = x[there], x[row, column]
    return np.clip(gaussian_filter(x / 255, (1, 1, 0), mode="nearest"), 0, 1) * 255


def per_corruption(device: torch.device, count: int) -> dict[str, dict[str, float | None]]:
    """Seconds for `count` CIFAR images at severity 3, for us and the other library."""
    images = cifar(count)
    x, rows = as_tensor(images, device), {}
    for name in CORRUPTIONS:
        corrupt(x[:50], name, 3)
        ours = seconds(lambda name=name: corrupt(x, name, 3), device)
        rows[name] = {"ours": ours, "peer": peer_seconds(images, name) if device.type == "cpu" else None}
    return rows


def whole(device: torch.device) -> float:
    """Seconds for all of CIFAR-10-C: 10,000 images x 19 x 5, drawn and corrupted."""
    x = as_tensor(cifar(10_000), device)

    def all_of_it() -> None:
        for name in CORRUPTIONS:
            for severity in SEVERITIES:
                corrupt(x, name, severity)

    return seconds(all_of_it, device, repeats=2)


def throughput(device: torch.device, count: int) -> dict[str, float]:
    """Images of 224 px per second at severity 3."""
    x, rows = as_tensor(large(count), device), {}
    for name in CORRUPTIONS:
        corrupt(x[:2], name, 3)
        rows[name] = count / seconds(lambda name=name: corrupt(x, name, 3), device, repeats=2)
    return rows


def c_bar(device: torch.device, count: int, large_count: int) -> dict[str, dict[str, float]]:
    """Images per second of C-bar at severity 3: of 32 px with CIFAR's constants, and of 224 px with ImageNet's."""
    sizes = {"cifar": as_tensor(cifar(count), device), "imagenet": as_tensor(large(large_count), device)}
    rates: dict[str, dict[str, float]] = {}
    for profile, x in sizes.items():
        for name in C_BAR[profile]:
            corrupt(x[:2], name, 3, profile)
            taken = seconds(lambda name=name, x=x, profile=profile: corrupt(x, name, 3, profile), device)
            rates.setdefault(profile, {})[name] = len(x) / taken
    return rates


def show_c_bar(rates: dict[str, dict[str, float]]) -> None:
    for profile, side in (("cifar", 32), ("imagenet", 224)):
        print(f"\n| C-bar, {profile}, {side} px, severity 3 | images per second |\n|---|---:|")
        for name, rate in rates[profile].items():
            print(f"| {name} | {rate:,.0f} |")


def show(rows: dict[str, dict[str, float | None]], count: int) -> None:
    print(f"\n| {count} CIFAR images, severity 3 | ours, s | imagecorruptions-imaug, s |\n|---|---:|---:|")
    for name, row in rows.items():
        print(f"| {name} | {row['ours']:.3f} | {'-' if row['peer'] is None else format(row['peer'], '.2f')} |")
    ours = sum(row["ours"] or 0 for row in rows.values())
    peers = [row["peer"] for row in rows.values() if row["peer"] is not None]
    print(f"| **all 19** | **{ours:.2f}** | {f'**{sum(peers):.1f}**' if peers else '-'} |")
    if peers:
        print(f"\nThe peer takes {sum(peers) / ours:.1f} times as long, in this run.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=present, default="cpu")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--whole", action="store_true", help="all of CIFAR-10-C")
    parser.add_argument("--imagenet", type=int, default=0, metavar="N", help="throughput on N images of 224 px")
    parser.add_argument("--c-bar", action="store_true", help="the ten of CIFAR and the ten of ImageNet instead")
    parser.add_argument("--out", type=to_write)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    record: dict[str, object] = {"torch": torch.__version__, "device": str(device), "threads": torch.get_num_threads()}
    if arguments.c_bar:
        record["C-bar, images per second"] = rates = c_bar(device, arguments.count, arguments.imagenet or 8)
        show_c_bar(rates)
    else:
        the_nineteen(record, device, arguments)
    if device.type == "cuda":
        record["gpu"], record["peak memory, bytes"] = torch.cuda.get_device_name(), torch.cuda.max_memory_allocated()
    if arguments.out:
        arguments.out.write_text(json.dumps(record, indent=1))


def the_nineteen(record: dict[str, object], device: torch.device, arguments: argparse.Namespace) -> None:
    record["cifar"] = rows = per_corruption(device, arguments.count)
    show(rows, arguments.count)
    x = as_tensor(large(8 if device.type == "cpu" else 256), device)
    corrupt(x[:2], "glass_blur", 3)
    record["glass_blur 224 px, s per image"] = glass = seconds(lambda: corrupt(x, "glass_blur", 3), device) / len(x)
    record["glass_blur 224 px by a loop, s"] = loop = seconds(lambda: glass_by_loop(large(1)[0]), device, repeats=2)
    ratio = f"{loop / glass:.0f} times ours"
    print(
        f"\nglass_blur at 224 px: {glass * 1e3:.2f} ms per image; the original's loop takes {loop:.2f} s here, {ratio}"
    )
    if arguments.whole:
        record["CIFAR-10-C, s"] = total = whole(device)
        print(f"all of CIFAR-10-C (950,000 images): {total:.1f} s")
    if arguments.imagenet:
        record["224 px, images per second"] = rates = throughput(device, arguments.imagenet)
        print("\n| 224 px, severity 3 | images per second |\n|---|---:|")
        for name, rate in rates.items():
            print(f"| {name} | {rate:,.0f} |")


if __name__ == "__main__":
    main()
