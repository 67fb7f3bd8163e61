"""A network as an ONNX file, for runtimes without Python: images [batch, C, H, W] → logits [batch, classes]."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn


def require_onnx() -> None:
    """ModuleNotFoundError, which names the package, unless torch can write ONNX."""
    import onnx  # noqa: F401
    import onnxscript  # noqa: F401


def write_onnx(model: nn.Module, shape: Sequence[int], path: Path) -> None:
    """Write a network in eval mode, for images of one shape [C, H, W] and batches of any size."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it reports packages that the network does not use
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model,
            (torch.zeros(2, *shape),),  # a batch of 1 would fix the batch's size
            dynamo=True,
            verbose=False,
            input_names=["images"],
            output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
        )
    if program is None:  # as torch's signature allows
        raise RuntimeError("torch.onnx.export returned no program")
    program.save(path, external_data=False)
