"""Trained networks in safetensors files: weights in half precision, and how to build the network.

    poise.save_model(model, path, "resnet56", num_classes=10)
    model = poise.load_model(path)    # or the folder of a run, or of `poise export`, that holds model.safetensors

Batch-norm statistics keep their precision, since a small variance would round to 0. The header names one of NETWORKS
and its settings; loading neither unpickles nor executes anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from poise.classifier import as_device
from poise.io.files import new_file
from poise.models.lenet import LeNet
from poise.models.resnet import ResNet, ResNetV2, resnet56, resnet_v2_50
from poise.models.transformer import Transformer

WEIGHTS = "model.safetensors"  # in the folder of a run, and in one of `poise export`
CONFIG = "config.json"
NETWORKS: dict[str, Callable[..., nn.Module]] = {
    network.__name__: network for network in (LeNet, ResNet, resnet56, ResNetV2, resnet_v2_50, Transformer)
}


def save_model(model: nn.Module, path: Path | str, network: str, /, **settings: Any) -> None:
    """Write the weights of NETWORKS[network](**settings), in about half of their size in memory."""
    from safetensors.torch import save

    _require_fitting(model, network, settings)
    if not isinstance(path, str | Path) or not str(path).strip("."):
        raise TypeError(f"path={path!r} must be the path of a file")
    weights = {name for name, _ in model.named_parameters()}
    tensors = {
        name: (value.half() if name in weights else value).detach().contiguous().cpu()
        for name, value in model.state_dict().items()
    }
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as stream:
        stream.write(save(tensors, {"poise": json.dumps({"network": network, "settings": settings})}))


def load_model(path: Path | str, device: torch.device | str = "cpu") -> Any:
    """The network of a file, or of model.safetensors in a folder, in float32 and eval mode; ValueError without one."""
    from safetensors import SafetensorError, safe_open

    place = as_device(device)
    if not isinstance(path, str | Path) or not str(path):
        raise TypeError(f"path={path!r} must be the path of a file")
    path = weights_at(Path(path))
    try:
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {})["poise"])
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        model = NETWORKS[_require_known(header["network"])](**header["settings"])
        model.load_state_dict({name: t.float() if t.is_floating_point() else t for name, t in tensors.items()})
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except (SafetensorError, KeyError, TypeError, RuntimeError, OSError) as error:
        raise ValueError(f"{path} does not contain a network saved by Poise ({str(error).splitlines()[0]})") from None
    return model.to(place).eval()


def weights_at(path: Path) -> Path:
    """The file with the weights: the path itself, or model.safetensors in a folder."""
    return path / WEIGHTS if path.is_dir() else path


def is_exported(folder: Path) -> bool:
    """Whether a folder was written by `poise export`: its config.json says so."""
    try:
        return bool(json.loads((folder / CONFIG).read_text(encoding="utf-8"))["library_name"] == "poise")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def header_in(path: Path) -> dict[str, Any]:
    """The header of a file of save_model, {"network": "resnet56", "settings": {"num_classes": 10}}."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        header: dict[str, Any] = json.loads((file.metadata() or {})["poise"])
    return header


def network_in(path: Path) -> str | None:
    """The network in a file's header, as text such as "resnet56(num_classes=10)"; None if the header has none."""
    try:
        header = header_in(path)
        settings = ", ".join(f"{name}={value!r}" for name, value in header["settings"].items())
        return f"{header['network']}({settings})"
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return None


def _require_fitting(model: nn.Module, network: str, settings: dict[str, Any]) -> None:
    """Raise if load_model would not rebuild this model from these settings."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model={model!r} must be a torch.nn.Module, not a {type(model).__name__}")
    _require_known(network)
    call = f"{network}({', '.join(f'{name}={value!r}' for name, value in settings.items())})"
    try:
        json.dumps(settings)
        with torch.device("meta"):
            wanted = NETWORKS[network](**settings).state_dict()
    except (TypeError, ValueError) as error:
        raise ValueError(f"the settings do not build a network, {call}: {error}") from None
    held = {name: value.shape for name, value in model.state_dict().items()}
    if held != {name: value.shape for name, value in wanted.items()}:
        raise ValueError(
            f"the model's weights do not match the settings, {call}: pass the settings that it was built with"
        )


def _require_known(network: str) -> str:
    if not isinstance(network, str) or network not in NETWORKS:
        raise ValueError(f"network={network!r} must be one of {', '.join(NETWORKS)}")
    return network
