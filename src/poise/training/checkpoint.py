"""Who keeps the checkpoints of a run: after epochs, and between the stretches of long ones.

Checkpoints: tensors as safetensors, everything else as JSON beside them; whole or not there, and never unpickled.

    checkpoint-0012.safetensors    weights, their average, statistics and the optimizer's state after epoch 12
    checkpoint-0012.json           where the run stands, the digest of the tensors and a checksum of all this
    checkpoint-0013-000400.*       the same after 400 batches of epoch 13, where an epoch is long

The JSON is written last: a checkpoint without it does not count. The newest two are kept; one that is damaged is named,
and the one before it is used.

The device memory that a training takes.
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from safetensors.torch import save as serialized
from torch import Tensor, nn

from poise.data.loading.resident import Loader
from poise.distributed import rank, share, union, world_size
from poise.errors import NotFinite, TrainingError, out_of_time
from poise.io.files import new_file, regular, sweep
from poise.io.json_files import is_proved, with_checksum
from poise.training.average import Average
from poise.training.engine import Engine

_KEPT = 2


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Tensors by name, and what the run had come to."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def save(
    folder: Path,
    epoch: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    facts: dict[str, Any],
    average: Average | None = None,
    batch: int = 0,
) -> None:
    """Write the checkpoint of an epoch, or of a batch of the next one, and forget old ones; one without an optimizer is
    to use, not to go on from."""
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)  # of what a killed run left half written
    path = folder / (
        f"checkpoint-{epoch + 1:04d}-{batch:06d}.safetensors" if batch else f"checkpoint-{epoch:04d}.safetensors"
    )
    content = serialized(_tensors(model, optimizer, average))
    meta = json.dumps(with_checksum({**facts, "epoch": epoch, "sha256": sha256(content).hexdigest(), "version": 2}))
    _write(path, content)
    _write(path.with_suffix(".json"), meta.encode())
    here = _all(folder)
    place = here.index(path.with_suffix(".json")) + 1  # a newer one was damaged, or this would have gone on from it
    for old in [*here[: max(place - _KEPT, 0)], *here[place:]]:
        old.unlink(missing_ok=True)
        old.with_suffix(".safetensors").unlink(missing_ok=True)


def has_checkpoint(folder: Path) -> bool:
    """Whether there is a whole one to go on from."""
    return newest(folder, lambda sentence: None) is not None


def last_name(folder: Path) -> str | None:
    """What the last checkpoint of a folder is called."""
    return next((path.stem for path in reversed(_all(folder))), None)


def newest(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """The last whole checkpoint of a folder; damaged ones are named to `warn`."""
    paths = _all(folder)
    for path in reversed(paths):
        try:
            return read(path)
        except TrainingError as error:
            warn(f"{error}; {'there is none before it' if path == paths[0] else 'the one before it is used'}")
    return None


def read(path: Path) -> Checkpoint:
    """The checkpoint whose JSON file this is."""
    tensors = path.with_suffix(".safetensors")
    try:
        facts = json.loads(regular(path).read_text())
        if not isinstance(facts, dict) or not is_proved(facts):
            raise ValueError("its content is not that of its checksum")
        found = load_file(tensors) if facts.get("sha256") == _digest(tensors) else None
    except Exception as error:  # whatever a damaged file makes a reader raise
        why = str(error) if type(error) is ValueError else type(error).__name__
        raise TrainingError(f"{path} is damaged ({why})") from None
    if found is None:
        raise TrainingError(f"{path} is damaged (the tensors are not those it was written with)")
    return Checkpoint(found, facts)


def restore(
    checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer, average: Average | None = None
) -> None:
    """Put weights, their average and the optimizer's state back."""
    try:
        model.load_state_dict(weights_of(checkpoint))
    except RuntimeError as error:
        raise TrainingError(f"the checkpoint is of another network: {str(error).splitlines()[-1].strip()}") from None
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in checkpoint.tensors.items():
        if name.startswith("optimizer/"):
            _, number, key = name.split("/")
            states.setdefault(int(number), {})[key] = tensor.clone()  # an optimizer keeps what it is given
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            if value.numel() != 1 and value.shape != parameter.shape:
                raise TrainingError("the checkpoint is of another optimizer: its state does not fit the weights")
            if value.shape == parameter.shape:  # a fused step wants it laid out in memory as the weights are
                state[key] = torch.empty_like(parameter, dtype=value.dtype, device=value.device).copy_(value)
    if average is not None:
        held = _under("average/", checkpoint)
        if not held:
            raise TrainingError("the checkpoint has no average of the weights: remove its folder to train it again")
        average.load(held)


