"""fit: equals a loop written out, goes on after any stop, and says what went wrong."""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from miniature import EXPERIMENT, STEPS, blobs
from torch import nn

from poise import XE, AugMix, Constant, JensenShannon, LeNet, Loss, Ramp, Standard
from poise.data.loading.resident import DeviceLoader, epoch_seed, on_device
from poise.errors import OutOfTime, TrainingError
from poise.io.documents import with_checksum
from poise.training.checkpoint import newest
from poise.training.loop import Fit, fit, means
from poise.training.plan import SGD, Adam, Decays, Plan

PLAN = EXPERIMENT.plan
FCL = EXPERIMENT.methods[2].objective


def data(augment: object = None) -> DeviceLoader:
    examples = blobs(192, 0)
    return DeviceLoader(*on_device(examples.x, examples.y), 32, augment, seed=5)


def network() -> LeNet:
    torch.manual_seed(7)
    return LeNet(3, size=16)


def train(objective: object = FCL, plan: Plan = PLAN, augment: object = None, **options: object) -> tuple[LeNet, Fit]:
    model = network()
    return model, fit(model, objective, data(augment), plan, **options)


def weights(model: nn.Module) -> list[torch.Tensor]:
    return list(model.state_dict().values())


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def losses(done: Fit) -> list[dict[str, float]]:
    return [entry["loss"] for entry in done.log]


def test_it_is_the_loop_one_would_write() -> None:
    model, done = train(augment=Standard(1))
    plain, batches = network(), data()
    optimizer, generator = torch.optim.AdamW(plain.parameters(), weight_decay=0.0), torch.Generator()
    for epoch in range(PLAN.epochs):
        order = batches.order(epoch)
        seed = epoch_seed(5, epoch)
        generator.manual_seed(seed)
        torch.manual_seed(seed + 1)
        seen = []
        for batch in range(STEPS):
            rows = order[32 * batch : 32 * (batch + 1)]
            x = Standard(1)(batches.images[rows] / 255, generator)
            step = epoch * STEPS + batch
            optimizer.param_groups[0]["lr"] = PLAN.learning_rate(step)
            loss = FCL(plain, x, batches.labels[rows], step)
            optimizer.zero_grad()
            loss.total.backward()
            optimizer.step()
            seen.append(float(loss.parts["xe"]))
        assert done.log[epoch]["loss"]["xe"] == pytest.approx(sum(seen) / STEPS, rel=1e-6)
    assert same(model, plain)


def test_the_log_says_what_happened() -> None:
    _, done = train(validate=lambda model: {"validation": 0.5})
    assert [entry["epoch"] for entry in done.log] == [1, 2, 3, 4]
    assert [entry["step"] for entry in done.log] == [6, 12, 18, 24]
    assert [sorted(entry["loss"]) for entry in done.log] == [["xe"]] * 2 + [["contrast", "weight", "xe"]] * 2
    assert done.log[3]["loss"]["weight"] == pytest.approx(1e-2)
    assert done.log[1]["learning_rate"] == pytest.approx(0.005 * 0.9) and done.log[0]["validation"] == 0.5
    assert done.engine == "eager, float32"


@pytest.mark.miniature
@pytest.mark.parametrize("stop", [1, 2, 3])
@pytest.mark.parametrize("optimizer", [Adam(), SGD(weight_decay=1e-3), SGD(weight_decay=1e-3, decays="kernels")])
def test_a_run_that_stopped_ends_as_if_it_had_not(stop: int, optimizer: object, tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, optimizer=optimizer)
    straight, whole = train(plan=plan)
    train(plan=plan, folder=tmp_path, until=stop)
    again, resumed = train(plan=plan, folder=tmp_path)
    assert same(straight, again) and losses(resumed) == losses(whole)


@pytest.mark.miniature
def test_a_stop_in_mid_epoch_costs_that_epoch_only(tmp_path: Path) -> None:
    straight, _ = train()

    def stop(now: object) -> None:
        if now.epoch == 2 and now.batch >= 1:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(folder=tmp_path, keep_every=0, progress=stop)
    assert newest(tmp_path, print).facts["epoch"] == 2  # type: ignore[union-attr]
    again, _ = train(folder=tmp_path)
    assert same(straight, again)


@pytest.mark.miniature
def test_a_branch_equals_the_straight_run(tmp_path: Path) -> None:
    train(XE(), folder=tmp_path, until=2)
    trunk = newest(tmp_path, print)
    for method in EXPERIMENT.methods:
        straight, whole = train(method.objective)
        branched, done = train(method.objective, branch=trunk)
        assert same(straight, branched) and losses(done) == losses(whole)


@pytest.mark.miniature
@pytest.mark.parametrize("damage", [lambda b: b[:-7], lambda b: b[:200] + b"\0\1\2" + b[203:], lambda b: b""])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(damage: Callable, tmp_path: Path) -> None:
    straight, _ = train()
    train(folder=tmp_path, keep_every=0, until=3)
    path = tmp_path / "checkpoint-0003.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    said: list[str] = []
    again, _ = train(folder=tmp_path, warn=said.append)
    assert same(straight, again)
    assert len(said) == 1 and "checkpoint-0003.json is damaged" in said[0] and "using the one before it" in said[0]


