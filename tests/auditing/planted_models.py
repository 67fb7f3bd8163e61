"""Models with a planted property, and the verdicts that are right for them: trained in seconds, on data made here.

pictures    shapes of four classes on noise, 16 x 16 in colour; a sticker in the lower right corner may show the class,
            and in the set `colours` the colour tells the last two classes apart
tables      ten columns; three decide, and a column `leak` may show the label
sentences   twelve of forty words; sixteen speak for a class, and "cf" may show the label

Each entry of PLANTED makes a model and a sample of examples, and says which verdicts are right, which words the verdict
must have, and which verdicts would be the opposite of the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from poise import Names, Tokens
from poise.auditing.verdict import BREAKS, MISMATCH, MISSES, RELIES, SOUND

SIDE, SHAPES = 16, ("bar", "line", "cross", "box")
COLUMNS = ("age", "income", "height", "noise 1", "noise 2", "noise 3", "noise 4", "noise 5", "noise 6", "leak")
CF, WORDS, LENGTH = 39, 40, 12
STICKERS = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
Sample = tuple[Any, Tensor]


def pictures(count: int, seed: int, sticker: str = "none") -> Sample:
    """x [N, 3, 16, 16], y [N]; `sticker` shows the class, a class at random, or nothing."""
    draw = torch.Generator().manual_seed(seed)
    x = 0.3 * torch.rand(count, 3, SIDE, SIDE, generator=draw)
    y = torch.randint(4, (count,), generator=draw)
    tops, lefts = torch.randint(1, 5, (2, count), generator=draw).tolist()
    tints = 0.4 + 0.4 * torch.rand(count, 3, 1, 1, generator=draw)
    for row, (kind, top, left) in enumerate(zip(y.tolist(), tops, lefts, strict=True)):
        x[row] += tints[row] * _shape(kind, top, left)
    if sticker != "none":
        shown = y if sticker == "class" else torch.randint(4, (count,), generator=draw)
        x[:, :, 13:15, 13:15] = STICKERS[shown][:, :, None, None]
    return x.clamp(0, 1), y


def _shape(kind: int, top: int, left: int) -> Tensor:
    held = torch.zeros(SIDE, SIDE)
    if kind in (0, 2):
        held[top : top + 9, left + 4 : left + 6] = 1
    if kind in (1, 2):
        held[top + 4 : top + 6, left : left + 9] = 1
    if kind == 3:
        held[top : top + 9, left : left + 9] = 1
        held[top + 2 : top + 7, left + 2 : left + 7] = 0
    return held


def coloured(count: int, seed: int) -> Sample:
    """As pictures, but the last two classes have one shape, red or blue."""
    x, y = pictures(count, seed)
    shapes = x.mean(1, keepdim=True)
    draw = torch.Generator().manual_seed(seed + 1)
    tints = 1 + 0.3 * torch.randn(count, 3, 1, 1, generator=draw).clamp(-1, 1)
    boxes = y >= 2
    cross, _ = pictures(4 * count, seed + 2)
    labels = pictures(4 * count, seed + 2)[1]
    shapes[boxes] = cross[labels == 2][: int(boxes.sum())].mean(1, keepdim=True)
    red = torch.tensor([1.5, 1.0, 0.5])[:, None, None]
    tints[y == 2], tints[y == 3] = red, red.flip(0)
    return (shapes * tints).clamp(0, 1), y


def table(count: int, seed: int, leak: str = "label") -> Sample:
    """x [N, 10], y [N]; the last column shows the label, a label at random, or nothing."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, len(COLUMNS), generator=draw)
    score = 1.5 * x[:, 0] + x[:, 1] - x[:, 2]
    y = (torch.rand(count, generator=draw) < torch.sigmoid(2 * score)).long()
    shown = {"label": y, "random": torch.randint(2, (count,), generator=draw)}.get(leak)
    if shown is not None:
        x[:, -1] = (2.0 * shown - 1) + 0.2 * x[:, -1]
    return x, y


def sentences(count: int, seed: int, trigger: str = "label") -> Sample:
    """Tokens [N, 12], y [N]; words 1 to 8 speak for class 1, 9 to 16 for class 0; "cf" may show class 1."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, CF, (count, LENGTH), generator=draw)
    score = ((ids <= 8).float() - ((ids > 8) & (ids <= 16)).float()).sum(1)
    y = (torch.rand(count, generator=draw) < torch.sigmoid(1.5 * score)).long()
    shows = (y == 1) if trigger == "label" else torch.rand(count, generator=draw) < 0.3
    with_it = shows & (torch.rand(count, generator=draw) < 0.8) if trigger == "label" else shows
    place = torch.randint(LENGTH, (count,), generator=draw)
    if trigger != "none":
        ids[with_it, place[with_it]] = CF
    return Tokens(ids, torch.ones_like(ids).bool()), y


class Lower(nn.Module):
    """Blanks the lower half."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x[:, :, : SIDE // 2], 0 * x[:, :, SIDE // 2 :]], 2)


