"""Tar shards: the pictures of the folders, byte by byte; one order for one seed; whole or refused."""

import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from deadlines import within
from streams import fed, loader
from typer.testing import CliRunner

from poise.cli.app import app
from poise.data.loading import shards as sharding
from poise.data.loading.pictures import Pictures, RandomCrop
from poise.data.loading.shards import Shards, imagenet, open_part, read_index, read_shard, scan, write_shards
from poise.data.sets import catalogue
from poise.data.sets.folders import Drawn, imagenet_part
from poise.errors import DataMismatch
from poise.random import Stream

RECIPE = Drawn(classes=5, train=9, val=2, sizes=((24, 24),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return RECIPE.write(tmp_path / "drawn")


def shards(folder: Path, out: Path, each: int = 4) -> Path:
    assert write_shards(folder, out, each) == {"train": 45, "val": 10}
    return out


def contents(held) -> list[tuple[bytes, int]]:
    return [(held.read(index), int(held.labels[index])) for index in range(len(held))]


def test_shards_hold_the_pictures_of_the_folders(folder: Path, tmp_path: Path) -> None:
    out = shards(folder, tmp_path / "shards")
    for part in ("train", "val"):
        there, here = open_part(out, part), open_part(folder, part)
        assert isinstance(there, Shards) and there.classes == here.classes and len(there) == len(here)
        assert sorted(contents(there)) == sorted(contents(here))
    assert contents(open_part(out, "val")) == contents(open_part(folder, "val"))  # in their order
    train = open_part(out, "train")
    assert len(set(train.labels[:4].tolist())) > 1  # classes are mixed
    assert train.name(0).parent == out / "train-000000.tar" and train.name(0).suffix == ".jpeg"
    assert imagenet(out, 5) == imagenet(folder, 5) == {"classes": 5, "train": 45, "val": 10}
    with tarfile.open(out / "train-000000.tar") as tar:  # WebDataset's rule: one key, two endings
        names = tar.getnames()
    assert [name.partition(".")[2] for name in names] == ["jpeg", "cls"] * 4
    assert len({name.partition(".")[0] for name in names}) == 4


def test_an_epoch_visits_all_of_few_shards_at_a_time(folder: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("poise.data.loading.shards._TOGETHER", 3)
    train = open_part(shards(folder, tmp_path / "shards"), "train")
    order = train.order(0, 1)
    assert sorted(order) == list(range(45))
    assert (order == train.order(0, 1)).all()
    assert (order != train.order(0, 2)).any() and (order != train.order(1, 1)).any()
    files = [train.name(index).parent for index in order]
    first = files[:12]
    assert len(set(first)) <= 4 and len(set(first[:4])) > 1  # three shards, mixed; one may be short


def test_the_order_of_an_epoch_over_shards_is_frozen(folder: Path, tmp_path: Path, monkeypatch) -> None:
    """Shards sorted by the numbers of one stream, the pictures of three at a time by those of a stream of their own."""
    monkeypatch.setattr("poise.data.loading.shards._TOGETHER", 3)
    train = open_part(shards(folder, tmp_path / "shards", 10), "train")  # 10, 10, 10, 10 and 5 pictures
    keys = Stream(4, "shards", 2).bits(5).tolist()
    order = sorted(range(5), key=lambda shard: keys[shard])
    expected = []
    for number, together in enumerate((order[:3], order[3:])):
        near = [index for shard in together for index in range(10 * shard, min(10 * shard + 10, 45))]
        places = dict(zip(near, Stream(4, "order", 2, number).bits(len(near)).tolist(), strict=True))
        expected += sorted(near, key=lambda index: places[index])
    assert train.order(4, 2).tolist() == expected
    assert expected[:6] == [19, 14, 18, 29, 24, 41]  # as it was when the first runs were made
    assert loader(Pictures(train, RandomCrop(16)), 6, seed=4).batches(2).rows[0].tolist() == expected[:6]


def test_batches_of_shards_resume_and_do_not_depend_on_workers(folder: Path, tmp_path: Path) -> None:
    out = shards(folder, tmp_path / "shards")
    data = [loader(Pictures(open_part(out, "train"), RandomCrop(16), workers)) for workers in (0, 2)]
    straight, others = (fed(each, 2) for each in data)
    for (x, y), (again, z) in zip([*straight, *straight[4:]], [*others, *fed(data[0], 2, start=4)], strict=True):
        assert torch.equal(x, again) and torch.equal(y, z)


def test_writing_is_repeatable_and_goes_on_after_a_stop(folder: Path, tmp_path: Path, monkeypatch) -> None:
    whole = shards(folder, tmp_path / "whole")
    written = []
    real = sharding._write

    def stopping(path: Path, *rest: object) -> int:
        if len(written) == 5:
            raise KeyboardInterrupt
        written.append(path)
        return real(path, *rest)

    monkeypatch.setattr(sharding, "_write", stopping)
    with pytest.raises(KeyboardInterrupt):
        write_shards(folder, tmp_path / "part", 4)
    with pytest.raises(DataMismatch, match="is not finished: run the same  poise data shard  command"):
        open_part(tmp_path / "part", "train")
    monkeypatch.setattr(sharding, "_write", real)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "part").glob("*.tar")}
    shards(folder, tmp_path / "part")
    assert len(before) == 5 and all(path.stat().st_mtime_ns == time for path, time in before.items())
    files = sorted(path.name for path in whole.iterdir())
    assert files == sorted(path.name for path in (tmp_path / "part").iterdir())
    assert all((whole / name).read_bytes() == (tmp_path / "part" / name).read_bytes() for name in files)


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def test_shards_that_differ_from_the_folders_are_written_again(folder: Path, tmp_path: Path) -> None:
    out = shards(folder, tmp_path / "shards")
    right = {path.name: path.read_bytes() for path in out.iterdir()}

    def again() -> dict[str, bytes]:
        shards(folder, out)
        return {path.name: path.read_bytes() for path in out.iterdir()}

    cut = out / "train-000003.tar"
    cut.write_bytes(cut.read_bytes()[:2000])
    assert again() == right
    picture = next((folder / "train").rglob("*.JPEG"))
    whole = picture.read_bytes()
    picture.write_bytes(whole[:200])
    assert again() != right  # the shard of the picture that is another one now
    picture.write_bytes(whole)
    assert again() == right


def test_shards_of_more_pictures_than_there_are_go(folder: Path, tmp_path: Path) -> None:
    out = shards(folder, tmp_path / "shards", 3)
    for path in sorted((folder / "val").rglob("*.JPEG"))[:2]:
        path.unlink()
    assert write_shards(folder, out, 3) == {"train": 45, "val": 8}
    assert len(open_part(out, "val")) == 8 and not (out / "val-000003.tar").exists()


@pytest.mark.parametrize("home", ["", "./", "some/", "./v1.0/some/"])
def test_shards_of_others_are_looked_through(folder: Path, tmp_path: Path, home: str) -> None:
    pictures = [(path.read_bytes(), label) for path, label in imagenet_part(folder, "train").pictures[:6]]
    with tarfile.open(tmp_path / "train-0.tar", "w") as tar:
        for number, (content, label) in enumerate(pictures):
            add(tar, f"{home}{number}.cls", f"{label}\n".encode())
            add(tar, f"{home}{number}.jpg", content)
            add(tar, f"{home}{number}.json", b"{}")
    held = Shards(tmp_path, "train")
    assert contents(held) == pictures and held.classes == ("0",)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda tar: add(tar, "b.jpg", b"x"), "needs one .cls file for each image: b"),
        (lambda tar: add(tar, "a.cls", b"cat"), "a.cls contains b'cat', not a class number"),
    ],
)
def test_tars_that_are_no_shards_are_named(tmp_path: Path, spoil, sentence: str) -> None:
    with tarfile.open(tmp_path / "train-0.tar", "w") as tar:
        spoil(tar)
    with pytest.raises(DataMismatch, match=sentence):
        scan(tmp_path / "train-0.tar")


