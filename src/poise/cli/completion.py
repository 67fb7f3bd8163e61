"""Shell completion. Nothing here imports torch or NumPy, since the shell calls it at every press of TAB."""

from __future__ import annotations

import typer

from poise.corruptions.protocols import CORRUPTIONS, EVERY
from poise.recipes.index import FILES, WHOLE, method_names


def complete_experiments() -> list[str]:
    """The experiments and their parts."""
    return [*FILES, *WHOLE]


def complete_methods(ctx: typer.Context) -> list[str]:
    """The methods of the experiments on the command line; of all experiments if it names none, or a file.

    While the value of an option is missing, the other arguments are in ctx.args instead of ctx.params.
    """
    return method_names([*(ctx.params.get("names") or []), *ctx.args])


def data_sets() -> list[str]:
    from poise.data.sets.catalogue import CATALOGUE

    return list(CATALOGUE)


def complete_audit_data() -> list[str]:
    return ["mnist", "cifar10", "cifar100", "synthetic-mnist", "sst2"]


def complete_corrupt_sources() -> list[str]:
    return ["cifar10", "cifar100"]


def complete_corruptions() -> list[str]:
    return [*EVERY, "c-bar"]


def complete_audit_corruptions(incomplete: str) -> list[str]:
    """Complete the last of several names separated by commas."""
    before, comma, _ = incomplete.rpartition(",")
    kinds = [] if comma else ["fast", "all", "none"]
    return [*kinds, *(f"{before}{comma}{name}" for name in CORRUPTIONS if name not in before.split(","))]


def complete_benchmarks() -> list[str]:
    common = ["cifar10-c", "cifar100-c", "tiny-imagenet-c", "imagenet-c"]
    return [*common, "cifar10-c-bar", "cifar100-c-bar", "imagenet-c-bar", "pixel-noise"]


def complete_bench_cases() -> list[str]:
    return ["lenet", "resnet56"]


def complete_trackers() -> list[str]:
    return ["tensorboard", "wandb", "trackio", "mlflow", "csv"]


def complete_devices() -> list[str]:
    return ["auto", "cpu", "cuda"]


def complete_corrupt_devices() -> list[str]:
    return ["cpu", "cuda"]
