import dataclasses

import pytest
import torch
from toys import sentences

from poise.tokens import Tokens, concatenate, shape_of, valid_features, without_each


def test_features_are_neither_padding_nor_special() -> None:
    x = Tokens(
        torch.tensor([[101, 7, 8, 102, 0]]),
        torch.tensor([[1, 1, 1, 1, 0]]),
        torch.tensor([[1, 0, 0, 1, 1]]),
    )
    assert x.features.tolist() == [[False, True, True, False, False]]
    assert valid_features(x).tolist() == x.features.tolist()
    assert valid_features(torch.rand(2, 3)) is None


def test_masking_keeps_positions_and_deletion_closes_up() -> None:
    x = Tokens(torch.tensor([[5, 6, 7, 8, 0]]), torch.tensor([[1, 1, 1, 1, 0]]), torch.tensor([[1, 0, 0, 1, 0]]))
    chosen = torch.tensor([[False, True, False, False, False]])
    masked = x.without(chosen, "mask")
    assert masked.ids.tolist() == [[5, 0, 7, 8, 0]]
    assert masked.mask.tolist() == [[True, False, True, True, False]]
    closed = x.without(chosen, "delete")
    assert closed.ids[closed.mask].tolist() == [5, 7, 8]
    assert closed.mask.tolist() == [[True, True, True, False, False]]
    assert closed.special.tolist()[0][:3] == [True, False, True]
    assert x.mask.tolist() == [[True, True, True, True, False]]


def test_what_was_removed_leaves_no_id_behind_and_left_padding_closes_to_the_right() -> None:
    x = Tokens(torch.tensor([[9, 9, 5, 6, 7]]), torch.tensor([[0, 0, 1, 1, 1]]), pad=9)
    chosen = torch.tensor([[False, False, False, True, False]])
    closed = x.without(chosen, "delete")
    assert closed.ids.tolist() == [[9, 9, 9, 5, 7]]
    assert closed.mask.tolist() == [[False, False, False, True, True]]
    assert x.without(torch.zeros_like(chosen), "delete").ids.tolist() == x.ids.tolist()
    with pytest.raises(ValueError, match="how='masked' must be one of 'mask', 'delete'"):
        x.without(chosen, "masked")


@pytest.mark.parametrize("size", [1, 3, 100])
def test_without_each_removes_every_feature_once(size: int) -> None:
    x = sentences([4, 6, 3], special=True)
    seen = []
    for rows, positions, shorter in without_each(x, "mask", size):
        assert len(shorter) <= size
        assert torch.equal(shorter.mask.sum(1), x.mask[rows].sum(1) - 1)
        seen += list(zip(rows.tolist(), positions.tolist(), strict=True))
    assert sorted(seen) == [tuple(pair) for pair in x.features.nonzero().tolist()]


def test_concatenate_joins_batches() -> None:
    x = sentences([3, 2], special=True)
    both = concatenate(x, x)
    assert shape_of(both) == (4, 3)
    assert torch.equal(both.special, torch.cat([x.special, x.special]))
    assert shape_of(concatenate(torch.rand(2, 5), torch.rand(3, 5))) == (5, 5)


@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [
        (torch.rand(2, 3), torch.ones(2, 3), "ids must be integers"),
        (torch.ones(3, dtype=torch.long), torch.ones(3), "ids must be integers"),
        (torch.ones(2, 3, dtype=torch.long), torch.ones(2, 4, dtype=torch.bool), "mask must be booleans"),
    ],
)
def test_wrong_tensors_are_refused(ids: torch.Tensor, mask: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tokens(ids, mask)


@pytest.mark.parametrize("how", ["mask", "delete"])
def test_a_known_most_removes_the_same_tokens_with_shapes_that_values_do_not_decide(how: str) -> None:
    x = sentences([5, 8, 3], special=True)
    known = dataclasses.replace(x, most=7)
    exact = {(r, p): shorter for r, p, shorter in singles(x, how)}
    found = {(r, p): shorter for r, p, shorter in singles(known, how)}
    assert len(found) == 3 * 7 and set(exact) <= set(found)
    for (row, place), shorter in found.items():
        expected = exact[row, place] if (row, place) in exact else [x.ids[row].tolist(), x.mask[row].tolist()]
        assert shorter == expected


def singles(x: Tokens, how: str) -> list[tuple[int, int, list[list[int]]]]:
    return [
        (row, place, [ids.tolist(), mask.tolist()])
        for rows, places, shorter in without_each(x, how, 4)
        for row, place, ids, mask in zip(rows.tolist(), places.tolist(), shorter.ids, shorter.mask, strict=True)
    ]
