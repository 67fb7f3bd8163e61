"""All commands of `poise`. Importing them does not import torch."""

from __future__ import annotations

import typer

from poise.cli import reproduce
from poise.cli.advise import advise
from poise.cli.audit import audit
from poise.cli.bench import bench
from poise.cli.corrupt import corrupt
from poise.cli.data import data
from poise.cli.evaluate import evaluate
from poise.cli.export import export
from poise.cli.leaderboard import leaderboard
from poise.cli.options import Command, Group, options_before_a_command
from poise.cli.pack import pack
from poise.cli.report import report
from poise.cli.sweep import sweep
from poise.cli.table import table

app = typer.Typer(cls=Group, no_args_is_help=True, pretty_exceptions_enable=False, help="Feature contrastive learning.")
app.add_typer(data, name="data")
app.command("list", cls=Command)(reproduce.list_experiments)
app.command(cls=Command)(reproduce.reproduce)
app.command(cls=Command)(reproduce.run)
app.command(cls=Command)(advise)
app.command(cls=Command)(sweep)
app.command(cls=Command)(table)
app.command(cls=Command)(report)
app.command(cls=Command)(pack)
app.command(cls=Command)(export)
app.command(cls=Command)(audit)
app.command(cls=Command)(evaluate)
app.command(cls=Command)(leaderboard)
app.command(cls=Command)(corrupt)
app.command(cls=Command)(bench)
app.callback()(options_before_a_command)