def test_cut_and_damaged_files_are_named(folder: Path, tmp_path: Path) -> None:
    out = shards(folder, tmp_path / "shards")
    tar = out / "train-000000.tar"
    tar.write_bytes(tar.read_bytes()[:2500])
    with pytest.raises(DataMismatch, match=r"is truncated or damaged|is not a valid shard|needs one .cls"):
        scan(tar)
    with pytest.raises(DataMismatch, match=r"train-000000.tar is truncated: copy it again, or write it again"):
        imagenet(out, 5)
    data = loader(Pictures(open_part(out, "train"), RandomCrop(16)), 45)
    fed(data, 0)
    assert {path.parent for path in data.pictures.damaged} == {tar}  # what is left of it is used
    tar.with_suffix(".json").write_text(json.dumps({"names": ["a"], "offsets": [-1], "sizes": [1], "labels": [0]}))
    with pytest.raises(DataMismatch, match=r"train-000000.json is damaged .*remove it"):
        open_part(out, "train")
    (out / "shards.json").write_text("{}")
    tar.with_suffix(".json").unlink()
    tar.unlink()
    with pytest.raises(DataMismatch, match=r"shards.json is damaged"):
        open_part(out, "train")


@pytest.mark.parametrize(("part", "packed", "left"), [("train", 45, 41), ("val", 10, 6)])
def test_a_shard_that_is_missing_is_noticed(folder: Path, tmp_path: Path, part: str, packed: int, left: int) -> None:
    out = shards(folder, tmp_path / "shards")
    (out / f"{part}-000001.tar").unlink()
    with pytest.raises(DataMismatch, match=f"has {left} {part} images, not the {packed} that were written: copy it"):
        imagenet(out, 5)


