"""The paper's experiments as recipes, and the names that a recipe of your own needs.

    from poise.recipes import Adam, Build, Column, Examples, Experiment, Method, Plan, Task

`examples/own_recipe.py` is a complete one. The names are imported when they are first used, so that the command line
starts without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poise.data.loading.pictures import StreamLoader as StreamLoader
    from poise.data.loading.resident import DeviceLoader as DeviceLoader
    from poise.data.loading.resident import Loader as Loader
    from poise.data.loading.resident import on_device as on_device
    from poise.data.loading.sentences import TokenLoader as TokenLoader
    from poise.records.columns import Column as Column
    from poise.running.experiment import Build as Build
    from poise.running.experiment import Examples as Examples
    from poise.running.experiment import Experiment as Experiment
    from poise.running.experiment import Method as Method
    from poise.running.experiment import Task as Task
    from poise.running.runner import Runner as Runner
    from poise.running.sweeps import Sweep as Sweep
    from poise.training.loop import fit as fit
    from poise.training.plan import SGD as SGD
    from poise.training.plan import Adam as Adam
    from poise.training.plan import Plan as Plan

_HOMES = {
    "poise.data.loading.resident": "DeviceLoader Loader on_device",
    "poise.data.loading.sentences": "TokenLoader",
    "poise.data.loading.pictures": "StreamLoader",
    "poise.records.columns": "Column",
    "poise.running.experiment": "Build Examples Experiment Method Task",
    "poise.running.runner": "Runner",
    "poise.running.sweeps": "Sweep",
    "poise.training.loop": "fit",
    "poise.training.plan": "Adam Plan SGD",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'poise.recipes' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value
