"""Digests of outputs on images made by code; `python tests/corruptions/test_digests.py` writes them anew.

reference   the reference's own outputs on eight provoking images, its draws injected (from the golden files)
own         ours, with our draws, on synthetic images of each profile's size
"""

import json
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from reference_draws import edge_images, reference_draws, seed_of, synthetic_images
from torch import Tensor

from poise import corrupt
from poise.corruptions.corrupt import Corruption
from poise.protocols import CORRUPTIONS, SEVERITIES

STORED = Path(__file__).with_name("digests.json")
SIDES = {"cifar": 32, "tiny": 64, "imagenet": 224}


def digest(images: Tensor) -> str:
    """Of bytes in the order [N, H, W, 3]."""
    return sha256(images.permute(0, 2, 3, 1).contiguous().cpu().numpy().tobytes()).hexdigest()[:16]


def reference_digests(name: str) -> list[str]:
    images, found = edge_images(), []
    for severity in SEVERITIES:
        setting = Corruption(name, "cifar", "truncate").at(severity)
        seeds = [seed_of(CORRUPTIONS.index(name), severity, 900 + k) for k in range(len(images))]
        found.append(digest(setting.apply(images, *reference_draws(name, setting, images, seeds))))
    return found


def own_digests(profile: str, name: str) -> list[str]:
    images = synthetic_images(SIDES[profile])
    return [digest(corrupt(images, name, severity, profile, seed=5)) for severity in SEVERITIES]


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_provoking_images_give_what_the_reference_gives(name: str) -> None:
    assert reference_digests(name) == json.loads(STORED.read_text())["reference"][name]


@pytest.mark.parametrize("name", CORRUPTIONS)
@pytest.mark.parametrize("profile", ["cifar", "tiny", pytest.param("imagenet", marks=pytest.mark.miniature)])
def test_our_own_outputs_stay(profile: str, name: str) -> None:
    assert own_digests(profile, name) == json.loads(STORED.read_text())["own"][profile][name]


def write(golden_edge: Path) -> None:
    import numpy as np

    golden = np.load(golden_edge)
    reference = {
        name: [sha256(golden["corrupted"][i, s].tobytes()).hexdigest()[:16] for s in range(5)]
        for i, name in enumerate(golden["names"])
    }
    own = {profile: {name: own_digests(profile, name) for name in CORRUPTIONS} for profile in SIDES}
    STORED.write_text(json.dumps({"reference": reference, "own": own}, indent=0) + "\n")


if __name__ == "__main__":
    torch.manual_seed(0)
    write(Path(__file__).parents[3] / "shared" / "corruptions" / "golden_edge.npz")
