"""Audit a Hugging Face text classifier, generated locally so that nothing is downloaded.

    pip install ".[cli,text,transformers]"
    python examples/audit_text.py

A tiny BERT learns made-up reviews, is saved with its tokenizer like any other model, and is audited from that folder as
on the command line:

    poise audit FOLDER --data reviews.tsv --sentence "the plot was dull and the music lovely"
"""

import random
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from poise.cli.main import main as poise

GOOD, BAD = ["great", "lovely", "superb", "warm", "funny"], ["dull", "awful", "cold", "weak", "boring"]
OTHER = ["the", "a", "film", "movie", "plot", "actor", "scene", "was", "is", "and", "of", "music", "very", "in", "it"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def reviews(count: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.choice(["negative", "positive"])
        words = draw.choices(OTHER, k=draw.randint(4, 12)) + draw.choices(GOOD if label == "positive" else BAD, k=2)
        draw.shuffle(words)
        rows.append((" ".join(words), label))
    return rows


def tokenizer() -> PreTrainedTokenizerFast:
    words = {word: place for place, word in enumerate([*SPECIAL, *GOOD, *BAD, *OTHER])}
    inner = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **named)


def train(folder: Path, steps: int) -> None:
    torch.manual_seed(0)
    encode, names = tokenizer(), {"negative": 0, "positive": 1}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    labels = {"num_labels": 2, "label2id": names, "id2label": {n: name for name, n in names.items()}}
    model = BertForSequenceClassification(BertConfig(vocab_size=len(encode), **sizes, **labels))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    rows, draw = reviews(600, seed=0), random.Random(0)
    for _ in range(steps):
        texts, words = zip(*draw.sample(rows, 32), strict=True)
        batch = encode(list(texts), padding=True, return_tensors="pt", return_token_type_ids=False)
        optimizer.zero_grad()
        model(**batch, labels=torch.tensor([names[word] for word in words])).loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    encode.save_pretrained(folder)


def main(steps: int = 60, examples: int = 100) -> Path:
    home = Path(tempfile.mkdtemp())
    train(home / "reviewer", steps)
    lines = [f"{text}\t{label}\n" for text, label in reviews(300, seed=1)]
    (home / "reviews.tsv").write_text("sentence\tlabel\n" + "".join(lines))
    sys.argv = ["poise", "audit", str(home / "reviewer"), "--data", str(home / "reviews.tsv"), "--device", "cpu"]
    sys.argv += [
        "--examples",
        str(examples),
        "--out",
        str(home / "audit"),
        "--sentence",
        "the plot was dull and the music lovely",
    ]
    with suppress(SystemExit):
        poise()
    return home / "audit"


if __name__ == "__main__":
    main()
