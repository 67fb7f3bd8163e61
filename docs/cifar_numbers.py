"""The numbers of docs/cifar.md and the pages below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from docs.evidence import COMPRESSED, FULL_SEEDS, Evidence
from docs.wording import NONE, answers, arrow, drawn, minus, printed, spread, table, told
from poise.reporting.figures.forest import ForestBlock, ForestRow
from poise.reporting.statistics import Difference, holm_corrected, number, paired, probability, summarize

SETS = {"CIFAR-10": ("noisy-cifar10", "cifar10-c"), "CIFAR-100": ("noisy-cifar100", "cifar100-c")}
CONTROLS = ("cifar-controls-noisy", "cifar-controls-c")
COLUMNS = {"clean": (0, "Clean"), "UN": (0, "UN"), "noise group": (1, "Noise"), "unseen 15": (1, "unseen (15)")}
FIRST = "XE"
LATE = {"XE+Gaussian, running statistics, from epoch 300": "XE+Gaussian, running statistics, late"}
Names = tuple[str, str]


def gaps(known: Evidence, names: Names, one: str, other: str) -> tuple[Difference | None, ...]:
    """One method minus another in COLUMNS, with Holm's correction over them."""
    cells = [
        paired(*(known.values(names[place], method, column) for method in (one, other)))
        for place, column in COLUMNS.values()
    ]
    return tuple(holm_corrected(cells))


def runs_of(known: Evidence, names: Names, method: str) -> int:
    """The number of seeds that a method has in both tables."""
    held = [known.held[name].runs.get(method, {}) for name in names if name in known.held]
    return len(set(held[0]) & set(held[1])) if len(held) == 2 else 0


def methods(known: Evidence, names: Names, seeds: int = 1) -> list[str]:
    if names[0] not in known.held:
        return []
    return [each for each in known.held[names[0]].experiment.methods if runs_of(known, names, each) >= seeds]


def lengths(names: Names) -> tuple[Names, Names]:
    """The tables with the paper's epochs, and the compressed ones."""
    return names, (f"{names[0]}{COMPRESSED}", f"{names[1]}{COMPRESSED}")


def forest_of_methods(known: Evidence) -> str:
    """Each method minus XE, at its longest length."""
    blocks = []
    for data, names in SETS.items():
        done: list[str] = []
        for chosen in lengths(names):
            found = [each for each in methods(known, chosen, FULL_SEEDS) if each not in (FIRST, *done)]
            done += found
            if found:
                blocks.append(_block(known, chosen, data, found, FIRST))
    return drawn("Differences from XE in accuracy, with 95 % intervals", list(COLUMNS), blocks)


def _block(known: Evidence, names: Names, data: str, of: Sequence[str], other: str) -> ForestBlock:
    """Rows with their seeds, which stand in the title if all have as many."""
    cells = {method: gaps(known, names, method, other) for method in of}
    seeds = {method: min(cell.seeds for cell in row if cell) for method, row in cells.items()}
    same = len(set(seeds.values())) == 1
    rows = [
        ForestRow(LATE.get(method, method) + ("" if same else f", {seeds[method]} seeds"), row)
        for method, row in cells.items()
    ]
    title = f"{data}, {known.epochs(names[0])} epochs" + (f", {min(seeds.values())} seeds" if same else "")
    return ForestBlock(f"{title}: minus {other}", tuple(rows))


def controls(known: Evidence) -> Names:
    full, short = lengths(CONTROLS)
    return full if len(methods(known, full, FULL_SEEDS)) > 2 else short


def forest_of_controls(known: Evidence) -> str:
    """Each control minus FCL."""
    names = controls(known)
    of = [method for method in methods(known, names) if method != "FCL"]
    return drawn("Differences of the controls from FCL", list(COLUMNS), [_block(known, names, "CIFAR-10", of, "FCL")])


def answer(known: Evidence) -> str:
    noisy, hundred = SETS["CIFAR-10"][0], SETS["CIFAR-100"][0]
    ten_c, hundred_c = SETS["CIFAR-10"][1], SETS["CIFAR-100"][1]
    return answers(
        [
            ("FCL above XE under pixel noise, CIFAR-10", "UN", known.effect(noisy, "UN", "FCL", "XE")),
            ("… and on CIFAR-100-C", "all 19", known.effect(hundred_c, "All, 19", "FCL", "XE")),
            ("… without a loss of clean accuracy, CIFAR-100", "clean", known.effect(hundred, "Clean", "FCL", "XE")),
            ("FCL above XE+Gaussian on CIFAR-10-C", "all 19", known.effect(ten_c, "All, 19", "FCL", "XE+Gaussian")),
            ("Utility above random features", "UN", known.effect(CONTROLS[0], "UN", "FCL", "FCL, random k")),
        ]
    )


