"""Weights beside a record: those that were tested, and no others.

Another training of the same recipe, with the kernels of another day, gives other weights. So a finished run gets its
own from the checkpoint that has its log, or none.
"""

from __future__ import annotations

import json
from pathlib import Path

from torch import nn

from poise.experiments.experiment import Build
from poise.models.saved import save_model
from poise.training.checkpoint import newest

_WEIGHTS = "model.safetensors"


def keep_weights(record: Path, model: nn.Module, network: Build) -> None:
    """In half precision, 1.7 MB for ResNet-56."""
    save_model(model, record.with_name(_WEIGHTS), network.name, **network.settings)


def has_weights(record: Path) -> bool:
    return record.with_name(_WEIGHTS).exists()


def can_get_weights(record: Path, trained: Path) -> bool:
    """Whether a finished run has none, and the folder where it was trained still has the model."""
    found = None if has_weights(record) else newest(trained, lambda sentence: None)
    return found is not None and bool(found.facts["log"] == json.loads(record.read_text()).get("log"))