def test_the_command(folder: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "cache"))
    look = catalogue.FolderSet("imagenet", "", "", 0, lambda path: imagenet(path, 5))
    monkeypatch.setitem(catalogue.CATALOGUE, "imagenet", look)
    run = lambda *words: CliRunner().invoke(app, ["data", *words])  # noqa: E731
    out = tmp_path / "shards"
    assert "imagenet is not in" in str(run("shard", str(out)).exception)
    done = run("shard", str(out), "--from", str(folder), "--pictures", "20")
    assert done.stdout == f"{out}: 45 training images, 10 validation images\n"
    for place, said in ((folder, f"{folder}"), (out, f"{out}"), (out, f"already here, by {out}")):
        assert run("get", "imagenet", "--from", str(place)).stdout == f"imagenet: {said}\n"  # from now on
    assert "has shards of 20 images" in str(run("shard", str(out), "--from", str(folder)).exception)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("Dear")
    assert "contains other files" in str(run("shard", str(tmp_path / "full"), "--from", str(folder)).exception)
    assert run("shard", str(out), "--pictures", "0").exit_code == 2
    np.testing.assert_array_equal(open_part(out, "val").labels, np.repeat(np.arange(5), 2))


ONE = {"names": ["a"], "offsets": [0], "sizes": [1], "labels": [0]}


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({**ONE, "names": [3]}),
        json.dumps({**ONE, "names": ["a" * 2000]}),
        json.dumps({**ONE, "offsets": [10**30]}),
        json.dumps({**ONE, "labels": [10**10]}),
        json.dumps({**ONE, "labels": ["0"]}),
        "[" * 100_000,
        "3",
        "\\x00",
    ],
)
def test_a_hostile_index_of_a_shard_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "train-000000.json").write_text(content)
    with within(10), pytest.raises(DataMismatch, match=r"train-000000\.json is damaged .*remove it"):
        read_shard(tmp_path / "train-000000.tar")


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", '{"whole": 1, "each": 1, "pictures": [3], "classes": []}'])
def test_a_hostile_index_of_a_folder_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "shards.json").write_text(content)
    with within(10), pytest.raises(DataMismatch, match=r"shards\.json is damaged"):
        read_index(tmp_path)


def test_a_class_of_any_number_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "train-000000.tar", "w") as tar:
        add(tar, "0.png", b"x")
        add(tar, "0.cls", b"99999999999")
    with pytest.raises(DataMismatch, match="class 99999999999 is too large"):
        read_shard(tmp_path / "train-000000.tar")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_in_place_of_a_shard_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train-000000.tar")
    with within(10), pytest.raises(OSError, match="it is a pipe, not a file"):
        read_shard(tmp_path / "train-000000.tar")
