"""Commands that are tortured, and what they come to when nobody does."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

from torture.forks import command, forked
from torture.operations import count

RECIPES = Path(__file__).parent / "recipes"
_TIMES = {"seconds", "started", "finished", "peak_memory", "checksum"}
_PROOFS = {"sha256", "digest", "digests", "proof"}  # of files with times in them

Outcome = dict[str, Any]


def _sentences() -> None:
    import tiny_sst

    tiny_sst.store(train=64, held=12)


def _pictures() -> None:
    from data_sets import pictures

    from poise.data.sets import cache

    cache.store("cifar10", pictures(60, 8).items(), "made", {})


@dataclass(frozen=True)
class Subject:
    """A command that leaves runs.

    data  fills the cache that it reads.
    """

    name: str
    words: tuple[str, ...]
    data: Callable[[], None] = lambda: None

    def command(self, home: Path, cache: Path, watched: Callable[[], object] = lambda: None) -> Callable[[], object]:
        """The command, into a folder and with a cache; `watched` is called before it begins, what it gives is told."""
        verb, file, *rest = self.words
        whole = command(verb, RECIPES / file, "--out", home / "runs", "--device", "cpu", "--quiet", *rest)

        def run() -> object:
            os.environ["POISE_DATA"] = str(cache)
            seen = watched()
            try:
                whole()
            except SystemExit as end:
                if end.code:
                    raise
            return seen

        return run


SUBJECTS = {
    each.name: each
    for each in (
        Subject("plain", ("run", "plain.py")),
        Subject("kept", ("run", "plain.py", "--keep-models", "--method", "FCL")),
        Subject("sweep", ("sweep", "plain.py")),
        Subject("sentiment", ("run", "sentiment.py"), _sentences),
        Subject("cifar", ("run", "cifar.py", "--method", "FCL", "--seeds", "1"), _pictures),
        Subject("fleet", ("run", "fleet.py", "--fleet")),
    )
}


@dataclass(frozen=True)
class Undisturbed:
    """What a subject came to alone.

    operations  kind and file of each.
    """

    subject: Subject
    home: Path
    seconds: float
    operations: list[list[str]]
    outcome: Outcome

    @property
    def cache(self) -> Path:
        return self.home / "cache"

    def command(
        self, home: Path, watched: Callable[[], object] = lambda: None, cache: Path | None = None
    ) -> Callable[[], object]:
        return self.subject.command(home, cache or self.cache, watched)

    def differs(self, home: Path, weights: bool = True) -> str:
        """How a folder differs from the undisturbed one after the same command; nothing where it does not."""
        again = forked(self.command(home))
        if again.code != 0:
            return f"the same command again: {again.wrong or again.said.strip()}"
        return difference(*(_records(each, weights) for each in (self.outcome, outcome_of(home / "runs"))))


def undisturbed(name: str, work: Path) -> Undisturbed:
    """It runs once; all processes share what it left in the work folder."""
    subject, home = SUBJECTS[name], work / name
    home.mkdir(exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "facts.json").exists():
            _run(subject, home)
    return Undisturbed(subject, home, **json.loads((home / "facts.json").read_text()))


def warm(names: tuple[str, ...], work: Path) -> None:
    """Import here what the subjects import when they run, so that the processes forked from here need not."""
    from importlib import import_module

    for name in names:
        for module in json.loads((undisturbed(name, work).home / "modules.json").read_text()):
            try:
                import_module(module)
            except Exception:  # made by its library in a way of its own
                continue


def _run(subject: Subject, home: Path) -> None:
    """Twice in a process: the first time it imports what it needs."""
    os.environ["POISE_DATA"] = str(home / "cache")

    def twice() -> tuple[list[str], list[tuple[str, str]], float]:
        subject.command(home / "first", home / "cache")()
        modules, begin = list(sys.modules), monotonic()
        done = subject.command(home, home / "cache", lambda: count(home / "runs"))()
        return modules, done, monotonic() - begin  # type: ignore[return-value]

    for end in (forked(subject.data), ran := forked(twice)):
        if end.code:
            raise RuntimeError(f"{subject.name} fails undisturbed: {end.said}")
    modules, done, seconds = ran.value
    (home / "modules.json").write_text(json.dumps(modules))
    operations = [(kind, str(Path(path).relative_to(home.resolve() / "runs"))) for kind, path in done]
    facts = {"seconds": seconds, "operations": operations, "outcome": outcome_of(home / "runs")}
    (home / "facts.json").write_text(json.dumps(facts))


def outcome_of(runs: Path) -> Outcome:
    """Records, exhibits, recipes and trials without their times, and the digests of weights; by file.

    A fleet's own folder is left out: its weights are those of its runs.
    """
    found: Outcome = {}
    for path in sorted(path for path in runs.rglob("*.*") if "fleets" not in path.parts):
        name = str(path.relative_to(runs))
        if path.suffix == ".json" and not path.name.startswith("checkpoint-"):
            found[name] = settled(json.loads(path.read_text()))
        if path.suffix == ".safetensors":
            found[name] = sha256(path.read_bytes()).hexdigest()
    return found


def _records(outcome: Outcome, weights: bool) -> Outcome:
    return {name: each for name, each in outcome.items() if weights or name.endswith(".json")}


def settled(value: Any) -> Any:
    """Without times."""
    if isinstance(value, dict):
        return {name: settled(each) for name, each in value.items() if name not in _TIMES | _PROOFS}
    return [settled(each) for each in value] if isinstance(value, list) else value


def difference(one: Any, other: Any, place: str = "") -> str:
    """The first place where two outcomes differ, and how."""
    if isinstance(one, dict) and isinstance(other, dict):
        if missing := [name for name in (*one, *other) if name not in one or name not in other]:
            return f"{place}{missing[0]} is {'new' if missing[0] in other else 'missing'}"
        return next((found for name in one if (found := difference(one[name], other[name], f"{place}{name}: "))), "")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return next((found for at, (a, b) in pairs if (found := difference(a, b, f"{place}{at}: "))), "")
    return "" if one == other else f"{place}{str(one)[:60]} became {str(other)[:60]}"
