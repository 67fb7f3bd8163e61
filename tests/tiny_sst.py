"""A treebank of a second: sentences made of a dozen words whose scores are known, in the layout of the real files."""

from __future__ import annotations

import random
from dataclasses import replace
from math import ceil

from poise.data.sets import cache
from poise.models.transformer import Transformer
from poise.recipes.sentiment.human import PAPERS_SENTENCE, Alignment, Strips
from poise.recipes.sentiment.treebank import Phrases, experiment
from poise.running.experiment import Build, Experiment

MARKED = {"Lovely": 0.95, "good": 0.8, "okay": 0.6, "dull": 0.35, "bad": 0.2, "awful": 0.05}
SCORES = {**MARKED, "the": 0.5, "film": 0.5, "plot": 0.49, "and": 0.5, "of": 0.51, ".": 0.5}
PAPERS = dict(
    zip(PAPERS_SENTENCE.split(), [0.49, 0.9, 0.5, 0.5, 0.73, 0.55, 0.5, 0.5, 0.47, 0.5, 0.57, 0.5], strict=True)
)
PIECES = ["the", "film", "plot", "and", "of", ".", "love", "##ly", "good", "okay", "dull", "bad", "aw", "##ful"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES]


def sentence(state: random.Random) -> list[str]:
    """Neutral words and a few marked ones, which do not cancel."""
    marked = state.sample(list(MARKED), state.randint(1, 4))
    words = marked + state.choices([word for word in SCORES if word not in MARKED], k=state.randint(1, 5))
    state.shuffle(words)
    return words if abs(balance(words)) > 0.1 else sentence(state)


def balance(words: list[str]) -> float:
    return sum(SCORES[word] - 0.5 for word in words)


def tree(words: list[str], scores: dict[str, float], root: int) -> str:
    leaves = " ".join(f"({max(ceil(scores[word] * 5 - 1e-9) - 1, 0)} {word})" for word in words)
    return f"({root} {leaves})"


def store(train: int = 128, held: int = 24) -> None:
    """Put it into the cache under the names of the real sets."""
    state = random.Random(0)
    parts = {name: [sentence(state) for _ in range(n)] for name, n in (("train", train), ("dev", held), ("test", held))}
    labels = {name: [int(balance(words) > 0) for words in rows] for name, rows in parts.items()}
    trees = {
        name: [tree(w, SCORES, 1 + 2 * y) for w, y in zip(rows, labels[name], strict=True)]
        for name, rows in parts.items()
    }
    trees["test"].append(tree(PAPERS_SENTENCE.split(), PAPERS, 3))
    scores = "".join(f"{word}\t2\t{score}\tmade\n" for word, score in {**PAPERS, **SCORES}.items())
    files = {f"trees/{name}.txt": ("\n".join(rows) + "\n").encode() for name, rows in trees.items()}
    cache.store(
        "sst", [*files.items(), ("token_scores.tsv", f"token\tclass\tscore\thow\n{scores}".encode())], "made", {}
    )
    texts = {name: [" ".join(words).lower() for words in rows] for name, rows in parts.items()}
    glue = {
        f"{name}.tsv": "sentence\tlabel\n"
        + "".join(f"{t} \t{y}\n" for t, y in zip(texts[name], labels[name], strict=True))
        for name in ("train", "dev")
    }
    glue["test.tsv"] = "index\tsentence\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(texts["test"]))
    cache.store("sst2", [(name, text.encode()) for name, text in glue.items()], "made", {})
    cache.store("bert-vocab", [("vocab.txt", "\n".join(VOCABULARY).encode())], "made", {})


def network(**settings: object) -> Build:
    sizes = {"width": 16, "layers": 1, "heads": 2, "feed_forward": 16, "max_length": 32, "dropout": 0.1}
    return Build(Transformer, num_classes=2, vocabulary=len(VOCABULARY), **{**sizes, **settings})


def tiny(epochs: int = 4, seeds: int = 2) -> Experiment:
    """The recipe of section 4.1, on these sentences."""
    whole = experiment(
        "tiny-sentiment",
        phrases=96,
        epochs=epochs,
        start=12,
        warmup=2,
        seeds=seeds,
        batch=16,
        network=network(),
        task=Phrases(96),
        measures=Alignment(probes=2),
        precision="float32",
        average=0.9,
    )
    return replace(whole, exhibits=Strips(marked=3))
