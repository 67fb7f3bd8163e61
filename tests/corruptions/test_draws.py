"""The numbers of an image: known values, good statistics, and nothing but seed, label and index decides."""

import math
from hashlib import sha256

import pytest
import torch

from poise import Corruption
from poise.corruptions.draws import Random

MASK = (1 << 64) - 1


def mix(z: int) -> int:
    """SplitMix64's finalizer in Python's integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def by_hand(seed: int, label: str, index: int, count: int) -> list[float]:
    word = int.from_bytes(sha256(f"{seed}/{label}".encode()).digest()[:8], "big")
    key = mix((mix(index) + word) & MASK)
    numbers = []
    for i in range(1, (count + 1) // 2 + 1):
        bits = mix((key + i * 0x9E3779B97F4A7C15) & MASK)
        for half in (bits & 0xFFFFFFFF, bits >> 32):
            signed = half - (1 << 32) if half >> 31 else half
            numbers.append((signed + 2**31 + 0.5) / 2**32)
    return numbers[:count]


def test_the_numbers_are_splitmix64() -> None:
    index = torch.tensor([0, 1, 12345678901])
    drawn = Random(7, "fog/3", index).uniform(5)
    assert drawn.tolist() == [by_hand(7, "fog/3", int(i), 5) for i in index]


def normal_by_hand(uniform: list[float], count: int) -> list[float]:
    half = (count + 1) // 2
    radius = [math.sqrt(-2 * math.log(u)) for u in uniform[:half]]
    angle = [2 * math.pi * v for v in uniform[half : 2 * half]]
    both = [[r * turn(a) for r, a in zip(radius, angle, strict=True)] for turn in (math.cos, math.sin)]
    return (both[0] + both[1])[:count]


@pytest.mark.parametrize("count", [1, 4, 7])
def test_normal_numbers_are_cosines_then_sines(count: int) -> None:
    drawn = Random(7, "fog/3", torch.tensor([5])).normal(count)[0]
    uniform = by_hand(7, "fog/3", 5, count + count % 2)
    assert drawn.tolist() == pytest.approx(normal_by_hand(uniform, count), abs=1e-12)


def test_integers_are_cut() -> None:
    drawn = Random(7, "fog/3", torch.tensor([5])).integers(-3, 4, 9)[0]
    assert drawn.tolist() == [-3 + math.floor(u * 7) for u in by_hand(7, "fog/3", 5, 9)]


def test_an_array_begins_with_a_new_word() -> None:
    """Snow draws a plane of normal numbers, an odd one here, and an angle."""
    images = torch.zeros(1, 3, 17, 17, dtype=torch.uint8)
    noise, turn = Corruption("snow").draw(Random(0, "snow/1", torch.tensor([2])), images, 1)
    uniform = by_hand(0, "snow/1", 2, 291)
    assert noise.flatten().tolist() == pytest.approx(normal_by_hand(uniform[:290], 289), abs=1e-12)
    assert turn.tolist() == uniform[290:]


def test_photons_are_looked_up() -> None:
    images = torch.arange(3 * 16 * 16).remainder(256).to(torch.uint8).view(1, 3, 16, 16)
    (counts,) = Corruption("shot_noise").draw(Random(4, "shot_noise/2", torch.tensor([9])), images, 2)
    photons = Corruption("shot_noise").at(2).photons
    uniform = by_hand(4, "shot_noise/2", 9, images.numel())
    for level, u, count in zip(images.flatten().tolist(), uniform, counts.flatten().tolist(), strict=True):
        rate, k, total = level / 255 * photons, 0, 0.0
        while True:
            total += math.exp((k * math.log(rate) if rate else 0.0) - rate - math.lgamma(k + 1)) if rate or not k else 0
            if total > u:
                break
            k += 1
        assert count == k


def test_glass_takes_two_offsets_from_one_number() -> None:
    images = torch.zeros(1, 3, 16, 16, dtype=torch.uint8)
    glass = Corruption("glass_blur").at(5)
    (offsets,) = glass.draw(Random(0, "glass_blur/5", torch.tensor([0])), images)
    side, places = 2 * glass.reach, glass.iterations * (16 - 2 * glass.reach) ** 2
    across = [u * side for u in by_hand(0, "glass_blur/5", 0, places)]
    expected = [[math.floor(a) - glass.reach, math.floor((a % 1) * side) - glass.reach] for a in across]
    assert offsets.flatten(0, 3).tolist() == expected


def test_a_stream_moves_on() -> None:
    random = Random(0, "x", torch.tensor([3]))
    first, second = random.uniform(4), random.uniform(4)
    assert torch.equal(torch.cat([first, second], 1)[0], torch.tensor(by_hand(0, "x", 3, 8), dtype=torch.float64))


def test_seed_label_and_index_each_matter() -> None:
    base = Random(0, "fog/1", torch.tensor([0])).uniform(8)
    for other in (
        Random(1, "fog/1", torch.tensor([0])),
        Random(0, "fog/2", torch.tensor([0])),
        Random(0, "fog/1", torch.tensor([1])),
    ):
        assert not torch.isclose(other.uniform(8), base).any()


def test_uniform_numbers_are_uniform() -> None:
    drawn = Random(0, "u", torch.arange(200)).uniform(5000).flatten()
    assert drawn.min() > 0 and drawn.max() < 1
    counts = torch.histc(drawn, 100, 0, 1)
    chi = float(((counts - 10_000) ** 2 / 10_000).sum())
    assert abs(chi - 99) < 5 * math.sqrt(2 * 99)
    lagged = torch.corrcoef(torch.stack([drawn[:-1], drawn[1:]]))[0, 1]
    assert abs(lagged) < 5e-3


def test_neighbouring_images_are_independent() -> None:
    drawn = Random(0, "u", torch.arange(100)).uniform(10_000)
    correlation = torch.corrcoef(drawn) - torch.eye(100, dtype=torch.float64)
    assert correlation.abs().max() < 5.5 / math.sqrt(10_000)


def test_normal_numbers_are_normal() -> None:
    drawn = Random(0, "n", torch.arange(200)).normal(50, 101).flatten()
    count = len(drawn)
    assert abs(drawn.mean()) < 5 / math.sqrt(count)
    assert abs(drawn.var() - 1) < 5 * math.sqrt(2 / count)
    assert abs((drawn**4).mean() - 3) < 5 * math.sqrt(96 / count)
    inside = (drawn.abs() < 1.959964).double().mean()
    assert abs(inside - 0.95) < 5 * math.sqrt(0.95 * 0.05 / count)


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (-4, 4), (0, 5)])
def test_integers_reach_their_bounds_and_no_further(low: int, high: int) -> None:
    drawn = Random(0, "i", torch.arange(50)).integers(low, high, 40, 25)
    counts = torch.bincount(drawn.flatten() - low, minlength=high - low)
    assert drawn.min() == low and drawn.max() == high - 1
    assert (counts.double() / drawn.numel() - 1 / (high - low)).abs().max() < 0.01
