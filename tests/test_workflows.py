"""The workflows of GitHub run what is here: targets of the Makefile, versions of Python that are tested."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_commands_are_targets_of_the_makefile(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text(encoding="utf8"))["jobs"].values()
    made = [word for job in jobs for step in job["steps"] for word in made_by(step.get("run", ""))]
    assert [word for word in made if not re.search(rf"^{word}:|^\.PHONY:.* {word}\b", MAKEFILE, re.M)] == []
    assert all(job["timeout-minutes"] <= 30 for job in jobs if len(job["steps"]) > 2)


def made_by(run: str) -> list[str]:
    """The targets of a step's make command."""
    words = re.sub(r"\S*\$\{\{.*?\}\}", "", run).split()[1:] if run.startswith("make ") else []
    return [word for word in words if "=" not in word]


def test_only_the_publishing_job_may_ask_for_a_token() -> None:
    for path in WORKFLOWS:
        content = yaml.safe_load(path.read_text(encoding="utf8"))
        assert content["permissions"] == {"contents": "read"}
        asking = [name for name, job in content["jobs"].items() if "id-token" in job.get("permissions", {})]
        assert asking == {"publish": ["publish"], "docs": ["deploy"], "tests": []}[path.stem]
