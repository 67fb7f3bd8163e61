"""The interface of the objectives, XE, which is the simplest of them, and how the others embed perturbed views.

    objective(model, x, y, step) → Loss,   then   loss.total.backward()

Axes: B examples, L classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, Protocol, TypeAlias, get_args
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointError

from poise.checks import require_choice, require_number, require_part, require_whole
from poise.classifier import (
    Classifier,
    Forward,
    alike,
    evaluating,
    gradient_of,
    may_look,
    restoring_buffers,
    run,
    untracked,
    without_side_effects,
)
from poise.features.perturbation import Remove
from poise.losses import CrossEntropy, ExampleLoss
from poise.schedules import Schedule, as_schedule, moves
from poise.tokens import Input, concatenate

Statistics: TypeAlias = Literal["running", "batch", "moving"]
STATISTICS: tuple[str, ...] = get_args(Statistics)


@dataclass(frozen=True, eq=False)
class Loss:
    """total is the loss to minimise; parts are its terms and logits [B, L] are those of x, both without graph."""

    total: Tensor
    parts: dict[str, Tensor | float]
    logits: Tensor


def plain(forward: Forward) -> Loss:
    """The mean of the examples' losses."""
    xe = forward.losses.mean()
    return Loss(xe, {"xe": xe.detach()}, forward.logits.detach())


def weighted(forward: Forward, weight: float | Tensor, name: str, term: Tensor) -> Loss:
    """The mean of the examples' losses, plus weight times one more term."""
    loss = plain(forward)
    return Loss(loss.total + weight * term, {**loss.parts, name: term.detach(), "weight": weight}, loss.logits)


def check_settings(weight: Schedule | float, statistics: Statistics, loss: ExampleLoss) -> None:
    """Raise for invalid settings, whatever the step."""
    require_choice("statistics", statistics, *STATISTICS)
    require_part("loss", loss)
    if not callable(weight):
        require_number("weight", weight, least=0)


def require_everywhere(perturb: Any) -> None:
    """Raise for a perturbation that cannot perturb all features."""
    if isinstance(perturb, Remove):
        raise TypeError(
            f"perturb={perturb!r} removes chosen tokens, but this objective chooses none: use Gaussian(sigma)"
        )


def check_step(step: int | None) -> None:
    if step is not None and not torch.compiler.is_compiling():
        require_whole("step", step, least=0)


def weight_at(weight: Schedule | float, step: int | None) -> float | Tensor:
    """The weight at an optimizer step; a constant weight needs no step."""
    check_step(step)
    schedule = as_schedule(weight)
    if step is None and moves(schedule):
        raise ValueError("step=None is not allowed when weight is a schedule: call objective(model, x, y, step)")
    now: float | Tensor = schedule(0 if step is None else step)
    if not isinstance(now, Tensor):
        require_number(f"at step={step} the weight", now, least=0)
    return now


def switched_off(weight: float | Tensor) -> bool:
    """Whether the weight is 0. A tensor, which a captured step reads later, is never off."""
    return not isinstance(weight, Tensor) and weight == 0


def weight_of(objective: Any) -> Schedule | float:
    """The weight of an objective, or of the inner one if it wraps another; 1 for XE."""
    inner = getattr(objective, "objective", None)
    weight: Schedule | float = getattr(objective, "weight", 1.0) if inner is None else weight_of(inner)
    return weight


def with_weight(objective: Any, weight: Schedule) -> Any:
    """The objective with another weight; an objective without a weight is returned as is."""
    inner = getattr(objective, "objective", None)
    if inner is not None:
        return replace(objective, objective=with_weight(inner, weight))
    return replace(objective, weight=weight) if hasattr(objective, "weight") else objective


class Objective(Protocol):
    """A training objective: minimise objective(model, x, y, step).total."""

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        step: int | None = None,
        *,
        generator: torch.Generator | None = None,
        scaler: Any = None,
        given: Tensor | None = None,
    ) -> Loss:
        """One training step's loss.

        step       the optimizer step, which all schedules use; None if nothing is scheduled.
        generator  draws all noise and breaks ties, on the device of x; None: torch's global generator.
        scaler     the torch.amp.GradScaler of a float16 run.
        given      a utility [B, *D] that the user passes, for GivenUtility.
        """


