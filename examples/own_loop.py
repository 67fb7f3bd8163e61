"""FCL in your own loop: any model, five lines that matter (marked).

    python examples/own_loop.py

The task: eight noisy features and one switch. If the switch is on (one example in ten), feature 1 decides; otherwise
feature 2 does. These settings are not the paper's.
"""

import torch
from torch import nn

import poise


def batch(size: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    x = 0.5 * torch.randn(size, 8, generator=generator)
    switch, first, second = torch.rand(3, size, generator=generator) < torch.tensor([[0.1], [0.5], [0.5]])
    x[:, :3] += 2.0 * torch.stack([switch, first, second], dim=1) - 1
    return x, torch.where(switch, 2 + first.long(), second.long())


def main(steps: int = 400) -> float:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4))
    model = poise.split(network)  # 1: the last linear layer is the head, the rest is the embedding
    objective = poise.FCL(  # 2
        utility=poise.GradientUtility(),
        select=poise.TopBottom(k=2),
        perturb=poise.Gaussian(sigma=0.5),
        contrast=poise.InfoNCE(temperature=0.5),
        weight=poise.Ramp(0.1, start=100, length=100),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        x, y = batch(128, generator)
        loss = objective(model, x, y, step)  # 3
        optimizer.zero_grad()
        loss.total.backward()  # 4
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1}: " + ", ".join(f"{name} {float(value):.3f}" for name, value in loss.parts.items()))
    x, y = batch(2000, generator)
    accuracy = (network(x).argmax(1) == y).float().mean().item()  # 5: the network itself was trained
    print(f"accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
