"""Packs: what lies in one file is read as loose files are, whatever happens while it is packed."""

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from fake_records import cifar, mnist, mnist_record, path_of, write_record

from poise.errors import RecordError
from poise.io import documents as packs
from poise.io.documents import PACK, documents, is_there, read_json, text_of, write_json, write_proved
from poise.io.files import wait_lock_alone
from poise.records import packing
from poise.records.packing import pack
from poise.records.schema import Record, load_results, read_record
from poise.reporting.page import page
from poise.reporting.sweep_page import load_sweep, sweep_page
from poise.reporting.table_formats import as_json
from poise.reporting.tables import tables_of


def tables(folder: Path) -> str:
    return as_json([table for results in load_results(folder) for table in tables_of(results)])


def files(folder: Path) -> set[str]:
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name for name in found if not name.endswith(".lock")}


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in gzip.decompress((folder / PACK).read_bytes()).splitlines()]


def write_lines(folder: Path, *held: object) -> None:
    (folder / PACK).write_bytes(gzip.compress(b"".join(json.dumps(each).encode() + b"\n" for each in held)))


def a_sweep(experiment: Path) -> Path:
    """A sweep inside an experiment: two trials of one seed each."""
    home = experiment / "sweeps" / "rate"
    facts = {
        "name": "rate",
        "title": "Rate",
        "method": "XE",
        "choices": {"plan.rate": ["1", "2"]},
        "score": ["validation"],
    }
    write_proved(home / "sweep.json", facts)
    for value in ("1", "2"):
        trial = home / "trials" / f"abc{value}"
        write_proved(trial / "trial.json", {"values": {"plan.rate": value}})
        shutil.copy(experiment / "experiment.json", trial / "experiment.json")
        write_json(trial / "xe" / "seed-00" / "record.json", {**mnist_record("XE", 0), "validation": float(value) / 4})
    return home


def test_tables_and_pages_are_the_same_to_the_last_digit(tmp_path: Path) -> None:
    home, other = mnist(tmp_path, seeds=3), cifar(tmp_path, seeds=2)
    before, looked = tables(tmp_path), page(load_results(tmp_path))
    done = list(pack(tmp_path))
    assert [(each.path, each.documents, each.taken) for each in done] == [(other / PACK, 12, 12), (home / PACK, 9, 9)]
    assert files(tmp_path) == {f"{each.name}/{name}" for each in (home, other) for name in (PACK, "experiment.json")}
    assert (tables(tmp_path), page(load_results(tmp_path))) == (before, looked)


def test_a_sweep_has_one_pack(tmp_path: Path) -> None:
    home = mnist(tmp_path, seeds=2)
    folder = a_sweep(home)
    before, table = sweep_page(load_sweep(folder)), tables(home)
    assert [each.path.parent for each in pack(home)] == [home, folder]
    assert files(folder) == {"sweep.json", PACK} and not (folder / "trials").exists()
    assert [each["file"].split("/", 2)[2] for each in lines(folder)] == 2 * [
        "experiment.json",
        "trial.json",
        "xe/seed-00/record.json",
    ]
    assert (sweep_page(load_sweep(folder)), tables(home)) == (before, table)
    assert load_results(folder / "trials" / "abc1")[0].records[0].validation == 0.25  # no such folder is left
    (folder / "trials").mkdir()
    with pytest.raises(RecordError, match=f"part of a sweep: pack {folder}"):
        list(pack(folder / "trials"))


