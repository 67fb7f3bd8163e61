"""`poise audit`: does a trained model's sensitivity follow utility? A verdict, a page and a JSON file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from poise.commands.stopping import ending_at_once

Words: TypeAlias = list[str] | None
_MODELS = "torchvision:NAME, timm:NAME, a Hugging Face folder, a Poise checkpoint, or module:function."
_DATA = "A folder of class folders, .npz, .npy, .tsv, .csv, .jsonl, or mnist, cifar10, sst2 and others."
Models = Annotated[list[str], typer.Argument(metavar="MODEL [MODEL]", help=_MODELS)]
Data = Annotated[str, typer.Option(help=_DATA)]
Out = Annotated[Path, typer.Option(help="The folder of the page and the JSON file.")]
Examples = Annotated[int | None, typer.Option(min=2, help="By default 1000; on a CPU 100 pictures, 300 sentences.")]
Weights = Annotated[list[Path] | None, typer.Option(help="A file of weights; one for each model.")]
Head = Annotated[str | None, typer.Option(help="The name of the model's last layer, if it is not found.")]
Network = Annotated[str | None, typer.Option(help="Of a checkpoint without a recipe: LeNet(num_classes=10).")]
Normalize = Annotated[str | None, typer.Option(help="Of pictures: none, imagenet or half.")]
Size = Annotated[int | None, typer.Option(min=16, help="Of pictures from a folder; by default the model's.")]
Labels = Annotated[Path | None, typer.Option(help="An .npy of labels beside an .npy of pictures.")]
Classes = Annotated[Path | None, typer.Option(help="Names of the model's classes, one per line.")]
Metadata = Annotated[Path | None, typer.Option(help="A table with a row per picture; its columns make slices.")]
Tokenizer = Annotated[Path | None, typer.Option(help="tokenizer.json, vocab.txt, or a Hugging Face folder.")]
Column = Annotated[str | None, typer.Option(help="Of a table of sentences.")]
Length = Annotated[int, typer.Option(min=4, help="Tokens of a sentence.")]
Sentence = Annotated[Words, typer.Option(help="One to draw; repeat it for more.")]
Sentences = Annotated[Path | None, typer.Option(help="A file of sentences to draw, one per line.")]
Slices = Annotated[Words, typer.Option("--slice", help="Only this column; repeat it for more. All by default.")]
Reference = Annotated[str | None, typer.Option(help="A model whose utility is taken for the truth.")]
Beside = Annotated[list[Path] | None, typer.Option(help="The folder of another audit, for the plane.")]
Corruptions = Annotated[str, typer.Option(help="fast, all, none, or names with commas.")]
Probes = Annotated[int, typer.Option(min=2, help="Of the sensitivity; more are slower and more exact.")]
Strength = Annotated[list[float] | None, typer.Option(help="A sigma, or a fraction of tokens; repeat it for more.")]
FailIf = Annotated[Words, typer.Option(help="noise_accuracy<0.6 exits 1; repeat it for more.")]
Device = Annotated[str, typer.Option(help="cpu or cuda; by default the GPU if there is one.")]
Seed = Annotated[int, typer.Option(min=0, help="Other examples, other noise.")]
Trust = Annotated[bool, typer.Option("--trust", help="Unpickle weights, which can run code.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print the JSON instead of a summary.")]


def audit(
    models: Models,
    data: Data,
    out: Out = Path("audit"),
    examples: Examples = None,
    weights: Weights = None,
    head: Head = None,
    network: Network = None,
    normalize: Normalize = None,
    size: Size = None,
    labels: Labels = None,
    classes: Classes = None,
    metadata: Metadata = None,
    tokenizer: Tokenizer = None,
    text_column: Column = None,
    label_column: Column = None,
    max_length: Length = 128,
    sentence: Sentence = None,
    sentences: Sentences = None,
    slices: Slices = None,
    reference: Reference = None,
    beside: Beside = None,
    corruptions: Corruptions = "fast",
    probes: Probes = 16,
    strength: Strength = None,
    fail_if: FailIf = None,
    device: Device = "auto",
    seed: Seed = 0,
    trust: Trust = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find out whether a model is over-robust or brittle, or whether its sensitivity follows utility.

    poise audit timm:resnet50 --weights resnet50.safetensors --data photos/

    poise audit my_bert/ --data reviews.tsv --sentence "not bad at all"

    poise audit before.py:model after.py:model --data test.npz --fail-if "noise_accuracy<0.6"
    """
    order = dict(locals())
    with ending_at_once("interrupted before anything was measured; nothing was written"):
        from poise.commands.audited import Order
        from poise.commands.auditing import carry_out

    carry_out(Order(**order))
