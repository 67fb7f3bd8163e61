"""Getting a set: the order of ways, proof, and what is left behind when a way fails."""

import dataclasses
import json
import multiprocessing
import os
import pickle
import signal
import ssl
import threading
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import numpy as np
import pytest
from data_sets import Server, digits, idx_files, keras_file, tar_bytes, write_folder

from poise.data.sets import cache, catalogue
from poise.data.sets import fetch as sources
from poise.data.sets.archives import Files
from poise.data.sets.cache import Item
from poise.data.sets.catalogue import MNIST, DataSet
from poise.errors import CacheError, DataError, DataMismatch, DataNotFound

DIGESTS = {name: cache.digest(array) for name, array in digits().items()}


def small(**changes: object) -> DataSet:
    return dataclasses.replace(MNIST, **{"digests": DIGESTS, "addresses": (), "packages": (), **changes})


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch):
    """Put a set into the catalogue in MNIST's place."""

    def put(**changes: object) -> None:
        monkeypatch.setitem(catalogue.CATALOGUE, "mnist", small(**changes))

    put()
    return put


def wrong() -> dict[str, np.ndarray]:
    arrays = digits()
    arrays["test_x"][0, 0, 0] ^= 1
    return arrays


def left_behind(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.endswith(".lock"))


def test_a_folder_is_read_proved_and_stored(offer, tmp_path: Path, cache_folder: Path) -> None:
    folder = write_folder(idx_files(digits()), tmp_path / "mine")
    assert sources.get("mnist", folder) == str(folder)
    for name, array in digits().items():
        stored = cache.load("mnist", name)
        assert isinstance(stored, np.memmap)
        np.testing.assert_array_equal(stored, array)
    sources.check("mnist")
    assert left_behind(cache_folder) == ["mnist"]
    assert sources.get("mnist") == f"already here, by {folder}"


def test_the_official_address(offer, server: Server, cache_folder: Path) -> None:
    files = idx_files(digits())
    server.bodies.update({f"/{name}": data for name, data in files.items()})
    offer(addresses=(tuple(f"{server.url}/{name}" for name in files),))
    assert sources.get("mnist").startswith("the official address")
    sources.check("mnist")
    assert left_behind(cache_folder) == ["mnist"]
    assert not (cache_folder / ".downloads").exists()


def test_an_archive_at_the_official_address(offer, server: Server) -> None:
    server.bodies["/mnist.tar.gz"] = tar_bytes(idx_files(digits()))
    offer(addresses=((f"{server.url}/mnist.tar.gz",),))
    assert sources.get("mnist").startswith("the official address")


def test_a_wrong_digest_names_both_keeps_nothing_and_tries_the_next_way(offer, server, tmp_path, cache_folder) -> None:
    server.bodies["/mnist.tar.gz"] = tar_bytes(idx_files(wrong()))
    offer(addresses=((f"{server.url}/mnist.tar.gz",),))
    got = cache.digest(wrong()["test_x"])
    with pytest.raises(DataNotFound, match=f"test_x of mnist .* expected sha256 {DIGESTS['test_x']}, got {got}"):
        sources.get("mnist")
    assert left_behind(cache_folder) == []
    offer(addresses=((f"{server.url}/mnist.tar.gz",), (f"{server.url}/right.tar.gz",)))
    server.bodies["/right.tar.gz"] = tar_bytes(idx_files(digits()))
    assert sources.get("mnist").startswith("the official address; after the official address: test_x of mnist")


def test_a_network_that_fails_in_between_leads_to_the_next_way(offer, server: Server, monkeypatch) -> None:
    server.bodies.update({"/a.tar.gz": tar_bytes(idx_files(wrong())), "/b.tar.gz": tar_bytes(idx_files(digits()))})
    offer(addresses=((f"{server.url}/a.tar.gz",), (f"{server.url}/b.tar.gz",)))
    read, errors = HTTPResponse.read1, [ssl.SSLError(1, "decryption failed") for _ in range(3)]

    def failing(self: HTTPResponse, size: int = -1) -> bytes:
        if errors:
            raise errors.pop()
        return read(self, size)

    monkeypatch.setattr(HTTPResponse, "read1", failing)
    assert "a.tar.gz cannot be reached: decryption failed" in sources.get("mnist").replace("[Errno 1] ", "")


