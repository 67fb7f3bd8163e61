"""Hostile pickles and archives: nothing runs, nothing leaves its folder, a sentence says why."""

import gzip
import io
import pickle
import stat
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from data_sets import tar_bytes, zip_bytes

from poise.data.sets import archives as files
from poise.data.sets import layouts as unpickle
from poise.data.sets.archives import Archive, ending, open_files
from poise.data.sets.layouts import ANSWERS, arrays_from_pickle, keras_npz
from poise.errors import DataMismatch, DataNotFound, DataUnsafe

TOUCHED: list[str] = []


class Hostile:
    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call


def touch(name: str) -> None:
    TOUCHED.append(name)


@pytest.mark.parametrize(
    "attack",
    [
        Hostile(touch, "x"),
        Hostile(eval, "1"),
        Hostile(getattr, "x", "upper"),
        Hostile(np.load, "x"),
        {"data": [Hostile(touch, "y")]},
        Hostile(np.lib.npyio.NpzFile, "x"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_can_name_nothing_but_arrays(attack: object, protocol: int) -> None:
    with pytest.raises(DataUnsafe, match=r"the pickle (refers to|contains|uses|tries|cannot be read)"):
        arrays_from_pickle(pickle.dumps(attack, protocol=protocol))
    assert TOUCHED == []


def test_exactly_these_names_are_answered() -> None:
    assert {f"{module}.{name}" for module, name in ANSWERS} == {
        "numpy.ndarray",
        "numpy.dtype",
        "numpy.core.multiarray._reconstruct",
        "numpy._core.multiarray._reconstruct",
        "_codecs.encode",
        "__builtin__.bytes",
        "builtins.bytes",
    }


@pytest.mark.parametrize("kind", ["O", "V8", "S4", "M8[s]", "i4,i4"])
def test_only_arrays_of_plain_numbers_are_built(kind: str) -> None:
    with pytest.raises(DataUnsafe):
        arrays_from_pickle(pickle.dumps(np.zeros(2, dtype=kind), protocol=2))


def test_a_type_that_hides_pointers_is_refused() -> None:
    """A void type with an object field and its flag cleared would make numpy follow the array's bytes as pointers."""
    attack = Hostile(np.dtype, "u1", False, True)
    attack.call = (np.dtype, ("u1", False, True), (3, "|", None, ("a",), {"a": (np.dtype("i4"), 0)}, 8, 1, 0))
    with pytest.raises(DataUnsafe, match="structured"):
        arrays_from_pickle(pickle.dumps(attack, protocol=2))


def test_a_large_member_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST", 1000)
    path = tmp_path / "a.bin"
    for data in (tar_bytes({"a": bytes(2000)}), zip_bytes({"a": bytes(2000)})):
        path.write_bytes(data)
        with pytest.raises(DataUnsafe, match="of 2000 bytes: larger than any"):
            Archive(path)
    with pytest.raises(DataUnsafe, match="more than 1000 bytes"):
        files.unzipped(gzip.compress(bytes(2000)))


def doubled(depth: int, inside: object) -> object:
    for _ in range(depth):
        inside = [inside, inside]
    return inside


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("what", ["references", "arrays", "texts", "bytes"])
def test_a_pickle_unfolds_to_no_more_than_it_holds(what: str, protocol: int) -> None:
    shared = {"arrays": np.arange(1000, dtype=np.uint8), "texts": "text" * 99, "bytes": b"text" * 99}
    value = doubled(60, 1) if what == "references" else [shared[what]] * 9
    with pytest.raises(DataUnsafe, match="expands to more"):
        arrays_from_pickle(pickle.dumps(value, protocol=protocol))


def test_a_list_in_itself_gets_a_sentence() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(DataUnsafe, match="expands to more"):
        arrays_from_pickle(pickle.dumps(value))


@pytest.mark.parametrize("put", [b"r\xff\xff\xff\x07", b"p134217727\n", b"q\x09"])
def test_a_far_place_in_the_memo_is_refused(put: bytes) -> None:
    with pytest.raises(DataUnsafe, match="after 2 steps"):
        arrays_from_pickle(b"\x80\x02]" + put + b".")


def test_steps_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpickle, "MOST_STEPS", 100)
    assert len(arrays_from_pickle(b"(" + b"]" * 97 + b"l.")) == 97
    with pytest.raises(DataUnsafe, match="more than 100 steps"):
        arrays_from_pickle(b"(" + b"]" * 98 + b"l.")


@pytest.mark.parametrize("name", [b"numpy.core.multiarray\n_reconstruct\n", b"builtins\nbytes\n"])
@pytest.mark.parametrize("state", [b"(N}X\x0c\x00\x00\x00__defaults__(I1\ntst", b"}U\x08__name__U\x04evils"])
def test_the_stand_ins_cannot_be_changed(name: bytes, state: bytes) -> None:
    with pytest.raises(DataUnsafe, match="tries to change a function"):
        arrays_from_pickle(b"c" + name + state + b"b.")


@pytest.mark.parametrize("name", [b"numpy\nndarray\n", b"numpy\ndtype\n", b"_codecs\nencode\n"])
def test_nor_can_the_stand_ins_that_are_types(name: bytes) -> None:
    kinds = [ANSWERS["numpy", "ndarray"], ANSWERS["numpy", "dtype"], ANSWERS["_codecs", "encode"]]
    before = [dict(vars(kind)) for kind in kinds]
    with pytest.raises(DataUnsafe):
        arrays_from_pickle(b"c" + name + b"(N}X\x04\x00\x00\x00evilI1\nstb.")
    assert [dict(vars(kind)) for kind in kinds] == before


@pytest.mark.parametrize(
    ("value", "kind"), [({1, 2}, "set"), (bytearray(b"x"), "bytearray"), (frozenset(), "frozenset")]
)
def test_what_is_neither_a_container_nor_a_number_is_refused(value: object, kind: str) -> None:
    with pytest.raises(DataUnsafe, match=f"the pickle contains a {kind}; only numpy arrays are read"):
        arrays_from_pickle(pickle.dumps([value], protocol=5))


def test_an_npz_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, **{name: np.zeros(500, np.uint8) for name in ("x_train", "y_train", "x_test", "y_test")}
    )
    (tmp_path / "mnist.npz").write_bytes(buffer.getvalue())
    assert keras_npz(open_files(tmp_path)) is not None
    monkeypatch.setattr(files, "LARGEST", 2000)
    with pytest.raises(DataUnsafe, match=r"mnist\.npz contains 'x_train\.npy, .* of 2512 bytes: larger than any"):
        keras_npz(open_files(tmp_path))


def test_a_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST", 1000)
    (tmp_path / "train.bin").write_bytes(bytes(1001))
    with pytest.raises(DataUnsafe, match=r"'train\.bin' of 1001 bytes"):
        open_files(tmp_path).read("train.bin")


def test_arrays_of_objects_cannot_smuggle() -> None:
    array = np.array([Hostile(touch, "z")], dtype=object)
    with pytest.raises(DataUnsafe):
        arrays_from_pickle(pickle.dumps(array))
    assert TOUCHED == []


@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5])
def test_arrays_numbers_and_containers_are_read(protocol: int) -> None:
    if protocol == 5:
        pytest.skip("numpy's protocol 5 rebuilds arrays from buffers, which no published set uses")
    value = {"x": np.arange(6).reshape(2, 3), "y": [1, 2.5, "text", None, (True,)], "z": np.zeros(0, np.uint8)}
    read = arrays_from_pickle(pickle.dumps(value, protocol=protocol))
    np.testing.assert_array_equal(read["x"], value["x"])
    assert read["y"] == value["y"]