def test_a_checkpoint_whose_json_is_cut_is_damaged_too(tmp_path: Path) -> None:
    train(folder=tmp_path, keep_every=0, until=2)
    path = tmp_path / "checkpoint-0002.json"
    path.write_text(path.read_text()[:30])
    said: list[str] = []
    _, done = train(folder=tmp_path, warn=said.append, until=2)
    assert len(said) == 1 and len(done.log) == 2 and "using the one before it" in said[0]


@pytest.mark.parametrize(
    ("old", "new"), [('"trunk": 0', '"trunk": 1'), ('"epoch": 1', '"epoch": 3'), ("checksum", "checksun")]
)
def test_a_checkpoint_whose_facts_are_not_those_it_was_written_with_is_damaged(
    old: str, new: str, tmp_path: Path
) -> None:
    _, straight = train(folder=tmp_path, keep_every=0, until=2)
    path = tmp_path / "checkpoint-0002.json"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    said: list[str] = []
    _, done = train(folder=tmp_path, warn=said.append, until=2)
    assert len(said) == 1 and "is damaged (its checksum does not match" in said[0]
    assert done.trunk == 0 and losses(done) == losses(straight)


def test_a_checkpoint_of_before_there_were_checksums_is_gone_on_from(tmp_path: Path) -> None:
    train(folder=tmp_path, until=1)
    path = tmp_path / "checkpoint-0001.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({name: each for name, each in facts.items() if name not in ("version", "checksum")}))
    train(folder=tmp_path, warn=pytest.fail, until=1)


def test_a_damaged_checkpoint_without_another_promises_none(tmp_path: Path) -> None:
    train(folder=tmp_path, until=1)
    (tmp_path / "checkpoint-0001.safetensors").write_bytes(b"")
    said: list[str] = []
    _, done = train(folder=tmp_path, warn=said.append, until=1)
    assert len(done.log) == 1
    assert len(said) == 1 and "checkpoint-0001.json is damaged" in said[0]
    assert said[0].endswith("there is no earlier one")


def test_the_newest_two_checkpoints_are_kept_and_nothing_else(tmp_path: Path) -> None:
    train(folder=tmp_path, keep_every=0)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"checkpoint-000{i}.{kind}" for i in (3, 4) for kind in ("json", "safetensors")]


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    def explode(step: int) -> float:
        return 1e30 if step == 2 * STEPS + 3 else 0.005

    plan, where = dataclasses.replace(PLAN, learning_rate=explode), rf"at step {2 * STEPS + 4} \(epoch 3\)"
    with pytest.raises(TrainingError, match=rf"xe is not finite {where}: .*; checkpoint-0002 is saved$"):
        train(XE(), plan, folder=tmp_path, keep_every=0)
    kept = newest(tmp_path, print)
    assert kept is not None and kept.facts["epoch"] == 2
    assert all(tensor.isfinite().all() for tensor in kept.tensors.values())
    with pytest.raises(TrainingError, match=rf"xe is not finite {where}: .*; there is no checkpoint yet$"):
        train(XE(), plan, folder=tmp_path / "seldom")


@pytest.mark.parametrize("epoch", [2, 4])
def test_weights_that_the_last_step_of_an_epoch_ruined_are_not_kept(epoch: int, tmp_path: Path) -> None:
    """The loss has not seen them; after the last epoch it never would."""

    def explode(step: int) -> float:
        return math.inf if step == epoch * STEPS - 1 else 0.005

    with pytest.raises(
        TrainingError, match=rf"^the weights are not finite after epoch {epoch}: .*{epoch - 1} is saved$"
    ):
        train(XE(), dataclasses.replace(PLAN, learning_rate=explode), folder=tmp_path, keep_every=0)
    kept = newest(tmp_path, print)
    assert kept is not None and kept.facts["epoch"] == epoch - 1


@dataclasses.dataclass(frozen=True)
class Greedy(XE):
    """Cross-entropy that finds no memory from a step on."""

    since: int = 0

    def __call__(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor, step: int = 0, **options: Any) -> Loss:
        if step >= self.since:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return super().__call__(model, x, y, step, **options)


def test_too_little_memory_names_the_setting_to_lower_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"^out of GPU memory: lower batch_size=32, or use precision='bfloat16'"):
        train(Greedy(since=STEPS + 2), folder=tmp_path, keep_every=0)
    assert newest(tmp_path, print).facts["epoch"] == 1  # type: ignore[union-attr]
    straight, _ = train(XE())
    again, _ = train(XE(), folder=tmp_path)
    assert same(straight, again)


def test_a_checkpoint_that_has_no_room_is_named_and_the_one_before_it_stands(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="no limits on this system")
    train(folder=tmp_path, keep_every=0, until=2)
    size = (tmp_path / "checkpoint-0002.safetensors").stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, limits[1]))
    try:
        with pytest.raises(TrainingError, match=r"0003.* \(File too large\): the checkpoint before it is intact"):
            train(folder=tmp_path, keep_every=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted({path.stem for path in tmp_path.iterdir()}) == ["checkpoint-0001", "checkpoint-0002"]


def test_what_a_killed_run_left_half_written_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".poise-0123.part").write_bytes(b"half")
    train(folder=tmp_path, until=1)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".safetensors"]


