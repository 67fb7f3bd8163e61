"""`poise export`: a trained network as a folder to share."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from poise.cli.options import Json, __version__, failures


def export(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The folder of a run with model.safetensors, or such a file.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write. By default exported/, and the names of the run.")
    ] = None,
    license: Annotated[  # noqa: A002
        str, typer.Option(metavar="ID", help="Licence of the weights on the model card, such as apache-2.0.")
    ] = "unknown",
    onnx: Annotated[bool, typer.Option("--onnx", help="Also write model.onnx, for other runtimes.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export.")] = False,
    json: Json = False,
) -> None:
    """Write a folder to share: weights, settings, a model card with results, and ONNX on request.

    The folder is ready for a model hub; nothing is uploaded. `poise.load_model` loads it.

    poise export runs/rare-digits/recommended/seed-00 --out my-model --license apache-2.0
    """
    if not model.exists():
        raise typer.BadParameter(f"{model} does not exist", param_hint="MODEL")
    if not license.strip() or not license.isprintable():
        raise typer.BadParameter("name a licence, such as apache-2.0", param_hint="--license")
    with failures():
        from poise.running.export import default_folder, export_model, trained_at

        trained = trained_at(model)
        files = export_model(trained, out or default_folder(trained), __version__, license, onnx, force)
    if json:
        typer.echo(dumps({"folder": str(files[0].parent), "files": [path.name for path in files]}))
        return
    for path in files:
        typer.echo(str(path))
    if license == "unknown":
        typer.echo("The model card says licence: unknown. Add --license, such as --license apache-2.0.", err=True)
