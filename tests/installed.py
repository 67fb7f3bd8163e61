"""What `make release-check` runs with a Python that has Poise from its wheel alone:

python tests/installed.py blocks    the code blocks of the README and of docs/start.md
python tests/installed.py tables    imports, tables and a page, without torch
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path = [place for place in sys.path if not Path(place).resolve().is_relative_to(ROOT / "tests")]


def blocks() -> None:
    for page in ("README.md", "docs/start.md"):
        for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf8"), re.DOTALL):
            exec(compile(block, page, "exec"), {})


def tables() -> None:
    command = [sys.executable, "-m", "poise"]
    for words in (["--version"], ["list"], ["table", str(ROOT / "results" / "synthetic-mnist")]):
        subprocess.run([*command, *words], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*command, "report", str(ROOT / "results" / "synthetic-mnist"), "--out", "page.html"], check=True)
    if Path("page.html").stat().st_size < 100_000:
        sys.exit("the page is too small")


def main() -> None:
    import poise

    if Path(poise.__file__).is_relative_to(ROOT / "src"):
        sys.exit(f"{poise.__file__} is not of a wheel")
    os.chdir(tempfile.mkdtemp())
    {"blocks": blocks, "tables": tables}[sys.argv[1]]()
    print(f"{sys.argv[1]}: right with poise {poise.__version__} on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
