"""docs/claims.md: the paper's claims, a verdict on each, and one effect, computed from the records of results/.

`python -m docs.pages` writes it. What a verdict means is in verdicts.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from docs.evidence import RARE, Effect, Evidence
from docs.verdicts import Claim, Part, Says, verdict
from docs.wording import NONE, minus, table, told
from poise.io.documents import documents, text_of
from poise.recipes.paper_corruptions import IMAGENET_C
from poise.recipes.sentiment.alignment import is_marked, strength
from poise.records.schema import Published
from poise.reporting.figures.strips import STRIPS
from poise.reporting.statistics import (
    LEVEL,
    Difference,
    Summary,
    number,
    paired,
    probability,
    signed_interval,
    welch,
)

PAGE = Path(__file__).with_suffix(".md")
PAPER_SEEDS = 5  # on CIFAR and ImageNet


def claims(known: Evidence) -> list[Claim]:
    """In the order of the paper."""
    found = [*sentiment(known), *digits(known), *cifar(known), *imagenet(known), *appendices(known)]
    return sorted(found, key=lambda claim: (int(claim.number.rstrip("abc")), claim.number))


def sentiment(known: Evidence) -> list[Claim]:
    link, name = "[sentiment](sentiment.md)", "sentiment"
    order, alone = sentence(known)
    return [
        Claim(
            "1",
            "XE and FCL classify equally well, both with .875",
            link,
            (
                Part("accuracy", "alike", known.effect(name, "accuracy", "FCL", "XE")),
                Part("level", "reached", known.level(name, "accuracy", "FCL", 0.875)),
            ),
        ),
        Claim(
            "2",
            "FCL raises correlation with human strength, .670 to .761",
            link,
            (
                *above(known, name, ("r, all, raw", "pooled r, all, raw"), "FCL", "XE", "r"),
                Part("level", "reached", known.level(name, "r, all, raw", "FCL", 0.7613)),
            ),
        ),
        Claim(
            "3",
            "FCL orders the example's tokens as people do, XE does not",
            link,
            (Part("its r", "above", order), Part("XE's mistakes", "above", alone)),
        ),
    ]


def digits(known: Evidence) -> list[Claim]:
    link = "[digits](synthetic-mnist.md), a"
    frontiers = "[frontiers](synthetic-mnist/frontiers.md)"
    name, measures = "synthetic-mnist", "[measures](synthetic-mnist/sensitivity.md)"
    return [
        Claim("4", "FCL raises accuracy under both noises", link, readings(known, "XE", "above", "UN", "NUN")),
        Claim("5", "Clean accuracy stays", link, readings(known, "XE", "kept", "clean", "rare")),
        Claim(
            "5a",
            "FCL keeps sensitivity in the right context: rare classes",
            link,
            readings(known, "XE", "kept", "rare, NUN", "rare"),
            whole=True,
        ),
        Claim(
            "5b",
            "The gain comes from utility: above plain contrast, this lambda",
            link,
            readings(known, "CL+Gaussian", "above", "UN", "NUN"),
        ),
        Claim(
            "5c",
            "Utility balances noise and rare classes best, all lambdas",
            frontiers,
            (
                Part("against random", "above", known.frontier("FCL", "random")),
                Part("against plain contrast", "above", known.frontier("FCL", "CL+Gaussian")),
            ),
        ),
        Claim(
            "6",
            "Corner pixels are useful in context only",
            measures,
            tuple(Part(f"share, {method}", "above", in_context(known, method)) for method in ("FCL", "XE")),
        ),
        Claim(
            "7",
            "Late utilities fall below 1e-12",
            measures,
            (Part("share dropped", "above", known.level(name, "far view dropped", "FCL")),),
        ),
    ]


def cifar(known: Evidence) -> list[Claim]:
    noisy, hundred = "noisy-cifar10", "noisy-cifar100"
    return [*noisy_cifar(known, noisy, hundred), *corrupted_cifar(known), *others_on_cifar(known, noisy, hundred)]


def noisy_cifar(known: Evidence, noisy: str, hundred: str) -> list[Claim]:
    link, both = "[tables](cifar/tables.md)", ("UN", "NUN")
    return [
        Claim(
            "8",
            "Noisy CIFAR-10: FCL beats XE and both Gaussian baselines",
            f"{link}, b",
            tuple(
                part
                for other in ("XE", "CL+Gaussian", "XE+Gaussian")
                for part in above(known, noisy, both, "FCL", other)
            ),
        ),
        Claim("9", "… at minimal clean cost", link, (kept(known, noisy, "FCL", "XE"),)),
        Claim(
            "10",
            "The gaps are wider on CIFAR-100",
            f"{link}, c",
            tuple(
                Part(f"gap to {other}, {name}", "above", known.between((noisy, hundred), name, "FCL", other))
                for other in ("XE", "XE+Gaussian")
                for name in both
            ),
        ),
        Claim(
            "11",
            "PG+FCL is best under both noises on both sets",
            link,
            tuple(
                part
                for name in (noisy, hundred)
                for other in ("PG+XE", "FCL")
                for part in above(known, name, both, "PG+FCL", other)
            ),
        ),
        Claim(
            "12",
            "Patch Gaussian alone does not help on CIFAR-100",
            link,
            (
                Part("average", "useless", known.effect("cifar100-c", "All, 19", "PG+XE", "XE")),
                *(Part(name, "useless", known.effect(hundred, name, "PG+XE", "XE")) for name in both),
            ),
        ),
    ]


def corrupted_cifar(known: Evidence) -> list[Claim]:
    link, ten = "[tables](cifar/tables.md)", "cifar10-c"
    averages, sets = ("All, 19", "Noise"), ("cifar10-c", "cifar100-c")
    better = {"impulse_noise": "above", "zoom_blur": "above", "fog": "below", "pixelate": "below"}
    return [
        Claim(
            "13",
            "CIFAR-10-C: FCL beats the Gaussian baselines",
            f"{link}, b",
            tuple(
                part for other in ("CL+Gaussian", "XE+Gaussian") for part in above(known, ten, averages, "FCL", other)
            ),
        ),
        Claim(
            "14",
            "On Patch Gaussian FCL helps impulse, zoom; hurts fog, pixelate",
            link,
            tuple(
                Part(name.partition("_")[0], says, known.effect(ten, name, "PG+FCL", "PG+XE"))  # type: ignore[arg-type]
                for name, says in better.items()
            ),
        ),
        Claim(
            "15",
            "CIFAR-100-C: larger gain than on CIFAR-10-C; adds to PG",
            link,
            (
                *(
                    Part(f"gap, {name}", "above", known.between(sets, name, "FCL", "XE"))
                    for name in ("Noise", "All, 19")
                ),
                Part("over FCL", "above", known.effect("cifar100-c", "All, 19", "PG+FCL", "FCL")),
            ),
        ),
        Claim(
            "19",
            "Patch Gaussian is strong on CIFAR-10-C, weak on CIFAR-100-C",
            link,
            (
                *above(known, ten, ("Noise", "Blur"), "PG+XE", "XE"),
                Part("CIFAR-100-C", "useless", known.effect("cifar100-c", "All, 19", "PG+XE", "XE")),
            ),
        ),
    ]


def others_on_cifar(known: Evidence, noisy: str, hundred: str) -> list[Claim]:
    link, both = "[tables](cifar/tables.md)", ("UN", "NUN")
    return [
        Claim(
            "17",
            "Choosing by utility beats chance, this lambda",
            "[controls](cifar/controls.md), d",
            tuple(above(known, "cifar-controls-noisy", both, "FCL", "FCL, random k")),
        ),
        Claim(
            "18",
            "Gaussian noise helps already: both baselines beat XE",
            link,
            tuple(
                part
                for method in ("CL+Gaussian", "XE+Gaussian")
                for part in (
                    *above(known, noisy, both, method, "XE"),
                    *above(known, "cifar10-c", ("All, 19",), method, "XE"),
                )
            ),
        ),
        Claim("20", "PG+FCL does not hurt clean accuracy", link, (kept(known, noisy, "PG+FCL", "PG+XE"),)),
    ]


def imagenet(known: Evidence) -> list[Claim]:
    link, name = "[recipe](imagenet.md)", "imagenet-c"
    pairs = (("FCL", "XE+Gaussian"), ("FCL", "CL+Gaussian"), ("PG+FCL", "PG+XE"))
    return [
        Claim(
            "16",
            "ImageNet-C: FCL beats the baselines",
            link,
            tuple(part for one, other in pairs for part in above(known, name, ("All, 15",), one, other)),
        ),
        Claim("21", "… most with shot noise", link, tuple(above(known, name, ("shot_noise",), "FCL", "XE"))),
    ]


def appendices(known: Evidence) -> list[Claim]:
    link = "[measures](synthetic-mnist/sensitivity.md#appendix-a)"
    test, digit = "[test](../tests/features/test_utility.py)", "synthetic-mnist"
    margin = ("FCL, margin", "FCL")
    return [
        Claim("22", "Utility is sensitivity over probability", test, known=("holds", "an identity")),
        Claim("23", "Right answers: utility is proportional to sensitivity", link, known=measured(known, "right")),
        Claim("24", "Wrong answers: utility is always large", link, known=measured(known, "wrong")),
        Claim(
            "25",
            "The margin loss gives similar results",
            "[digits](synthetic-mnist/tables.md)",
            tuple(Part(name, "alike", known.effect(digit, f"BAL+{name}", *margin)) for name in ("UN", "NUN")),
        ),
    ]


def above(known: Evidence, name: str, columns: Sequence[str], one: str, other: str, short: str = "") -> list[Part]:
    """One method above another in some columns."""
    labels = [short or f"{'average' if column.startswith('All') else column} over {other}" for column in columns]
    return [
        Part(label, "above", known.effect(name, column, one, other))
        for label, column in zip(labels, columns, strict=True)
    ]


def kept(known: Evidence, name: str, one: str, other: str) -> Part:
    return Part("clean", "kept", known.effect(name, "Clean", one, other))


def readings(known: Evidence, other: str, says: Says, *names: str) -> tuple[Part, ...]:
    """FCL minus another, over the three readings of the corner digit."""
    columns = {"clean": "BAL", "UN": "BAL+UN", "NUN": "BAL+NUN", "rare": RARE, "rare, NUN": "BAL+NUN, 10-14"}
    return tuple(Part(name, says, known.over_readings(columns[name], "FCL", other)) for name in names)


def in_context(known: Evidence, method: str) -> Effect | None:
    """The corner's share of the utility in context minus out of it."""
    name = "synthetic-mnist"
    shares = [known.values(name, method, f"corner utility, {context} context") for context in ("in", "out of")]
    gap = paired(*shares)
    return Effect(gap, known.epochs(name)) if gap else None


