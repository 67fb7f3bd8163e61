"""Losses: one number per example.

Any callable (logits [B, L], y) → [B] is a loss. It is per example because utility is (Definition 1); the objective
averages over the batch. CrossEntropy is the paper's, with the minus sign that its text drops.

For hard labels, cross-entropy is computed from the margin, and not from the probability p_y of the label:

    m = log sum_{c != y} exp(f_c) - f_y,   loss = log(1 + e^m),   d loss / d f_y = -(1 - p_y) = -sum_{c != y} p_c

In float32 a p_y of 1 - 1e-8 is 1. The loss and the label's part of the gradient would then be 0, and utility would rank
features by the rest of the gradient. The sum over the other classes does not cancel: both stay exact down to 1e-38.

Where some classes are rare, LogitAdjusted adds the log of the classes' frequencies to the logits during training, so
that the model itself does not learn to prefer the common ones.

Axes: B examples, L classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import log
from numbers import Integral
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from poise.checks import require_number, require_several


class ExampleLoss(Protocol):
    def __call__(self, logits: Tensor, y: Tensor, /) -> Tensor: ...


@dataclass(frozen=True)
class CrossEntropy:
    """- log softmax(logits)[y], per example, in float32 or better; y holds classes [B] or probabilities [B, L].

    A single logit [B, 1] is the log-odds of class 1 against class 0.
    """

    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        require_number("label_smoothing", self.label_smoothing, least=0, most=1)

    def __call__(self, logits: Tensor, y: Tensor, /) -> Tensor:
        _check(logits, y)
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        if logits.shape[1] == 1:
            logits = F.pad(logits, (1, 0))  # class 0 has a logit of 0
        if y.is_floating_point():
            _require_probabilities(y)
            return F.cross_entropy(logits, y.to(logits), reduction="none", label_smoothing=self.label_smoothing)
        classes, inside = _known_classes(y.long(), logits.shape[1])
        if self.label_smoothing:
            losses = F.cross_entropy(logits, classes, reduction="none", label_smoothing=self.label_smoothing)
        else:
            losses = _from_margin(logits, classes[:, None])
        return losses.where(inside, torch.nan)


@dataclass(frozen=True)
class LogitAdjusted:
    """CrossEntropy of logits + tau * log prior, prior_c = counts_c / sum of counts (Menon et al. 2021).

    counts  the training examples of each class, in the order of the logits: numbers, or the result of
            `poise.class_counts`. Frequencies work as well. None may be 0: such a class has no prior.
    tau     0 is CrossEntropy; 1 aims at the mean accuracy of the classes; more favours rare classes further.

    Train with it, and test without: the model's own logits are those of a world in which all classes are as frequent.
    For a single logit [B, 1], counts are those of class 0 and class 1.

    >>> loss = LogitAdjusted([90, 10])
    >>> [round(float(each), 3) for each in loss(torch.zeros(2, 2), torch.tensor([0, 1]))]  # a rare class counts more
    [0.105, 2.303]
    """

    counts: Sequence[float]
    tau: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", _counts(self.counts))
        require_number("tau", self.tau, least=0)

    def __call__(self, logits: Tensor, y: Tensor, /) -> Tensor:
        _check(logits, y)
        if max(logits.shape[1], 2) != len(self.counts):
            raise ValueError(f"counts are those of {len(self.counts)} classes, but the logits are {list(logits.shape)}")
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        if logits.shape[1] == 1:
            logits = F.pad(logits, (1, 0))
        return CrossEntropy()(logits + _shift(self, logits.device, logits.dtype), y)


def _counts(counts: Any) -> tuple[float, ...]:
    """The counts as Python numbers; raise unless they are those of two or more classes."""
    listed = counts.tolist() if hasattr(counts, "tolist") else counts
    require_several("counts", listed)
    numbers = tuple(listed)
    if len(numbers) < 2:
        raise ValueError(f"counts={counts!r} must have a number for each of two classes or more")
    for label, count in enumerate(numbers):
        require_number(f"counts[{label}]", count, least=0)
        if not count:
            raise ValueError(
                f"counts[{label}] is 0, but a class without examples has no prior: counts are the examples of each "
                "class; poise.class_counts(labels) counts them"
            )
    return tuple(int(count) if isinstance(count, Integral) else float(count) for count in numbers)


_shifts: dict[tuple[Any, ...], Tensor] = {}


def _shift(loss: LogitAdjusted, device: torch.device, dtype: torch.dtype) -> Tensor:
    """tau * log prior [L], kept on the device: a copy from the host would be slow, and a CUDA graph cannot hold one."""
    key = (loss, device, dtype)
    if key not in _shifts:
        total, tau = sum(loss.counts), loss.tau
        with torch.inference_mode(False):
            made = torch.tensor([tau * log(count / total) for count in loss.counts], device=device, dtype=dtype)
        if is_functorch_wrapped_tensor(made):  # it ends with the transform
            return made
        _shifts[key] = made
    return _shifts[key]


# torch.compiler.assume_constant_result does no more, but imports the compiler first: a second at every start.
_shift._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _check(logits: Tensor, y: Tensor) -> None:
    """Raise for wrong types and shapes; values are not checked."""
    for name, given in (("logits", logits), ("y", y)):
        if not isinstance(given, Tensor):
            raise TypeError(f"{name} must be a tensor, not a {type(given).__name__}")
    if logits.ndim != 2 or not logits.is_floating_point() or not logits.shape[1]:
        raise ValueError(f"logits must be floats [B, L], got {logits.dtype} {list(logits.shape)}")
    batch, classes = len(logits), max(logits.shape[1], 2)
    if tuple(y.shape) != ((batch, classes) if y.is_floating_point() else (batch,)) or y.is_complex():
        raise ValueError(
            f"y must be classes, integers [{batch}], or probabilities, floats [{batch}, {classes}], "
            f"got {y.dtype} {list(y.shape)}"
        )


def _from_margin(logits: Tensor, y: Tensor) -> Tensor:
    """log(1 + e^m) [B] of logits [B, L] and classes [B, 1]."""
    if traced(logits):  # torch.compile fuses this formula; vmap has rules for its parts
        own, others = logits.gather(1, y), logits.scatter(1, y, -torch.inf)
        alone = others.isneginf().all(1, keepdim=True)  # the loss is 0, and the gradient of -inf - -inf would be NaN
        margin = others.masked_fill(alone, 0.0).logsumexp(1, keepdim=True) - own
        found = F.softplus(margin, threshold=80).masked_fill(alone, 0.0)
        return found.masked_fill(own.isposinf(), torch.nan).squeeze(1)  # an overflow gives NaN, as without the margin
    losses: Tensor = _FromMargin.apply(logits, y)[0]  # type: ignore[no-untyped-call]
    return losses


class _FromMargin(torch.autograd.Function):
    """logits [B, L], y [B, 1] → losses [B], and their slopes [B, L] for the backward pass."""

    @staticmethod
    def forward(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if logits.is_cuda and _triton() and logits.dtype in (torch.float32, torch.float64):
            from poise.margin_kernel import losses_and_slopes

            return losses_and_slopes(logits, y)
        logp = logits.log_softmax(1)
        slopes = logp.exp().scatter_(1, y, 0.0)
        wrong = slopes.sum(1, keepdim=True)  # 1 - p_y
        margin = wrong.log() - logp.gather(1, y)
        # torch's default threshold of 20 is too low for float64: log(1 + e^20) is 20 + 2e-9.
        return F.softplus(margin, threshold=80).squeeze(1), slopes.scatter_(1, y, -wrong)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, output[1])
        ctx.save_for_forward(output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        if grads[0] is None:
            return None, None
        logits, y, slopes = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient will be differentiated again
            slopes = _slopes(logits, y)
        return grads[0][:, None] * slopes, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> tuple[Tensor, None]:
        (slopes,) = ctx.saved_tensors
        return (slopes * tangents[0]).sum(1), None


@cache
def _triton() -> bool:
    return find_spec("triton") is not None


def _slopes(logits: Tensor, y: Tensor) -> Tensor:
    """d loss / d logits [B, L], from operations that can be differentiated again."""
    others = logits.softmax(1).scatter(1, y, 0.0)
    return others.scatter(1, y, -others.sum(1, keepdim=True))


def _require_probabilities(y: Tensor) -> None:
    """ValueError for negative probabilities and NaN; on the CPU only, where reading values is cheap."""
    if y.device.type == "cpu" and not traced(y) and not (y >= 0).all():
        raise ValueError("y has a probability that is negative or NaN: probabilities must be 0 or more")


def _known_classes(y: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Classes to look up, and a mask of those that are valid in y.

    On the CPU, raise for an unknown class. On other devices, where reading a value would stall the device and an
    invalid index would destroy its context, the example's loss becomes NaN.
    """
    classes = y.clamp(0, num_classes - 1)
    inside = classes == y
    if y.device.type == "cpu" and not traced(y) and not inside.all():
        single = " (a single output counts as two)" if num_classes == 2 else ""
        raise ValueError(f"label {y[~inside][0].item()} is out of range: the model has {num_classes} classes{single}")
    return classes, inside


def traced(tensor: Tensor) -> bool:
    """Whether the code runs inside torch.compile or a transform of torch.func, where values cannot be read."""
    return torch.compiler.is_compiling() or is_functorch_wrapped_tensor(tensor)
