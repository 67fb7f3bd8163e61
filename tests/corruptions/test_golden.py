"""Against the reference's own outputs, draws injected: bit by bit, for every corruption, severity and size.

golden_2018 was made with the libraries with which CIFAR-10-C was published, the others with later ones.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from reference_draws import edge_images, reference_draws, seed_of

from poise.corruptions.blur import DefocusBlur
from poise.corruptions.corrupt import Corruption
from poise.corruptions.profiles import PROFILES
from poise.corruptions.protocols import CORRUPTIONS, SEVERITIES
from poise.corruptions.weather import pictures

SHARED = Path(__file__).parents[3] / "shared" / "corruptions"
pytestmark = [
    pytest.mark.miniature,
    pytest.mark.skipif(not SHARED.exists(), reason="the golden files are not beside the checkout"),
]

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"))]
FILES = {"cifar": "cifar", "edge": "cifar", "imagenet64": "tiny", "imagenet": "imagenet"}

# The reference sums these kernels by a Fourier transform: its own last bits, one value of 150,528.
ALLOWED = {("imagenet", "defocus_blur", 4): 1e-5}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CORRUPTIONS)
@pytest.mark.parametrize("file", FILES)
def test_every_severity_equals_the_reference(file: str, name: str, device: str) -> None:
    golden = np.load(SHARED / f"golden_{file}.npz")
    number = list(golden["names"]).index(name)
    images = torch.from_numpy(golden["clean"]).permute(0, 3, 1, 2).contiguous()
    for severity in SEVERITIES:
        setting = Corruption(name, FILES[file], "today").at(severity)
        draws = reference_draws(name, setting, images, [int(seed) for seed in golden["seeds"][number, severity - 1]])
        made = setting.apply(images.to(device), *(draw.to(device) for draw in draws)).permute(0, 2, 3, 1).cpu().numpy()
        share = (made != golden["corrupted"][number, severity - 1]).mean()
        assert share <= ALLOWED.get((FILES[file], name, severity), 0), f"severity {severity}: {share:.2%} differ"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["elastic_transform", "jpeg_compression"])
@pytest.mark.parametrize("file", ["cifar", "edge"])
def test_the_libraries_of_2018_equal_the_reference(file: str, name: str, device: str) -> None:
    golden = np.load(SHARED / "golden_2018.npz")
    number = list(golden["names"]).index(name)
    images = torch.from_numpy(np.load(SHARED / f"golden_{file}.npz")["clean"]).permute(0, 3, 1, 2).contiguous()
    for severity in SEVERITIES:
        setting = Corruption(name, "cifar", "2018").at(severity)
        draws = reference_draws(name, setting, images, golden[f"{file}_seeds"][number, severity - 1].tolist())
        made = setting.apply(images.to(device), *(draw.to(device) for draw in draws)).permute(0, 2, 3, 1).cpu().numpy()
        assert np.array_equal(made, golden[file][number, severity - 1]), severity


@pytest.mark.parametrize("name", ["motion_blur", "snow"])
def test_rounding_to_nearest_equals_the_reference(name: str) -> None:
    golden = np.load(SHARED / "golden_cifar.npz")
    images = torch.from_numpy(golden["clean"]).permute(0, 3, 1, 2).contiguous()
    for severity in SEVERITIES:
        setting = Corruption(name, "cifar", "2018").at(severity)
        seeds = [seed_of(list(golden["names"]).index(name), severity, index) for index in range(len(images))]
        made = setting.apply(images, *reference_draws(name, setting, images, seeds))
        assert np.array_equal(made.permute(0, 2, 3, 1).numpy(), golden[f"{name}_nearest"][severity - 1])


def test_our_edge_images_are_the_reference_ones() -> None:
    golden = np.load(SHARED / "golden_edge.npz")
    assert np.array_equal(edge_images().permute(0, 2, 3, 1).numpy(), golden["clean"])
    assert golden["seeds"][3, 1, 5] == seed_of(3, 2, 905)


def test_shipped_frost_is_the_reference_frost() -> None:
    for scale, side in ((0.2, 32), (0.3, 64), (1, 224)):
        expected = np.load(SHARED / "frost" / f"frost_rgb_{side}.npz")
        for number, picture in enumerate(pictures(scale), start=1):
            assert np.array_equal(picture.permute(1, 2, 0).numpy(), expected[f"f{number}"])


def test_kernels_and_constants_are_the_published_ones() -> None:
    kernels = json.loads((SHARED / "defocus_kernels.json").read_text())
    constants = json.loads((SHARED / "constants.json").read_text())
    for profile, key in {"cifar": "cifar", "tiny": "imagenet64", "imagenet": "imagenet"}.items():
        for setting, kernel in zip(PROFILES[profile]["defocus_blur"], kernels[key], strict=True):
            assert isinstance(setting, DefocusBlur)
            assert torch.equal(setting.kernel(), torch.tensor(kernel["kernel"] if isinstance(kernel, dict) else kernel))
        zooms = [list(setting.factors) for setting in PROFILES[profile]["zoom_blur"]]  # type: ignore[attr-defined]
        assert zooms == constants[key]["zoom_factors"]
        for name in set(CORRUPTIONS) - {"zoom_blur", "elastic_transform"}:
            fields = [
                [float(v) for v in dataclasses.astuple(s) if not isinstance(v, str)] for s in PROFILES[profile][name]
            ]  # type: ignore[call-overload]
            extra = {"frost": [constants[key]["frost_scale"]], "fog": [constants[key]["fog_map"]]}.get(name, [])
            published = [[*(c if isinstance(c, list) else [c]), *extra] for c in constants[key][name]]
            assert fields == published, name
        unit = constants[key]["elastic_unit"]
        published = [[unit * c for c in each] for each in constants[key]["elastic_transform"]]
        assert [list(dataclasses.astuple(s))[:3] for s in PROFILES[profile]["elastic_transform"]] == published  # type: ignore[call-overload]
