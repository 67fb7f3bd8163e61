"""Augmentations, image by image against slow oracles."""

import pytest
import torch

from poise import Chain, GaussianNoise, PatchGaussian, Standard


def changed_box(before: torch.Tensor, after: torch.Tensor) -> tuple[int, int, int, int]:
    """First and last row and column in which an image differs."""
    places = (before != after).any(0).nonzero()
    return tuple(int(v) for v in (*places.min(0).values, *places.max(0).values))


def test_a_patch_is_a_square_around_a_pixel_cut_at_the_border() -> None:
    x = torch.full((200, 3, 20, 30), 0.5)
    out = PatchGaussian(7, 0.1)(x, torch.Generator().manual_seed(0))
    heights = []
    for before, after in zip(x, out, strict=True):
        top, left, bottom, right = changed_box(before, after)
        inside = after[:, top : bottom + 1, left : right + 1]
        assert (inside != 0.5).all()
        assert bottom - top + 1 <= 7 and right - left + 1 <= 7
        assert bottom - top + 1 == 7 or top == 0 or bottom == 19
        assert right - left + 1 == 7 or left == 0 or right == 29
        assert bottom - top + 1 >= 4 and right - left + 1 >= 4  # the centre is inside: at most half is cut
        heights.append(bottom - top + 1)
    assert len(set(heights)) > 1


def test_every_image_has_its_own_patch_and_noise() -> None:
    out = PatchGaussian(5, 0.1)(torch.full((50, 1, 16, 16), 0.5), torch.Generator().manual_seed(0))
    assert len({changed_box(torch.full((1, 16, 16), 0.5), image) for image in out}) > 20


def test_all_patch_centres_are_equally_likely() -> None:
    out = PatchGaussian(1, 0.1)(torch.full((20000, 1, 5, 4), 0.5), torch.Generator().manual_seed(0))
    share = (out != 0.5).float().mean((0, 1))
    assert share.sub(1 / 20).abs().max() < 0.01


def test_random_sizes_are_uniform_up_to_the_largest() -> None:
    x = torch.full((2000, 1, 64, 64), 0.5)
    out = PatchGaussian(4, 0.1, random_size=True)(x, torch.Generator().manual_seed(0))
    boxes = [changed_box(a, b) for a, b in zip(x, out, strict=True)]
    sides = torch.tensor([max(b[2] - b[0], b[3] - b[1]) + 1 for b in boxes])
    assert torch.bincount(sides)[1:].float().div(2000).sub(0.25).abs().max() < 0.05


def test_random_sizes_come_from_the_generator() -> None:
    x = torch.full((50, 1, 32, 32), 0.5)
    draw = lambda: PatchGaussian(20, 0.1, random_size=True)(x, torch.Generator().manual_seed(3))  # noqa: E731
    assert torch.equal(draw(), draw())


def test_a_patch_larger_than_the_image_may_cover_it() -> None:
    out = PatchGaussian(99, 0.1)(torch.full((3, 3, 8, 8), 0.5))
    assert (out != 0.5).all()


def test_noise_has_the_given_deviation_and_is_clipped() -> None:
    out = PatchGaussian(99, 0.1)(torch.full((20, 3, 32, 32), 0.5))
    assert out.sub(0.5).std().item() == pytest.approx(0.1, abs=0.005)
    out = GaussianNoise(5.0, fraction=1.0)(torch.full((4, 3, 8, 8), 0.5))
    assert out.min() == 0 and out.max() == 1


@pytest.mark.parametrize(("fraction", "count"), [(0.0, 0), (0.5, 5), (1.0, 10)])
def test_gaussian_noise_takes_a_fraction_of_the_batch(fraction: float, count: int) -> None:
    x = torch.full((10, 3, 8, 8), 0.5)
    out = GaussianNoise(0.1, fraction)(x, torch.Generator().manual_seed(0))
    assert (out != x).flatten(1).any(1).sum() == count


def test_the_noisy_half_changes_from_batch_to_batch() -> None:
    x, generator = torch.full((64, 1, 2, 2), 0.5), torch.Generator().manual_seed(0)
    halves = [(GaussianNoise(0.1)(x, generator) != x).flatten(1).any(1) for _ in range(200)]
    assert torch.stack(halves).float().mean(0).sub(0.5).abs().max() < 0.2


def test_standard_is_a_padded_crop_and_a_flip() -> None:
    """Every result is one of the 2 x 9 x 9 crops of the padded image; all turn up, flipped about half the time."""
    image = torch.rand(2, 5, 6)
    out = Standard(4)(image.expand(6000, -1, -1, -1), torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(image, (4, 4, 4, 4))
    crops = {}
    for top in range(9):
        for left in range(9):
            crop = padded[:, top : top + 5, left : left + 6]
            crops[crop.numpy().tobytes()] = (top, left, False)
            crops[crop.flip(2).contiguous().numpy().tobytes()] = (top, left, True)
    seen = [crops[result.contiguous().numpy().tobytes()] for result in out]
    assert len(set(seen)) == 2 * 81
    assert sum(flipped for _, _, flipped in seen) / 6000 == pytest.approx(0.5, abs=0.03)


def test_order_in_a_chain_matters_and_seeds_reproduce() -> None:
    x = torch.rand(4, 3, 8, 8)
    before, after = Chain((PatchGaussian(3, 0.1), Standard(2))), Chain((Standard(2), PatchGaussian(3, 0.1)))
    run = lambda augment, seed: augment(x, torch.Generator().manual_seed(seed))  # noqa: E731
    assert torch.equal(run(before, 1), run(before, 1))
    assert not torch.equal(run(before, 1), run(after, 1))
    assert not torch.equal(run(before, 1), run(before, 2))


@pytest.mark.parametrize("augment", [Standard(2), PatchGaussian(3, 0.1), GaussianNoise(0.1)])
def test_memory_format_shape_and_input_stay(augment) -> None:
    x = torch.rand(4, 3, 8, 6).to(memory_format=torch.channels_last)
    before = x.clone()
    out = augment(x)
    assert out.shape == x.shape
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x, before)


@pytest.mark.parametrize("augment", [Standard(2), PatchGaussian(3, 0.1), GaussianNoise(0.1)])
@pytest.mark.parametrize("x", [torch.zeros(2, 3, 8, 8, dtype=torch.uint8), torch.rand(3, 8, 8)])
def test_wrong_images_are_named(augment, x) -> None:
    with pytest.raises(TypeError, match=r"images must be floats \[B, C, H, W\] in \[0, 1\]"):
        augment(x)


@pytest.mark.parametrize(
    "build", [lambda: PatchGaussian(0, 0.1), lambda: PatchGaussian(3, -1), lambda: GaussianNoise(0.1, 1.5)]
)
def test_bad_settings_are_refused(build) -> None:
    with pytest.raises(ValueError, match="must"):
        build()
