"""With our own draws, the statistics of the reference on the first 1,000 CIFAR-10 test images."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from poise import corrupt
from poise.corruptions.protocols import CORRUPTIONS, SEVERITIES
from poise.data.sets.cache import load, manifest_of

STATISTICS = Path(__file__).parents[3] / "shared" / "corruptions" / "golden_stats.json"
pytestmark = [
    pytest.mark.skipif(not STATISTICS.exists(), reason="the reference's statistics are not beside the checkout"),
    pytest.mark.skipif(manifest_of("cifar10") is None, reason="CIFAR-10 is not in the cache: poise data get cifar10"),
]


@pytest.fixture(scope="module")
def images() -> Tensor:
    return torch.from_numpy(load("cifar10", "test_x")[:1000].copy()).permute(0, 3, 1, 2).contiguous()


@pytest.fixture(scope="module")
def statistics() -> dict:
    return json.loads(STATISTICS.read_text())["stats"]


def radial_power(residual: Tensor) -> Tensor:
    """|FFT|^2 / 1024 by rounded radius, the last bin for all beyond, without each image's mean [17]."""
    residual = residual - residual.mean((1, 2, 3), keepdim=True)
    power = (torch.fft.fft2(residual).abs() ** 2 / 1024).mean((0, 1))
    frequency = torch.fft.fftfreq(32) * 32
    radius = torch.hypot(frequency[:, None], frequency).round().clamp(max=16).long().flatten()
    count = torch.bincount(radius)
    return torch.zeros(17, dtype=power.dtype).scatter_add_(0, radius, power.flatten()) / count


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_mean_spread_and_spectrum_are_the_reference_ones(name: str, images: Tensor, statistics: dict) -> None:
    for severity in SEVERITIES:
        sets = statistics[name][str(severity)]
        residual = corrupt(images, name, severity, libraries="today").double() - images
        power = radial_power(residual)
        for expected in sets.values():
            error = expected["per_image_mean"]["se"] if len(sets) > 1 else 1e-6
            assert abs(residual.mean() - expected["res_mean"]) <= 4 * math.sqrt(2) * error
            assert abs(residual.std(correction=0) / expected["res_std"] - 1) <= (0.03 if len(sets) > 1 else 1e-6)
            # The first bin is one coefficient, in which the reference differs from itself by up to 39 %.
            ratio = power[1:] / torch.tensor(expected["residual_power_radial"], dtype=torch.float64)[1:]
            assert (ratio - 1).abs().max() <= (0.12 if len(sets) > 1 else 1e-4), (severity, ratio)
