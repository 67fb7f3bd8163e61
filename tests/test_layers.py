"""Imports point down: a module may import what is in a lower row, and peers of its folder only by their contract."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "poise"

LAYERS = [
    {"choices", "extras", "margin_kernel", "whole"},
    {"tokens", "losses", "outputs", "schedules", "distributed", "protocols"},
    {"classifier"},
    {"features", "models", "data", "corruptions", "reporting"},
    {"objectives", "robustness"},
    {"training"},
    {"auditing", "experiments"},
    {"commands"},
    {"cli"},
    {"__main__", "__init__"},
]

CONTRACTS = {
    "auditing": {
        *(
            "arrays",
            "audit",
            "batches",
            "checkpoints",
            "classifiers",
            "collect",
            "confusions",
            "effects",
            "errors",
            "examples",
            "families",
        ),
        *(
            "huggingface",
            "intervals",
            "leftover",
            "measure",
            "numbers",
            "outputs",
            "own_code",
            "pictures",
            "plan",
            "result",
            "rows",
            "search",
        ),
        *("slices", "summing", "telling", "texts", "units", "verdict", "weights", "wrappers"),
    },
    "commands": {
        "audited",
        "auditing",
        "clusters",
        "completing",
        "corrupting",
        "finished",
        "fitted",
        "inputs",
        "progress",
        "reproduce",
        "results",
        "seeds",
        "stopping",
    },
    "corruptions": {
        *("draws", "pixels", "filters", "edges", "frost", "jpeg", "motion", "zoom", "rgb", "profiles", "corrupt"),
    },
    "robustness": {"gallery", "output", "scores"},
    "data": {
        *("errors", "unpickle", "files", "folders", "layouts", "cache", "download", "packages", "dataset", "catalogue"),
        *("places", "stream", "augment", "operations", "loader", "imagenet_val", "sst", "sentences"),
        *("imagenet", "ahead", "streamed", "shards", "decoding"),
    },
    "experiments": {
        *("experiment", "environment", "folders", "logs", "trunks", "judge", "runner", "fleets", "sweep", "grids"),
        *("titles", "lengths", "tested", "kept", "record"),
        *("noisy_digits", "corner", "cifar", "noisy_cifar", "paper_cifar_c", "placing", "alignment", "human"),
        *("imagenet", "paper_imagenet_c", "search", "connection"),
    },
    "features": {"utility", "chunks"},
    "models": {"ending", "heads", "normalize", "shells"},
    "objectives": {"objective", "contrast"},
    "training": {
        "errors",
        "plan",
        "step",
        "average",
        "batch_norm",
        "checkpoint",
        "compiling",
        "engine",
        "narrow",
        "narrow_kernels",
        "tables",
        "keeper",
        "memory",
    },
    "reporting": {
        *("files", "columns", "recipes", "records", "statistics", "captions", "numbers", "tables", "grid"),
        *("markup", "svg", "colours", "findings", "sections", "document", "sweeps", "strips", "png", "audits", "plane"),
        *("plots", "measures", "frontier", "frontier_plots", "labels"),
        *("audit_examples", "audit_sections", "audit_details", "audit_page"),
    },
}


# These gather all their peers.
COLLECTORS = {
    ("experiments", "synthetic_mnist_ablation"),
    ("experiments", "synthetic_mnist_frontier"),
    ("experiments", "synthetic_mnist_choices"),
    ("experiments", "synthetic_mnist_scalings"),
    ("experiments", "cifar_controls"),
    ("corruptions", "profiles"),
    ("corruptions", "corrupt"),
    ("models", "saved"),
    ("reporting", "formats"),
    ("reporting", "sections"),
}


def layer_of(name: str) -> int:
    return next((number for number, names in enumerate(LAYERS) if name in names), -1)


def imports_of(path: Path) -> list[list[str]]:
    """The parts after `poise` of every import in a file."""
    tree = ast.parse(path.read_text())
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return [name.split(".")[1:] for name in names if name.split(".")[0] == "poise"]


def problem(path: Path, target: list[str]) -> str | None:
    own = path.relative_to(SOURCE).with_suffix("").parts
    if layer_of(own[0]) < 0 or (target and layer_of(target[0]) < 0):
        return f"{'.'.join(own)} → {'.'.join(target)}: not in the plan"
    if not target and own != ("cli",):  # which says the version
        return f"{'.'.join(own)} may not import the package itself"
    if len(own) > 1 and own[0] == target[0]:
        allowed = own in COLLECTORS or target[1] in CONTRACTS.get(own[0], set())
        return None if allowed else f"{'.'.join(own)} may not import its peer {'.'.join(target)}"
    return None if not target or layer_of(target[0]) < layer_of(own[0]) else f"{own[0]} may not import {target[0]}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    assert [found for target in imports_of(path) if (found := problem(path, target))] == []


def test_a_wrong_import_is_found() -> None:
    assert problem(SOURCE / "models" / "lenet.py", ["objectives", "fcl"]) == "models may not import objectives"
    assert problem(SOURCE / "features" / "utility.py", ["models", "split"]) == "features may not import models"
    assert "peer" in (problem(SOURCE / "objectives" / "xe.py", ["objectives", "fcl"]) or "")


def test_files_and_functions_stay_small() -> None:
    long = []
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        long += [f"{path.name}: {text.count(chr(10))} lines"] if text.count("\n") > 500 else []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 50:
                long.append(f"{path.name}: {node.name}")
    assert long == []
