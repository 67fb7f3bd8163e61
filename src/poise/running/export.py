"""A trained network as a folder that can be shared, for example on a model hub. Nothing is uploaded.

config.json         the network and its settings, classes, input and version
model.safetensors   the weights, byte for byte those of the run
README.md           the model card, from the record of the run
model.onnx          on request: the network for other runtimes
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch import nn

from poise.errors import RecordError
from poise.io.documents import is_there
from poise.io.files import new_files
from poise.models.lenet import LeNet
from poise.models.onnx import require_onnx, write_onnx
from poise.models.resnet import ResNet, ResNetV2
from poise.models.saved import CONFIG, WEIGHTS, header_in, is_exported, load_model, weights_at
from poise.models.transformer import Transformer
from poise.records.schema import EXPERIMENT, RECORD, Record, StoredExperiment, read_experiment, record_at
from poise.reporting.model_card import model_card

_ONNX = "model.onnx"


@dataclass(frozen=True)
class Trained:
    """A saved network, and the record of its run if there is one."""

    weights: Path
    model: nn.Module
    record: Record | None
    experiment: StoredExperiment | None


def trained_at(source: Path) -> Trained:
    """The network of a file, or of model.safetensors in the folder of a run; RecordError if it cannot be read."""
    weights = weights_at(source)
    if source.is_dir() and not weights.is_file():
        raise RecordError(f"{source} has no {WEIGHTS}: train with --keep-models, which saves it")
    try:
        model = load_model(weights)
    except ValueError as error:
        raise RecordError(str(error)) from None
    run = weights.resolve().parent
    home = run.parent.parent
    if not (is_there(run / RECORD) and is_there(home / EXPERIMENT)):
        return Trained(weights, model, None, None)
    experiment = read_experiment(home / EXPERIMENT)
    return Trained(weights, model, record_at(run / RECORD, experiment.name), experiment)


def default_folder(trained: Trained) -> Path:
    """exported/<experiment>-<method>-seed-<seed>; the name of the file's folder if there is no record."""
    run = trained.weights.resolve().parent
    parts = (run.name,) if trained.record is None else (trained.record.experiment, run.parent.name, run.name)
    return Path("exported") / "-".join(parts)


def export_model(
    trained: Trained, out: Path, version: str, license_id: str = "unknown", onnx: bool = False, force: bool = False
) -> list[Path]:
    """Write the folder, all of its files or none, and return them; RecordError if that would overwrite others."""
    _require_free(out, force)
    config = _config(trained, version)
    if onnx and config["input"]["kind"] != "images":
        raise RecordError(f"--onnx exports image classifiers, and {trained.weights} reads texts: omit it")
    if onnx:
        require_onnx()
    card = model_card(out.resolve().name, config, trained.record, trained.experiment, license_id, onnx)
    with new_files(out, last=CONFIG) as stage:
        if onnx:
            write_onnx(trained.model, config["input"]["shape"], stage / _ONNX)
        (stage / WEIGHTS).write_bytes(trained.weights.read_bytes())
        (stage / "README.md").write_text(card, encoding="utf-8")
        (stage / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        names = sorted(path.name for path in stage.iterdir())
        if not onnx:
            (out / _ONNX).unlink(missing_ok=True)  # of an earlier export, which may be of another network
    return [out / name for name in names]


def _require_free(out: Path, force: bool) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise RecordError(f"{out} is a file: choose another --out")
    if any(out.iterdir()) and not is_exported(out):
        raise RecordError(f"{out} has other files and is not an export of Poise: choose another --out")
    if is_exported(out) and not force:
        raise RecordError(f"{out} exists: add --force to replace it, or choose another --out")


def _config(trained: Trained, version: str) -> dict[str, Any]:
    header = header_in(trained.weights)
    head: Any = trained.model.head
    names = trained.experiment.class_names if trained.experiment else ()
    fits = len(names) == head.out_features
    return {
        "library_name": "poise",
        "poise_version": version,
        "network": header["network"],
        "settings": header["settings"],
        "classes": list(names) if fits else [str(number) for number in range(head.out_features)],
        "input": _input(trained.model, header["settings"]),
        "parameters": sum(weight.numel() for weight in trained.model.parameters()),
        "weights": {"file": WEIGHTS, "sha256": sha256(trained.weights.read_bytes()).hexdigest()},
    }


def _input(model: nn.Module, settings: dict[str, Any]) -> dict[str, Any]:
    """What the network reads. Images are in [0, 1]; residual networks normalize them inside."""
    if isinstance(model, Transformer):
        return {
            "kind": "tokens",
            "vocabulary": model.token.num_embeddings,
            "max_length": model.position.num_embeddings,
        }
    if isinstance(model, LeNet):
        size = settings.get("size", 28)
        return {
            "kind": "images",
            "shape": [model.conv1.in_channels, size, size],
            "range": [0, 1],
            "normalization": None,
        }
    if not isinstance(model, ResNet | ResNetV2):
        raise RecordError(f"{type(model).__name__} cannot be exported: its input is unknown")
    mean, std = ([round(value, 6) for value in part.flatten().tolist()] for part in _mean_std(model))
    size = 32 if isinstance(model, ResNet) else 224
    inside = {"mean": mean, "std": std, "applied_by": "network"}
    return {"kind": "images", "shape": [len(mean), size, size], "range": [0, 1], "normalization": inside}


def _mean_std(model: ResNet | ResNetV2) -> tuple[Any, Any]:
    return model.normalize.mean, model.normalize.std
