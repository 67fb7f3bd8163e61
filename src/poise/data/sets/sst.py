"""The Stanford Sentiment Treebank: sentences with human scores for every token, and GLUE's phrases for training.

Two score columns in [0, 1], where 0.5 is neutral:

    raw    the mean of the annotators' ratings of the token alone: from dictionary.txt with sentiment_labels.txt
           ("dictionary") if the official files are complete, otherwise from token_scores.tsv ("token_scores"), where
           tokens marked "recovered" have that mean and others an estimate; otherwise missing
    leaf   the 5-class label of the token's leaf in the tree, 0, 0.25, ..., 1; never missing

Sentences come from the trees, since 107 sentences in datasetSentences.txt have a wrong encoding. -LRB- and -RRB- become
round brackets. Tokens are split at the tree's brackets only: three of them contain a no-break space.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import ceil, nan
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from poise.data.sets.cache import content_of
from poise.errors import DataMismatch, DataNotFound

Split: TypeAlias = Literal["train", "dev", "test"]
RawSource: TypeAlias = Literal["dictionary", "token_scores"]
FILES: dict[RawSource, str] = {"dictionary": "dictionary.txt", "token_scores": "token_scores.tsv"}
LEAF = re.compile(r"\((\d) ([^()]+)\)")
AMERICAN = {
    "humour": "humor",
    "favour": "favor",
    "favourite": "favorite",
    "learnt": "learned",
    "wanna": "wan na",
    "no.": "no .",
}
BRACKETS = {"-LRB-": "(", "-RRB-": ")"}


@dataclass(frozen=True)
class Sentence:
    """A sentence: its tokens, and 5-class labels (0 very negative, 4 very positive) of each token and of the sentence.

    raw_scores  the column `raw`: one score per token, nan for the few without one; None if no file has them.
    raw_source  the source of that column.
    recovered   for each score, whether it is the annotators' mean and not an estimate; None without raw scores.
    """

    tokens: tuple[str, ...]
    leaves: tuple[int, ...]
    root: int
    raw_scores: tuple[float, ...] | None = None
    raw_source: RawSource | None = None
    recovered: tuple[bool, ...] | None = None

    @property
    def text(self) -> str:
        return " ".join(self.tokens)

    @property
    def label(self) -> int | None:
        """1 positive, 0 negative, None neutral."""
        return None if self.root == 2 else int(self.root > 2)

    @property
    def leaf_scores(self) -> tuple[float, ...]:
        """The column `leaf`."""
        return tuple(leaf / 4 for leaf in self.leaves)


def read_sentences(folder: Path | str, split: Split) -> list[Sentence]:
    """All sentences of a split with both score columns, neutral ones included, in the official order."""
    folder = Path(folder)
    sentences = _read_trees(folder, split)
    source, scores = read_raw_scores(folder)
    if source is None:
        return sentences
    _require_most(sentences, scores, source)
    own = set(scores) if source == "dictionary" else _recovered(folder / "token_scores.tsv")

    def scored(sentence: Sentence) -> Sentence:
        raw = tuple(scores.get(token, nan) for token in sentence.tokens)
        recovered = tuple(token in own for token in sentence.tokens)
        return replace(sentence, raw_scores=raw, raw_source=source, recovered=recovered)

    return [scored(each) for each in sentences]


def parse_tree(line: str) -> Sentence:
    """(3 (2 It) (4 (3 works) (2 .)))  →  It works ."""
    leaves = LEAF.findall(line)
    if not leaves or not re.match(r"\(\d ", line):
        raise DataMismatch(f"not a sentiment tree: {line[:60]!r}")
    tokens = tuple(BRACKETS.get(token, token) for _, token in leaves)
    return Sentence(tokens, tuple(int(label) for label, _ in leaves), int(line[1]))


def read_raw_scores(folder: Path | str) -> tuple[RawSource | None, dict[str, float]]:
    """The source of the raw scores, and {token: score}; (None, {}) if no file has them."""
    folder = Path(folder)
    if (folder / "dictionary.txt").exists():
        return "dictionary", _from_dictionary(folder)
    if (folder / "token_scores.tsv").exists():
        return "token_scores", _from_token_scores(folder / "token_scores.tsv")
    return None, {}


def require_scores(folder: Path) -> None:
    """Raise DataMismatch unless the files of raw scores in a folder belong to its trees."""
    sentences = [each for split in get_args(Split) for each in _read_trees(folder, split)]
    for source, file in FILES.items():
        if (folder / file).exists():
            scores = _from_dictionary(folder) if source == "dictionary" else _from_token_scores(folder / file)
            _require_most(sentences, scores, source)
            _require_same_classes(sentences, scores, source)


def read_phrases(folder: Path | str) -> list[tuple[str, int]]:
    """GLUE's training phrases with their labels, without those that are dev or test sentences."""
    folder = Path(folder)
    held_out = {text for text, _ in _dev(folder)} | set(_test(folder))
    rows = (line.rpartition("\t") for line in _lines(folder / "train.tsv")[1:])
    return [(text.strip(), int(label)) for text, _, label in rows if text.strip() not in held_out]


