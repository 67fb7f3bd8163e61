"""The API reference: every public name, in the folders of the package, from its docstring and types."""

from __future__ import annotations

import inspect

import poise

TITLES = {
    "objectives": "Objectives and contrasts",
    "losses": "Losses",
    "schedules": "Schedules",
    "features": "Utility, sensitivity, selection, perturbation",
    "models": "Models",
    "classifier": "Models",
    "tokens": "Text",
    "data": "Augmentation and balance",
    "corruptions": "Corruptions",
    "evaluation": "Evaluation",
    "auditing": "Audit",
    "training": "Training",
}
MEMBERS = "   :members:\n   :special-members: __call__\n   :exclude-members: __init__, forward\n"


def reference() -> str:
    """The names in sections, as Markdown around autodoc's directives."""
    sections: dict[str, list[str]] = {}
    for name in poise.__all__:
        folder = poise._HOME[name].split(".")[1]
        sections.setdefault(TITLES.get(folder, folder.capitalize()), []).append(name)
    order = [title for title in dict.fromkeys([*TITLES.values(), *sections]) if title in sections]
    return "\n".join(f"\n## {title}\n\n```{{eval-rst}}\n{_entries(sections[title])}```" for title in order)


def _entries(names: list[str]) -> str:
    return "\n".join(_entry(name) for name in names)


def _entry(name: str) -> str:
    held = getattr(poise, name)
    if inspect.isclass(held):
        return f".. autoclass:: poise.{name}\n{MEMBERS}"
    kind = "autofunction" if inspect.isroutine(held) else "autodata"
    return f".. {kind}:: poise.{name}\n"