def sentence(known: Evidence) -> tuple[Effect | None, Effect | None]:
    """On the paper's sentence: r of FCL minus r of XE, and how often XE's two first tokens are not the human ones."""
    found: dict[str, dict[int, float]] = {"xe": {}, "fcl": {}}
    wrong: dict[int, float] = {}
    for path in documents(known.folder / "sentiment", f"*/seed-*/{STRIPS}"):
        method, seed = path.parts[-3], int(path.parts[-2].removeprefix("seed-"))
        held = next(each for each in json.loads(text_of(path))["sentences"] if each.get("title"))
        found[method][seed] = held["r"]
        if method == "xe":
            scores = np.array([np.nan if score is None else score for score in held["human"]])
            human = np.where(is_marked(scores), strength(scores), -1)
            places = [set(np.argsort(-values)[:2]) for values in (human, np.array(held["sensitivity"]))]
            wrong[seed] = float(places[0] != places[1])
    effects = (paired(found["fcl"], found["xe"]), paired(wrong, dict.fromkeys(wrong, 0.0)))
    epochs = known.epochs("sentiment")
    order, mistakes = (Effect(gap, epochs) if gap else None for gap in effects)
    return order, mistakes


def measured(known: Evidence, kind: str) -> tuple[str, str]:
    """Appendix A on images that XE gets right, or wrong, as docs/synthetic_mnist.py has measured it."""
    found = json.loads((known.folder / "benchmarks" / "appendix-a.json").read_text())["XE"]
    right, wrong = found["right"], found["wrong"]
    if kind == "right":
        return (
            "holds" if right["rank correlation"] > 0.99 else "refuted"
        ), f"rank correlation {number(right['rank correlation'], 3)}"
    sizes = [each["median utility"] for each in (wrong, right)]
    return ("holds" if sizes[0] > 100 * sizes[1] else "refuted"), f"median {sizes[0]:.0f}, right answers {sizes[1]:.0e}"


