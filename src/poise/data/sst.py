"""The Stanford Sentiment Treebank: sentences with human scores for every token, and the GLUE phrases to train on.

Two score columns, both in [0, 1], 0.5 is neutral:

    raw    the mean of the annotators' ratings of the token alone: dictionary.txt with sentiment_labels.txt where the
           official files are complete, else token_scores.tsv beside them
    leaf   the 5-class label of the token's leaf in the tree, 0, 0.25, ..., 1: always there

Sentences come from the trees, whose text is sound (datasetSentences.txt has 107 sentences in a wrong encoding); round
brackets are written as such. Tokens are split at the tree's brackets only: three of them contain a no-break space.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from poise.data.errors import DataMismatch, DataNotFound

Split: TypeAlias = Literal["train", "dev", "test"]
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
    """One sentence: its tokens, the 5-class label of each and of the whole (0 very negative, 4 very positive)."""

    tokens: tuple[str, ...]
    leaves: tuple[int, ...]
    root: int

    @property
    def text(self) -> str:
        return " ".join(self.tokens)

    @property
    def label(self) -> int | None:
        """1 positive, 0 negative, None neutral."""
        return None if self.root == 2 else int(self.root > 2)

    @property
    def leaf_scores(self) -> tuple[float, ...]:
        return tuple(leaf / 4 for leaf in self.leaves)


def read_sentences(folder: Path, split: Split) -> list[Sentence]:
    """All sentences of a split, neutral ones included, in the official order."""
    return [parse_tree(line) for line in _lines(folder / "trees" / f"{split}.txt")]


def parse_tree(line: str) -> Sentence:
    """(3 (2 It) (4 (3 works) (2 .)))  →  It works ."""
    leaves = LEAF.findall(line)
    if not leaves or not re.match(r"\(\d ", line):
        raise DataMismatch(f"not a sentiment tree: {line[:60]!r}")
    tokens = tuple(BRACKETS.get(token, token) for _, token in leaves)
    return Sentence(tokens, tuple(int(label) for label, _ in leaves), int(line[1]))


def read_raw_scores(folder: Path) -> tuple[str, dict[str, float]]:
    """Where the raw scores come from, and {token: score}."""
    if (folder / "dictionary.txt").exists():
        labels = dict(line.split("|") for line in _lines(folder / "sentiment_labels.txt")[1:])
        phrases = (line.rpartition("|") for line in _lines(folder / "dictionary.txt"))
        scores = {phrase: float(labels[number]) for phrase, _, number in phrases if " " not in phrase}
        return "dictionary.txt", {BRACKETS.get(token, token): score for token, score in scores.items()}
    if (folder / "token_scores.tsv").exists():
        rows = (line.split("\t") for line in _lines(folder / "token_scores.tsv")[1:])
        return "token_scores.tsv", {BRACKETS.get(row[0], row[0]): float(row[2]) for row in rows}
    raise DataNotFound(f"{folder} has neither dictionary.txt nor token_scores.tsv, so no raw scores; use the leaves")


def read_phrases(folder: Path) -> list[tuple[str, int]]:
    """GLUE's training phrases with their labels, less those that are a dev or test sentence."""
    held_out = {text for text, _ in _dev(folder)} | set(_test(folder))
    rows = (line.rpartition("\t") for line in _lines(folder / "train.tsv")[1:])
    return [(text.strip(), int(label)) for text, _, label in rows if text.strip() not in held_out]


def read_glue(folder: Path, sst: Path, split: Literal["dev", "test"]) -> list[tuple[str, int]]:
    """GLUE's dev or test sentences with their labels; those of the test split, which GLUE hides, from the trees."""
    if split == "dev":
        return _dev(folder)
    labels = {as_glue(sentence.text): sentence.label for sentence in read_sentences(sst, "test")}
    rows = []
    for text in _test(folder):
        label = labels.get(as_glue(text))
        if label is None:
            raise DataMismatch(f"the GLUE test sentence {text[:60]!r} is not in the trees")
        rows.append((text, label))
    return rows


def as_glue(text: str) -> str:
    r"""The spelling in which GLUE and the trees agree: lower case, plain slashes and stars, one encoding, American."""
    plain = _repaired(text).lower().replace("\\/", "/").replace("\\*", "*").strip()
    return " ".join(AMERICAN.get(token, token) for token in plain.split(" "))


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
    """Lines end with a newline and with nothing else: some tokens hold characters that str.splitlines breaks at."""
    if not path.exists():
        raise DataNotFound(f"{path} is not there: get it with  poise data get sst sst2")
    return [line for line in path.read_text(encoding="utf8").split("\n") if line]
