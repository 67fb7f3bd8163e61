"""Convolutions of few channels by kernels of our own, where a GPU's library has none that fit.

The narrowest tile of cuDNN has 32 columns. Of a 3x3 convolution to 16 channels it throws half away, and takes several
times as long as the memory needs to bring the pictures. A fourth colour of zeros makes the first one, which sees three,
like the others. `narrow` makes such convolutions a Conv3x3 while a model is trained or tested; weights, names, hooks
and what a checkpoint holds do not change, and what the kernels are not made for (float32, a CPU, another size) goes to
torch as ever.

The three operators are linear in both arguments, and each is the derivative of another, so that gradients of gradients
work, too; forward-mode derivatives do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poise.training.kernels.backward import wanted

COLOURS = 3
CHANNELS = (16, 32)  # tiles of more do not fit
_ROOM = 227 * 1024  # bytes that a program may share on a processor of an H100 or H200, where the tiles were measured


@torch.library.custom_op("poise::conv3x3", mutates_args=(), device_types="cuda")
def conv3x3(x: Tensor, w: Tensor) -> Tensor:
    """x [N, C, H, W] in half precision by w [K, C, 3, 3], which is rounded to it: [N, K, H, W]."""
    from poise.training.kernels.narrow_kernels import convolved

    with torch.cuda.device(x.device):  # Triton asks for the one of the day
        return convolved(_channels_last(x), _channels_last(w))


@torch.library.custom_op("poise::conv3x3_input_gradient", mutates_args=(), device_types="cuda")
def input_gradient(gradient: Tensor, w: Tensor) -> Tensor:
    """Of x [N, C, H, W], for the gradient [N, K, H, W] of what came out."""
    from poise.training.kernels.narrow_kernels import convolved

    with torch.cuda.device(gradient.device):
        return convolved(_channels_last(gradient), _channels_last(w), back=True)


@torch.library.custom_op("poise::conv3x3_weight_gradient", mutates_args=(), device_types="cuda")
def weight_gradient(x: Tensor, gradient: Tensor) -> Tensor:
    """Of w [K, C, 3, 3], in float32."""
    from poise.training.kernels.narrow_kernels import correlated as summed

    with torch.cuda.device(x.device):
        return summed(_channels_last(x), _channels_last(gradient))


@conv3x3.register_fake
def _(x: Tensor, w: Tensor) -> Tensor:
    return _channels_last(x.new_empty((x.shape[0], w.shape[0], *x.shape[2:])))


@input_gradient.register_fake
def _(gradient: Tensor, w: Tensor) -> Tensor:
    return _channels_last(gradient.new_empty((gradient.shape[0], w.shape[1], *gradient.shape[2:])))


@weight_gradient.register_fake
def _(x: Tensor, gradient: Tensor) -> Tensor:
    return _channels_last(x.new_empty((gradient.shape[1], x.shape[1], 3, 3), dtype=torch.float32))


def _of_both(ctx: Any, first: Any, second: Any) -> tuple[Tensor | None, Tensor | None]:
    """The derivatives of a product whose arguments are kept, where they are asked for."""
    (a, b), (asked_first, asked_second) = ctx.saved_tensors, wanted(ctx)
    of_first = first(a, b).to(a.dtype) if asked_first else None
    of_second = second(a, b).to(b.dtype) if asked_second else None
    return of_first, of_second


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _conv3x3_back(ctx: Any, out: Tensor) -> tuple[Tensor | None, Tensor | None]:
    return _of_both(ctx, lambda x, w: input_gradient(out, w), lambda x, w: weight_gradient(x, out))


def _input_gradient_back(ctx: Any, out: Tensor) -> tuple[Tensor | None, Tensor | None]:
    return _of_both(ctx, lambda gradient, w: conv3x3(out, w), lambda gradient, w: weight_gradient(out, gradient))


def _weight_gradient_back(ctx: Any, out: Tensor) -> tuple[Tensor | None, Tensor | None]:
    return _of_both(ctx, lambda x, gradient: input_gradient(gradient, out), lambda x, gradient: conv3x3(x, out))


conv3x3.register_autograd(_conv3x3_back, setup_context=_keep)
input_gradient.register_autograd(_input_gradient_back, setup_context=_keep)
weight_gradient.register_autograd(_weight_gradient_back, setup_context=_keep)


class Conv3x3(nn.Conv2d):
    """nn.Conv2d of few channels, by our kernels where they fit; a copy of it is an nn.Conv2d."""

    def forward(self, x: Tensor) -> Tensor:
        seen = _in_half(x)
        if not fits(seen) or seen.shape[1] != self.in_channels:
            return super().forward(x)
        pair = (with_another(seen), with_another(self.weight)) if self.in_channels == COLOURS else (seen, self.weight)
        out: Tensor = conv3x3(*pair)
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _blank, (), vars(self)


def _blank() -> nn.Conv2d:
    """To be filled with the state of another."""
    return nn.Conv2d.__new__(nn.Conv2d)


def fits(x: Tensor) -> bool:
    """Whether the kernels take x [N, C, H, W]: pairs of pixels in bfloat16, of which 32 bits can count 32 channels, and
    no more lines than a grid has room for."""
    if not x.is_cuda or x.dtype is not torch.bfloat16 or x.ndim != 4 or x.shape[3] % 2:
        return False
    return 0 < x.shape[0] * x.shape[2] * x.shape[3] < 2**26 and x.shape[2] < 2**16


def has_room(device: torch.device) -> bool:
    """Whether a device has Triton, and as much memory on each of its processors as the tiles were made for."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    room: int = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return room >= _ROOM


@contextmanager
def narrow(model: nn.Module) -> Iterator[None]:
    """The model's narrow convolutions by our kernels inside: they change their class, and nothing else."""
    found = [each for each in model.modules() if _is_narrow(each) and has_room(each.weight.device)]
    try:
        for conv in found:
            conv.__class__ = Conv3x3
        yield
    finally:
        for conv in found:
            conv.__class__ = nn.Conv2d


def _is_narrow(module: nn.Module) -> TypeGuard[nn.Conv2d]:
    """A plain 3x3 convolution, of as many channels as the kernels are good for; a subclass may do anything else."""
    if type(module) is not nn.Conv2d or module.bias is not None or module.padding_mode != "zeros":
        return False
    shape = (module.kernel_size, module.stride, module.padding, module.dilation, module.groups)
    sizes = module.in_channels in (COLOURS, *CHANNELS) and module.out_channels in CHANNELS
    return shape == ((3, 3), (1, 1), (1, 1), (1, 1), 1) and sizes


def _in_half(x: Tensor) -> Tensor:
    """x as autocast gives it to torch's own convolutions."""
    if x.is_cuda and x.dtype is torch.float32 and torch.is_autocast_enabled("cuda"):
        return x.to(torch.get_autocast_dtype("cuda"))
    return x


def with_another(x: Tensor) -> Tensor:
    """x [N, C, H, W] with a channel of zeros."""
    return F.pad(x, (0, 0, 0, 0, 0, 1))


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)
