"""`poise pack`: the small files of finished runs in one file for each experiment."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from poise.cli.options import Json, Quiet, failures

Folders = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Folders with runs of experiments, sweeps, or evaluations.")
]


def pack(folders: Folders, quiet: Quiet = False, json: Json = False) -> None:
    """Pack the JSON files of finished runs into runs.jsonl.gz, one for each experiment and sweep.

    Evaluations below a folder with a published.json are packed into one file, too.

    All commands read packed runs as they read loose ones. Interrupted at any moment, it loses nothing.

    poise pack runs
    """
    with failures():
        from poise.records import packing

        done = []
        for folder in folders:
            for packed in packing.pack(folder):
                done.append(packed)
                for path in packed.damaged:
                    typer.echo(f"poise: {path} is damaged or cannot be packed: it stays", err=True)
                if not (quiet or json):
                    typer.echo(_told(packed))
    if json:
        typer.echo(dumps([asdict(packed) for packed in done], default=str))


def _told(packed: Any) -> str:
    if not packed.documents:
        return f"{packed.path.parent}: no finished runs to pack"
    return f"{packed.path}: {packed.documents} documents, {packed.bytes:,} bytes"