def main_table(known: Evidence) -> str:
    """Every method at every length, with the paper's numbers where it has them."""
    paper = {"clean": (0, "Clean"), "UN": (0, "UN"), "all 19": (1, "All, 19")}
    shown = {**COLUMNS, "all 19": (1, "All, 19")}
    head = ["", "seeds", *(name for each in shown for name in ([each, "paper"] if each in paper else [each]))]
    rows = []
    for data, names in SETS.items():
        for chosen in lengths(names):
            found = methods(known, chosen)
            if found:
                rows.append([f"**{data}, {known.epochs(chosen[0])} epochs**", *([""] * (len(head) - 1))])
            for method in found:
                cells = [method, str(runs_of(known, chosen, method))]
                for each, (place, column) in shown.items():
                    values = list(known.values(chosen[place], method, column).values())
                    cells.append(spread(summarize(values) if values else None))
                    cells += [_paper(known, chosen[place], method, column)] if each in paper else []
                rows.append(cells)
    return table(head, rows)


def _paper(known: Evidence, name: str, method: str, column: str) -> str:
    cell = known.held[name].experiment.paper.get(method, {}).get(column)
    return number(cell.mean, 3) if cell else NONE


PAIRS = (
    ("FCL", "XE"),
    ("FCL", "XE+Gaussian"),
    ("FCL", "CL+Gaussian"),
    ("XE+Gaussian", "XE"),
    ("CL+Gaussian", "XE"),
    ("PG+XE", "XE"),
    ("PG+FCL", "PG+XE"),
    ("PG+FCL", "FCL"),
    ("GN+XE", "FCL"),
    ("GN+FCL", "GN+XE"),
    ("AugMix", "XE"),
    ("AugMix", "PG+XE"),
    ("AugMix+FCL", "AugMix"),
)


def pairs_table(known: Evidence, names: Names) -> str:
    """Differences of pairs of methods; p is Holm's over the columns shown."""
    noisy = ("Clean", "UN", "UN 5%", "UN 30%", "UN value", "UN colour")
    corrupted = ("All, 19", "Noise", "Blur", "Weather", "Digital", "unseen (15)")
    parts = []
    if names[0] not in known.held:
        return "No runs yet."
    for name, columns in zip(names, (noisy, corrupted), strict=True):
        rows = [
            [minus(one, other), *(_cell(gap) for gap in _corrected(known, name, columns, one, other))]
            for one, other in PAIRS
            if known.values(name, one, columns[0]) and known.values(name, other, columns[0])
        ]
        parts.append(table(["difference", *columns], rows))
    return "\n\n".join(parts)


def _corrected(known: Evidence, name: str, columns: Sequence[str], one: str, other: str) -> list[Difference | None]:
    return holm_corrected(
        [paired(known.values(name, one, column), known.values(name, other, column)) for column in columns]
    )


def _cell(gap: Difference | None) -> str:
    return f"{told(gap)}{arrow(gap)}"


def random_noises(known: Evidence) -> str:
    """Random features minus FCL per corruption: uncorrected, Holm over the three noises, and over all 19."""
    name = f"{CONTROLS[1]}{COMPRESSED}" if controls(known)[1].endswith(COMPRESSED) else CONTROLS[1]
    experiment = known.held[name].experiment
    columns = [column.name for columns in experiment.details.values() for column in columns]
    found = [paired(*(known.values(name, method, each) for method in ("FCL, random k", "FCL"))) for each in columns]
    three, every = holm_corrected(found[:3]), holm_corrected(found)
    rows = [
        [each.replace("_", " "), told(one), *(probability(p) for p in (one.p, one.holm, other.holm))]
        for each, one, other in zip(columns, three, every, strict=False)
        if one and other
    ]
    head = [minus("random features", "FCL"), "mean, 95 % interval", "p", "Holm over three", "Holm over 19"]
    return table(head, rows)


def blocks() -> Iterator[tuple[str, Callable[[Evidence], str]]]:
    yield "the answer on CIFAR", answer
    yield "the table of CIFAR", main_table
    yield "random features by corruption", random_noises
    for names in (*SETS.values(), CONTROLS):
        for chosen in lengths(names):
            yield from ((f"table {name}", printed(name)) for name in chosen)
            yield f"pairs {chosen[0]}", partial(pairs_table, names=chosen)


BLOCKS: Mapping[str, Callable[[Evidence], str]] = dict(blocks())
FIGURES = {"cifar/forest.svg": forest_of_methods, "cifar/controls.svg": forest_of_controls}
