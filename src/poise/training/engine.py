"""The engine: runs training steps eagerly on any device, or on a GPU as one CUDA graph, optionally compiled.

An epoch is a pure function of the weights, the optimizer's state and (seed, epoch): generators that are reseeded for
every epoch draw the order of the rows, the augmentation and the objective's noise. Weights and optimizer are therefore
enough to continue a run, and a branch of a run draws the same numbers as the whole run. A long epoch of a streamed set
is divided into stretches that are reseeded in the same way: a run can continue from the beginning of each.

A graph contains the data's augmentation, the objective, the optimizer and the average of the weights. Values that
change from step to step (rows, learning rate, weight) are in tables on the device. The graph reads them at a counter
that it advances itself, so that a step costs the host one call. There is one graph for the steps in which the weight is
0 and one for the others, for every width of a batch; they share their memory, since only weights pass from one to the
next.

TrainStep is a model and its objective as one module, for DistributedDataParallel. An objective runs the model several
times and takes a gradient in between. Inside one forward of a wrapped TrainStep, all of that is one pass to DDP:

    step = DistributedDataParallel(TrainStep(model, objective))
    step(x, y, number).total.backward()

What is compiled for a GPU: a model's embed by torch, its narrow convolutions by kernels of our own. On any device the
backward pass of a utility computes the gradient of x alone, and that of a step those of the weights alone.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from poise.checks import require_part
from poise.classifier import retainable
from poise.data.loading.resident import Loader, epoch_seed
from poise.distributed import as_first, mean_over_processes, rank, world_size
from poise.errors import TrainingError
from poise.models.replicas import Replicas
from poise.objectives.objective import Loss, Objective, switched_off, weight_of, with_weight
from poise.schedules import as_schedule
from poise.tokens import Input
from poise.training.average import Average
from poise.training.kernels.backward import inductor
from poise.training.kernels.narrow import narrow
from poise.training.plan import Plan


def compiles(model: nn.Module, plan: Plan, device: torch.device) -> bool:
    """Whether the plan has a model compiled on a device.

    An embed that is a module has names in checkpoints to keep. That of a fleet would be compiled in pieces.
    """
    own = hasattr(model, "embed") and "embed" not in model._modules
    return plan.compile and device.type == "cuda" and own and not isinstance(model, Replicas)


@contextmanager
def compiled(model: nn.Module) -> Iterator[None]:
    """The model's embed compiled inside; its own comes back."""
    own = vars(model).get("embed")
    with narrow(model), _many_passes():
        # Every pass has one batch size: shapes left open, after the second size, would cost speed.
        model.embed = torch.compile(model.embed, dynamic=False, backend=inductor)  # type: ignore[assignment, arg-type]
        try:
            yield
        finally:
            del model.embed
            if own is not None:
                model.embed = own


@contextmanager
def uncompiled(model: nn.Module) -> Iterator[None]:
    """The model's own embed: to compile it for other modes and sizes would take longer than it saves."""
    embed = model.__dict__.pop("embed", None)
    try:
        yield
    finally:
        if embed is not None:
            model.__dict__["embed"] = embed


def _many_passes() -> AbstractContextManager[None]:
    """A process may meet more kinds of pass than the eight that torch keeps: the ninth would silently run eager."""
    import torch._dynamo

    patched: AbstractContextManager[None] = torch._dynamo.config.patch(recompile_limit=64)
    return patched


_MOST_PARTS = 4


class Tables:
    """The inputs and results of every step, on the device; a counter selects the current step."""

    def __init__(self, steps: int, batch: int, replicas: int, device: torch.device) -> None:
        self.rows = torch.zeros(steps, batch, dtype=torch.int64, device=device)
        self.rates, self.weights = torch.zeros(2, steps, device=device).unbind()
        self.log = torch.zeros(steps, _MOST_PARTS, replicas, device=device)
        self.counter = torch.zeros(1, dtype=torch.int64, device=device)

    def fill(self, rows: Tensor, rates: list[float], weights: list[float]) -> None:
        self.rows.copy_(rows)
        self.rates.copy_(torch.tensor(rates))
        self.weights.copy_(torch.tensor(weights))
        self.counter.zero_()

    def go_on(self, done: Tensor) -> None:
        """Continue with the step after those whose loss parts are given."""
        self.log[: len(done)] = done.to(self.log.device)
        self.counter.fill_(len(done))

    def now(self, table: Tensor) -> Tensor:
        """The row of the current step."""
        return table.index_select(0, self.counter)[0]

    def note(self, parts: Iterable[Tensor | float]) -> None:
        """Store the parts of a loss and advance to the next step."""
        replicas = self.log.shape[2]
        values = [torch.as_tensor(part, device=self.log.device).float().expand(replicas) for part in parts]
        values += [self.log.new_zeros(replicas)] * (_MOST_PARTS - len(values))
        self.log.index_copy_(0, self.counter, torch.stack(values)[None])
        self.counter += 1

    def snapshot(self) -> Callable[[], None]:
        counter = self.counter.clone()

        def undo() -> None:
            self.counter.copy_(counter)

        return undo


