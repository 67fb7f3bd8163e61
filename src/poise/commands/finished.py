"""What `poise reproduce` and `poise run` say in the end."""

from __future__ import annotations

from json import dumps
from pathlib import Path

import typer


def say(done: dict[Path, tuple[list[Path], int]], json: bool) -> None:
    """Per experiment its folder, what is finished and how much is left; in JSON one document, a list if of several."""
    if json:
        found = [
            {"folder": str(f), "records": [str(path) for path in r], "left": left} for f, (r, left) in done.items()
        ]
        typer.echo(dumps(found[0] if len(found) == 1 else found))
        return
    for folder, (records, left) in done.items():
        typer.echo(
            f"{folder}: {len(records)} finished" + (f"; {left} left, run the same command to continue" if left else "")
        )


def say_what_has_no_weights(records: list[Path]) -> None:
    """Of finished runs, to stderr: they were asked for, and cannot be obtained."""
    from poise.experiments.kept import has_weights

    if bare := [record for record in records if not has_weights(record)]:
        others = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
        typer.echo(f"no weights beside {bare[0]}{others}: remove the record to train and test it again", err=True)
