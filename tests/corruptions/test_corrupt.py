"""The call that users make: every kind of batch, reproducible, bounded, and clear about what is wrong."""

import numpy as np
import pytest
import torch
from reference_draws import synthetic_images

import poise
from poise import Corruption, corrupt
from poise.corruptions.corrupt import _parts
from poise.corruptions.draws import Random
from poise.corruptions.jpeg import Jpeg
from poise.corruptions.protocols import CORRUPTIONS, EXTRA, GROUPS, SEVERITIES, STANDARD
from poise.corruptions.weather import pictures, scale_for

IMAGES = synthetic_images(32, 6)
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_an_image_does_not_depend_on_its_batch(name: str) -> None:
    together = corrupt(IMAGES, name, 4, seed=3)
    order = torch.tensor([5, 2, 0])
    assert torch.equal(corrupt(IMAGES[order], name, 4, seed=3, index=order), together[order])
    assert torch.equal(corrupt(IMAGES[2], name, 4, seed=3, index=2), together[2])
    assert torch.equal(corrupt(IMAGES, name, 4, seed=3, memory=1), together)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_seed_matters_exactly_where_something_is_drawn(name: str) -> None:
    draws = Corruption(name).draw(Random(0, name, torch.arange(6)), IMAGES, 3)
    assert torch.equal(corrupt(IMAGES, name, 3, seed=0), corrupt(IMAGES, name, 3, seed=1)) == (draws == ())


def test_draw_then_apply_is_corrupt() -> None:
    fog = Corruption("fog", "cifar")
    draws = fog.draw(Random(9, "fog/2", torch.arange(6)), IMAGES, 2)
    assert torch.equal(fog.apply(IMAGES, 2, draws), corrupt(IMAGES, "fog", 2, seed=9))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats_are_read_as_levels_and_come_back_as_floats(dtype: torch.dtype) -> None:
    levels = corrupt(IMAGES, "contrast", 2)
    floats = corrupt((IMAGES / 255).to(dtype), "contrast", 2)
    assert floats.dtype == dtype
    if dtype in (torch.float32, torch.float64):
        assert torch.equal((floats * 255).round().to(torch.uint8), levels)


def test_what_is_kept_from_inference_mode_serves_outside() -> None:
    images = synthetic_images(40, 2)
    for name in CORRUPTIONS:
        with torch.inference_mode():
            first = corrupt(images, name, 3, "cifar")
        assert torch.equal(corrupt((images / 255).requires_grad_(), name, 3, "cifar").mul(255).round(), first)


def test_the_input_is_left_alone() -> None:
    for images in (IMAGES.clone(), (IMAGES / 255).requires_grad_()):
        before = images.detach().clone()
        for name in CORRUPTIONS:
            corrupt(images, name, 1)
        assert torch.equal(images.detach(), before)


@pytest.mark.parametrize("profile", ["cifar", "tiny", "imagenet"])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_other_shapes_work(name: str, profile: str) -> None:
    images = synthetic_images(48)[:, :, :33, :47]
    made = corrupt(images, name, 3, profile)
    assert made.shape == images.shape and made.dtype == torch.uint8
    assert not torch.equal(made, images)


def test_an_empty_batch_is_an_empty_batch() -> None:
    assert corrupt(IMAGES[:0], "fog", 1).shape == (0, 3, 32, 32)
    assert corrupt(IMAGES[:0], "fog", 1, index=[]).shape == (0, 3, 32, 32)


def test_numbers_of_numpy_are_numbers() -> None:
    assert torch.equal(corrupt(IMAGES, "fog", np.int64(3), seed=np.uint8(2)), corrupt(IMAGES, "fog", 3, seed=2))


def test_channels_last_memory_changes_nothing() -> None:
    images = IMAGES.contiguous(memory_format=torch.channels_last)
    assert torch.equal(corrupt(images, "snow", 2), corrupt(IMAGES, "snow", 2))


def test_the_profile_follows_the_size() -> None:
    assert torch.equal(corrupt(IMAGES, "fog", 1), corrupt(IMAGES, "fog", 1, "cifar"))
    small = synthetic_images(64)
    assert torch.equal(corrupt(small, "brightness", 1), corrupt(small, "brightness", 1, "tiny"))
    assert not torch.equal(corrupt(IMAGES, "brightness", 1), corrupt(IMAGES, "brightness", 1, "imagenet"))


def test_libraries_change_four_corruptions_only() -> None:
    for name in CORRUPTIONS:
        same = torch.equal(corrupt(IMAGES, name, 2), corrupt(IMAGES, name, 2, libraries="today"))
        assert same == (name not in ("motion_blur", "snow", "jpeg_compression", "elastic_transform"))


