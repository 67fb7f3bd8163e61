"""Folders as of Hugging Face that mean harm: {name: what changes a good one}; their code would write a file `ran`."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torture.hostile_files import Bomb

Change = Callable[[Path], None]
_OWN = "own.Own"
_MAPS = {
    f"Auto{kind}": _OWN
    for kind in ("Config", "Model", "ModelForSequenceClassification", "ModelForImageClassification", "ImageProcessor")
} | {"AutoTokenizer": [_OWN, _OWN]}


def good(folder: Path) -> None:
    """BERT, of two words."""
    import transformers

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=7, num_labels=2, max_position_embeddings=16, **sizes)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')


def _facts(name: str = "config.json", **facts: Any) -> Change:
    """Other fields of a JSON file."""

    def change(folder: Path) -> None:
        path = folder / name
        held = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**held, **facts}))

    return change


def _own(*changes: Change) -> Change:
    """With a module that leaves a mark when it is imported."""

    def change(folder: Path) -> None:
        code = f"from pathlib import Path\nPath({str(folder.parent / 'ran')!r}).touch()\nclass Own: ...\n"
        for name in ("own.py", "tokenization_own.py", "modeling_own.py"):
            (folder / name).write_text(code)
        for each in changes:
            each(folder)

    return change


def _content(name: str, content: bytes) -> Change:
    def change(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return change


def _pickled(folder: Path) -> None:
    torch.save(Bomb(folder.parent), folder / "pytorch_model.bin")


def _only_pickled(folder: Path) -> None:
    _pickled(folder)
    (folder / "model.safetensors").unlink()


def _cut(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def _linked(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/dev/zero")


def _index(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    outside = {"metadata": {}, "weight_map": {"a": "../../../../etc/passwd"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(outside))


def _unmarked(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


_TOKENIZER = partial(_facts, "tokenizer_config.json")
_DEEP = b'{"a":' + b"[" * 100_000
HUBS: dict[str, Change] = {
    "code for the model": _own(_facts(auto_map=_MAPS)),
    "code for a model of no kind": _own(_facts(auto_map=_MAPS, model_type="own")),
    "code for a model like llama": _own(_facts(auto_map=_MAPS, model_type="llama")),
    "code for the tokenizer": _own(_TOKENIZER(tokenizer_class="Own", auto_map=_MAPS)),
    "code for a tokenizer like llama": _own(
        _facts(model_type="llama"), _TOKENIZER(tokenizer_class="LlamaTokenizer", auto_map=_MAPS)
    ),
    "code for a tokenizer of no kind": _own(_unmarked("vocab.txt"), _TOKENIZER(tokenizer_class="Own", auto_map=_MAPS)),
    "code for the processor": _own(
        _facts(architectures=["ViTForImageClassification"], auto_map=_MAPS),
        _facts("preprocessor_config.json", auto_map=_MAPS, image_processor_type="Own"),
    ),
    "code from elsewhere": _own(_facts(auto_map={"AutoModelForSequenceClassification": "../../own--own.Own"})),
    "code for attention": _own(_facts(attn_implementation="own", _attn_implementation="../own")),
    "a pickle": _only_pickled,
    "a pickle beside": _pickled,
    "weights cut": _cut,
    "weights of text": _content("model.safetensors", b"hello"),
    "weights with a long header": _content("model.safetensors", struct.pack("<Q", 2**62) + b"{}"),
    "weights of zeros": _linked,
    "weights outside": _index,
    "a configuration of text": _content("config.json", b"hello"),
    "a configuration that nests": _content("config.json", _DEEP),
    "a configuration that is a list": _content("config.json", b"[]"),
    "a huge network": _facts(hidden_size=2**20, intermediate_size=2**20, num_hidden_layers=1000),
    "a network below nothing": _facts(hidden_size=-8, num_hidden_layers=-1),
    "odd sizes": _facts(hidden_size="8", num_attention_heads=None, id2label=[]),
    "odd labels": _facts(id2label={"a": "b", "0": "\x1b[2J"}, architectures="x"),
    "odd architectures": _facts(architectures=[1, None, {}]),
    "odd quantization": _facts(quantization_config={"quant_method": "own", "load_in_8bit": True}),
    "a tokenizer that nests": _content("tokenizer.json", _DEEP),
    "a tokenizer of text": _content("tokenizer.json", b"hello"),
    "words of other bytes": _content("vocab.txt", bytes(range(256)) * 100),
    "an adapter": _content("adapter_config.json", b'{"base_model_name_or_path": "own/own", "peft_type": "LORA"}'),
}
