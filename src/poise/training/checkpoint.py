"""Checkpoints of a run: tensors as safetensors, everything else as JSON beside them.

    checkpoint-0012.safetensors    weights, their average, statistics and the optimizer's state after epoch 12
    checkpoint-0012.json           the state of the run, the digest of the tensors and a checksum
    checkpoint-0013-000400.*       the same after 400 batches of epoch 13, for long epochs

Files are written atomically and never unpickled. The JSON is written last: a checkpoint without it is ignored. The
newest two are kept; if the last one is damaged, a warning names it and the one before it is used.

`Keeper` decides when to write one: after epochs, and between the stretches of long ones. `Memory` measures the device
memory that a training takes.
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
from poise.io.documents import is_proved, with_checksum
from poise.io.files import new_file, regular, remove_parts
from poise.training.average import Average
from poise.training.engine import Engine

_KEPT = 2


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Tensors by name, and the state of the run as JSON values."""

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
    """Write a checkpoint after an epoch, or after a batch of the next one, and remove old ones.

    optimizer  None saves final weights only, from which training cannot continue.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remove_parts(folder)  # remove what a killed run left unfinished
    path = folder / (
        f"checkpoint-{epoch + 1:04d}-{batch:06d}.safetensors" if batch else f"checkpoint-{epoch:04d}.safetensors"
    )
    content = serialized(_tensors(model, optimizer, average))
    meta = json.dumps(with_checksum({**facts, "epoch": epoch, "sha256": sha256(content).hexdigest(), "version": 2}))
    _write(path, content)
    _write(path.with_suffix(".json"), meta.encode())
    here = _all(folder)
    place = here.index(path.with_suffix(".json")) + 1  # newer ones are damaged: otherwise the run had continued there
    for old in [*here[: max(place - _KEPT, 0)], *here[place:]]:
        old.unlink(missing_ok=True)
        old.with_suffix(".safetensors").unlink(missing_ok=True)


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder has an intact checkpoint to continue from."""
    return newest(folder, lambda sentence: None) is not None


def last_name(folder: Path) -> str | None:
    """The name of the last checkpoint of a folder."""
    return next((path.stem for path in reversed(_all(folder))), None)


def newest(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """The last intact checkpoint of a folder; calls `warn` for each damaged one."""
    paths = _all(folder)
    for path in reversed(paths):
        try:
            return read(path)
        except TrainingError as error:
            warn(f"{error}; {'there is no earlier one' if path == paths[0] else 'using the one before it'}")
    return None


def read(path: Path) -> Checkpoint:
    """Read the checkpoint with this JSON file; raises TrainingError if it is damaged."""
    tensors = path.with_suffix(".safetensors")
    try:
        facts = json.loads(regular(path).read_text())
        if not isinstance(facts, dict) or not is_proved(facts):
            raise ValueError("its checksum does not match its content")
        found = load_file(tensors) if facts.get("sha256") == _digest(tensors) else None
    except Exception as error:  # a reader may raise anything for a damaged file
        why = str(error) if type(error) is ValueError else type(error).__name__
        raise TrainingError(f"{path} is damaged ({why})") from None
    if found is None:
        raise TrainingError(f"{path} is damaged (its digest does not match the tensors)")
    return Checkpoint(found, facts)


def restore(
    checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer, average: Average | None = None
) -> None:
    """Load weights, their average and the optimizer's state from a checkpoint."""
    try:
        model.load_state_dict(weights_of(checkpoint))
    except RuntimeError as error:
        raise TrainingError(f"the checkpoint is of another network: {str(error).splitlines()[-1].strip()}") from None
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in checkpoint.tensors.items():
        if name.startswith("optimizer/"):
            _, number, key = name.split("/")
            states.setdefault(int(number), {})[key] = tensor.clone()  # an optimizer keeps the tensors it is given
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            if value.numel() != 1 and value.shape != parameter.shape:
                raise TrainingError("the checkpoint is of another optimizer: its state does not fit the weights")
            if value.shape == parameter.shape:  # a fused step needs the memory layout of the weights
                state[key] = torch.empty_like(parameter, dtype=value.dtype, device=value.device).copy_(value)
    if average is not None:
        held = _under("average/", checkpoint)
        if not held:
            raise TrainingError("the checkpoint has no average of the weights: remove its folder to train it again")
        average.load(held)


def weights_of(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The model's weights by name."""
    return _under("model/", checkpoint)


def final_weights_of(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The weights that a run is tested with: their average, if the run has one."""
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
        if path.exists():  # a pipe or a device would be written to
            regular(path)
        with new_file(path) as stream:
            stream.write(content)
    except OSError as error:
        why = error.strerror or error
        stands = "the checkpoint before it is intact" if _all(path.parent) else "the run has no checkpoint yet"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space, then run the same command to continue" if full else "use another --out"
        raise TrainingError(f"{path} cannot be written ({why}): {stands}; {remedy}") from None


Entry = dict[str, Any]


@dataclass(eq=False)
class Keeper:
    """Writes the checkpoints of a run, if it has a folder for them.

    began  the time.monotonic() at which the run would have begun without interruptions.
    """

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
        """Write a checkpoint after an epoch, or with the losses `begun` of an unfinished one; call in all processes.

        Raises NotFinite instead of saving weights that are not finite.
        """
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
        """Before a stretch of an epoch: write a checkpoint if one is due; raises OutOfTime after the deadline.

        The first process decides for all.
        """
        over, due = share((time.monotonic() >= deadline, self.due))
        if over or due:
            begun = engine.so_far(batch)
            self.require_finite(engine.parts(begun))
            self.keep(begun)
        if over:
            epoch = len(self.log) + 1
            raise out_of_time(f"batch {batch} of epoch {epoch}")

    def require_finite(self, parts: dict[str, Tensor]) -> None:
        """Raise NotFinite, with step and part, if a loss of this epoch [steps] or [steps, R] is not finite."""
        wrong = {name: found[0].tolist() for name, each in parts.items() if len(found := (~each.isfinite()).nonzero())}
        if wrong:
            name, (step, *place) = min(wrong.items(), key=lambda pair: pair[1][0])
            where = f"step {len(self.log) * len(self.data) + step} (epoch {len(self.log) + 1})"
            raise NotFinite(f"{name} is not finite at {where}: {self._remedy()}", *place)

    def _remedy(self) -> str:
        kept = None if self.folder is None else last_name(self.folder)
        return f"lower the learning rate or the weight; {f'{kept} is saved' if kept else 'there is no checkpoint yet'}"


class Memory:
    """Peak device memory of a training in bytes, with the model, but without data, test sets and other models."""

    def __init__(self, model: nn.Module, device: torch.device, earlier: int | None = None) -> None:
        """`earlier` is the peak before the run was interrupted."""
        self._device, self._earlier = device, earlier
        if device.type == "cuda":
            own = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
            self._before = torch.cuda.memory_allocated(device) - own
            torch.cuda.reset_peak_memory_stats(device)

    @property
    def peak(self) -> int | None:
        """The peak so far; None on a CPU."""
        if self._device.type != "cuda":
            return self._earlier
        return max(torch.cuda.max_memory_allocated(self._device) - self._before, self._earlier or 0)


def order_of(data: Loader, epoch: int) -> str:
    """A digest of the order in which an epoch visits the examples, to detect other data."""
    return sha256(data.batches(epoch).rows.cpu().numpy().tobytes()).hexdigest()
