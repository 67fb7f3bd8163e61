"""Tokenizers from a folder: none of its code runs."""

import builtins
import json
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from poise.auditing.texts import open_tokenizer
from poise.errors import AuditError
from poise.inputs.hugging_face import from_folder


@pytest.mark.parametrize("kind", ["llama", "bert", "unheard-of"])
def test_code_of_a_tokenizer_s_folder_is_not_run(kind: str, tmp_path: Path, monkeypatch) -> None:
    """Nor is anybody asked whether it may."""
    pytest.importorskip("transformers", reason="pip install '.[transformers]'")
    own = {"auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, **own}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Own", **own}))
    mark = tmp_path / "was-run"
    (tmp_path / "own.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    asked: list[str] = []
    monkeypatch.setattr(builtins, "input", lambda prompt="": asked.append(prompt) or "y")
    monkeypatch.setattr(sys.stdin, "readline", lambda: "y\n", raising=False)
    with pytest.raises(AuditError, match=r"the tokenizer of .* cannot be loaded"):
        open_tokenizer(tmp_path, 16)
    assert asked == [] and not mark.exists()


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "config.json"])
@pytest.mark.parametrize("content", ["[]", "7", "null", '{"model": 0, "version": 0}', "{", ""])
def test_a_damaged_file_of_a_folder_is_one_sentence(name: str, content: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install '.[transformers]'")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    if name in ("config.json", "preprocessor_config.json"):
        config = transformers.ViTConfig(image_size=16, patch_size=8, **sizes)
        transformers.ViTForImageClassification(config).save_pretrained(tmp_path)
        opened = partial(from_folder, tmp_path, trust=False)
    else:
        (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\n")
        transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
        opened = partial(open_tokenizer, tmp_path, 16)
    opened()
    (tmp_path / name).write_text(content)
    with suppress(AuditError):  # some of these mean as much as no file does
        opened()
