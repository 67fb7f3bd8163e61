"""The commands' reference: every command of `poise` with its examples, arguments and options, from their help."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from inspect import cleandoc
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer


def reference() -> str:
    """All commands as sections of Markdown."""
    from poise.cli.app import app

    return "\n\n".join(section(name, command) for name, command in commands(typer.main.get_command(app), "poise"))


def commands(group: Any, before: str) -> Iterator[tuple[str, Any]]:
    """The full names of a group's commands, those of its groups included."""
    for name, command in group.commands.items():
        if getattr(command, "hidden", False):
            continue
        if hasattr(command, "commands"):
            yield from commands(command, f"{before} {name}")
        else:
            yield f"{before} {name}", command


def section(name: str, command: Any) -> str:
    """One command: what it does, examples, and a table of its arguments and options."""
    paragraphs = cleandoc(command.help or "").split("\n\n")
    examples = [" ".join(each.split()) for each in paragraphs if _is_example(each)]
    words = [_safe(" ".join(each.split())) for each in paragraphs if not _is_example(each)]
    hints = get_type_hints(command.callback)
    rows = [row for parameter in command.params if (row := _row(parameter, hints))]
    parts = [f"## {name}", *words]
    if examples:
        parts.append("```shell\n" + "\n".join(examples) + "\n```")
    if rows:
        parts.append("\n".join(["| option | value | |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _is_example(paragraph: str) -> bool:
    first = paragraph.split(maxsplit=1)[0] if paragraph.strip() else ""
    return first == "poise" or (first.isupper() and "=" in first) or first.startswith("POISE_")


def _row(parameter: Any, hints: dict[str, Any]) -> str:
    if getattr(parameter, "hidden", False) or "--help" in parameter.opts:
        return ""
    is_option = parameter.param_type_name == "option"
    name = ", ".join(parameter.opts) if is_option else parameter.metavar or parameter.name.upper()
    switch = is_option and getattr(parameter, "is_flag", False)
    value = "" if switch or not is_option else parameter.metavar or _kind(hints.get(parameter.name))
    default = getattr(parameter.default, "value", parameter.default)
    shown = "" if default in (None, False, "", ()) or callable(default) else f" By default `{default}`."
    needed = " Required." if parameter.required and is_option else ""
    return f"| `{name}` | {_safe(value)} | {_safe(getattr(parameter, 'help', '') or '')}{shown}{needed} |"


def _kind(hint: Any) -> str:
    """The choices of an option, or the kind of its value."""
    hint = next((each for each in get_args(hint) if each is not type(None)), hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(str(each.value) for each in hint)
    return {int: "N", float: "NUMBER", Path: "PATH"}.get(hint, "TEXT")


def _safe(words: str) -> str:
    return words.replace("\n", " ").replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")
