"""`poise.benchmark`: modules on a benchmark from Python."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import poise
from poise.errors import AuditError
from poise.evaluation.harness import Benchmarked
from poise.evaluation.shown import decode_all, from_loader
from poise.inputs.images import from_array

IMAGES = torch.randint(256, (24, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
LABELS = torch.arange(24) % 3
FEW = {"corruptions": ["fog"], "severities": [1, 4]}


class Pooled(nn.Module):
    """Linear on the mean colours of 4 x 4 patches, with dropout that must be off."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.drop, self.linear = nn.Dropout(0.5), nn.Linear(48, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.drop(nn.functional.adaptive_avg_pool2d(x, 4).flatten(1))) * 20


def scores(result: Benchmarked, name: str = "Pooled") -> tuple[dict, dict, dict]:
    record = result[name]
    return record["clean"], record["means"], record["tests"]


def test_arrays_tensors_and_loaders_give_the_same_numbers(tmp_path: Path) -> None:
    model = Pooled()
    found = poise.benchmark(model, (IMAGES, LABELS), **FEW)
    assert model.training and model.drop.training
    arrays = IMAGES.permute(0, 2, 3, 1).numpy(), LABELS.numpy()
    assert scores(poise.benchmark(model, arrays, **FEW, batch_size=7)) == scores(found)
    loader = DataLoader(TensorDataset(IMAGES / 255, LABELS), batch_size=5)
    assert scores(poise.benchmark(model, loader, **FEW)) == scores(found)
    np.savez(tmp_path / "x.npz", x=arrays[0], y=arrays[1])
    assert scores(poise.benchmark(model, tmp_path / "x.npz", **FEW)) == scores(found)
    table = poise.evaluate(model, (IMAGES, LABELS), **FEW)
    cells = {int(s): cell["accuracy"]["value"] for s, cell in found["Pooled"]["tests"]["fog"].items()}
    assert cells == table.accuracy["fog"] and found["Pooled"]["clean"]["accuracy"]["value"] == table.clean
    assert "Pooled" in str(found)


def test_modules_are_compared_and_files_written(tmp_path: Path) -> None:
    both = {"one": Pooled(1), "two": Pooled(2)}
    groups = {"site": ["a", "b"] * 12}
    found = poise.benchmark(both, (IMAGES, LABELS), **FEW, groups=groups, out=tmp_path / "out")
    (pair,) = found.comparisons
    gap = found["one"]["clean"]["accuracy"]["value"] - found["two"]["clean"]["accuracy"]["value"]
    assert pair["clean"]["value"] == pytest.approx(gap)
    assert found["one"]["means"]["measured"]["worst site"]["name"] in "ab"
    assert json.loads((tmp_path / "out/one/evaluation.json").read_text())["tests"] == found["one"]["tests"]
    again = poise.benchmark(both, (IMAGES, LABELS), **FEW, groups=groups, out=tmp_path / "out")
    assert again.comparisons == found.comparisons


def test_normalized_models_get_normalized_images() -> None:
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    inner = Pooled()

    class Outer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            inner.eval()
            return inner((x - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1))

    plain = poise.benchmark({"m": Outer()}, (IMAGES, LABELS), **FEW)
    found = poise.benchmark({"m": inner}, (IMAGES, LABELS), normalize=(mean, std), **FEW)
    ends = [scores(each, "m")[0]["nll"]["value"] for each in (plain, found)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-4)


def test_a_loader_that_does_not_fit_into_memory_is_run_again() -> None:
    loader = DataLoader(TensorDataset(IMAGES, LABELS), batch_size=5)
    kept, again = from_loader(loader), from_loader(loader, memory=20_000)
    assert kept.held is not None and again.held is None and kept.digest == again.digest
    for _ in range(2):
        starts, parts = zip(*again.batches(), strict=True)
        assert list(starts) == [0, 5, 10, 15, 20] and torch.equal(torch.cat(parts), IMAGES)
    shuffled = from_loader(DataLoader(TensorDataset(IMAGES, LABELS), batch_size=5, shuffle=True), memory=20_000)
    with pytest.raises(AuditError, match="other images the second time: use shuffle=False"):
        list(shuffled.batches())


@pytest.mark.parametrize("workers", [0, 3])
def test_images_that_do_not_fit_into_memory_are_read_again(workers: int) -> None:
    found = from_array("x", IMAGES.permute(0, 2, 3, 1).numpy(), LABELS.numpy())
    rows = [20, 3, 11, 4, 0]
    kept, again = decode_all(found, rows), decode_all(found, rows, workers, memory=1000)
    assert kept.held is not None and again.held is None and kept.digest == again.digest
    starts, parts = zip(*again.batches(2), strict=True)
    assert list(starts) == [0, 2, 4] and torch.equal(torch.cat(parts), IMAGES[rows])


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"models": poise.LeNet}, TypeError, "models must be a torch.nn.Module, or a dict of them"),
        ({"models": {}}, ValueError, "models must hold at least one module"),
        ({"name": "cifar-10-c"}, ValueError, "did you mean 'cifar10-c'"),
        ({"data": (IMAGES, LABELS + 1)}, AuditError, "has label 3, but the model has 3 classes"),
        ({"data": (IMAGES, LABELS[:3])}, AuditError, "has 3 labels for 24 examples"),
        ({"data": [(IMAGES, LABELS + 1)]}, AuditError, "the loader has label 3, but the model has 3 classes"),
        ({"data": []}, AuditError, "the loader has no examples"),
        ({"data": 3}, TypeError, "data=3 must be a list"),
        ({"data": (IMAGES[..., :8, :8], LABELS)}, AuditError, "images of 8 x 8 pixels"),
        ({"groups": {"site": ["a"]}}, ValueError, "has 1 values for 24 examples"),
        ({"normalize": "cifar"}, AuditError, "must be none, imagenet or half"),
        ({"batch_size": 0}, ValueError, "batch_size=0 must be a whole number of 1 or more"),
    ],
)
def test_wrong_calls_are_named(change: dict, error: type[Exception], sentence: str) -> None:
    call = {"models": Pooled(), "data": (IMAGES, LABELS), **FEW, **change}
    with pytest.raises(error, match=sentence):
        poise.benchmark(**call)