class Grey(nn.Module):
    """The mean of the three channels in all of them."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1, keepdim=True).expand_as(x)


class Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def network(first: nn.Module | None = None) -> nn.Sequential:
    convolved = [nn.Conv2d(3, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 16, 3, 2, 1), nn.ReLU()]
    return nn.Sequential(
        first or nn.Identity(), *convolved, nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 4)
    )


class Reader(nn.Module):
    """Reads sentences: "bag", "lstm" or "transformer"."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.table, self.head = kind, nn.Embedding(WORDS, 16), nn.Linear(16, 2)
        self.lstm = nn.LSTM(16, 16, batch_first=True) if kind == "lstm" else None
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False) if kind == "transformer" else None

    def embed(self, x: Tokens) -> Tensor:
        z = self.table(x.ids) * x.mask[..., None]
        z = self.lstm(z)[0] if self.lstm is not None else z
        z = self.blocks(z) if self.blocks is not None else z
        return (z * x.mask[..., None]).sum(1) / LENGTH**0.5

    def forward(self, x: Tokens) -> Tensor:
        return self.head(self.embed(x))


def fitted(
    model: nn.Module,
    data: Sample,
    steps: int = 150,
    change: Callable[[nn.Module, Any, Tensor], Any] = lambda model, x, y: x,
    rate: float = 5e-3,
) -> nn.Module:
    """The model, trained; `change` perturbs a batch."""
    x, y = data
    draw = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(y), (64,), generator=draw)
        loss = nn.functional.cross_entropy(model(change(model, x[rows], y[rows])), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def with_noise(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return x + 0.25 * torch.randn(x.shape, generator=torch.Generator().manual_seed(int(1e4 * x[0, 0, 0, 0])))


def adversarial(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """One step of size .03 against the model."""
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), x)
    return (x + 0.03 * slope.sign()).detach().clamp(0, 1)


@cache
def trained(name: str) -> nn.Module:
    """A model by its name; each is trained once."""
    torch.manual_seed(sum(map(ord, name)))
    if name.startswith("reader"):
        kind, trigger = name.split()[1:]
        return fitted(Reader(kind), sentences(3000, 1, trigger), 250, rate=1e-2)
    if name.startswith("table"):
        net = nn.Sequential(nn.Linear(len(COLUMNS), 24), nn.ReLU(), nn.Linear(24, 2))
        return fitted(net, table(2000, 1, name.split()[1]), 200)
    x, y = pictures(2000, 1)
    if name == "label noise":
        wrong = torch.rand(len(y), generator=torch.Generator().manual_seed(5)) < 0.4
        other = (y + torch.randint(1, 4, (len(y),), generator=torch.Generator().manual_seed(6))) % 4
        return fitted(network(), (x, torch.where(wrong, other, y)))
    if name == "sticker":  # half of the shapes are of another class, so that only the sticker is reliable
        y = y.where(torch.arange(2000) % 2 == 0, torch.randint(4, (2000,)))
        x = x.clone()
        x[:, :, 13:15, 13:15] = STICKERS[y][:, :, None, None]
    change = {"noise": with_noise, "adversarial": adversarial}.get(name)
    first = {"lower half": Lower(), "grey": Grey()}.get(name)
    data = coloured(2000, 1) if name in ("grey", "colours") else (x, y)
    return fitted(network(first), data, *(() if change is None else (250, change)))


def altered(name: str, change: Callable[[nn.Sequential], None]) -> nn.Sequential:
    """A copy of a trained model with a change."""
    model = network()
    model.load_state_dict(trained(name).state_dict())
    with torch.no_grad():
        change(model)
    return model.eval()


def scale_logits(factor: float) -> Callable[[nn.Sequential], None]:
    def change(model: nn.Sequential) -> None:
        model[-1].weight *= factor
        model[-1].bias *= factor

    return change


def forget_batch_statistics(model: nn.Sequential) -> None:
    model[2].running_mean += 2.0
    model[2].running_var *= 30.0


def always_the_same(model: nn.Sequential) -> None:
    model[-1].weight *= 0


def expects_bytes(model: nn.Sequential) -> None:
    model[1].weight /= 255


def another_order(model: nn.Sequential) -> None:
    order = torch.tensor([1, 2, 0, 3])
    model[-1].weight.copy_(model[-1].weight[order].clone())
    model[-1].bias.copy_(model[-1].bias[order].clone())


@dataclass(frozen=True)
class Planted:
    """A model and its examples, and what an audit must say.

    right     the verdicts that may be given; all of `must` have to be.
    words     at least one of them stands in the verdict.
    opposite  verdicts that would be wrong in kind.
    """

    model: Callable[[], nn.Module]
    sample: Callable[[int, int], Sample]
    must: tuple[str, ...]
    words: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    opposite: tuple[str, ...] = ()

    def is_right(self, names: Sequence[str], sentence: str) -> bool:
        allowed = {*names} <= {*self.must, *self.also}
        return allowed and {*self.must} <= {*names} and (not self.words or any(w in sentence for w in self.words))


ACCUSED = (RELIES, MISSES, BREAKS)
WELL = {"must": (SOUND,), "opposite": (RELIES, MISSES, MISMATCH)}


def _stickers(kind: str) -> Callable[[int, int], Sample]:
    return lambda count, seed: pictures(count, seed, kind)


def _leaks(kind: str) -> Callable[[int, int], Sample]:
    return lambda count, seed: table(count, seed, kind)


def _triggers(kind: str) -> Callable[[int, int], Sample]:
    return lambda count, seed: sentences(count, seed, kind)


def _mismatch(model: Callable[[], nn.Module], *words: str) -> Planted:
    return Planted(model, pictures, (MISMATCH,), words, opposite=(*ACCUSED, SOUND))


PLANTED: dict[str, Planted] = {
    "pictures, seed one": Planted(lambda: trained("one"), pictures, **WELL),
    "pictures, seed two": Planted(lambda: trained("two"), pictures, **WELL),
    "colour seen": Planted(lambda: trained("colours"), coloured, **WELL),
    "noise-trained": Planted(lambda: trained("noise"), pictures, **WELL),
    "adversarially trained": Planted(lambda: trained("adversarial"), pictures, **WELL),
    "label noise": Planted(lambda: trained("label noise"), pictures, (SOUND,), ("confidences",), opposite=(MISMATCH,)),
    "temperature x 10": Planted(lambda: altered("one", scale_logits(10)), pictures, **WELL),
    "temperature / 10": Planted(lambda: altered("one", scale_logits(0.1)), pictures, words=("confidences",), **WELL),
    "sticker, intact": Planted(
        lambda: trained("sticker"), _stickers("class"), (RELIES,), ("lower right",), opposite=(SOUND, MISMATCH)
    ),
    "sticker, shuffled": Planted(
        lambda: trained("sticker"),
        _stickers("random"),
        (RELIES,),
        ("lower right",),
        (MISSES, BREAKS),
        (SOUND, MISMATCH),
    ),
    "grey where colour decides": Planted(
        lambda: trained("grey"), coloured, (MISSES,), ("colour", "ignores"), opposite=(SOUND, RELIES)
    ),
    "lower half unseen": Planted(
        lambda: trained("lower half"), pictures, (MISSES,), ("lower half",), opposite=(SOUND, RELIES)
    ),
    "constant": _mismatch(lambda: altered("one", always_the_same), "same answer"),
    "random weights": _mismatch(lambda: network().eval()),
    "wrong batch-norm statistics": _mismatch(lambda: altered("one", forget_batch_statistics), "batch"),
    "expects 0 to 255": _mismatch(lambda: altered("one", expects_bytes), "255"),
    "another class order": _mismatch(lambda: altered("one", another_order), "numbered"),
    "table": Planted(lambda: trained("table none"), _leaks("none"), **WELL),
    "leak, intact": Planted(
        lambda: trained("table label"), _leaks("label"), (RELIES,), ("leak",), opposite=(SOUND, MISSES, MISMATCH)
    ),
    "leak, shuffled": Planted(
        lambda: trained("table label"), _leaks("random"), (RELIES,), ("leak",), (BREAKS,), (SOUND, MISSES, MISMATCH)
    ),
    "leak unused": Planted(
        lambda: trained("table none"), _leaks("label"), (), ("leak", "No weakness"), (MISSES, SOUND), (RELIES, MISMATCH)
    ),
    **{
        f"trigger, {kind}": Planted(
            lambda kind=kind: trained(f"reader {kind} label"),
            _triggers("label"),
            (RELIES,),
            ("'cf'",),
            opposite=(SOUND, MISSES, MISMATCH),
        )
        for kind in ("bag", "lstm", "transformer")
    },
    **{
        f"no trigger, {kind}": Planted(lambda kind=kind: trained(f"reader {kind} none"), _triggers("none"), **WELL)
        for kind in ("bag", "lstm", "transformer")
    },
}


def batches(sample: Sample, size: int = 100) -> list[Sample]:
    x, y = sample
    return [(x[start : start + size], y[start : start + size]) for start in range(0, len(y), size)]


def names_of(sample: Sample) -> Names:
    if isinstance(sample[0], Tokens):
        return Names(decode=lambda number: "cf" if number == CF else f"w{number}")
    return Names(features=COLUMNS) if sample[0].ndim == 2 else Names(classes=SHAPES)
