"""Poise's own checkpoints: tensors in safetensors, the network in the recipe of the run beside them."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from poise.auditing.errors import AuditError
from poise.auditing.weights import load_weights
from poise.models.lenet import LeNet
from poise.models.resnet import ResNet, resnet56
from poise.models.resnet_v2 import ResNetV2, resnet_v2_50
from poise.models.transformer import Transformer

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    each.__name__: each for each in (LeNet, ResNet, resnet56, ResNetV2, resnet_v2_50, Transformer)
}


def poise_model(path: Path, network: str | None) -> nn.Module:
    """The network of a checkpoint, or of the newest one in the folder of a run."""
    found = sorted(path.glob("checkpoint-*.safetensors")) if path.is_dir() else [path]
    if not found:
        raise AuditError(f"{path} has neither config.json (Hugging Face) nor checkpoint-*.safetensors (Poise)")
    model = build(network or _recipe(found[-1]))
    try:
        model.load_state_dict(load_weights(found[-1], trust=False))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise AuditError(f"{found[-1]} holds the weights of another network: {reason}") from None
    return model


def build(network: str) -> nn.Module:
    """A network of Poise from its words, such as "LeNet(num_classes=15)"; only literals are read."""
    known = ", ".join(NETWORKS)
    try:
        call = ast.parse(network, mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        settings = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        values = [ast.literal_eval(value) for value in call.args]
        make = NETWORKS[call.func.id]
    except (SyntaxError, ValueError, AssertionError, KeyError):
        raise AuditError(f"{network!r} is no network: write it as LeNet(num_classes=10); there are {known}") from None
    try:
        return make(*values, **settings)
    except (TypeError, ValueError) as error:
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
    raise AuditError(f"no recipe beside {checkpoint} names its network: say --network 'LeNet(num_classes=10)'")
