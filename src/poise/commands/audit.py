"""`poise audit`: does a trained model's sensitivity follow utility? A verdict, a page and a JSON file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def audit(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL [MODEL]",
            help="torchvision:NAME, timm:NAME, a Hugging Face folder, a Poise checkpoint, or module:function.",
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="A folder of class folders, .npz, .npy, .tsv, .csv, .jsonl, or mnist, cifar10, sst2 and others."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder of the page and the JSON file.")] = Path("audit"),
    examples: Annotated[int | None, typer.Option(min=2, help="By default 100 on a CPU, 1000 on a GPU.")] = None,
    weights: Annotated[list[Path] | None, typer.Option(help="A file of weights; one for each model.")] = None,
    head: Annotated[str | None, typer.Option(help="The name of the model's last layer, if it is not found.")] = None,
    network: Annotated[
        str | None, typer.Option(help="Of a checkpoint without a recipe: LeNet(num_classes=10).")
    ] = None,
    normalize: Annotated[str | None, typer.Option(help="Of pictures: none, imagenet or half.")] = None,
    size: Annotated[int | None, typer.Option(min=16, help="Of pictures from a folder; by default the model's.")] = None,
    labels: Annotated[Path | None, typer.Option(help="An .npy of labels beside an .npy of pictures.")] = None,
    classes: Annotated[Path | None, typer.Option(help="Names of the model's classes, one per line.")] = None,
    metadata: Annotated[
        Path | None, typer.Option(help="A table with a row per picture; its columns make slices.")
    ] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="tokenizer.json, vocab.txt, or a Hugging Face folder.")] = None,
    text_column: Annotated[str | None, typer.Option(help="Of a table of sentences.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Of a table of sentences.")] = None,
    max_length: Annotated[int, typer.Option(min=4, help="Tokens of a sentence.")] = 128,
    sentence: Annotated[list[str] | None, typer.Option(help="One to draw; repeat it for more.")] = None,
    sentences: Annotated[Path | None, typer.Option(help="A file of sentences to draw, one per line.")] = None,
    slices: Annotated[list[str] | None, typer.Option("--slice", help="Only these columns; all by default.")] = None,
    reference: Annotated[str | None, typer.Option(help="A model whose utility is taken for the truth.")] = None,
    beside: Annotated[list[Path] | None, typer.Option(help="The folder of another audit, for the plane.")] = None,
    corruptions: Annotated[str, typer.Option(help="fast, all, none, or names with commas.")] = "fast",
    probes: Annotated[int, typer.Option(min=2, help="Of the sensitivity; more are slower and more exact.")] = 16,
    strength: Annotated[list[float] | None, typer.Option(help="A sigma, or a fraction of tokens; repeat it.")] = None,
    fail_if: Annotated[list[str] | None, typer.Option(help="noise_accuracy<0.6 exits 1; repeat it for more.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda; by default the GPU if there is one.")] = "auto",
    seed: Annotated[int, typer.Option(help="Other examples, other noise.")] = 0,
    trust: Annotated[bool, typer.Option("--trust", help="Unpickle weights, which can run code.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the JSON instead of a summary.")] = False,
) -> None:
    """Find out whether a model's sensitivity follows utility: over-robust, brittle, or as it should be.

    poise audit timm:resnet50 --weights resnet50.safetensors --data photos/

    poise audit my_bert/ --data reviews.tsv --sentence "not bad at all"

    poise audit before.py:model after.py:model --data test.npz --fail-if "noise_accuracy<0.6"
    """
    from poise.commands.audited import Order
    from poise.commands.auditing import carry_out

    named = {name: value for name, value in locals().items() if name not in ("Order", "carry_out")}
    carry_out(Order(**named))
