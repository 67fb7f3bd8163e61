"""Measurements of a batch, example by example: utility, sensitivity, perturbation and corruptions.

    near     || phi(x + epsilon(Bottom_k)) - phi(x) ||   how far the embedding moves with the least useful features
    far      || phi(x + epsilon(Top_k)) - phi(x) ||      with the most useful features
    random   || phi(x + epsilon(R)) - phi(x) ||          with k random features, the reference for both

and what becomes of the answers: the predicted class, and the margin f_y - max over the other classes of f_c. The
model's own utility is measured with all logits scaled to one typical margin, so that it depends on no temperature.

The noise of an example depends on (seed, example, strength) only, so every model of a comparison gets the same noise.
The model is left unchanged.

The search for misused features needs a small number of units at fixed places:

    pictures   means over the cells of a grid of at most 16 x 16, channel by channel
    tables     the columns; of more than 1024 values, means over runs of neighbours
    tokens     how often each id of the vocabulary stands in the sentence (kept sparse, as ids)

`Showcase` selects the examples to show while they are measured: the most over-robust, the most brittle, and those of
each class whose sensitivity follows utility least. It holds only these in memory. An example whose embedding does not
move with its least useful features is not brittle, even if it moves more than other examples.

Axes: B examples, *D features of one example, L classes, K strengths, C corruptions x severities, J units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from poise.auditing.design import AuditPlan, Step
from poise.auditing.estimates.numbers import margins, top_gap
from poise.classifier import Classifier, evaluating
from poise.corruptions.corrupt import Making
from poise.features.sensitivity import JacobianSensitivity, correlation, overlap, ranks, spearman
from poise.features.utility import GradientUtility, RemovalUtility, rows_within
from poise.inputs.examples import Batch
from poise.losses import CrossEntropy
from poise.tokens import Input, Tokens, device_of, shape_of, valid_features

SIDES = ("near", "far", "random")
_MOST = 256  # examples at once
_GRID = 16
_COLUMNS = 1024
EACH = 4
CLASSES = 12
LEAST_GAIN = 0.05  # times the shift with random features
LEAST_USEFUL = "the least useful features"
_SIDE = 224  # maximum pixels of an image on the page
BRITTLE, OVER_ROBUST, CLASS = "most brittle", "most over-robust", "follows utility least in its class"
_KEPT = 2**28  # bytes of stored examples
_TYPICAL_GAP = 4.0  # of the two largest logits, while utility is measured


@dataclass(frozen=True)
class ScaledCrossEntropy(CrossEntropy):
    """Cross-entropy of scale * logits."""

    scale: float = 1.0

    def __call__(self, logits: Tensor, y: Tensor, /) -> Tensor:
        return super().__call__(self.scale * logits.float(), y)


def common_loss(model: Classifier, inputs: Sequence[Input]) -> ScaledCrossEntropy:
    """Cross-entropy of the logits at the scale where the two largest are 4 apart, on average over the inputs."""
    with evaluating(model):
        gaps = np.concatenate([top_gap(_numpy(_run(model, x)[1])) for x in inputs])
    gap = float(gaps.mean())
    return ScaledCrossEntropy(scale=_TYPICAL_GAP / gap if np.isfinite(gap) and gap > 0 else 1.0)


@dataclass(frozen=True, eq=False)
class MeasuredChunk:
    """The measurements of a chunk of a batch.

    rows  {name: one entry per example}.
    u, s  utility and sensitivity [B, *D], for the maps and token strips.
    own   the model's own utility [B, *D], even if u is that of a reference.
    near  the examples with their least useful features perturbed, at the middle strength.
    """

    batch: Batch
    rows: dict[str, np.ndarray]
    u: Tensor
    s: Tensor
    own: Tensor
    near: Input


def measure(model: Classifier, batch: Batch, first: int, plan: AuditPlan) -> Iterator[MeasuredChunk]:
    """Measure the batch in chunks that fit into the plan's memory; `first` is the number of its first example."""
    with evaluating(model):
        size = min(_MOST, rows_within(plan.memory, model, model.embed, batch.x, "embedding"))
        for start in range(0, len(batch), size):
            part = batch.rows(slice(start, start + size))
            yield _measure(model, part, range(first + start, first + start + len(part)), plan)


