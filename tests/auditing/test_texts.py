"""Tokenizers from a folder: none of its code runs."""

import builtins
import json
import sys
from pathlib import Path

import pytest

from poise.auditing.inputs.texts import open_tokenizer
from poise.errors import AuditError


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
    with pytest.raises(AuditError, match="has no tokenizer that can be loaded"):
        open_tokenizer(tmp_path, 16)
    assert asked == [] and not mark.exists()
