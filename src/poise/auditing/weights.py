"""Weights from a file: safetensors by default, pickles only if the user trusts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch
from torch import Tensor

from poise.auditing.errors import AuditError
from poise.extras import install

_INSIDE = ("state_dict", "model", "model_state_dict", "weights")
_PREFIXES = ("module.", "_orig_mod.")


def load_weights(path: Path, trust: bool) -> dict[str, Tensor]:
    """Tensors by name, without the prefixes that wrappers leave; Poise's own checkpoints give their model."""
    tensors = read_safetensors(path) if path.suffix == ".safetensors" else _from_pickle(path, trust)
    ours = {name.removeprefix("model/"): value for name, value in tensors.items() if name.startswith("model/")}
    tensors = ours or tensors
    for prefix in _PREFIXES:
        if tensors and all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    if not tensors:
        raise AuditError(f"{path} holds no weights")
    return tensors


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file; an AuditError if it is not there, or damaged."""
    try:
        from safetensors.torch import load_file
    except ModuleNotFoundError:
        raise AuditError(f"safetensors is missing: {install('experiments')}") from None
    if not path.is_file():
        raise AuditError(f"{path} is not a file")
    try:
        return load_file(path)
    except Exception as error:  # whatever a damaged file makes a reader raise
        raise AuditError(f"{path} cannot be read as safetensors: {error}") from None


def unpickled(path: Path, trust: bool) -> Any:
    """What a pickle holds; unpickling runs code of the file, so the user must have said that it is trusted."""
    if not path.is_file():
        raise AuditError(f"{path} is not a file")
    with path.open("rb") as stream:
        start = stream.read(2)
    if start != b"PK" and start[:1] != b"\x80":
        raise AuditError(
            f"{path} holds neither weights nor a model: it is neither a safetensors file nor a pickle of torch"
        )
    program = _is_torchscript(path)
    if program and not trust:
        raise AuditError(
            f"{path} is a program of TorchScript, which hides a model's layers: give the Python model that it was made "
            "from, as file.py:function; one that has embed and head can be run with --trust"
        )
    if not trust:
        raise AuditError(f"{path} is a pickle, which can run code: convert it to safetensors, or say --trust")
    try:
        if program:
            return torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
        return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # whatever a damaged file makes a reader raise
        raise AuditError(f"{path} cannot be read: {type(error).__name__}: {error}") from None


def _is_torchscript(path: Path) -> bool:
    """Its archives hold constants beside the data; torch unpickles no Python from them, but what they say is run."""
    try:
        with ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (BadZipFile, OSError):
        return False


def _from_pickle(path: Path, trust: bool) -> dict[str, Tensor]:
    found = unpickled(path, trust)
    for name in _INSIDE:
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
    if hasattr(found, "state_dict"):
        found = found.state_dict()
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise AuditError(f"{path} holds no weights by name")
    return found
