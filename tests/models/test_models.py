"""The paper's networks: shapes, numbers of weights, and what a missing token means."""

import pytest
import torch
from toys import sentences

from poise import LeNet, ResNet, ResNetV2, Tokens, Transformer, resnet56, resnet_v2_50


def num_weights(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def small_resnet_v2() -> ResNetV2:
    return ResNetV2(5, [(1, 8, 1), (2, 16, 2)])


@pytest.mark.parametrize(
    ("model", "x", "width", "classes"),
    [
        (LeNet(15), torch.rand(2, 1, 28, 28), 84, 15),
        (LeNet(10, in_channels=3, size=32), torch.rand(2, 3, 32, 32), 84, 10),
        (ResNet(10, [(1, 4, 1), (1, 8, 2)]), torch.rand(2, 3, 32, 32), 8, 10),
        (small_resnet_v2(), torch.rand(2, 3, 64, 48), 64, 5),
        (Transformer(2, vocabulary=20, width=16), sentences([4, 6]), 16, 2),
    ],
    ids=["LeNet", "LeNet RGB", "ResNet", "ResNetV2", "Transformer"],
)
def test_forward_is_head_of_embed(model, x, width: int, classes: int) -> None:
    model.eval()
    z = model.embed(x)
    assert z.shape == (2, width)
    assert model(x).shape == (2, classes)
    assert torch.equal(model(x), model.head(z))


def test_resnet56_is_the_published_network() -> None:
    """853,018 weights for 10 classes, 55 convolutions and a linear layer."""
    model = resnet56(10)
    assert num_weights(model) == 853_018
    assert sum(isinstance(module, torch.nn.Conv2d) for module in model.modules()) == 55
    assert model.embed(torch.rand(2, 3, 32, 32)).shape == (2, 64)


def test_resnet_v2_50_is_the_published_network() -> None:
    """25.55 million weights for 1000 classes; 49 convolutions on the way and 4 shortcuts."""
    model = resnet_v2_50(1000)
    assert num_weights(model) == 25_549_352
    assert sum(isinstance(module, torch.nn.Conv2d) for module in model.modules()) == 49 + 4


def test_resnet_v2_50_is_timm_s() -> None:
    timm = pytest.importorskip("timm", reason="timm does not go with this torch", exc_type=Exception)
    ours, theirs = resnet_v2_50(10).eval(), timm.create_model("resnetv2_50", num_classes=10).eval()
    values = theirs.state_dict()
    shortcuts = iter([value for name, value in values.items() if "downsample" in name])
    others = iter([value for name, value in values.items() if "downsample" not in name])
    for name, own in ours.state_dict().items():
        value = next(shortcuts if "shortcut" in name else others)
        own.copy_(value.view_as(own))
    x = torch.rand(2, 3, 96, 96)
    torch.testing.assert_close(ours(x), theirs(ours.normalize(x)), rtol=1e-4, atol=1e-4)


def batch_norm(x: torch.Tensor, weights: dict, name: str) -> torch.Tensor:
    mean, var, scale, shift = (weights[f"{name}.{k}"] for k in ("running_mean", "running_var", "weight", "bias"))
    view = lambda v: v.view(1, -1, 1, 1)  # noqa: E731
    return (x - view(mean)) / (view(var) + 1e-5).sqrt() * view(scale) + view(shift)


def shaken(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Random values also where a fresh network has ones and zeros."""
    for name, value in model.state_dict().items():
        if value.is_floating_point() and value.ndim == 1:
            value.copy_(torch.rand(value.shape) + (0.5 if "var" in name else -0.2))
    return model.eval().state_dict()


def test_a_small_resnet_is_he_et_al_s_formula() -> None:
    """y = relu(norm(conv(relu(norm(conv(x))))) + shortcut(x)), block by block, in plain functions."""
    model = ResNet(4, [(1, 4, 1), (2, 8, 2)], mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4)).double()
    w, x = shaken(model), torch.rand(2, 3, 8, 8, dtype=torch.float64)
    conv = torch.nn.functional.conv2d
    h = (x - torch.tensor([0.5, 0.4, 0.3]).double().view(3, 1, 1)) / torch.tensor([0.2, 0.3, 0.4]).double().view(
        3, 1, 1
    )
    h = batch_norm(conv(h, w["stem.weight"], padding=1), w, "norm").clamp(min=0)
    for number, stride in enumerate([1, 2, 1]):
        name = f"blocks.{number}"
        inner = batch_norm(conv(h, w[f"{name}.conv1.weight"], stride=stride, padding=1), w, f"{name}.norm1").clamp(
            min=0
        )
        inner = batch_norm(conv(inner, w[f"{name}.conv2.weight"], padding=1), w, f"{name}.norm2")
        short = torch.zeros_like(inner)
        offset = (inner.shape[1] - h.shape[1]) // 2
        short[:, offset : offset + h.shape[1]] = h[:, :, ::stride, ::stride]
        h = (inner + short).clamp(min=0)
    torch.testing.assert_close(model.embed(x), h.mean((2, 3)), rtol=1e-5, atol=1e-6)


def test_a_small_resnet_v2_is_the_pre_activation_formula() -> None:
    """a = relu(norm(x)); y = conv1x1(relu(norm(conv3x3(relu(norm(conv1x1(a))))))) + (x or conv1x1(a))."""
    model = ResNetV2(4, [(1, 4, 1), (2, 8, 2)]).double()
    w, x = shaken(model), torch.rand(2, 3, 32, 32, dtype=torch.float64)
    conv = torch.nn.functional.conv2d
    h = torch.nn.functional.max_pool2d(conv(model.normalize(x), w["stem.weight"], stride=2, padding=3), 3, 2, 1)
    for number, stride in enumerate([1, 2, 1]):
        name = f"blocks.{number}"
        active = batch_norm(h, w, f"{name}.norm1").clamp(min=0)
        short = conv(active, w[f"{name}.shortcut.weight"], stride=stride) if f"{name}.shortcut.weight" in w else h
        inner = batch_norm(conv(active, w[f"{name}.conv1.weight"]), w, f"{name}.norm2").clamp(min=0)
        inner = conv(inner, w[f"{name}.conv2.weight"], stride=stride, padding=1)
        h = conv(batch_norm(inner, w, f"{name}.norm3").clamp(min=0), w[f"{name}.conv3.weight"]) + short
    assert sum("shortcut" in name for name in w) == 2
    expected = batch_norm(h, w, "norm").clamp(min=0).mean((2, 3))
    torch.testing.assert_close(model.embed(x), expected, rtol=1e-5, atol=1e-6)


def test_images_are_normalised_inside() -> None:
    model = ResNet(10, [(1, 4, 1)], mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    torch.testing.assert_close(model.normalize(torch.full((1, 3, 2, 2), 0.75)), torch.ones(1, 3, 2, 2))
    assert not any("normalize" in name for name in model.state_dict())


def test_grey_pictures_do_not_pass_for_colours() -> None:
    for shape in ((2, 1, 32, 32), (2, 4, 32, 32), (1, 28, 28), (28, 28)):
        with pytest.raises(ValueError, match=r"x must be images \[B, C, H, W\] with 3 channels, got \["):
            resnet56(10)(torch.rand(shape))
    assert torch.fx.symbolic_trace(resnet56(10)).eval()(torch.rand(2, 3, 32, 32)).shape == (2, 10)


def test_a_shortcut_skips_pixels_and_pads_channels() -> None:
    model = ResNet(10, [(1, 4, 1), (1, 8, 2)])
    x = torch.rand(1, 4, 6, 6)
    short = model.blocks[1]._shortcut(x)
    assert torch.equal(short[:, 2:6], x[:, :, ::2, ::2])
    assert (short[:, :2] == 0).all() and (short[:, 6:] == 0).all()


def transformer() -> Transformer:
    return Transformer(2, vocabulary=20, width=16, heads=2).eval()


def test_padding_does_not_exist_for_the_transformer() -> None:
    model, x = transformer(), sentences([4, 6])
    longer = Tokens(torch.nn.functional.pad(x.ids, (0, 3), value=7), torch.nn.functional.pad(x.mask, (0, 3)))
    torch.testing.assert_close(model(longer), model(x))


def test_a_removed_token_leaves_no_trace_but_its_place() -> None:
    model, x = transformer(), sentences([5, 5])
    chosen = torch.zeros_like(x.mask)
    chosen[:, 2] = True
    other = Tokens(x.ids.where(~chosen, (x.ids + 1) % 20), x.mask)
    torch.testing.assert_close(model(x.without(chosen)), model(other.without(chosen)))
    assert not torch.allclose(model(x.without(chosen, "delete")), model(x.without(chosen)))


def test_an_empty_sentence_has_embedding_zero() -> None:
    model, x = transformer(), sentences([3, 2])
    empty = x.without(x.mask & (torch.arange(2)[:, None] == 1))
    z = model.embed(empty)
    assert (z[1] == 0).all()
    assert z.isfinite().all()


def test_a_layer_is_torch_s_pre_norm_encoder_layer() -> None:
    ours = transformer().layers[0]
    theirs = torch.nn.TransformerEncoderLayer(16, 2, 256, activation="gelu", batch_first=True, norm_first=True).eval()
    pairs = {
        theirs.self_attn.in_proj_weight: ours.query_key_value.weight,
        theirs.self_attn.in_proj_bias: ours.query_key_value.bias,
        theirs.self_attn.out_proj.weight: ours.out.weight,
        theirs.self_attn.out_proj.bias: ours.out.bias,
        theirs.linear1.weight: ours.expand.weight,
        theirs.linear1.bias: ours.expand.bias,
        theirs.linear2.weight: ours.contract.weight,
        theirs.linear2.bias: ours.contract.bias,
    }
    for norm in ("norm1", "norm2"):
        torch.nn.init.normal_(getattr(ours, norm).weight)
        pairs[getattr(theirs, norm).weight] = getattr(ours, norm).weight
    with torch.no_grad():
        for target, value in pairs.items():
            target.copy_(value)
    x, mask = torch.randn(2, 5, 16), torch.tensor([[True] * 5, [True, True, True, False, False]])
    expected = theirs(x, src_key_padding_mask=~mask)
    torch.testing.assert_close(ours(x, mask[:, None, None, :])[mask], expected[mask], rtol=1e-4, atol=1e-5)


def test_lenet_is_its_formula() -> None:
    model, x = LeNet(10), torch.rand(2, 1, 28, 28)
    w, f = model.state_dict(), torch.nn.functional
    h = f.max_pool2d(f.conv2d(x, w["conv1.weight"], w["conv1.bias"], padding=2).clamp(min=0), 2)
    h = f.max_pool2d(f.conv2d(h, w["conv2.weight"], w["conv2.bias"]).clamp(min=0), 2).reshape(2, -1)
    for name in ("fc1", "fc2"):
        h = (h @ w[f"{name}.weight"].T + w[f"{name}.bias"]).clamp(min=0)
    torch.testing.assert_close(model.embed(x), h)


def test_token_vectors_are_normalised_before_they_are_averaged() -> None:
    z = transformer().embed(sentences([1, 1, 1]))
    torch.testing.assert_close(z.mean(1), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(z.std(1, correction=0), torch.ones(3), atol=1e-3, rtol=0)


def test_the_paper_s_transformer_by_default() -> None:
    model = Transformer(2, vocabulary=30522)
    assert (len(model.layers), model.layers[0].heads, model.layers[0].expand.out_features) == (3, 8, 256)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LeNet(10, size=12), "at least 16 pixels"),
        (lambda: Transformer(2, 20, width=10, heads=3), "multiple of heads"),
        (lambda: ResNet(10, [(1, 4, 1)], std=(1.0, 0.0, 1.0)), "std above 0"),
        (lambda: Transformer(2, 20, width=8, max_length=4)(sentences([5])), "max_length=4"),
    ],
)
def test_bad_settings_are_named(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
