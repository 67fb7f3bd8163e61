"""What a checkpoint puts back lies in memory as the weights do: a fused optimizer step takes nothing else."""

import dataclasses
import os
from pathlib import Path

import pytest
import torch
from deadlines import within
from miniature import EXPERIMENT, blobs
from torch import nn

from poise import XE, LeNet
from poise.data.loading.resident import DeviceLoader, on_device
from poise.training.checkpoint import has_checkpoint, newest, read, restore, save
from poise.training.loop import fit
from poise.training.plan import SGD, Adam, Optimizer

PLAN = dataclasses.replace(EXPERIMENT.plan, optimizer=SGD(), precision="bfloat16")


def stepped(optimizer: Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = LeNet(3, size=16).to(memory_format=torch.channels_last)
    made = optimizer(model.parameters(), torch.device("cpu"))
    model(torch.rand(2, 1, 16, 16)).sum().backward()
    made.step()
    return model, made


@pytest.mark.parametrize("optimizer", [SGD(), SGD(weight_decay=1e-3, decays="kernels"), Adam()])
def test_an_optimizer_s_state_lies_as_the_weights_do(optimizer: Optimizer, tmp_path: Path) -> None:
    model, made = stepped(optimizer)
    save(tmp_path, 1, model, made, {})
    other, again = stepped(optimizer)
    restore(read(tmp_path / "checkpoint-0001.json"), other, again)
    for (weight, state), kept in zip(again.state.items(), made.state.values(), strict=True):
        for key, value in state.items():
            assert torch.equal(value, kept[key])
            assert value.shape != weight.shape or value.stride() == weight.stride()
    assert any(not weight.is_contiguous() for weight in again.state)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_fused_step_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    examples = blobs(192, 0)
    data = DeviceLoader(*on_device(examples.x, examples.y, "cuda"), 32, None, seed=5)
    fit(LeNet(3, size=16).cuda(), XE(), data, PLAN, folder=tmp_path, until=1)
    assert len(fit(LeNet(3, size=16).cuda(), XE(), data, PLAN, folder=tmp_path).log) == PLAN.epochs


def test_damaged_checkpoints_make_room_for_new_ones(tmp_path: Path) -> None:
    """Else a run that begins again from before them would keep nothing until it is past them."""
    for epoch in (5, 6):
        save(tmp_path, epoch, nn.Linear(2, 2), None, {"log": []})
    for path in tmp_path.glob("*.safetensors"):
        path.write_bytes(b"cut")
    assert not has_checkpoint(tmp_path)
    for epoch in (3, 4, 5):
        save(tmp_path, epoch, nn.Linear(2, 2), None, {"log": []})
        found = newest(tmp_path, pytest.fail)
        assert found is not None and found.facts["epoch"] == epoch
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == ["checkpoint-0004", "checkpoint-0005"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("ending", ["json", "safetensors"])
def test_a_pipe_in_place_of_a_checkpoint_is_passed_over(tmp_path: Path, ending: str) -> None:
    for epoch in (1, 2):
        save(tmp_path, epoch, nn.Linear(2, 2), None, {"log": []})
    path = tmp_path / f"checkpoint-0002.{ending}"
    path.unlink()
    os.mkfifo(path)
    told: list[str] = []
    with within(5):
        found = newest(tmp_path, told.append)
    assert found is not None and found.facts["epoch"] == 1
    assert [sentence.endswith("is damaged (OSError); using the one before it") for sentence in told] == [True]
