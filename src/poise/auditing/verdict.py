"""The verdict: one sentence, from the model's place in the plane of gains and from its errors.

A gain is how far the embedding moves, relative to the same noise on as many random features:

    near = mean shift with the least useful features / mean shift with random ones
    far  = mean shift with the most useful features / mean shift with random ones

1 is neutral: a model that is equally sensitive to all features has gain 1, for any scale, data and sigma. The plane has
three regions:

    over-robust       far < 1/4
    brittle           far >= 1/4 and near >= min(far, 1)
    follows utility   far >= 1/4 and near < min(far, 1)

The verdict names a region that holds 95 % of the resamples of examples. Otherwise it is "undecided", and gives the two
most likely regions. A model whose least useful features move its embedding by half of the typical distance of two
examples is brittle in any region.

The errors contribute as well. A feature that correlates with them (statistics/misuse.py) is unused, which means
over-robust, or overused, which means brittle; if neither is certain, the verdict is undecided. A class that is mostly
confused with one other class means over-robust.

The verdict is undecided if the model is not clearly better than guessing, because its utility is then meaningless; if
it confuses classes in a cycle, because the labels are then numbered differently; and with fewer than 10 examples or a
single class.

Confusions. A model that sees the difference between two classes makes some errors; one that ignores it predicts the
other class for most examples. The test is binomial, against "at most half of the class", with p times the number of
classes (Bonferroni). It needs at least three classes: with two, a model that prefers one class would look the same. A
model that does not see a difference gives both classes the same name, so confusions in a cycle, A for B and B for A,
indicate that the labels are numbered differently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

import numpy as np

from poise.auditing.statistics.misuse import MOST_USE, MisusedFeature
from poise.auditing.statistics.numbers import Number

OVER_ROBUST, BRITTLE, FOLLOWS, UNDECIDED = "over-robust", "brittle", "follows utility", "undecided"
LEAST_FAR = 0.25
NEUTRAL = 1.0
MOST_NEAR_SHIFT = 0.5
SURE = 0.95
LEVEL = 0.02
_LEAST = 5  # examples of a class
_SHOWN = 3
_MANY = 100
_LEAST_EXAMPLES = 10
Findings = list[tuple[str, str]]


@dataclass(frozen=True)
class Verdict:
    """names   one or more of the four verdicts.

    shares  the share of the resamples in each region of the plane.
    """

    names: tuple[str, ...]
    sentence: str
    shares: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {"names": list(self.names), "sentence": self.sentence, "shares": self.shares}


def judge(numbers: Mapping[str, Number], draws: np.ndarray, from_errors: Findings, chance: float) -> Verdict:
    """The verdict from the numbers, the resamples of both gains [R, 2], the errors, and the accuracy of guessing."""
    near, far, accuracy = (numbers[name] for name in ("near_gain", "far_gain", "accuracy"))
    counts = Counter(region(*draw) for draw in draws)
    shares = {name: counts[name] / max(1, len(draws)) for name in (OVER_ROBUST, BRITTLE, FOLLOWS)}
    certain = next((name for name, held in shares.items() if held >= SURE), UNDECIDED)
    findings = [*_from_shift(numbers["near_shift"]), *from_errors]
    findings = [each for each in findings if each[0] != UNDECIDED] or findings
    if accuracy.examples < _LEAST_EXAMPLES:
        why = f"{accuracy.examples} examples are too few; use at least {_LEAST_EXAMPLES}, preferably 100 or more."
        return Verdict((UNDECIDED,), f"undecided: {why}", shares)
    if chance == 1:
        return Verdict((UNDECIDED,), "undecided: all examples belong to one class; add examples of the others.", shares)
    if all(name == UNDECIDED for name, _ in from_errors) and not accuracy.low > chance:
        than = f"accuracy {accuracy.value:.2f} is not clearly better than guessing ({chance:.2f})"
        return Verdict((UNDECIDED,), f"undecided: {than}, so its utility is meaningless.", shares)
    parts = [] if findings and certain in (FOLLOWS, UNDECIDED) else [(certain, _in_plane(certain, near, far, shares))]
    parts += findings if certain in (FOLLOWS, UNDECIDED) else [each for each in findings if each[0] != UNDECIDED]
    names = tuple(dict.fromkeys(name for name, _ in parts))
    return Verdict(names, " ".join(f"{name}: {reason}" for name, reason in parts), shares)


def region(near: float, far: float) -> str:
    """The region of a point in the plane."""
    if not np.isfinite([near, far]).all():
        return UNDECIDED
    if far < LEAST_FAR:
        return OVER_ROBUST
    return BRITTLE if near >= min(far, NEUTRAL) else FOLLOWS


def _from_shift(near: Number) -> Findings:
    """Brittle if the least useful features move the embedding far, whatever the gains are."""
    if not near.low >= MOST_NEAR_SHIFT:
        return []
    span = f"{near.value:.2f} [{near.low:.2f}, {near.high:.2f}]"
    return [
        (BRITTLE, f"the least useful features move its embedding by {span} of the typical distance of two examples.")
    ]


def _in_plane(name: str, near: Number, far: Number, shares: dict[str, float]) -> str:
    both = f"(gains {_words(near)} and {_words(far)}; 1 is neutral)"
    if name == OVER_ROBUST:
        return f"even the most useful features hardly move its embedding: their gain is {_words(far)}; 1 is neutral."
    if name == BRITTLE:
        than = "random ones" if near.value >= NEUTRAL else "the most useful ones"
        return f"the least useful features move its embedding at least as far as {than} {both}."
    if name == FOLLOWS:
        return (
            f"the most useful features move its embedding {_times(near, far)} as far as the least useful ones {both}."
        )
    likely = sorted(shares, key=lambda each: -shares[each])[:2]
    return (
        f"between {likely[0]} ({shares[likely[0]]:.0%} of the resamples) and {likely[1]} ({shares[likely[1]]:.0%}) "
        f"{both}: use more examples."
    )


def from_features(errors: Sequence[MisusedFeature]) -> Findings:
    """The findings from features that correlate with the errors, the most significant first."""
    certain = [each for each in errors if each.counts and each.kind != "unclear"]
    doubtful = [each for each in errors if each.counts and (each.use is None or each.use < MOST_USE)]
    if not certain and doubtful:
        first = f"its errors correlate with {doubtful[0].name} (p = {doubtful[0].p:.3f})"
        return [(UNDECIDED, f"{first}, but it is unclear whether it overuses or ignores this feature.")]
    return [
        _of_kind([each for each in certain if each.kind == kind]) for kind in dict.fromkeys(e.kind for e in certain)
    ]


def _of_kind(features: Sequence[MisusedFeature]) -> tuple[str, str]:
    found, alike = features[0], [each.name for each in features][:_SHOWN]
    named = " and ".join([", ".join(alike[:-1]), alike[-1]]) if len(alike) > 1 else alike[0]
    it, p_value = "it" if len(alike) == 1 else "the first", f"(p = {found.p:.3f})"
    if found.kind == "unused":
        worth = f"one weight on {it} would reduce the loss by about {found.gain:.0%}"
        return OVER_ROBUST, f"it ignores {named}, which its errors correlate with: {worth} {p_value}."
    worth = f"without {it}, its loss is {found.without or 0:.0%} lower"
    return BRITTLE, f"it overuses {named}, which causes errors: {worth} {p_value}."


def from_classes(found: Sequence[Confusion], names: Sequence[str]) -> Findings:
    """The finding from classes that are mostly confused with one other class."""
    if not found:
        return []
    return [(OVER_ROBUST, f"it ignores what distinguishes classes: it takes {_listed(found, names)}.")]


def check_numbering(verdict: Verdict, cycle: Sequence[Confusion], names: Sequence[str]) -> Verdict:
    """The verdict, or undecided if classes are confused in a cycle: then the labels are unreliable."""
    if not cycle:
        return verdict
    why = f"it takes {_listed(cycle, names)}, which suggests swapped labels"
    sentence = f"undecided: {why}: check that the labels are numbered as the model numbers its classes."
    return Verdict((UNDECIDED,), sentence, verdict.shares)


def _listed(found: Sequence[Confusion], names: Sequence[str]) -> str:
    called = [[names[n] if n < len(names) else str(n) for n in (each.label, each.taken_for)] for each in found]
    parts = [f"{each.count} of {each.of} examples of {a} for {b}" for each, (a, b) in zip(found, called, strict=True)]
    rest = len(parts) - _SHOWN
    more = f", and {rest} {'class' if rest == 1 else 'classes'} more" if rest > 0 else ""
    return ", ".join(parts[:_SHOWN]) + more


def _words(gain: Number) -> str:
    return f"{gain.value:.2f} [{gain.low:.2f}, {gain.high:.2f}]"


def _times(near: Number, far: Number) -> str:
    return f"{far.value / near.value:.1f} times" if far.value < _MANY * near.value else f"more than {_MANY} times"


@dataclass(frozen=True)
class Confusion:
    """`count` of `of` examples of class `label` are predicted as `taken_for`; p is corrected for all classes tested."""

    label: int
    taken_for: int
    count: int
    of: int
    p: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def confusions(labels: np.ndarray, predicted: np.ndarray) -> list[Confusion]:
    """Classes of which significantly more than half is predicted as one other, the most significant first."""
    classes, counts = np.unique(labels, return_counts=True)
    tried = classes[counts >= _LEAST]
    found = []
    for label in tried if len(classes) > 2 else []:
        others = predicted[(labels == label) & (predicted != label)]
        if not len(others):
            continue
        names, hits = np.unique(others, return_counts=True)
        count, of = int(hits.max()), int((labels == label).sum())
        p = min(1.0, len(tried) * sum(comb(of, k) for k in range(count, of + 1)) / 2**of)
        found.append(Confusion(int(label), int(names[hits.argmax()]), count, of, p))
    return sorted((each for each in found if each.p < LEVEL), key=lambda each: each.p)


def in_a_cycle(found: Sequence[Confusion]) -> list[Confusion]:
    """The confusions that lead from a class through others back to it."""
    leads = {each.label: each.taken_for for each in found}

    def returns(label: int) -> bool:
        place = leads[label]
        for _ in leads:
            if place == label:
                return True
            place = leads.get(place, place)
        return False

    return [each for each in found if returns(each.label)]