def _measure(model: Classifier, batch: Batch, ids: range, plan: AuditPlan) -> MeasuredChunk:
    x, y = batch.x, batch.y
    z, logits = _run(model, x)
    if not logits.isfinite().all():
        raise ValueError("the model's logits are not finite: check its weights for nan, and the range of the inputs")
    own = _own_utility(model, x, y, plan)
    u = own if batch.given is None and plan.is_own else _utility(model, batch, plan)
    s, halves = _sensitivity(model, x, ids, plan)
    rows: dict[str, Any] = {"label": y, "logits": logits, "embedding": z, **_ranked(u, s, halves, valid_features(x))}
    found, near = _perturbed(model, batch, z, u, s, ids, plan)
    rows |= found
    rows |= {} if isinstance(x, Tokens) else {"units": units(x), "unit_utility": units(own)}
    if plan.making is not None:
        rows |= _corrupted(model, cast(Tensor, x), y, ids, plan.making)
    return MeasuredChunk(batch, {name: _numpy(value) for name, value in rows.items()}, u, s, own, near)


@torch.no_grad()
def _run(model: Classifier, x: Input) -> tuple[Tensor, Tensor]:
    """z [B, E] and logits [B, L], in float32."""
    z = model.embed(x)
    logits: Tensor = model.head(z)
    return z.flatten(1).float(), logits.float()


def _own_utility(model: Classifier, x: Input, y: Tensor, plan: AuditPlan) -> Tensor:
    """The model's own utility at the common scale of its logits, whatever utility the plan has."""
    usual = RemovalUtility(memory=plan.memory) if isinstance(x, Tokens) else GradientUtility()
    return (plan.utility if plan.is_own else usual)(model, x, y, loss=plan.loss)


def _utility(model: Classifier, batch: Batch, plan: AuditPlan) -> Tensor:
    """The utility that came with the batch, else that of the plan."""
    if batch.given is None:
        return plan.utility(model, batch.x, batch.y)
    valid = valid_features(batch.x)
    given = batch.given.detach().float().abs()
    return given if valid is None else given.where(valid, 0)


