"""Streamed sets: the batches one would decode by hand, whatever the workers; damaged pictures left out and named."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from streams import fed, loader

from poise import PatchGaussian
from poise.data.loading.pictures import (
    CentreCrop,
    Damaged,
    Pictures,
    PictureSet,
    RandomCrop,
    stream_epoch,
    stream_in_order,
    workers_for,
)
from poise.data.sets.folders import Drawn, PackedListing, draw, in_class_folders
from poise.errors import DataError, DataMismatch
from poise.random import Stream

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """5 classes of 7 pictures to train on."""
    return Drawn(classes=5, train=7, val=1, sizes=((30, 24), (24, 28))).write(tmp_path) / "train"


def pictures(folder: Path, **options: object) -> Pictures:
    return Pictures(PackedListing(in_class_folders(folder)), options.pop("crop", RandomCrop(16)), **options)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_is_what_one_decodes_by_hand(folder: Path, workers: int) -> None:
    data = loader(pictures(folder, workers=workers), seed=3)
    by_hand, rows = PictureSet(in_class_folders(folder), RandomCrop(16), seed=3), data.batches(1).rows
    assert rows.flatten().tolist() == Stream(3, "order", 1).permutation(35)[:30].tolist()
    got = fed(data, 1)
    assert len(got) == len(data) == 5
    for batch, (x, y) in zip(rows.tolist(), got, strict=True):
        expected = [by_hand[1, row] for row in batch]
        assert torch.equal(x, torch.stack([image for image, _ in expected]) / 255)
        assert y.tolist() == [label for _, label in expected]
    rest = fed(data, 1, start=3)
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(got[3:], rest, strict=True)) and len(rest) == 2


def test_layout_augmentation_and_seeds(folder: Path) -> None:
    data = loader(pictures(folder), augment=PatchGaussian(9, 0.5), layout=torch.channels_last)
    x, _ = fed(data, 0)[0]
    assert x.is_contiguous(memory_format=torch.channels_last) and x.dtype == torch.float32
    assert not torch.equal(x, fed(loader(pictures(folder)), 0)[0][0])
    state = torch.random.get_rng_state()
    fed(loader(pictures(folder, workers=2)), 0)
    assert torch.equal(state, torch.random.get_rng_state())  # the objective's draws do not depend on the loading
    with pytest.raises(ValueError, match="batch_size=36 must lie between 1 and the 35 images"):
        loader(pictures(folder), 36)


def test_another_picture_of_the_batch_stands_in_for_a_damaged_one(folder: Path, caplog) -> None:
    listing = in_class_folders(folder)
    data = loader(pictures(folder))
    rows = data.batches(0).rows
    bad = [listing.pictures[row][0] for row in rows[0, [1, 4]].tolist()]
    for path in bad:
        path.write_bytes(b"<html>")
    whole = [row for place, row in enumerate(rows[0].tolist()) if place not in (1, 4)]
    (x, y), (other, _) = fed(data, 0)[:2]
    by_hand = PictureSet(listing, RandomCrop(16))
    expected = torch.stack([by_hand[0, row][0] for row in [*whole, *whole[:2]]]) / 255
    assert torch.equal(x, expected) and y.tolist() == [listing.pictures[row][1] for row in [*whole, *whole[:2]]]
    assert len(other) == 6 and set(data.pictures.damaged) == set(bad)
    assert all(f"skipping damaged image {path} (UnidentifiedImageError" in caplog.text for path in bad)
    for row in rows[0].tolist():
        listing.pictures[row][0].write_bytes(b"")
    with pytest.raises(DataMismatch, match="no image of a batch can be decoded"):
        fed(data, 0)


@pytest.mark.parametrize("workers", [0, 2])
def test_tests_see_every_picture_once_with_its_own_index(folder: Path, workers: int) -> None:
    listing = in_class_folders(folder)
    listing.pictures[8][0].write_bytes(b"")
    seen: list[int] = []

    def change(images: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        seen.extend(index.tolist())
        return 255 - images

    held = pictures(folder, crop=CentreCrop(16, 20), workers=workers, change=change)
    x, y = (torch.cat(parts) for parts in zip(*held.in_order(CPU), strict=True))
    whole = [index for index in range(35) if index != 8]
    assert seen == whole and y.tolist() == [listing.pictures[index][1] for index in whole]
    by_hand = PictureSet(listing, CentreCrop(16, 20))
    assert torch.equal(x, 255 - torch.stack([by_hand[0, index][0] for index in whole]))
    seen.clear()
    counts = [sum(len(y) for _, y in held.in_order(CPU, process, 3)) for process in range(3)]
    assert sorted(seen) == whole and counts == [12, 12, 10]  # three processes share them
    few = pictures(folder, crop=CentreCrop(16, 20), first=4)
    assert len(few) == 4 and [len(y) for _, y in few.in_order(CPU)] == [4]


def test_a_disk_that_is_gone_ends_a_test(tmp_path: Path) -> None:
    folder = Drawn(classes=5, train=40, val=1, sizes=((16, 16),)).write(tmp_path) / "train"
    held = pictures(folder, crop=CentreCrop(16, 16))
    rows = held.in_order(CPU)
    assert len(next(rows)[1]) == 100
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(DataMismatch, match="no image of a batch can be decoded"):
        next(rows)


class Deadly(PackedListing):
    """A picture that takes its worker down, as the system does when memory runs out."""

    def read(self, index: int) -> bytes:
        if index == 20:
            os._exit(9)
        return super().read(index)


@pytest.mark.miniature
def test_a_worker_that_dies_ends_the_epoch_with_a_sentence(folder: Path) -> None:
    held = Pictures(Deadly(in_class_folders(folder)), RandomCrop(16), workers=1)
    with pytest.raises((DataError, RuntimeError), match="DataLoader worker"):
        fed(loader(held, batch_size=35), 0)


def test_small_sets_need_no_processes(monkeypatch) -> None:
    assert workers_for(999) == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)), raising=False)
    assert workers_for(1000) == 16
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert workers_for(1000) == 2


def test_drawn_pictures_are_the_same_everywhere_and_differ_by_class(tmp_path: Path) -> None:
    recipe = Drawn(classes=3, train=2, val=1)
    one, two = recipe.write(tmp_path / "a"), recipe.write(tmp_path / "b")
    files = sorted(path.relative_to(one) for path in one.rglob("*.JPEG"))
    assert len(files) == 9 and all((one / name).read_bytes() == (two / name).read_bytes() for name in files)
    assert recipe.write(tmp_path / "a") == one and Drawn(classes=4).write(tmp_path / "a") != one
    assert not [path for path in (tmp_path / "a").iterdir() if path.name.startswith(".")]
    for name in files:
        with Image.open(one / name) as picture:
            assert picture.size in recipe.sizes
    means = np.stack([draw(label, (32, 32), Stream(0, "x")).mean((0, 1)) for label in range(20)])
    assert np.ptp(means, axis=0).min() > 20


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    for number in range(10):
        pixels = np.random.default_rng(number).integers(0, 256, (40 + number, 60 - number, 3), dtype=np.uint8)
        folder = tmp_path / f"n0000000{number % 3}"
        folder.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number}.JPEG")
    return tmp_path


def test_a_streamed_epoch_does_not_depend_on_workers_and_resumes(ten: Path) -> None:
    epoch = lambda start=0, workers=0, number=1: list(  # noqa: E731
        stream_epoch(PictureSet(in_class_folders(ten), RandomCrop(16)), 3, number, start, workers)
    )
    whole = epoch()
    assert [x.shape for x, _ in whole] == [(3, 3, 16, 16)] * 3
    for other in (epoch(workers=2), [*whole[:1], *epoch(start=1)]):
        assert all(torch.equal(a, b) and torch.equal(y, z) for (a, y), (b, z) in zip(whole, other, strict=True))
    folders = PictureSet(in_class_folders(ten), RandomCrop(16))
    assert not torch.equal(folders[1, 3][0], folders[2, 3][0])
    assert torch.equal(folders[1, 3][0], folders[1, 3][0])


@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_streams_everything_once_in_order_and_the_rest_too(ten: Path, workers: int) -> None:
    listing = in_class_folders(ten)
    batches = list(stream_in_order(PictureSet(listing, CentreCrop(16, 20)), 4, workers))
    assert [len(y) for _, y in batches] == [4, 4, 2]
    assert torch.cat([y for _, y in batches]).tolist() == [number for _, number in listing.pictures]
    alone = [PictureSet(listing, CentreCrop(16, 20))[0, index][0] for index in range(10)]
    assert torch.equal(torch.cat([x for x, _ in batches]), torch.stack(alone))
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        next(stream_in_order(PictureSet(listing, CentreCrop()), 0))


@pytest.mark.parametrize("workers", [0, 2])
def test_damaged_pictures_are_left_out_counted_and_named(ten: Path, workers: int, caplog) -> None:
    whole = in_class_folders(ten).pictures
    cut, page, gone = whole[1][0], whole[5][0], whole[9][0]
    cut.write_bytes(cut.read_bytes()[:600])
    page.write_bytes(b"<html>")
    stream = PictureSet(in_class_folders(ten), CentreCrop(16, 20))
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


def test_a_batch_of_damaged_pictures_alone_is_left_out(ten: Path) -> None:
    for path, _ in in_class_folders(ten).pictures[:4]:
        path.write_bytes(b"")
    assert [len(y) for _, y in stream_in_order(PictureSet(in_class_folders(ten), CentreCrop(16, 20)), 4)] == [4, 2]


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
