"""Files appear whole or not at all, what a killed process left is swept, and folder locks end with their process."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from poise.corruptions.corrupt import Making
from poise.corruptions.write import claim
from poise.io.files import held, is_mixed, new_file, new_files, regular, remove_parts, require_writable, try_lock

WRITER = """
import sys, time
from pathlib import Path
from poise.io.files import new_file
with new_file(Path(sys.argv[1], "x")) as stream:
    stream.write(b"half")
    stream.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def test_a_file_that_fails_leaves_nothing_and_is_named(tmp_path: Path) -> None:
    def fill() -> None:
        with new_file(tmp_path / "x") as stream:
            stream.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught:
        fill()
    assert caught.value.filename == str(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    for content in (b"one", b"two"):
        with new_file(tmp_path / "link") as stream:
            stream.write(content)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "there" / "file").read_bytes() == content


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    with new_file(pipe) as stream:
        stream.write(b"through")
    assert reader.communicate(timeout=20)[0] == b"through" and pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/stdout").is_symlink(), reason="no /dev/stdout here")
def test_a_redirected_stream_keeps_what_was_written_before(tmp_path: Path) -> None:
    code = "from pathlib import Path; from poise.io.files import new_file\n"
    code += "with new_file(Path('/dev/stdout')) as s: s.write(b'new')"
    (tmp_path / "out").write_bytes(b"old ")
    with (tmp_path / "out").open("ab") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out").read_bytes() == b"old new"


def test_an_encoder_that_fails_is_named(tmp_path: Path) -> None:
    def fill() -> None:
        with new_file(tmp_path / "x.png"):
            raise OSError("encoder error -2")

    with pytest.raises(OSError, match=r"x\.png: encoder error -2"):
        fill()


