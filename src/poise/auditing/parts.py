"""The parts of the input: which carry the answers, which no answer depends on, and examples that show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from poise.auditing.blindness import Blindness, blindness
from poise.auditing.measure import Collected, Proof
from poise.auditing.reliance import (
    Answers,
    Influence,
    Part,
    influences,
    parts_of,
    proof_of,
    region,
    word_influences,
    word_proof,
)
from poise.classifier import Classifier
from poise.tokens import Input, Tokens, concatenate


@dataclass(frozen=True, eq=False)
class Parts:
    """What the answers to some examples make of the parts of the input.

    proofs  pairs of the name of a part and an example that shows it.
    """

    held: Answers | None = None
    influences: Sequence[Influence] = ()
    blind: Sequence[Blindness] = ()
    proofs: tuple[tuple[str, Proof], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "reliance": [each.as_dict() for each in self.influences],
            "blind": [each.as_dict() for each in self.blind],
        }


def look_at_parts(
    model: Classifier,
    collected: Collected,
    rows: dict[str, np.ndarray],
    names: Sequence[str],
    word: Callable[[int], str],
) -> Parts:
    """Swap and remove parts of the kept examples."""
    if not collected.inputs:
        return Parts()
    x = _all_of(collected.inputs)
    held = Answers(model, x, rows["label"][: len(x)], rows["logits"][: len(x)].astype(float))
    if isinstance(x, Tokens):
        found = word_influences(held, word)
        return Parts(held, found, (), _word_proofs(held, found))
    weights = rows["unit_utility"].mean(0) * rows["units"].std(0)
    parts = parts_of(x, names, weights)
    found = influences(held, parts)
    blind = blindness(held, parts, found) if found else []
    return Parts(held, found, blind, _proofs(held, parts, found, blind))


def _all_of(inputs: Sequence[Input]) -> Input:
    """All batches in one; sentences get the width of the longest."""
    if all(isinstance(part, Tensor) for part in inputs):
        return torch.cat(list(inputs))  # type: ignore[arg-type]
    whole, *rest = _of_one_width([part for part in inputs if isinstance(part, Tokens)])
    for part in rest:
        whole = cast(Tokens, concatenate(whole, part))
    return whole


def _of_one_width(batches: Sequence[Tokens]) -> list[Tokens]:
    width = max(part.ids.shape[1] for part in batches)

    def padded(flags: Tensor | None, by: int, value: int) -> Tensor | None:
        return None if flags is None else torch.nn.functional.pad(flags, (0, by), value=value)

    found = []
    for part in batches:
        by = width - part.ids.shape[1]
        ids, mask = (cast(Tensor, padded(*each)) for each in ((part.ids, by, part.pad), (part.mask, by, 0)))
        found.append(Tokens(ids, mask, padded(part.special, by, 0), part.pad, part.most, padded(part.gaps, by, 0)))
    return found


def _proofs(
    held: Answers, parts: Sequence[Part], found: Sequence[Influence], blind: Sequence[Blindness]
) -> tuple[tuple[str, Proof], ...]:
    """An example for the part that is followed most, and one for each that no answer depends on."""
    by_name = {part.name: part for part in parts}
    most = max(found, key=lambda each: each.followed.value, default=None)
    shown = []
    if most is not None:
        part = by_name.get(most.name)
        if part is None and most.box is not None:
            part = region(most.box, cast(Tensor, held.x).shape[1:])
        shown += [(most.name, proof_of(held, [part], follows=True))] if part is not None else []
    shown += [(each.name, proof_of(held, [by_name[name] for name in each.parts], follows=False)) for each in blind]
    return tuple((name, proof) for name, proof in shown if proof is not None)


def _word_proofs(held: Answers, found: Sequence[Influence]) -> tuple[tuple[str, Proof], ...]:
    most = max(found, key=lambda each: each.followed.value, default=None)
    if most is None or most.word is None:
        return ()
    proof = word_proof(held, *most.word)
    return () if proof is None else ((most.name, proof),)
