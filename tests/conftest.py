import signal

import pytest

try:
    import torch
except ModuleNotFoundError:  # `make pythons` runs without it
    torch = None  # type: ignore[assignment]


if hasattr(signal, "SIGHUP"):  # nohup has it ignored, and commands that tests start inherit that
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _seed() -> None:
    if torch is not None:
        torch.manual_seed(0)
