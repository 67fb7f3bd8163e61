"""Archives that would fill the memory or take forever: refused in a sentence, in bounded memory."""

import bz2
import gzip
import io
import lzma
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from data_sets import tar_bytes, zip_bytes
from deadlines import within

from poise.data.loading.shards import scan
from poise.data.sets import archives as files
from poise.data.sets.archives import Archive, open_files
from poise.data.sets.layouts import keras_npz
from poise.errors import DataError, DataMismatch, DataUnsafe

MB = 2**20
KERAS = ("x_train", "y_train", "x_test", "y_test")
OPENED = """
import resource, sys
from pathlib import Path
from poise.errors import DataError
from poise.data.sets.archives import open_files
from poise.data.sets.layouts import keras_npz

def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

before = peak()
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 400 * 2**20,) * 2)
try:
    found = open_files(Path(sys.argv[1]))
    for name in found.names():
        found.read(name)
    keras_npz(found)
except DataError as error:
    print(type(error).__name__, error)
print((peak() - before) // 1024)
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")


def header(name: str, kind: bytes, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.type = kind
    block = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = struct.pack(">BxxxQ", 0x80, size) if size >= 8**11 else b"%011o\0" % size
    if size < 0:
        block[124:136] = b"\xff" * 4 + struct.pack(">q", size)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def long_name(size: int) -> bytes:
    return (
        header("././@LongLink", tarfile.GNUTYPE_LONGNAME, size)
        + b"a" * size
        + bytes(-size % 512)
        + header("x", tarfile.REGTYPE, 0)
    )


def extended(size: int, kind: bytes = tarfile.XHDTYPE) -> bytes:
    line = b" comment=" + b"a" * (size - 20) + b"\n"
    line = str(len(line) + 9).encode().rjust(9, b"0") + line
    padded = line + bytes(-len(line) % 512)
    return header("h", kind, len(line)) + padded + header("x", tarfile.REGTYPE, 0)


def many_globals(count: int) -> bytes:
    """Extended headers for all members that follow, which are added up."""
    blocks = []
    for number in range(count):
        line = b"25 %012d=x" % number
        line += b"x" * (24 - len(line)) + b"\n"
        blocks += [header("g", tarfile.XGLTYPE, len(line)), line + bytes(-len(line) % 512)]
        blocks += [header(str(number), tarfile.REGTYPE, 0)]
    return b"".join(blocks)


def lying_zip(real: int, told: int, name: str = "x", *others: str) -> bytes:
    """A zip with a member of `real` bytes that it says is of `told`."""
    content = bytearray(zip_bytes_deflated({name: bytes(real), **dict.fromkeys(others, b"")}))
    for place, mark in ((22, b"PK\x03\x04"), (24, b"PK\x01\x02")):
        at = content.index(mark) + place
        content[at : at + 4] = struct.pack("<I", told)
    return bytes(content)


def zip_bytes_deflated(contents: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def long_list(count: int) -> bytes:
    """A zip without anything in it but its list of members."""
    entry = b"PK\x01\x02" + bytes(24) + struct.pack("<H", 1) + bytes(16) + b"a"
    return (
        b"PK\x03\x04"
        + entry * count
        + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, count % 65536, count % 65536, len(entry) * count, 4, 0)
    )


BOMBS = {
    "a long name": ("a.tar.gz", lambda: gzip.compress(long_name(120 * MB), 1)),
    "a long name in an archive called otherwise": ("a.bin", lambda: gzip.compress(long_name(120 * MB), 1)),
    "a long extended header": ("a.tar.gz", lambda: gzip.compress(extended(120 * MB), 1)),
    "a long extended header for all": ("a.tar.gz", lambda: gzip.compress(extended(120 * MB, tarfile.XGLTYPE), 1)),
    "a zip that lies": ("a.zip", lambda: lying_zip(300 * MB, 1000)),
    "an npz that lies": ("mnist.npz", lambda: lying_zip(300 * MB, 1000, *(f"{name}.npy" for name in KERAS))),
    "a long list of a zip": ("a.zip", lambda: long_list(500_000)),
}


@linux
@pytest.mark.miniature
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_in_bounded_memory(bomb: str, tmp_path: Path) -> None:
    name, make = BOMBS[bomb]
    (tmp_path / name).write_bytes(make())
    ended = subprocess.run([sys.executable, "-c", OPENED, tmp_path / name], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    *said, grown = ended.stdout.splitlines()
    assert len(said) == 1 and said[0].startswith(("DataUnsafe", "DataMismatch")), ended.stdout
    assert int(grown) < 100, f"{grown} MB more"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (long_name(5000), "a name of 5000 letters"),
        (long_name(MB), "longer headers than any data set"),
        (extended(MB), "longer headers than any data set"),
        (extended(MB, tarfile.XGLTYPE), "longer headers than any data set"),
        (many_globals(1200), "has headers that no data set has"),
        (header("x", tarfile.REGTYPE, -1024), "has headers that no data set has"),
        (header("x", tarfile.GNUTYPE_LONGNAME, -512) + bytes(MB), "longer headers than any data set"),
        (header("x", tarfile.REGTYPE, 2**62), f"'x' of {2**62} bytes: larger than any"),
        (header("x", tarfile.GNUTYPE_SPARSE, 0), "sparse file 'x': pack it without  --sparse"),
        (header("x", tarfile.FIFOTYPE, 0), "'x', which is a link or a device"),
    ],
    ids=range(10),
)
def test_headers_of_no_set_are_refused(content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(content + bytes(1024))
    with within(10), pytest.raises(DataUnsafe, match=sentence) as caught:
        open_files(tmp_path / "a.tar")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_names_and_headers_of_sets_are_read(pack, tmp_path: Path) -> None:
    name = "/".join(["a" * 90] * 5)
    packed = tar_bytes({name: b"x", "é": b"y", "folder/z": b"z"})
    (tmp_path / "a").write_bytes(pack(gzip.decompress(packed)))
    found = open_files(tmp_path / "a")
    assert {each: found.read(each) for each in found.names()} == {name: b"x", "é": b"y", "folder/z": b"z"}


@pytest.mark.parametrize("make", [tar_bytes, zip_bytes])
@pytest.mark.parametrize(
    ("limit", "value", "sentence"),
    [
        ("MOST_FILES", 3, "more than 3 files, the limit"),
        ("MOST_BYTES", 30, "more than 30 bytes, the limit"),
        ("LONGEST_NAME", 3, "a name of 4 letters"),
    ],
)
def test_numbers_of_no_set_are_refused(make, limit: str, value: int, sentence: str, tmp_path, monkeypatch) -> None:
    (tmp_path / "a").write_bytes(make({f"abc{number}": b"0123456789" for number in range(4)}))
    assert len(Archive(tmp_path / "a").names()) == 4
    monkeypatch.setattr(files, limit, value)
    with pytest.raises(DataUnsafe, match=sentence):
        Archive(tmp_path / "a")


def test_a_folder_with_too_many_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (tmp_path / str(number)).touch()
    monkeypatch.setattr(files, "MOST_IN_FOLDER", 2)
    with pytest.raises(DataUnsafe, match=f"{tmp_path} has more than 2 files: give the folder of the set itself"):
        open_files(tmp_path).names()


def test_packings_without_a_limit_are_refused(tmp_path: Path) -> None:
    for kind in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        (tmp_path / "a.zip").write_bytes(zip_bytes_deflated({"x": bytes(1000)}, kind))
        with pytest.raises(DataUnsafe, match="'x', neither stored nor deflated: pack it"):
            open_files(tmp_path / "a.zip")
    (tmp_path / "a.tar.xz").write_bytes(lzma.compress(gzip.decompress(tar_bytes({"x": b"x"}))))
    with pytest.raises(DataUnsafe, match=r"a\.tar\.xz is compressed with xz, .*: unpack it first"):
        open_files(tmp_path / "a.tar.xz")


def test_a_zip_that_lies_in_the_other_direction_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(lying_zip(1000, 5000))
    with pytest.raises(DataMismatch, match=r"a\.zip is damaged at x"):
        open_files(tmp_path / "a.zip").read("x")


def test_an_npz_with_a_long_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mnist.npz").write_bytes(long_list(400_000))
    with pytest.raises(DataUnsafe, match=r"mnist\.npz has longer headers than any data set"):
        keras_npz(open_files(tmp_path))


@pytest.mark.parametrize("content", [long_name(MB), extended(MB), header("x", tarfile.REGTYPE, -1024)])
def test_a_shard_with_such_headers_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "train-000000.tar").write_bytes(content + bytes(1024))
    with within(10), pytest.raises(DataError, match=r"train-000000\.tar has (longer )?headers"):
        scan(tmp_path / "train-000000.tar")