def test_two_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    with new_file(tmp_path / "x") as first, new_file(tmp_path / "x") as second:
        first.write(b"first")
        second.write(b"second")
    assert (tmp_path / "x").read_bytes() == b"first"  # it was moved last
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_parts_of_the_dead_are_swept_and_those_of_the_living_kept(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "writing\n"
        remove_parts(tmp_path)
        assert len(list(tmp_path.iterdir())) == 1
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert len(list(tmp_path.iterdir())) == 1
    claim(tmp_path, Making(("fog",)), {})  # a run that was killed before its first file is no stranger
    assert [path.name for path in tmp_path.iterdir()] == ["corruption.json"]


def test_a_run_that_goes_on_sweeps(tmp_path: Path) -> None:
    claim(tmp_path, Making(("fog",)), {})
    (tmp_path / ".poise-0123.part").write_bytes(b"half")
    claim(tmp_path, Making(("fog",)), {})
    assert [path.name for path in tmp_path.iterdir()] == ["corruption.json"]


def test_a_set_appears_together(tmp_path: Path) -> None:
    home = tmp_path / "new" / "set"
    with new_files(home, "index.html") as stage:
        (stage / "1").mkdir()
        for name in ("index.html", "1/a.json"):
            (stage / name).write_text(name)
        assert not (home / "index.html").exists()
    assert sorted(str(path.relative_to(home)) for path in home.rglob("*")) == ["1", "1/a.json", "index.html"]


@pytest.mark.parametrize("there", [True, False])
def test_a_set_that_cannot_be_written_leaves_what_was_there(tmp_path: Path, there: bool) -> None:
    home = tmp_path / "home"
    if there:
        home.mkdir()
        (home / "a").write_text("before")

    def fill() -> None:
        with new_files(home, "b") as stage:
            (stage / "a").write_text("after")
            raise OSError(errno.ENOSPC, "No space left on device", str(stage / "b"))

    with pytest.raises(OSError, match=f"No space left on device: '{home / 'b'}'"):
        fill()
    assert [path.read_text() for path in tmp_path.rglob("a")] == ["before"] * there
    assert home.exists() == there


KILLED = """
import os, sys
from pathlib import Path
from poise.io.files import new_files

left, replace = int(sys.argv[2]), Path.replace

def dying(self, place):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return replace(self, place)

Path.replace = dying
with new_files(Path(sys.argv[1]), "index.html") as stage:
    (stage / "1").mkdir()
    for name in ("a", "index.html", "1/b"):
        (stage / name).write_text("new")
        if left < 0:
            os._exit(9)
"""


def old_set(home: Path) -> Path:
    (home / "1").mkdir(parents=True)
    for name in ("a", "index.html", "1/b"):
        (home / name).write_text("old")
    return home


def contents(home: Path) -> set[str]:
    return {path.read_text() for path in home.rglob("*") if path.is_file()}


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
@pytest.mark.parametrize("moved", [-1, 0, 1, 2])
def test_a_set_is_never_mixed_with_an_older_one(moved: int, tmp_path: Path) -> None:
    """A process is killed while it writes, or after so many moves."""
    home = old_set(tmp_path / "home")
    assert subprocess.run([sys.executable, "-c", KILLED, home, str(moved)]).returncode == 9
    remove_parts(home)
    assert contents(home) == ({"old"} if moved < 0 else {"new"})
    assert sorted(path.name for path in home.iterdir()) == ["1", "a", "index.html"]


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_a_new_set_takes_the_place_of_one_that_could_not_be_moved(tmp_path: Path) -> None:
    home = old_set(tmp_path / "home")
    subprocess.run([sys.executable, "-c", KILLED, home, "1"])
    (home / "index.html").unlink()
    (home / "index.html").mkdir()
    remove_parts(home)
    assert is_mixed(home)
    (home / "index.html").rmdir()
    with new_files(home, "index.html") as stage:
        (stage / "a").write_text("newest")
    assert (home / "a").read_text() == "newest" and not is_mixed(home)
    assert sorted(path.name for path in home.iterdir()) == ["1", "a", "index.html"]


def test_ctrl_c_between_two_moves_comes_after_the_last(tmp_path: Path, monkeypatch) -> None:
    replace, moved = Path.replace, []

    def interrupted(self: Path, place: Path) -> Path:
        moved.append(place.name)
        if len(moved) == 2:
            raise KeyboardInterrupt
        return replace(self, place)

    home = old_set(tmp_path / "home")
    monkeypatch.setattr(Path, "replace", interrupted)

    def fill() -> None:
        with new_files(home, "index.html") as stage:
            (stage / "1").mkdir()
            for name in ("a", "index.html", "1/b"):
                (stage / name).write_text("new")

    with pytest.raises(KeyboardInterrupt):
        fill()
    assert contents(home) == {"new"} and len(list(home.iterdir())) == 3


def test_a_file_that_is_written_again_sweeps_its_folder(tmp_path: Path) -> None:
    (tmp_path / ".poise-0123.part").write_bytes(b"half")
    with new_file(tmp_path / "x") as stream:
        stream.write(b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_cannot_be_written_is_named_and_trying_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError) as failed:
        require_writable(tmp_path / "file" / "below")
    assert failed.value.filename == str(tmp_path / "file" / "below")
    require_writable(tmp_path / "new" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_what_may_never_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name, kind in (("pipe", "a pipe"), ("link", "a pipe"), ("device", "a device"), ("socket", "a socket")):
            with pytest.raises(OSError, match=f"it is {kind}, not a file") as caught:
                regular(tmp_path / name)
            assert caught.value.filename == str(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        regular(tmp_path / "nothing")
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "other").symlink_to("file")
    assert regular(tmp_path / "other").read_bytes() == b"x"


def test_a_folder_is_one_s_alone(tmp_path: Path) -> None:
    with try_lock(tmp_path) as mine, try_lock(tmp_path) as again:
        assert mine and not again
    with try_lock(tmp_path) as mine:
        assert mine


def test_looking_for_a_lock_creates_no_folder_and_takes_none(tmp_path: Path) -> None:
    assert not held(tmp_path / "missing") and not (tmp_path / "missing").exists()
    with try_lock(tmp_path):
        assert held(tmp_path)
    assert not held(tmp_path)


def test_an_attempt_succeeds_while_others_look(tmp_path: Path) -> None:
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            held(tmp_path)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(20):
            with try_lock(tmp_path) as mine:
                assert mine
    finally:
        over.set()
        looking.join()


def _decode(begun: Event) -> None:
    begun.set()
    time.sleep(60)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_decodes_holds_no_folder(tmp_path: Path) -> None:
    """It outlives a run that was killed by some seconds, in which the run is sent again."""
    forking = get_context("fork")
    begun = forking.Event()
    decoder = forking.Process(target=_decode, args=(begun,))
    with try_lock(tmp_path):
        decoder.start()
        assert begun.wait(20)
        with try_lock(tmp_path) as again:
            assert not again  # ours still
    try:
        with try_lock(tmp_path) as mine:
            assert mine and decoder.is_alive()
    finally:
        decoder.kill()
        decoder.join()
