"""Robustness: a classifier's accuracy under every corruption and severity, and the averages of these scores.

Beside the mean over examples it has the other half: the accuracy of each class, of rare ones and of the worst, and of
pairs of twins, clean and as a mean over what was measured.

Groups contain the standard corruptions only. "All" is named by its size: over the 15 standard ones, or over the 19.

Axes: N images, H rows, W columns, L classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from poise.checks import require_choice, require_known, require_part, require_several, require_whole
from poise.classifier import as_device, both_classes, evaluating
from poise.corruptions.corrupt import Making, profile_for, require_range
from poise.corruptions.protocols import C_BAR, CORRUPTIONS, EVERY, GROUPS, SEVERITIES, STANDARD
from poise.errors import DataNotFound


@dataclass(frozen=True)
class Robustness:
    """Accuracies in [0, 1] on clean images, and per corruption and severity; `print` shows the table.

    source   the origin of the corrupted images.
    classes  {label: (clean, corrupted)}, the accuracy of each class; corrupted is the mean over all that was measured.
    rare     the classes that count as rare.
    pairs    the share of pairs of twins of which both are right, (clean, corrupted); None without twins.
    """

    data: str
    examples: int
    source: str
    clean: float
    accuracy: dict[str, dict[int, float]]
    classes: dict[int, tuple[float, float]] = field(default_factory=dict)
    rare: tuple[int, ...] = ()
    pairs: tuple[float, float] | None = None

    def halves(self) -> dict[str, tuple[float, float]]:
        """What a mean over examples hides, (clean, corrupted): rare classes, the worst class, and pairs."""
        found: dict[str, tuple[float, float]] = {}
        shown = [self.classes[label] for label in self.rare if label in self.classes]
        if shown:
            found["rare classes"] = (fmean(clean for clean, _ in shown), fmean(noisy for _, noisy in shown))
        if self.classes:
            each = self.classes.values()
            found["worst class"] = (min(clean for clean, _ in each), min(noisy for _, noisy in each))
        return found | ({} if self.pairs is None else {"pairs": self.pairs})

    def of(self, name: str) -> float:
        """The mean of a corruption over its severities."""
        require_known("corruption among those measured", name, self.accuracy)
        return fmean(self.accuracy[name].values())

    def mean(self, names: Iterable[str]) -> float | None:
        """The mean over corruptions; None unless all of them were measured."""
        require_several("names", names)
        names = tuple(names)
        if not names:
            raise ValueError("names must hold at least one corruption")
        for name in names:
            require_known("corruption", name, EVERY)
        return fmean(self.of(name) for name in names) if all(name in self.accuracy for name in names) else None

    def averages(self) -> dict[str, float]:
        """The four groups, the 15, the 19 and C-bar, if they were measured."""
        named = [
            *GROUPS.items(),
            ("all 15", STANDARD),
            ("all 19", CORRUPTIONS),
            *(("C-bar", ten) for ten in C_BAR.values()),
        ]
        means = [(name, self.mean(members)) for name, members in named]
        return {name: value for name, value in means if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """The measurements and averages, for JSON."""
        return {
            "data": self.data,
            "examples": self.examples,
            "source": self.source,
            "clean": self.clean,
            "accuracy": {name: {str(s): value for s, value in row.items()} for name, row in self.accuracy.items()},
            "averages": self.averages(),
            "classes": {str(label): list(both) for label, both in self.classes.items()},
            "rare": list(self.rare),
            "halves": {name: list(both) for name, both in self.halves().items()},
        }

    def __str__(self) -> str:
        severities = sorted({severity for row in self.accuracy.values() for severity in row})
        head = f"{'':<18}" + "".join(f"{severity:>8}" for severity in severities) + f"{'mean':>8}"
        lines = [f"{self.data}, {self.examples} images, {self.source}", f"{'clean':<18}{self.clean:8.4f}", head]
        for name, row in self.accuracy.items():
            cells = "".join(f"{row[severity]:8.4f}" if severity in row else f"{'':8}" for severity in severities)
            lines.append(f"{name:<18}{cells}{self.of(name):8.4f}")
        gap = 8 * len(severities)
        lines += [f"{name:<18}{'':{gap}}{value:8.4f}" for name, value in self.averages().items()]
        for name, (clean, noisy) in self.halves().items():
            lines += [f"{name + ', clean':<26}{'':{max(gap - 8, 0)}}{clean:8.4f}"]
            lines += [f"{name + ', corrupted':<26}{'':{max(gap - 8, 0)}}{noisy:8.4f}"]
        return "\n".join(lines)


Progress = Callable[[str, int, int], None]
Model = Callable[[Tensor], Tensor]
Show = Callable[[str, int], tuple[Tensor, Tensor]]
_CLEAN = {"cifar10-c": "cifar10", "cifar100-c": "cifar100"}


def evaluate(
    model: Model,
    data: str | tuple[Tensor, Tensor],
    *,
    corruptions: Iterable[str] = CORRUPTIONS,
    severities: Iterable[int] = SEVERITIES,
    profile: str | None = None,
    seed: int = 0,
    libraries: str = "2018",
    jpeg: int | None = None,
    limit: int | None = None,
    batch_size: int = 1000,
    device: torch.device | str | None = None,
    source: str = "auto",
    progress: Progress | None = None,
    rare: Iterable[int] = (),
    twins: tuple[Tensor, Tensor] | None = None,
) -> Robustness:
    """Accuracy on clean images and under each corruption and severity.

    model     images in [0, 1] [N, 3, H, W] to logits [N, L]; one logit [N, 1] is the log-odds of class 1. It normalises
              the images itself. A module is set to eval mode and restored.
    data      "cifar10-c" or "cifar100-c", or a pair: images [N, 3, H, W] as `poise.corrupt` takes them, labels [N].
    limit     use only the first images.
    device    by default that of the model's weights, or the CPU.
    source    "generated" by `poise.corrupt`, "official" for the published files in the cache, or "auto": those files
              if they exist. The result names the source. Profile, seed, libraries and jpeg do not apply to them.
    progress  called with the corruption, the number of completed settings, and their total.
    rare      the classes whose mean accuracy to show apart.
    twins     images and labels like those of a pair `data`, row by row: the same image with the detail changed that
              decides its class. A pair counts if both are right.
    """
    _check_call(model, progress, corruptions=corruptions, severities=severities, rare=rare)
    making = Making(_unique(corruptions), _unique(severities), profile or "cifar", seed, libraries, jpeg)
    require_choice("source", source, "auto", "generated", "official")
    require_whole("batch_size", batch_size, least=1)
    place = _device_of(model) if device is None else as_device(device)
    tests = [each.to(place) for each in _tests(data, twins, limit, source)]
    test = tests[0]
    rare = _known(rare, test.labels)
    shows = [_corrupted(each, making, profile) for each in tests]
    mode = evaluating(model) if isinstance(model, nn.Module) else nullcontext()
    clean, noisy = _ByClass(), _ByClass()
    with mode, torch.inference_mode():
        clean.add(*[(_right(model, each.images, each.labels, batch_size), each.labels) for each in tests])
        accuracy = _measured(model, shows, making, batch_size, progress, noisy)
    classes = {label: (clean.of(label), noisy.of(label)) for label in clean.labels() if label in noisy.labels()}
    pairs = None if twins is None else (clean.pairs(), noisy.pairs())
    origin = test.origin(making)
    return Robustness(test.name, len(test.labels), origin, clean.accuracy(), accuracy, classes, rare, pairs)


def _check_call(model: Any, progress: Any, **several: Any) -> None:
    if isinstance(model, type) or not callable(model):
        raise TypeError(f"model={model!r} must be a module or a function from images to logits")
    if progress is not None:
        require_part("progress", progress)
    for name, values in several.items():
        require_several(name, values)


def _measured(
    model: Model,
    shows: Sequence[Show],
    making: Making,
    batch_size: int,
    progress: Progress | None,
    tally: _ByClass,
) -> dict[str, dict[int, float]]:
    """The accuracy under each corruption and severity of the first of `shows`; the tally adds up all of them."""
    wanted = [(name, severity) for name in making.corruptions for severity in making.severities]
    accuracy: dict[str, dict[int, float]] = {name: {} for name in making.corruptions}
    for done, (name, severity) in enumerate(wanted):
        if progress is not None:
            progress(name, done, len(wanted))
        shown = [show(name, severity) for show in shows]
        accuracy[name][severity] = tally.add(*[(_right(model, *each, batch_size), each[1]) for each in shown])
    return accuracy


def show_corrupted(data: str, limit: int | None, device: torch.device, source: str = "auto") -> tuple[Show, str]:
    """The function that `evaluate` gets its images from, (corruption, severity) → images and labels; and its source."""
    require_choice("source", source, "auto", "generated", "official")
    test = _tests(data, None, limit, source)[0].to(device)
    return _corrupted(test, Making(), None), test.origin(Making())


class _ByClass:
    """Counts of right answers and of examples by class, and of pairs, summed over conditions."""

    def __init__(self) -> None:
        self._counts: dict[int, list[int]] = {}
        self._pairs = [0, 0]

    def add(self, shown: tuple[Tensor, Tensor], twins: tuple[Tensor, Tensor] | None = None) -> float:
        """Add a condition: right [N] and labels [N], and those of the twins; returns its accuracy."""
        right, labels = shown
        totals = labels.long().bincount().tolist()
        correct = labels[right].long().bincount(minlength=len(totals)).tolist()
        for label, (own, total) in enumerate(zip(correct, totals, strict=True)):
            if total:
                held = self._counts.setdefault(label, [0, 0])
                held[0], held[1] = held[0] + own, held[1] + total
        if twins is not None:
            self._pairs[0] += int((right & twins[0]).sum())
            self._pairs[1] += len(right)
        return int(right.sum()) / len(right)

    def labels(self) -> list[int]:
        return sorted(self._counts)

    def of(self, label: int) -> float:
        """The accuracy of a class."""
        return self._counts[label][0] / self._counts[label][1]

    def accuracy(self) -> float:
        return sum(own for own, _ in self._counts.values()) / sum(total for _, total in self._counts.values())

    def pairs(self) -> float:
        return self._pairs[0] / self._pairs[1]


def _known(rare: Iterable[int], labels: Tensor) -> tuple[int, ...]:
    chosen, known = _unique(rare), set(labels.tolist())
    for label in chosen:
        require_whole("rare", label, least=0)
        if label not in known:
            raise ValueError(f"rare={chosen}: no label is {label}")
    return chosen


@dataclass(frozen=True)
class _Test:
    """Clean images and labels, and the published corrupted ones if they are used."""

    name: str
    images: Tensor
    labels: Tensor
    published: Show | None = None

    def origin(self, making: Making) -> str:
        if self.published is not None:
            return "the published files"
        return f"generated with seed {making.seed} as by the libraries of {making.libraries}"

    def to(self, device: torch.device) -> _Test:
        return replace(self, images=self.images.to(device), labels=self.labels.to(device))


def _unique(things: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(things))


def _corrupted(test: _Test, making: Making, profile: str | None) -> Show:
    """Images and labels of a corruption and severity; ValueError if they are not available with these settings."""
    if test.published is not None:
        published, device = test.published, test.labels.device
        if profile is not None or replace(making, corruptions=CORRUPTIONS, severities=SEVERITIES) != Making():
            raise ValueError(
                "profile, seed, libraries and jpeg do not apply to the published files: leave them out, "
                "or pass source='generated'"
            )
        return lambda name, severity: _moved(published(name, severity), device)
    height, width = test.images.shape[2:]
    making = replace(making, profile=profile or profile_for(height, width))
    making.require_size(height, width)
    return lambda name, severity: (making.of(test.images, name, severity), test.labels)


def _moved(pair: tuple[Tensor, Tensor], device: torch.device) -> tuple[Tensor, Tensor]:
    return pair[0].to(device), pair[1].to(device)


def _tests(data: Any, twins: Any, limit: int | None, source: str) -> list[_Test]:
    """The test images, and their twins if there are any, which are checked before a named data set is read."""
    if limit is not None:
        require_whole("limit", limit, least=1)
    partners = [] if twins is None else [_partner(twins, data, limit)]
    return [_find(data, limit, source), *partners]


def _find(data: str | tuple[Tensor, Tensor], limit: int | None, source: str) -> _Test:
    if not isinstance(data, str):
        images, labels = _pair(data)
        if source == "official":
            raise ValueError("source='official' needs data='cifar10-c' or 'cifar100-c', not a pair of tensors")
        return _Test("given images", images[:limit], labels[:limit])
    require_choice("data", data, *_CLEAN)
    from poise.data.loading.resident import on_device
    from poise.data.sets.cache import load, manifest_of

    if manifest_of(_CLEAN[data]) is None:
        raise DataNotFound(f"{_CLEAN[data]} is not in the cache: get it with  poise data get {_CLEAN[data]}")
    clean = on_device(load(_CLEAN[data], "test_x")[:limit], load(_CLEAN[data], "test_y")[:limit])
    if source == "generated" or (source == "auto" and manifest_of(data) is None):
        return _Test(data, *clean)

    def published(name: str, severity: int) -> tuple[Tensor, Tensor]:
        """Severity-major, with labels of their own: CIFAR-100-C has another order than CIFAR-100."""
        part = slice((severity - 1) * 10_000, severity * 10_000)
        return on_device(load(data, name)[part][:limit], load(data, "labels")[part][:limit])

    return _Test(data, *clean, published)


def _partner(twins: Any, data: Any, limit: int | None) -> _Test:
    """The twins of a pair of tensors, as many as there are images."""
    if isinstance(data, str):
        raise ValueError("twins need data as a pair of tensors: images and labels")
    (images, labels), (_, known) = _pair(twins, "twins"), _pair(data)
    if len(labels) != len(known):
        raise ValueError(f"twins must have one image for each of the {len(known)} images, got {len(labels)}")
    return _Test("twins", images[:limit], labels[:limit])


def _pair(data: Any, name: str = "data") -> tuple[Tensor, Tensor]:
    if not isinstance(data, tuple | list) or len(data) != 2 or not all(isinstance(part, Tensor) for part in data):
        got = ", ".join(type(part).__name__ for part in data) if isinstance(data, tuple | list) else type(data).__name__
        kinds = "a name, or a pair of tensors" if name == "data" else "a pair of tensors"
        raise TypeError(f"{name} must be {kinds}: images and labels (torch.as_tensor); got {got}")
    images, labels = data
    if images.dim() != 4 or images.shape[1] != 3 or not (images.dtype == torch.uint8 or images.is_floating_point()):
        raise ValueError(
            f"images must be uint8 or floats in [0, 1] [N, 3, H, W], got {images.dtype} {list(images.shape)}"
        )
    if not len(images):
        raise ValueError(f"{name} has no images: pass at least one")
    require_range(images)
    if labels.dim() != 1 or labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(f"labels must be whole numbers [N], got {labels.dtype} {list(labels.shape)}")
    if len(images) != len(labels):
        raise ValueError(f"labels must have one entry for each of the {len(images)} images, got {len(labels)}")
    return images, labels


def _right(model: Model, images: Tensor, labels: Tensor, batch_size: int) -> Tensor:
    """[N] whether the model is right."""
    right = []
    for start in range(0, len(labels), batch_size):
        x, y = images[start : start + batch_size], labels[start : start + batch_size]
        logits = _logits(model, x.float() / 255 if x.dtype == torch.uint8 else x)
        if start == 0:
            _require_classes(logits, labels)
        right.append(logits.argmax(1) == y)
    return torch.cat(right)


def _require_classes(logits: Tensor, labels: Tensor) -> None:
    """ValueError for labels beyond the model's classes: the model was trained on other data."""
    if (lowest := int(labels.min())) < 0:
        raise ValueError(f"label {lowest} is out of range: labels must be whole numbers of 0 or more")
    if (highest := int(labels.max())) >= logits.shape[1]:
        raise ValueError(
            f"label {highest} is out of range: the model has {logits.shape[1]} classes; it was trained on other data"
        )


def _logits(model: Model, x: Tensor) -> Tensor:
    """The model's logits [N, L], with both classes of one logit; raise if the images have another dtype than its
    weights.
    """
    try:
        logits = model(x)
    except RuntimeError as error:
        weight = _weight_of(model)
        if weight is None or weight.dtype == x.dtype:
            raise
        raise TypeError(
            f"the model's weights are {weight.dtype}, the images {x.dtype}: use model.float() or torch.autocast"
        ) from error
    if not isinstance(logits, Tensor):
        raise TypeError(
            f"the model must return logits [N, L], got {type(logits).__name__}: pass a function that returns them"
        )
    if logits.dim() != 2 or len(logits) != len(x):
        raise ValueError(f"the model must return logits [N, L] for {len(x)} images, got {list(logits.shape)}")
    return both_classes(logits)


def _device_of(model: Model) -> torch.device:
    weight = _weight_of(model)
    return torch.device("cpu") if weight is None else weight.device


def _weight_of(model: Model) -> Tensor | None:
    return next(model.parameters(), None) if isinstance(model, nn.Module) else None
