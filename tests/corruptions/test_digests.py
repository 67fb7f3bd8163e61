"""Digests of outputs on images made by code; `python tests/corruptions/test_digests.py` writes them anew.

reference   the reference's own outputs on eight provoking images, its draws injected (from the golden files)
2018        the same of the two that other libraries change, with those of the published sets (from golden_2018)
libjpeg 9c  its own outputs, through the package jpeglib, on synthetic images of many sizes and qualities
own         ours, with our draws, on synthetic images of each profile's size
"""

import json
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from reference_draws import edge_images, reference_draws, seed_of, synthetic_images
from torch import Tensor

from poise import corrupt
from poise.corruptions.corrupt import Corruption
from poise.corruptions.jpeg import Jpeg
from poise.corruptions.protocols import CORRUPTIONS, SEVERITIES

STORED = Path(__file__).with_name("digests.json")
SIDES = {"cifar": 32, "tiny": 64, "imagenet": 224}


def picture(height: int, width: int) -> Tensor:
    return synthetic_images(max(height, width), 1)[:, :, :height, :width].contiguous()


def digest(images: Tensor) -> str:
    """Of bytes in the order [N, H, W, 3]."""
    return sha256(images.permute(0, 2, 3, 1).contiguous().cpu().numpy().tobytes()).hexdigest()[:16]


def reference_digests(name: str, libraries: str) -> list[str]:
    images, found = edge_images(), []
    for severity in SEVERITIES:
        setting = Corruption(name, "cifar", libraries).at(severity)
        seeds = [seed_of(CORRUPTIONS.index(name), severity, 900 + k) for k in range(len(images))]
        found.append(digest(setting.apply(images, *reference_draws(name, setting, images, seeds))))
    return found


def own_digests(profile: str, name: str) -> list[str]:
    images = synthetic_images(SIDES[profile])
    return [digest(corrupt(images, name, severity, profile, seed=5)) for severity in SEVERITIES]


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_provoking_images_give_what_the_reference_gives(name: str) -> None:
    assert reference_digests(name, "today") == json.loads(STORED.read_text())["reference"][name]


@pytest.mark.parametrize("name", ["elastic_transform", "jpeg_compression"])
def test_provoking_images_give_what_they_gave_in_2018(name: str) -> None:
    assert reference_digests(name, "2018") == json.loads(STORED.read_text())["2018"][name]


def test_jpeg_gives_what_libjpeg_gives() -> None:
    for case, expected in json.loads(STORED.read_text())["libjpeg 9c"].items():
        height, width, quality = map(int, case.split())
        assert digest(Jpeg(quality).apply(picture(height, width))) == expected, case


@pytest.mark.parametrize("name", CORRUPTIONS)
@pytest.mark.parametrize("profile", ["cifar", "tiny", pytest.param("imagenet", marks=pytest.mark.miniature)])
def test_our_own_outputs_stay(profile: str, name: str) -> None:
    assert own_digests(profile, name) == json.loads(STORED.read_text())["own"][profile][name]


def write(shared: Path, scratch: Path) -> None:
    import numpy as np
    from test_oracles import by_libjpeg

    golden, early = np.load(shared / "golden_edge.npz"), np.load(shared / "golden_2018.npz")
    reference = {
        name: [sha256(golden["corrupted"][i, s].tobytes()).hexdigest()[:16] for s in range(5)]
        for i, name in enumerate(golden["names"])
    }
    published = {
        str(name): [sha256(early["edge"][i, s].tobytes()).hexdigest()[:16] for s in range(5)]
        for i, name in enumerate(early["names"])
    }
    libjpeg = {}
    for height, width in ((8, 8), (17, 33), (32, 32), (50, 31), (64, 48), (223, 224)):
        for quality in (1, 10, 24, 40, 49, 58, 80, 85, 100):
            made = by_libjpeg(picture(height, width)[0].permute(1, 2, 0).numpy(), quality, scratch / "picture.jpg")
            libjpeg[f"{height} {width} {quality}"] = sha256(made.tobytes()).hexdigest()[:16]
    own = {profile: {name: own_digests(profile, name) for name in CORRUPTIONS} for profile in SIDES}
    found = {"reference": reference, "2018": published, "libjpeg 9c": libjpeg, "own": own}
    STORED.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    torch.manual_seed(0)
    with TemporaryDirectory() as scratch:
        write(Path(__file__).parents[3] / "shared" / "corruptions", Path(scratch))
