"""Small sets in every layout, and an HTTP server on loopback that can misbehave."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import pickle
import tarfile
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from poise.corruptions.protocols import CORRUPTIONS
from poise.data.sets import cache, catalogue
from poise.data.sets.catalogue import DataSet, corrupted

NOWHERE = "http://127.0.0.1:9"


def digits(train: int = 60, test: int = 20) -> dict[str, np.ndarray]:
    """MNIST in small: 5/6 of the training images are "train" in the pickle, the rest "validation"."""
    generator = np.random.default_rng(0)
    return {
        "train_x": generator.integers(0, 256, (train, 28, 28), dtype=np.uint8),
        "train_y": generator.integers(0, 10, train, dtype=np.uint8),
        "test_x": generator.integers(0, 256, (test, 28, 28), dtype=np.uint8),
        "test_y": generator.integers(0, 10, test, dtype=np.uint8),
    }


def pictures(train: int = 50, test: int = 10, classes: int = 10) -> dict[str, np.ndarray]:
    """CIFAR in small, every class present in both parts."""
    generator = np.random.default_rng(1)
    return {
        "train_x": generator.integers(0, 256, (train, 32, 32, 3), dtype=np.uint8),
        "train_y": (np.arange(train) % classes).astype(np.uint8),
        "test_x": generator.integers(0, 256, (test, 32, 32, 3), dtype=np.uint8),
        "test_y": (np.arange(test) % classes).astype(np.uint8),
    }


def idx_bytes(array: np.ndarray) -> bytes:
    shape = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return b"\x00\x00\x08" + bytes([array.ndim]) + shape + array.tobytes()


def idx_files(arrays: dict[str, np.ndarray], zipped: bool = True, mark: str = "-") -> dict[str, bytes]:
    names = {"train_x": "train-images", "train_y": "train-labels", "test_x": "t10k-images", "test_y": "t10k-labels"}
    files = {}
    for key, stem in names.items():
        name = f"{stem}{mark}idx{3 if key[-1] == 'x' else 1}-ubyte"
        data = idx_bytes(arrays[key])
        files[name + (".gz" if zipped else "")] = gzip.compress(data) if zipped else data
    return files


def mnist_pickle_file(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    def part(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (x.reshape(len(x), -1) / 256).astype(np.float32), y.astype(np.int64)

    cut = len(arrays["train_y"]) * 5 // 6
    train_x, train_y = arrays["train_x"], arrays["train_y"]
    parts = (
        part(train_x[:cut], train_y[:cut]),
        part(train_x[cut:], train_y[cut:]),
        part(arrays["test_x"], arrays["test_y"]),
    )
    return {"mnist/data/mnist.pkl.gz": gzip.compress(pickle.dumps(parts))}


def keras_file(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    buffer = io.BytesIO()
    np.savez(buffer, **{f"{key[-1]}_{key[:-2]}": value for key, value in arrays.items()})
    return {"mnist.npz": buffer.getvalue()}


def flat(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)


def cifar10_pickles(arrays: dict[str, np.ndarray], folder: str = "cifar-10-batches-py/") -> dict[str, bytes]:
    def batch(x: np.ndarray, y: np.ndarray) -> bytes:
        return pickle.dumps({b"data": flat(x), b"labels": y.tolist(), b"batch_label": b"a batch"}, protocol=2)

    xs, ys = np.split(arrays["train_x"], 5), np.split(arrays["train_y"], 5)
    files = {f"{folder}data_batch_{i + 1}": batch(x, y) for i, (x, y) in enumerate(zip(xs, ys, strict=True))}
    return {**files, f"{folder}test_batch": batch(arrays["test_x"], arrays["test_y"])}


def cifar10_binaries(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    rows = lambda x, y: np.concatenate([y[:, None], flat(x)], axis=1).tobytes()  # noqa: E731
    xs, ys = np.split(arrays["train_x"], 5), np.split(arrays["train_y"], 5)
    files = {f"data_batch_{i + 1}.bin": rows(x, y) for i, (x, y) in enumerate(zip(xs, ys, strict=True))}
    return {**files, "test_batch.bin": rows(arrays["test_x"], arrays["test_y"])}


def cifar100_binaries(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    """A coarse label, which is no part of the set, then the fine one."""

    def rows(x: np.ndarray, y: np.ndarray) -> bytes:
        return np.concatenate([(y[:, None] + 7) % 20, y[:, None], flat(x)], axis=1).astype(np.uint8).tobytes()

    return {f"{part}.bin": rows(arrays[f"{part}_x"], arrays[f"{part}_y"]) for part in ("train", "test")}


def cifar10_sheets(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    files = {
        f"package/data_batch_{i + 1}.png": png(x.reshape(len(x), 1024, 3))
        for i, x in enumerate(np.split(arrays["train_x"], 5))
    }
    files["package/test_batch.png"] = png(arrays["test_x"].reshape(-1, 1024, 3))
    for part in ("train", "test"):
        files[f"package/{part}_lables.json"] = json.dumps(arrays[f"{part}_y"].tolist()).encode()
    return files


def cifar100_pickles(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {
        f"cifar-100-python/{part}": pickle.dumps(
            {b"data": flat(arrays[f"{part}_x"]), b"fine_labels": arrays[f"{part}_y"].tolist(), b"coarse_labels": []},
            protocol=2,
        )
        for part in ("train", "test")
    }


def corrupted_files(folder: str = "CIFAR-10-C", num_classes: int = 10, **changes: np.ndarray) -> dict[str, bytes]:
    """CIFAR-10-C with 20 pictures instead of 10,000."""
    arrays = {name: np.full((100, 32, 32, 3), n, np.uint8) for n, name in enumerate(CORRUPTIONS)}
    arrays["labels"] = np.tile(np.arange(num_classes), 100 // num_classes)
    return {f"{folder}/{name}.npy": npy(array) for name, array in {**arrays, **changes}.items()}


def png_folders(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {
        f"set/{part}/class{label:03d}/{i:05d}.png": png(image)
        for part in ("train", "test")
        for i, (image, label) in enumerate(zip(arrays[f"{part}_x"], arrays[f"{part}_y"], strict=True))
    }


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def png(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


def offer(monkeypatch: Any, data_set: DataSet, items: dict[str, Any], **changes: object) -> None:
    """A small set under a real one's name, which is nowhere to be had; its archives keep their names."""
    addresses = tuple(tuple(f"{NOWHERE}/{a.rpartition('/')[2]}" for a in way) for way in data_set.addresses)
    digests = {name: cache.digest(value) for name, value in items.items()}
    ways = {"addresses": addresses, "packages": (), "md5": None, "digests": digests, "require": None}
    monkeypatch.setitem(catalogue.CATALOGUE, data_set.name, dataclasses.replace(data_set, **{**ways, **changes}))


