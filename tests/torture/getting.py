"""`poise data get`, with small sets under the names of real ones and no address but those of a test."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torture.forks import command


def getting(
    cache: Path,
    *words: object,
    addresses: tuple[tuple[str, ...], ...] = (),
    before: Callable[[], object] = lambda: None,
) -> Callable[[], object]:
    """`poise data` with these words, in this cache."""

    def run() -> object:
        from data_sets import cifar10_pickles, digits, pictures  # noqa: F401

        os.environ["POISE_DATA"] = str(cache)
        _offer("mnist", digits(), addresses)
        _offer("cifar10", pictures(), addresses)
        seen = before()
        try:
            command("data", *words)()
        except SystemExit as end:
            if end.code:
                raise
        return seen

    return run


def _offer(name: str, items: dict[str, Any], addresses: tuple[tuple[str, ...], ...]) -> None:
    from poise.data.sets import cache, catalogue

    ways = {"addresses": addresses, "packages": (), "md5": None, "require": None}
    digests = {item: cache.digest(value) for item, value in items.items()}
    catalogue.CATALOGUE[name] = replace(catalogue.CATALOGUE[name], digests=digests, **ways)
