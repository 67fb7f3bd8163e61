"""What people do to a small classifier of [B, 6]: outputs, wrappers, compilers, adapters, odd heads and odd endings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

X = torch.rand(4, 6, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    """Others inherit `ending`, what is made of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(6, 4), nn.Linear(4, 3)

    def embedding(self, x: Tensor) -> Tensor:
        return self.body(x).tanh()

    def ending(self, z: Tensor) -> Any:
        return self.fc(z)

    def forward(self, x: Tensor) -> Any:
        return self.ending(self.embedding(x))


class Two(NamedTuple):
    logits: Tensor
    regression: Tensor


@dataclass
class TwoFields:
    regression: Tensor
    logits: Tensor


class TwoHeads(Net):
    def __init__(self, give: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.regression, self.give = nn.Linear(4, 1), give

    def ending(self, z: Tensor) -> Any:
        return self.give(self.fc(z), self.regression(z))


def in_a_dict(logits: Tensor, regression: Tensor) -> Any:
    return {"regression": regression, "logits": logits}


def in_a_tuple(logits: Tensor, regression: Tensor) -> Any:
    return logits, regression


def in_a_nameless_dict(logits: Tensor, regression: Tensor) -> Any:
    return {"regression": regression, "classes": logits}


def in_a_dataclass(logits: Tensor, regression: Tensor) -> Any:
    return TwoFields(regression, logits)


class Around(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Any:
        return self.net(x)


class Normalised(Around):
    def __init__(self, net: nn.Module) -> None:
        super().__init__(net)
        self.register_buffer("mean", torch.full((6,), 0.5))

    def forward(self, x: Tensor) -> Any:
        return self.net((x - self.mean) / 0.25)


class LoRA(nn.Module):
    """peft's names: the layer and two narrow ones beside it."""

    def __init__(self, base_layer: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base_layer.requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base_layer.in_features, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, base_layer.out_features, bias=False)})

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) + 2 * self.lora_B["default"](self.lora_A["default"](x))


class Saved(nn.Module):
    """peft's ModulesToSaveWrapper: a trained copy beside the layer."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.original_module = layer.requires_grad_(False)
        self.modules_to_save = nn.ModuleDict({"default": nn.Linear(layer.in_features, layer.out_features)})

    def forward(self, x: Tensor) -> Tensor:
        return self.modules_to_save["default"](x)


def adapted(body: bool, head: Callable[[nn.Linear], nn.Module] | None) -> nn.Module:
    net = Net()
    if body:
        net.body = LoRA(net.body)
    if head is not None:
        net.fc = head(net.fc)
    return net


def merged_heads() -> nn.Module:
    """A head whose two linear layers are added, under no name of peft's."""

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slow, self.fast = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, z: Tensor) -> Tensor:
            return self.slow(z) + self.fast(z)

    net = Net()
    net.fc = Sum()
    return net


def weight_normed() -> nn.Module:
    net = Net()
    parametrizations.weight_norm(net.fc)
    return net


def spectral_normed() -> nn.Module:
    net = Net()
    parametrizations.spectral_norm(net.fc)
    return net


class Tied(nn.Module):
    """The head's weight is another layer's too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 6), nn.Linear(6, 3), nn.Linear(6, 3)
        self.head.weight = self.second.weight

    def forward(self, x: Tensor) -> Tensor:
        z = self.first(x).tanh()
        return self.head(z + self.second(z).softmax(1) @ self.second.weight)


class Twice(Net):
    """One head for two views: their mean, sum or difference."""

    def __init__(self, merge: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.merge = merge

    def forward(self, x: Tensor) -> Tensor:
        return self.merge(self.fc(self.embedding(x)), self.fc(self.embedding(x.flip(1))))


def mean_of_two(a: Tensor, b: Tensor) -> Tensor:
    return (a + b) / 2


class OnItself(Net):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def ending(self, z: Tensor) -> Tensor:
        return self.fc(self.fc(z))


class Temperature(Net):
    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(()))

    def ending(self, z: Tensor) -> Tensor:
        return self.fc(z) / self.temperature


class Ending(Net):
    def __init__(self, end: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.end = end

    def ending(self, z: Tensor) -> Tensor:
        return self.end(self.fc(z))


def soft_cap(logits: Tensor) -> Tensor:
    return 30 * (logits / 30).tanh()


def doubled(logits: Tensor) -> Tensor:
    return 2 * logits


class ReadsWeight(Net):
    def ending(self, z: Tensor) -> Tensor:
        return F.linear(z, self.fc.weight, self.fc.bias)


class Cosine(nn.Module):
    """A head of its own kind."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))

    def forward(self, z: Tensor) -> Tensor:
        return 5 * F.normalize(z, dim=1) @ F.normalize(self.weight, dim=1).T


def cosine() -> nn.Module:
    net = Net()
    net.fc = Cosine()
    return net


