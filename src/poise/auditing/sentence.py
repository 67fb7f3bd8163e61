"""Sentences to show: utility and sensitivity of their tokens, for the class that the model predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from poise.auditing.inputs.texts import Tokenizer
from poise.auditing.result import Audit
from poise.classifier import Classifier, evaluating
from poise.features.sensitivity import RemovalSensitivity, spearman
from poise.features.utility import RemovalUtility

TYPED = "typed in"


def with_sentences(audit: Audit, model: Classifier, tokenizer: Tokenizer, sentences: Sequence[str]) -> Audit:
    """The audit with a token strip for each sentence, before its own examples; utility is for the predicted class."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    entries: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for place, sentence in enumerate(sentences):
        entry, held = _strip(model, tokenizer, sentence, device)
        entries.append(entry)
        arrays |= {f"{part}_{place}": values for part, values in zip("xus", held, strict=True)}
    for number in range(len(audit.facts["telling"])):
        arrays |= {f"{part}_{len(entries) + number}": audit.arrays[f"{part}_{number}"] for part in "xus"}
    return replace(audit, facts={**audit.facts, "telling": entries + audit.facts["telling"]}, arrays=arrays)


def _strip(
    model: Classifier, tokenizer: Tokenizer, sentence: str, device: torch.device
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    x = tokenizer.encode([sentence]).to(device)
    with evaluating(model), torch.no_grad():
        p = model(x).float().softmax(1)
    label = p.argmax(1)
    u, s = RemovalUtility()(model, x, label), RemovalSensitivity()(model, x)
    rho = float(spearman(u, s, x.features)[0])
    there = x.mask[0].cpu()
    ids, feature = x.ids[0].cpu()[there], x.features[0].cpu()[there]
    entry = {
        "why": TYPED,
        "example": -1,
        "source": None,
        "label": int(label),
        "predicted": int(label),
        "confidence": float(p.max()),
        "observed_rank_correlation": rho if rho == rho else None,
        "near_gain": None,
        "far_gain": None,
        "words": [tokenizer.word(int(word)) for word in ids],
        "feature": [bool(each) for each in feature],
    }
    return entry, (ids.numpy(), *(part[0].float().cpu()[there].numpy() for part in (u, s)))
