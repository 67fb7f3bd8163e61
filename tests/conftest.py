import pytest

try:
    import torch
except ModuleNotFoundError:  # `make pythons` runs without it
    torch = None  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def _seed() -> None:
    if torch is not None:
        torch.manual_seed(0)
