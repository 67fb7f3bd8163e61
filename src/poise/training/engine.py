"""How a training step runs: plainly anywhere, and on a GPU as one CUDA graph, compiled if the plan says so.

A step is a pure function of the weights, the optimizer's state and (seed, epoch, batch): the rows of the batch, its
augmentation and the objective's noise are drawn from generators that are seeded anew for every step. So nothing but
weights and optimizer needs to be kept to go on, and a branch of a run sees what the whole run would have seen.

A graph holds the data's augmentation, the objective and the optimizer; the rows, the learning rate and the objective's
weight are tensors that change between replays. There is one graph for the steps in which the weight is 0 and one for
the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from poise.classifier import retainable
from poise.data.loader import DeviceLoader, batch_seed
from poise.distributed import rank, world_size
from poise.objectives.objective import Objective, switched_off
from poise.schedules import as_schedule
from poise.training.plan import Plan
from poise.training.step import TrainStep

_WARM_UP, _MOST_PARTS = 3, 4


@dataclass(frozen=True, eq=False)
class LiveWeight:
    """A schedule that answers with a tensor, filled by the engine before every step."""

    value: Tensor

    def __call__(self, step: int) -> Any:
        return self.value


class Engine:
    """Runs the epochs of one model; see the module's text."""

    def __init__(
        self, model: nn.Module, objective: Objective, data: DeviceLoader, optimizer: torch.optim.Optimizer, plan: Plan
    ) -> None:
        self.device = data.images.device
        self._model, self._data, self._optimizer, self._plan = model, data, optimizer, plan
        self._captures = self.device.type == "cuda" and world_size() == 1
        self._schedule = as_schedule(getattr(objective, "weight", 1.0))
        self._weight = torch.zeros((), device=self.device)
        self._objective = objective
        self._augmenting = torch.Generator(self.device)
        self._rows = torch.zeros(self._local_size(), dtype=torch.int64, device=self.device)
        self._replays: dict[bool, Callable[[], Tensor]] = {}
        self._names: dict[bool, list[str]] = {}
        self._step = self._wrapped(TrainStep(model, objective))

    def epoch(self, number: int, progress: Callable[[int], None] = lambda batch: None) -> dict[str, Tensor]:
        """Train for an epoch; the parts of the loss at each step, {name: [steps]}, on the CPU."""
        self._model.train()
        order, steps = self._data.order(number), len(self._data)
        log = torch.zeros(steps, _MOST_PARTS, device=self.device)
        kinds = []
        for batch in range(steps):
            step = number * steps + batch
            weight = self._schedule(step)
            kinds.append(switched_off(weight))
            self._prepare(order, number, batch, step, weight)
            parts = self._run(kinds[-1], step)
            log[batch, : len(parts)] = parts
            progress(batch)
        return self._named(kinds, log.cpu())

    @property
    def description(self) -> str:
        """In words, for the record."""
        compiled = ["compiled"] if self._plan.compile and self.device.type == "cuda" else []
        captured = ["CUDA graph"] if self._captures else ["eager"]
        processes = [f"{world_size()} processes"] if world_size() > 1 else []
        return ", ".join([*compiled, *captured, self._plan.precision, *processes])

    def _wrapped(self, step: nn.Module) -> nn.Module:
        return nn.parallel.DistributedDataParallel(step) if world_size() > 1 else step

    def _local_size(self) -> int:
        size, rest = divmod(self._data.batch_size, world_size())
        if rest:
            raise ValueError(f"batch_size={self._data.batch_size} must be a multiple of the {world_size()} processes")
        return size

    def _prepare(self, order: Tensor, number: int, batch: int, step: int, weight: float) -> None:
        """What changes from step to step."""
        first = batch * self._data.batch_size + rank() * len(self._rows)
        self._rows.copy_(order[first : first + len(self._rows)])
        seed = batch_seed(self._data.seed, number, batch) ^ rank()
        self._augmenting.manual_seed(seed)
        _default_generator(self.device).manual_seed(seed ^ 0x5DEECE66D)
        self._weight.fill_(weight)
        for group in self._optimizer.param_groups:
            rate = self._plan.learning_rate(step)
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _run(self, quiet: bool, step: int) -> Tensor:
        if not self._captures:
            return self._plainly(quiet, step)
        if quiet not in self._replays:
            self._replays[quiet] = self._captured(quiet, step)
        return self._replays[quiet]()

    def _plainly(self, quiet: bool, step: int) -> Tensor:
        """One step; the parts of its loss [parts]."""
        x, y = self._data.batch(self._rows, self._augmenting)
        self._optimizer.zero_grad(set_to_none=True)
        with retainable():
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self._plan.precision == "bfloat16"):
                loss = self._step(x, y, step)
            loss.total.backward()
        self._optimizer.step()
        self._names[quiet] = list(loss.parts)
        return torch.stack([torch.as_tensor(part, device=self.device).float() for part in loss.parts.values()])

    def _captured(self, quiet: bool, step: int) -> Callable[[], Tensor]:
        """A graph of one step. The steps that warm up are undone: weights and optimizer come back."""
        live: Any = self._objective
        if hasattr(live, "weight") and not quiet:
            live = replace(live, weight=LiveWeight(self._weight))
        self._step = TrainStep(self._model, live)
        undo = _snapshot(self._model, self._optimizer)
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                self._plainly(quiet, step)
        torch.cuda.current_stream(self.device).wait_stream(side)
        undo()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._augmenting)
        with torch.cuda.graph(graph):
            parts = self._plainly(quiet, step)

        def replay() -> Tensor:
            graph.replay()
            return parts

        return replay

    def _named(self, kinds: list[bool], log: Tensor) -> dict[str, Tensor]:
        """{part: [steps]}; a part that a step does not have is 0 there."""
        names = max((self._names[kind] for kind in set(kinds)), key=len)
        return {name: log[:, column] for column, name in enumerate(names)}


def _default_generator(device: torch.device) -> torch.Generator:
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return torch.default_generator


def _snapshot(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """A function that brings weights, statistics and the optimizer's state back, in place."""
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    states = {
        parameter: {name: value.clone() for name, value in state.items() if isinstance(value, Tensor)}
        for parameter, state in optimizer.state.items()
    }

    def undo() -> None:
        with torch.no_grad():
            for name, value in model.state_dict().items():
                value.copy_(weights[name])
            for parameter, state in optimizer.state.items():
                for name, value in state.items():
                    if isinstance(value, Tensor):
                        value.copy_(states.get(parameter, {}).get(name, torch.zeros_like(value)))

    return undo
