"""Classifiers of Hugging Face in local folders: nothing is downloaded, and none of a folder's code runs."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from poise.checks import install
from poise.errors import AuditError

MeanStd = tuple[Sequence[float], Sequence[float]]


def cached(name: str) -> Path:
    """The folder of a model: its path, or its place in the cache of Hugging Face."""
    if Path(name).is_dir():
        return Path(name)
    try:
        hub: Any = importlib.import_module("huggingface_hub")
    except ModuleNotFoundError:
        raise AuditError(f"huggingface_hub is missing: {install('transformers')}") from None
    try:
        return Path(hub.snapshot_download(name, local_files_only=True))
    except Exception:  # the hub raises its own types for names and for files that are missing
        raise AuditError(
            f"hf:{name} is neither a folder nor in the cache of Hugging Face: get it with  hf download {name}"
        ) from None


def from_folder(path: Path, trust: bool) -> tuple[nn.Module, int | None, list[str], MeanStd | None]:
    """The model, the size of its images, the names of its classes, and the normalization of its images."""
    transformers = load_transformers()
    config = _read(path / "config.json")
    kind = next((str(each) for each in config.get("architectures") or []), "")
    pictures = "ImageClassification" in kind
    if not pictures and "SequenceClassification" not in kind:
        raise AuditError(
            f"{path} contains a {kind or 'model without architectures'}: an audit needs a sequence or image classifier"
        )
    auto = transformers.AutoModelForImageClassification if pictures else transformers.AutoModelForSequenceClassification
    try:
        model: nn.Module = auto.from_pretrained(
            path, local_files_only=True, trust_remote_code=False, use_safetensors=None if trust else True
        )
    except Exception as error:  # any error on a damaged file
        why = (str(error).splitlines() or [type(error).__name__])[0]
        pickles = not trust and any(path.glob("*.bin")) and not any(path.glob("*.safetensors"))
        hint = "; weights in .bin files are pickles: convert them to safetensors, or add --trust" if pickles else ""
        raise AuditError(f"{path} cannot be loaded: {why}{hint}") from None
    names: dict[int, str] = getattr(model.config, "id2label", {})
    classes = [str(names[place]) for place in sorted(names)]
    if not pictures:
        return model, None, classes, None
    processor = _read(path / "preprocessor_config.json") if (path / "preprocessor_config.json").is_file() else {}
    size = processor.get("crop_size") or processor.get("size") or config.get("image_size") or 224
    side = next(iter(size.values())) if isinstance(size, dict) else size
    half = [0.5] * 3
    return model, int(side), classes, (processor.get("image_mean", half), processor.get("image_std", half))


def load_transformers() -> Any:
    """The transformers library, without logging and progress bars."""
    try:
        transformers: Any = importlib.import_module("transformers")
    except ModuleNotFoundError:
        raise AuditError(f"transformers is missing: {install('transformers')}") from None
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def longest_sentence(model: nn.Module) -> int | None:
    """The maximum number of tokens. RoBERTa does not use its first positions, up to that of padding."""
    config: Any = model.config
    count = getattr(config, "max_position_embeddings", None)
    if not isinstance(count, int) or count < 1:
        return None
    return count - (config.pad_token_id + 1) if "roberta" in str(config.model_type) else count


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise AuditError(f"{path} cannot be read: it is not a JSON object")
    return content
