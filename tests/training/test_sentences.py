"""fit on sentences: the loop one would write, the same after a stop, and averaged weights."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from poise import FCL, XE, Constant, InfoNCE, Ramp, RemovalUtility, Remove, TopBottomFraction, Transformer
from poise.data.loader import epoch_seed
from poise.data.sentences import PieceDropout, TokenLoader, tokens_of
from poise.tokens import Tokens
from poise.training.average import Average
from poise.training.checkpoint import newest
from poise.training.engine import Engine
from poise.training.errors import TrainingError
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


def epochs_by(captures: bool, objective: FCL, device: str = "cuda") -> list[dict[str, torch.Tensor]]:
    """The losses of three epochs on a GPU, without dropout."""
    torch.manual_seed(7)
    model = Transformer(2, 12, width=32, layers=2, heads=4, feed_forward=32, max_length=16, dropout=0.0).to(device)
    plan = dataclasses.replace(PLAN, learning_rate=Constant(1e-3))
    optimizer = plan.optimizer(model.parameters(), torch.device(device))
    engine = Engine(model, objective, data(device), optimizer, plan, Average(model, 0.8))
    engine._captures = captures
    return [engine.epoch(epoch) for epoch in range(3)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_captured_sentences_are_the_eager_ones() -> None:
    """A graph for every width; where the choice of words is certain, nothing but the order of sums differs."""
    objective = dataclasses.replace(OBJECTIVE, utility=ByWord())
    for captured, eager in zip(epochs_by(True, objective), epochs_by(False, objective), strict=True):
        torch.testing.assert_close(captured, eager, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_captured_removal_chooses_the_eager_words() -> None:
    """Until rounding has added up: a word that two runs choose differently sends them apart."""
    captured, eager = (epochs_by(captures, OBJECTIVE)[:2] for captures in (True, False))
    torch.testing.assert_close(captured[0], eager[0], rtol=1e-3, atol=1e-4)
    few = [{name: values[:3] for name, values in each[1].items()} for each in (captured, eager)]
    torch.testing.assert_close(*few, rtol=1e-3, atol=1e-4)
