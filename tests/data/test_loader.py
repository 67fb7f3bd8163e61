"""Batches: order, resumption, augmentation; on the device, and streamed through workers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from poise import Chain, PatchGaussian, Standard
from poise.data.loading.pictures import CentreCrop, Damaged, PictureSet, RandomCrop, stream_epoch, stream_in_order
from poise.data.loading.resident import DeviceLoader, epoch_order, on_device
from poise.data.sets.folders import in_class_folders
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
        DeviceLoader(torch.rand(3, 1, 4, 4), torch.zeros(3), 2)
    with pytest.raises(ValueError, match="batch_size=9 must lie between 1 and the 3 images"):
        DeviceLoader(torch.zeros(3, 1, 4, 4, dtype=torch.uint8), torch.zeros(3), 9)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for number in range(10):
        pixels = np.random.default_rng(number).integers(0, 256, (40 + number, 60 - number, 3), dtype=np.uint8)
        folder = tmp_path / f"n0000000{number % 3}"
        folder.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number}.JPEG")
    return tmp_path


def test_a_streamed_epoch_does_not_depend_on_workers_and_resumes(pictures: Path) -> None:
    epoch = lambda start=0, workers=0, number=1: list(  # noqa: E731
        stream_epoch(PictureSet(in_class_folders(pictures), RandomCrop(16)), 3, number, start, workers)
    )
    whole = epoch()
    assert [x.shape for x, _ in whole] == [(3, 3, 16, 16)] * 3
    for other in (epoch(workers=2), [*whole[:1], *epoch(start=1)]):
        assert all(torch.equal(a, b) and torch.equal(y, z) for (a, y), (b, z) in zip(whole, other, strict=True))
    folders = PictureSet(in_class_folders(pictures), RandomCrop(16))
    assert not torch.equal(folders[1, 3][0], folders[2, 3][0])
    assert torch.equal(folders[1, 3][0], folders[1, 3][0])


@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_streams_everything_once_in_order_and_the_rest_too(pictures: Path, workers: int) -> None:
    listing = in_class_folders(pictures)
    batches = list(stream_in_order(PictureSet(listing, CentreCrop(16, 20)), 4, workers))
    assert [len(y) for _, y in batches] == [4, 4, 2]
    assert torch.cat([y for _, y in batches]).tolist() == [number for _, number in listing.pictures]
    alone = [PictureSet(listing, CentreCrop(16, 20))[0, index][0] for index in range(10)]
    assert torch.equal(torch.cat([x for x, _ in batches]), torch.stack(alone))
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        next(stream_in_order(PictureSet(listing, CentreCrop()), 0))


@pytest.mark.parametrize("workers", [0, 2])
def test_damaged_pictures_are_left_out_counted_and_named(pictures: Path, workers: int, caplog) -> None:
    whole = in_class_folders(pictures).pictures
    cut, page, gone = whole[1][0], whole[5][0], whole[9][0]
    cut.write_bytes(cut.read_bytes()[:600])
    page.write_bytes(b"<html>")
    stream = PictureSet(in_class_folders(pictures), CentreCrop(16, 20))
    gone.unlink()
    for _ in range(2):
        batches = list(stream_in_order(stream, 4, workers))
        assert [len(y) for _, y in batches] == [3, 3, 1]
    assert set(stream.damaged) == {cut, page, gone}
    assert "runcated" in stream.damaged[cut]
    assert sorted(record.args[0] for record in caplog.records) == sorted([cut, page, gone])
    assert f"skipping damaged image {page} (UnidentifiedImageError: " in caplog.text
    assert isinstance(stream[0, 5], Damaged)
    assert sum(len(y) for _, y in stream_epoch(stream, 5, epoch=0, workers=workers)) == 7


def test_a_batch_of_damaged_pictures_alone_is_left_out(pictures: Path) -> None:
    for path, _ in in_class_folders(pictures).pictures[:4]:
        path.write_bytes(b"")
    assert [len(y) for _, y in stream_in_order(PictureSet(in_class_folders(pictures), CentreCrop(16, 20)), 4)] == [4, 2]


def test_random_crops_stay_inside_and_cover_the_stated_area() -> None:
    crop, shares = RandomCrop(), []
    for index in range(500):
        left, top, right, bottom = crop._box(500, 375, Stream(0, index))
        assert 0 <= left < right <= 500 and 0 <= top < bottom <= 375
        assert 0.7 < (right - left) / (bottom - top) < 1.4
        shares.append((right - left) * (bottom - top) / (500 * 375))
    assert min(shares) > 0.07 and max(shares) > 0.9
    assert crop._box(1000, 10, Stream(0)) == (495, 0, 505, 10)


def test_the_centre_crop() -> None:
    image = Image.fromarray(np.zeros((300, 600, 3), np.uint8))
    assert CentreCrop()(image, Stream(0)).size == (224, 224)
    with pytest.raises(ValueError, match="size=288 must lie between 1 and resize=256"):
        CentreCrop(size=288)


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no class folders with images"):
        in_class_folders(tmp_path / "nowhere")
