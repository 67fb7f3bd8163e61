"""The numbers of docs/synthetic-mnist.md and the pages below it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from docs.evidence import RARE, READINGS, Effect, Evidence, Seeds, average
from docs.wording import NONE, answers, drawn, marked, minus, printed, spread, table, told
from poise.reporting.figures.forest import ForestBlock, ForestRow
from poise.reporting.statistics import Difference, holm_corrected, number, paired, probability, summarize

TABLE = "synthetic-mnist"
WORDS = {"": "corner digits by area", "-bilinear": "bilinear corner digits", "-nearest": "sharp corner digits"}
COLUMNS = {"clean": "BAL", "UN": "BAL+UN", "NUN": "BAL+NUN", "rare": RARE, "rare, NUN": "BAL+NUN, 10-14"}
CONTEXTS = {"in context": "in", "out of context": "out of"}
EXACT = ("FCL", "random")  # frontiers run with exact cross-entropy, as the CL+Gaussian that all are compared with
LABELS = {
    "random": "random features",
    "margin": "margin loss",
    "far x 100": "far view counts 100 times",
    "decisive": "far 100 times, if still learned",
    "none dropped": "far 10 times, never dropped",
    "smooth": "utility over noisy copies",
    "confident": "confident examples alone",
    "graded": "noise by the rank of the utility",
    "uneven": "512 near, 64 far",
}


def forest_of_methods(known: Evidence) -> str:
    """Each method minus XE, for each reading of the corner digit."""
    blocks = []
    for reading in READINGS:
        name = f"{TABLE}{reading}"
        of = [method for method in known.held[name].experiment.methods if method != "XE"]
        rows = [ForestRow(method, _gaps(known, name, method)) for method in of if method in known.held[name].runs]
        seeds = len(known.held[name].runs["XE"])
        blocks.append(ForestBlock(f"{WORDS[reading]}, {seeds} seeds: minus XE", tuple(rows)))
    return drawn("Differences from XE in accuracy, with 95 % intervals", list(COLUMNS), blocks)


def _gaps(known: Evidence, name: str, method: str) -> tuple[Difference | None, ...]:
    both = [[known.values(name, each, column) for each in (method, "XE")] for column in COLUMNS.values()]
    return tuple(holm_corrected([paired(*each) for each in both]))


def forest_of_frontiers(known: Evidence) -> str:
    """Each choice of features: the area of its frontier minus that of plain Gaussian contrast."""
    areas = {WORDS[reading]: known.areas(reading) for reading in READINGS}
    first = areas[WORDS[""]]
    mean = {name: average([each[name] for each in areas.values()]) for name in ("CL+Gaussian", *EXACT)}
    blocks = [_frontier_block(words, each, EXACT) for words, each in {**areas, "mean of the three": mean}.items()]
    others = [name for name in first if name not in mean]
    blocks.append(_frontier_block("by area, run before cross-entropy was exact", first, others))
    return drawn("Differences of frontiers' areas from plain Gaussian contrast", ["area of the frontier"], blocks, 360)


def _frontier_block(title: str, areas: Mapping[str, Seeds], names: Iterable[str]) -> ForestBlock:
    """Rows with Holm's correction over them."""
    gaps = {name: paired(areas[name], areas["CL+Gaussian"]) for name in names}
    held = holm_corrected(list(gaps.values()))
    rows = [ForestRow(LABELS.get(name, name), (gap,)) for name, gap in zip(gaps, held, strict=True)]
    return ForestBlock(f"{title}: minus CL+Gaussian", tuple(rows))


def answer(known: Evidence) -> str:
    return answers(
        [
            ("FCL above XE under uniform noise", "UN", known.over_readings("BAL+UN", "FCL", "XE")),
            ("… with the clean accuracy of XE", "clean", known.over_readings("BAL", "FCL", "XE")),
            ("… with XE's rare classes under noise", "rare, NUN", known.over_readings("BAL+NUN, 10-14", "FCL", "XE")),
            ("FCL above plain Gaussian contrast", "UN", known.over_readings("BAL+UN", "FCL", "CL+Gaussian")),
            ("Utility above random features, all lambdas", "area", known.frontier("FCL", "random")),
        ]
    )


