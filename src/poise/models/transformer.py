"""A 3-layer Transformer over word pieces (section 4.1): feed-forward 256, 8 heads, a linear classifier.

Pre-norm layers with learned positions; the embedding is the mean over present tokens. A token whose mask is False is
neither attended to nor averaged.

Axes: B sentences, T positions, H heads, E width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from poise.checks import require_number, require_whole
from poise.classifier import unknown_ids
from poise.tokens import Tokens

# Without cuDNN's kernel, which torch prefers on some devices: it plans for every shape, and sentence lengths vary.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Transformer(nn.Module):
    """Tokens [B, T] → z [B, width] → logits [B, num_classes]. The paper does not give the width.

    table_width  the width of the token embeddings if it differs: a linear map then leads from it to `width`.
    """

    def __init__(
        self,
        num_classes: int,
        vocabulary: int,
        width: int = 256,
        layers: int = 3,
        heads: int = 8,
        feed_forward: int = 256,
        max_length: int = 512,
        dropout: float = 0.1,
        table_width: int | None = None,
    ) -> None:
        super().__init__()
        sizes = {"num_classes": num_classes, "vocabulary": vocabulary, "width": width, "layers": layers, "heads": heads}
        sizes |= {"feed_forward": feed_forward, "max_length": max_length}
        for name, value in (sizes if table_width is None else {**sizes, "table_width": table_width}).items():
            require_whole(name, value, least=1)
        require_number("dropout", dropout, least=0, most=1)
        if width % heads:
            raise ValueError(f"width={width} must be a multiple of heads={heads}")
        self.token = nn.Embedding(vocabulary, table_width or width)
        self.widen = nn.Identity() if table_width is None else nn.Linear(table_width, width)
        self.position = nn.Embedding(max_length, width)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(_Layer(width, heads, feed_forward, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)
        for table in (self.token, self.position):
            nn.init.normal_(table.weight, std=0.02)

    def embed(self, x: Tokens) -> Tensor:
        """z [B, E]: the mean over present tokens; 0 for a sentence with none."""
        if not isinstance(x, Tokens):
            raise TypeError(f"x must be poise.Tokens, not a {type(x).__name__}")
        try:
            vectors = self.token(x.ids)
        except IndexError as error:
            raise unknown_ids(self, x, error) from error
        return self.encode(vectors, x.mask)

    def encode(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """z [B, E] from the tokens' vectors [B, T, E]; gradient-based sensitivity of a token differentiates this."""
        length = vectors.shape[1]
        if length > self.position.num_embeddings:
            raise ValueError(
                f"a sentence has {length} tokens, must have at most max_length={self.position.num_embeddings}"
            )
        hidden = self.dropout(self.widen(vectors) + self.position.weight[:length])  # [B, T, E]
        # A sentence without tokens attends to every position, so that no softmax is empty; the mean ignores them.
        attend = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]  # [B, 1, 1, T]
        for layer in self.layers:
            hidden = layer(hidden, attend)
        present = mask[:, :, None].to(hidden.dtype)
        z: Tensor = (self.norm(hidden) * present).sum(1) / present.sum(1).clamp(min=1)
        return z

    def forward(self, x: Tokens) -> Tensor:
        logits: Tensor = self.head(self.embed(x))
        return logits


def with_table(table: Tensor, trained: bool = True, **settings: Any) -> Transformer:
    """A Transformer whose token embeddings start as the given table [vocabulary, E]; frozen if `trained` is False.

    The rows are scaled to the deviation of the Transformer's own initial embeddings.
    """
    vocabulary, size = table.shape
    own = size == settings.get("width", 256)
    model = Transformer(vocabulary=vocabulary, table_width=None if own else size, **settings)
    with torch.no_grad():
        model.token.weight.copy_(table.float() * (model.token.weight.std() / table.float().std()))
    model.token.weight.requires_grad_(trained)
    return model


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, feed_forward), nn.Linear(feed_forward, width)
        self.dropout = nn.Dropout(dropout)
        self.heads = heads

    def forward(self, x: Tensor, attend: Tensor) -> Tensor:
        x = x + self.dropout(self._attention(self.norm1(x), attend))
        y: Tensor = x + self.dropout(self.contract(self.dropout(F.gelu(self.expand(self.norm2(x))))))
        return y

    def _attention(self, x: Tensor, attend: Tensor) -> Tensor:
        parts = self.query_key_value(x).unflatten(2, (3, self.heads, -1))  # [B, T, 3, H, E/H]
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each [B, H, T, E/H]
        dropout = self.dropout.p if self.training else 0.0
        with sdpa_kernel(_KERNELS):
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=attend, dropout_p=dropout)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out
