"""C-bar: the original's own outputs, its draws injected; our draws, against the original's distribution; and names.

c_bar.json has digests of what the original (commit ba4d5a5, numpy 1.19.2, SciPy 1.5.2, scikit-image 0.16.2) makes of
images made by code. The seeds are those of `c_bar_seed`.
"""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from reference_c_bar import c_bar_draws, c_bar_seed
from reference_draws import edge_images, synthetic_images
from torch import Tensor

import poise
from poise import Corruption, corrupt
from poise.corruptions.draws import Random
from poise.corruptions.protocols import C_BAR, CORRUPTIONS, EVERY, SEVERITIES

DIGESTS = json.loads(Path(__file__).with_name("c_bar.json").read_text())
CASES = [(profile, name) for profile, names in C_BAR.items() for name in names]
IMAGES = synthetic_images(32, 6)
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")


def as_the_original(profile: str, name: str, severity: int, images: Tensor) -> Tensor:
    """Our corruption with the original's draws."""
    setting = Corruption(name, profile).at(severity)
    seeds = [c_bar_seed(profile, name, severity, index) for index in range(len(images))]
    return setting.apply(images, *c_bar_draws(name, setting, images, seeds))


def digest(images: Tensor) -> str:
    return sha256(images.permute(0, 2, 3, 1).contiguous().numpy().tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(("profile", "name"), CASES)
def test_small_images_become_what_the_original_makes_of_them(profile: str, name: str) -> None:
    images = torch.cat([edge_images(), synthetic_images(32, 8)])
    made = [digest(as_the_original(profile, name, severity, images)) for severity in SEVERITIES]
    assert made == DIGESTS["32 px"][profile][name]


@pytest.mark.miniature
@pytest.mark.parametrize("name", C_BAR["imagenet"])
def test_large_images_become_what_the_original_makes_of_them(name: str) -> None:
    made = [digest(as_the_original("imagenet", name, severity, synthetic_images(224))) for severity in SEVERITIES]
    assert made == DIGESTS["224 px"]["imagenet"][name]


@pytest.mark.parametrize(("profile", "name"), CASES)
def test_our_draws_have_the_distribution_of_the_original_ones(profile: str, name: str) -> None:
    """Two-sample Kolmogorov-Smirnov tests of up to 16 numbers per image, for images that differ only in the draws."""
    from scipy.stats import ks_2samp

    count = 100 if name == "perlin_noise" else 400  # the original's takes milliseconds for each
    images, setting = IMAGES[:1].expand(count, -1, -1, -1), Corruption(name, profile).at(5)
    ours = setting.draw(Random(0, name, torch.arange(count)), images)
    theirs = c_bar_draws(name, setting, images, list(range(count)))
    assert len(ours) == len(theirs)
    for own, other in zip(ours, theirs, strict=True):
        assert own.shape == other.shape
        own, other = (part.reshape(count, -1)[:, :16].double() for part in (own, other))
        for column in range(own.shape[1]):
            assert ks_2samp(own[:, column], other[:, column], method="asymp").pvalue > 1e-4, (name, column)
        if own.shape[1] > 1:  # numbers of one image are as independent as the original's
            between = [np.corrcoef(part[:, :2].T)[0, 1] for part in (own, other) if part[:, :2].std(0).min() > 0]
            assert not between or abs(between[0] - between[-1]) < 0.25


@pytest.mark.parametrize(("profile", "name"), CASES)
def test_an_image_does_not_depend_on_its_batch(profile: str, name: str) -> None:
    together, order = corrupt(IMAGES, name, 4, profile, seed=3), torch.tensor([5, 2, 0])
    assert torch.equal(corrupt(IMAGES[order], name, 4, profile, seed=3, index=order), together[order])
    assert torch.equal(corrupt(IMAGES, name, 4, profile, seed=3, memory=1), together)
    assert torch.equal(corrupt(IMAGES, name, 4, profile, seed=4), together) == (name == "circular_motion_blur")


@pytest.mark.parametrize(("profile", "name"), CASES)
def test_other_shapes_and_odd_sizes_work(profile: str, name: str) -> None:
    for height, width in ((33, 47), (70, 16)):
        images = synthetic_images(80)[:, :, :height, :width].contiguous()
        made = corrupt(images, name, 5, profile)
        assert made.shape == images.shape and made.dtype == torch.uint8 and not torch.equal(made, images)
    with torch.inference_mode():
        first = corrupt(images, name, 3, profile)
    assert torch.equal(corrupt((images / 255).requires_grad_(), name, 3, profile).mul(255).round(), first)


@pytest.mark.parametrize(("profile", "name"), CASES)
def test_severities_grow(profile: str, name: str) -> None:
    images = synthetic_images(32, 40)
    gone = [float((corrupt(images, name, s, profile).int() - images.int()).abs().double().mean()) for s in SEVERITIES]
    assert 0 < gone[0] < gone[2] < gone[4]


@CUDA
@pytest.mark.parametrize(("profile", "name"), CASES)
def test_cpu_and_cuda_agree(profile: str, name: str) -> None:
    for side in (32, 224):
        images = synthetic_images(side, 3)
        for severity in SEVERITIES:
            here = corrupt(images, name, severity, profile)
            off = (here.int() - corrupt(images.cuda(), name, severity, profile).cpu().int()).abs()
            assert off.double().mean() <= 1e-3, (side, severity)


def test_there_are_ten_in_a_profile_and_none_is_one_of_the_nineteen() -> None:
    assert {profile: len(names) for profile, names in C_BAR.items()} == {"cifar": 10, "imagenet": 10}
    assert not set(CORRUPTIONS) & {name for names in C_BAR.values() for name in names} and len(EVERY) == 34


def test_what_a_profile_lacks_is_said() -> None:
    with pytest.raises(ValueError, match="lines has no constants for profile='imagenet': choose 'cifar'"):
        corrupt(IMAGES, "lines", 1, "imagenet")
    with pytest.raises(ValueError, match="sparkles has no constants for profile='tiny': choose 'cifar' or 'imagenet'"):
        Corruption("sparkles", "tiny")
    with pytest.raises(ValueError, match="no corruption is called 'sparkle': did you mean 'sparkles'"):
        corrupt(IMAGES, "sparkle", 1)


def test_evaluate_averages_the_ten() -> None:
    result = poise.evaluate(
        lambda x: torch.stack([x.mean((1, 2, 3)), 1 - x.mean((1, 2, 3))], 1),
        (IMAGES, torch.tensor([0, 1, 0, 1, 0, 1])),
        corruptions=C_BAR["cifar"],
        severities=[5],
    )
    assert list(result.averages()) == ["C-bar"]
    assert result.averages()["C-bar"] == pytest.approx(np.mean([result.of(name) for name in C_BAR["cifar"]]))