def test_a_large_batch_is_cut_to_the_budget() -> None:
    images = torch.zeros(10_000, 3, 32, 32, dtype=torch.uint8)
    parts = _parts(images, None)
    assert sum(len(range(*part.indices(10_000))) for part in parts) == 10_000
    assert all((part.stop - part.start) * 3 * 32 * 32 * 8 * 16 <= 1 << 26 for part in parts)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "fogg"}, "did you mean 'fog'"),
        ({"name": "Gaussian Noise"}, "did you mean 'gaussian_noise'"),
        ({"severity": 0}, "severity=0 must be 1, 2, 3, 4 or 5"),
        ({"severity": 2.5}, "severity=2.5 must be"),
        ({"severity": 3.0}, "severity=3.0 must be"),
        ({"severity": True}, "severity=True must be"),
        ({"severity": None}, "severity=None must be"),
        ({"seed": None}, "seed=None must be a whole number"),
        ({"seed": 1.0}, "seed=1.0 must be a whole number"),
        ({"seed": False}, "seed=False must be a whole number"),
        ({"profile": "cifar100"}, "profile='cifar100' must be one of"),
        ({"libraries": "floor"}, "libraries='floor' must be one of"),
        ({"images": torch.rand(2, 32, 32, 3)}, "move the channels from the last axis"),
        ({"images": torch.rand(2, 1, 32, 32)}, r"must have shape \[B, 3, H, W\]"),
        ({"images": torch.rand(32, 32)}, r"must have shape \[B, 3, H, W\]"),
        ({"images": torch.rand(2, 3, 8, 8)}, "at least 16 x 16 pixels"),
        ({"images": torch.rand(2, 3, 40, 40)}, "no profile exists for 40 x 40 pixels"),
        ({"images": torch.rand(2, 3, 32, 32) * 255}, r"must lie in \[0, 1\]"),
        ({"images": torch.full((2, 3, 32, 32), torch.nan)}, r"must lie in \[0, 1\]"),
        ({"index": [1, 2]}, "one whole number per image, 6"),
        ({"index": torch.rand(6)}, "one whole number per image, 6"),
        ({"jpeg": 0}, "quality=0 must be from 1 to 100"),
        ({"jpeg": True}, "quality=True must be from 1 to 100"),
        ({"jpeg": 0, "images": IMAGES[:0]}, "quality=0 must be from 1 to 100"),
        ({"images": torch.rand(0, 3, 8, 8), "profile": "cifar"}, "at least 16 x 16 pixels"),
    ],
)
def test_wrong_values_are_named(change: dict, sentence: str) -> None:
    call = {"images": IMAGES, "name": "fog", "severity": 3, **change}
    with pytest.raises(ValueError, match=sentence):
        corrupt(**call)


def test_wrong_kinds_are_named() -> None:
    with pytest.raises(TypeError, match="uint8 or floats"):
        corrupt(IMAGES.long(), "fog", 3)
    with pytest.raises(TypeError, match="must be a tensor"):
        corrupt(IMAGES.numpy(), "fog", 3)


@pytest.mark.parametrize(("height", "width"), [(63, 63), (62, 105), (40, 700), (900, 20)])
def test_frost_covers_images_larger_than_its_photographs(height: int, width: int) -> None:
    made = corrupt(torch.zeros(8, 3, height, width, dtype=torch.uint8), "frost", 5, "cifar")
    assert all(len(image.unique()) > 20 for image in made)  # on black the photograph alone is left
    assert made[:, :, -1].float().std() > 1 and made[..., -1].float().std() > 1


def test_frost_enlarges_its_photographs_only_if_it_must() -> None:
    assert scale_for(0.2, 62, 104) == 0.2 and scale_for(0.3, 93, 157) == 0.3 and scale_for(1, 314, 526) == 1
    for height, width in ((63, 20), (20, 105), (400, 400)):
        sizes = [picture.shape[1:] for picture in pictures(scale_for(0.2, height, width))]
        assert all(high > height and wide > width for high, wide in sizes)
        assert min(high - height for high, _ in sizes) == 1 or min(wide - width for _, wide in sizes) == 1


def test_a_size_can_be_asked_for_beforehand() -> None:
    with pytest.raises(ValueError, match="at least 16 x 16 pixels, got 300 x 15"):
        Corruption("fog").require_size(300, 15)
    Corruption("fog").require_size(300, 16)


def test_names_are_the_fifteen_and_the_nineteen() -> None:
    assert (len(STANDARD), len(EXTRA), len(CORRUPTIONS)) == (15, 4, 19)
    assert [len(group) for group in GROUPS.values()] == [3, 4, 4, 4]
    assert set(CORRUPTIONS) == set(STANDARD) | set(EXTRA)


@CUDA
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_cpu_and_cuda_agree(name: str) -> None:
    for side, profile in ((32, "cifar"), (64, "tiny"), (224, "imagenet")):
        images = synthetic_images(side, 3)
        for severity in SEVERITIES:
            here, there = (
                corrupt(images, name, severity, profile),
                corrupt(images.cuda(), name, severity, profile).cpu(),
            )
            off = (here.int() - there.int()).abs()
            assert off.max() <= 1 and (off > 0).double().mean() <= 1e-3, (side, severity)


@CUDA
@pytest.mark.parametrize("libjpeg", ["9c", "turbo"])
def test_jpeg_has_the_same_bits_on_cuda(libjpeg: str) -> None:
    images = torch.cat([synthetic_images(70, 3), torch.randint(256, (3, 3, 70, 70), dtype=torch.uint8)])[:, :, :, :53]
    for quality in range(1, 101):
        setting = Jpeg(quality, libjpeg)
        assert torch.equal(setting.apply(images), setting.apply(images.cuda()).cpu()), quality


def test_it_is_public() -> None:
    assert poise.corrupt is corrupt
