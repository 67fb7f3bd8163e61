"""Hugging Face's classifiers from tiny configurations: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from poise import Tokens

TEXT = {"vocab_size": 20, "num_labels": 3, "max_position_embeddings": 32, "pad_token_id": 0}
ENCODER = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
PICTURE = {"image_size": 8, "patch_size": 4, "num_channels": 3, "num_labels": 3}
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {**TEXT, **ENCODER},
    "roberta": {**TEXT, **ENCODER},
    "xlm-roberta": {**TEXT, **ENCODER},
    "mpnet": {**TEXT, **ENCODER},
    "electra": {**TEXT, **ENCODER, "embedding_size": 4},
    "albert": {**TEXT, **ENCODER, "embedding_size": 4},
    "deberta-v2": {**TEXT, **ENCODER, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "distilbert": {**TEXT, "dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 8},
    "gpt2": {"vocab_size": 20, "num_labels": 3, "n_positions": 32, "n_embd": 8, "n_layer": 1, "n_head": 2},
    "llama": {**TEXT, **ENCODER, "num_key_value_heads": 2},
    "bart": {**TEXT, "d_model": 8, "eos_token_id": 2, "decoder_start_token_id": 2, "bos_token_id": 1},
    "t5": {"vocab_size": 20, "num_labels": 3, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2},
    "vit": {**ENCODER, **PICTURE},
    "swin": {**PICTURE, "patch_size": 2, "embed_dim": 4, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2},
    "convnext": {**PICTURE, "patch_size": 2, "hidden_sizes": [4, 6], "depths": [1, 1], "num_stages": 2},
    "wav2vec2": {**ENCODER, "num_labels": 3, "classifier_proj_size": 6, "num_conv_pos_embeddings": 4},
}
CONFIGS["wav2vec2"] |= {"conv_dim": [4, 4], "conv_stride": [4, 2], "conv_kernel": [6, 3], "num_feat_extract_layers": 2}
CONFIGS["wav2vec2"] |= {"num_conv_pos_embedding_groups": 2}
CONFIGS["gpt2"]["pad_token_id"] = 0
CONFIGS["t5"] |= {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0}
CONFIGS["bart"] |= {f"{part}_{what}": 1 for part in ("encoder", "decoder") for what in ("layers", "attention_heads")}
CONFIGS["bart"] |= {"encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "forced_eos_token_id": None}


def hugging_face(kind: str, task: str = "SequenceClassification") -> nn.Module:
    transformers = pytest.importorskip("transformers", reason="pip install '.[transformers]'")
    config = transformers.AutoConfig.for_model(kind, **CONFIGS[kind])
    model: nn.Module = getattr(transformers, f"AutoModelFor{task}").from_config(config)
    return model.train()


def sounding(freeze: bool = False) -> nn.Module:
    model: Any = hugging_face("wav2vec2", "AudioClassification")
    if freeze:
        model.freeze_feature_encoder()
    return model


def ended(eos: int = 2) -> Tokens:
    """Sentences that end with the one token that some models look for."""
    lengths = torch.tensor([6, 4, 5, 6])
    places = torch.arange(6)[None, :]
    mask, last = places < lengths[:, None], places == lengths[:, None] - 1
    ids = torch.randint(3, 20, mask.shape).where(mask, torch.tensor(0)).masked_fill(last, eos)
    return Tokens(ids, mask, last)


def wave() -> Tensor:
    return torch.randn(4, 200)