def row(claim: Claim) -> str:
    """A line of the table."""
    shown = next((part for part in claim.parts if part.effect), None)
    cells = [NONE, NONE, NONE]
    if claim.known:
        cells[0] = claim.known[1]
    elif shown and shown.effect:
        gap = shown.effect.gap
        cells = [f"{shown.name} {told(gap)}", str(gap.seeds), shown.effect.epochs]
    return f"| {' | '.join([claim.number, claim.text, f'**{verdict(claim)}**', *cells, claim.link])} |"


def welch_rows(known: Evidence) -> list[tuple[str, Difference]]:
    """FCL minus XE+Gaussian, and PG+FCL minus PG+XE, where they are in bold, from the paper's means and deviations."""
    tables = {"CIFAR-10, UN": ("noisy-cifar10-compressed", "UN"), "CIFAR-10, NUN": ("noisy-cifar10-compressed", "NUN")}
    tables |= {"CIFAR-10-C": ("cifar10-c-compressed", "All, 19")}
    tables |= {f"CIFAR-100, {kind}": ("noisy-cifar100-compressed", kind) for kind in ("UN", "NUN")}
    tables |= {"CIFAR-100-C": ("cifar100-c-compressed", "All, 19")}
    paper = {
        label: {method: cells[column] for method, cells in known.held[name].experiment.paper.items()}
        for label, (name, column) in tables.items()
    }
    paper["ImageNet-C"] = {method: Published(*cells["All, 15"]) for method, cells in IMAGENET_C.items()}
    pairs = (("FCL", "XE+Gaussian"), ("PG+FCL", "PG+XE"))
    return [
        (f"{minus(one, other)}, {label}", welch(of_paper(cells[one]), of_paper(cells[other])))
        for one, other in pairs
        for label, cells in paper.items()
        if (one, label) != ("PG+FCL", "CIFAR-10-C")  # not in bold
    ]


