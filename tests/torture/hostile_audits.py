"""What may do harm to `poise audit`: {name: what makes it in a folder, and returns the words after `audit`}."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data_sets import npy, png, write_folder
from safetensors.torch import save
from torture.hostile_files import POSTSCRIPT, Bomb, announced, npz_bytes, wide

Words = tuple[object, ...]
Maker = Callable[[Path], Words]
_NETWORK = "nets.py:network"
_PLAIN = {"x": np.zeros((30, 20, 20, 3), np.uint8), "y": np.arange(30) % 3}
_PICTURE = png(np.zeros((20, 20, 3), np.uint8))
_TSV = b"text\tlabel\n" + b"good film\t1\nbad film\t0\n" * 20
_LONG = struct.pack("<Q", 2**62) + b"{}"


def _npz(**arrays: Any) -> Maker:
    """Arrays instead of good ones, or beside them."""
    return _data("a.npz", lambda home: npz_bytes(**{**_PLAIN, **arrays}))


def _data(name: str, content: Callable[[Path], bytes], *words: object) -> Maker:
    def make(home: Path) -> Words:
        (home / name).write_bytes(content(home))
        return (_NETWORK, "--data", name, *words)

    return make


def _beside(option: str, name: str, content: Callable[[Path], bytes]) -> Maker:
    """Good data, and another file that is not."""

    def make(home: Path) -> Words:
        write_folder({"a.npz": npz_bytes(**_PLAIN), name: content(home)}, home)
        return (_NETWORK, "--data", "a.npz", option, name)

    return make


def _labels(content: Callable[[Path], bytes]) -> Maker:
    def make(home: Path) -> Words:
        write_folder({"a.npy": npy(_PLAIN["x"]), "b.npy": content(home)}, home)
        return (_NETWORK, "--data", "a.npy", "--labels", "b.npy")

    return make


def _texts(name: str, content: bytes) -> Maker:
    return _data(name, lambda home: content, "--tokenizer", "vocab.txt")


def _photos(files: dict[str, bytes]) -> Maker:
    def make(home: Path) -> Words:
        good = {f"photos/{name}/{n}.png": _PICTURE for name in "abc" for n in range(5)}
        write_folder({**good, **{f"photos/{name}": content for name, content in files.items()}}, home)
        return (_NETWORK, "--data", "photos")

    return make


def _odd_photo(put: Callable[[Path], None]) -> Maker:
    def make(home: Path) -> Words:
        words = _photos({})(home)
        put(home / "photos" / "a" / "9.png")
        return words

    return make


def _model(name: str, content: Callable[[Path], bytes], *words: object) -> Maker:
    """A model that is a file; good data."""

    def make(home: Path) -> Words:
        write_folder({"a.npz": npz_bytes(**_PLAIN), name: content(home)}, home)
        return (name, "--data", "a.npz", *words)

    return make


def _checkpoint(recipe: str, *words: object) -> Maker:
    def make(home: Path) -> Words:
        files = {"run/checkpoint-0001.safetensors": save({"model/a": torch.ones(1)})}
        write_folder({**files, "run/recipe.json": json.dumps({"recipe": recipe}).encode()}, home)
        return (*_model("b", lambda home: b"")(home)[1:], "run", *words)

    return make


def _piped(home: Path) -> Words:
    (home / "run").mkdir()
    os.mkfifo(home / "run" / "checkpoint-0001.safetensors")
    os.mkfifo(home / "run" / "checkpoint-0001.json")
    return ("run", *_model("b", lambda home: b"")(home)[1:], "--network", "LeNet(3)")


def _pickle(home: Path) -> bytes:
    torch.save(Bomb(home), home / "bomb")
    return (home / "bomb").read_bytes()


def _header(network: str) -> bytes:
    return save({"a": torch.ones(1)}, {"poise": json.dumps({"network": network, "settings": {}})})


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _shell(home: Path) -> str:
    return f"__import__('pathlib').Path({str(home / 'ran')!r}).touch()"


AUDITS: dict[str, Maker] = {
    "npz of objects": lambda home: _npz(site=np.array([Bomb(home)] * 30))(home),
    "npz with odd labels": _npz(y=np.arange(30) * 1.5),
    "npz with labels below zero": _npz(y=-np.arange(30)),
    "npz with a label of a billion": _npz(y=np.array([10**9] * 30)),
    "npz with the largest label": _npz(y=np.array([2**63 - 1] * 30)),
    "npz without values": _npz(x=np.zeros((0, 20, 20, 3), np.uint8), y=np.zeros(0, int)),
    "npz without axes": _npz(x=np.uint8(1), y=np.uint8(1)),
    "npz of texts": _npz(x=np.array(["a"] * 30)),
    "npz of dates": _npz(x=np.array(["2020-01-01"] * 30, "M8[D]")),
    "npz of complex numbers": _npz(x=np.zeros((30, 1200), complex)),
    "npz of nan": _npz(x=np.full((30, 20, 20, 3), np.nan, np.float32)),
    "npz of pictures without size": _npz(x=np.zeros((30, 0, 0, 3), np.uint8)),
    "npz with odd utility": _npz(utility=np.full((30, 20, 20, 3), np.inf)),
    "npz with odd names": _npz(**{"../../ran": np.arange(30), "[/red]": np.arange(30), "=1+1": np.arange(30)}),
    "npz with a column of escapes": _npz(site=np.array(["\x1b[2J", "<script>", "=cmd()"] * 10)),
    "npz cut": _data("a.npz", lambda home: _cut(npz_bytes(**_PLAIN))),
    "npz of text": _data("a.npz", lambda home: b"hello"),
    "npz empty": _data("a.npz", lambda home: b""),
    "npy that announces": _data("a.npy", lambda home: announced((2**50, 20, 20, 3)), "--labels", "a.npy"),
    "npy of objects": _data("a.npy", lambda home: npy(np.array([Bomb(home)] * 30)), "--labels", "a.npy"),
    "npy with a flipped header": _data(
        "a.npy", lambda home: npy(_PLAIN["x"]).replace(b"'descr'", b"'descr("), "--labels", "a.npy"
    ),
    "labels of objects": _labels(lambda home: npy(np.array([Bomb(home)] * 30))),
    "labels cut": _labels(lambda home: npy(np.arange(30))[:60]),
    "labels of text": _labels(lambda home: b"1\n2\n3\n"),
    "sentences without rows": _texts("a.tsv", b"text\tlabel\n"),
    "sentences with nothing": _texts("a.tsv", b""),
    "sentences of zeros": _texts("a.tsv", b"text\tlabel\n" + bytes(1000)),
    "sentences of other bytes": _texts("a.csv", b"text,label\n\xff\xfe,1\n"),
    "sentences in a quote": _texts("a.csv", b'text,label\n"a,1\n' * 100),
    "sentences of a megabyte": _texts("a.tsv", b"text\tlabel\n" + b"a" * 2**20 + b"\t1\nb\t0\n"),
    "sentences that nest": _texts("a.jsonl", b'{"text": ' + b"[" * 100_000 + b"\n"),
    "sentences of numbers": _texts("a.jsonl", b'{"text": 1, "label": {}}\n' * 20),
    "sentences of lists": _texts("a.jsonl", b"[1]\n" * 20),
    "sentences with odd labels": _texts("a.jsonl", b'{"text": "a", "label": 1e999}\n' * 20),
    "a tokenizer of text": _beside("--tokenizer", "tokenizer.json", lambda home: b"hello"),
    "a tokenizer for sentences": lambda home: (
        *_data("a.tsv", lambda home: _TSV)(home),
        "--tokenizer",
        write_folder({"b/tokenizer.json": b'{"model": {"type": "?"}}'}, home) / "b" / "tokenizer.json",
    ),
    "classes of other bytes": _beside("--classes", "classes.txt", lambda home: bytes(range(256))),
    "metadata of other bytes": _beside("--metadata", "rows.csv", lambda home: bytes(range(256))),
    "metadata with formulas": _beside("--metadata", "rows.csv", lambda home: b"a\n" + b"=cmd()\n" * 30),
    "an audit of text beside": _beside("--beside", "b/audit.json", lambda home: b"hello"),
    "pictures of PostScript": _photos({f"a/{n}.png": POSTSCRIPT for n in range(9)}),
    "pictures cut": _photos({"a/8.png": _cut(_PICTURE), "b/8.png": b""}),
    "pictures that announce": _photos({"a/8.png": wide(_PICTURE, 60_000)}),
    "pictures of one class": _photos({"d/x.txt": b""}),
    "a pipe as a picture": _odd_photo(os.mkfifo),
    "zeros as a picture": _odd_photo(lambda place: place.symlink_to("/dev/zero")),
    "a circle of pictures": _odd_photo(lambda place: place.symlink_to(place)),
    "zeros as data": lambda home: (_NETWORK, "--data", "/dev/zero"),
    "a pickle as model": _model("m.pt", _pickle),
    "a pickle called safetensors": _model("m.safetensors", _pickle),
    "a pickle called otherwise": _model("m.bin", _pickle),
    "safetensors with a long header": _model("m.safetensors", lambda home: _LONG),
    "safetensors cut": _model("m.safetensors", lambda home: _cut(save({"a": torch.ones(99)}))),
    "safetensors that name a network": _model("m.safetensors", lambda home: _header("os.system")),
    "safetensors that lack theirs": _model("m.safetensors", lambda home: _header("LeNet")),
    "weights that are a pickle": lambda home: (
        *_data("a.npz", lambda home: npz_bytes(**_PLAIN))(home),
        "--weights",
        _model("w.pt", _pickle)(home)[0],
    ),
    "a recipe with code": lambda home: _checkpoint(f"Recipe(network={_shell(home)})")(home),
    "a recipe in a recipe": lambda home: _checkpoint(f"Recipe(network=LeNet({_shell(home)}))")(home),
    "a recipe that nests": _checkpoint("Recipe(network=" + "(" * 5000 + ")" * 5000),
    "a recipe of a huge network": _checkpoint("Recipe(network=LeNet(num_classes=10**12))"),
    "a network with code": lambda home: _checkpoint("", "--network", _shell(home))(home),
    "a pipe as checkpoint": _piped,
}