def test_what_the_user_points_at_comes_first_and_the_network_next(offer, server: Server, tmp_path: Path) -> None:
    server.bodies["/mnist.tar.gz"] = tar_bytes(idx_files(digits()))
    offer(addresses=((f"{server.url}/mnist.tar.gz",),))
    bad = write_folder(idx_files(wrong()), tmp_path / "bad")
    assert sources.get("mnist", bad).startswith("the official address")
    good = write_folder(idx_files(digits()), tmp_path / "good")
    server.requests.clear()
    assert sources.get("mnist", good, again=True) == str(good)
    assert server.requests == []


def test_every_story_is_told_if_all_ways_fail(offer, server: Server, tmp_path: Path) -> None:
    offer(addresses=((f"{server.url}/nothing.tar.gz",),))
    with pytest.raises(DataNotFound) as error:
        sources.get("mnist", tmp_path / "nowhere")
    assert "nowhere does not exist" in str(error.value)
    assert "answers 404" in str(error.value)
    with pytest.raises(DataNotFound, match="no set is called 'nmist': did you mean 'mnist'"):
        sources.get("nmist")


def _get_slowly(folder: Path, meeting: Path, number: int, results) -> None:
    """Wait until all processes are here, then get a set whose reading takes so long that all would meet in it."""

    def read(files: Files) -> Iterator[tuple[str, Item]]:
        time.sleep(1.0)
        yield from MNIST.read(files)

    catalogue.CATALOGUE["mnist"] = small(read=read)
    (meeting / str(number)).touch()
    while len(list(meeting.iterdir())) < 3:
        time.sleep(0.01)
    results.put(sources.get("mnist", folder))


