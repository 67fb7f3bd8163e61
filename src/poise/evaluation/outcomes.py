"""Outcomes: what a classifier said about every example of one test set, in a file of its own.

    predicted   the class with the largest logit                          [N]
    rank        the number of classes with a larger logit than the label's  [N]
    confidence  the largest probability                                   [N]
    nll         -log p(label)                                             [N]
    brier       sum_l (p_l - [l = label])^2                               [N]

A file appears whole and holds a digest of its arrays and what it was made of, so that a stopped evaluation continues
after its last complete test set, and a damaged file counts as missing.

Axes: N examples, B of a batch, L classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poise.errors import AuditError
from poise.io.files import new_file


@dataclass(frozen=True, eq=False)
class Outcomes:
    """One row per example, in the order of the evaluated examples."""

    predicted: np.ndarray
    rank: np.ndarray
    confidence: np.ndarray
    nll: np.ndarray
    brier: np.ndarray

    def __len__(self) -> int:
        return len(self.predicted)

    @property
    def right(self) -> np.ndarray:
        """[N] whether the label has the largest logit; of several equal ones the first counts, as in argmax."""
        right: np.ndarray = self.rank == 0
        return right

    def arrays(self) -> dict[str, np.ndarray]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def digest(self) -> str:
        return sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in self.arrays().values())).hexdigest()


def outcomes_of(logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """The rows of a batch from logits [B, L] and labels [B]; AuditError for logits that are not finite."""
    if not bool(logits.isfinite().all()):
        place = int((~logits.isfinite()).any(1).nonzero()[0])
        raise AuditError(f"the logits of image {place} of a batch are not finite: nothing can be said about its class")
    each = labels[:, None]
    log_p = logits.double().log_softmax(1)
    p, own = log_p.exp(), log_p.gather(1, each)
    confidence, predicted = p.max(1)
    predicted = logits.argmax(1)
    rank = (logits > logits.gather(1, each)).sum(1)
    rank = torch.where((rank == 0) & (predicted != labels), 1, rank)
    return {
        "predicted": predicted.int().cpu(),
        "rank": rank.int().cpu(),
        "confidence": confidence.float().cpu(),
        "nll": (-own[:, 0]).float().cpu(),
        "brier": ((p * p).sum(1) - 2 * own[:, 0].exp() + 1).float().cpu(),
    }


def joined(parts: Sequence[Mapping[str, Tensor]]) -> Outcomes:
    """The outcomes of all batches of a test set."""
    return Outcomes(**{name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]})


def write_outcomes(path: Path, outcomes: Outcomes, facts: Mapping[str, Any]) -> None:
    """Write a file with the outcomes, and `facts` about what they were made of."""
    from safetensors.numpy import save

    header = {"poise": json.dumps({**facts, "digest": outcomes.digest()})}
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as stream:
        stream.write(save(outcomes.arrays(), header))


def read_outcomes(path: Path) -> tuple[Outcomes, dict[str, Any]] | None:
    """The outcomes and facts of a file; None if it is missing or damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            facts = json.loads((file.metadata() or {})["poise"])
            found = Outcomes(**{each.name: file.get_tensor(each.name) for each in fields(Outcomes)})
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return None
    return (found, facts) if facts.get("digest") == found.digest() else None
