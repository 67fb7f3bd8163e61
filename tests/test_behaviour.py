"""What FCL is for: a feature that decides only in a context gets sensitivity there, and loses it elsewhere.

Three features: a switch, which is on in one example of ten; a key, which decides between classes 2 and 3 where the
switch is on and means nothing elsewhere; and a third, which decides between classes 0 and 1 where the switch is off.
"""

import pytest
import torch
from torch import Tensor, nn

from poise import FCL, XE, Gaussian, GradientUtility, InfoNCE, JacobianSensitivity, Objective, Ramp, TopBottom, split

pytestmark = pytest.mark.miniature


def batch(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    switch, key, third = torch.rand(3, size, generator=generator) < torch.tensor([[0.1], [0.5], [0.5]])
    noise = 0.05 * torch.randn(size, 3, generator=generator)
    x = 2.0 * torch.stack([switch, key, third], dim=1) - 1 + noise
    return x, torch.where(switch, 2 + key.long(), third.long()), switch


def sensitivity_to_the_key(objective: Objective, seed: int) -> tuple[float, float]:
    """The key's sensitivity in units of the mean over features: where the switch is on, and where it is off."""
    torch.manual_seed(seed)
    body = [nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh()]
    model = split(nn.Sequential(*body, nn.Linear(16, 4)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(seed)
    for step in range(700):
        x, y, _ = batch(128, generator)
        optimizer.zero_grad()
        objective(model, x, y, step, generator=generator).total.backward()
        optimizer.step()
    x, y, switch = batch(1000, torch.Generator().manual_seed(999))
    assert (model(x).argmax(1) == y).float().mean() > 0.99
    s = JacobianSensitivity()(model, x)
    share = s[:, 1] / s.mean(1)
    return share[switch].mean().item(), share[~switch].mean().item()


def test_fcl_makes_sensitivity_follow_the_context_and_xe_does_not() -> None:
    fcl = FCL(GradientUtility(), TopBottom(1), Gaussian(0.5), InfoNCE(0.5), weight=Ramp(3.0, start=200))
    results = {name: [sensitivity_to_the_key(o, seed) for seed in range(2)] for name, o in (("XE", XE()), ("FCL", fcl))}
    (xe_on, xe_off), (fcl_on, fcl_off) = (torch.tensor(results[name]).mean(0).tolist() for name in ("XE", "FCL"))
    assert fcl_on > 1.1 * xe_on, results
    assert fcl_off < 0.8 * xe_off, results
    assert xe_on < 1.1 * xe_off, results  # cross-entropy alone does not tell the contexts apart
    assert fcl_on > 1.5 * fcl_off, results