def of_paper(cell: Published) -> Summary:
    return Summary(cell.mean, cell.std, PAPER_SEEDS)


HEAD = """# What the paper claims, and what we found

Section 4 and the appendices, claim by claim. The effect is that of the first comparison that a claim makes: a mean
difference with its 95 % interval, paired over seeds. "45 of 450" epochs are compressed runs, a tenth of the paper's
training.

- **holds**: every comparison of the claim came out significantly as it says.
- **partly**: some did. **refuted**: none did, and at least one came out the other way. **open**: undecided, or not run.
- Significant is p < .05 by paired t, after Holm's correction over the comparisons of a claim. Accuracy "stays" if the
  interval lies above -.005, and is "similar" if it lies within ±.025. The comparisons are in [claims.py](claims.py).

XE is cross-entropy; XE+Gaussian adds cross-entropy on noisy pictures, CL+Gaussian a contrast with them; PG is Patch
Gaussian. UN and NUN replace 15 % of the pixels, anywhere or rather where pixels vary little.
"""

TABLE = """| | claim | verdict | effect, 95 % interval | seeds | epochs | evidence |
|---|---|---|---|---:|---:|---|
"""


def notes(known: Evidence) -> str:
    """What a row has no room for."""
    ratios = [number(multiple(known, name), 1) for name in ("noisy-cifar10", "noisy-cifar100")]
    theirs = [number(of_paper_multiple(known, name), 1) for name in ("noisy-cifar10", "noisy-cifar100")]
    return f"""
**a.** Averaged, seed by seed, over the three readings of the corner digit (by area, bilinear, sharp). The last two were
run before [cross-entropy was exact](synthetic-mnist/settings.md#what-exact-cross-entropy-changed).

**b.** The comparison with XE+Gaussian is not even: its noisy views use the statistics of their own batch, FCL's the
running ones. The table below has it on running statistics.

**c.** In points of accuracy. As a multiple of XE's accuracy under UN, FCL has {ratios[0]} on CIFAR-10 and {ratios[1]}
on CIFAR-100. The paper has {theirs[0]} and {theirs[1]}.

**d.** That is one lambda, and equal lambda is not equal pressure: random near views move the embedding further. With
tau = 2 and a batch of 1,024, the far view is one of about a thousand terms of nearly equal size, so the half of FCL
that should keep sensitivity hardly acts on CIFAR-10. It does with CIFAR-100's tau of .1, where random features were not
run.

{beside(known)}
"""


