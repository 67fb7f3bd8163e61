"""The model card of an exported network: Markdown with the YAML head that model hubs read."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from poise.io.documents import printable
from poise.records.columns import Column
from poise.records.recipe_text import pretty
from poise.records.schema import Record, StoredExperiment
from poise.reporting.render import ABBREVIATIONS, meaning_of

# Words of a recipe, and the data set on Hugging Face that they stand for.
_DATASETS = {
    "SyntheticMNIST(": "ylecun/mnist",
    "name='cifar10'": "uoft-cs/cifar10",
    "name='cifar100'": "uoft-cs/cifar100",
    "ImageNet(": "ILSVRC/imagenet-1k",
    "Phrases(": "stanfordnlp/sst",
}


def model_card(
    name: str,
    config: dict[str, Any],
    record: Record | None,
    experiment: StoredExperiment | None,
    license_id: str,
    onnx: bool,
) -> str:
    """README.md of an export: what the network is, how it was trained, its results, how to load it, its limits."""
    task = "image-classification" if config["input"]["kind"] == "images" else "text-classification"
    data = [found for words, found in _DATASETS.items() if record and words in record.recipe]
    results = _results(record, experiment) if record and experiment else []
    return (
        _environment()
        .get_template("model_card.md.j2")
        .render(
            name=name,
            config=config,
            settings=", ".join(f"{key}={value!r}" for key, value in config["settings"].items()),
            record=record,
            experiment=experiment,
            license_id=license_id,
            onnx=onnx,
            task=task,
            datasets=data,
            results=results,
            recipe=pretty(record.recipe) if record else "",
            meaning=meaning_of,
            method_known=record is not None and record.method in ABBREVIATIONS,
        )
    )


def _results(record: Record, experiment: StoredExperiment) -> list[tuple[Column, float]]:
    """The columns of the experiment's table that were measured, and their values."""
    found = [(column, column.value(record.scores, record.classes)) for column in experiment.columns]
    return [(column, value) for column, value in found if value is not None]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("poise.reporting"),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["yaml"] = json.dumps  # a JSON string is also a YAML string
    environment.filters["plain"] = _plain
    return environment


def _plain(words: object) -> str:
    """Words from outside, without what Markdown or HTML would take for markup."""
    text = " ".join(printable(str(words)).split())
    for sign in ("\\", "|", "<", "[", "`", "*", "_"):
        text = text.replace(sign, f"\\{sign}")
    return text
