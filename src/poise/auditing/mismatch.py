"""Mismatch: signs that a model and its data do not fit together, each with its likely cause.

    class order   the answers are right once the model's classes are numbered differently
    remedy        many more right answers with inputs of another range, or with batch norm's statistics of these data
    constant      the same answer to every example
    chance        accuracy not above that of the most frequent class
    calibration   confidence far from accuracy; said first, but the answers stand, since a temperature changes none

Class order. Each half of the examples finds the numbering under which it has the most right answers, one class after
the other; the other half tests it. It counts if the classes that it moves are then right in at least 60 % of their
examples, and the answers gain at least 5 points, both at 95 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from poise.auditing.estimates.misuse import temperature
from poise.auditing.estimates.numbers import Number, paired_drop, proportion
from poise.auditing.reliance import Answers, batched_logits
from poise.auditing.verdict import MISMATCH, Finding
from poise.classifier import evaluating, untracked
from poise.models.resnet import IMAGENET_MEAN, IMAGENET_STD

_LEAST_RIGHT, _LEAST_GAIN = 0.6, 0.05
_TERRIBLE = 0.1  # the least calibration error that is said first
_SHOWN = 12  # classes
_REMEDY = 0.1  # the least gain of accuracy
_WELL = 0.9  # accuracy that needs no remedy
_TRIED = 256  # examples


def look_for_mismatch(
    logits: np.ndarray, labels: np.ndarray, numbers: Mapping[str, Number], names: Sequence[str], held: Answers | None
) -> tuple[list[Finding], list[Finding]]:
    """The mismatch, if there is one that no weakness of the model explains, and what to say first otherwise.

    held  the examples to try remedies on.
    """
    predicted, classes = logits.argmax(1), logits.shape[1]
    unfit = (
        class_order(predicted, labels, classes, names)
        or ([] if held is None else find_remedy(held))
        or constant_answer(predicted, labels, names)
    )
    return unfit, wrong_confidence(logits, labels, numbers["calibration_error"])


def find_remedy(held: Answers) -> list[Finding]:
    """The finding if another range of the inputs, or other statistics of batch norm, give many more right answers."""
    if held.right.mean() >= _WELL:
        return []
    held = held.first(_TRIED)
    tried = [*_ranges(held), *_batch_statistics(held)]
    gains = [(paired_drop(right, held.right), right.mean(), cause, advice) for right, cause, advice in tried]
    gain, accuracy, cause, advice = max(gains, key=lambda each: each[0].low, default=(None, 0.0, "", ""))
    if gain is None or gain.low < _REMEDY:
        return []
    sentence = f"its accuracy is {held.right.mean():.2f}, and {accuracy:.2f} {cause}."
    return [Finding(MISMATCH, sentence, advice)]


def _ranges(held: Answers) -> Iterator[tuple[np.ndarray, str, str]]:
    """What becomes of the right answers [N] if pictures have another range."""
    if not isinstance(held.x, Tensor) or held.x.ndim != 4:
        return
    mean, std = (torch.tensor(values)[:, None, None] for values in (IMAGENET_MEAN, IMAGENET_STD))
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "if the pictures run from 0 to 255": lambda x: 255 * x,
        "if the pictures run from -1 to 1": lambda x: 2 * x - 1,
        "if light and dark are exchanged": lambda x: 1 - x,
    }
    if held.x.shape[1] == 3:
        ways["if the pictures are normalized as ImageNet's"] = lambda x: (x - mean) / std
        ways["if red and blue are exchanged"] = lambda x: x.flip(1)
    for cause, change in ways.items():
        right = batched_logits(held.model, change(held.x)).argmax(1) == held.labels
        yield (
            right.astype(float),
            cause,
            "Give the model the inputs of its training: normalize inside it (--normalize).",
        )


def _batch_statistics(held: Answers) -> Iterator[tuple[np.ndarray, str, str]]:
    """What becomes of the right answers [N] if batch norm uses the statistics of the examples."""
    norms = [module for module in held.model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    with evaluating(held.model), _of_the_batch(norms), untracked(held.model), torch.no_grad():
        device = next((p.device for p in held.model.parameters()), torch.device("cpu"))
        logits = held.model.head(held.model.embed(held.x.to(device))).double().cpu().numpy()
    cause = "if batch norm uses the mean and variance of these examples instead of the stored ones"
    advice = (
        "The stored statistics do not fit these data: check that the buffers were saved and loaded with the weights, "
        "and that the inputs have the range of training; or estimate them again on training data."
    )
    yield (logits.argmax(1) == held.labels).astype(float), cause, advice


@contextmanager
def _of_the_batch(norms: Sequence[nn.Module]) -> Iterator[None]:
    """These layers in train mode."""
    with ExitStack() as stack:
        for norm in norms:
            stack.callback(setattr, norm, "training", norm.training)
            norm.training = True
        yield


def constant_answer(predicted: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> list[Finding]:
    """The finding if all answers are the same, although the labels are not."""
    if len(np.unique(predicted)) > 1 or len(np.unique(labels)) == 1:
        return []
    sentence = f"it gives the same answer, {_called(int(predicted[0]), names)}, to all {len(labels)} examples."
    advice = "Check that its weights were loaded, and that the inputs have the range and normalization of training."
    return [Finding(MISMATCH, sentence, advice)]


def class_order(predicted: np.ndarray, labels: np.ndarray, classes: int, names: Sequence[str]) -> list[Finding]:
    """The finding if another numbering of the classes explains the answers."""
    halves = np.random.default_rng(0).permutation(len(labels)) % 2 == 0
    orders = [best_numbering(predicted[half], labels[half], classes) for half in (~halves, halves)]
    mapped = np.where(halves, orders[0][predicted], orders[1][predicted])
    moved = np.isin(labels, np.flatnonzero(best_numbering(predicted, labels, classes) != np.arange(classes)))
    if not moved.any():
        return []
    right, renamed = (predicted == labels).astype(float), (mapped == labels).astype(float)
    gain = paired_drop(renamed, right)
    if not (proportion(renamed[moved]).low >= _LEAST_RIGHT and gain.low >= _LEAST_GAIN):
        return []
    order = best_numbering(predicted, labels, classes)
    pairs = [f"{number} means {_called(int(to), names)}" for number, to in enumerate(order) if to != number]
    more = ", …" if len(pairs) > _SHOWN else ""
    sentence = (
        f"its classes are numbered differently than the labels: its accuracy is {right.mean():.2f}, and "
        f"{renamed.mean():.2f} if its class {', '.join(pairs[:_SHOWN])}{more}."
    )
    return [
        Finding(MISMATCH, sentence, "Number the labels as in training: pass the order of the model with --classes.")
    ]


def best_numbering(predicted: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """The label [L] that each class of the model stands for, by the largest counts first; without counts, its own."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (predicted, labels), 1.0)
    counts += 0.5 * np.eye(classes) * (counts > 0)  # ties keep the numbering
    order, free = np.full(classes, -1), np.ones(classes, bool)
    for flat in np.argsort(-counts, axis=None, kind="stable"):
        said, meant = divmod(int(flat), classes)
        if counts[said, meant] == 0:
            break
        if order[said] < 0 and free[meant]:
            order[said], free[meant] = meant, False
    left = np.flatnonzero(order < 0)
    own = left[free[left]]
    order[own], free[own] = own, False
    order[order < 0] = np.flatnonzero(free)
    return order


def at_chance(accuracy: Number, labels: np.ndarray) -> list[Finding]:
    """The finding if the model is not clearly better than naming the most frequent class."""
    chance = np.unique(labels, return_counts=True)[1].max() / len(labels)
    if accuracy.low > chance:
        return []
    sentence = f"its accuracy, {accuracy.value:.2f}, is not clearly better than guessing ({chance:.2f})."
    advice = (
        "Check that its weights were loaded, that the inputs have the range and normalization of training, and that "
        "the labels are those of the model."
    )
    return [Finding(MISMATCH, sentence, advice)]


def wrong_confidence(logits: np.ndarray, labels: np.ndarray, error: Number) -> list[Finding]:
    """What to say first if the model's confidence is far from its accuracy."""
    if not error.low >= _TERRIBLE:
        return []
    fitted = temperature(logits, labels)
    too = "too sure" if fitted > 1 else "not sure enough"
    sentence = f"Its confidences are wrong by {error.value:.2f} on average: it is {too}."
    advice = f"Do not use its probabilities as they are: divide the logits by {fitted:.2g} (fitted on these examples)."
    return [Finding(MISMATCH, sentence, advice)]


def _called(number: int, names: Sequence[str]) -> str:
    return str(names[number]) if number < len(names) else str(number)
