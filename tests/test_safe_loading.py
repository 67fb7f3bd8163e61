"""Nothing that is read from a file runs: how the source may call what could."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "poise"
NEVER = ("eval", "exec", "input", "pickle.load", "pickle.loads", "yaml.load", "marshal.loads", "numpy.load")
NEEDED = {  # what a call must say
    "np.load": ("allow_pickle", False),
    "from_pretrained": ("trust_remote_code", False),
    "Image.open": ("formats", ...),
    "torch.load": ("weights_only", True),
}
TRUSTED = {("model_sources.py", "torch.load")}  # behind --trust


def unsafe(tree: ast.AST, file: str) -> list[str]:
    """The calls that are forbidden, or that leave out what they must say."""
    found = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func)
        said = {word.arg: getattr(word.value, "value", ...) for word in call.keywords}
        option, value = NEEDED.get(name, NEEDED.get(name.rpartition(".")[2], (None, None)))
        missing = option is not None and (option not in said or (value is not ... and said[option] is not value))
        if name in NEVER or (missing and (file, name) not in TRUSTED):
            found.append(f"{file}, line {call.lineno}: {name}")
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_that_is_read_can_run(path: Path) -> None:
    assert unsafe(ast.parse(path.read_text()), path.name) == []


@pytest.mark.parametrize(
    "call",
    [
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "Image.open(path)",
        "torch.load(path, weights_only=False)",
        "auto.from_pretrained(path)",
        "eval(text)",
        "pickle.loads(content)",
    ],
)
def test_an_unsafe_call_is_found(call: str) -> None:
    assert unsafe(ast.parse(call), "some.py") == [f"some.py, line 1: {call.partition('(')[0]}"]