def test_documents_keep_every_field_and_their_checksums(tmp_path: Path) -> None:
    home = mnist(tmp_path, seeds=1)
    path = home / "fcl" / "seed-05" / "record.json"
    odd = {"a": 0.1 + 0.2, "b": 1e-320, "c": -0.0, "ä\N{SNOWMAN}": 2**70}
    record = Record("synthetic-mnist", "FCL", 5, "r", {"a": 0.1 + 0.2}, log=({"epoch": 1, "loss": {"xe": 1 / 3}},))
    write_record(path, record)
    write_proved(path.with_name("odd.json"), odd)
    loose = {each: read_json(each, "record") for each in home.rglob("seed-*/*.json")}
    list(pack(home))
    assert len(loose) == 5 and {each: read_json(each, "record") for each in loose} == loose
    assert read_record(path) == record and repr(json.loads(text_of(path.with_name("odd.json")))["c"]) == "-0.0"
    held = lines(home)
    for each in held:
        if each["file"] == "fcl/seed-05/record.json":
            each["content"]["scores"]["a"] = 0.3
    write_lines(home, *held)
    with pytest.raises(
        RecordError, match=r"fcl/seed-05/record.json, packed in .*runs.jsonl.gz, is damaged: its content"
    ):
        read_record(path)


def test_the_same_documents_are_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (mnist(tmp_path / name, seeds=2) for name in ("one", "two"))
    list(pack(one))
    monkeypatch.setattr("time.time", lambda: 1e9)
    list(pack(two))
    data = (one / PACK).read_bytes()
    assert data == (two / PACK).read_bytes() and data[4:8] == bytes(4)
    names = [each["file"] for each in lines(one)]
    assert names == sorted(names) and all(each.keys() == {"file", "content"} for each in lines(one))


