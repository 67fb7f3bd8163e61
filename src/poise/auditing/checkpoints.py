"""Poise's own checkpoints and kept models: tensors in safetensors, the network in the file's header or, of a
checkpoint, in the recipe of the run beside it."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from torch import nn

from poise.auditing.errors import AuditError
from poise.auditing.weights import load_weights
from poise.models.saved import NETWORKS, network_in


def poise_model(path: Path, network: str | None) -> nn.Module:
    """The network of a file, or of the kept model or newest checkpoint in the folder of a run."""
    file = _newest(path) if path.is_dir() else path
    weights = load_weights(file, trust=False)
    try:
        model = build(network or network_in(file) or _recipe(file))
    except AuditError as error:
        raise error if network else AuditError(f"{file}: {error}") from None
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise AuditError(f"{file} holds the weights of another network: {reason}") from None
    return model


def _newest(run: Path) -> Path:
    found = [*sorted(run.glob("checkpoint-*.safetensors")), *run.glob("model.safetensors")]
    if not found:
        raise AuditError(
            f"{run} has neither config.json (Hugging Face) nor model.safetensors or checkpoint-*.safetensors (Poise)"
        )
    return found[-1]


def build(network: str) -> nn.Module:
    """A network of Poise from its words, such as "LeNet(num_classes=15)"; only literals are read."""
    known = ", ".join(NETWORKS)
    invalid = AuditError(f"invalid network {network!r}: write it as LeNet(num_classes=10); there are {known}")
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
            recipe: Any = json.loads((checkpoint.parent / name).read_text())["recipe"]
            tree = ast.parse(recipe, mode="eval").body
        except (OSError, ValueError, KeyError, TypeError, SyntaxError):
            continue
        for word in tree.keywords if isinstance(tree, ast.Call) else []:
            if word.arg == "network":
                return ast.unparse(word.value)
    example = "--network 'resnet56(num_classes=10)'"
    raise AuditError(f"neither it nor a recipe beside it names its network: give it, such as {example}")
