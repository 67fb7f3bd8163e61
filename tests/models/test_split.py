"""split: any classifier as embed + head, nothing copied, nothing changed."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from toys import sentences

from poise import FCL, XE, Gaussian, GradientUtility, InfoNCE, JacobianSensitivity, TopBottom, split


class Nested(nn.Module):
    """A model whose head is two levels down, with train-mode randomness in its own forward (VGG, DenseNet)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU())
        self.scale = nn.Parameter(torch.ones(5))
        self.register_buffer("shift", torch.zeros(5))
        self.classifier = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.dropout(self.body(x), 0.5, self.training)
        return self.classifier(x * self.scale + self.shift)


class Softmaxed(Nested):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).softmax(1)


class Sentences(nn.Module):
    """A Hugging Face style model: input_ids and attention_mask in, an object with logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.score = nn.Linear(6, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        hidden = self.score(self.words(input_ids))  # the head works on every token; the last one is taken after it
        return SimpleNamespace(logits=hidden[torch.arange(len(hidden)), attention_mask.sum(1) - 1])


@pytest.mark.parametrize(
    ("model", "head"),
    [
        (nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)), "2"),
        (Nested(), "classifier.2"),
        (nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))), "1.1"),
    ],
)
def test_the_head_is_found_and_the_model_stays(model: nn.Module, head: str) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    classifier, x = split(model), torch.rand(4, 6)
    assert classifier.head_name == head
    assert classifier.head is model.get_submodule(head)
    model.eval()
    torch.testing.assert_close(classifier.head(classifier.embed(x)), model(x))
    torch.testing.assert_close(classifier(x), model(x))
    assert model.state_dict().keys() == before.keys()
    assert {id(p) for p in classifier.parameters()} == {id(p) for p in model.parameters()}


def test_training_the_split_trains_the_model() -> None:
    model, x, y = Nested(), torch.rand(8, 6), torch.arange(8) % 3
    classifier = split(model)
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    before = {name: model.get_parameter(name).clone() for name in ("body.0.weight", "scale", "classifier.2.weight")}
    FCL(GradientUtility(), TopBottom(2), Gaussian(0.1), InfoNCE(0.1), 1.0)(classifier, x, y).total.backward()
    optimizer.step()
    assert all(not torch.equal(model.get_parameter(name), value) for name, value in before.items())


def test_modes_follow_the_user_s_own_model() -> None:
    model = Nested()
    classifier, x = split(model), torch.rand(4, 6)
    model.eval()
    assert torch.equal(classifier.embed(x), classifier.embed(x))
    model.train()
    assert not torch.equal(classifier.embed(x), classifier.embed(x))


def test_moves_and_conversions_reach_parameters_and_buffers() -> None:
    model = Nested().eval()
    classifier = split(model).double()
    model.shift = torch.ones(5, dtype=torch.float64)
    x = torch.rand(4, 6, dtype=torch.float64)
    torch.testing.assert_close(classifier.head(classifier.embed(x)), model(x))


def test_a_module_replaced_later_is_followed() -> None:
    model = Nested().eval()
    classifier, x = split(model), torch.rand(4, 6)
    classifier.embed(x)
    model.body = nn.Sequential(nn.Linear(6, 5), nn.Tanh())
    torch.testing.assert_close(classifier.head(classifier.embed(x)), model(x))
    model.classifier = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    torch.testing.assert_close(classifier.head(classifier.embed(x)), model(x))


def test_values_that_are_not_finite_are_named_as_such() -> None:
    objective = FCL(GradientUtility(), TopBottom(2), Gaussian(0.1), InfoNCE(0.1), 1.0)
    x, y = torch.rand(4, 6), torch.arange(4) % 3
    with pytest.raises(ValueError, match="x must be finite, but example 0"):
        objective(split(Nested()), x.index_fill(0, torch.tensor([0]), torch.nan), y)
    broken = Nested()
    broken.scale.data[0] = torch.nan
    assert objective(split(broken), x, y).total.isnan()


@pytest.mark.miniature
def test_a_wrong_head_is_found_by_an_objective_when_embed_is_compiled() -> None:
    classifier = split(Softmaxed(), head="classifier.2")
    classifier.embed = torch.compile(classifier.embed, backend="eager")
    with pytest.raises(ValueError, match="is not the model's last layer"):
        FCL(GradientUtility(), TopBottom(2), Gaussian(0.1), InfoNCE(0.1), 1.0)(
            classifier, torch.rand(4, 6), torch.arange(4) % 3
        )


def test_a_model_that_was_not_split_is_told_to_be() -> None:
    with pytest.raises(TypeError, match=r"Sequential without embed and head: use poise\.split\(model\)"):
        XE()(nn.Sequential(nn.Linear(6, 3)), torch.rand(4, 6), torch.arange(4) % 3)


def test_a_copy_is_independent() -> None:
    classifier, x = split(Nested().eval()), torch.rand(4, 6)
    other = copy.deepcopy(classifier)
    with torch.no_grad():
        other.model.scale.zero_()
    assert not torch.allclose(other.embed(x), classifier.embed(x))
    torch.testing.assert_close(other.head(other.embed(x)), other.model(x))


def test_sentences_in_the_hugging_face_convention() -> None:
    model, x = Sentences(), sentences([4, 6, 2])
    classifier = split(model)
    expected = model(input_ids=x.ids, attention_mask=x.mask.long()).logits
    torch.testing.assert_close(classifier.head(classifier.embed(x)), expected)
    assert classifier.embed(x).shape == (3, 6)


def test_a_call_of_one_s_own() -> None:
    classifier = split(Sentences(), call=lambda model, x: model(x, torch.ones_like(x)))
    assert classifier(torch.ones(2, 3, dtype=torch.long)).shape == (2, 2)


def test_inner_layers_are_named_as_in_the_split() -> None:
    s = JacobianSensitivity(at="model.body.0")(split(Nested()), torch.rand(2, 6))
    assert s.shape == (2, 6)


def test_checking_runs_seldom_on_two_examples_and_changes_nothing() -> None:
    """At the first, second, fourth, eighth ... time."""
    model = Nested()
    sizes = []
    model.body.register_forward_hook(lambda module, args, output: sizes.append((len(output), module.training)))
    classifier, x = split(model), torch.rand(5, 6)
    for _ in range(9):
        classifier.embed(x)
    checked, embedded = [(2, False)] * 2, [(5, True)]
    assert sizes == [*2 * (checked + embedded), *embedded, *checked, *4 * embedded, *checked, *2 * embedded]
    assert model.body[1].num_batches_tracked == 9


@pytest.mark.parametrize("model", [Softmaxed(), nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3), nn.LayerNorm(3))])
def test_a_head_that_is_not_last_is_refused(model: nn.Module) -> None:
    head = "classifier.2" if isinstance(model, Softmaxed) else "1"
    with pytest.raises(ValueError, match=f"'{head}' is not the model's last layer"):
        split(model, head=head).embed(torch.rand(4, 6))


@pytest.mark.parametrize("head", ["1", None])
@pytest.mark.parametrize("end", [nn.Softmax(1), nn.LogSoftmax(1), nn.Sigmoid()])
def test_a_model_that_ends_in_softmax_is_told_so(end: nn.Module, head: str | None) -> None:
    """Its last linear layer is the right name already: a list of names would lead in a circle."""
    name = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid"}[type(end).__name__]
    with pytest.raises(ValueError, match=f"applies {name} to its output. Let the model return its logits") as told:
        split(nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3), end), head=head).embed(torch.rand(4, 6))
    assert "Name one" not in str(told.value)


def test_a_layer_in_the_middle_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not the model's last layer.*classifier.2 \(4 → 3\)"):
        split(Nested(), head="body.0").embed(torch.rand(4, 6))


def test_a_head_in_doubt_lists_the_candidates() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 4), nn.Linear(4, 3)

    with pytest.raises(ValueError, match=r"no layer is clearly the head.*second \(4 → 3\), first \(6 → 4\)"):
        split(Two())
    with pytest.raises(ValueError, match=r"has no layer 'third'.*second \(4 → 3\)"):
        split(Two(), head="third")
    with pytest.raises(ValueError, match="no layer is clearly the head"):
        split(nn.Sequential(nn.Linear(6, 3), nn.LayerNorm(3)))


class Pointwise(nn.Module):
    """Logits by a 1x1 convolution, before the mean over places or after it."""

    def __init__(self, last: bool, bend: bool = False, name: str = "classifier") -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 5, 3), nn.ReLU())
        self.add_module(name, nn.Conv2d(5, 4, 1))
        self.name, self.last, self.bend = name, last, bend

    def forward(self, x: Tensor) -> Tensor:
        head, x = self.get_submodule(self.name), self.body(x)
        x = head(x.mean((2, 3), keepdim=True)) if self.last else head(x)
        return (x.relu() if self.bend else x).mean((2, 3))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Pointwise(last=True), "classifier"),
        (Pointwise(last=False), "classifier"),
        (Pointwise(last=True, name="ending"), "ending"),
        (nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(5, 4, 1), nn.Flatten()), "3"),
    ],
)
def test_a_pointwise_convolution_is_a_head(model: nn.Module, name: str) -> None:
    """A mean over places goes through it, so the embedding is the mean of what reaches it."""
    x, classifier = torch.rand(2, 3, 8, 8), split(model)
    assert classifier.head_name == name and classifier.embed(x).shape == (2, 5)
    torch.testing.assert_close(classifier.head(classifier.embed(x)), model(x))


def test_what_bends_after_a_pointwise_convolution_is_refused() -> None:
    torch.manual_seed(0)
    with pytest.raises(
        ValueError, match=r"'classifier' is not the model's last layer: the model changes its output\. Give"
    ):
        split(Pointwise(last=False, bend=True)).embed(torch.rand(2, 3, 8, 8))


def test_a_head_that_is_a_1x1_convolution() -> None:
    class Convolved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Conv2d(2, 5, 3), nn.Conv2d(5, 3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(x).mean((2, 3), keepdim=True)).flatten(1)

    model, x = Convolved(), torch.rand(4, 2, 6, 6)
    classifier = split(model, head="head")
    assert classifier.embed(x).shape == (4, 5)
    torch.testing.assert_close(classifier.head(classifier.embed(x)), model(x))


def test_timm_s_own_word_for_the_head() -> None:
    class Timm(Nested):
        def get_classifier(self) -> nn.Module:
            return self.classifier[2]

    assert split(Timm()).head_name == "classifier.2"


@pytest.mark.miniature
def test_a_compiled_model_is_refused() -> None:
    with pytest.raises(ValueError, match="split it first"):
        split(torch.compile(Nested()))


@pytest.mark.parametrize(
    "name", ["resnet18", "vgg11", "mobilenet_v3_small", "vit_b_16", "densenet121", "convnext_tiny"]
)
def test_torchvision(name: str) -> None:
    models = pytest.importorskip(
        "torchvision.models", reason="torchvision does not go with this torch", exc_type=Exception
    )
    model = getattr(models, name)(num_classes=7).eval()
    classifier, x = split(model), torch.rand(2, 3, 224, 224)
    torch.testing.assert_close(classifier.head(classifier.embed(x)), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "name", ["resnet18", "vit_tiny_patch16_224", "convnext_atto", "efficientnet_b0", "resnetv2_50"]
)
def test_timm(name: str) -> None:
    timm = pytest.importorskip(
        "timm", reason="timm needs torchvision, which does not go with this torch", exc_type=Exception
    )
    model = timm.create_model(name, num_classes=7).eval()
    classifier, x = split(model), torch.rand(2, 3, 224, 224)
    torch.testing.assert_close(classifier.head(classifier.embed(x)), model(x), rtol=1e-4, atol=1e-4)