def main_table(known: Evidence) -> str:
    """Every method for every reading, with the paper's numbers."""
    paper = ("clean", "UN", "NUN")
    head = ["", "seeds", *(name for each in COLUMNS for name in ([each, "paper"] if each in paper else [each]))]
    rows = []
    for reading in READINGS:
        held = known.held[f"{TABLE}{reading}"]
        rows.append([f"**{WORDS[reading]}**", *([""] * (len(head) - 1))])
        for method in (each for each in held.experiment.methods if each in held.runs):
            cells = [method, str(len(held.runs[method]))]
            for each, column in COLUMNS.items():
                cells.append(mean_of(known.values(f"{TABLE}{reading}", method, column)))
                if each in paper:
                    theirs = held.experiment.paper.get(method, {}).get(column)
                    cells.append(number(theirs.mean, 3) if theirs else NONE)
            rows.append(cells)
    return table(head, rows)


PAIRS = (
    ("FCL", "XE"),
    ("CL+Gaussian", "XE"),
    ("XE+Gaussian", "XE"),
    ("FCL", "CL+Gaussian"),
    ("FCL", "XE+Gaussian"),
    ("FCL, margin", "FCL"),
    ("Gaussian augmentation", "XE"),
    ("PG+FCL", "PG+XE"),
)


def pairs_table(known: Evidence, reading: str) -> str:
    """Differences of pairs of methods, before any correction."""
    name = f"{TABLE}{reading}"
    columns = {**COLUMNS, "UN, half the pixels": "UN/50"}
    rows = []
    for one, other in PAIRS:
        if one in known.held[name].runs and other in known.held[name].runs:
            found = [
                paired(*(known.values(name, each, column) for each in (one, other))) for column in columns.values()
            ]
            rows.append([f"{one} − {other}", *(told(gap) for gap in found)])  # noqa: RUF001
    return table(["difference", *columns], rows)


def class_table(known: Evidence, reading: str = "") -> str:
    """Accuracy by kind of class, with the arrows of `poise table`."""
    name = f"{TABLE}{reading}"
    kinds = {f"{kind}, {noise}": f"BAL+{noise}, {kind}" for noise in ("UN", "NUN") for kind in ("0-4", "5-9", "10-14")}
    kinds |= {"10-14, clean": RARE}
    rows = [
        [method, *(marked(known, name, method, column, spreads=True) for column in kinds.values())]
        for method in known.held[name].experiment.methods
        if method in known.held[name].runs
    ]
    return table(["", *kinds], rows)


def measures_table(known: Evidence) -> str:
    """Where utility and sensitivity lie, FCL against XE."""
    kinds = ("corner utility", "corner sensitivity", "corner top-k", "rank correlation")
    names = [f"{kind}, {context}" for kind in kinds for context in CONTEXTS]
    both = [[known.values(TABLE, method, name) for method in ("XE", "FCL")] for name in names]
    found = holm_corrected([paired(fcl, xe) for xe, fcl in both])
    rows = [
        [
            name,
            *(spread(summarize(list(each.values()))) for each in pair),
            told(gap),
            probability(gap.holm if gap else None),
        ]
        for name, pair, gap in zip(names, both, found, strict=True)
    ]
    return table(["measure", "XE", "FCL", minus("FCL", "XE"), "p (Holm)"], rows)


def shifts_table(known: Evidence) -> str:
    """How far the embedding moves, near and far, and by how much more FCL's ratio is than plain contrast's."""
    rows = []
    for reading in READINGS:
        name = f"{TABLE}{reading}"
        for method in ("XE", "CL+Gaussian", "FCL"):
            cells = [f"{WORDS[reading]}: {method}"]
            for context in CONTEXTS:
                near, far = (known.values(name, method, f"{view} shift, {context}") for view in ("near", "far"))
                held = [near, far, _ratio(near, far)]
                cells += [
                    spread(summarize(list(each.values())), 3 - (place == 2)) if each else NONE
                    for place, each in enumerate(held)
                ]
            rows.append(cells)
    head = [f"{view}, {context}" for context in CONTEXTS for view in ("near", "far", "far / near")]
    return table(["", *head], rows)


def mean_of(values: Seeds, digits: int = 3) -> str:
    return spread(summarize(list(values.values())), digits) if values else NONE


def _ratio(near: Seeds, far: Seeds) -> Seeds:
    return {seed: far[seed] / near[seed] for seed in near if seed in far}


def ratios_table(known: Evidence) -> str:
    """FCL's far / near minus that of plain contrast."""
    rows = []
    for reading in READINGS:
        name, cells = f"{TABLE}{reading}", [WORDS[reading]]
        for context in CONTEXTS:
            ratios = [
                _ratio(*(known.values(name, method, f"{view} shift, {context}") for view in ("near", "far")))
                for method in ("FCL", "CL+Gaussian")
            ]
            cells.append(told(paired(*ratios)))
        rows.append(cells)
    return table([f"far / near, {minus('FCL', 'CL+Gaussian')}", *CONTEXTS], rows)