@pytest.mark.parametrize("data", [b"", b"nonsense", pickle.dumps(np.arange(100))[:-20]])
def test_a_broken_pickle_gets_a_sentence(data: bytes) -> None:
    with pytest.raises(DataUnsafe, match="cannot be read"):
        arrays_from_pickle(data)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil"])
@pytest.mark.parametrize("make", [tar_bytes, zip_bytes])
def test_an_archive_cannot_lead_out(name: str, make, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(make({name: b"x"}))
    with pytest.raises(DataUnsafe, match="leads out of the archive"):
        Archive(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path) -> None:
    member = tarfile.TarInfo("train")
    member.type, member.linkname = kind, "/etc/passwd"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(member)
    path = tmp_path / "a.tar"
    path.write_bytes(buffer.getvalue())
    with pytest.raises(DataUnsafe, match="a link or a device"):
        Archive(path)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR])
def test_links_and_devices_in_zips_are_refused(kind: int, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("right", b"x")
        member = zipfile.ZipInfo("train")
        member.create_system, member.external_attr = 3, (kind | 0o777) << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(DataUnsafe, match="'train', which is a link or a device"):
        Archive(path)


def test_a_damaged_archive_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(tar_bytes({"a": np.random.default_rng(0).bytes(100_000)})[:50_000])
    with pytest.raises(DataMismatch, match=r"a\.tar\.gz is (not a whole archive|damaged)"):
        Archive(path).read("a")


@pytest.mark.parametrize("name", ["a.zip", "a.bin", "a.whl"])
@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_cut_zip_is_called_damaged(tmp_path: Path, name: str, kept: float) -> None:
    whole = zip_bytes({"a": np.random.default_rng(0).bytes(10_000), "b": b"x"})
    (tmp_path / name).write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(DataMismatch, match=f"{name} is damaged or not a complete archive: File is not a zip file"):
        open_files(tmp_path / name)


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz", "a.tar"])
def test_a_file_called_as_an_archive_must_be_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(tar_bytes({"a": b"x"})[:20])
    with pytest.raises(DataMismatch, match=f"{name} is damaged or not a complete archive: [^\n]*$"):
        open_files(tmp_path / name)


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match="nowhere does not exist"):
        open_files(tmp_path / "nowhere")


def test_names_end_at_the_border_of_a_part(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zip_bytes({"x/raw/a": b"", "x/xraw/a": b"", "raw/a": b"", "x/raw/ba": b""}))
    assert list(ending(Archive(path), "raw/a")) == ["x/raw/a", "raw/a"]