def read_glue(folder: Path | str, sst: Path | str, split: Literal["dev", "test"]) -> list[tuple[str, int]]:
    """GLUE's dev or test sentences with labels. The labels of the test split, which GLUE hides, come from the trees."""
    folder, sst = Path(folder), Path(sst)
    if split == "dev":
        return _dev(folder)
    labels = {as_glue(sentence.text): sentence.label for sentence in _read_trees(sst, "test")}
    rows = []
    for text in _test(folder):
        label = labels.get(as_glue(text))
        if label is None:
            raise DataMismatch(f"the GLUE test sentence {text[:60]!r} is not in the trees")
        rows.append((text, label))
    return rows


def as_glue(text: str) -> str:
    r"""Normalize text to compare GLUE with the trees: lower case, plain slashes and stars, encoding, American."""
    plain = _repaired(text).lower().replace("\\/", "/").replace("\\*", "*").strip()
    return " ".join(AMERICAN.get(token, token) for token in plain.split(" "))


def _read_trees(folder: Path, split: Split) -> list[Sentence]:
    return [parse_tree(line) for line in _lines(folder / "trees" / f"{split}.txt")]


def _from_dictionary(folder: Path) -> dict[str, float]:
    """Read phrase|id lines and the id|score lines of sentiment_labels.txt; every score needs its phrase."""
    labels, scores = {}, {}
    for line in _lines(folder / "sentiment_labels.txt")[1:]:
        number, _, score = line.partition("|")
        labels[number] = _score(score, folder / "sentiment_labels.txt", line)
    named = set()
    for line in _lines(folder / "dictionary.txt"):
        phrase, _, number = line.rpartition("|")
        if number not in labels:
            raise _wrong(folder / "dictionary.txt", line, "phrase|id")
        named.add(number)
        if " " not in phrase:
            scores[BRACKETS.get(phrase, phrase)] = labels[number]
    if len(named) < len(labels):
        lost = len(labels) - len(named)
        raise DataMismatch(f"dictionary.txt is incomplete: it lacks {lost} of {len(labels)} phrases")
    return scores


def _from_token_scores(path: Path) -> dict[str, float]:
    """Read tab-separated lines of token, class, score and the origin of the score."""
    scores = {}
    for line in _lines(path)[1:]:
        row = line.split("\t")
        if len(row) < 3:
            raise _wrong(path, line, "token, class, score")
        scores[BRACKETS.get(row[0], row[0])] = _score(row[2], path, line)
    return scores


def _recovered(path: Path) -> set[str]:
    """The tokens whose score is the annotators' mean, if the file has the origins of scores."""
    rows = [line.split("\t") for line in _lines(path)[1:]]
    return {BRACKETS.get(row[0], row[0]) for row in rows if row[3:4] == ["recovered"]}


def _score(text: str, path: Path, line: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = nan
    if not 0 <= score <= 1:
        raise _wrong(path, line, "a score in [0, 1]")
    return score


def _wrong(path: Path, line: str, expected: str) -> DataMismatch:
    return DataMismatch(f"{path.name} has the wrong format: expected {expected}, found {line[:60]!r}")


def _require_most(sentences: list[Sentence], scores: dict[str, float], source: RawSource) -> None:
    """Raise DataMismatch if more than 1 % of the tokens have no score; a few do not, because of their spelling."""
    tokens = [token for each in sentences for token in each.tokens]
    lost = [token for token in tokens if token not in scores]
    if len(lost) > len(tokens) / 100:
        raise DataMismatch(f"{FILES[source]} has no score for {len(lost)} of {len(tokens)} tokens, such as {lost[0]!r}")


def _require_same_classes(sentences: list[Sentence], scores: dict[str, float], source: RawSource) -> None:
    """Raise DataMismatch unless the scores match the labels of leaves, which are the fifths of [0, 1]."""
    leaves = [pair for each in sentences for pair in zip(each.tokens, each.leaves, strict=True) if pair[0] in scores]
    wrong = [token for token, leaf in leaves if max(ceil(scores[token] * 5 - 1e-9) - 1, 0) != leaf]
    if len(wrong) > len(leaves) / 100:
        tokens = f"{len(wrong)} of {len(leaves)} tokens, such as {wrong[0]!r}"
        raise DataMismatch(f"{FILES[source]} does not belong to these trees: its score has another class for {tokens}")


def _repaired(text: str) -> str:
    try:
        return text.encode("latin1").decode("utf8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return text


def _dev(folder: Path) -> list[tuple[str, int]]:
    rows = (line.rpartition("\t") for line in _lines(folder / "dev.tsv")[1:])
    return [(text.strip(), int(label)) for text, _, label in rows]


def _test(folder: Path) -> list[str]:
    return [line.partition("\t")[2].strip() for line in _lines(folder / "test.tsv")[1:]]


def _lines(path: Path) -> list[str]:
    """Split at newlines only: some tokens contain characters at which str.splitlines splits."""
    if not path.exists():
        raise DataNotFound(f"{path} does not exist: get it with  poise data get sst sst2")
    try:
        return [line for line in content_of(path).decode("utf8").split("\n") if line]
    except UnicodeDecodeError:
        raise DataMismatch(f"{path.name} is not UTF-8 text") from None
    except OSError as error:
        raise DataMismatch(f"{path} cannot be read: {error.strerror or error}") from None
