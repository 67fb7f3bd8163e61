"""Models and data of another precision than float32 are audited together, and the model stays."""

import pytest
import torch
from torch import nn
from toys import same_state, state_of

from poise import audit


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_data_come_in_the_model_s_own_precision(kind: torch.dtype) -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)).to(kind)
    before = state_of(model)
    x, y = torch.rand(8, 6).to(kind), torch.arange(8) % 3
    found = audit(model, [(x, y)], corruptions="none")
    assert found is not None and same_state(before, state_of(model))
    assert {p.dtype for p in model.parameters()} == {kind}
