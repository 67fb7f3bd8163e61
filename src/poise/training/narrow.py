"""Convolutions of few channels by kernels of our own, where a GPU's library has none that fit.

The narrowest tile of cuDNN has 32 columns. Of a 3x3 convolution to 16 channels it throws half away, and takes several
times as long as the memory needs to bring the pictures. `narrow` puts Conv3x3 in the place of such convolutions while a
model is trained or tested; weights, names and what a checkpoint holds do not change, and what the kernels are not made
for (float32, a CPU, another size) goes to torch as ever.

The three kernels are linear in both arguments, and each is the derivative of another, so gradients of any order work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

CHANNELS = (16, 32)  # tiles of more do not fit
_ROOM = 227 * 1024  # bytes that a program may share on a processor of an H100 or H200, where the tiles were measured


@torch.library.custom_op("poise::conv3x3", mutates_args=(), device_types="cuda")
def conv3x3(x: Tensor, w: Tensor) -> Tensor:
    """x [N, C, H, W] in half precision by w [K, C, 3, 3], which is rounded to it: [N, K, H, W]."""
    from poise.training.narrow_kernels import convolved

    return convolved(_channels_last(x), _channels_last(w))


@torch.library.custom_op("poise::conv3x3_input_gradient", mutates_args=(), device_types="cuda")
def input_gradient(gradient: Tensor, w: Tensor) -> Tensor:
    """Of x [N, C, H, W], for the gradient [N, K, H, W] of what came out."""
    from poise.training.narrow_kernels import convolved

    return convolved(_channels_last(gradient), _channels_last(w), back=True)


@torch.library.custom_op("poise::conv3x3_weight_gradient", mutates_args=(), device_types="cuda")
def weight_gradient(x: Tensor, gradient: Tensor) -> Tensor:
    """Of w [K, C, 3, 3], in float32."""
    from poise.training.narrow_kernels import weight_gradient as summed

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
    a, b = ctx.saved_tensors
    return (first(a, b).to(a.dtype) if ctx.needs_input_grad[0] else None), (
        second(a, b).to(b.dtype) if ctx.needs_input_grad[1] else None
    )


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
    """nn.Conv2d of few channels, by our kernels where they fit."""

    def forward(self, x: Tensor) -> Tensor:
        if not fits(x):
            return super().forward(x)
        out: Tensor = conv3x3(x, self.weight)
        return out


def fits(x: Tensor) -> bool:
    """Whether the kernels take x [N, C, H, W]: half precision, pairs of pixels, and places that 32 bits can count."""
    half = x.is_cuda and x.dtype in (torch.bfloat16, torch.float16)
    return half and x.ndim == 4 and x.shape[3] % 2 == 0 and 0 < x.numel() < 2**31


def has_room(device: torch.device) -> bool:
    """Whether a device has Triton, and as much memory on each of its processors as the tiles were made for."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    room: int = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return room >= _ROOM


@contextmanager
def narrow(model: nn.Module) -> Iterator[None]:
    """The model's narrow convolutions by our kernels inside; its own come back, with the weights of then."""
    places = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if _is_narrow(child) and has_room(child.weight.device)
    ]
    try:
        for parent, name, child in places:
            setattr(parent, name, _by_kernels(child))
        yield
    finally:
        for parent, name, child in places:
            child.training = getattr(parent, name).training
            setattr(parent, name, child)


def _is_narrow(module: nn.Module) -> TypeGuard[nn.Conv2d]:
    """A plain 3x3 convolution, of as many channels as the kernels are good for; a subclass may do anything else."""
    if type(module) is not nn.Conv2d or module.bias is not None or module.padding_mode != "zeros":
        return False
    shape = (module.kernel_size, module.stride, module.padding, module.dilation, module.groups)
    sizes = {module.in_channels, module.out_channels}
    return shape == ((3, 3), (1, 1), (1, 1), (1, 1), 1) and sizes <= set(CHANNELS)


def _by_kernels(conv: nn.Conv2d) -> Conv3x3:
    """The same convolution: its weights are shared, not copied."""
    made = Conv3x3(conv.in_channels, conv.out_channels, 3, padding=1, bias=False, device="meta")
    made._parameters, made.training = conv._parameters, conv.training
    return made


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)
