"""What is wrong with the result of a right call, in words; None where nothing is. Plain loops in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import poise
from poise.tokens import shape_of

Values = dict[str, Any]


def close(got: Any, wanted: Any, slack: float = 1e-4) -> str | None:
    """Equal but for rounding."""
    got, wanted = torch.as_tensor(got).detach().double(), torch.as_tensor(wanted).double()
    if got.shape != wanted.shape:
        return f"its shape is {list(got.shape)}, not {list(wanted.shape)}"
    return None if torch.allclose(got, wanted, rtol=slack, atol=slack) else f"{got.tolist()} is not {wanted.tolist()}"


def finite(values: Values, result: Any) -> str | None:
    """A tensor of finite numbers."""
    if not isinstance(result, Tensor):
        return f"it is a {type(result).__name__}"
    return None if result.isfinite().all() else "it is not finite"


def anything(values: Values, result: Any) -> str | None:
    return "it is None" if result is None else None


def like(name: str) -> Callable[[Values, Any], str | None]:
    """Finite, of the shape of an argument, and not negative."""

    def check(values: Values, result: Any) -> str | None:
        if result.shape != shape_of(values[name]):
            return f"its shape is {list(result.shape)}"
        return finite(values, result) or ("it is negative" if (result < 0).any() else None)

    return check


def cross_entropy(values: Values, result: Any) -> str | None:
    logits, y, smooth = values["logits"].double(), values["y"], values["label_smoothing"]
    logits = torch.cat([torch.zeros_like(logits), logits], 1) if logits.shape[1] == 1 else logits
    classes = logits.shape[1]
    target = y.double() if y.is_floating_point() else torch.eye(classes, dtype=torch.float64)[y.long()]
    target = target * (1 - smooth) + smooth / classes
    return close(result, -(target * logits.log_softmax(1)).sum(1))


def adjusted(values: Values, result: Any) -> str | None:
    """The loss of logits to which the log of the frequencies is added."""
    counts = torch.as_tensor(values["counts"], dtype=torch.float64)
    logits = values["logits"].double() + values["tau"] * (counts / counts.sum()).log()
    return cross_entropy({**values, "logits": logits, "label_smoothing": 0.0}, result)


def counts(values: Values, result: Any) -> str | None:
    """How often each class occurs, one after the other."""
    listed = [int(label) for label in values["labels"]]
    wanted = tuple(listed.count(label) for label in range(values["num_classes"] or max(listed) + 1))
    return None if result == wanted else f"{result} is not {wanted}"


def info_nce(values: Values, result: Any) -> str | None:
    """Eq. 6, one example and one negative after the other."""
    z, near, far = (None if values[name] is None else values[name].double() for name in ("z", "near", "far"))
    keep, part, tau = values["keep"], values["taking_part"], values["temperature"]
    total = 0.0
    for i in range(len(z)):
        if part is not None and not part[i]:
            continue
        others = [_cosine(z[i], z[j]) for j in range(len(z)) if j != i]
        if far is not None and (keep is None or keep[i]):
            others.append(_cosine(z[i], far[i]))
        scores = torch.tensor([_cosine(z[i], near[i]), *others], dtype=torch.float64) / tau
        total += float(scores.logsumexp(0) - scores[0])
    return close(result, total / (len(z) if values["reduction"] == "mean" else 1), 1e-3)


def margin(values: Values, result: Any) -> str | None:
    """Eq. 9, one example after the other."""
    unit = values["distance"] == "unit"
    z, near, far = (None if values[name] is None else values[name].double() for name in ("z", "near", "far"))
    z, near, far = (
        each if each is None or not unit else each / each.norm(dim=1, keepdim=True) for each in (z, near, far)
    )
    keep, part = values["keep"], values["taking_part"]
    total = 0.0
    for i in range(len(z)):
        if part is not None and not part[i]:
            continue
        total += float((z[i] - near[i]).square().sum())
        if far is not None and (keep is None or keep[i]):
            total += max(0.0, values["gamma"] - float((z[i] - far[i]).norm())) ** 2
    return close(result, total / (len(z) if values["reduction"] == "mean" else 1), 1e-3)


def _cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def constant(values: Values, result: Any) -> str | None:
    return close(result, values["value"])


def ramp(values: Values, result: Any) -> str | None:
    peak, start, length, step = (values[name] for name in ("peak", "start", "length", "step"))
    wanted = 0.0 if step < start else peak if step >= start + length else peak * (step - start) / length
    return close(result, wanted)


def steps(values: Values, result: Any) -> str | None:
    wanted = values["peak"]
    for milestone in values["milestones"]:
        wanted *= values["factor"] if values["step"] >= milestone else 1
    return close(result, wanted * (min(1, (values["step"] + 1) / values["warmup"]) if values["warmup"] else 1))


def exponential(values: Values, result: Any) -> str | None:
    return close(result, values["initial"] * values["rate"] ** math.floor(values["step"] / values["every"]))


def cosine(values: Values, result: Any) -> str | None:
    peak, total, warmup, step = (values[name] for name in ("peak", "steps", "warmup", "step"))
    if step < warmup:
        return close(result, peak * (step + 1) / warmup)
    return close(result, peak * math.cos(math.pi / 2 * min(1, (step - warmup) / (total - warmup))) ** 2)


def selected(values: Values, result: Any) -> str | None:
    """As many on each side as asked for, none in both, and those of the top at least as useful as the bottom's."""
    low, high = result
    u, valid = values["u"].flatten(1), values["valid"]
    usable = torch.ones_like(u, dtype=torch.bool) if valid is None else valid.flatten(1)
    ranked = not values.get("random")
    for row, (bottom, top) in enumerate(zip(low.flatten(1), high.flatten(1), strict=True)):
        num = int(usable[row].sum())
        k = values["k"] if "k" in values else max(1, math.ceil(values["fraction"] * num - 1e-6))
        k = k if 2 * k <= num else 0
        if (
            int(bottom.sum()) != k
            or int(top.sum()) != k
            or (bottom & top).any()
            or ((bottom | top) & ~usable[row]).any()
        ):
            return f"row {row} has {int(bottom.sum())} and {int(top.sum())} chosen, not {k}"
        if k and ranked and u[row][bottom].max() > u[row][top].min():
            return f"row {row} is not in order"
    return None


