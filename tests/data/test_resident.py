"""Batches of a set on the device: order, resumption, augmentation."""

from pathlib import Path

import numpy as np
import pytest
import torch

from poise import Chain, PatchGaussian, Standard
from poise.data.loading.resident import DeviceLoader, epoch_order, on_device
from poise.random import Stream


def loader(count: int = 50, batch_size: int = 8, **options: object) -> DeviceLoader:
    images = np.arange(count, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 5, 3), np.uint8)
    return DeviceLoader(*on_device(images, np.arange(count) % 7), batch_size, **options)


def values(batches) -> list[list[int]]:
    return [(x[:, 0, 0, 0] * 255).round().int().tolist() for x, _ in batches]


def test_an_epoch_has_whole_batches_of_different_images_in_unit_range() -> None:
    batches = list(loader().epoch(0))
    assert len(batches) == len(loader()) == 6
    seen = [v for batch in values(batches) for v in batch]
    assert len(set(seen)) == len(seen) == 48
    x, y = batches[0]
    assert x.shape == (8, 3, 4, 5)
    assert x.dtype == torch.float32
    assert x.min() >= 0 and x.max() <= 1
    assert y.tolist() == [v % 7 for v in values(batches)[0]]


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    assert values(loader().epoch(3)) == values(loader().epoch(3))
    assert values(loader().epoch(3)) != values(loader().epoch(4))
    assert values(loader().epoch(3)) != values(loader(seed=1).epoch(3))
    assert epoch_order(5, 0, 0).tolist() == Stream(0, "order", 0).permutation(5).tolist()


@pytest.mark.parametrize("augment", [None, Chain((Standard(1), PatchGaussian(2, 0.1)))])
def test_an_epoch_can_be_resumed_at_any_batch(augment) -> None:
    whole = list(loader(augment=augment).epoch(2))
    rest = list(loader(augment=augment).epoch(2, start=4))
    assert len(rest) == 2
    for (x, y), (again, label) in zip(whole[4:], rest, strict=True):
        assert torch.equal(x, again) and torch.equal(y, label)


def test_augmentation_changes_with_epoch_and_seed() -> None:
    same = {"images": torch.full((8, 1, 6, 6), 128, dtype=torch.uint8), "labels": torch.zeros(8), "batch_size": 8}
    noisy = lambda epoch, seed: next(DeviceLoader(**same, augment=PatchGaussian(3, 0.1), seed=seed).epoch(epoch))[0]  # noqa: E731
    assert torch.equal(noisy(0, 0), noisy(0, 0))
    assert not torch.equal(noisy(0, 0), noisy(1, 0))
    assert not torch.equal(noisy(0, 0), noisy(0, 1))


def test_evaluation_sees_everything_once_in_order() -> None:
    assert [v for batch in values(loader().in_order(20)) for v in batch] == list(range(50))


def test_grey_images_get_a_channel_and_memory_maps_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 4, 5), np.uint8))
    x, y = on_device(np.load(tmp_path / "x.npy", mmap_mode="r"), np.zeros(3, np.uint8))
    assert x.shape == (3, 1, 4, 5)
    assert y.dtype == torch.int64


def test_wrong_sets_are_named() -> None:
    with pytest.raises(TypeError, match=r"images must be uint8 \[N, C, H, W\]"):
        DeviceLoader(torch.zeros(3, 4, 4, dtype=torch.uint8), torch.zeros(3), 2)
    with pytest.raises(ValueError, match="batch_size=9 must lie between 1 and the 3 images"):
        DeviceLoader(torch.zeros(3, 1, 4, 4, dtype=torch.uint8), torch.zeros(3), 9)


def test_floats_keep_their_values_and_shape() -> None:
    table = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    held = DeviceLoader(*on_device(table, np.arange(6)), batch_size=6)
    ((x, y),) = held.epoch(0)
    assert torch.equal(x, torch.from_numpy(table)[y])
