"""Sentences of an audit, from TSV, CSV or JSONL files or the cache, or typed in, and their tokenizers.

Axes: B sentences, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from poise.auditing.result import Audit
from poise.checks import install
from poise.classifier import Classifier, evaluating
from poise.data.sets.cache import path_of
from poise.errors import AuditError
from poise.features.sensitivity import RemovalSensitivity, spearman
from poise.features.utility import RemovalUtility
from poise.inputs.examples import SETS, Batch, Columns, read_rows
from poise.inputs.hugging_face import load_transformers
from poise.tokens import Tokens

_TEXT, _LABEL = ("text", "sentence", "content", "review"), ("label", "labels", "class", "target")
_BATCH = 16


class Tokenizer(Protocol):
    """Converts sentences to Tokens, and ids to words."""

    def encode(self, sentences: Sequence[str]) -> Tokens: ...

    def lengths(self, sentences: Sequence[str]) -> list[int]:
        """The number of tokens of each sentence, without truncation."""

    def word(self, number: int) -> str: ...


@dataclass(frozen=True, eq=False)
class Texts:
    """Sentences with labels and columns."""

    name: str
    sentences: list[str]
    labels: list[int]
    columns: Columns
    classes: Sequence[str]

    def __len__(self) -> int:
        return len(self.sentences)

    def batches(self, rows: Sequence[int], tokenizer: Tokenizer, size: int = _BATCH) -> Iterator[Batch]:
        """These rows in order."""
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            columns = {name: [values[row] for row in part] for name, values in self.columns.items()}
            tokens = tokenizer.encode([self.sentences[row] for row in part])
            y = torch.tensor([self.labels[row] for row in part])
            yield Batch(tokens, y, columns, sources=[f"row {row}" for row in part])


@dataclass(frozen=True, eq=False)
class HuggingFaceTokenizer:
    """A tokenizer of transformers."""

    inner: Any
    max_length: int

    def encode(self, sentences: Sequence[str]) -> Tokens:
        if self.inner.pad_token is None:
            self.inner.pad_token = self.inner.eos_token
        found = self.inner(
            list(sentences),
            padding=True,
            truncation=True,
            max_length=self.max_length,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        special = found["special_tokens_mask"].bool() & found["attention_mask"].bool()
        return Tokens(found["input_ids"], found["attention_mask"], special, self.inner.pad_token_id or 0)

    def lengths(self, sentences: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self.inner(list(sentences), truncation=False)["input_ids"]]

    def word(self, number: int) -> str:
        return str(self.inner.convert_ids_to_tokens(number)).replace("Ġ", "").replace("▁", "")


@dataclass(frozen=True, eq=False)
class FastTokenizer:
    """A tokenizer of the tokenizers package: tokenizer.json, or the vocab.txt of BERT."""

    inner: Any
    max_length: int

    def encode(self, sentences: Sequence[str]) -> Tokens:
        self.inner.enable_truncation(self.max_length)
        self.inner.no_padding()
        rows = self.inner.encode_batch(list(sentences))
        length = max(1, max(len(row.ids) for row in rows))
        ids, special = (
            torch.zeros(len(rows), length, dtype=torch.long),
            torch.zeros(len(rows), length, dtype=torch.bool),
        )
        for place, row in enumerate(rows):
            ids[place, : len(row.ids)] = torch.tensor(row.ids, dtype=torch.long)
            special[place, : len(row.ids)] = torch.tensor(row.special_tokens_mask, dtype=torch.bool)
        mask = torch.arange(length)[None] < torch.tensor([len(row.ids) for row in rows])[:, None]
        return Tokens(ids, mask, special)

    def lengths(self, sentences: Sequence[str]) -> list[int]:
        self.inner.no_truncation()
        self.inner.no_padding()
        return [len(row.ids) for row in self.inner.encode_batch(list(sentences))]

    def word(self, number: int) -> str:
        return str(self.inner.id_to_token(number))


def open_tokenizer(path: Path, max_length: int) -> Tokenizer:
    """Open a Hugging Face folder, a tokenizer.json, or a vocab.txt."""
    if path.is_dir():
        auto = load_transformers().AutoTokenizer
        try:
            found = auto.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        except Exception as error:  # any error on a damaged file
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise AuditError(f"the tokenizer of {path} cannot be loaded: {why}") from None
        return HuggingFaceTokenizer(found, max_length)
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise AuditError(f"tokenizers is missing: {install('text')}") from None
    if not path.is_file():
        raise AuditError(
            f"{path} is neither a file nor a folder: use a tokenizer.json, a vocab.txt or a Hugging Face folder"
        )
    try:
        inner: Any = (
            tokenizers.BertWordPieceTokenizer(str(path), lowercase=True)
            if path.suffix == ".txt"
            else tokenizers.Tokenizer.from_file(str(path))
        )
    except Exception as error:  # the package raises bare exceptions
        raise AuditError(f"{path} is not a tokenizer: {error}") from None
    return FastTokenizer(inner, max_length)


def open_texts(source: str, text: str | None, label: str | None, classes: Sequence[str]) -> Texts:
    """The sentences of a file; labels are whole numbers or class names."""
    path = path_of("sst2", "dev.tsv") if source in SETS else Path(source)
    columns = read_rows(path)
    sentence_column = _column(columns, text, _TEXT, path, "--text-column")
    label_column = _column(columns, label, _LABEL, path, "--label-column")
    words = columns[label_column]
    names = list(classes) or ([] if all(map(_whole, words)) else sorted(set(words)))
    places = {name: place for place, name in enumerate(names)}
    labels = [int(word) if _whole(word) else places.get(word, -1) for word in words]
    if -1 in labels:
        raise AuditError(
            f"{path}: {words[labels.index(-1)]!r} is not a class of the model: its classes are {', '.join(names)[:120]}"
        )
    rest = {name: values for name, values in columns.items() if name not in (sentence_column, label_column)}
    name = "SST-2 (dev)" if source in SETS else path.name
    return Texts(name, columns[sentence_column], labels, rest, names)


def _whole(word: str) -> bool:
    return word.strip().isdigit()


def _column(columns: Columns, wanted: str | None, usual: Sequence[str], path: Path, option: str) -> str:
    names = [wanted] if wanted is not None else list(usual)
    found = next((name for name in names if name in columns), None)
    if found is None:
        raise AuditError(f"{path} has the columns {', '.join(columns)}: choose one with {option}")
    return found


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
    arrays |= {name: held for name, held in audit.arrays.items() if name.split("_")[0] not in ("x", "u", "s")}
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