def test_pandas_reads_a_pack_in_a_line(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    home = mnist(tmp_path, seeds=2)
    list(pack(home))
    found = pandas.read_json(home / PACK, lines=True)
    assert list(found.columns) == ["file", "content"] and len(found) == 6
    assert found.content[0]["method"] == "CL+Gaussian"


def test_weights_figures_and_what_is_not_finished_stay(tmp_path: Path) -> None:
    home = mnist(tmp_path, seeds=1)
    run = home / "fcl" / "seed-00"
    stay = ["fcl/seed-00/model.safetensors", "fcl/seed-00/checkpoint-0020.safetensors", "fcl/seed-00/notes.txt"]
    stay += ["fcl/seed-00/checkpoint-0020.json", "figures/a.json", "fleets/abc/fleet.json", "fcl/seed-07/recipe.json"]
    for name in stay:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("{}")
    (run / "strips.json").write_text("{}")
    (run / "recipe.json").write_text("{}")
    list(pack(home))
    assert files(home) == {*stay, PACK, "experiment.json"}
    assert documents(home, "*/seed-*/strips.json") == [run / "strips.json"] and is_there(run / "recipe.json")


def test_what_is_damaged_stays_and_is_named(tmp_path: Path) -> None:
    home = mnist(tmp_path, seeds=1)
    path = path_of(home, "FCL", 0)
    path.with_name("twice.json").write_text('{"a": 1, "a": 2}')
    path.with_name("list.json").write_text("[]")
    path.with_name("deep.json").write_text("[" * 100_000)
    write_proved(path.with_name("flipped.json"), {"a": 4})
    path.with_name("flipped.json").write_text(path.with_name("flipped.json").read_text().replace("4,", "5,"))
    path.write_bytes(path.read_bytes()[:-9])
    (done,) = pack(home)
    assert {each.name for each in done.damaged} == {
        "record.json",
        "twice.json",
        "list.json",
        "deep.json",
        "flipped.json",
    }
    assert path.exists() and done.documents == 2
    with pytest.raises(RecordError, match=r"record.json is damaged or cut short"):
        load_results(home)


def test_a_loose_file_wins_and_is_merged(tmp_path: Path) -> None:
    home = mnist(tmp_path, seeds=2)
    list(pack(home))
    path = path_of(home, "XE", 1)
    write_json(path, {**mnist_record("XE", 1), "seconds": 77.0})
    write_json(path_of(home, "XE", 2), mnist_record("XE", 2))
    for packed in (False, True):
        (results,) = load_results(home)
        assert results.runs["XE"][1].seconds == 77.0 and len(results.records) == 7
        assert path.exists() != packed
        if not packed:
            (done,) = pack(home)
            assert (done.documents, done.taken) == (7, 2)
    (done,) = pack(home)
    assert (done.documents, done.taken) == (7, 0)


@pytest.mark.parametrize("place", ["_write", "_compare", "_remove", "second _remove"])
def test_killed_at_any_place_it_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    home = mnist(tmp_path, seeds=2)
    before, name, calls = tables(home), place.split()[-1], []
    real = getattr(packing, name)

    def killed(*given: object) -> None:
        calls.append(given)
        if len(calls) == place.count("second") + 1:
            raise KeyboardInterrupt
        real(*given)

    monkeypatch.setattr(packing, name, killed)
    with pytest.raises(KeyboardInterrupt):
        list(pack(home))
    loose = len(list(home.rglob("record.json")))
    assert loose == 6 - place.count("second") and tables(home) == before
    monkeypatch.undo()
    list(pack(home))
    assert files(home) == {"experiment.json", PACK} and tables(home) == before


def test_a_disk_that_writes_other_bytes_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = mnist(tmp_path, seeds=2)
    real = packing._write
    monkeypatch.setattr(
        packing, "_write", lambda path, held: real(path, {**held, "xe/seed-00/record.json": b'{"a": 1}'})
    )
    with pytest.raises(RecordError, match="reads back with other content: check the disk; no file was removed"):
        list(pack(home))
    assert len(list(home.rglob("record.json"))) == 6


def test_a_file_that_changes_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = mnist(tmp_path, seeds=2)
    path, real = path_of(home, "XE", 1), packing._compare

    def compare(*given: object) -> None:
        real(*given)
        write_json(path, {**mnist_record("XE", 1), "seconds": 77.0})

    monkeypatch.setattr(packing, "_compare", compare)
    list(pack(home))
    assert path.exists() and load_results(home)[0].runs["XE"][1].seconds == 77.0


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    return data[:700] + bytes([data[700] ^ 4]) + data[701:]


@pytest.mark.parametrize("harm", [cut, flipped, lambda data: b"", lambda data: data + b"x", lambda data: b"\0" * 50])
def test_a_damaged_pack_is_named_in_a_sentence(tmp_path: Path, harm: Callable[[bytes], bytes]) -> None:
    home = mnist(tmp_path, seeds=2)
    list(pack(home))
    (home / PACK).write_bytes(harm((home / PACK).read_bytes()))
    for read in (load_results, lambda home: list(pack(home)), lambda home: read_record(path_of(home, "XE", 0))):
        with pytest.raises(RecordError, match=r"runs.jsonl.gz .*(damaged|cut short)") as error:
            read(home)
        assert "\n" not in str(error.value)


RECORD = {"version": 1}


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([{"file": "../../record.json", "content": RECORD}], "an invalid name"),
        ([{"file": "/etc/record.json", "content": RECORD}], "an invalid name"),
        ([{"file": "a/./record.json", "content": RECORD}], "an invalid name"),
        ([{"file": "a\\..\\record.json", "content": RECORD}], "an invalid name"),
        ([{"file": "C:/record.json", "content": RECORD}], "an invalid name"),
        ([{"file": "a/\x1b[2J/record.json", "content": RECORD}], "an invalid name"),
        ([{"file": "a/" * 600 + "record.json", "content": RECORD}], "an invalid name"),
        ([{"file": "", "content": RECORD}], "an invalid name"),
        ([{"file": "record.py", "content": RECORD}], "an invalid name"),
        ([{"file": 3, "content": RECORD}], "an invalid name"),
        (2 * [{"file": "xe/record.json", "content": RECORD}], "twice"),
        ([{"file": "xe/record.json", "content": []}], "not an object with file and content"),
        ([{"file": "xe/record.json", "content": {}, "more": 1}], "not an object with file and content"),
        ([["xe/record.json", {}]], "not an object with file and content"),
    ],
)
def test_hostile_packs_are_refused(tmp_path: Path, held: list[object], said: str) -> None:
    home = mnist(tmp_path, seeds=1)
    write_lines(home, *held)
    with pytest.raises(RecordError, match=rf"runs.jsonl.gz is damaged or not a Poise pack: .*{said}") as error:
        load_results(home)
    assert str(error.value).isprintable() and len(str(error.value)) < 600


