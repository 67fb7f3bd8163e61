"""The radius at which answers turn: linear models against their exact distance, and what an attack may not do."""

from math import inf

import numpy as np
import pytest
import torch
from auditing import planted_models
from torch import Tensor, nn

import poise
from poise.auditing.compare import compare
from poise.auditing.reliance import Answers
from poise.auditing.result import _attacked
from poise.auditing.worst_case import LEAST, WorstCase, median, turning_radii, worst_case
from poise.reporting.audit_page import interval_cell


class Linear(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.head = nn.Linear(weight.shape[1], len(weight))
        self.head.weight.data, self.head.bias.data = weight, bias

    def embed(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))


def linear(classes: int, count: int = 12) -> tuple[Linear, Tensor]:
    draw = torch.Generator().manual_seed(classes)
    return (
        Linear(torch.randn(classes, 20, generator=draw), torch.randn(classes, generator=draw)),
        torch.randn(count, 20, generator=draw),
    )


def exact(model: Linear, x: Tensor, dual: float) -> Tensor:
    """The least over the other classes of |margin| / ||w_a - w_c||_dual."""
    logits, weight = model(x).detach(), model.head.weight.detach()
    answers = logits.argmax(1)
    gaps = (logits.gather(1, answers[:, None]) - logits) / torch.linalg.vector_norm(
        weight[answers][:, None] - weight[None], dual, dim=2
    )
    return gaps.scatter(1, answers[:, None], inf).amin(1)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize(("p", "dual"), [(inf, 1.0), (2.0, 2.0)])
def test_the_radius_of_a_linear_model_is_its_exact_distance(classes: int, p: float, dual: float) -> None:
    model, x = linear(classes)
    found, wanted = turning_radii(model, x, model(x).argmax(1), p), exact(model, x, dual)
    assert (found >= wanted * (1 - 1e-4)).all()  # never below the exact distance
    torch.testing.assert_close(found.median(), wanted.median(), rtol=0.02, atol=0)
    assert (found <= wanted * 1.25).all()  # the class that is nearest at first may not stay so


def test_pictures_stay_in_their_range() -> None:
    """Within [0, 1] the radius r solves sum |w_j| min(r, room_j) = margin; without the range it is shorter."""
    draw = torch.Generator().manual_seed(0)
    weight = torch.randn(2, 16, generator=draw)
    x = torch.rand(12, 1, 4, 4, generator=draw) ** 4  # many values near 0
    model = Linear(weight, torch.tensor([4.0, 0.0]))
    logits = model(x).detach()
    answers = logits.argmax(1)
    found = turning_radii(model, x, answers, inf, (0.0, 1.0))
    slope = (weight[0] - weight[1]) * torch.where(answers == 0, 1, -1)[:, None]
    room = torch.where(slope > 0, x.flatten(1), 1 - x.flatten(1))
    margin = (logits[:, 0] - logits[:, 1]).abs()
    low, high = torch.zeros(12), torch.ones(12)
    for _ in range(30):
        middle = (low + high) / 2
        enough = (slope.abs() * room.minimum(middle[:, None])).sum(1) >= margin
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    reachable = (slope.abs() * room).sum(1) > margin
    assert reachable.any() and (found[~reachable] == inf).all()
    torch.testing.assert_close(found[reachable], high[reachable], rtol=0.03, atol=0)
    assert (turning_radii(model, x, answers, inf) <= found * 1.001).all()


def test_no_attack_turns_a_constant_model() -> None:
    model = Linear(torch.zeros(3, 20), torch.tensor([1.0, 0.0, 0.0]))
    x = torch.randn(LEAST, 20)
    for each in worst_case(Answers(model, x, np.zeros(LEAST, int), model(x).detach().numpy()), 2**28):
        assert np.isinf(each.radii).all()
        assert each.as_dict()["radius"]["value"] is None


def test_the_interval_of_a_median_covers_it() -> None:
    draws = np.random.default_rng(0).exponential(size=(2000, 16))
    held = [median(row) for row in draws]
    assert 0.95 <= np.mean([each.low <= np.log(2) <= each.high for each in held]) <= 0.99
    assert np.isnan(median(np.arange(5.0)).low)  # five values cannot give 95 %


def test_an_audit_has_it_and_a_comparison_pairs_it() -> None:
    sample = planted_models.batches(planted_models.pictures(100, 3))
    plain, hardened = (
        poise.audit(planted_models.trained(name), sample, corruptions="none", probes=2)
        for name in ("one", "adversarial")
    )
    entries = plain.facts["worst_case"]
    assert [each["norm"] for each in entries] == ["linf", "l2"]
    assert 0 < entries[0]["radius"]["low"] <= entries[0]["radius"]["value"] < entries[1]["radius"]["value"]
    assert "no certificate" in str(plain)
    both = compare(plain, hardened)
    assert both.differences["linf_radius"]["mean"] > 0
    assert both.differences["linf_radius"]["better"] == 1
    assert both.differences["linf_radius"]["examples"] == len(entries[0]["radii"])


def test_it_can_be_left_out_and_does_not_apply_to_tokens() -> None:
    sample = planted_models.batches(planted_models.table(20, 3, "none"))
    found = poise.audit(planted_models.trained("table none"), sample, worst_case=False)
    assert found.facts["worst_case"] == [] and "no certificate" not in str(found)
    words = planted_models.batches(planted_models.sentences(20, 3, "none"))
    assert poise.audit(planted_models.trained("reader bag none"), words).facts["worst_case"] == []


def test_the_model_keeps_no_gradients() -> None:
    model, x = linear(3)
    turning_radii(model, x, model(x).argmax(1), 2.0)
    assert all(p.grad is None for p in model.parameters())


def test_an_interval_without_an_upper_end_is_said_so() -> None:
    """Where no attack turns some answers, the interval of the median may have no end."""
    held = WorstCase("linf", np.array([0.1] * 4 + [0.2] * 3 + [inf] * 3)).as_dict()
    assert held["radius"]["low"] == 0.1 and held["radius"]["high"] is None
    assert _attacked([held])[2].endswith("0.200   0.100 or more")
    assert interval_cell(held["radius"]) == ".200 [.100, ∞)"
