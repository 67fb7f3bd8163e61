"""Preparation of `poise audit`: loads models and data, and checks that they match before the audit starts.

It selects the examples, and maps their labels to the classes of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import torch

from poise.auditing.design import PROBES
from poise.auditing.result import Names
from poise.auditing.texts import Texts, Tokenizer, open_texts, open_tokenizer
from poise.errors import AuditError
from poise.inputs.classifiers import Unscaled
from poise.inputs.examples import (
    AuditExamples,
    Batch,
    counted_classes,
    is_text,
    kind_of,
    match_classes,
    read_lines,
    sample,
    sample_size,
)
from poise.inputs.images import open_pictures
from poise.inputs.model_sources import Loaded, normalization, open_model, with_options
from poise.tokens import Tokens, shape_of

LENGTH = 128  # most tokens of a sentence


@dataclass(frozen=True)
class AuditRequest:
    """The arguments of `poise audit`."""

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
    worst_case: bool
    fail_if: list[str] | None
    baseline: Path | None
    device: str
    seed: int
    trust: bool
    quiet: bool
    json: bool


@dataclass(frozen=True, eq=False)
class AuditedModel:
    """A model to audit, and the reference whose utility counts as the truth."""

    loaded: Loaded
    reference: Loaded | None

    @property
    def each(self) -> list[Loaded]:
        return [self.loaded] if self.reference is None else [self.loaded, self.reference]

    def to(self, device: Any) -> AuditedModel:
        for each in self.each:
            each.model.to(device)
        return self


@dataclass(frozen=True, eq=False)
class AuditData:
    """The examples, the same for every model of the command.

    shape   of one example.
    notes   sentences about the preparation of the data; complete when all examples have been read.
    """

    batches: Callable[[], Iterable[Batch]]
    names: Names
    count: int
    shape: tuple[int, ...]
    notes: Callable[[], list[str]]
    tokenizer: Tokenizer | None = None


def require_valid(request: AuditRequest) -> None:
    """Raise AuditError for an argument that is invalid for any model and data."""
    if request.normalize is not None:
        normalization(request.normalize)
    most = 1.0 if is_text(request.data) else inf
    for strength in request.strength or []:
        if not 0 < strength <= most:
            what = "a sigma above 0" if most == inf else "a fraction of the tokens, above 0 and at most 1"
            raise AuditError(f"--strength {strength:g} must be {what}")


def load_requested(request: AuditRequest, number: int) -> AuditedModel:
    weights = request.weights[number] if request.weights else None
    normalize = None if is_text(request.data) else request.normalize
    options: dict[str, Any] = {"network": request.network, "normalize": normalize, "trust": request.trust}
    loaded = open_model(request.models[number], weights=weights, head=request.head, **options)
    reference = None if request.reference is None else open_model(request.reference, weights=None, head=None, **options)
    same_name = len(request.models) == 2 and (weights is not None or request.models[0] == request.models[1])
    return AuditedModel(
        replace(loaded, name=f"{loaded.name} {weights.stem if weights else number + 1}") if same_name else loaded,
        reference,
    )


def prepare(
    request: AuditRequest, models: Sequence[AuditedModel], place: torch.device
) -> tuple[AuditData, list[AuditedModel]]:
    """The examples, and the models adapted to them."""
    first = models[0].loaded
    names = read_lines(request.classes) if request.classes is not None else list(first.classes)
    for each in _every_model(models):
        _require_kind(each, request.data)
        if sorted(each.classes) == sorted(first.classes) and list(each.classes) != list(first.classes):
            raise AuditError(f"{each.name} and {first.name} number their classes differently: they cannot be compared")
    if is_text(request.data):
        return _text(request, models, names, request.examples or sample_size("text", place)), list(models)
    return _tensors(request, models, names, place)


def _every_model(models: Sequence[AuditedModel]) -> list[Loaded]:
    return [each for model in models for each in model.each]


def _require_kind(loaded: Loaded, data: str) -> None:
    if loaded.reads == "text" and not is_text(data):
        raise AuditError(f"{loaded.name} takes text: --data must be a .tsv, .csv or .jsonl file, not {data}")
    if loaded.reads == "pictures" and is_text(data):
        raise AuditError(f"{loaded.name} takes images: --data must be a folder, an .npz or an .npy file, not {data}")


def _text(request: AuditRequest, models: Sequence[AuditedModel], names: list[str], wanted: int) -> AuditData:
    place = request.tokenizer or models[0].loaded.tokenizer
    if place is None:
        raise AuditError("sentences need a tokenizer: pass a tokenizer.json, a vocab.txt or a folder with --tokenizer")
    room = [each.longest for each in _every_model(models) if each.longest is not None]
    length = min([request.max_length, *room])
    tokenizer = open_tokenizer(place, length)
    texts = open_texts(request.data, request.text_column, request.label_column, names)
    rows = sample(len(texts), wanted, request.seed)
    texts = replace(texts, columns=_select_columns(texts.columns, request.slices))
    lengths = tokenizer.lengths([texts.sentences[row] for row in rows])
    probe = next(iter(texts.batches([rows[lengths.index(max(lengths))]], tokenizer)))
    num_classes = _num_classes(models, probe)
    if max(texts.labels) >= num_classes:
        raise AuditError(
            f"{texts.name} has label {max(texts.labels)}, but the model has {counted_classes(num_classes)}"
        )
    _require_one_tokenizer(request, models, texts, tokenizer, length)
    cut, why = sum(each > length for each in lengths), "the limit of the model" if room else "see --max-length"
    notes = [f"truncated {cut} of {len(rows)} sentences to {length} tokens: {why}"] if cut else []
    shown_names = Names(data=texts.name, classes=texts.classes, decode=tokenizer.word)
    notes_at_start = [*ignored_options(request, table=False), *notes]
    shape = (int(probe.x.ids.shape[1]),) if isinstance(probe.x, Tokens) else ()
    return AuditData(
        lambda: texts.batches(rows, tokenizer), shown_names, len(rows), shape, lambda: notes_at_start, tokenizer
    )


def _require_one_tokenizer(
    request: AuditRequest, models: Sequence[AuditedModel], texts: Texts, tokenizer: Tokenizer, length: int
) -> None:
    """Raise AuditError unless all models have the same tokens, since they are compared token by token."""
    some = texts.sentences[:8]
    ids = tokenizer.encode(some).ids
    for each in _every_model(models)[1:]:
        if request.tokenizer is None and each.tokenizer is not None:
            theirs = open_tokenizer(each.tokenizer, length).encode(some).ids
            if theirs.shape != ids.shape or not torch.equal(theirs, ids):
                first = models[0].loaded.name
                raise AuditError(
                    f"{each.name} and {first} have different tokenizers: they cannot be compared word by word"
                )


def _tensors(
    request: AuditRequest, models: Sequence[AuditedModel], names: list[str], place: torch.device
) -> tuple[AuditData, list[AuditedModel]]:
    size = request.size or models[0].loaded.size
    found = _open_examples(request, models[0].loaded, size)
    if found.scale is not None:
        if request.normalize is not None:
            raise AuditError("--normalize applies to images only: omit it for a table")
        models = [_with_scale(model, found.scale) for model in models]
    probe = found.first(range(len(found)))
    found = match_classes(found, names, _num_classes(models, probe))
    found = replace(found, columns=_select_columns(found.columns, request.slices))
    rows = sample(len(found), request.examples or sample_size(kind_of(probe.x), place), request.seed)
    shown_names = Names(data=found.name, classes=found.classes, rare=found.rare, features=tuple(found.features))
    notes_at_start = [*ignored_options(request, table=found.scale is not None), *found.notes]
    shape = tuple(shape_of(probe.x)[1:])
    data = AuditData(
        lambda: found.batches(rows), shown_names, len(rows), shape, lambda: [*notes_at_start, *found.left_out()]
    )
    return data, list(models)


def _open_examples(request: AuditRequest, first: Loaded, size: int | None) -> AuditExamples:
    """The examples; images of a folder are RGB, or grey if the first model accepts only these."""
    source = (request.data, request.labels, request.metadata, size)
    found = open_pictures(*source)
    if not Path(request.data).is_dir() or _accepts(first, found.first(range(len(found)))):
        return found
    grey = open_pictures(*source, grey=True)
    return grey if _accepts(first, grey.first(range(len(grey)))) else found


def _accepts(loaded: Loaded, probe: Batch) -> bool:
    try:
        return _outputs(loaded, probe.x) > 0
    except AuditError:
        return False


def _with_scale(model: AuditedModel, scale: tuple[torch.Tensor, torch.Tensor]) -> AuditedModel:
    """The models, adapted to standardized columns."""

    def wrapped(loaded: Loaded) -> Loaded:
        device = next((p.device for p in loaded.model.parameters()), torch.device("cpu"))
        return replace(loaded, model=Unscaled(loaded.model, *scale).to(device).eval())

    return AuditedModel(wrapped(model.loaded), None if model.reference is None else wrapped(model.reference))


def _num_classes(models: Sequence[AuditedModel], probe: Batch) -> int:
    """The number of classes; raise AuditError if the models differ in it, or do not accept the data."""
    counts = {each.name: _outputs(each, probe.x) for each in _every_model(models)}
    (first, count), *rest = counts.items()
    for name, other in rest:
        if other != count:
            raise AuditError(f"{name} has {other} classes, {first} has {count}: they cannot be compared")
    return count


def _outputs(loaded: Loaded, x: Any) -> int:
    model: Any = loaded.model
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    try:
        with torch.no_grad():
            return int(model.head(model.embed(x.to(device))).shape[1])
    except Exception as error:  # any error of a model on unsuitable data
        reason = with_options((str(error).splitlines() or [type(error).__name__])[0])
        message = (
            f"{loaded.name}: {reason}"
            if "--head" in reason or "last layer" in reason
            else f"{loaded.name} does not accept {_what(x)}: {reason}"
        )
        raise AuditError(message) from None


def _what(x: Any) -> str:
    if isinstance(x, Tokens):
        return f"sentences of {x.ids.shape[1]} tokens (see --max-length and --tokenizer)"
    return f"rows of {x.shape[1]} columns" if x.ndim == 2 else f"images {list(x.shape[1:])}"


def _select_columns(columns: dict[str, list[str]], wanted: list[str] | None) -> dict[str, list[str]]:
    if wanted is None:
        return columns
    for name in wanted:
        if name not in columns:
            raise AuditError(f"no column is called {name!r}: the columns are {', '.join(columns) or 'none'}")
    return {name: columns[name] for name in wanted}


def ignored_options(request: AuditRequest, table: bool) -> list[str]:
    """A note on the options that have no effect on these data."""
    of_images = {
        "--corruptions": request.corruptions not in ("fast", "none"),
        "--size": request.size is not None,
        "--normalize": request.normalize is not None,
    }
    of_tensors = {"--labels": request.labels is not None, "--metadata": request.metadata is not None}
    of_text = {
        "--tokenizer": request.tokenizer is not None,
        "--text-column": request.text_column is not None,
        "--label-column": request.label_column is not None,
        "--max-length": request.max_length != LENGTH,
    }
    if is_text(request.data):
        what, options = "text", {**of_images, **of_tensors, "--probes": request.probes != PROBES}
    elif table:
        what, options = "a table", {**of_images, **of_text}
    else:
        alone = {"--labels": request.labels is not None and not request.data.endswith(".npy")}
        what, options = "images", {**of_text, **alone}
    given = [name for name, is_given in options.items() if is_given]
    return [f"{' and '.join(given)} {'has' if len(given) == 1 else 'have'} no effect on {what}"] if given else []