def _sensitivity(model: Classifier, x: Input, ids: range, plan: AuditPlan) -> tuple[Tensor, tuple[Tensor, ...]]:
    """s [B, *D], and its two independent halves if it is estimated by probes."""
    sensitivity = plan.sensitivity
    if not isinstance(sensitivity, JacobianSensitivity) or sensitivity.probes is None:
        return sensitivity(model, x), ()
    half = replace(sensitivity, probes=sensitivity.probes // 2)
    generator = torch.Generator(device_of(x)).manual_seed(seed_of(plan.seed, ids.start, 0))
    one, other = (half(model, x, generator) for _ in range(2))
    return ((one**2 + other**2) / 2).sqrt(), (one, other)


def _ranked(u: Tensor, s: Tensor, halves: tuple[Tensor, ...], valid: Tensor | None) -> dict[str, Tensor]:
    """Rank correlations [B]: of u with s, with its halves, and of these with each other."""
    if not halves:
        observed = spearman(u, s, valid)
        return {"rank_correlation": observed, "half_correlation": observed, "halves": torch.ones_like(observed)}
    useful, sensitive, one, other = (ranks(values.flatten(1)) for values in (u, s, *halves))  # probes are for tensors
    each = (correlation(useful, one) + correlation(useful, other)) / 2
    whole = correlation(useful, sensitive)
    return {"rank_correlation": whole, "half_correlation": each, "halves": correlation(one, other)}


def _perturbed(
    model: Classifier, batch: Batch, z: Tensor, u: Tensor, s: Tensor, ids: range, plan: AuditPlan
) -> tuple[dict[str, Any], Input]:
    """Shifts, answers and margins [B, K] of all sides, and the overlap of the first selection with that of s.

    Also the examples with their least useful features perturbed, at the middle strength.
    """
    x, valid = batch.x, valid_features(batch.x)
    found: dict[str, list[Tensor]] = {f"{side}_{what}": [] for side in SIDES for what in ("shift", "answer", "margin")}
    near = x
    for number, step in enumerate(plan.steps):
        generator = torch.Generator(u.device).manual_seed(seed_of(plan.seed, ids.start, 1))
        low, high = step.select(u, valid, generator)
        if number == 0:
            top = step.select(s.to(u.dtype), valid, generator)[1]
            agreed = overlap(high, top)
        any_of_them = step.select(_random_utility(u, ids, plan.seed), valid, generator)[0]
        for side, chosen in zip(SIDES, (low, high, any_of_them), strict=True):
            moved = _moved(step, x, chosen, ids, number, plan.seed)
            near = moved if side == "near" and number == plan.middle else near
            there, logits = _run(model, moved)
            some = chosen.flatten(1).any(1)
            found[f"{side}_shift"].append((there - z).norm(dim=1).where(some, torch.nan))
            found[f"{side}_answer"].append(logits.argmax(1))
            found[f"{side}_margin"].append(torch.from_numpy(margins(_numpy(logits), _numpy(batch.y))))
    return {"top_overlap": agreed, **{name: torch.stack(values, 1) for name, values in found.items()}}, near


def _random_utility(u: Tensor, ids: range, seed: int) -> Tensor:
    """Random utilities, with one seed per example."""
    generator = torch.Generator(u.device)
    return torch.stack(
        [torch.rand(u.shape[1:], device=u.device, generator=generator.manual_seed(seed_of(seed, i, 1))) for i in ids]
    )


def _moved(step: Step, x: Input, chosen: Tensor, ids: range, number: int, seed: int) -> Input:
    """Perturb every example with its own noise."""
    if isinstance(x, Tokens):
        return step.perturb(x, chosen)
    parts = []
    generator = torch.Generator(x.device)
    for row, example in enumerate(ids):
        generator.manual_seed(seed_of(seed, example, 2 + number))
        one = step.perturb(x[row : row + 1], chosen[row : row + 1], generator)
        parts.append(cast(Tensor, one))
    return torch.cat(parts)


def _corrupted(model: Classifier, x: Tensor, y: Tensor, ids: range, making: Making) -> dict[str, Tensor]:
    """Whether each prediction is correct, and its confidence [B, C], under each corruption and severity."""
    right, confidence = [], []
    colours = x.expand(-1, 3, -1, -1) if x.shape[1] == 1 else x
    for name in making.corruptions:
        for severity in making.severities:
            changed = making.of(colours, name, severity, list(ids))
            _, logits = _run(model, changed.mean(1, keepdim=True) if x.shape[1] == 1 else changed)
            right.append(logits.argmax(1) == y)
            confidence.append(logits.softmax(1).amax(1))
    return {"corrupted_right": torch.stack(right, 1), "corrupted_confidence": torch.stack(confidence, 1)}


def seed_of(seed: int, example: int, draw: int) -> int:
    """The seed of one draw for one example."""
    return (seed * 1_000_003 + example) * 64 + draw


def _numpy(value: Tensor) -> np.ndarray:
    found: np.ndarray = value.detach().cpu().numpy()
    return found


def units(values: Tensor) -> Tensor:
    """[B, *D] → [B, J], the mean over the features of each unit."""
    if values.ndim == 4:
        height, width = (min(_GRID, side) for side in values.shape[2:])
        return F.adaptive_avg_pool2d(values.float(), (height, width)).flatten(1)
    rows = values.flatten(1).float()
    return F.adaptive_avg_pool1d(rows[:, None], _COLUMNS)[:, 0] if rows.shape[1] > _COLUMNS else rows


def shifted(x: Tensor, unit: int, amount: Tensor) -> Tensor:
    """x [B, *D] with `amount` [B] added to every feature of a unit."""
    if x.ndim == 4:
        height, width = (min(_GRID, side) for side in x.shape[2:])
        channel, cell = divmod(unit, height * width)
        (top, bottom), (left, right) = (
            _ends(place, side, count)
            for place, side, count in zip(divmod(cell, width), x.shape[2:], (height, width), strict=True)
        )
        moved = x.clone()
        moved[:, channel, top:bottom, left:right] += amount[:, None, None]
        return moved
    moved = x.clone().flatten(1)
    first, last = _ends(unit, moved.shape[1], min(_COLUMNS, moved.shape[1]))
    moved[:, first:last] += amount[:, None]
    return moved.view(x.shape)


def _ends(place: int, side: int, count: int) -> tuple[int, int]:
    """The first and last index of one bin of adaptive average pooling."""
    return place * side // count, -((-(place + 1) * side) // count)


def unit_names(shape: torch.Size, names: tuple[str, ...] = ()) -> list[str]:
    """The display names of the units of an example [*D]; `names` are those of a table's columns."""
    if len(shape) == 3:
        height, width = (min(_GRID, side) for side in shape[1:])
        cells = [(row, column) for row in range(height) for column in range(width)]
        return [
            f"{_channel(c, shape[0])}{_where(cell, shape[1:], (height, width))}"
            for c in range(shape[0])
            for cell in cells
        ]
    count = min(shape.numel(), _COLUMNS)
    return list(names) if len(names) == count else [f"feature {number}" for number in range(count)]


def _channel(number: int, count: int) -> str:
    return "" if count == 1 else f"{('red', 'green', 'blue')[number] if count == 3 else f'channel {number}'} at "


def _where(cell: tuple[int, int], shape: Sequence[int], grid: tuple[int, int]) -> str:
    """The centre of a cell, in pixels."""
    row, column = (int((place + 0.5) * side / count) for place, side, count in zip(cell, shape, grid, strict=True))
    return f"row {row}, column {column}"


@dataclass(frozen=True, eq=False)
class NotableExample:
    """x, u and s of an example to show: tensors [*D], or for a sentence one value per token [T], special ones too.

    feature  for a sentence, which tokens may be removed.
    """

    number: int
    x: np.ndarray
    u: np.ndarray
    s: np.ndarray
    feature: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Proof:
    """An example before and after a change that shows a finding: [*D], or the ids of a sentence [T]."""

    example: int
    before: np.ndarray
    after: np.ndarray
    answer_before: int
    answer_after: int


def only_example(x: Input) -> np.ndarray:
    """The only example of a batch as an array; of a sentence, the ids of its tokens."""
    found: np.ndarray = x.ids[x.mask].numpy() if isinstance(x, Tokens) else _small(x[0].detach().float()).numpy()
    return found


@dataclass
class Showcase:
    """Keeps the first `EACH` examples of each ranking, and one example of each of the first `CLASSES` classes."""

    kept: dict[str, list[tuple[float, NotableExample]]] = field(default_factory=dict)
    flip: Proof | None = None

    def flipped(self) -> list[tuple[str, Proof]]:
        """A right example that is wrong with its least useful features perturbed; none if there is none."""
        return [] if self.flip is None else [(LEAST_USEFUL, self.flip)]

    def consider(self, found: MeasuredChunk, first: int, middle: int) -> None:
        """Consider all examples of a chunk."""
        rows = found.rows
        near, far = (rows[f"{side}_shift"][:, middle] for side in ("near", "far"))
        self._look_for_flip(found, first, middle)
        for row in range(len(near)):
            self._offer(BRITTLE, -float(near[row]), found, row, first + row, EACH)
            self._offer(OVER_ROBUST, float(far[row]), found, row, first + row, EACH)
            label = f"{CLASS}: {int(rows['label'][row])}"
            if label in self.kept or sum(name.startswith(CLASS) for name in self.kept) < CLASSES:
                self._offer(label, float(rows["rank_correlation"][row]), found, row, first + row, 1)

    def _look_for_flip(self, found: MeasuredChunk, first: int, middle: int) -> None:
        rows, predicted = found.rows, found.rows["logits"].argmax(1)
        there = np.flatnonzero((predicted == rows["label"]) & (rows["near_answer"][:, middle] != predicted))
        if self.flip is None and len(there):
            row = int(there[0])
            before, after = (only_example(part[row : row + 1].to("cpu")) for part in (found.batch.x, found.near))
            answer = int(rows["near_answer"][row, middle])
            self.flip = Proof(first + row, before, after, int(predicted[row]), answer)

    def chosen(self, near_gain: np.ndarray) -> list[tuple[str, NotableExample]]:
        """Each example once, with the reason for its choice; near_gain [N] of all measured examples."""
        names = [BRITTLE, OVER_ROBUST, *sorted(n for n in self.kept if n.startswith(CLASS))]
        pairs: list[tuple[str, NotableExample]] = []
        for name in names:
            for _, example in self.kept.get(name, []):
                if name == BRITTLE and not near_gain[example.number] >= LEAST_GAIN:
                    continue
                if example.number not in {seen.number for _, seen in pairs}:
                    pairs.append((name.partition(":")[0], example))
        return pairs

    def _offer(self, name: str, order: float, found: MeasuredChunk, row: int, number: int, room: int) -> None:
        held = self.kept.setdefault(name, [])
        if not np.isfinite(order) or (len(held) == room and order >= held[-1][0]):
            return
        held.append((order, _notable_example(found, row, number)))
        held.sort(key=lambda pair: pair[0])
        del held[room:]


def _notable_example(found: MeasuredChunk, row: int, number: int) -> NotableExample:
    x, u, s = found.batch.x, found.u[row].detach().float().cpu(), found.s[row].detach().float().cpu()
    if isinstance(x, Tokens):
        there = x.mask[row].cpu()
        ids, feature = x.ids[row].cpu()[there], x.features[row].cpu()[there]
        return NotableExample(number, ids.numpy(), u[there].numpy(), s[there].numpy(), feature.numpy())
    picture, utility, sensitivity = (_small(part).numpy() for part in (x[row].detach().float().cpu(), u, s))
    return NotableExample(number, picture, utility, sensitivity, None)


def _small(values: torch.Tensor) -> torch.Tensor:
    """An image [C, H, W], reduced to its size on the page."""
    if values.ndim != 3 or max(values.shape[1:]) <= _SIDE:
        return values
    scale = _SIDE / max(values.shape[1:])
    size = [max(1, round(side * scale)) for side in values.shape[1:]]
    return torch.nn.functional.interpolate(values[None], size, mode="area")[0]


@dataclass
class Collected:
    """The measurements of all examples so far, their columns, and the words of text.

    inputs   the first examples, as many as fit into 256 MB, for further forward passes.
    sources  the origin of each example; "" if unknown.
    outside  whether a utility came with the data.
    """

    middle: int
    parts: dict[str, list[np.ndarray]] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    words: list[np.ndarray] = field(default_factory=list)
    word_utility: list[np.ndarray] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    showcase: Showcase = field(default_factory=Showcase)
    shape: torch.Size = field(default_factory=torch.Size)
    tokens: bool = False
    outside: bool = False
    _room: int = _KEPT

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts.get("label", []))

    def add(self, found: MeasuredChunk) -> None:
        """Append a chunk."""
        self.showcase.consider(found, len(self), self.middle)
        for name, values in found.batch.columns.items():
            self.columns.setdefault(name, [""] * len(self)).extend(values)
        for name, rows in found.rows.items():
            self.parts.setdefault(name, []).append(rows)
        for name, held in self.columns.items():
            held.extend([""] * (len(self) - len(held))) if name not in found.batch.columns else None
        self.sources += found.batch.sources or [""] * len(found.batch)
        self.outside |= found.batch.given is not None
        self._keep(found.batch.x, found.own)

    def rows(self) -> dict[str, np.ndarray]:
        """All measurements, one entry per example."""
        return {name: np.concatenate(parts) for name, parts in self.parts.items()}

    def _keep(self, x: Input, own: torch.Tensor) -> None:
        self.shape = shape_of(x)[1:]
        self._room -= shape_of(x).numel() * (16 if isinstance(x, Tokens) else x.element_size())
        if self._room >= 0:
            self.inputs.append(x.to("cpu"))
        if not isinstance(x, Tokens):
            return
        self.tokens = True
        for ids, feature, row in zip(x.ids.cpu(), x.features.cpu(), own.detach().cpu(), strict=True):
            self.words.append(ids[feature].numpy())
            self.word_utility.append(row[feature].numpy())
