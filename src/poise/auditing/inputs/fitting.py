"""The data of `poise audit`, fitted to its models; what does not fit is said before anything is measured.

Data fitted to a model: which examples are taken, and which class of the model a label means.

What `poise audit` is given: its words, and the models they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import torch

from poise.auditing.design import PROBES
from poise.auditing.inputs.classifiers import Unscaled
from poise.auditing.inputs.examples import AuditExamples, Batch, is_text, kind_of, sample_size
from poise.auditing.inputs.images import open_pictures
from poise.auditing.inputs.models import Loaded, load_model, normalization, with_options
from poise.auditing.inputs.texts import Texts, Tokenizer, open_texts, open_tokenizer
from poise.auditing.result import Names
from poise.errors import AuditError
from poise.io.files import regular
from poise.tokens import Tokens, shape_of


def sample(count: int, wanted: int, seed: int) -> list[int]:
    """`wanted` of `count` examples at random, the same for every model of a seed."""
    order = np.random.default_rng(seed).permutation(count)
    return [int(row) for row in order[: min(wanted, count)]]


def match_classes(found: AuditExamples, names: Sequence[str], num_classes: int) -> AuditExamples:
    """Labels as the model counts its classes: by name where its names are known, else in order.

    A folder with other classes than the model's cannot be put in order without the names.
    """
    if names and len(names) != num_classes:
        raise AuditError(f"{len(names)} names of classes were given, but the model has {num_classes} classes")
    if names and set(found.classes) <= set(names):
        places = np.array([list(names).index(name) for name in found.classes])
        return replace(found, labels=places[found.labels], classes=list(names))
    numbered = list(found.classes) == [str(place) for place in range(len(found.classes))]
    if int(found.labels.max(initial=0)) >= num_classes:
        raise AuditError(f"{found.name} has label {found.labels.max()}, but the model has {num_classes} classes")
    if numbered:
        class_names = names or (found.default_names if len(found.default_names) == num_classes else found.classes)
        return replace(found, classes=list(class_names))
    if len(found.classes) != num_classes:
        raise AuditError(
            f"{found.name} has {_folders(len(found.classes))}, the model {num_classes} classes: give its names, "
            "one per line in its order, with --classes FILE, and call the folders so"
        )
    return found


def _folders(count: int) -> str:
    return "1 class folder" if count == 1 else f"{count} class folders"


LENGTH = 128  # tokens of a sentence


@dataclass(frozen=True)
class AuditRequest:
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
class AuditedModel:
    """A model on its device, with the one whose utility is taken for the truth."""

    loaded: Loaded
    reference: Loaded | None

    @property
    def each(self) -> list[Loaded]:
        return [self.loaded] if self.reference is None else [self.loaded, self.reference]

    def to(self, device: Any) -> AuditedModel:
        for each in self.each:
            each.model.to(device)
        return self


def load_requested(request: AuditRequest, number: int) -> AuditedModel:
    weights = request.weights[number] if request.weights else None
    normalize = None if is_text(request.data) else request.normalize
    options: dict[str, Any] = {"network": request.network, "normalize": normalize, "trust": request.trust}
    loaded = load_model(request.models[number], weights=weights, head=request.head, **options)
    reference = None if request.reference is None else load_model(request.reference, weights=None, head=None, **options)
    same_name = len(request.models) == 2 and (weights is not None or request.models[0] == request.models[1])
    return AuditedModel(
        replace(loaded, name=f"{loaded.name} {weights.stem if weights else number + 1}") if same_name else loaded,
        reference,
    )


def require_valid(request: AuditRequest) -> None:
    """An AuditError for a word that means nothing, whatever the model and the data are."""
    if request.normalize is not None:
        normalization(request.normalize)
    most = 1.0 if is_text(request.data) else inf
    for strength in request.strength or []:
        if not 0 < strength <= most:
            what = "a sigma above 0" if most == inf else "a fraction of the tokens, above 0 and at most 1"
            raise AuditError(f"--strength {strength:g} must be {what}")


def ignored_options(request: AuditRequest, table: bool) -> list[str]:
    """A note on the options that mean nothing for these data."""
    of_pictures = {
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
        what, options = "text", {**of_pictures, **of_tensors, "--probes": request.probes != PROBES}
    elif table:
        what, options = "a table", {**of_pictures, **of_text}
    else:
        alone = {"--labels": request.labels is not None and not request.data.endswith(".npy")}
        what, options = "pictures", {**of_text, **alone}
    given = [name for name, is_given in options.items() if is_given]
    return [f"{' and '.join(given)} {'has' if len(given) == 1 else 'have'} no effect on {what}"] if given else []


def read_lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in regular(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from None


@dataclass(frozen=True, eq=False)
class AuditData:
    """What every model of the command sees.

    shape   of one example.
    notes   what was done with the data, asked for when all of them have been read.
    """

    batches: Callable[[], Iterable[Batch]]
    names: Names
    count: int
    shape: tuple[int, ...]
    notes: Callable[[], list[str]]
    tokenizer: Tokenizer | None = None


def prepare(
    request: AuditRequest, models: Sequence[AuditedModel], place: torch.device
) -> tuple[AuditData, list[AuditedModel]]:
    """The data, and the models as they take them."""
    first = models[0].loaded
    names = read_lines(request.classes) if request.classes is not None else list(first.classes)
    for each in _every_model(models):
        _require_kind(each, request.data)
        if sorted(each.classes) == sorted(first.classes) and list(each.classes) != list(first.classes):
            raise AuditError(f"{each.name} counts its classes in another order than {first.name}")
    if is_text(request.data):
        return _text(request, models, names, request.examples or sample_size("text", place)), list(models)
    return _tensors(request, models, names, place)


def _every_model(models: Sequence[AuditedModel]) -> list[Loaded]:
    return [each for model in models for each in model.each]


def _require_kind(loaded: Loaded, data: str) -> None:
    if loaded.reads == "text" and not is_text(data):
        raise AuditError(f"{loaded.name} reads text: give it sentences as .tsv, .csv or .jsonl, not {data}")
    if loaded.reads == "pictures" and is_text(data):
        raise AuditError(f"{loaded.name} reads pictures: give it a folder, an .npz or an .npy, not {data}")


def _text(request: AuditRequest, models: Sequence[AuditedModel], names: list[str], wanted: int) -> AuditData:
    place = request.tokenizer or models[0].loaded.tokenizer
    if place is None:
        raise AuditError("sentences need a tokenizer: --tokenizer with a tokenizer.json, vocab.txt or folder")
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
        raise AuditError(f"{texts.name} has label {max(texts.labels)}, but the model has {num_classes} classes")
    _require_one_tokenizer(request, models, texts, tokenizer, length)
    cut, why = sum(each > length for each in lengths), "the model takes no more" if room else "see --max-length"
    notes = [f"{cut} of {len(rows)} sentences were cut to {length} tokens: {why}"] if cut else []
    shown_names = Names(data=texts.name, classes=texts.classes, decode=tokenizer.word)
    notes_before = [*ignored_options(request, table=False), *notes]
    shape = (int(probe.x.ids.shape[1]),) if isinstance(probe.x, Tokens) else ()
    return AuditData(
        lambda: texts.batches(rows, tokenizer), shown_names, len(rows), shape, lambda: notes_before, tokenizer
    )


def _require_one_tokenizer(
    request: AuditRequest, models: Sequence[AuditedModel], texts: Texts, tokenizer: Tokenizer, length: int
) -> None:
    """Words are compared one by one, so all models must read the same ones."""
    some = texts.sentences[:8]
    ids = tokenizer.encode(some).ids
    for each in _every_model(models)[1:]:
        if request.tokenizer is None and each.tokenizer is not None:
            theirs = open_tokenizer(each.tokenizer, length).encode(some).ids
            if theirs.shape != ids.shape or not torch.equal(theirs, ids):
                first = models[0].loaded.name
                raise AuditError(
                    f"{each.name} has another tokenizer than {first}: they cannot be compared word by word"
                )


def _tensors(
    request: AuditRequest, models: Sequence[AuditedModel], names: list[str], place: torch.device
) -> tuple[AuditData, list[AuditedModel]]:
    size = request.size or models[0].loaded.size
    found = _open_examples(request, models[0].loaded, size)
    if found.scale is not None:
        if request.normalize is not None:
            raise AuditError("--normalize is for pictures: leave it away for a table")
        models = [_with_scale(model, found.scale) for model in models]
    probe = found.first(range(len(found)))
    found = match_classes(found, names, _num_classes(models, probe))
    found = replace(found, columns=_select_columns(found.columns, request.slices))
    rows = sample(len(found), request.examples or sample_size(kind_of(probe.x), place), request.seed)
    shown_names = Names(data=found.name, classes=found.classes, rare=found.rare, features=tuple(found.features))
    notes_before = [*ignored_options(request, table=found.scale is not None), *found.notes]
    shape = tuple(shape_of(probe.x)[1:])
    data = AuditData(
        lambda: found.batches(rows), shown_names, len(rows), shape, lambda: [*notes_before, *found.left_out()]
    )
    return data, list(models)


def _open_examples(request: AuditRequest, first: Loaded, size: int | None) -> AuditExamples:
    """The examples; pictures of a folder in grey, if the first model takes them so and not in colour."""
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
    """Models that take the standardized columns."""

    def wrapped(loaded: Loaded) -> Loaded:
        device = next((p.device for p in loaded.model.parameters()), torch.device("cpu"))
        return replace(loaded, model=Unscaled(loaded.model, *scale).to(device).eval())

    return AuditedModel(wrapped(model.loaded), None if model.reference is None else wrapped(model.reference))


def _num_classes(models: Sequence[AuditedModel], probe: Batch) -> int:
    """The number of classes, the same for all; AuditError for a model that cannot take the data."""
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
    except Exception as error:  # whatever a model raises on what it was not made for
        reason = with_options((str(error).splitlines() or [type(error).__name__])[0])
        message = (
            f"{loaded.name}: {reason}"
            if "--head" in reason or "last layer" in reason
            else f"{loaded.name} cannot take {_what(x)}: {reason}"
        )
        raise AuditError(message) from None


def _what(x: Any) -> str:
    if isinstance(x, Tokens):
        return f"sentences of {x.ids.shape[1]} tokens (see --max-length and --tokenizer)"
    return f"rows of {x.shape[1]} columns" if x.ndim == 2 else f"pictures {list(x.shape[1:])}"


def _select_columns(columns: dict[str, list[str]], wanted: list[str] | None) -> dict[str, list[str]]:
    if wanted is None:
        return columns
    for name in wanted:
        if name not in columns:
            raise AuditError(f"no column is called {name!r}: there are {', '.join(columns) or 'none'}")
    return {name: columns[name] for name in wanted}
