"""fit on sentences: the loop one would write, the same after a stop, and averaged weights."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from poise import FCL, XE, Constant, Cosine, InfoNCE, Ramp, RemovalUtility, Remove, TopBottomFraction, Transformer
from poise.data.loading.resident import epoch_seed
from poise.data.loading.sentences import PieceDropout, TokenLoader, tokens_of
from poise.errors import TrainingError
from poise.objectives.objective import switched_off, weight_of, with_weight
from poise.schedules import as_schedule
from poise.tokens import Tokens
from poise.training.average import Average
from poise.training.checkpoint import final_weights_of, newest, weights_of
from poise.training.engine import Engine, LiveWeight, TrainStep
from poise.training.loop import Fit, fit
from poise.training.plan import Adam, Plan

STEPS = 8
OBJECTIVE = FCL(
    RemovalUtility(), TopBottomFraction(0.2), Remove(), InfoNCE(temperature=0.1), Ramp(0.5, start=STEPS, length=4)
)
PLAN = Plan(3, 8, Adam(), Constant(0.01), average=0.8)


def data(device: str = "cpu") -> TokenLoader:
    """Class 1 where word 7 is."""
    state = np.random.RandomState(0)
    ids = np.zeros((67, 14), np.int32)
    for row in ids:
        length = state.randint(3, 15)
        row[:length] = [1, *state.randint(3, 12, length - 2), 2]
    labels = torch.from_numpy((ids == 7).any(1)).long()
    return TokenLoader(tokens_of(ids, device), labels.to(device), 8, PieceDropout(0.1), seed=5)


def network() -> Transformer:
    torch.manual_seed(7)
    return Transformer(2, 12, width=8, layers=1, heads=2, feed_forward=8, max_length=16, dropout=0.1)


def train(objective: object = OBJECTIVE, plan: Plan = PLAN, **options: object) -> tuple[Transformer, Fit]:
    model = network()
    return model, fit(model, objective, data(), plan, **options)


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_it_is_the_loop_one_would_write_and_ends_with_the_average() -> None:
    model, done = train()
    plain, batches = network(), data()
    optimizer, generator = torch.optim.AdamW(plain.parameters(), lr=0.01, weight_decay=0.0), torch.Generator()
    average = [parameter.detach().double() for parameter in plain.parameters()]
    for epoch in range(3):
        generator.manual_seed(epoch_seed(5, epoch))
        torch.manual_seed(epoch_seed(5, epoch) + 1)
        planned, seen = batches.batches(epoch), []
        for number, (rows, width) in enumerate(zip(planned.rows, planned.widths, strict=True)):
            x = PieceDropout(0.1)(batches.sentences[rows].cut(width), generator)
            loss = OBJECTIVE(plain, x, batches.labels[rows], epoch * STEPS + number)
            optimizer.zero_grad()
            loss.total.backward()
            optimizer.step()
            average = [0.8 * a + 0.2 * p.detach().double() for a, p in zip(average, plain.parameters(), strict=True)]
            seen.append(float(loss.parts["xe"]))
        assert done.log[epoch]["loss"]["xe"] == pytest.approx(sum(seen) / STEPS, rel=1e-5)
    for mine, expected in zip(model.parameters(), average, strict=True):
        torch.testing.assert_close(mine.detach(), expected.float(), rtol=1e-4, atol=1e-6)
    assert not same(model, plain)


@pytest.mark.parametrize("stop", [1, 2])
def test_a_run_that_stopped_ends_as_if_it_had_not(stop: int, tmp_path: Path) -> None:
    straight, whole = train()
    train(folder=tmp_path, until=stop)
    again, resumed = train(folder=tmp_path)
    assert same(straight, again)
    assert [entry["loss"] for entry in whole.log] == [entry["loss"] for entry in resumed.log]
    third, _ = train(folder=tmp_path)  # a finished run comes back with its average
    assert same(straight, third)


@pytest.mark.parametrize("average", [0.8, None])
def test_a_checkpoint_tells_the_weights_that_were_tested(average: float | None, tmp_path: Path) -> None:
    trained, _ = train(plan=dataclasses.replace(PLAN, average=average), folder=tmp_path)
    model, held = network(), newest(tmp_path, print)
    model.load_state_dict(final_weights_of(held))
    assert same(model, trained)
    model.load_state_dict(weights_of(held))
    assert same(model, trained) == (average is None)


def test_a_branch_equals_the_straight_run(tmp_path: Path) -> None:
    train(XE(), folder=tmp_path, until=1)
    branched, _ = train(branch=newest(tmp_path, print))
    assert same(branched, train()[0])


def test_validation_sees_the_average_and_training_does_not() -> None:
    seen: list[torch.Tensor] = []

    def validate(model: nn.Module) -> dict[str, float]:
        seen.append(model.head.weight.detach().clone())  # type: ignore[union-attr]
        return {"validation": 0.0}

    averaged, _ = train(validate=validate)
    assert torch.equal(seen[-1], averaged.head.weight) and not torch.equal(seen[0], seen[1])
    assert same(averaged, train()[0])


def test_an_average_forgets_its_start() -> None:
    model = nn.Linear(1, 1, bias=False)
    average = Average(model, 0.5)
    start, values = model.weight.item(), [3.0, 5.0, -1.0]
    for value in values:
        nn.init.constant_(model.weight, value)
        average.update()
    expected = start / 8 + 3 / 8 + 5 / 4 - 1 / 2
    assert average.tensors["weight"].item() == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"average=1\.0 must lie in \[0, 1\)"):
        dataclasses.replace(PLAN, average=1.0)


def test_a_plan_mentions_its_average_if_it_has_one() -> None:
    plain = dataclasses.replace(PLAN, average=None)
    assert repr(PLAN) == repr(plain)[:-1] + ", average=0.8)"
    assert repr(plain).endswith("precision='float32', compile=False)")  # as in the records of synthetic MNIST


def test_a_checkpoint_without_an_average_is_refused(tmp_path: Path) -> None:
    train(plan=dataclasses.replace(PLAN, average=None), folder=tmp_path, until=1)
    with pytest.raises(TrainingError, match="has no average of the weights"):
        train(folder=tmp_path)


class ByWord:
    """A utility that no rounding changes: the word's number, and the place where words are equal."""

    uses_forward = False

    def check(self, x: object) -> None:
        pass

    def __call__(self, model: nn.Module, x: Tokens, y: torch.Tensor, **_: object) -> torch.Tensor:
        places = torch.arange(x.ids.shape[1], device=x.ids.device)
        return x.ids.float() + 0.01 * places


