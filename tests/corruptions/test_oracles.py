"""Each step against another library, or against a slow loop."""

import io
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from reference_draws import synthetic_images
from scipy import ndimage

from poise import corrupt
from poise.corruptions.blur import GlassBlur, zoom
from poise.corruptions.digital import Pixelate, _displace
from poise.corruptions.draws import Random
from poise.corruptions.jpeg import _CHROMA, _LUMA, Jpeg, _table
from poise.corruptions.noise import ShotNoise
from poise.corruptions.pixels import correlate, correlate_mirrored, gaussian_taps, smooth, smoothing_matrix, symmetric
from poise.corruptions.spatter import chamfer_distance

IMAGE = synthetic_images(224, 1)


def picture(height: int, width: int) -> torch.Tensor:
    return synthetic_images(max(height, width), 1)[:, :, :height, :width].contiguous()


def by_libjpeg(pixels: np.ndarray, quality: int, path: Path) -> np.ndarray:
    """Written and read by IJG's libjpeg 9c, 4:2:0 as Pillow asks for; [H, W, 3]."""
    import jpeglib

    steps = [_table(base, quality, torch.device("cpu")).view(8, 8).numpy() for base in (_LUMA, _CHROMA)]
    with jpeglib.version("9c"):
        written = jpeglib.from_spatial(np.ascontiguousarray(pixels))
        written.samp_factor = ((2, 2), (1, 1), (1, 1))
        # Asked for a quality below 25, jpeglib lets tables pass 255, which Pillow does not.
        written.write_spatial(str(path), qt=np.stack(steps).astype(np.uint16) if quality < 25 else quality)
        read = jpeglib.read_spatial(str(path))
        read.load()
        return read.spatial


@pytest.mark.parametrize("quality", [1, 7, 25, 49, 50, 80, 85, 95, 100])
@pytest.mark.parametrize("size", [(32, 32), (224, 224), (17, 33), (50, 31), (64, 48)])
def test_jpeg_is_pillows(size: tuple[int, int], quality: int) -> None:
    image = picture(*size)
    stream = io.BytesIO()
    Image.fromarray(image[0].permute(1, 2, 0).numpy()).save(stream, "JPEG", quality=quality, optimize=True)
    expected = np.asarray(Image.open(stream))
    assert np.array_equal(Jpeg(quality, "turbo").apply(image)[0].permute(1, 2, 0).numpy(), expected)


def test_the_second_jpeg_pass_is_pillows() -> None:
    image = synthetic_images(224, 1)
    once = corrupt(image, "fog", 3)
    stream = io.BytesIO()
    Image.fromarray(once[0].permute(1, 2, 0).numpy()).save(stream, "JPEG", quality=85, optimize=True)
    twice = corrupt(image, "fog", 3, jpeg=85, libraries="today")
    assert np.array_equal(twice[0].permute(1, 2, 0).numpy(), np.asarray(Image.open(stream)))


