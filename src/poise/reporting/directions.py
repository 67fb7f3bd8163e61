"""The numbers of an audit in plain words, and in which direction each is better."""

from __future__ import annotations

MEANINGS = {
    "accuracy": "share of right answers on the unchanged examples",
    "calibration_error": "how far confidence is from accuracy (ECE, 15 bins)",
    "rank_correlation": "of utility and sensitivity within an example, corrected for the noise of the probes",
    "observed_rank_correlation": "the same without the correction",
    "reliability": "of the sensitivity estimate: 1 is exact",
    "top_overlap": "share of the most useful features that are among the most sensitive ones",
    "near_gain": "how far the least useful features move the embedding, relative to random ones",
    "far_gain": "how far the most useful features move the embedding, relative to random ones",
    "near_shift": "the same in typical distances of two examples' embeddings",
    "far_shift": "the same in typical distances of two examples' embeddings",
    "corrupted_accuracy": "mean accuracy over the corruptions measured",
    "corrupted_calibration_error": "mean calibration error over the corruptions measured",
}
_SIDES = {"near": "the least useful features", "random": "random features", "far": "the most useful features"}
_MEASURES = {
    "accuracy": "accuracy with {} perturbed",
    "accuracy_drop": "how much accuracy falls with {} perturbed",
    "margin_drop": "how far the lead of the true class falls with {} perturbed",
    "changed": "share of answers that change with {} perturbed",
    "output_gain": "how far {} move the lead of the true class, relative to random ones",
}
_CORRUPTION = "mean accuracy under this corruption, or this group of them"
_PHRASES = {
    "accuracy": "accuracy on unchanged examples",
    "near_accuracy": "accuracy with the least useful features perturbed",
    "random_accuracy": "accuracy with random features perturbed",
    "corrupted_accuracy": "accuracy over all corruptions",
    "calibration_error": "calibration",
    "linf_radius": "the L-infinity change that turns an answer",
    "l2_radius": "the L2 change that turns an answer",
}
_DESCRIPTIVE = ("far_accuracy", "far_accuracy_drop", "far_margin_drop", "far_changed")


def better(name: str) -> int:
    """1 if a higher value is better, -1 if a lower one is, and 0 for numbers that only describe the model."""
    if name in _DESCRIPTIVE:
        return 0
    if name.endswith(("accuracy", "_radius")):
        return 1
    return -1 if name.endswith(("calibration_error", "_drop", "_changed")) else 0


def direction_words(name: str) -> str:
    """`higher is better`, `lower is better`, or nothing."""
    return {1: "higher is better", -1: "lower is better", 0: ""}[better(name)]


def meaning(name: str) -> str:
    """The meaning of a number, in words."""
    side, _, measure = name.partition("_")
    if side in _SIDES and measure in _MEASURES:
        return _MEASURES[measure].format(_SIDES[side])
    return MEANINGS.get(name, _CORRUPTION if name.endswith("accuracy") else "")


def phrase(name: str) -> str:
    """A number inside a sentence, such as `accuracy under motion blur`."""
    if name in _PHRASES:
        return _PHRASES[name]
    if name.endswith("_accuracy"):
        return f"accuracy under {name.removesuffix('_accuracy').replace('_', ' ')}"
    return name.replace("_", " ")


def judged(name: str, change: float, significant: bool) -> str:
    """`better` or `worse` for a change of a number; `no clear change` if it is not significant."""
    if not better(name):
        return ""
    if not significant or change == 0:
        return "no clear change"
    return "better" if change * better(name) > 0 else "worse"