def test_bombs_are_left_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = mnist(tmp_path, seeds=1)
    (home / PACK).write_bytes(gzip.compress(b"0" * (packs.MOST_PER_LINE + 1)))
    with pytest.raises(RecordError, match="a line of more than 16 MiB"):
        load_results(home)
    monkeypatch.setattr(packs, "MOST", 2**20)
    (home / PACK).write_bytes(gzip.compress(b'{"file": "a.json", "content": {}}\n' * 40_000))
    with pytest.raises(RecordError, match="twice"):
        load_results(home)
    write_lines(home, *({"file": f"{number}.json", "content": {"a": "x" * 1000}} for number in range(2000)))
    with pytest.raises(RecordError, match="unpacks to more than 1 MiB"):
        load_results(home)
    (home / PACK).write_bytes(gzip.compress(b'{"file": "a.json", "content": ' + b"[" * 100_000))
    with pytest.raises(RecordError, match="is damaged or not a Poise pack"):
        load_results(home)


def test_a_pipe_or_a_folder_in_its_place(tmp_path: Path) -> None:
    home = mnist(tmp_path, seeds=1)
    os.mkfifo(home / PACK)
    with pytest.raises(RecordError, match="cannot be read: it is a pipe"):
        load_results(home)
    (home / PACK).unlink()
    (home / PACK).mkdir()
    with pytest.raises(RecordError, match="cannot be read: Is a directory"):
        load_results(home)


def test_a_pack_counts_beside_its_experiment_only(tmp_path: Path) -> None:
    home = mnist(tmp_path, seeds=1)
    (tmp_path / PACK).write_bytes(b"of somebody else")
    list(pack(home))
    assert len(load_results(tmp_path)[0].records) == 3
    (home / "experiment.json").unlink()
    with pytest.raises(RecordError, match=r"holds no experiment.json"):
        load_results(tmp_path)


def test_a_pack_is_read_once_while_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, opened, real = mnist(tmp_path, seeds=2), [], gzip.open
    list(pack(home))
    monkeypatch.setattr(gzip, "open", lambda stream: opened.append(1) or real(stream))
    packs._read.cache_clear()
    packs._names.cache_clear()
    load_results(home)
    load_results(home)
    assert len(opened) == 1
    write_lines(home, *lines(home)[:2])
    assert len(load_results(home)[0].records) == 2 and len(opened) == 2


def test_names_are_found_from_inside_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = mnist(tmp_path, seeds=1)
    run = home / "fcl" / "seed-00"
    (run / "model.safetensors").write_text("")
    list(pack(home))
    monkeypatch.chdir(run)
    assert is_there(Path("record.json")) and read_record(Path("../seed-00/record.json")).method == "FCL"
    assert documents(Path(), "*.json") == [Path("record.json")]


def test_a_folder_without_experiments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"has no experiment.json, sweep.json or published.json"):
        list(pack(tmp_path))
    with pytest.raises(RecordError, match="is not there"):
        list(pack(tmp_path / "none"))
    home = mnist(tmp_path, seeds=0)
    (done,) = pack(home)
    assert done.documents == 0 and not done.path.exists()


@pytest.mark.torch
def test_a_run_that_a_process_is_at_stays(tmp_path: Path) -> None:
    from poise.io.files import try_lock

    home = mnist(tmp_path, seeds=2)
    path = path_of(home, "XE", 1)
    with try_lock(path.parent):
        (done,) = pack(home)
    assert done.documents == 5 and path.exists() and len(load_results(home)[0].records) == 6


def test_one_process_packs_after_the_other(tmp_path: Path) -> None:
    home, done = mnist(tmp_path, seeds=2), []
    other = Thread(target=lambda: done.extend(pack(home)))
    with wait_lock_alone(home):
        other.start()
        other.join(0.2)
        assert other.is_alive() and len(list(home.rglob("record.json"))) == 6
    other.join()
    assert done[0].documents == 6
