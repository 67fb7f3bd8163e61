"""The judge of one call: right, refused, or at fault.

    right     a result that the oracle accepts
    refused   a TypeError or ValueError, raised on purpose, that names the argument
    silent    a wrong call that gives a result, or a right one that gives a wrong result
    obscure   any other error, or one that does not name the argument
    touched   inputs, models, modes, gradients or random states were changed

In every case what was handed in stays as it was; so does torch's random state where a generator was handed in, or where
the call raised.
"""

from __future__ import annotations

import re
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from fuzz.generator import Call
from torch import Tensor, nn

import poise

KINDS = ("right", "refused", "silent", "obscure", "touched")
FAULTS = ("silent", "obscure", "touched")
_SECONDS = 60
_HOME = str(Path(poise.__file__).parent)


class Hung(BaseException):
    """A call that took too long."""


@dataclass(frozen=True)
class Verdict:
    """kind is one of KINDS; `why` says what is wrong, in words."""

    kind: str
    why: str = ""

    @property
    def fault(self) -> bool:
        return self.kind in FAULTS


def judge(call: Call, names: dict[str, Any]) -> Verdict:
    """Run a call in these names and say what came of it."""
    torch.manual_seed(call.seed)
    held = dict(names)
    for name, source in call.arguments:
        held[name] = eval(source, held)
    values = {name: held[name] for name, _ in call.arguments}
    before, state = snapshot(values), torch.get_rng_state()
    result, error = _run(lambda: eval(call.expression, held))
    verdict = _outcome(call, values, result, error)
    if verdict.fault:
        return verdict
    moved = changed(before, snapshot(values), statistics=call.recipe.trains and error is None)
    if moved:
        return Verdict("touched", f"{moved} was changed")
    if (error is not None or not call.recipe.draws) and not torch.equal(state, torch.get_rng_state()):
        return Verdict("touched", "torch's random state moved")
    if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        return Verdict("touched", "gradients were left off")
    return verdict


def _run(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        with _in_time(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(), None
    except (Exception, Hung) as error:
        return None, error


def _outcome(call: Call, values: dict[str, Any], result: Any, error: BaseException | None) -> Verdict:
    if isinstance(error, Hung):
        return Verdict("obscure", f"it took more than {_SECONDS} seconds")
    if call.kind == "right":
        if error is not None:
            return Verdict("obscure", f"a right call raised {_told(error)}")
        wrong = call.recipe.oracle(values, result)
        return Verdict("silent", f"the result is wrong: {wrong}") if wrong else Verdict("right")
    if error is None:
        return Verdict("silent", f"a wrong call gave {_short(result)}")
    if call.kind == "absurd":
        fine = isinstance(error, (TypeError, ValueError, AttributeError, *call.recipe.errors))
        return Verdict("refused") if fine else Verdict("obscure", f"it raised {_told(error)}")
    return _refusal(call, error)


def _refusal(call: Call, error: BaseException) -> Verdict:
    """Whether it is raised on purpose, in our code, and names what is wrong."""
    if not isinstance(error, (TypeError, ValueError, *call.recipe.errors)):
        return Verdict("obscure", f"it raised {_told(error)}")
    if not re.search(rf"(?<![\w.])({call.words})(?!\w)", str(error)):
        return Verdict("obscure", f"the message does not name {call.words}: {_told(error)}")
    if not on_purpose(error.__traceback__) and "argument" not in str(error):
        return Verdict("obscure", f"nobody raised it on purpose: {_told(error)}")
    return Verdict("refused")


def on_purpose(trace: TracebackType | None) -> bool:
    """Whether a `raise` of Poise is what raised: the last of the frames stands at one."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not trace.tb_frame.f_code.co_filename.startswith((_HOME, str(Path(__file__).parent))):
        return False
    line = traceback.extract_tb(trace)[-1]
    code = Path(line.filename).read_text().splitlines()[(line.lineno or 1) - 1 : line.end_lineno]
    return bool(code) and code[0].lstrip().startswith("raise")


@contextmanager
def _in_time() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def snapshot(value: Any) -> Any:
    """What must not change of a value: bits, gradients, kinds, modes."""
    if isinstance(value, Tensor):
        grad = None if not value.is_leaf or value.grad is None else value.grad.clone()
        return ("tensor", value.detach().clone(), value.requires_grad, grad, value._version)
    if isinstance(value, np.ndarray):
        return ("array", torch.from_numpy(value.copy()) if value.dtype.kind in "fiub" else value.tolist())
    if isinstance(value, nn.Module):
        state = {name: snapshot(each) for name, each in [*value.named_parameters(), *value.named_buffers()]}
        modes = [(module.training, getattr(module, "track_running_stats", None)) for module in value.modules()]
        hooks = sum(len(module._forward_hooks) for module in value.modules())
        return ("module", state, modes, hooks)
    if isinstance(value, dict):
        return {key: snapshot(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [snapshot(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: snapshot(getattr(value, each.name)) for each in fields(value)}
    return None


def changed(before: Any, after: Any, statistics: bool = False, at: str = "") -> str:
    """Where two snapshots differ, "" if nowhere; `statistics` lets running statistics move."""
    if isinstance(before, Tensor) and isinstance(after, Tensor):
        same = before.dtype == after.dtype and before.shape == after.shape and _same_bits(before, after)
        return "" if same else at
    if type(before) is not type(after):
        return at
    if isinstance(before, dict):
        pairs = ((key, before[key], after.get(key)) for key in before if not (statistics and _moves(key)))
        return next(
            (found for key, a, b in pairs if (found := changed(a, b, statistics, f"{at}.{key}".strip(".")))), ""
        )
    if isinstance(before, list | tuple):
        if len(before) != len(after):
            return at
        return next((found for a, b in zip(before, after, strict=True) if (found := changed(a, b, statistics, at))), "")
    return "" if before == after else at


def _moves(key: Any) -> bool:
    return "running_" in str(key) or "num_batches_tracked" in str(key)


def _same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a, b) or (a.is_floating_point() and torch.equal(a.nan_to_num(7.25), b.nan_to_num(7.25)))


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]


def _short(result: Any) -> str:
    return " ".join(repr(result).split())[:160]
