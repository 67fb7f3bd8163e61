"""Classifiers and tokenizers from a Hugging Face folder, without the network and without code from the folder."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from poise.auditing.errors import AuditError
from poise.extras import install


def library() -> Any:
    """transformers, quiet."""
    try:
        transformers: Any = importlib.import_module("transformers")
    except ModuleNotFoundError:
        raise AuditError(f"transformers is missing: {install('transformers')}") from None
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def from_folder(
    path: Path, trust: bool
) -> tuple[nn.Module, int | None, list[str], tuple[Sequence[float], Sequence[float]] | None]:
    """The model, the size of its pictures, the names of its classes, and the normalization of its pictures."""
    transformers = library()
    config = _read(path / "config.json")
    kind = next((str(each) for each in config.get("architectures") or []), "")
    pictures = "ImageClassification" in kind
    if not pictures and "SequenceClassification" not in kind:
        raise AuditError(f"{path} holds a {kind or 'model of no kind'}: an audit needs a sequence or image classifier")
    auto = transformers.AutoModelForImageClassification if pictures else transformers.AutoModelForSequenceClassification
    try:
        model: nn.Module = auto.from_pretrained(
            path, local_files_only=True, trust_remote_code=False, use_safetensors=None if trust else True
        )
    except (OSError, ValueError, RuntimeError) as error:
        hint = "" if trust else "; weights in .bin files are pickles: convert them to safetensors, or say --trust"
        raise AuditError(f"{path} cannot be loaded: {str(error).splitlines()[0]}{hint}") from None
    names: dict[int, str] = getattr(model.config, "id2label", {})
    classes = [str(names[place]) for place in sorted(names)]
    if not pictures:
        return model, None, classes, None
    processor = _read(path / "preprocessor_config.json") if (path / "preprocessor_config.json").is_file() else {}
    size = processor.get("crop_size") or processor.get("size") or config.get("image_size") or 224
    side = next(iter(size.values())) if isinstance(size, dict) else size
    half = [0.5] * 3
    return model, int(side), classes, (processor.get("image_mean", half), processor.get("image_std", half))


def longest_sentence(model: nn.Module) -> int | None:
    """How many tokens the model has positions for; RoBERTa and its kin leave the first ones, up to padding, unused."""
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
    return content
