"""Parts of the input: which the answers follow, which no answer depends on. Closed forms, and planted models."""

import numpy as np
import pytest
import torch
from auditing.planted_models import PLANTED, batches, names_of, pictures

import poise
from poise.auditing.blindness import blindness, read_alone
from poise.auditing.estimates.numbers import sign_test
from poise.auditing.reliance import Answers, influences, pairs_of, parts_of, region_name, with_word
from poise.auditing.verdict import from_parts
from poise.tokens import Tokens

pytestmark = pytest.mark.miniature


class Switch(torch.nn.Module):
    """Answers by one pixel block of a picture [1, 8, 8], or by its sum."""

    def __init__(self, rows: slice, columns: slice) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self.head = torch.nn.Linear(1, 2, bias=False)
        self.head.weight.data = torch.tensor([[-1.0], [1.0]])

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :, self.rows, self.columns].flatten(1).mean(1, keepdim=True) - 0.5


def answers(model: torch.nn.Module, x: torch.Tensor) -> Answers:
    logits = model.head(model.embed(x)).detach().double().numpy()
    return Answers(model, x, logits.argmax(1), logits)


def test_a_corner_that_decides_is_followed_always_and_the_rest_never() -> None:
    """The rest is unseen; it tells nothing, since it is noise."""
    held = answers(Switch(slice(6, 8), slice(6, 8)), torch.rand(200, 1, 8, 8))
    parts = parts_of(held.x, (), np.ones(64))
    first, *rest = influences(held, parts)
    assert first.name == "the lower right corner (rows 6 to 7, columns 6 to 7)" and first.box == (6, 6, 8, 8)
    assert first.followed.value == first.changed.value == 1.0 and first.share == 4 / 64
    assert all(each.changed.value == 0 for each in rest)
    assert first.without_accuracy_drop.value == pytest.approx(0.5, abs=0.1)  # its mean decides alike for all
    (unseen,) = blindness(held, parts, [first, *rest])
    assert unseen.share == pytest.approx(15 / 16) and unseen.alone.low < unseen.chance and unseen.errors == 0
    (found,) = from_parts([first, *rest])
    assert found.question and "in 100% [98%, 100%] of 200 pairs" in found.sentence


def test_a_window_between_the_cells_is_found() -> None:
    held = answers(Switch(slice(3, 5), slice(5, 7)), torch.rand(200, 1, 8, 8))
    found = influences(held, parts_of(held.x, (), np.ones(64)))
    assert max(found, key=lambda each: each.followed.value).box == (3, 5, 5, 7)


def test_a_half_that_is_not_seen_has_its_name_even_if_its_border_is_empty() -> None:
    x = torch.rand(200, 1, 8, 8)
    x[:, :, 6:, 6:] = 0
    held = answers(Switch(slice(0, 4), slice(0, 8)), x)
    parts = parts_of(x, (), np.ones(64))
    (unseen,) = blindness(held, parts, influences(held, parts))
    assert unseen.name == "the lower half of the picture" and unseen.share == pytest.approx(7 / 16)


def test_pairs_have_other_labels_and_other_answers() -> None:
    predicted, labels = np.random.default_rng(0).integers(3, size=(2, 50))
    rows, donors = pairs_of(predicted, labels)
    assert (predicted[rows] != predicted[donors]).all() and (labels[rows] != labels[donors]).all()
    assert len(set(rows.tolist())) == len(rows)
    assert not len(pairs_of(np.zeros(5, int), np.arange(5))[0])


def test_a_linear_model_reads_what_tells_and_no_more() -> None:
    draw = np.random.default_rng(0)
    labels = draw.integers(2, size=400)
    telling = (2 * labels - 1)[:, None] + draw.normal(size=(400, 3))
    right = [
        (read_alone(values, labels, 2).argmax(1) == labels).mean() for values in (telling, draw.normal(size=(400, 3)))
    ]
    assert right[0] > 0.9 and right[1] < 0.6
    assert sign_test(8, 10) == pytest.approx(56 / 1024) and sign_test(0, 5) == 1


def test_a_word_is_put_in_the_place_of_one_other() -> None:
    ids = torch.randint(1, 9, (20, 6))
    mask = torch.arange(6) < torch.arange(20)[:, None] % 5 + 1
    changed = with_word(Tokens(ids, mask), 99, seed=0)
    differs = changed.ids != ids
    assert (differs.sum(1) == 1).all() and (changed.ids[differs] == 99).all() and mask[differs].all()


def test_regions_have_names() -> None:
    shape = (3, 16, 16)
    assert region_name((0, 0, 4, 4), shape) == "the upper left corner (rows 0 to 3, columns 0 to 3)"
    assert region_name((6, 6, 10, 10), shape) == "the middle (rows 6 to 9, columns 6 to 9)"
    assert region_name((12, 6, 16, 10), shape) == "the lower part (rows 12 to 15, columns 6 to 9)"


@pytest.mark.parametrize("name", PLANTED)
def test_planted_models_get_the_right_verdict(name: str) -> None:
    """One sample each; benchmarks/audit_planted.py counts over twenty."""
    planted = PLANTED[name]
    sample = planted.sample(1000, 100)
    found = poise.audit(planted.model(), batches(sample), corruptions="none", names=names_of(sample))
    assert planted.is_right(found.names, found.verdict), found.verdict


def test_proofs_show_an_example_before_and_after() -> None:
    planted = PLANTED["sticker, intact"]
    found = poise.audit(planted.model(), batches(planted.sample(100, 3)), corruptions="none")
    (shown,) = [each for each in found.facts["proofs"] if "corner" in each["part"]]
    before, after = found.arrays["before_0"], found.arrays["after_0"]
    differs = np.argwhere((before != after).any(0))
    assert differs.min() >= 12 and shown["answer_after"] != shown["answer_before"]
    with torch.no_grad():
        said = planted.model()(torch.from_numpy(np.stack([before, after]))).argmax(1)
    assert said.tolist() == [shown["answer_before"], shown["answer_after"]]


def test_looking_at_parts_changes_nothing() -> None:
    model = PLANTED["wrong batch-norm statistics"].model().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    poise.audit(model, batches(pictures(60, 1)), corruptions="none")
    assert model.training and all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
