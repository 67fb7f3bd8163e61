"""The draws of C-bar's original, from numpy's legacy stream, as `setting.draw` would return them.

An image's parameters come from `RandomState(seed)`. Some are themselves a seed, for a second stream.
"""

from typing import Any

import numpy as np
import torch
from reference_draws import seed_of
from torch import Tensor

from poise.corruptions.protocols import C_BAR

Parts = tuple[Any, ...]


def c_bar_seed(profile: str, name: str, severity: int, index: int) -> int:
    return seed_of(C_BAR[profile].index(name), severity, index)


def c_bar_draws(name: str, setting: Any, images: Tensor, seeds: list[int]) -> tuple[Tensor, ...]:
    """What `setting.draw` would give if it drew as the original does."""
    rows = [DRAWS[name](np.random.RandomState(seed), images.shape[2], setting) for seed in seeds]
    return tuple(torch.stack([torch.as_tensor(np.asarray(row[part])) for row in rows]) for part in range(len(rows[0])))


def _seed(state: np.random.RandomState) -> int:
    return int(state.randint(low=0, high=2**32))


def _sines(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    first = state.uniform(-np.pi, np.pi)
    pair = np.array([first, state.uniform(-abs(first), abs(first))])[state.permutation(2)]
    return pair, state.uniform(0, 2 * np.pi)


def _rings(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    column, row = state.uniform(0, side, size=2)
    return row, column, state.uniform(0, 10), state.uniform(0, side / 10), state.uniform(0, side / 10)


def _plasma(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    time, moves = state.uniform(0, 6 * np.pi), state.randint(4, 7)
    return time, moves, state.uniform(0.5, 1), state.uniform(0.075, 0.2) * side


def _perlin(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    state = np.random.RandomState(_seed(state))
    steps = [(state.randint(0, 2**31, size=2) % 512 - 256) / 256 for _ in range(514)]
    order = np.arange(256)
    for place in range(255, -1, -1):
        other = state.randint(0, 2**31) % 256
        order[[place, other]] = order[[other, place]]
    return order, np.array([step / np.linalg.norm(step) for step in steps])[:256]


def _spectrum(channels: int) -> Any:
    def draw(state: np.random.RandomState, side: int, setting: Any) -> Parts:
        state = np.random.RandomState(_seed(state))
        planes = []
        for _ in range(channels):
            phases = state.uniform(0, 2 * np.pi, size=(side, side // 2))
            if side % 2:
                middle = state.uniform(0, 2 * np.pi, size=(side // 2, 1))
                phases = np.hstack([phases, np.vstack([middle, np.zeros((side - side // 2, 1))])])
            planes.append(phases)
        return (np.stack(planes),)

    return draw


def _sparkles(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    centres, seed = state.uniform(0, side, size=(5, 2)), _seed(state)
    rays, jitter = state.randint(50, 200, size=5), np.random.RandomState(seed)
    return centres, rays, np.stack([_normal(jitter, count) for count in rays])


def _inverse_sparkles(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    centre, seed = state.uniform(0.25, 0.75, size=2) * side, _seed(state)
    rays = state.randint(50, 200)
    return centre, rays, _normal(np.random.RandomState(seed), rays)


def _normal(state: np.random.RandomState, count: int) -> Any:
    return np.pad(state.randn(count), (0, 199 - count))


def _checkerboard(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    angle, square = state.uniform(0, 2 * np.pi), state.uniform(0.1, 0.25) * side
    count = int(4 * side // square)
    numbers = np.random.RandomState(_seed(state)).uniform(size=(count, count))
    return angle, square, np.pad(numbers, (0, 40 - count))


def _lines(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    angle, spread = state.uniform(0, 2 * np.pi), state.uniform(0.1, 1)
    numbers = np.random.RandomState(_seed(state)).uniform(size=(int(setting.density * side), 3))
    return side * numbers[:, :2], angle + 2 * np.pi * spread * (numbers[:, 2] - 0.5)


def _caustics(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    return state.uniform(0.5, 2), state.uniform(0.75, 1.25) * side


def _twirls(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    return (np.array([state.choice([1, -1]) for _ in range(9)]).reshape(3, 3),)


def _ripple(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    return state.uniform(0.1, 0.3, size=2) * side, state.uniform(0, 2 * np.pi, size=2)


def _order(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    return (state.permutation(3),)


def _nothing(state: np.random.RandomState, side: int, setting: Any) -> Parts:
    return ()


DRAWS = {
    "blue_noise_sample": _spectrum(1),
    "brownish_noise": _spectrum(3),
    "caustic_refraction": _caustics,
    "checkerboard_cutout": _checkerboard,
    "circular_motion_blur": _nothing,
    "cocentric_sine_waves": _rings,
    "inverse_sparkles": _inverse_sparkles,
    "lines": _lines,
    "perlin_noise": _perlin,
    "pinch_and_twirl": _twirls,
    "plasma_noise": _plasma,
    "ripple": _ripple,
    "single_frequency_greyscale": _sines,
    "sparkles": _sparkles,
    "transverse_chromatic_abberation": _order,
}
