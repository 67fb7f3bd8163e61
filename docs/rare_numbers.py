"""The numbers of docs/rare-details.md, and README's table of three methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from docs.digits_numbers import mean_of
from docs.evidence import Evidence, Seeds
from docs.wording import NONE, arrow, drawn, minus, table, told
from poise.records.columns import Column
from poise.reporting.figures.forest import ForestBlock, ForestRow
from poise.reporting.statistics import Difference, holm_corrected, paired, probability
from poise.reporting.tables import scores_by_seed

STUDY, PAPER = "rare-digits", "synthetic-mnist"
RARE = tuple(range(10, 15))
NOISY = ("BAL+UN", "BAL+NUN")
SHORT = {
    "clean": Column("clean", ("BAL",)),
    "noise": Column("noise", NOISY),
    "rare classes": Column("rare", ("BAL",), RARE),
    "rare classes under noise": Column("rare, noise", NOISY, RARE),
}
PAIRS = {
    "pairs": Column("pairs", ("BAL, pairs",)),
    "pairs, noise": Column("pairs, noise", tuple(f"{test}, pairs" for test in NOISY)),
}
LONG = {
    "clean": SHORT["clean"],
    "UN": Column("UN", ("BAL+UN",)),
    "NUN": Column("NUN", ("BAL+NUN",)),
    "rare": SHORT["rare classes"],
    "rare, noise": SHORT["rare classes under noise"],
    **PAIRS,
}


@dataclass(frozen=True)
class Shown:
    """A row: the experiment whose records it takes, and the method there."""

    label: str
    experiment: str
    method: str

    def values(self, known: Evidence, column: Column) -> Seeds:
        return scores_by_seed(known.held[self.experiment], self.method, column) if self.experiment in known.held else {}


FCL = Shown("FCL, as in the paper", PAPER, "FCL")
OURS = Shown("`balanced_contrast`", STUDY, "recommended")
ADJUSTED = Shown("XE, adjusted logits", STUDY, "XE, adjusted")


def xe(known: Evidence) -> Shown:
    """Cross-entropy of the study, which has pairs; that of Table 1 as long as the study has fewer seeds."""
    runs = {name: len(known.held[name].runs.get("XE", ())) for name in (STUDY, PAPER) if name in known.held}
    return Shown("XE", STUDY if runs.get(STUDY, 0) >= runs.get(PAPER, 0) else PAPER, "XE")


def readme_table(known: Evidence) -> str:
    """Cross-entropy, the paper's FCL and the recommended objective, with arrows against the first."""
    first, rows = xe(known), []
    for each, label in ((first, "XE"), (FCL, FCL.label), (OURS, "ours: `poise.balanced_contrast`")):
        gaps = [None if each == first else gap(known, each, first, column) for column in SHORT.values()]
        means = [mean_of(each.values(known, column)) for column in SHORT.values()]
        rows.append([label, *(mean + arrow(held) for mean, held in zip(means, holm_corrected(gaps), strict=True))])
    return table(["synthetic MNIST", *SHORT], rows)


def main_table(known: Evidence) -> str:
    rows = []
    for each in (xe(known), FCL, ADJUSTED, OURS):
        seeds = len(each.values(known, LONG["clean"]))
        if seeds:
            rows.append([each.label, str(seeds), *(mean_of(each.values(known, column)) for column in LONG.values())])
    return table(["", "seeds", *LONG], rows)


def gap(known: Evidence, one: Shown, other: Shown, column: Column) -> Difference | None:
    """Paired by seed, which decides the initial weights and the order of the batches in every experiment."""
    return paired(one.values(known, column), other.values(known, column))


def rivals(known: Evidence) -> list[Shown]:
    return [each for each in (xe(known), FCL, ADJUSTED) if each.values(known, LONG["clean"])]


def gaps_table(known: Evidence) -> str:
    """The recommended objective minus each rival, with Holm's correction over the columns of a row."""
    rows = []
    for other in rivals(known):
        gaps = holm_corrected([gap(known, OURS, other, column) for column in LONG.values()])
        cells = [f"{told(each)}, {probability(each.holm)}" if each else NONE for each in gaps]
        rows.append([minus("ours", other.label), *cells])
    return table(["", *LONG], rows)


def forest_of_gaps(known: Evidence) -> str:
    """The same as a figure, of the columns that any rival has."""
    others = rivals(known)
    columns = {name: column for name, column in LONG.items() if any(each.values(known, column) for each in others)}
    rows = [
        ForestRow(f"minus {each.label}", tuple(holm_corrected([gap(known, OURS, each, of) for of in columns.values()])))
        for each in others
    ]
    block = ForestBlock("balanced_contrast, 10 seeds", tuple(rows))
    return drawn("Differences in accuracy, with 95 % intervals", list(columns), [block])


def blocks() -> Iterator[tuple[str, Callable[[Evidence], str]]]:
    yield "README: rare details", readme_table
    yield "rare digits", main_table
    yield "rare digits, differences", gaps_table


BLOCKS: Mapping[str, Callable[[Evidence], str]] = dict(blocks())
FIGURES = {"rare-details/digits.svg": forest_of_gaps}