def weights_of(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The model's own, by their names in it."""
    return _under("model/", checkpoint)


def final_weights_of(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Those that a run is tested with: the average of the model's weights, where one is kept."""
    return {**weights_of(checkpoint), **_under("average/", checkpoint)}


def _under(prefix: str, checkpoint: Checkpoint) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in checkpoint.tensors.items() if name.startswith(prefix)}


def _tensors(model: nn.Module, optimizer: torch.optim.Optimizer | None, average: Average | None) -> dict[str, Tensor]:
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    tensors |= {} if average is None else {f"average/{name}": value for name, value in average.tensors.items()}
    states = {} if optimizer is None else optimizer.state_dict()["state"]
    for number, state in states.items():
        tensors |= {f"optimizer/{number}/{name}": value for name, value in state.items() if isinstance(value, Tensor)}
    return {name: value.detach().contiguous().cpu() for name, value in tensors.items()}


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.json"))


def _digest(path: Path) -> str:
    with regular(path).open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def _write(path: Path, content: bytes) -> None:
    try:
        with new_file(path) as stream:
            stream.write(content)
    except OSError as error:
        why = error.strerror or error
        stands = "the checkpoint before it is intact" if _all(path.parent) else "the run has no checkpoint yet"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space, then run the same command to continue" if full else "use another --out"
        raise TrainingError(f"{path} cannot be written ({why}): {stands}; {remedy}") from None


class Memory:
    """Its peak in bytes, the model included, above what was on the device before: data, test sets, other models."""

    def __init__(self, model: nn.Module, device: torch.device, earlier: int | None = None) -> None:
        """`earlier` is the peak of a run that this one goes on with."""
        self._device, self._earlier = device, earlier
        if device.type == "cuda":
            own = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
            self._before = torch.cuda.memory_allocated(device) - own
            torch.cuda.reset_peak_memory_stats(device)

    @property
    def peak(self) -> int | None:
        """So far; None on a CPU."""
        if self._device.type != "cuda":
            return self._earlier
        return max(torch.cuda.max_memory_allocated(self._device) - self._before, self._earlier or 0)


Entry = dict[str, Any]


@dataclass(eq=False)
class Keeper:
    """Writes checkpoints of a run, where it has a folder for them; `began` is when it would have begun in one go."""

    folder: Path | None
    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: Average | None
    log: list[Entry]
    trunk: int
    began: float
    every: float
    data: Loader
    earlier_peak: int | None

    def __post_init__(self) -> None:
        self._last = time.monotonic()
        self.memory = Memory(self.model, self.data.labels.device, self.earlier_peak)

    @property
    def due(self) -> bool:
        return time.monotonic() - self._last >= self.every

    def keep(self, begun: Tensor | None = None) -> None:
        """After an epoch, or with what an epoch that was begun has come to; asked for by all processes. Weights that
        are not finite are not kept: the loss would be the next to be none."""
        if not torch.stack([weight.isfinite().all() for weight in self.model.parameters()]).all():
            raise NotFinite(f"the weights are not finite after epoch {len(self.log)}: {self._remedy()}")
        damaged = union({str(path): why for path, why in self.data.damaged.items()})
        if rank() == 0 and self.folder is not None:
            facts = {"log": self.log, "trunk": self.trunk, "processes": world_size()}
            facts |= {"seconds": time.monotonic() - self.began, "peak_memory": self.memory.peak}
            facts |= {} if begun is None else {"begun": begun.tolist(), "order": order_of(self.data, len(self.log))}
            facts |= {"damaged": damaged} if damaged else {}
            batch = 0 if begun is None else len(begun)
            save(self.folder, len(self.log), self.model, self.optimizer, facts, self.average, batch)
        self._last = time.monotonic()

    def between(self, engine: Engine, deadline: float, batch: int) -> None:
        """Before a stretch of an epoch: a checkpoint if it is time, which the first process says; OutOfTime if over."""
        over, due = share((time.monotonic() >= deadline, self.due))
        if over or due:
            begun = engine.so_far(batch)
            self.require_finite(engine.parts(begun))
            self.keep(begun)
        if over:
            epoch = len(self.log) + 1
            raise out_of_time(f"batch {batch} of epoch {epoch}")

    def require_finite(self, parts: dict[str, Tensor]) -> None:
        """NotFinite if a loss of this epoch [steps] or [steps, R] is not, with its step and part."""
        wrong = {name: found[0].tolist() for name, each in parts.items() if len(found := (~each.isfinite()).nonzero())}
        if wrong:
            name, (step, *place) = min(wrong.items(), key=lambda pair: pair[1][0])
            where = f"step {len(self.log) * len(self.data) + step} (epoch {len(self.log) + 1})"
            raise NotFinite(f"{name} is not finite at {where}: {self._remedy()}", *place)

    def _remedy(self) -> str:
        kept = None if self.folder is None else last_name(self.folder)
        return f"lower the learning rate or the weight; {f'{kept} is saved' if kept else 'there is no checkpoint yet'}"


def order_of(data: Loader, epoch: int) -> str:
    """A digest of the order in which an epoch visits the examples: other data, or in another form, have another."""
    return sha256(data.batches(epoch).rows.cpu().numpy().tobytes()).hexdigest()
