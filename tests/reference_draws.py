"""The reference's own draws: numpy's legacy stream, seeded and consumed as the original generators do."""

from typing import Any

import numpy as np
import torch
from torch import Tensor


def seed_of(corruption: int, severity: int, index: int) -> int:
    return corruption * 10_000_000 + severity * 1_000_000 + index


def reference_draws(name: str, setting: Any, images: Tensor, seeds: list[int]) -> tuple[Tensor, ...]:
    """What `setting.draw` would give if it drew from RandomState(seed) image by image."""
    rows = [_draw(name, setting, image, np.random.RandomState(seed)) for image, seed in zip(images, seeds, strict=True)]
    return tuple(torch.stack([torch.as_tensor(row[part]) for row in rows]) for part in range(len(rows[0])))


def _draw(name: str, setting: Any, image: Tensor, state: np.random.RandomState) -> list[Any]:
    height, width = image.shape[1:]
    if name in ("gaussian_noise", "speckle_noise"):
        return [state.standard_normal((height, width, 3)).transpose(2, 0, 1)]
    if name == "shot_noise":
        x = image.permute(1, 2, 0).numpy() / 255.0
        return [state.poisson(x * setting.photons).transpose(2, 0, 1)]
    if name == "impulse_noise":
        return [state.random_sample((height, width, 3)).transpose(2, 0, 1) for _ in range(2)]
    if name == "glass_blur":
        reach = setting.reach
        shape = (setting.iterations, height - 2 * reach, width - 2 * reach, 2)
        return [state.randint(-reach, reach, size=shape)]
    if name == "motion_blur":
        return [state.random_sample()]
    if name == "snow":
        return [state.standard_normal((height, width)), state.random_sample()]
    if name == "frost":
        return _frost(setting, height, width, state)
    if name == "fog":
        return [state.random_sample((3, 1 << level, 1 << level)) for level in range(setting.side.bit_length() - 1)]
    if name == "elastic_transform":
        return [state.random_sample((3, 2)), *(state.random_sample((height, width)) for _ in range(2))]
    return [state.standard_normal((height, width))] if name == "spatter" else []


def _frost(setting: Any, height: int, width: int, state: np.random.RandomState) -> list[Any]:
    from poise.corruptions.weather import pictures

    which = state.randint(5)
    size = pictures(setting.scale)[which].shape
    return [which, np.array([state.randint(0, size[1] - height), state.randint(0, size[2] - width)])]


def edge_images() -> Tensor:
    """Eight images that provoke: flat ones, a ramp, a checkerboard, one white pixel, red, noise [8, 3, 32, 32]."""
    plane = np.zeros((32, 32, 3), dtype=np.uint8)
    row, column = np.mgrid[:32, :32][..., None]
    ramp = (plane + column * 8).astype(np.uint8)
    checker = (plane + (row + column) % 2 * 255).astype(np.uint8)
    spot, red = plane.copy(), plane.copy()
    spot[16, 16], red[..., 0] = 255, 255
    noise = np.random.RandomState(0).randint(0, 256, (32, 32, 3)).astype(np.uint8)
    images = np.stack([plane, plane + 255, plane + 128, ramp, checker, spot, red, noise])
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()


def synthetic_images(side: int, count: int = 2) -> Tensor:
    """Waves, an edge and noise in three channels; integers only, so that every machine makes the same."""
    row, column = np.mgrid[:side, :side].astype(np.int64)
    state = np.random.RandomState(1)
    images = []
    for _ in range(count):
        a, b, c = state.randint(1, 7, 3)
        waves = (row * row * a + column * row * b) // side + state.randint(0, 12, (side, side))
        steps = (column // c) * c * 256 // side + row // 3
        blocks = ((row // 16 + column // 16) % 2) * 200 + 20
        images.append(np.stack([waves % 256, steps % 256, blocks]).astype(np.uint8))
    return torch.from_numpy(np.stack(images))
