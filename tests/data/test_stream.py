import numpy as np
import pytest

from poise.random import Stream


def splitmix64(state: int, count: int) -> list[int]:
    """The published generator, in Python's own integers."""
    out = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        out.append(z ^ (z >> 31))
    return out


def test_is_splitmix64() -> None:
    stream = Stream(7, "a")
    assert [*stream.bits(3).tolist(), *stream.bits(2).tolist()] == splitmix64(int(Stream(7, "a")._key), 5)


def test_is_frozen() -> None:
    assert Stream(0, "frozen").bits(2).tolist() == FROZEN
    assert Stream(0, "frozen").integers(10, 8).tolist() == [
        int((b >> 32) * 10 >> 32) for b in splitmix64(int(Stream(0, "frozen")._key), 8)
    ]


FROZEN = [8920568336824599097, 15568840573359111150]


def test_labels_and_seeds_name_different_streams() -> None:
    names = [Stream(0), Stream(1), Stream(0, "a"), Stream(0, "a", 1), Stream(0, "a", 2)]
    assert len({int(stream.bits(1)[0]) for stream in names}) == 5


def test_numbers_are_spread_evenly() -> None:
    counts = np.bincount(Stream(0).integers(7, 70_000), minlength=7)
    assert abs(counts - 10_000).max() < 400
    uniform = Stream(0).uniform(100_000)
    assert uniform.min() > 0 and uniform.max() < 1
    assert uniform.mean() == pytest.approx(0.5, abs=0.005)
    assert uniform.std() == pytest.approx(12**-0.5, abs=0.005)


def test_a_permutation_has_everyone_once_and_no_favourites() -> None:
    orders = np.stack([Stream(seed, "p").permutation(5) for seed in range(3000)])
    assert (np.sort(orders, axis=1) == np.arange(5)).all()
    share = np.stack([(orders[:, place] == value).mean() for place in range(5) for value in range(5)])
    assert abs(share - 0.2).max() < 0.03
