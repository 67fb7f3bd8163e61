"""Other readings of "sensitivity" in section 4.1, compared with human token scores.

    python benchmarks/sentiment_readings.py runs/sentiment/xe/seed-00 runs/sentiment/fcl/seed-00
    python benchmarks/sentiment_readings.py --split dev --out readings.json      # the bag of words alone

For every token of a sentence, with all its pieces removed at once: the distance by which the embedding moves, the same
divided by the root of the number of pieces, and the angle; the change of the margin between both logits, of the
probability and of the loss; and the margin of the token alone. A reference without a network is included: logistic
regression on the words of GLUE's phrases, and its weights |w|.

Each is compared with |score - 0.5|, as a mean over sentences and pooled, without the neutral tokens (the paper) and
with them, and without estimated scores. Also measured: the accuracy of a network where the sum of the human token
scores points to the label, and where it does not; and how many of the tokens are training phrases by themselves.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
import torch.nn.functional as F
from places import to_write
from torch import Tensor

from poise.data.sets.fetch import folder
from poise.data.sets.sst import Sentence, Split, as_glue, read_glue, read_phrases
from poise.errors import DataNotFound
from poise.recipes.sentiment.alignment import agreement, counts, is_marked, pearson, strength
from poise.recipes.sentiment.human import batches_of, human_scores, labelled, of_words
from poise.recipes.sentiment.treebank import EXPERIMENT
from poise.running.record import surroundings
from poise.tokens import Tokens, without_each
from poise.training.checkpoint import final_weights_of, newest

READINGS = ("length", "length / root", "angle", "margin", "probability", "loss", "alone")
Values = list[np.ndarray]  # [W] per sentence


@torch.no_grad()
def readings(model: Any, sentences: list[Sentence]) -> dict[str, Values]:
    found: dict[str, Values] = {name: [np.empty(0)] * len(sentences) for name in READINGS}
    for places, x, words, y in batches_of(sentences, 128):
        values = {name: torch.zeros(len(x), int(words.max()) + 1) for name in READINGS}
        z = model.embed(x)
        before = outcomes(model, z, y)
        pieces = torch.stack([(words == word).sum(1) for word in range(values["length"].shape[1])], 1).clamp(min=1)
        for rows, numbers, shorter in without_each(x, "mask", 4096, words):
            moved = model.embed(shorter)
            values["length"][rows, numbers] = (z[rows] - moved).norm(dim=1)
            values["length / root"][rows, numbers] = values["length"][rows, numbers] / pieces[rows, numbers].sqrt()
            values["angle"][rows, numbers] = 1 - torch.cosine_similarity(z[rows], moved)
            for name, after in outcomes(model, moved, y[rows]).items():
                values[name][rows, numbers] = (before[name][rows] - after).abs()
        for word in range(values["alone"].shape[1]):
            alone = Tokens(x.ids, x.mask & ((words == word) | (words < 0)), x.special)
            values["alone"][:, word] = outcomes(model, model.embed(alone), y)["margin"].abs()
        for name, numbers in values.items():
            for place, row in zip(places, numbers.double().numpy(), strict=True):
                found[name][place] = of_words(row, len(sentences[place].tokens))
    return found


@torch.no_grad()
def right_by_sum(model: Any, sentences: list[Sentence]) -> dict[str, float]:
    """Accuracy where the sum of the human token scores points to the label, and where it does not."""
    right: dict[bool, list[bool]] = {True: [], False: []}
    for places, x, _, y in batches_of(sentences, 128):
        for place, answer, label in zip(places, model(x).argmax(1).tolist(), y.tolist(), strict=True):
            total = np.nansum(human_scores(sentences[place], "raw") - 0.5)
            right[bool((total > 0) == label)].append(answer == label)
    names = {True: "right where the scores add up to the label", False: "right elsewhere"}
    return {f"{names[held]}, of {len(each)}": float(np.mean(each)) for held, each in right.items()}


def known_before(sentences: list[Sentence]) -> dict[str, float]:
    """Of the tokens that count: how many are a training phrase by themselves, and how many have an annotated score."""
    phrases = [text.split() for text, _ in read_phrases(folder("sst2"))]
    single = {words[0] for words in phrases if len(words) == 1}
    marked = [
        (as_glue(token) in single, own)
        for each in sentences
        for token, own, counted in zip(
            each.tokens, each.recovered or (), is_marked(human_scores(each, "raw")), strict=True
        )
        if counted
    ]
    alone, recovered = np.mean(marked, axis=0)
    return {
        "training phrases of one word": sum(len(words) == 1 for words in phrases),
        "tokens that count and are one": float(alone),
        "tokens that count and are recovered": float(recovered),
        "sentences that count": sum(counts(human_scores(each, "raw")) for each in sentences),
        "sentences that count, recovered": sum(counts(human_scores(each, "recovered")) for each in sentences),
    }


def outcomes(model: Any, z: Tensor, y: Tensor) -> dict[str, Tensor]:
    logits = model.head(z)
    return {
        "margin": logits[:, 1] - logits[:, 0],
        "probability": logits.softmax(1)[:, 1],
        "loss": F.cross_entropy(logits, y, reduction="none"),
    }


def bag_of_words(epochs: int = 6, batch: int = 512, rate: float = 0.02) -> tuple[dict[str, float], dict[str, float]]:
    """{word: weight} of logistic regression on GLUE's phrases, a sum over words, and its accuracy on dev and test."""
    phrases = read_phrases(folder("sst2"))
    number = {word: place for place, word in enumerate(Counter(w for text, _ in phrases for w in text.split()))}
    held, labels = [[number[w] for w in text.split()] for text, _ in phrases], torch.tensor([y for _, y in phrases])
    torch.manual_seed(0)
    model, bias = torch.nn.EmbeddingBag(len(number), 1, mode="sum"), torch.zeros(1, requires_grad=True)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.Adam([model.weight, bias], lr=rate)

    def scores(rows: list[list[int]]) -> Tensor:
        starts = torch.tensor([0, *(len(row) for row in rows)])[:-1].cumsum(0)
        answers: Tensor = model(torch.tensor([w for row in rows for w in row]), starts)[:, 0] + bias
        return answers

    for _ in range(epochs):
        order = torch.randperm(len(held)).tolist()
        for start in range(0, len(order), batch):
            places = order[start : start + batch]
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(scores([held[place] for place in places]), labels[places].float())
            torch.autograd.backward(loss)
            optimizer.step()
    accuracy = {}
    for split in ("dev", "test"):
        rows = read_glue(folder("sst2"), folder("sst"), split)
        found = scores([[number[w] for w in text.split() if w in number] for text, _ in rows]) > 0
        accuracy[split] = float((found == torch.tensor([y == 1 for _, y in rows])).float().mean())
    return dict(zip(number, model.weight[:, 0].tolist(), strict=True)), accuracy


