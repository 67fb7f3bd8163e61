"""What `poise audit` is given: its words, the models they mean, and the data fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from poise.auditing.batches import Batch
from poise.auditing.errors import AuditError
from poise.auditing.fitting import in_classes_of, sample
from poise.auditing.models import Loaded, load_model
from poise.auditing.pictures import open_pictures
from poise.auditing.summing import Names
from poise.auditing.texts import Tokenizer, is_text, open_texts, open_tokenizer


@dataclass(frozen=True)
class Order:
    """The words of the command, as they were given."""

    models: list[str]
    data: str
    out: Path
    examples: int | None
    weights: list[Path] | None
    head: str | None
    network: str | None
    normalize: str | None
    size: int | None
    labels: Path | None
    classes: Path | None
    metadata: Path | None
    tokenizer: Path | None
    text_column: str | None
    label_column: str | None
    max_length: int
    sentence: list[str] | None
    sentences: Path | None
    slices: list[str] | None
    reference: str | None
    beside: list[Path] | None
    corruptions: str
    probes: int
    strength: list[float] | None
    fail_if: list[str] | None
    device: str
    seed: int
    trust: bool
    json: bool


@dataclass(frozen=True, eq=False)
class Data:
    """What every model of the command sees."""

    batches: Callable[[], Iterable[Batch]]
    names: Names
    count: int
    tokenizer: Tokenizer | None = None


@dataclass(frozen=True, eq=False)
class Ready:
    """A model on its device, with the one whose utility is taken for the truth."""

    loaded: Loaded
    reference: Loaded | None

    def to(self, device: Any) -> Ready:
        for each in (self.loaded, self.reference):
            if each is not None:
                each.model.to(device)
        return self


def load(order: Order, number: int) -> Ready:
    weights = order.weights[number] if order.weights else None
    ways: dict[str, Any] = {"network": order.network, "normalize": order.normalize, "trust": order.trust}
    loaded = load_model(order.models[number], weights=weights, head=order.head, **ways)
    reference = None if order.reference is None else load_model(order.reference, weights=None, head=None, **ways)
    twice = len(order.models) == 2 and (weights is not None or order.models[0] == order.models[1])
    return Ready(
        replace(loaded, name=f"{loaded.name} {weights.stem if weights else number + 1}") if twice else loaded, reference
    )


def data_for(order: Order, ready: Ready, wanted: int) -> Data:
    loaded = ready.loaded
    names = lines_of(order.classes) if order.classes is not None else list(loaded.classes)
    if is_text(order.data):
        place = order.tokenizer or loaded.tokenizer
        if place is None:
            raise AuditError("sentences need a tokenizer: --tokenizer with a tokenizer.json, vocab.txt or folder")
        tokenizer = open_tokenizer(place, order.max_length)
        texts = open_texts(order.data, order.text_column, order.label_column, names)
        rows = sample(len(texts), wanted, order.seed)
        texts = replace(texts, columns=_kept(texts.columns, order.slices))
        called = Names(data=texts.name, classes=texts.classes, decode=tokenizer.word)
        return Data(lambda: texts.batches(rows, tokenizer), called, len(rows), tokenizer)
    pictures = open_pictures(order.data, order.labels, order.metadata, order.size or loaded.size)
    probe = next(iter(pictures.batches([0])))
    device = next(loaded.model.parameters()).device
    num_classes = _outputs(loaded.model, probe.x.to(device))
    pictures = in_classes_of(pictures, names, num_classes)
    pictures = replace(pictures, columns=_kept(pictures.columns, order.slices))
    rows = sample(len(pictures), wanted, order.seed)
    called = Names(data=pictures.name, classes=pictures.classes, rare=pictures.rare)
    return Data(lambda: pictures.batches(rows), called, len(rows))


def _outputs(model: Any, x: Any) -> int:
    try:
        with torch.no_grad():
            return int(model(x).shape[1])
    except RuntimeError as error:
        raise AuditError(f"the model cannot take pictures {list(x.shape[1:])}: {str(error).splitlines()[0]}") from None


def _kept(columns: dict[str, list[str]], wanted: list[str] | None) -> dict[str, list[str]]:
    if wanted is None:
        return columns
    for name in wanted:
        if name not in columns:
            raise AuditError(f"no column is called {name!r}: there are {', '.join(columns) or 'none'}")
    return {name: columns[name] for name in wanted}


def lines_of(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from None