@pytest.mark.miniature
def test_of_several_processes_at_once_one_works_and_the_others_wait(tmp_path: Path, cache_folder: Path) -> None:
    folder, meeting = write_folder(idx_files(digits()), tmp_path / "mine"), tmp_path / "meeting"
    meeting.mkdir()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_get_slowly, args=(folder, meeting, n, results)) for n in range(3)]
    for process in processes:
        process.start()
    ways = sorted(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    assert ways == [str(folder)] + [f"already here, by {folder}"] * 2
    assert left_behind(cache_folder) == ["mnist"]


def test_waiting_for_another_process_is_told(offer, tmp_path: Path) -> None:
    folder, told = write_folder(idx_files(digits()), tmp_path / "mine"), []
    waiting = threading.Event()

    def progress(what: str, done: int, total: int | None) -> None:
        told.append(what)
        waiting.set()

    with cache.lock("mnist"):
        thread = threading.Thread(target=sources.get, args=("mnist", folder), kwargs={"progress": progress})
        thread.start()
        assert waiting.wait(20)
    thread.join(20)
    assert told[0] == "waiting for another process to get mnist"
    assert set(told[1:]) == {"reading mnist"}


def test_check_finds_what_changed(offer, tmp_path: Path, cache_folder: Path) -> None:
    sources.get("mnist", write_folder(idx_files(digits()), tmp_path / "mine"))
    np.save(cache_folder / "mnist" / "test_x.npy", wrong()["test_x"])
    with pytest.raises(DataMismatch, match=r"mnist has the wrong content: expected .* data get mnist --again"):
        sources.check("mnist")
    assert sources.get("mnist", tmp_path / "mine", again=True)
    sources.check("mnist")


def test_what_changed_is_not_loaded(offer, tmp_path: Path, cache_folder: Path) -> None:
    sources.get("mnist", write_folder(idx_files(digits()), tmp_path / "mine"))
    assert np.array_equal(cache.load("mnist", "test_x"), digits()["test_x"])
    path = cache_folder / "mnist" / "test_x.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataMismatch, match=r"test_x of mnist has changed on disk: .* data get mnist --again"):
        cache.load("mnist", "test_x")
    (cache_folder / "mnist" / "manifest.json").unlink()
    with pytest.raises(DataMismatch, match=r"mnist is incomplete in .*poise data get mnist --again"):
        cache.load("mnist", "test_x")


def test_an_array_is_compared_once(offer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources.get("mnist", write_folder(idx_files(digits()), tmp_path / "mine"))
    compared = []
    digest = cache.digest
    monkeypatch.setattr(cache, "digest", lambda value: compared.append(value.shape) or digest(value))
    for _ in range(3):
        cache.load("mnist", "test_x")
    assert compared == [digits()["test_x"].shape]


@pytest.mark.parametrize("damage", ["cut", "gone", "manifest", "empty manifest", "wrong manifest", "flipped"])
def test_a_damaged_cache_is_not_taken_for_a_set_and_is_mended(
    offer, tmp_path: Path, cache_folder: Path, damage
) -> None:
    folder = write_folder(idx_files(digits()), tmp_path / "mine")
    sources.get("mnist", folder)
    place = cache_folder / "mnist"
    if damage == "cut":
        (place / "test_x.npy").write_bytes((place / "test_x.npy").read_bytes()[:-5])
    elif damage == "gone":
        (place / "test_x.npy").unlink()
    elif damage == "flipped":
        (place / "manifest.json").write_text((place / "manifest.json").read_text().replace("digests", "eigests"))
    else:
        (place / "manifest.json").write_text({"manifest": "{", "empty manifest": "{}"}.get(damage, "[]"))
    with pytest.raises(DataMismatch, match=r"mnist is incomplete in .*poise data get mnist --again"):
        sources.check("mnist")
    assert sources.get("mnist", folder) == str(folder)
    sources.check("mnist")


def test_check_trusts_the_catalogue_and_not_the_manifest(offer, tmp_path: Path, cache_folder: Path) -> None:
    sources.get("mnist", write_folder(idx_files(digits()), tmp_path / "mine"))
    manifest = json.loads((cache_folder / "mnist" / "manifest.json").read_text())
    np.save(cache_folder / "mnist" / "test_x.npy", wrong()["test_x"])
    manifest["digests"]["test_x"] = cache.digest(wrong()["test_x"])
    (cache_folder / "mnist" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataMismatch, match="test_x of mnist has the wrong content"):
        sources.check("mnist")


def test_a_set_that_lacks_a_part_is_refused() -> None:
    with pytest.raises(DataMismatch, match="mnist lacks test_y"):
        cache.store("mnist", [("train_y", digits()["train_y"])], "here", {"test_y": DIGESTS["test_y"]})


def test_what_a_killed_process_left_is_removed(offer, tmp_path: Path, cache_folder: Path) -> None:
    left = {f"{place}/half": b"x" for place in (".mnist@old", ".mnist-package@old/work", ".downloads/mnist")}
    write_folder({**left, ".cifar10-package@old/half": b"x", ".downloads/cifar10/half": b"x"}, cache_folder)
    sources.get("mnist", write_folder(idx_files(digits()), tmp_path / "mine"))
    assert left_behind(cache_folder) == [".cifar10-package@old", ".downloads", "mnist"]
    assert [p.name for p in (cache_folder / ".downloads").iterdir()] == ["cifar10"]


def test_no_empty_folders_are_left(offer, server: Server, tmp_path: Path, cache_folder: Path) -> None:
    offer(addresses=((f"{server.url}/nothing.tar.gz",),))
    with pytest.raises(DataNotFound, match="answers 404"):
        sources.get("mnist")
    assert left_behind(cache_folder) == []


def test_what_arrived_is_kept_until_another_way_brings_the_set(offer, server, tmp_path, cache_folder) -> None:
    server.bodies["/mnist.tar.gz"] = tar_bytes(idx_files(digits()))
    server.failures["/mnist.tar.gz"] = [503] * 3
    offer(addresses=((f"{server.url}/mnist.tar.gz",),))
    write_folder({".downloads/mnist/mnist.tar.gz.part": b"half"}, cache_folder)
    with pytest.raises(DataNotFound, match="503"):
        sources.get("mnist")
    assert left_behind(cache_folder) == [".downloads"]
    sources.get("mnist", write_folder(idx_files(digits()), tmp_path / "mine"))
    assert left_behind(cache_folder) == ["mnist"]


def _killed_while_moving(folder: Path, rename: int) -> None:
    """Get a set again and die at the given rename."""
    catalogue.CATALOGUE["mnist"] = small()
    renames, move = [], Path.rename

    def counted(self: Path, target: Path) -> Path:
        renames.append(target)
        if len(renames) == rename:
            os.kill(os.getpid(), signal.SIGKILL)
        return move(self, target)

    Path.rename = counted
    sources.get("mnist", folder, again=True)


@pytest.mark.parametrize("rename", [1, 2])
def test_a_kill_while_a_set_is_replaced_leaves_the_old_one(offer, tmp_path: Path, cache_folder: Path, rename) -> None:
    folder = write_folder(idx_files(digits()), tmp_path / "mine")
    sources.get("mnist", folder)
    process = multiprocessing.get_context("spawn").Process(target=_killed_while_moving, args=(folder, rename))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert (cache_folder / "mnist").exists() == (rename == 1)
    assert sources.get("mnist") == f"already here, by {folder}"
    sources.check("mnist")
    assert sources.get("mnist", folder, again=True) == str(folder)
    assert left_behind(cache_folder) == ["mnist"]


def test_a_path_may_be_written_as_text(offer, tmp_path: Path) -> None:
    folder = write_folder(idx_files(digits()), tmp_path / "mine")
    assert sources.get("mnist", str(folder)) == str(folder)


def test_right_bytes_in_wrong_shapes_are_refused(offer, tmp_path: Path) -> None:
    arrays = digits()
    arrays["train_x"] = arrays["train_x"].reshape(60, 784)
    with pytest.raises(DataNotFound, match=r"train has uint8 \(60, 784\)"):
        sources.get("mnist", write_folder(keras_file(arrays), tmp_path / "mine"))


def test_whatever_a_library_raises_only_ends_that_way(offer, server: Server, tmp_path: Path) -> None:
    server.bodies["/mnist.tar.gz"] = tar_bytes(idx_files(digits()))
    offer(addresses=((f"{server.url}/mnist.tar.gz",),))
    bad = write_folder({"mnist.pkl": pickle.dumps(([1], 2))}, tmp_path / "bad")
    assert "; after " in sources.get("mnist", bad)


def test_a_disk_that_does_not_take_it_gets_a_sentence(offer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(idx_files(digits()), tmp_path / "mine")

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "_write", full)
    with pytest.raises(CacheError, match="is full: free some space, or set POISE_DATA"):
        sources.get("mnist", folder)
    monkeypatch.setenv("POISE_DATA", str(folder / "train-images-idx3-ubyte.gz" / "cache"))
    with pytest.raises(DataError, match="is not a folder: set POISE_DATA to one"):
        sources.get("mnist", folder)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("value", [np.zeros(10, np.uint8), np.zeros(2**24, np.uint8), b"x", b"x" * 2**20], ids=len)
def test_items_that_do_not_fit_on_the_disk_get_a_sentence(
    value: Item, tmp_path: Path, cache_folder, monkeypatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for name in ("item", "item.npy"):
        (scratch / name).symlink_to("/dev/full")
    monkeypatch.setattr(cache, "scratch", lambda name: scratch)
    with pytest.raises(CacheError, match=f"^{cache_folder} is full: free some space"):
        cache.store("mnist", [("item", value)], "here", {})
    assert not scratch.exists() and not (cache_folder / "mnist").exists()


def test_an_array_that_fits_in_part_is_told_with_the_system_s_reason(tmp_path: Path) -> None:
    """numpy's own writing would only say how much was written."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(CacheError, match="cannot be used: File too large"):
            cache.store("mnist", [("item", np.zeros(2**20, np.uint8))], "here", {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_set_that_is_there_is_found_in_a_cache_that_cannot_be_written(offer, tmp_path, cache_folder) -> None:
    folder = write_folder(idx_files(digits()), tmp_path / "mine")
    sources.get("mnist", folder)
    (cache_folder / ".mnist.lock").unlink()
    (cache_folder / ".mnist.lock").mkdir()  # no lock can be had, even by root
    assert sources.get("mnist") == f"already here, by {folder}"
    with pytest.raises(CacheError):
        sources.get("mnist", again=True)


def test_where_data_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POISE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache.root() == Path("/x/poise")
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache.root() == Path("~/Library/Caches/poise").expanduser()


def test_a_set_that_is_not_there_says_how_to_get_it(cache_folder: Path) -> None:
    with pytest.raises(DataNotFound, match=f"mnist is not in {cache_folder}: get it with  poise data get mnist$"):
        sources.check("mnist")
    with pytest.raises(DataNotFound, match="poise data get mnist"):
        cache.load("mnist", "train_x")
    with pytest.raises(FileNotFoundError):
        cache.path_of("bert-vocab", "vocab.txt")
