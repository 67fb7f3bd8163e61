"""Contrastive losses: pull z+ close, push z- away.

    InfoNCE (Eq. 6)    - log  e^{sim(z_i, z_i+)/tau} / ( e^{sim(z_i, z_i+)/tau} + sum_{N_i} e^{sim(z_i, .)/tau} ),
                       N_i = { z_i- } and { z_j : j != i },   sim = cosine
    Margin  (Eq. 9)    dist(z_i, z_i+)^2 + max(0, gamma - dist(z_i, z_i-))^2

Both return one number for the batch. "mean" divides the sum over the examples by B, so that lambda weighs an example's
contrast against its own cross-entropy at every batch size. "sum" follows Algorithm 1 exactly, and equals the mean with
lambda * B. An example that does not take part adds 0 and still counts in B.

Axes: B examples of this process, N examples of all processes, E embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from poise.checks import require_choice, require_number
from poise.distributed import gather, world_size

Reduction: TypeAlias = Literal["mean", "sum"]


class Contrast(Protocol):
    def __call__(
        self,
        z: Tensor,
        near: Tensor,
        far: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        taking_part: Tensor | None = None,
    ) -> Tensor:
        """z, near, far [B, E] → scalar.

        far          None: the loss has no high-utility view.
        keep         [B] True for examples whose high-utility view stays in the loss; None: all.
        taking_part  [B] True for examples that have a loss (all examples are negatives of the others); None: all.
        """


@dataclass(frozen=True)
class InfoNCE:
    """Eq. 6, in O(B N) time and memory, with the examples of all processes as negatives.

    >>> alike = torch.ones(4, 3)  # 3 negatives that cannot be told apart
    >>> f"{InfoNCE(temperature=0.1)(alike, alike):.4f} = log(1 + 3)"
    '1.3863 = log(1 + 3)'
    """

    temperature: float
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        require_number("temperature", self.temperature, above=0)
        require_choice("reduction", self.reduction, "mean", "sum")

    def __call__(
        self,
        z: Tensor,
        near: Tensor,
        far: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        taking_part: Tensor | None = None,
    ) -> Tensor:
        _require_fitting(z, near, far, keep, taking_part)
        with torch.autocast(z.device.type, enabled=False):
            z, near = _unit(z), _unit(near)
            pool, own = gather(z)  # [N, E], [B]
            others = (z @ pool.T).scatter(1, own[:, None], -torch.inf)  # [B, N]
            similarities = [(z * near).sum(1, keepdim=True), others]
            if far is not None:
                own_far = (z * _unit(far)).sum(1, keepdim=True)
                similarities.append(own_far if keep is None else own_far.masked_fill(~keep[:, None], -torch.inf))
            logits = torch.cat(similarities, dim=1) / self.temperature  # [B, 1 + N] or [B, 2 + N]; column 0 is z+
            losses = F.cross_entropy(logits, torch.zeros_like(own), reduction="none")
        return _reduce(losses, taking_part, self.reduction)


@dataclass(frozen=True)
class Margin:
    """Eq. 9, a margin on the distances of the views.

    distance="unit" is the Euclidean distance of embeddings scaled to length 1. It lies in [0, 2]; gamma=1 corresponds
    to 60 degrees. distance="euclidean" does not scale the embeddings.
    """

    gamma: float = 1.0
    distance: Literal["unit", "euclidean"] = "unit"
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        require_number("gamma", self.gamma, above=0)
        require_choice("reduction", self.reduction, "mean", "sum")
        require_choice("distance", self.distance, "unit", "euclidean")

    def __call__(
        self,
        z: Tensor,
        near: Tensor,
        far: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        taking_part: Tensor | None = None,
    ) -> Tensor:
        _require_fitting(z, near, far, keep, taking_part)
        with torch.autocast(z.device.type, enabled=False):
            scale = _unit if self.distance == "unit" else _flat
            z = scale(z)
            losses = (z - scale(near)).square().sum(1)
            if far is not None:
                push = (self.gamma - torch.linalg.vector_norm(z - scale(far), dim=1)).clamp(min=0).square()
                losses = losses + (push if keep is None else push.where(keep, 0))
        return _reduce(losses, taking_part, self.reduction)


def _require_fitting(
    z: Tensor, near: Tensor, far: Tensor | None, keep: Tensor | None, taking_part: Tensor | None
) -> None:
    """Raise for arguments that would broadcast to a different loss."""
    for name, each in {"z": z, "near": near, "far": far}.items():
        if (each is not None or name != "far") and not (isinstance(each, Tensor) and each.is_floating_point()):
            raise TypeError(f"{name} must be a tensor of floats, got {_kind(each)}")
        if each is not None and (each.ndim < 2 or each.shape != z.shape):
            raise ValueError(f"{name} has shape {list(each.shape)}, must be embeddings [B, E] as z, {list(z.shape)}")
    if not len(z):
        raise ValueError(f"z has shape {list(z.shape)}, must have at least one example")
    for name, mask in {"keep": keep, "taking_part": taking_part}.items():
        if mask is not None and not (isinstance(mask, Tensor) and mask.dtype == torch.bool):
            raise TypeError(f"{name} must be a tensor of booleans [{len(z)}], got {_kind(mask)}")
        if mask is not None and mask.shape != z.shape[:1]:
            raise ValueError(f"{name} has shape {list(mask.shape)}, must have one boolean per example, [{len(z)}]")


def _kind(value: object) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def _reduce(losses: Tensor, taking_part: Tensor | None, reduction: Reduction) -> Tensor:
    total = (losses if taking_part is None else losses.where(taking_part, 0)).sum()
    # DDP averages gradients over processes: a sum must be multiplied by their number.
    return total / len(losses) if reduction == "mean" else total * world_size()


def _unit(z: Tensor) -> Tensor:
    """z [B, *] as unit vectors [B, E] in float32 or better; a vector of norm 0 stays 0, with a finite gradient."""
    z = _flat(z)
    norm = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    unit: Tensor = z / norm.where(norm > 1e-12, 1.0)
    return unit


def _flat(z: Tensor) -> Tensor:
    return z.flatten(1).to(torch.promote_types(z.dtype, torch.float32))
