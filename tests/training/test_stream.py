"""fit on a streamed set: the run on the same pictures in memory, bit by bit; goes on from the middle of an epoch."""

import dataclasses
import time
from pathlib import Path

import pytest
import torch
from streams import loader

from poise import FCL, XE, Gaussian, GradientUtility, InfoNCE, PatchGaussian, Ramp, ResNetV2, Steps, TopBottom
from poise.data.loading.pictures import CentreCrop, Pictures, PictureSet, RandomCrop, StreamLoader
from poise.data.loading.resident import DeviceLoader
from poise.data.loading.shards import open_part, write_shards
from poise.data.sets.folders import Drawn, PackedListing, in_class_folders
from poise.errors import NotFinite, OutOfTime, TrainingError
from poise.training.checkpoint import newest
from poise.training.loop import Fit, fit
from poise.training.plan import SGD, Plan

PLAN = Plan(2, 6, SGD(nesterov=False), Steps(0.05, (8,), warmup=3))
CONTRAST = FCL(GradientUtility(), TopBottom(k=40), Gaussian(1.0), InfoNCE(0.5, "sum"), weight=Ramp(1e-2, start=4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return (
        Drawn(classes=4, train=8, val=1, sizes=((20, 20), (26, 20))).write(tmp_path_factory.mktemp("drawn")) / "train"
    )


def network() -> ResNetV2:
    torch.manual_seed(1)
    return ResNetV2(4, [(1, 4, 1), (1, 4, 2)])


def streamed(folder: Path, crop: object = None, **options: object) -> object:
    return loader(Pictures(PackedListing(in_class_folders(folder)), crop or RandomCrop(16)), 6, seed=5, **options)


def train(data: object, objective: object = CONTRAST, plan: Plan = PLAN, **options: object) -> tuple[ResNetV2, Fit]:
    model = network()
    return model, fit(model, objective, data, plan, **options)


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def losses(done: Fit) -> list[dict[str, float]]:
    return [entry["loss"] for entry in done.log]


@pytest.mark.parametrize("augment", [None, PatchGaussian(9, 0.5)])
def test_it_is_the_run_on_the_same_pictures_in_memory(folder: Path, augment: object) -> None:
    crop, listing = CentreCrop(16, 16), in_class_folders(folder)
    decoded = [PictureSet(listing, crop)[0, index] for index in range(32)]
    images, labels = torch.stack([image for image, _ in decoded]), torch.tensor([label for _, label in decoded])
    resident, done = train(DeviceLoader(images, labels, 6, augment, seed=5))
    model, again = train(streamed(folder, crop, augment=augment))
    assert same(model, resident) and losses(again) == losses(done)
    assert losses(done)[1]["contrast"] > 0


def stop_at(epoch: int, batch: int) -> object:
    def progress(now: object) -> None:
        time.sleep(0.11)  # more often than that it is not called
        if (now.epoch, now.batch) == (epoch, batch):  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize(("epoch", "batch", "kept"), [(0, 3, "0001-000002"), (1, 2, "0001"), (1, 5, "0002-000004")])
def test_a_run_goes_on_from_the_middle_of_an_epoch(
    folder: Path, tmp_path: Path, epoch: int, batch: int, kept: str
) -> None:
    options = {"augment": PatchGaussian(9, 0.5), "stretch": 2}
    straight, whole = train(streamed(folder, **options))
    with pytest.raises(KeyboardInterrupt):
        train(streamed(folder, **options), folder=tmp_path, keep_every=0, progress=stop_at(epoch, batch))
    assert sorted(tmp_path.glob("*.json"))[-1].stem == f"checkpoint-{kept}"
    model, done = train(streamed(folder, **options), folder=tmp_path)
    assert same(model, straight) and losses(done) == losses(whole)
    assert [entry["step"] for entry in done.log] == [5, 10]
    assert sorted(tmp_path.glob("*.json"))[-1].stem == "checkpoint-0002"


def test_a_deadline_ends_a_long_epoch(folder: Path, tmp_path: Path) -> None:
    straight, _ = train(streamed(folder, stretch=2), XE())
    with pytest.raises(OutOfTime, match="after batch 2 of epoch 1; run the same command to continue"):
        train(streamed(folder, stretch=2), XE(), folder=tmp_path, deadline=time.monotonic())
    found = newest(tmp_path, print)
    assert found is not None and found.facts["epoch"] == 0 and len(found.facts["begun"]) == 2
    model, _ = train(streamed(folder, stretch=2), XE(), folder=tmp_path)
    assert same(model, straight)


def test_a_loss_that_is_not_finite_stops_in_mid_epoch(folder: Path, tmp_path: Path) -> None:
    """The checkpoints that follow in this epoch would push the last good one out."""

    def explode(step: int) -> float:
        return 1e30 if step == 5 else 0.05

    plan = dataclasses.replace(PLAN, learning_rate=explode)
    with pytest.raises(NotFinite, match=r"^xe is not finite at step 6 \(epoch 2\): .*; checkpoint-0001 is saved$"):
        train(streamed(folder, stretch=2), XE(), plan, folder=tmp_path, keep_every=0)
    found = newest(tmp_path, print)
    assert found is not None and all(tensor.isfinite().all() for tensor in found.tensors.values())


def test_an_average_goes_on_as_well(folder: Path, tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, average=0.8)
    straight, _ = train(streamed(folder, stretch=2), plan=plan)
    with pytest.raises(KeyboardInterrupt):
        train(streamed(folder, stretch=2), plan=plan, folder=tmp_path, keep_every=0, progress=stop_at(0, 3))
    model, _ = train(streamed(folder, stretch=2), plan=plan, folder=tmp_path)
    assert same(model, straight)


def test_a_damaged_checkpoint_in_mid_epoch_is_passed_over(folder: Path, tmp_path: Path) -> None:
    straight, _ = train(streamed(folder, stretch=1), XE())
    with pytest.raises(KeyboardInterrupt):
        train(streamed(folder, stretch=1), XE(), folder=tmp_path, keep_every=0, progress=stop_at(0, 4))
    last = tmp_path / "checkpoint-0001-000003.safetensors"
    last.write_bytes(last.read_bytes()[:-1])
    warnings: list[str] = []
    model, _ = train(streamed(folder, stretch=1), XE(), folder=tmp_path, warn=warnings.append)
    assert same(model, straight) and "checkpoint-0001-000003.json is damaged" in warnings[0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_captured_step_reads_what_is_fed(folder: Path, workers: int) -> None:
    """The graph's one place on the device has the batch of every step, also where the contrast is captured later."""
    crop, listing = CentreCrop(16, 16), in_class_folders(folder)
    decoded = [PictureSet(listing, crop)[0, index] for index in range(32)]
    images, labels = torch.stack([image for image, _ in decoded]), torch.tensor([label for _, label in decoded])
    runs = []
    for kind in ("resident", "streamed"):
        model = network().cuda()
        held = Pictures(PackedListing(listing), crop, workers)
        data = (
            DeviceLoader(images.cuda(), labels.cuda(), 6, seed=5)
            if kind == "resident"
            else StreamLoader(held, labels.cuda(), 6, seed=5)
        )
        runs.append(fit(model, CONTRAST, data, PLAN))
    for one, other in zip(losses(runs[0]), losses(runs[1]), strict=True):
        assert one == pytest.approx(other, rel=1e-3)
    assert runs[1].engine == "CUDA graph, float32"


def test_an_epoch_does_not_go_on_in_another_order(tmp_path: Path) -> None:
    """Folders that become shards in the middle of an epoch: some pictures would come twice, and others never."""
    home = Drawn(classes=4, train=8, val=1, sizes=((20, 20),)).write(tmp_path)
    write_shards(home, tmp_path / "shards", 10)
    forms = [
        loader(Pictures(open_part(place, "train"), RandomCrop(16)), stretch=2) for place in (home, tmp_path / "shards")
    ]
    with pytest.raises(KeyboardInterrupt):
        train(forms[0], XE(), folder=tmp_path / "run", keep_every=0, progress=stop_at(1, 3))
    with pytest.raises(TrainingError, match=r"epoch 2 was started in another order.*or delete checkpoint-0002-\* from"):
        train(forms[1], XE(), folder=tmp_path / "run")
    for path in (tmp_path / "run").glob("checkpoint-0002-*"):
        path.unlink()
    assert len(train(forms[1], XE(), folder=tmp_path / "run")[1].log) == 2  # from a whole epoch on, any form will do


def test_what_was_damaged_before_a_stop_is_known_after_it(tmp_path: Path) -> None:
    """A record names all pictures that were left out, though a run that goes on may never meet them."""
    home = Drawn(classes=4, train=8, val=1, sizes=((20, 20),)).write(tmp_path) / "train"
    bad = home / "n00000002/train_0002_00003.JPEG"
    whole = bad.read_bytes()
    bad.write_bytes(b"")
    train(streamed(home, stretch=2), XE(), folder=tmp_path / "run", until=1)
    bad.write_bytes(whole)
    data = streamed(home, stretch=2)
    train(data, XE(), folder=tmp_path / "run")
    assert list(data.damaged) == [bad]