def agreements(sentences: list[Sentence], values: Values) -> dict[str, float]:
    """r and pooled r, without neutral tokens and with them; r without estimates."""
    human, sure = ([human_scores(each, column) for each in sentences] for column in ("raw", "recovered"))
    found, of_sure = agreement(human, values), agreement(sure, values)
    if found is None or of_sure is None:
        raise SystemExit(
            "the sentences have no raw scores: poise data get sst, with token_scores.tsv or dictionary.txt"
        )
    per_sentence = [pearson(strength(h), v) for h, v in zip(human, values, strict=True) if counts(h)]
    return {
        "r": found.r,
        "pooled r": found.pooled_r,
        "r, with neutral tokens": float(np.mean(per_sentence)),
        "pooled r, with neutral tokens": pearson(strength(np.concatenate(human)), np.concatenate(values)),
        "r, without estimates": of_sure.r,
    }


def trained(home: Path) -> Any:
    held = newest(home, print)
    if held is None:
        raise SystemExit(f"{home} has no checkpoint: run the experiment there")
    model = EXPERIMENT.network()
    try:
        model.load_state_dict(final_weights_of(held))
    except RuntimeError:
        raise SystemExit(f"{home} has a different network than poise.recipes.sentiment.treebank") from None
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*", help="folders of runs with their checkpoints")
    parser.add_argument("--split", choices=get_args(Split), default="dev")
    parser.add_argument("--out", type=to_write, help="a JSON file")
    chosen = parser.parse_args()
    try:
        sentences = labelled(folder("sst"), chosen.split)
        weights, accuracy = bag_of_words()
    except DataNotFound as error:
        parser.error(str(error))
    bag = [np.array([abs(weights.get(as_glue(token), 0.0)) for token in each.tokens]) for each in sentences]
    table, right = {"bag of words, |w|": agreements(sentences, bag)}, {}
    known = known_before(sentences)
    print(", ".join(f"{name}: {value:.4g}" for name, value in known.items()))
    for home in chosen.runs:
        model, run = trained(home), f"{home.parent.name}, {home.name}"
        right[run] = right_by_sum(model, sentences)
        print(f"{run}:", ", ".join(f"{name}: {value:.3f}" for name, value in right[run].items()))
        for name, values in readings(model, sentences).items():
            table[f"{run}: {name}"] = agreements(sentences, values)
    print(f"{chosen.split}, raw scores; the bag of words: {accuracy['dev']:.4f} of dev, {accuracy['test']:.4f} of test")
    for name, row in table.items():
        print(f"{name:<32}", "  ".join(f"{statistic} {value:.3f}" for statistic, value in row.items()))
    if chosen.out:
        numbers = {"split": chosen.split, "accuracy of the bag of words": accuracy, "known": known, "right": right}
        chosen.out.write_text(
            json.dumps({**numbers, "agreement": table, **surroundings(torch.device("cpu"))}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
