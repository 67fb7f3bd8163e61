"""Networks in files: there and back, small, and nothing else is taken for one."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import poise


def test_a_kept_model_is_for_everyone_whom_the_umask_lets(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        poise.save_model(poise.LeNet(10), tmp_path / "model.safetensors", "LeNet", num_classes=10)
    finally:
        os.umask(before)
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_there_and_back(tmp_path: Path) -> None:
    model = poise.resnet56(10)
    x = torch.rand(4, 3, 32, 32)
    with torch.no_grad():
        model.train()(x)  # running statistics that are not those of a new network
        expected = model.eval()(x)
    poise.save_model(model, tmp_path / "a" / "model.safetensors", "resnet56", num_classes=10)
    found = poise.load_model(tmp_path / "a" / "model.safetensors")
    assert isinstance(found, poise.ResNet) and not found.training
    assert (tmp_path / "a" / "model.safetensors").stat().st_size < 1.9e6
    for name, value in model.state_dict().items():
        ours = found.state_dict()[name]
        assert ours.dtype == value.dtype
        exact = value if "running" in name or not value.is_floating_point() else value.half().float()
        assert torch.equal(ours, exact), name
    with torch.no_grad():
        torch.testing.assert_close(found(x), expected, rtol=0.02, atol=0.02)
    again = tmp_path / "again.safetensors"
    poise.save_model(found, again, "resnet56", num_classes=10)
    assert again.read_bytes() == (tmp_path / "a" / "model.safetensors").read_bytes()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["model.safetensors"]


def test_what_is_no_network_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"network='resnet57' must be one of LeNet"):
        poise.save_model(poise.LeNet(3), tmp_path / "x", "resnet57", num_classes=3)
    with pytest.raises(ValueError, match="does not exist"):
        poise.load_model(tmp_path / "nowhere")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match=r"do not match the settings, LeNet\(num_classes=4\)"):
        poise.save_model(poise.LeNet(3), tmp_path / "wrong", "LeNet", num_classes=4)
    header = {"poise": '{"network": "LeNet", "settings": {"num_classes": 4}}'}
    save_file(poise.LeNet(3).state_dict(), tmp_path / "wrong", header)
    save_file({"x": torch.zeros(1)}, tmp_path / "plain")
    save_file({"x": torch.zeros(1)}, tmp_path / "evil", {"poise": '{"network": "os.system", "settings": {}}'})
    for name in ("text", "wrong", "plain", "evil"):
        with pytest.raises(ValueError, match=r"does not contain a network|network='os.system'"):
            poise.load_model(tmp_path / name)