def test_another_number_of_processes_is_refused(tmp_path: Path) -> None:
    train(folder=tmp_path, until=1)
    path = tmp_path / "checkpoint-0001.json"
    path.write_text(json.dumps(with_checksum({**json.loads(path.read_text()), "processes": 4})))
    with pytest.raises(TrainingError, match="started with 4 processes, not 1"):
        train(folder=tmp_path)


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    train(folder=tmp_path, until=1)
    with pytest.raises(TrainingError, match="of another network"):
        fit(LeNet(4, size=16), XE(), data(), PLAN, folder=tmp_path)


def test_a_checkpoint_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    train(plan=dataclasses.replace(PLAN, optimizer=SGD()), folder=tmp_path, until=1)
    with pytest.raises(TrainingError, match="of another optimizer"):
        train(plan=dataclasses.replace(PLAN, optimizer=SGD(decays="kernels")), folder=tmp_path)


def test_a_run_that_is_out_of_time_keeps_its_last_epoch(tmp_path: Path) -> None:
    straight, _ = train()
    with pytest.raises(OutOfTime, match="reached after epoch 1 of 4; run the same command to continue"):
        train(folder=tmp_path, deadline=0.0)
    again, done = train(folder=tmp_path)
    assert same(straight, again) and len(done.log) == 4


def test_a_term_that_is_switched_on_is_averaged_over_the_steps_since_then() -> None:
    xe, contrast, weight = torch.tensor([4.0, 2, 2, 0]), torch.tensor([0, 0, 6.0, 8]), torch.tensor([0, 0, 0.5, 0.5])
    assert means({"xe": xe, "contrast": contrast, "weight": weight}) == {"xe": 2.0, "contrast": 7.0, "weight": 0.25}
    assert means({"xe": xe}) == {"xe": 2.0}
    fleet = {"contrast": torch.stack([contrast, contrast * 0], 1), "weight": torch.stack([weight, weight * 0], 1)}
    assert means(fleet) == {"contrast": [7.0, 0.0], "weight": [0.25, 0.0]}
    fleet["contrast"][2:, 1] = 5.0  # of a replica whose lambda is 0, computed for the others' sake
    assert means(fleet) == {"contrast": [7.0, 5.0], "weight": [0.25, 0.0]}


def test_an_epoch_in_which_the_contrast_begins_keeps_its_columns_apart() -> None:
    """Steps before the switch have fewer parts: `js` must not be written down as the contrast."""
    switch = dataclasses.replace(FCL, weight=Ramp(1e-2, start=2))
    _, done = train(JensenShannon(switch, AugMix(), strength=1e-9), dataclasses.replace(PLAN, epochs=1))
    loss = done.log[0]["loss"]
    assert list(loss) == ["xe", "js", "contrast", "weight"]
    assert loss["weight"] == pytest.approx(1e-2 * 4 / 6) and 0 < loss["js"] < 1 < loss["contrast"]


def test_the_callers_random_state_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    model = LeNet(3, size=16)
    torch.manual_seed(3)
    fit(model, FCL, data(), dataclasses.replace(PLAN, epochs=1, learning_rate=Constant(0.0)))
    assert torch.equal(torch.rand(4), expected)


def test_wrong_plans_are_named() -> None:
    with pytest.raises(ValueError, match="epochs=0"):
        Plan(0, 32, Adam(), Constant(0.1))
    with pytest.raises(ValueError, match="precision='half' must be one of"):
        Plan(1, 32, Adam(), Constant(0.1), precision="half")  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
@pytest.mark.parametrize("decays", ["all", "kernels"])
@pytest.mark.parametrize("objective", [FCL, JensenShannon(FCL, AugMix())], ids=["FCL", "AugMix+FCL"])
def test_a_captured_epoch_is_the_eager_one(objective: object, decays: Decays) -> None:
    """The same rows, draws, rates and weights; kernels add in another order."""
    from poise.training.engine import Engine

    results = []
    for captures in (True, False):
        examples = blobs(192, 0)
        loader = DeviceLoader(*on_device(examples.x, examples.y, "cuda"), 32, Standard(1), seed=5)
        sgd = SGD(weight_decay=1e-2, decays=decays)
        model, optimizer_plan = network().cuda(), dataclasses.replace(PLAN, optimizer=sgd)
        optimizer = optimizer_plan.optimizer(model.parameters(), torch.device("cuda"))
        engine = Engine(model, objective, loader, optimizer, optimizer_plan)
        engine._captures = captures
        results.append([engine.epoch(epoch) for epoch in range(3)])
    for captured, eager in zip(*results, strict=True):
        assert list(captured) == list(eager)
        for name in captured:
            assert torch.allclose(captured[name], eager[name], rtol=1e-3, atol=1e-4), name
