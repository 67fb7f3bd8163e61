"""The command `poise`, and `python -m poise`."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from poise.cli import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "numpy"):
            raise
        sys.exit('the command line needs a few packages more: pip install "poise[cli]"')
    run()


if __name__ == "__main__":
    main()