@pytest.mark.parametrize("quality", [1, 2, 7, 24, 25, 40, 49, 50, 80, 85, 95, 100])
@pytest.mark.parametrize("size", [(32, 32), (224, 224), (17, 33), (50, 31), (64, 48), (8, 8), (9, 100)])
def test_jpeg_is_libjpegs(size: tuple[int, int], quality: int, tmp_path: Path) -> None:
    pytest.importorskip("jpeglib", reason="jpeglib, which carries libjpeg 9c, is not installed")
    noise = torch.randint(256, (1, 3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(quality))
    for image in (picture(*size), noise):
        expected = by_libjpeg(image[0].permute(1, 2, 0).numpy(), quality, tmp_path / "x.jpg")
        assert np.array_equal(Jpeg(quality, "9c").apply(image)[0].permute(1, 2, 0).numpy(), expected)


def test_the_second_jpeg_pass_is_the_libraries_own() -> None:
    image, once = IMAGE, corrupt(IMAGE, "fog", 3)
    assert torch.equal(corrupt(image, "fog", 3, jpeg=85), Jpeg(85, "9c").apply(once))
    assert not torch.equal(corrupt(image, "fog", 3, jpeg=85), Jpeg(85, "turbo").apply(once))


def test_elastic_border_is_the_old_scipys() -> None:
    """Bilinear by a loop over pixels, as SciPy before 1.6 defined its border; far outside as well."""
    n, x = 16, torch.rand(1, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    down, right = (46 * torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(k)) - 30 for k in (1, 2))

    def fold(c: float) -> float:
        if c < 0:
            return c + 2 * n if c < -n else -c - 1
        return 2 * n - c - 1 if c >= n else c

    def value(row: int, column: int) -> float:
        mirrored = [-k if k < 0 else 2 * n - 2 - k if k >= n else k for k in (row, column)]
        return float(x[0, 0, mirrored[0], mirrored[1]])

    found = _displace(x, down, right, "1.1")
    for i in range(n):
        for j in range(n):
            row, column = fold(i + float(down[0, i, j])), fold(j + float(right[0, i, j]))
            top, left = math.floor(row), math.floor(column)
            v, h = row - top, column - left
            upper = (1 - h) * value(top, left) + h * value(top, left + 1)
            lower = (1 - h) * value(top + 1, left) + h * value(top + 1, left + 1)
            assert abs(float(found[0, 0, i, j]) - ((1 - v) * upper + v * lower)) < 1e-6


def test_taps_add_as_numpy_does() -> None:
    """Else flat regions fall by a level: 143 of 256 at sigma 1.25."""
    for sigma in (0.4, 0.7, 1.0, 1.25, 1.5, 2.0, 6.0, 40.0, 170.8):
        side = np.array([math.exp(-0.5 / (sigma * sigma) * t * t) for t in range(int(4 * sigma + 0.5) + 1)])
        assert gaussian_taps(sigma) == (side / np.concatenate([side[:0:-1], side]).sum()).tolist()


def test_flat_regions_stay_on_scipys_side() -> None:
    levels = torch.arange(256, dtype=torch.float64) / 255
    expected = [
        int(ndimage.gaussian_filter(np.full((16, 16), level), 1.25, mode="nearest")[8, 8] * 255) for level in levels
    ]
    found = (smooth(levels[:, None, None].expand(-1, 16, 16), 1.25)[:, 8, 8] * 255).int()
    assert found.tolist() == expected


@pytest.mark.parametrize("size", [(32, 32), (224, 224), (37, 53)])
@pytest.mark.parametrize("share", [0.95, 0.85, 0.6, 0.3, 0.25])
def test_pixelate_is_pillows(size: tuple[int, int], share: float) -> None:
    image = picture(*size)
    height, width = size
    original = Image.fromarray(image[0].permute(1, 2, 0).numpy())
    small = original.resize((int(width * share), int(height * share)), Image.Resampling.BOX)
    expected = np.asarray(small.resize((width, height), Image.Resampling.BOX))
    assert np.array_equal(Pixelate(share).apply(image)[0].permute(1, 2, 0).numpy(), expected)


@pytest.mark.parametrize("sigma", [0.05, 0.4, 1.0, 3.0, 6.0])
def test_smoothing_is_scipys(sigma: float) -> None:
    x = torch.rand(2, 3, 21, 34, dtype=torch.float64)
    expected = ndimage.gaussian_filter(x.numpy(), (0, 0, sigma, sigma), mode="nearest")
    assert np.abs(smooth(x, sigma).numpy() - expected).max() < 1e-15
    rows, columns = (smoothing_matrix(n, sigma) for n in (21, 34))
    assert np.abs((rows @ x @ columns.T).numpy() - expected).max() < 1e-15


def test_smoothing_far_beyond_the_border_is_scipys() -> None:
    x = torch.rand(24, 24, dtype=torch.float64)
    expected = ndimage.gaussian_filter(x.numpy(), 18.0, mode="reflect", truncate=3)
    matrix = smoothing_matrix(24, 18.0, truncate=3, border=symmetric)
    assert np.abs((matrix @ x @ matrix.T).numpy() - expected).max() < 1e-14


@pytest.mark.parametrize("side", [3, 5, 21])
def test_correlation_is_scipys(side: int) -> None:
    x, kernel = torch.rand(2, 2, 24, 31, dtype=torch.float64), torch.rand(side, side, dtype=torch.float64)
    expected = ndimage.correlate(x.numpy(), kernel.numpy()[None, None], mode="mirror")
    assert np.abs(correlate(x, kernel.tolist()).numpy() - expected).max() < 1e-12


@pytest.mark.parametrize("reach", [0, 1, 10, 30])
def test_mirrored_correlation_is_scipys(reach: int) -> None:
    x, quarter = torch.rand(2, 2, 24, 31, dtype=torch.float64), torch.rand(reach + 1, reach + 1, dtype=torch.float64)
    quarter[reach // 2 :, reach // 2 + 1 :] = 0
    half = torch.cat([quarter.flip(0)[:-1], quarter])
    kernel = torch.cat([half.flip(1)[:, :-1], half], dim=1)
    expected = ndimage.correlate(x.numpy(), kernel.numpy()[None, None], mode="mirror")
    assert np.abs(correlate_mirrored(x, quarter.tolist()).numpy() - expected).max() < 1e-11


@pytest.mark.parametrize("side", [32, 100])
@pytest.mark.parametrize("factor", [1.01, 1.25, 1.75, 2.25, 4.5])
def test_zoom_is_scipys(factor: float, side: int) -> None:
    x = torch.rand(side, side, dtype=torch.float64)
    part = int(np.ceil(side / factor))
    top = (side - part) // 2
    large = ndimage.zoom(x.numpy()[top : top + part, top : top + part], factor, order=1)
    trim = (len(large) - side) // 2
    expected = large[trim : trim + side, trim : trim + side]
    assert np.abs(zoom(x, factor).numpy() - expected).max() < 1e-14


@pytest.mark.parametrize("setting", [GlassBlur(0.05, 1, 2), GlassBlur(0.05, 2, 2), GlassBlur(0.05, 4, 3)])
def test_glass_blur_is_the_loop(setting: GlassBlur) -> None:
    image = picture(30, 41)
    (offsets,) = setting.draw(Random(0, "glass", torch.tensor([0])), image)
    expected = image[0].clone()
    for iteration in offsets[0]:
        for i, row in enumerate(range(30 - setting.reach, setting.reach, -1)):
            for j, column in enumerate(range(41 - setting.reach, setting.reach, -1)):
                right, down = (int(value) for value in iteration[i, j])
                expected[:, row, column] = expected[:, row + down, column + right].clone()
    assert torch.equal(setting.apply(image, offsets)[0], expected)


def test_chamfer_distance_is_the_shortest_path() -> None:
    edges = torch.zeros(2, 26, 23, dtype=torch.bool)
    edges[0, 3, 4] = edges[0, 20, 18] = True
    expected = np.full((26, 23), 20.0)
    for row, column in ((3, 4), (20, 18)):
        for y in range(26):
            for x in range(23):
                long, short = sorted((abs(y - row), abs(x - column)), reverse=True)
                # Knight's moves and the cheaper of straight and diagonal ones for the rest.
                paths = []
                for knights in range(short + 1):
                    rest = (long - 2 * knights, short - knights)
                    if rest[0] >= rest[1]:
                        paths.append(2.1969 * knights + 1.4 * rest[1] + (rest[0] - rest[1]))
                    else:
                        paths.append(
                            2.1969 * knights + 1.4 * max(rest[0], 0) + rest[1] - max(rest[0], 0) if rest[0] >= 0 else 99
                        )
                expected[y, x] = min(expected[y, x], min(paths))
    found = chamfer_distance(edges, 20).numpy()
    assert np.abs(found[0] - expected).max() < 1e-3
    assert (found[1] == 20).all()


def test_shot_noise_counts_photons() -> None:
    """Against scipy's Poisson, level by level."""
    from scipy.stats import poisson

    for photons, level in ((60, 3), (500, 255), (3, 128), (50, 0)):
        images = torch.full((200, 3, 32, 32), level, dtype=torch.uint8)
        (counts,) = ShotNoise(photons).draw(Random(0, "shot", torch.arange(200)), images)
        rate = photons * level / 255
        seen = np.bincount(counts.flatten().numpy(), minlength=700) / counts.numel()
        expected = poisson.pmf(np.arange(len(seen)), rate)
        assert np.abs(seen - expected).max() < 5 * np.sqrt(expected.max() / counts.numel()) + 1e-9
        assert abs(counts.double().mean() - rate) <= 5 * np.sqrt(rate / counts.numel()) + 1e-12