def areas_table(known: Evidence) -> str:
    """The area of each frontier, and the difference from plain Gaussian contrast where the loss was the same."""
    rows = []
    for reading in READINGS:
        areas = known.areas(reading)
        of = ("CL+Gaussian", *EXACT)
        gaps = holm_corrected([None, *(paired(areas[name], areas["CL+Gaussian"]) for name in of[1:])])
        for name, gap in zip(of, gaps, strict=True):
            cells = [f"{WORDS[reading]}: {LABELS.get(name, name)}", str(len(areas[name]))]
            rows.append(
                [
                    *cells,
                    spread(summarize(list(areas[name].values())), 4),
                    told(gap),
                    probability(gap.holm if gap else None),
                ]
            )
    return table(["near and far", "seeds", "area", "minus CL+Gaussian", "p (Holm)"], rows)


def random_table(known: Evidence) -> str:
    """Areas of random features, FCL and plain contrast against each other, reading by reading and averaged."""
    rows = []
    for one, other in (("random", "FCL"), ("random", "CL+Gaussian"), ("FCL", "CL+Gaussian")):
        effects = [paired(*(known.areas(reading)[name] for name in (one, other))) for reading in READINGS]
        mean: Effect | None = known.frontier(one, other)
        shown = [*effects, mean.gap if mean else None]
        rows.append([minus(one, other), *(f"{told(gap)}, {probability(gap.p)}" if gap else NONE for gap in shown)])
    return table(["difference of areas", "by area", "bilinear", "sharp", "mean of three"], rows)


def choices_table(known: Evidence) -> str:
    """Other readings of the paper, on validation."""
    names = ["choices", "batch-64", "batch-256", "width-2", "width-4", "corner-5-area", "corner-9-area"]
    names += ["corner-7-bilinear", "corner-7-nearest"]
    columns = ("validation", "validation+UN", "validation+NUN", "validation, 10-14")
    rows = []
    for name in names:
        held = known.held[f"{TABLE}-{name}"]
        means = [
            number(summarize(list(known.values(f"{TABLE}-{name}", method, column).values())).mean, 3)
            for method in ("XE", "FCL")
            for column in columns
        ]
        rows.append([held.experiment.title.removeprefix("Synthetic MNIST: "), *means])
    head = [f"{method}{word}" for method in ("XE", "FCL") for word in ("", ", UN", ", NUN", ", 10-14")]
    return table(["", *head], rows)


def appendix_table(known: Evidence) -> str:
    """Utility against the true class's sensitivity, where the prediction is right, or wrong."""
    found = json.loads((known.folder / "benchmarks" / "appendix-a.json").read_text())
    rows = []
    for method, kinds in found.items():
        for kind, each in kinds.items():
            low, middle, high = (f"{each[f'ratio, {name}']:.3g}" for name in ("5 %", "median", "95 %"))
            medians = (f"{each[f'median {name}']:.2g}" for name in ("utility", "sensitivity"))
            rho = number(each["rank correlation"], 3)
            rows.append([f"{method}, {kind}", str(each["images"]), *medians, f"{middle} ({low} to {high})", rho])
    return table(["", "images", "utility", "sensitivity", "utility / sensitivity", "rank correlation"], rows)


def blocks() -> Iterator[tuple[str, Callable[[Evidence], str]]]:
    yield "the answer on digits", answer
    yield "the table of digits", main_table
    for reading in READINGS:
        yield f"pairs {TABLE}{reading}", partial(pairs_table, reading=reading)
        yield f"table {TABLE}{reading}", printed(f"{TABLE}{reading}")
    yield "classes", class_table
    yield "measures", measures_table
    yield "shifts", shifts_table
    yield "ratios", ratios_table
    yield "areas", areas_table
    yield "random against utility", random_table
    yield "appendix A", appendix_table
    yield "choices", choices_table
    yield "ablation", printed(f"{TABLE}-ablation")
    yield "teacher", printed("taught-digits")


BLOCKS: Mapping[str, Callable[[Evidence], str]] = dict(blocks())
FIGURES = {"synthetic-mnist/forest.svg": forest_of_methods, "synthetic-mnist/choices.svg": forest_of_frontiers}
