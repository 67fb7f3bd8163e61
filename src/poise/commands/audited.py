"""What `poise audit` is given: its words, and the models they mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from poise.auditing.errors import AuditError
from poise.auditing.models import Loaded, load_model, normalization
from poise.auditing.plan import PROBES
from poise.auditing.texts import is_text

LENGTH = 128  # tokens of a sentence


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
    quiet: bool
    json: bool


@dataclass(frozen=True, eq=False)
class Ready:
    """A model on its device, with the one whose utility is taken for the truth."""

    loaded: Loaded
    reference: Loaded | None

    @property
    def each(self) -> list[Loaded]:
        return [self.loaded] if self.reference is None else [self.loaded, self.reference]

    def to(self, device: Any) -> Ready:
        for each in self.each:
            each.model.to(device)
        return self


def load(order: Order, number: int) -> Ready:
    weights = order.weights[number] if order.weights else None
    normalize = None if is_text(order.data) else order.normalize
    ways: dict[str, Any] = {"network": order.network, "normalize": normalize, "trust": order.trust}
    loaded = load_model(order.models[number], weights=weights, head=order.head, **ways)
    reference = None if order.reference is None else load_model(order.reference, weights=None, head=None, **ways)
    twice = len(order.models) == 2 and (weights is not None or order.models[0] == order.models[1])
    return Ready(
        replace(loaded, name=f"{loaded.name} {weights.stem if weights else number + 1}") if twice else loaded, reference
    )


def require_sense(order: Order) -> None:
    """An AuditError for a word that means nothing, whatever the model and the data are."""
    if order.normalize is not None:
        normalization(order.normalize)
    most = 1.0 if is_text(order.data) else inf
    for strength in order.strength or []:
        if not 0 < strength <= most:
            what = "a sigma above 0" if most == inf else "a fraction of the tokens, above 0 and at most 1"
            raise AuditError(f"--strength {strength:g} must be {what}")


def ignored_options(order: Order, table: bool) -> list[str]:
    """A note on the options that mean nothing for these data."""
    of_pictures = {
        "--corruptions": order.corruptions not in ("fast", "none"),
        "--size": order.size is not None,
        "--normalize": order.normalize is not None,
    }
    of_tensors = {"--labels": order.labels is not None, "--metadata": order.metadata is not None}
    of_text = {
        "--tokenizer": order.tokenizer is not None,
        "--text-column": order.text_column is not None,
        "--label-column": order.label_column is not None,
        "--max-length": order.max_length != LENGTH,
    }
    if is_text(order.data):
        what, options = "text", {**of_pictures, **of_tensors, "--probes": order.probes != PROBES}
    elif table:
        what, options = "a table", {**of_pictures, **of_text}
    else:
        alone = {"--labels": order.labels is not None and not order.data.endswith(".npy")}
        what, options = "pictures", {**of_text, **alone}
    given = [name for name, is_given in options.items() if is_given]
    return [f"{' and '.join(given)} {'has' if len(given) == 1 else 'have'} no effect on {what}"] if given else []


def lines_of(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from None
