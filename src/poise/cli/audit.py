"""`poise audit`: a verdict on a model's sensitivity, with a page and a JSON file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from poise.cli.completion import complete_audit_corruptions, complete_audit_data
from poise.cli.options import Quiet, exit_on_ctrl_c
from poise.cli.reproduce import Device

Words: TypeAlias = list[str] | None
_MODELS = "torchvision:NAME, timm:NAME, a Hugging Face folder, a Poise checkpoint, or module:function."
_DATA = "A folder of class folders, .npz, .npy, .tsv, .csv, .jsonl, or mnist, cifar10, sst2 and others."
Models = Annotated[list[str], typer.Argument(metavar="MODEL [MODEL]", help=_MODELS)]
Data = Annotated[str, typer.Option(help=_DATA, autocompletion=complete_audit_data)]
Out = Annotated[Path, typer.Option(help="The folder for the page and the JSON file.")]
Examples = Annotated[
    int | None,
    typer.Option(min=2, metavar="N", help="Number of examples. By default 1000; on a CPU 100 images or 300 sentences."),
]
Weights = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="A file of weights. Repeat for a second model.")
]
Head = Annotated[str | None, typer.Option(help="Name of the last layer, if it is not found automatically.")]
Network = Annotated[str | None, typer.Option(help="Network of a checkpoint without a recipe, such as LeNet(10).")]
Normalize = Annotated[str | None, typer.Option(help="Normalization of images for the model: none, imagenet or half.")]
Size = Annotated[
    int | None, typer.Option(min=16, metavar="N", help="Size of images from a folder. By default the model's.")
]
Labels = Annotated[Path | None, typer.Option(help="An .npy of labels for an .npy of images.")]
Classes = Annotated[Path | None, typer.Option(help="A file with the names of the model's classes, one per line.")]
Metadata = Annotated[Path | None, typer.Option(help="A table with one row per image. Its columns define slices.")]
Tokenizer = Annotated[Path | None, typer.Option(help="tokenizer.json, vocab.txt, or a Hugging Face folder.")]
Column = Annotated[str | None, typer.Option(help="Name of this column in a table of sentences.")]
Length = Annotated[int, typer.Option(min=4, metavar="N", help="Maximum number of tokens in a sentence.")]
Sentence = Annotated[Words, typer.Option(metavar="TEXT", help="A sentence to show. Repeat for more.")]
Sentences = Annotated[Path | None, typer.Option(help="A file of sentences to show, one per line.")]
Slices = Annotated[
    Words, typer.Option("--slice", metavar="COLUMN", help="Slice by this column only. Repeat for more. By default all.")
]
Reference = Annotated[str | None, typer.Option(help="Use the utility of this model as the truth.")]
Beside = Annotated[
    list[Path] | None, typer.Option(metavar="DIR", help="The folder of another audit to show on the page.")
]
Corruptions = Annotated[
    str,
    typer.Option(help="fast, all, none, or names separated by commas.", autocompletion=complete_audit_corruptions),
]
Probes = Annotated[
    int, typer.Option(min=2, metavar="N", help="Random probes of the sensitivity. More are slower and more precise.")
]
Strength = Annotated[
    list[float] | None,
    typer.Option(metavar="NUMBER", help="Strength of perturbation: a sigma, or a fraction of tokens. Repeat for more."),
]
FailIf = Annotated[
    Words,
    typer.Option(metavar="TEXT", help="Exit with code 1 if this holds, such as noise_accuracy<0.6. Repeat for more."),
]
BaselineFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Exit with code 1 if a number is significantly worse than in this audit.json."),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed for the choice of examples and the noise.")]
NoWorstCase = Annotated[
    bool, typer.Option("--no-worst-case", help="Attack no examples, to find out how small a change turns answers.")
]
Trust = Annotated[bool, typer.Option("--trust", help="Allow unpickling weights, which can run code.")]
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
    no_worst_case: NoWorstCase = False,
    fail_if: FailIf = None,
    baseline: BaselineFile = None,
    device: Device = "auto",
    seed: Seed = 0,
    trust: Trust = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find out what a model relies on, what it misses, and whether it breaks under harmless change.

    poise audit timm:resnet50 --weights resnet50.safetensors --data photos/

    poise audit my_bert/ --data reviews.tsv --sentence "not bad at all"

    poise audit before.py:model after.py:model --data test.npz --fail-if "noise_accuracy<0.6"
    """
    request = dict(locals())
    request["worst_case"] = not request.pop("no_worst_case")
    with exit_on_ctrl_c("interrupted before anything was measured; nothing was written"):
        from poise.auditing.fitting import AuditRequest
        from poise.cli.run_audit import run_audit

    run_audit(AuditRequest(**request))