def offer_corrupted(monkeypatch: Any, md5: str | None = None) -> None:
    """CIFAR-10-C of that size."""
    read = corrupted(10, num_images=20)
    offer(monkeypatch, catalogue.CIFAR10_C, {}, md5=md5, read=read, require=catalogue.CIFAR10_C.require)


def write_folder(files: dict[str, bytes], folder: Path) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def tar_bytes(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zip_bytes(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


class Server:
    """Answers on loopback; `bodies` are its files, and the sets below say how it misbehaves with each."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.types: dict[str, str] = {}
        self.redirects: dict[str, str] = {}
        self.cut_once: set[str] = set()
        self.stall: set[str] = set()
        self.whole_only: set[str] = set()
        self.slow: set[str] = set()
        self.failures: dict[str, list[int]] = {}
        self.retry_after: dict[str, str] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *arguments: object) -> None:
                """Nothing is logged."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *arguments: None  # clients that hang up are part of the tests
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path, wanted = handler.path, handler.headers.get("Range")
        self.requests.append((path, wanted))
        wanted = None if path in self.whole_only else wanted
        if path in self.redirects:
            handler.send_response(302)
            handler.send_header("Location", self.redirects[path])
            handler.end_headers()
            return
        if self.failures.get(path):
            self.fail(handler, self.failures[path].pop(0))
            return
        if path not in self.bodies:
            handler.send_error(404)
            return
        body, start = self.bodies[path], int(wanted.split("=")[1].rstrip("-")) if wanted else 0
        handler.send_response(206 if wanted else 200)
        handler.send_header("Content-Type", self.types.get(path, "application/octet-stream"))
        handler.send_header("Content-Length", str(len(body) - start))
        handler.end_headers()
        if path in self.stall:
            handler.wfile.write(body[start : start + 10])
            handler.wfile.flush()
            self.over.wait(60)
        elif path in self.cut_once:
            self.cut_once.discard(path)
            handler.wfile.write(body[start : start + len(body) // 2])
        elif path in self.slow:
            for begin in range(start, len(body), len(body) // 10):
                handler.wfile.write(body[begin : begin + len(body) // 10])
                time.sleep(0.15)
        else:
            handler.wfile.write(body[start:])

    def fail(self, handler: BaseHTTPRequestHandler, code: int) -> None:
        handler.send_response(code)
        if handler.path in self.retry_after:
            handler.send_header("Retry-After", self.retry_after[handler.path])
        handler.send_header("Content-Length", "0")
        handler.end_headers()
