"""The verdict: what the classifier's answers say about it, and what to do next.

There are four answers, and the first three may come together:

    relies              on something it should not: one small part carries its answers, or it does better without one
    misses              something it should use: a feature, a class or a part that it does not see, and that tells more
    breaks              under harmless change: noise on the least useful features costs answers
    no weakness found   with the smallest drop that this sample could have shown

Two others come before them. "mismatch" means that the model and the data do not fit together (mismatch.py): then
nothing else is said, since features would be accused of another mistake. "undecided" means that there are too few
examples, or that the evidence does not tell which.

All evidence is about answers: right or wrong, and the margin between the true class and the best other one, in units of
the typical margin. So the verdict does not change if layers are rescaled, or all logits are divided by a temperature.

    drop = share of right answers - share of right answers with the least useful features perturbed, paired
    breaks if the 95 % interval of the drop begins at 5 points or more

If the utility comes from outside, from another model or with the data, the margin must follow it:

    gain = mean | change of the margin | with some features perturbed / the same with as many random features
    misses if the gain of the most useful features is below 1/4, and relies if that of the least useful ones is at least
    1 and at least that of the most useful ones, at 95 %

An audit cannot know what a model should not use. Where only the user can tell, a finding is a question: one small part
(at most 1/8 of the input) is followed in 70 % of the pairs or more (reliance.py), or a part that no answer depends on
tells the class, beyond the rest or as a quarter of the input or more (blindness.py).

Confusions. A model that sees the difference between two classes makes some errors; one that ignores it predicts the
other class for most examples. The test is binomial, against "at most half of the class", with p times the number of
classes (Bonferroni). It needs at least three classes: with two, a model that prefers one class would look the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

import numpy as np

from poise.auditing.blindness import Blindness
from poise.auditing.estimates.misuse import MOST_USE, MisusedFeature
from poise.auditing.estimates.numbers import Number, paired_drop
from poise.auditing.reliance import COLOUR, COLUMN, WORD, Influence

RELIES, MISSES, BREAKS, SOUND = "relies", "misses", "breaks", "no weakness found"
MISMATCH, UNDECIDED = "mismatch", "undecided"
NAMES = (RELIES, MISSES, BREAKS, SOUND, MISMATCH, UNDECIDED)
PHRASES = {
    RELIES: "relies on something it should not",
    MISSES: "misses something it should use",
    BREAKS: "breaks under harmless change",
    SOUND: "no weakness found",
    MISMATCH: "model and data do not fit together",
    UNDECIDED: "undecided",
}
LEAST_DROP = 0.05
LEAST_FAR, NEUTRAL = 0.25, 1.0
LEAST_HARM = 0.02
MOST, SMALL = 0.7, 1 / 8  # of the pairs; of the input
PURE = 0.9
LARGE, LEAST_TOLD = 0.25, 0.1  # of the input; above guessing
LEAST_EXAMPLES = 10
LEVEL = 0.02
_LEAST = 5  # examples of a class
_SHOWN = 3


@dataclass(frozen=True)
class Finding:
    """One answer: what was measured, and what to do next. A `question` can only be answered by the user."""

    name: str
    sentence: str
    advice: str
    question: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "phrase": PHRASES[self.name]}


@dataclass(frozen=True)
class Verdict:
    """first     what to know before anything else, such as wrong confidences; it does not change the answers.

    findings  the answers; at least one.
    """

    findings: tuple[Finding, ...]
    first: tuple[Finding, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.name for each in self.findings))

    @property
    def sentence(self) -> str:
        """Each answer with its evidence."""
        said = [each.sentence for each in self.first]
        for name in self.names:
            reasons = " ".join(each.sentence for each in self.findings if each.name == name)
            said.append(f"{PHRASES[name].capitalize()}: {reasons}")
        return " ".join(said)

    def as_dict(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "sentence": self.sentence,
            "first": [each.as_dict() for each in self.first],
            "findings": [each.as_dict() for each in self.findings],
        }


def too_few(count: int, classes: int) -> list[Finding]:
    """The only finding if there are too few examples, or all of one class."""
    if count < LEAST_EXAMPLES:
        why = f"{count} examples are too few."
        return [Finding(UNDECIDED, why, f"Use at least {LEAST_EXAMPLES} examples, preferably 100 or more.")]
    if classes == 1:
        return [Finding(UNDECIDED, "all examples belong to one class.", "Add examples of the others.")]
    return []


def judge(findings: Sequence[Finding], count: int, first: Sequence[Finding] = ()) -> Verdict:
    """The verdict from all findings; `count` examples were perturbed."""
    certain = [each for each in findings if each.name != UNDECIDED]
    ordered = sorted(certain or findings, key=lambda each: NAMES.index(each.name))
    return Verdict(tuple(ordered) or (_nothing(count),), tuple(first))


def _nothing(count: int) -> Finding:
    least = smallest_drop(count)
    seen = f"a drop of {least:.0%} or more under noise on the least useful features would have shown" if least else ""
    why = f"{count} examples were perturbed; {seen}." if seen else f"{count} examples are too few to show a drop."
    return Finding(SOUND, why, "Read the numbers below, and audit again with data from where the model will be used.")


def smallest_drop(count: int) -> float | None:
    """The smallest drop of right answers that would count as breaking, among `count` examples."""
    right = np.ones(count)
    for wrong in range(1, count + 1):
        if paired_drop(right, (np.arange(count) >= wrong).astype(float)).low >= LEAST_DROP:
            return wrong / count
    return None


def from_drop(numbers: Mapping[str, Number], noise: str) -> list[Finding]:
    """Breaks if noise on the least useful features costs answers; `noise` names it, with {} for the features."""
    near, far = numbers["near_accuracy_drop"], numbers["far_accuracy_drop"]
    if not near.low >= LEAST_DROP:
        return []
    sentence = (
        f"{noise.format('least useful')} takes {_points(near)} points off its accuracy "
        f"(on the most useful ones: {100 * far.value:.0f})."
    )
    advice = "Train with noise or augmentation of this kind, or with feature contrastive learning, and audit again."
    return [Finding(BREAKS, sentence, advice)]


def from_parts(found: Sequence[Influence]) -> list[Finding]:
    """Relies, if one small part carries the answer in most pairs, or if the answers are better without it."""
    carried = [each for each in found if carries_answers(each)]
    if carried:
        most = max(carried, key=lambda each: each.followed.value)
        return [_carried(most)]
    harmful = [e for e in found if e.without_accuracy_drop is not None and e.without_accuracy_drop.high <= -LEAST_HARM]
    if not harmful or harmful[0].without_accuracy_drop is None:
        return []
    most, drop = harmful[0], harmful[0].without_accuracy_drop
    sentence = f"without {most.name} its accuracy is {-100 * drop.value:.0f} points higher."
    return [Finding(RELIES, sentence, f"Remove {most.name} from the inputs, or add examples where it misleads.")]


def carries_answers(one: Influence) -> bool:
    """Whether the answer follows this part in most pairs, although the rest of the input stays."""
    small = (one.purity or 0) >= PURE if one.kind == WORD else one.kind != COLOUR and (one.share or 0) <= SMALL
    return small and one.followed.low >= MOST


def _carried(one: Influence) -> Finding:
    span = f"{one.followed.value:.0%} [{one.followed.low:.0%}, {one.followed.high:.0%}] of {one.followed.examples}"
    if one.kind == WORD:
        sentence = f"its answer follows {one.name}: put in the place of another word, it decides {span} sentences."
    else:
        what = "the column " if one.kind == COLUMN else ""
        sentence = (
            f"its answer follows {what}{one.name}: taken from an example with another answer, this part decides, and "
            f"the rest of the input does not, in {span} pairs."
        )
    advice = (
        f"Is {one.name} allowed to decide? If it is a mark, or only known together with the label, remove it from the "
        "training data, or vary it, and train again."
    )
    return Finding(RELIES, sentence, advice, question=True)


def from_blindness(found: Sequence[Blindness]) -> list[Finding]:
    """Misses, if what no answer depends on tells the class."""
    return [finding for each in found if (finding := _of_unseen(each))]


def _of_unseen(one: Blindness) -> Finding | None:
    beyond = one.p < LEVEL / 2
    large = one.share >= LARGE and one.alone.low >= one.chance + LEAST_TOLD
    if not (beyond or large):
        return None
    reads = f"a linear model that reads nothing else is right in {one.alone.value:.0%} (guessing: {one.chance:.0%})"
    more = f", and prefers the right class on {one.helped} of the {one.errors} errors" if beyond else ""
    sentence = f"it is blind to {one.name}: no answer depends on it, although {reads}{more}."
    advice = (
        "Is it meant to be? If not, check cropping, masking and preprocessing, and train with examples where it "
        "decides. If this part is a leak of the label, remove it from the data."
    )
    return Finding(MISSES, sentence, advice, question=True)


def from_outside(numbers: Mapping[str, Number]) -> list[Finding]:
    """What the utility of a reference, or that of the data, says about the answers."""
    near, far = numbers["near_output_gain"], numbers["far_output_gain"]
    source = "the reference finds"
    if far.high < LEAST_FAR:
        return [
            Finding(
                MISSES,
                f"what {source} most useful moves its answers {_gain(far)} times as far as random features do.",
                "Look at the maps: is the feature visible to the model (size, crop, preprocessing), and in its data?",
            )
        ]
    if near.low >= max(NEUTRAL, far.high):
        return [
            Finding(
                RELIES,
                f"what {source} least useful moves its answers {_gain(near)} times as far as random features do.",
                "Look at the maps of the most brittle examples, and vary these features in the training data.",
            )
        ]
    return []


def from_features(errors: Sequence[MisusedFeature]) -> list[Finding]:
    """The findings from features that correlate with the errors, the most significant first."""
    certain = [each for each in errors if each.counts and each.kind != "unclear"]
    doubtful = [each for each in errors if each.counts and (each.use is None or each.use < MOST_USE)]
    if not certain and doubtful:
        why = f"its errors correlate with {doubtful[0].name} (p = {doubtful[0].p:.3f})"
        sentence = f"{why}, but it is unclear whether it overuses or ignores this feature."
        return [Finding(UNDECIDED, sentence, "Use more examples, or compare examples with and without it.")]
    kinds = dict.fromkeys(each.kind for each in certain)
    return [_of_kind([each for each in certain if each.kind == kind]) for kind in kinds]


def _of_kind(features: Sequence[MisusedFeature]) -> Finding:
    found, alike = features[0], [each.name for each in features][:_SHOWN]
    named = " and ".join([", ".join(alike[:-1]), alike[-1]]) if len(alike) > 1 else alike[0]
    it, p_value = "it" if len(alike) == 1 else "the first", f"(p = {found.p:.3f})"
    if found.kind == "unused":
        worth = f"one weight on {it} would reduce the loss by about {found.gain:.0%}"
        sentence = f"it ignores {named}, which its errors correlate with: {worth} {p_value}."
        advice = (
            f"Is {found.name} known when the model is used, and allowed to decide? Then train with examples where it "
            "decides, and check that it reaches the model. If it is a leak of the label, remove it from the data."
        )
        return Finding(MISSES, sentence, advice, question=True)
    worth = f"without {it}, its loss is {found.without or 0:.0%} lower"
    sentence = f"it overuses {named}, which causes errors: {worth} {p_value}."
    return Finding(RELIES, sentence, f"Remove {found.name} from the inputs, or add examples where it misleads.")


def from_classes(found: Sequence[Confusion], names: Sequence[str]) -> list[Finding]:
    """The finding from classes that are mostly confused with one other class."""
    if not found:
        return []
    sentence = f"it ignores what distinguishes classes: it takes {_listed(found, names)}."
    advice = "Compare examples of the two classes, check their labels, and add training examples of the first."
    return [Finding(MISSES, sentence, advice)]


def _listed(found: Sequence[Confusion], names: Sequence[str]) -> str:
    called = [[names[n] if n < len(names) else str(n) for n in (each.label, each.taken_for)] for each in found]
    parts = [f"{each.count} of {each.of} examples of {a} for {b}" for each, (a, b) in zip(found, called, strict=True)]
    rest = len(parts) - _SHOWN
    more = f", and {rest} {'class' if rest == 1 else 'classes'} more" if rest > 0 else ""
    return ", ".join(parts[:_SHOWN]) + more


def _points(drop: Number) -> str:
    return f"{100 * drop.value:.0f} [{100 * drop.low:.0f}, {100 * drop.high:.0f}]"


def _gain(gain: Number) -> str:
    return f"{gain.value:.2f} [{gain.low:.2f}, {gain.high:.2f}]"


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
