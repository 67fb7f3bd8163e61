"""What a training takes of a GPU's memory, whatever else lies there."""

import dataclasses

import pytest
import torch
from miniature import EXPERIMENT, blobs

from poise import LeNet
from poise.data.loading.resident import DeviceLoader, on_device
from poise.training.loop import Fit, fit

PLAN = dataclasses.replace(EXPERIMENT.plan, epochs=1)


def train(device: str) -> Fit:
    examples = blobs(192, 0)
    data = DeviceLoader(*on_device(examples.x, examples.y, device), 32, None, seed=5)
    return fit(LeNet(3, size=16).to(device), EXPERIMENT.methods[0].objective, data, PLAN)


def test_a_cpu_does_not_say() -> None:
    assert train("cpu").peak_memory is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_what_was_there_before_does_not_count() -> None:
    train("cuda")  # whose libraries take memory of their own the first time
    alone = train("cuda").peak_memory
    other = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    beside = train("cuda").peak_memory
    assert alone is not None and beside is not None and 0 < alone < other.nbytes
    assert abs(beside - alone) < 2**22
