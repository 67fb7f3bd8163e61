"""Sentences on the device: every one once, in batches of similar length, by (seed, epoch) alone."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from poise.data.loading.sentences import PieceDropout, TokenLoader, tokens_of, widths_for


def pieces(lengths: list[int]) -> np.ndarray:
    """[CLS] words [SEP] of these lengths, every word another."""
    ids = np.zeros((len(lengths), max(lengths)), np.int32)
    for row, length in enumerate(lengths):
        ids[row, :length] = [101, *range(1000 + 100 * row, 998 + 100 * row + length), 102]
    return ids


LENGTHS = (np.random.RandomState(0).geometric(0.12, 130) + 2).tolist()


def loader(batch: int = 8, **options: object) -> TokenLoader:
    return TokenLoader(tokens_of(pieces(LENGTHS)), torch.arange(130) % 2, batch, **options)


def test_tokens_have_special_ends() -> None:
    x = tokens_of(pieces([5, 3]))
    assert x.mask.sum(1).tolist() == [5, 3]
    assert x.special.tolist() == [[True, False, False, False, True], [True, False, True, False, False]]


@pytest.mark.parametrize("longest", [3, 4, 5, 17, 66, 512])
def test_widths_grow_slowly_up_to_the_longest(longest: int) -> None:
    widths = widths_for(longest)
    assert list(widths) == sorted(set(widths)) and widths[-1] == max(longest, 4)
    assert all(wide <= max(narrow + 2, 1.25 * narrow) for narrow, wide in pairwise(widths))


def test_an_epoch_has_every_sentence_once_whole_and_hardly_padded() -> None:
    data = loader(batch=8)
    batches = data.batches(3)
    assert batches.rows.shape == (16, 8) and len(batches.widths) == len(data) == 16
    assert len(set(batches.rows.flatten().tolist())) == 128
    computed = 0
    for rows, width in zip(batches.rows, batches.widths, strict=True):
        x, y = data.batch(rows, torch.Generator(), width)
        assert x.ids.shape == (8, width) and torch.equal(y, rows % 2)
        assert x.mask.sum(1).tolist() == [LENGTHS[row] for row in rows]
        assert x.features.sum(1).max() <= x.most == width - 2
        computed += x.ids.numel()
    assert computed < 1.35 * sum(LENGTHS) < 8 * 16 * max(LENGTHS) / 2


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    one, again, later, other = loader().batches(0), loader().batches(0), loader().batches(1), loader(seed=1).batches(0)
    assert torch.equal(one.rows, again.rows) and one.widths == again.widths
    assert not torch.equal(one.rows, later.rows) and not torch.equal(one.rows, other.rows)
    assert one.widths != tuple(sorted(one.widths))  # short sentences do not come first


def test_what_is_left_over_is_not_always_the_longest() -> None:
    data = loader()
    left = {row for epoch in range(12) for row in set(range(130)) - set(data.batches(epoch).rows.flatten().tolist())}
    assert len(left) > 12 and min(LENGTHS[row] for row in left) < 10


def test_piece_dropout_removes_features_alone_at_its_rate() -> None:
    x = tokens_of(pieces([40] * 200))
    out = PieceDropout(0.3)(x, torch.Generator().manual_seed(0))
    assert torch.equal(out.special & out.mask, x.special)
    assert out.features.sum() / x.features.sum() == pytest.approx(0.7, abs=0.02)
    assert (out.ids[~out.mask] == 0).all() and torch.equal(out.ids[out.mask], x.ids[out.mask])
    assert torch.equal(PieceDropout(0.0)(x).mask, x.mask)
    with pytest.raises(ValueError, match="share=1"):
        PieceDropout(1.0)


def test_wrong_settings_are_named() -> None:
    with pytest.raises(TypeError, match="130 sentences need one label each"):
        TokenLoader(tokens_of(pieces(LENGTHS)), torch.zeros(3), 8)
    with pytest.raises(ValueError, match="batch_size=200 must lie between 1 and the 130 sentences"):
        loader(batch=200)