def beside(known: Evidence) -> str:
    """Comparisons that the notes lean on, each by itself."""
    noisy, corrupted, late = (
        "cifar-controls-noisy",
        "cifar-controls-c",
        "XE+Gaussian, running statistics, from epoch 300",
    )
    found = {
        f"5a: {minus('FCL', 'CL+Gaussian')}, rare classes, NUN": known.over_readings(
            "BAL+NUN, 10-14", "FCL", "CL+Gaussian"
        ),
        f"8: {minus('FCL', 'XE+Gaussian')} on running statistics, UN": known.effect(noisy, "UN", "FCL", late),
        "13: the same, CIFAR-10-C": known.effect(corrupted, "All, 19", "FCL", late),
        f"17: {minus('FCL', 'random features')}, noise group": known.effect(corrupted, "Noise", "FCL", "FCL, random k"),
    }
    rows = [
        [name, told(each.gap), probability(each.gap.p), str(each.gap.seeds), each.epochs]
        for name, each in found.items()
        if each
    ]
    return table(["beside the claims", "95 % interval", "p, uncorrected", "seeds", "epochs"], rows)


def multiple(known: Evidence, name: str) -> float:
    """FCL's accuracy under UN divided by XE's."""
    chosen = known.longest(name, "FCL", "XE")
    means = [np.mean(list(known.values(chosen, method, "UN").values())) for method in ("FCL", "XE")]
    return float(means[0] / means[1])


def of_paper_multiple(known: Evidence, name: str) -> float:
    paper = known.held[f"{name}-compressed"].experiment.paper
    return paper["FCL"]["UN"].mean / paper["XE"]["UN"].mean


def own_test(known: Evidence) -> str:
    """The paper's bold face, tested with its own deviations."""
    rows = welch_rows(known)
    bold = sum(gap.p is not None and gap.p < LEVEL for _, gap in rows)
    lines = [f"| {name} | {signed_interval(gap)} | {probability(gap.p)} |" for name, gap in rows]
    return f"""
## The paper's own numbers

The paper prints in bold what is "significantly" better, and names no test. Welch's t test on its own means and
deviations, five runs each, finds {bold} of these {len(rows)} differences significant, before any correction:

| difference in the paper | mean, 95 % interval | p |
|---|---|---|
{chr(10).join(lines)}
"""


def page(known: Evidence) -> str:
    rows = "\n".join(row(claim) for claim in claims(known))
    made = "\nThis page is made by `make pages` from the records in [results/](../results/README.md).\n"
    return f"{HEAD}\n{TABLE}{rows}\n{notes(known)}{own_test(known)}{made}"
