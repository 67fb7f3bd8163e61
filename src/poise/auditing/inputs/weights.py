"""Weights of an audit's models: safetensors, pickles that the user trusts, and Poise's own checkpoints.

The network of a checkpoint is named in the file's header, or in the recipe of the run beside it.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch
from torch import Tensor, nn

from poise.checks import install
from poise.errors import AuditError
from poise.io.json_files import is_proved
from poise.io.packs import text_of
from poise.models.saved import NETWORKS, network_in

_INSIDE = ("state_dict", "model", "model_state_dict", "weights")
_PREFIXES = ("module.", "_orig_mod.")


def load_weights(path: Path, trust: bool) -> dict[str, Tensor]:
    """Tensors by name, without the prefixes of wrappers; from a Poise checkpoint, those of its model."""
    tensors = read_safetensors(path) if path.suffix == ".safetensors" else _from_pickle(path, trust)
    ours = {name.removeprefix("model/"): value for name, value in tensors.items() if name.startswith("model/")}
    tensors = ours or tensors
    for prefix in _PREFIXES:
        if tensors and all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    if not tensors:
        raise AuditError(f"{path} contains no weights")
    return tensors


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file; AuditError if it is missing or damaged."""
    try:
        from safetensors.torch import load_file
    except ModuleNotFoundError:
        raise AuditError(f"safetensors is missing: {install('experiments')}") from None
    if not path.is_file():
        raise AuditError(f"{path} is not a file")
    try:
        return load_file(path)
    except Exception as error:  # any error on a damaged file
        raise AuditError(f"{path} cannot be read as safetensors: {error}") from None


def unpickled(path: Path, trust: bool) -> Any:
    """The content of a pickle. Unpickling can run code, so it needs --trust."""
    if not path.is_file():
        raise AuditError(f"{path} is not a file")
    with path.open("rb") as stream:
        start = stream.read(2)
    if start != b"PK" and start[:1] != b"\x80":
        raise AuditError(
            f"{path} contains neither weights nor a model: it must be a safetensors file or a pickle of torch"
        )
    program = _is_torchscript(path)
    if program and not trust:
        raise AuditError(
            f"{path} is a TorchScript program, which hides the layers of its model: pass the original Python model as "
            "file.py:function. If the program has methods embed and head, add --trust to run it"
        )
    if not trust:
        raise AuditError(f"{path} is a pickle, which can run code: convert it to safetensors, or add --trust")
    try:
        if program:
            return torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
        return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # any error on a damaged file
        raise AuditError(f"{path} cannot be read: {type(error).__name__}: {error}") from None


def _is_torchscript(path: Path) -> bool:
    """Whether a file is a TorchScript archive, which has constants beside its data. Loading it can run code."""
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
        raise AuditError(f"{path} contains no weights by name")
    return found


def poise_model(path: Path, network: str | None) -> nn.Module:
    """The network of a file, or of the saved model or newest checkpoint in the folder of a run."""
    file = _newest(path) if path.is_dir() else path
    weights = load_weights(file, trust=False)
    _prove(file)
    try:
        model = build(network or network_in(file) or _recipe(file))
    except AuditError as error:
        raise error if network else AuditError(f"{file}: {error}") from None
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise AuditError(f"{file} contains the weights of another network: {reason}") from None
    return model


def _newest(run: Path) -> Path:
    every = sorted(run.glob("checkpoint-*.safetensors"))
    whole = [path for path in every if path.with_suffix(".json").exists()]  # the JSON is written last
    found = [*(whole or every), *run.glob("model.safetensors")]
    if not found:
        raise AuditError(
            f"{run} has neither config.json (Hugging Face) nor model.safetensors or checkpoint-*.safetensors (Poise)"
        )
    return found[-1]


def _prove(file: Path) -> None:
    """Raise AuditError if the JSON beside a checkpoint is damaged, or does not match its tensors."""
    facts = file.with_suffix(".json")
    if not file.name.startswith("checkpoint-") or not facts.exists():
        return
    from poise.errors import TrainingError
    from poise.training.checkpoint import read

    try:
        read(facts)
    except TrainingError as error:
        raise AuditError(f"{error}: use the previous checkpoint, or run the experiment again") from None


def build(network: str) -> nn.Module:
    """A Poise network from a string such as "LeNet(num_classes=15)"; arguments must be literals."""
    known = ", ".join(NETWORKS)
    invalid = AuditError(f"invalid network {network!r}: write it as LeNet(num_classes=10); choose one of {known}")
    try:
        call = ast.parse(network, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise invalid
        settings = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        values = [ast.literal_eval(value) for value in call.args]
        make = NETWORKS[call.func.id]
    except (SyntaxError, ValueError, KeyError):
        raise invalid from None
    try:
        return make(*values, **settings)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AuditError(f"{network!r} cannot be built: {error}") from None


def _recipe(checkpoint: Path) -> str:
    """The network in the recipe of the run that wrote the checkpoint."""
    for name in ("record.json", "recipe.json"):
        try:
            content: Any = json.loads(text_of(checkpoint.parent / name))
            tree = ast.parse(content["recipe"] if is_proved(content) else "", mode="eval").body
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SyntaxError, RecursionError):
            continue
        for word in tree.keywords if isinstance(tree, ast.Call) else []:
            if word.arg == "network":
                return ast.unparse(word.value)
    example = "--network 'resnet56(num_classes=10)'"
    raise AuditError(f"neither the file nor a recipe beside it names the network: add it, such as {example}")