def chosen_at_random(values: Values, result: Any) -> str | None:
    return selected({**values, "random": True}, result)


def perturbed(values: Values, result: Any) -> str | None:
    """Untouched elsewhere, bit by bit; moved and finite where it was chosen."""
    x, chosen = values["x"], values["chosen"]
    if result.shape != x.shape or not result.isfinite().all():
        return "it has another shape, or is not finite"
    if chosen is not None and not torch.equal(result[~chosen], x[~chosen]):
        return "features that were not chosen moved"
    inside = result if chosen is None else result[chosen]
    if (
        values["clip"]
        and len(inside.flatten())
        and not (inside.min() >= values["clip"][0] and inside.max() <= values["clip"][1])
    ):
        return "it leaves the clip"
    return None


def removed(values: Values, result: Any) -> str | None:
    """As many tokens fewer as were chosen, in their old order."""
    x, chosen = values["x"], values["chosen"]
    for row in range(len(x)):
        left = x.ids[row][x.mask[row] & ~chosen[row]].tolist()
        if result.ids[row][result.mask[row]].tolist() != left:
            return f"row {row} keeps {result.ids[row][result.mask[row]].tolist()}, not {left}"
    return None


def loss(values: Values, result: Any) -> str | None:
    """A finite scalar with a graph, and logits."""
    if not isinstance(result, poise.Loss) or result.total.shape != () or not result.total.isfinite():
        return f"it is {result}"
    return (
        None if result.total.requires_grad and len(result.logits) == len(values["y"]) else "it has no graph or logits"
    )


def xe(values: Values, result: Any) -> str | None:
    with torch.no_grad():
        logits = values["model"](values["x"]).double().log_softmax(1)
    return loss(values, result) or close(result.total, -logits.gather(1, values["y"].long()[:, None]).mean(), 1e-3)


def pictures(values: Values, result: Any) -> str | None:
    """Of the shape and kind of x, inside [0, 1]."""
    x = values["x"]
    if result.shape != x.shape or result.dtype != x.dtype or not result.isfinite().all():
        return f"it is {result.dtype} {list(result.shape)}, or not finite"
    return None if result.min() >= 0 and result.max() <= 1 else "it leaves [0, 1]"


def corrupted(values: Values, result: Any) -> str | None:
    x = values["images"]
    if isinstance(x, Tensor) and (result.shape != x.shape or result.dtype != x.dtype):
        return f"it is {result.dtype} {list(result.shape)}"
    return None


def classes(number: int) -> Callable[[Values, Any], str | None]:
    """Finite logits [B, number]."""

    def check(values: Values, result: Any) -> str | None:
        batch = len(values["x"])
        return finite(values, result) or (None if result.shape == (batch, number) else f"it is {list(result.shape)}")

    return check


def network(values: Values, result: Any) -> str | None:
    """A module with embed and head that has as many classes as were asked for."""
    classes = result.head.out_features
    return None if classes == values.get("num_classes", classes) else f"it has {classes} classes"


def accuracies(values: Values, result: Any) -> str | None:
    every = [result.clean, *(a for row in result.accuracy.values() for a in row.values())]
    return None if all(0 <= each <= 1 for each in every) and len(every) > 1 else f"accuracies are {every}"


def jacobian(values: Values, result: Any) -> str | None:
    """The norms of the Jacobian's columns, where they are exact."""
    if values["probes"] is not None or values["at"] != "embedding":
        return like("x")(values, result)
    x, model = values["x"], values["model"]
    rows = torch.autograd.functional.jacobian(lambda x: model.embed(x).sum(0), x)  # [E, B, *D]
    return close(result, rows.double().square().sum(0).sqrt(), 1e-3)


def gradient(values: Values, result: Any) -> str | None:
    """| d loss / d x | of each example's own cross-entropy."""
    x = values["x"].detach().clone().requires_grad_()
    logits = values["model"](x)
    total = torch.nn.functional.cross_entropy(logits, values["y"].long(), reduction="sum")
    return close(result, torch.autograd.grad(total, x)[0].abs(), 1e-3)
