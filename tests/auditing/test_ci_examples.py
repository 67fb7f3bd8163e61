"""examples/ci: the files parse, and their commands pass for a model like the baseline and fail for a worse one."""

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audit_command import NETS, poise, quarters

yaml = pytest.importorskip("yaml")
FOLDER = Path(__file__).parents[2] / "examples" / "ci"


def strings(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for each in content.values() if isinstance(content, dict) else content if isinstance(content, list) else []:
        yield from strings(each)


@pytest.mark.parametrize("name", ["github-actions.yml", "pre-commit-config.yaml"])
def test_its_command_fails_for_a_worse_model(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = [text for text in strings(yaml.safe_load((FOLDER / name).read_text())) if "poise audit" in text]
    program, audit, *words = shlex.split(command)
    assert (program, audit) == ("poise", "audit")
    few = ("--probes", "2", "--corruptions", "gaussian_noise", "--quiet")
    monkeypatch.chdir(tmp_path)
    quarters(tmp_path / "test.npz")
    (tmp_path / "my_code.py").write_text(NETS.replace("def net(", "def network(").replace("net(0.07)", "network(0.3)"))
    assert poise(monkeypatch, "my_code.py:network", "--data", "test.npz", *few) == 0
    shutil.copy(tmp_path / "audit" / "audit.json", tmp_path / "audit-baseline.json")
    assert poise(monkeypatch, *words, *few) == 0
    words[0] = "my_code.py:worse"
    assert poise(monkeypatch, *words, *few) not in (0, 2)
