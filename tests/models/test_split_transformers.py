"""Hugging Face classifiers, built from their configurations: no download."""

import pytest
import torch
from toys import sentences

from poise import FCL, InfoNCE, RemovalSensitivity, RemovalUtility, Remove, Tokens, TopBottomFraction, split

transformers = pytest.importorskip("transformers", reason="pip install '.[transformers]'")

TINY = {"vocab_size": 20, "num_labels": 3, "max_position_embeddings": 32}
ENCODER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
CONFIGS = {
    "bert": {**TINY, **ENCODER},
    "roberta": {**TINY, **ENCODER},
    "distilbert": {**TINY, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 16},
    "gpt2": {
        "vocab_size": 20,
        "num_labels": 3,
        "n_positions": 32,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "pad_token_id": 0,
    },
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_head_is_found_and_gives_the_model_s_logits(kind: str) -> None:
    config = transformers.AutoConfig.for_model(kind, **CONFIGS[kind])
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    classifier, x = split(model), sentences([6, 4, 5])
    expected = model(input_ids=x.ids, attention_mask=x.mask.long()).logits
    torch.testing.assert_close(classifier.head(classifier.embed(x)), expected)
    assert RemovalSensitivity()(classifier, x).shape == x.ids.shape


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_removal_by_deletion_is_the_shorter_sentence(kind: str) -> None:
    """Also for a model that classifies from its last token, which it finds by the padding id."""
    config = transformers.AutoConfig.for_model(kind, **CONFIGS[kind])
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    x = sentences([6, 4])
    for position in range(4):
        chosen = torch.zeros_like(x.mask)
        chosen[:, position] = True
        removed = split(model)(x.without(chosen, "delete"))
        for row, length in enumerate([6, 4]):
            ids = torch.cat([x.ids[row, :position], x.ids[row, position + 1 : length]])[None]
            expected = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
            torch.testing.assert_close(removed[row], expected)


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "camembert", "mpnet", "ibert", "data2vec-text"])
@pytest.mark.parametrize("pad", [0, 1])
def test_a_masked_token_moves_no_other_one(kind: str, pad: int) -> None:
    """Nor where the model counts positions by its padding id, 1: nothing but the first token's attention changes."""
    config = transformers.AutoConfig.for_model(kind, **TINY, **ENCODER, pad_token_id=1)
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    x = sentences([6, 4, 5])
    x = Tokens((x.ids % 17 + 2).where(x.mask, 1), x.mask, pad=pad)
    y = torch.tensor([0, 1, 2])
    whole = torch.nn.functional.cross_entropy(split(model)(x), y, reduction="none")
    u = RemovalUtility()(split(model), x, y)
    for position in range(1, 4):
        mask = x.mask.clone()
        mask[:, position] = False
        logits = model(input_ids=x.ids, attention_mask=mask.long()).logits
        expected = (torch.nn.functional.cross_entropy(logits, y, reduction="none") - whole).abs()
        torch.testing.assert_close(u[:, position], expected, rtol=1e-4, atol=1e-6)


def test_a_model_that_counts_positions_by_the_mask_keeps_them() -> None:
    sizes = {"hidden_size": 16, "ffn_dim": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.OPTConfig(**TINY, **sizes, word_embed_proj_dim=16, pad_token_id=1, init_std=0.5)
    model = transformers.OPTForSequenceClassification(config).eval()
    ids, y = torch.randint(2, 20, (1, 8)), torch.tensor([0])
    x = Tokens(ids, torch.ones_like(ids), pad=1)
    u = RemovalUtility()(split(model), x, y)
    whole = torch.nn.functional.cross_entropy(model(input_ids=ids).logits, y)
    for position in range(1, 7):
        mask = torch.ones_like(ids)
        mask[0, position] = 0
        logits = model(input_ids=ids, attention_mask=mask, position_ids=torch.arange(8)[None]).logits
        expected = (torch.nn.functional.cross_entropy(logits, y) - whole).abs()
        torch.testing.assert_close(u[0, position], expected, rtol=1e-4, atol=1e-5)


def test_a_training_step() -> None:
    config = transformers.AutoConfig.for_model("bert", **CONFIGS["bert"])
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    objective = FCL(RemovalUtility(), TopBottomFraction(0.2), Remove(), InfoNCE(0.1), weight=0.5)
    loss = objective(split(model), sentences([6, 4, 5], special=True), torch.tensor([0, 1, 2]))
    loss.total.backward()
    assert loss.total.isfinite()
    assert all(p.grad is not None for p in model.parameters())