OBJECTIVES = {"XE": XE(), "by word": dataclasses.replace(OBJECTIVE, utility=ByWord()), "removal": OBJECTIVE}
Epochs = list[dict[str, torch.Tensor]]
every = pytest.mark.parametrize("name", OBJECTIVES)


class Rehearsed(Engine):
    """Does on a CPU what a graph does: steps that are undone, then the step with every number that it was made with."""

    def _captured(self, quiet: bool, width: int, step: int) -> Any:
        objective = self._objective if quiet else with_weight(self._objective, LiveWeight(self._tables))
        frozen = TrainStep(self._model, objective)

        def replay() -> None:
            self._step = frozen
            self._plainly(quiet, width, step)

        with self._undone() as again:
            for _ in range(4):
                replay()
                again()
        return SimpleNamespace(replay=replay)


def epochs_by(kind: type[Engine], captures: bool, objective: Any, device: str) -> Epochs:
    """The losses of three epochs without dropout; the rate is a tensor everywhere."""
    torch.manual_seed(7)
    model = Transformer(2, 12, width=32, layers=2, heads=4, feed_forward=32, max_length=16, dropout=0.0).to(device)
    plan = dataclasses.replace(PLAN, learning_rate=Cosine(1e-3, steps=3 * STEPS, warmup=2))
    optimizer = plan.optimizer(model.parameters(), torch.device(device))
    for group in optimizer.param_groups:
        group["lr"] = torch.zeros((), device=device)
    engine = kind(model, objective, data(device), optimizer, plan, Average(model, 0.8))
    engine._captures = captures
    return [engine.epoch(epoch) for epoch in range(3)]


def first_difference(ones: Epochs, others: Epochs, objective: Any, rtol: float, atol: float) -> str:
    """Where two runs part, in words: which step, what kind of step, by how much; empty where they do not."""
    seen: set[tuple[bool, int]] = set()
    schedule = as_schedule(weight_of(objective))
    for epoch, (one, other) in enumerate(zip(ones, others, strict=True)):
        if list(one) != list(other):
            return f"epoch {epoch} has {list(one)} and {list(other)}"
        for batch, width in enumerate(data().batches(epoch).widths):
            kind = switched_off(schedule(epoch * STEPS + batch)), width
            for name in one:
                pair = one[name][batch], other[name][batch]
                if not torch.isclose(*pair, rtol=rtol, atol=atol):
                    return (
                        f"epoch {epoch}, batch {batch}, width {width}, {'quiet' if kind[0] else 'with contrast'}, "
                        f"{'replayed again' if kind in seen else 'just captured'}: "
                        f"{name} is {pair[0]:.7g} and {pair[1]:.7g}"
                    )
            seen.add(kind)
    return ""


@every
def test_a_captured_step_reads_all_that_changes_and_leaves_no_trace_of_its_rehearsal(name: str) -> None:
    plain = epochs_by(Engine, False, OBJECTIVES[name], "cpu")
    rehearsed = epochs_by(Rehearsed, True, OBJECTIVES[name], "cpu")
    assert first_difference(rehearsed, plain, OBJECTIVES[name], 0.0, 1e-7) == ""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
@every
def test_captured_sentences_are_the_eager_ones(name: str) -> None:
    """A graph for every width. If two eager runs part as well, it is not the graphs."""
    objective = OBJECTIVES[name]
    captured, eager, again = (epochs_by(Engine, captures, objective, "cuda") for captures in (True, False, False))
    close = (1e-3, 1e-4)
    assert (
        first_difference(again, eager, objective, *close),
        first_difference(captured, eager, objective, *close),
    ) == (
        "",
        "",
    )
