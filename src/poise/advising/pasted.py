"""The Python that trains with the chosen method: a script that runs beside the user's recipe."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature

import numpy as np
from torch import Tensor

from poise.advising.budget import Budget
from poise.advising.candidates import Candidate
from poise.advising.own_data import OwnData
from poise.tokens import Tokens


def script(data: OwnData, budget: Budget, candidate: Candidate) -> str:
    """A training loop of about 25 lines, all of it the user's to change."""
    steps, size = budget.epochs * (len(data.train) // budget.batch_size), budget.batch_size
    lines = [
        *("import numpy as np", "import torch", "", "import poise", f"from {data.path.stem} import network, train", ""),
        *_read(data),
        "y = torch.as_tensor(np.asarray(y)).long()",
        *(["counts = poise.class_counts(y)"] if "counts" in candidate.code else []),
        *(f"objective = {candidate.code}", ""),
        f"model = {_model(data)}",
        "optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)",
        f"rate = poise.Cosine({budget.learning_rate}, steps={steps})",
        f"order = torch.cat([torch.randperm(len(y)) for _ in range({budget.epochs})])",
        f"for step in range({steps}):",
        f"    rows = order[step * {size} : (step + 1) * {size}]",
        "    batch = x[rows]",
        *([_deletion(candidate.deleted)] if candidate.deleted else []),
        "    loss = objective(model, batch, y[rows], step)",
        '    optimizer.param_groups[0]["lr"] = rate(step)',
        *("    optimizer.zero_grad()", "    loss.total.backward()", "    optimizer.step()"),
    ]
    return "\n".join(lines) + "\n"


def _read(data: OwnData) -> Iterator[str]:
    """Lines that turn what the recipe gives into x and y as the network gets them."""
    raw = data.raw
    if isinstance(raw, tuple | list) and len(raw) == 2:
        yield "x, y = train"
        x = raw[0]
    else:
        yield "x, y = zip(*(train[row] for row in range(len(train))), strict=True)"
        yield "x = torch.stack([torch.as_tensor(each) for each in x])"
        x = raw[0][0][None]
    if isinstance(x, Tokens):
        return
    if not isinstance(x, Tensor):
        yield "x = torch.as_tensor(np.asarray(x))"
    if data.kind == "text":
        yield "x = poise.Tokens(x.long(), x != 0)"
    elif data.kind == "table":
        yield "x = x.float()"
        yield "mean, deviation = x.mean(0), x.std(0, correction=0)  # keep both: later data need the same scale"
        yield "x = (x - mean) / deviation.where(deviation > 0, 1.0)"
    else:
        yield from _pictures(x)


def _pictures(x: Tensor | np.ndarray) -> Iterator[str]:
    yield "x = x.float() / 255" if "uint8" in str(x.dtype) else "x = x.float()"
    if x.ndim == 3:
        yield "x = x[:, None]"
    elif not isinstance(x, Tensor):
        yield "x = x.permute(0, 3, 1, 2)"


def _model(data: OwnData) -> str:
    """The network with embed and head."""
    own = data.network()
    if not hasattr(own, "head_name"):
        return "network()"
    head = "" if data.head is None else f", head={data.head!r}"
    if data.kind == "text" and "input_ids" not in signature(own.model.forward).parameters:  # type: ignore[union-attr]
        return f"poise.split(network(){head}, call=lambda net, tokens: net(tokens.ids))"
    return f"poise.split(network(){head})"


def _deletion(share: float) -> str:
    return f"    batch = batch.without((torch.rand(batch.ids.shape) < {share}) & batch.features)"