@dataclass(frozen=True)
class XE:
    """total = mean of the examples' losses: the classification loss alone, the paper's first baseline."""

    loss: ExampleLoss = CrossEntropy()

    def __post_init__(self) -> None:
        require_part("loss", self.loss)

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        step: int | None = None,
        *,
        generator: torch.Generator | None = None,
        scaler: Any = None,
        given: Tensor | None = None,
    ) -> Loss:
        check_step(step)
        return plain(run(model, x, y, self.loss))


def embed_view(model: Classifier, view: Input, statistics: Statistics) -> Tensor:
    """The embedding of a perturbed view. `statistics` selects the batch-norm statistics:

    "running"  use the running statistics, as at test time, and do not update them (eval mode: no dropout either);
    "batch"    use those of the view's own batch, and do not update the running ones (train mode: dropout stays on);
    "moving"   use those of the view's own batch, and update the running ones, as a plain training loop does.
    """
    if statistics == "moving":
        return model.embed(view)
    _check_recomputing(model, view, statistics)
    with _MODES[statistics](model):
        return model.embed(view)


def embed_pair(model: Classifier, near: Input, far: Input, statistics: Statistics) -> tuple[Tensor, Tensor]:
    """The embeddings of two views: in one pass if the views do not share batch statistics, else in one pass each."""
    if statistics != "running":
        return embed_view(model, near, statistics), embed_view(model, far, statistics)
    z_near, z_far = embed_view(model, concatenate(near, far), statistics).chunk(2)
    return z_near, z_far


_MODES: dict[str, Callable[[Any], AbstractContextManager[None]]] = {"running": evaluating, "batch": untracked}
_INSTEAD = {
    "running": 'checkpoint only while self.training is True, or use statistics="batch"',
    "batch": 'leave batch norm out of them, or use statistics="moving"',
}
_recomputed: dict[str, WeakSet[nn.Module]] = {statistics: WeakSet() for statistics in _MODES}


def _check_recomputing(model: Any, view: Input, statistics: Statistics) -> None:
    """Raise, once per model, if a view's gradients depend on the mode in which the backward pass runs.

    Layers under activation checkpointing run again in the backward pass, after the mode of the view has ended. If they
    include dropout or batch norm, the gradients would be those of another view.
    """
    model, seen = model if isinstance(model, nn.Module) else getattr(model, "model", None), _recomputed[statistics]
    if not isinstance(model, nn.Module) or model in seen or not may_look() or not _has_modes(model):
        return
    try:
        pairs = _gradients_by_mode(model, view, statistics)
        same = all(alike(outside, inside, torch.bfloat16) for inside, outside in pairs)  # autocast may be on
    except CheckpointError:  # torch itself detects that other layers ran
        same = False
    if not same:
        raise ValueError(
            f'statistics="{statistics}" gives wrong gradients here: checkpointed layers run again in the backward '
            f"pass, in another mode: {_INSTEAD[statistics]}"
        )
    seen.add(model)


def _has_modes(model: nn.Module) -> bool:
    """Whether some layer behaves differently in train mode and in eval mode."""
    return any(module.training and _reads_mode(type(module)) for module in model.modules())  # type: ignore[arg-type]


@cache
def _reads_mode(kind: Any) -> bool:
    """Whether code of this class, except nn.Module's own, mentions `training`."""
    own = [vars(each) for each in kind.__mro__ if each not in (nn.Module, object)]
    code = [getattr(value, "__code__", None) for held in own for value in held.values()]
    return any(each is not None and "training" in each.co_names for each in code)


def _gradients_by_mode(model: Any, view: Input, statistics: Statistics) -> Iterator[tuple[Tensor, Tensor]]:
    """Each weight's gradients for two examples of a view: a backward pass in the view's mode, and one outside it."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    with without_side_effects(model, view, _MODES[statistics]), restoring_buffers(model), torch.enable_grad():
        try:
            z = model.embed(view[:2]).float().square().sum()
        except Exception:  # two examples are too few for some models; the real pass will raise the error again
            return
        if not z.requires_grad:
            return
        inside = gradient_of(z, weights, retain_graph=True)
    with without_side_effects(model, view, nullcontext), restoring_buffers(model):
        outside = gradient_of(z, weights)
    for first, second in zip(inside, outside, strict=True):
        if first is not None and second is not None:
            yield first, second