class TrainStep(nn.Module):
    """objective(model, ...) as the forward of one module."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model={model!r} must be a torch.nn.Module, not a {type(model).__name__}")
        require_part("objective", objective)
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, x: Input, y: Tensor, step: int | None = None, **options: Any) -> Loss:
        """The objective's loss; `options` are its generator, scaler and given."""
        return self.objective(self.model, x, y, step, **options)  # type: ignore[arg-type]


def over_processes(step: TrainStep) -> nn.Module:
    """Wrap a step in DDP, with buckets that are the same after every start.

    DDP lays out its buckets again after its first backward pass, in the order in which gradients arrive. With more than
    two processes, the last bit of a sum depends on that layout, so a continued run would differ from an uninterrupted
    one. This function therefore runs the first pass before training: it touches every weight, in the model's order, and
    changes none.
    """

    def touch() -> Any:
        return sum(each.sum() for each in step.parameters() if each.requires_grad)

    wrapped = nn.parallel.DistributedDataParallel(step)
    step.forward = touch  # type: ignore[method-assign, assignment]
    wrapped().backward()
    del step.forward
    step.zero_grad(set_to_none=True)
    return wrapped


_WARM_UP = 3


@dataclass(frozen=True, eq=False)
class LiveWeight:
    """A schedule that returns a tensor: the weight of the graph's current step."""

    tables: Tables

    def __call__(self, step: int) -> Any:
        return self.tables.now(self.tables.weights)


