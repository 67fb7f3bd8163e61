"""The zoo: classifiers of every family that split meets, one row each. test_zoo.py walks the table.

A row says how a model is built and what it reads, which layer is its head, and whether split must be told so; or the
part of a sentence with which split refuses it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from models import zoo_pictures as pictures
from models import zoo_quirks as quirks
from models import zoo_sequences as sequences
from models.zoo_huggingface import ended, hugging_face, sounding, wave
from models.zoo_quirks import Around, Ending, LoRA, Net, Normalised, Saved, Twice, TwoHeads
from torch import Tensor, nn
from toys import sentences

import poise
from poise import Input, SplitClassifier, split
from poise.models.split import call_model
from poise.objectives.objective import Statistics


@dataclass(frozen=True)
class Entry:
    """
    head     the name of the head.
    named    split is told that name; otherwise it finds it.
    call     how the model is run, if it has a signature of its own.
    refused  a part of the sentence with which split or the first embed refuses; "" where they work.
    classes  of the labels.
    rounding of a model that computes in half precision, on its own.

    statistics and own_forward are those of FCL and its GradientUtility.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], Input]
    head: str = "fc"
    named: bool = False
    call: Callable[[nn.Module, Any], Any] = call_model
    refused: str = ""
    classes: int = 3
    statistics: Statistics = "running"
    own_forward: bool = False
    rounding: float = 0.0

    def made(self, seed: int = 0) -> nn.Module:
        torch.manual_seed(seed)
        return self.build()

    def batch(self) -> tuple[Input, Tensor]:
        torch.manual_seed(1)
        x = self.inputs()
        return x, torch.arange(len(x)) % self.classes

    def split(self, model: nn.Module) -> SplitClassifier:
        return split(model, head=self.head if self.named else None, call=self.call)


def picture() -> Tensor:
    return torch.rand(4, 3, 8, 8)


def vector() -> Tensor:
    return torch.rand(4, 6)


def series() -> Tensor:
    return torch.rand(4, 7, 5)


def sound() -> Tensor:
    return torch.randn(4, 1, 64)


def table() -> Tensor:
    return torch.cat([torch.tensor([[0.0, 3], [1, 2], [2, 1], [1, 0]]), torch.rand(4, 4)], 1)


def graph() -> Tensor:
    return torch.cat([(torch.rand(4, 5, 5) > 0.5).float(), torch.rand(4, 5, 3)], 2)


def text() -> Input:
    return sentences([6, 4, 5, 6], special=True)


def with_ids(model: nn.Module, x: Any) -> Any:
    return model(x.ids)


def with_lengths(model: nn.Module, x: Any) -> Any:
    return model(x.ids, x.mask.sum(1).clamp(min=1))