def hooked(change: bool) -> nn.Module:
    """Hooks before, after and behind the head; with `change` they take part."""
    net = Net()
    net.seen = []
    net.fc.register_forward_pre_hook(lambda module, given: (given[0] * 2,) if change else None)
    net.fc.register_forward_hook(lambda module, given, output: output + 1 if change else net.seen.append(len(output)))
    net.fc.register_full_backward_hook(lambda module, inner, outer: None)
    return net


class Counting(Net):
    """Buffers are written at every pass, in place and anew."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("average", torch.zeros(4))

    def embedding(self, x: Tensor) -> Tensor:
        z = super().embedding(x)
        self.count += 1
        self.average = 0.9 * self.average + 0.1 * z.detach().mean(0)
        return z - self.average


class Own(nn.Module):
    """Has embed and head already."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 4), nn.Linear(4, 3)

    def embed(self, x: Tensor) -> Tensor:
        return self.body(x).tanh()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))


class Single(Net):
    """One logit, [B, 1]; squeezed it is [B]."""

    def __init__(self, squeeze: bool = False) -> None:
        super().__init__()
        self.fc, self.squeeze = nn.Linear(4, 1), squeeze

    def ending(self, z: Tensor) -> Tensor:
        return self.fc(z).squeeze() if self.squeeze else self.fc(z)


class Squeezing(Net):
    """Right but for one example: squeeze() takes the axis of examples too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 6)

    def embedding(self, x: Tensor) -> Tensor:
        return self.conv(x[:, None]).squeeze()


class Plain(nn.Module):
    """Typed for torch.jit."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.body(x).tanh())


def frozen() -> nn.Module:
    net = Net()
    net.body.requires_grad_(False)
    return net


def compiled_body() -> nn.Module:
    net = Net()
    net.body = torch.compile(net.body, backend="eager")
    return net


def compiled_in_place() -> nn.Module:
    net = Net()
    net.compile(backend="eager")
    return net


def compiled_head() -> nn.Module:
    net = Net()
    net.fc = torch.compile(net.fc, backend="eager")
    return net


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.Tanh(), nn.LazyLinear(3))


def hooked_by_accelerate(*names: str) -> nn.Module:
    hooks = pytest.importorskip("accelerate.hooks", reason="pip install '.[transformers]'")

    model = Around(Net())
    for name in names:
        hooks.add_hook_to_module(model.get_submodule(name), hooks.AlignDevicesHook("cpu", io_same_device=True))
    return model


def prepared_by_accelerate() -> nn.Module:
    """What Accelerator(mixed_precision="bf16").prepare does to a model."""
    utils = pytest.importorskip("accelerate.utils", reason="pip install '.[transformers]'")

    net = Net()
    forward = torch.autocast("cpu", torch.bfloat16)(net.forward.__func__)
    net.forward = MethodType(utils.convert_outputs_to_fp32(forward), net)
    return net


class Autocasting(Net):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x).float()


def replaced_forward() -> nn.Module:
    net = Net()
    own = net.forward
    net.forward = lambda x: own(x)
    return net


def old_forward() -> nn.Module:
    """As accelerate did it before it used functools.partial."""
    net = Net()
    net._old_forward = net.forward
    net.forward = lambda *given, **named: net._old_forward(*given, **named)
    return net


def scripted_body() -> nn.Module:
    net = Net()
    net.body = torch.jit.script(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)))
    return net


def exported() -> nn.Module:
    return torch.export.export(Plain(), (X,)).module()


class Ensemble(nn.Module):
    """Members with a head each."""

    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList([Net(), Net()])

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([member(x) for member in self.members]).mean(0)


class ByTask(nn.Module):
    """Heads in a ModuleDict, of which one is used."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 4)
        self.tasks = nn.ModuleDict({"colour": nn.Linear(4, 3), "shape": nn.Linear(4, 2)})
        self.task = "colour"

    def forward(self, x: Tensor) -> Tensor:
        return self.tasks[self.task](self.body(x).tanh())


class Factored(Net):
    """The logits of two linear layers in a row, named as their parts."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(4, 2, bias=False), nn.Linear(2, 3))


class Masked(Net):
    """Logits of classes that are not allowed become -inf."""

    def ending(self, z: Tensor) -> Tensor:
        return self.fc(z).masked_fill(torch.tensor([False, False, True]), -torch.inf)


class Permuted(Net):
    """The logits in another order."""

    def ending(self, z: Tensor) -> Tensor:
        return self.fc(z)[:, [2, 0, 1]]


class Numpy(Net):
    def ending(self, z: Tensor) -> Any:
        return self.fc(z).detach().numpy()


class Sequences(Net):
    """A head on every moment and logits for every moment: no class for the example."""

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.embedding(x[:, None].expand(-1, 5, -1)))