class Engine:
    """Runs the epochs of one model; see the module's docstring."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        data: Loader,
        optimizer: torch.optim.Optimizer,
        plan: Plan,
        average: Average | None = None,
    ) -> None:
        self.device = data.labels.device
        self._model, self._data, self._optimizer, self._plan = model, data, optimizer, plan
        self._objective, self._schedule = objective, as_schedule(weight_of(objective))
        self._captures = self.device.type == "cuda" and world_size() == 1
        self._step = self._wrapped(TrainStep(model, objective))
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]
        self._average = average
        self._augmenting = torch.Generator(self.device)
        self._tables = Tables(len(data), self._local_size(), data.replicas, self.device)
        self._replays: dict[tuple[bool, int], torch.cuda.CUDAGraph] = {}
        self._memory = torch.cuda.graph_pool_handle() if self._captures else None
        # One stream for all graphs: the matrix library keeps memory per stream, which torch may free with any graph.
        self._side: Any = torch.cuda.Stream(self.device) if self._captures else None  # type: ignore[no-untyped-call]
        self._names: dict[bool, list[str]] = {}

    def epoch(
        self,
        number: int,
        progress: Callable[[int], None] = lambda batch: None,
        pause: Callable[[int], None] = lambda batch: None,
        done: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Train for an epoch; returns the parts of the loss at each step, {name: [steps]}, on the CPU.

        For a fleet they are [steps, R]. `pause` is called before every stretch except the first; `done` is the result
        of `so_far` at that point, to continue from there.
        """
        self._model.train()
        steps = range(number * len(self._data), (number + 1) * len(self._data))
        weights = [self._schedule(step) for step in steps]
        start = 0 if done is None else len(done)
        rows, widths = self._begin(number, steps, weights, done)
        for batch, _ in zip(range(start, len(steps)), self._data.feed(number, rows, start), strict=False):
            if batch % self._data.stretch == 0 and batch > 0:
                as_first(
                    self._model.buffers()
                )  # each process's batch norms saw a part of the data; keep the first one's
                self._seed(number, batch // self._data.stretch)
                if batch > start:
                    pause(batch)
            self._run(switched_off(weights[batch]), widths[batch], steps[batch])
            progress(batch)
        as_first(self._model.buffers())
        names = max((self._names[switched_off(weight)] for weight in weights[start:]), key=len)
        return self._by_name(mean_over_processes(self._tables.log).to("cpu", copy=True), names)

    def parts(self, log: Tensor) -> dict[str, Tensor]:
        """The result of `so_far`, by name."""
        return self._by_name(log, max(self._names.values(), key=len))

    def so_far(self, batch: int) -> Tensor:
        """The parts of the loss before a batch [batch, parts, R], on the CPU; every process must call this."""
        return mean_over_processes(self._tables.log[:batch]).to("cpu", copy=True)

    def _by_name(self, log: Tensor, names: list[str]) -> dict[str, Tensor]:
        log = log[:, :, 0] if self._data.replicas == 1 else log
        return {name: log[:, column] for column, name in enumerate(names)}

    @property
    def description(self) -> str:
        """A description for the record."""
        compiled = ["compiled"] if compiles(self._model, self._plan, self.device) else []
        captured = ["CUDA graph"] if self._captures else ["eager"]
        together = [f"{world_size()} processes", *(["synchronised batch norm"] if self._plan.sync_batch_norm else [])]
        processes = together if world_size() > 1 else []
        replicas = [f"a fleet of {self._data.replicas}"] if self._data.replicas > 1 else []
        return ", ".join([*compiled, *captured, self._plan.precision, *processes, *replicas])

    def _wrapped(self, step: TrainStep) -> nn.Module:
        return over_processes(step) if world_size() > 1 else step

    def _local_size(self) -> int:
        size, rest = divmod(self._data.batch_size, world_size())
        if rest:
            raise TrainingError(
                f"batch_size={self._data.batch_size} must be a multiple of the {world_size()} processes"
            )
        return size

    def _begin(
        self, number: int, steps: range, weights: list[float], done: Tensor | None
    ) -> tuple[Tensor, tuple[int, ...]]:
        """Draw and schedule everything for an epoch, each process with its part of every batch; returns rows and
        widths.
        """
        batches = self._data.batches(number)
        rows = batches.rows.view(len(steps), world_size(), -1)[:, rank()]
        self._tables.fill(rows, [self._plan.learning_rate(step) for step in steps], weights)
        if done is not None:
            self._tables.go_on(done)
        self._seed(number, 0)
        return rows, batches.widths

    def _seed(self, number: int, stretch: int) -> None:
        seed = epoch_seed(self._data.seed, number, rank(), stretch)
        self._augmenting.manual_seed(seed)
        _default_generator(self.device).manual_seed(seed + 1)

    def _run(self, quiet: bool, width: int, step: int) -> None:
        if not self._captures:
            self._plainly(quiet, width, step)
            return
        if (quiet, width) not in self._replays:
            self._replays[quiet, width] = self._captured(quiet, width, step)
        self._replays[quiet, width].replay()

    def _plainly(self, quiet: bool, width: int, step: int) -> None:
        """Run one step eagerly, at the tables' counter."""
        tables = self._tables
        x, y = self._data.batch(tables.now(tables.rows), self._augmenting, width)
        for group in self._optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].copy_(tables.now(tables.rates))
            else:
                group["lr"] = self._plan.learning_rate(step)
        self._optimizer.zero_grad(set_to_none=True)
        with retainable():
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self._plan.precision == "bfloat16"):
                loss = self._step(x, y, step)
            loss.total.backward(inputs=self._weights)  # a utility has taken the gradient of x, the other leaf
        self._optimizer.step()
        if self._average is not None:
            self._average.update()
        self._names[quiet] = list(loss.parts)
        tables.note(loss.parts.values())

    def _captured(self, quiet: bool, width: int, step: int) -> torch.cuda.CUDAGraph:
        """Capture a graph of one step, after some warm-up steps on the same stream."""
        live = self._objective if quiet else with_weight(self._objective, LiveWeight(self._tables))
        self._step, graph, side = TrainStep(self._model, live), torch.cuda.CUDAGraph(), self._side
        with self._undone() as again:
            side.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(side):
                for _ in range(_WARM_UP):
                    self._plainly(quiet, width, step)
                    again()  # a width may first occur in the last step of an epoch, where the tables end
            torch.cuda.current_stream(self.device).wait_stream(side)
            graph.register_generator_state(self._augmenting)
            with _without_garbage_collection(), torch.cuda.graph(graph, pool=self._memory, stream=side):
                self._plainly(quiet, width, step)
        return graph

    @contextmanager
    def _undone(self) -> Iterator[Callable[[], None]]:
        """Undo the steps inside: restore weights, optimizer, average, counter and random states, in place.

        Yields a function that restores the counter alone.
        """
        again = self._tables.snapshot()
        undo = [_snapshot(self._model, self._optimizer), again]
        undo += [] if self._average is None else [self._average.snapshot()]
        draws = [(each, each.get_state()) for each in (self._augmenting, _default_generator(self.device))]
        yield again
        for bring_back in undo:
            bring_back()
        for generator, state in draws:
            generator.set_state(state)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection inside: freeing an old graph during a capture would invalidate the capture."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _default_generator(device: torch.device) -> torch.Generator:
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return torch.default_generator


def _snapshot(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """A function that restores weights, statistics and the optimizer's state, in place."""
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