PICTURES = [
    Entry(
        "mlp",
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 3)),
        picture,
        head="4",
    ),
    Entry("lenet", pictures.LeNet, picture, head="fc3", named=True),
    Entry("lenet_unnamed", pictures.LeNet, picture, refused="no layer is clearly the head of this LeNet"),
    Entry("batch_norm", pictures.BatchNormed, picture, head="linear"),
    Entry("resnet", pictures.ResNet, picture),
    Entry("timm", pictures.Timm, picture),
    Entry("timm_head", pictures.TimmHead, picture, head="head.fc"),
    Entry("vit_class_token", lambda: pictures.ViT(True), picture, head="heads.head"),
    Entry("vit_mean", lambda: pictures.ViT(False), picture, head="heads.head"),
    Entry("convnext", pictures.ConvNeXt, picture, head="classifier.2"),
    Entry("densenet", pictures.DenseNet, picture, head="classifier"),
    Entry("vgg", pictures.VGG, picture, head="classifier.3"),
    Entry("squeezenet", lambda: pictures.SqueezeNet(False), picture, head="classifier.1"),
    Entry("squeezenet_relu", lambda: pictures.SqueezeNet(True), picture, refused="the model changes its output"),
    Entry("inception", pictures.Inception, picture),
    Entry("mixer", pictures.Mixer, picture, head="head"),
    Entry("unet", pictures.UNet, picture, head="output"),
    Entry("mobilenet", pictures.MobileNet, picture, head="classifier.3"),
    Entry("checkpointed", lambda: pictures.Checkpointed(False), picture),
    Entry("checkpointed_always", lambda: pictures.Checkpointed(True), picture, statistics="moving"),
    Entry("volume_pointwise", pictures.Grayscale3d, picture, head="head"),
    Entry("poise_lenet", lambda: poise.LeNet(num_classes=3), lambda: torch.rand(4, 1, 28, 28), head="head"),
]
SEQUENCES = [
    Entry("lstm_text", sequences.LSTMText, text, call=with_ids),
    Entry("packed_bidirectional", sequences.PackedText, text, head="classifier.2", call=with_lengths),
    Entry("gru", lambda: sequences.Recurrent(nn.GRU), series, head="output_layer"),
    Entry("bidirectional_lstm", lambda: sequences.Recurrent(nn.LSTM, True), series, head="output_layer"),
    Entry("transformer_encoder", sequences.Encoder, series, head="score"),
    Entry("graph", sequences.Graph, graph, head="head"),
    Entry("sound", lambda: sequences.Sound(False), sound),
    Entry("sound_pointwise", lambda: sequences.Sound(True), sound),
    Entry("log_mel", sequences.LogMel, sound),
    Entry("table", sequences.Table, table, head="output"),
    Entry("deep_sets", sequences.DeepSets, series, head="head.2"),
    Entry("bfloat16_body", lambda: sequences.Halved(False), vector),
    Entry("bfloat16_body_text", lambda: sequences.Halved(True), text, call=with_ids),
]
OUTPUTS = [
    Entry("in_a_dict", lambda: TwoHeads(quirks.in_a_dict), vector),
    Entry("in_a_tuple", lambda: TwoHeads(quirks.in_a_tuple), vector),
    Entry("in_a_namedtuple", lambda: TwoHeads(quirks.Two), vector),
    Entry("in_a_dataclass", lambda: TwoHeads(quirks.in_a_dataclass), vector),
    Entry(
        "nameless_dict", lambda: TwoHeads(quirks.in_a_nameless_dict), vector, refused="returned a dict of regression"
    ),
    Entry(
        "nameless_dict_called",
        lambda: TwoHeads(quirks.in_a_nameless_dict),
        vector,
        call=lambda model, x: model(x)["classes"],
    ),
    Entry(
        "other_head_first",
        lambda: TwoHeads(lambda a, b: (b, a)),
        vector,
        refused="the model's output also comes from other layers",
    ),
    Entry("single_logit", quirks.Single, vector, classes=2),
    Entry("single_logit_squeezed", lambda: quirks.Single(True), vector, classes=2),
    Entry("squeeze_of_many", quirks.Squeezing, vector),
    Entry("squeeze_of_one", quirks.Squeezing, lambda: torch.rand(1, 6), refused="keep the batch axis"),
    Entry("every_moment", quirks.Sequences, vector, refused="logits"),
    Entry("numpy", quirks.Numpy, vector, refused="the model returned a ndarray"),
]
WRAPPED = [
    Entry("around", lambda: Around(Net()), vector, head="net.fc"),
    Entry("normalised", lambda: Normalised(Net()), vector, head="net.fc"),
    Entry("sequential", lambda: nn.Sequential(nn.Linear(6, 6), Around(Net())), vector, head="1.net.fc"),
    Entry("data_parallel", lambda: nn.DataParallel(Net()), vector, head="module.fc"),
    Entry("compiled_body", quirks.compiled_body, vector),
    Entry("compiled_head", quirks.compiled_head, vector, head="fc._orig_mod"),
    Entry("compiled_part", lambda: Around(torch.compile(Net(), backend="eager")), vector, head="net._orig_mod.fc"),
    Entry("compiled_in_place", quirks.compiled_in_place, vector),
    Entry("compiled", lambda: torch.compile(Net(), backend="eager"), vector, refused="split it first"),
    Entry("traced", lambda: torch.jit.trace(quirks.Plain(), quirks.X), vector, refused="torch.jit"),
    Entry("scripted", lambda: torch.jit.script(quirks.Plain()), vector, refused="torch.jit"),
    Entry("symbolic_trace", lambda: torch.fx.symbolic_trace(quirks.Plain()), vector),
    Entry("exported", quirks.exported, vector, refused="It has no Linear layer"),
    Entry("scripted_body", quirks.scripted_body, vector),
    Entry("lora_body", lambda: quirks.adapted(True, None), vector),
    Entry("lora_head", lambda: quirks.adapted(True, LoRA), vector, head="fc"),
    Entry("lora_saved_head", lambda: quirks.adapted(True, Saved), vector, head="fc.modules_to_save.default"),
    Entry("added_heads", quirks.merged_heads, vector, named=True),
    Entry("added_heads_unnamed", quirks.merged_heads, vector, refused="or the module that returns the logits"),
    Entry("accelerate", lambda: quirks.hooked_by_accelerate("", "net", "net.body", "net.fc"), vector, head="net.fc"),
    Entry("accelerate_head", lambda: quirks.hooked_by_accelerate("net.fc"), vector, head="net.fc"),
    Entry("accelerate_bf16", quirks.prepared_by_accelerate, vector, rounding=1e-2),
    Entry("autocast_inside", quirks.Autocasting, vector, rounding=1e-2),
    Entry("old_forward", quirks.old_forward, vector, refused="remove_hook_from_module"),
    Entry("replaced_forward", quirks.replaced_forward, vector, refused="forward of this Net was replaced"),
]
QUIRKS = [
    Entry("weight_norm", quirks.weight_normed, vector),
    Entry("spectral_norm", quirks.spectral_normed, vector),
    Entry("tied", quirks.Tied, vector, head="head"),
    Entry("lazy", quirks.lazy, vector, head="3"),
    Entry("cosine", quirks.cosine, vector, named=True),
    Entry("cosine_unnamed", quirks.cosine, vector, refused="or the module that returns the logits"),
    Entry("factored", quirks.Factored, vector, head="fc.1"),
    Entry("by_task", quirks.ByTask, vector, head="tasks.colour", named=True),
    Entry("ensemble", quirks.Ensemble, vector, head="members.1.fc", named=True, refused="also comes from other layers"),
    Entry("mean_of_two", lambda: Twice(quirks.mean_of_two), vector),
    Entry("sum_of_two", lambda: Twice(torch.add), vector, refused="the model changes its output"),
    Entry("difference_of_two", lambda: Twice(torch.sub), vector, refused="the model changes its output"),
    Entry("head_on_itself", quirks.OnItself, vector, refused="the model changes its output"),
    Entry("temperature", quirks.Temperature, vector, refused="applies 'temperature', which is learned"),
    Entry("soft_cap", lambda: Ending(quirks.soft_cap), vector, refused="the model changes its output"),
    Entry("doubled", lambda: Ending(quirks.doubled), vector, refused="the model changes its output"),
    Entry("softmax", lambda: Ending(partial(torch.softmax, dim=1)), vector, refused="without softmax"),
    Entry("log_softmax", lambda: Ending(partial(torch.log_softmax, dim=1)), vector, refused="without log_softmax"),
    Entry("sigmoid", lambda: Ending(torch.sigmoid), vector, refused="without sigmoid"),
    Entry("argmax", lambda: Ending(partial(torch.argmax, dim=1)), vector, refused="the model changes its output"),
    Entry("reads_weight", quirks.ReadsWeight, vector, refused="the model does not call it"),
    Entry("masked_classes", quirks.Masked, vector, refused="the model changes its output"),
    Entry("permuted_classes", quirks.Permuted, vector, refused="the model changes its output"),
    Entry("hooked", lambda: quirks.hooked(False), vector),
    Entry("changed_by_hooks", lambda: quirks.hooked(True), vector),
    Entry("counting", quirks.Counting, vector),
    Entry("own_embed", quirks.Own, vector, head="head"),
    Entry("frozen_body", quirks.frozen, vector),
]
HUGGING_FACE = [
    Entry("hf_bert", lambda: hugging_face("bert"), text, head="classifier"),
    Entry("hf_roberta", lambda: hugging_face("roberta"), text, head="classifier.out_proj"),
    Entry("hf_xlm_roberta", lambda: hugging_face("xlm-roberta"), text, head="classifier.out_proj"),
    Entry("hf_mpnet", lambda: hugging_face("mpnet"), text, head="classifier.out_proj"),
    Entry("hf_electra", lambda: hugging_face("electra"), text, head="classifier.out_proj"),
    Entry("hf_albert", lambda: hugging_face("albert"), text, head="classifier"),
    Entry("hf_deberta_v2", lambda: hugging_face("deberta-v2"), text, head="classifier"),
    Entry("hf_distilbert", lambda: hugging_face("distilbert"), text, head="classifier"),
    Entry("hf_gpt2", lambda: hugging_face("gpt2"), text, head="score"),
    Entry("hf_llama", lambda: hugging_face("llama"), text, head="score"),
    Entry("hf_bart", lambda: hugging_face("bart"), ended, head="classification_head.out_proj", named=True),
    Entry("hf_t5", lambda: hugging_face("t5"), ended, head="classification_head.out_proj", named=True),
    Entry("hf_vit", lambda: hugging_face("vit", "ImageClassification"), picture, head="classifier"),
    Entry("hf_swin", lambda: hugging_face("swin", "ImageClassification"), picture, head="classifier"),
    Entry("hf_convnext", lambda: hugging_face("convnext", "ImageClassification"), picture, head="classifier"),
    Entry("hf_wav2vec2", sounding, wave, head="classifier", own_forward=True),
    Entry("hf_wav2vec2_frozen", lambda: sounding(freeze=True), wave, head="classifier"),
    Entry("hf_wav2vec2_short", sounding, lambda: torch.randn(4, 60), refused="`mask_length` has to be smaller"),
]
ZOO = [*PICTURES, *SEQUENCES, *OUTPUTS, *WRAPPED, *QUIRKS, *HUGGING_FACE]
