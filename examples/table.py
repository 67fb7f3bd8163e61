"""FCL on tabular data, and what its model uses: utility and sensitivity, column by column.

    python examples/table.py

A table of sensor readings: `pressure` decides in the rare rows where the `valve` is open, `flow` in all the others. The
columns have the same scale (mean 0, deviation 1), so that one sigma fits all of them: scale your own table, too.
"""

import torch
from torch import nn

import poise

COLUMNS = ["valve", "pressure", "flow", "humidity", "voltage", "age"]


def readings(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(rows, len(COLUMNS), generator=generator)
    open_valve = table[:, 0] > 1.0
    alarm = torch.where(open_valve, table[:, 1] > 0, table[:, 2] > 0)
    return table, alarm.long()


def fit(objective: poise.Objective, steps: int) -> poise.SplitClassifier:
    torch.manual_seed(0)
    table, alarm = readings(4000, seed=1)
    model = poise.split(nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        rows = torch.randint(len(table), (256,), generator=generator)
        optimizer.zero_grad()
        objective(model, table[rows], alarm[rows], step, generator=generator).total.backward()
        optimizer.step()
    return model


def main(steps: int = 600) -> dict[str, float]:
    fcl = poise.FCL(
        utility=poise.GradientUtility(),
        select=poise.TopBottomFraction(0.2),
        perturb=poise.Gaussian(sigma=0.5),
        contrast=poise.InfoNCE(temperature=0.5),
        weight=poise.Ramp(0.1, start=steps // 3),
    )
    table, alarm = readings(4000, seed=2)
    open_valve = table[:, 0] > 1.0
    accuracies = {}
    for name, objective in {"XE": poise.XE(), "FCL": fcl}.items():
        model = fit(objective, steps)
        right = (model(table).argmax(1) == alarm).float()
        accuracies[name] = right.mean().item()
        print(f"\n{name}: accuracy {right.mean():.3f}, where the valve is open {right[open_valve].mean():.3f}")
        u = poise.GradientUtility()(model, table, alarm)
        s = poise.JacobianSensitivity()(model, table)
        print(f"{'':10}{'utility':>18}{'sensitivity':>22}\n{'':10}{'open':>9}{'closed':>9}{'open':>13}{'closed':>9}")
        for column, title in enumerate(COLUMNS):
            means = [float(v[rows][:, column].mean()) for v in (u, s) for rows in (open_valve, ~open_valve)]
            print(f"{title:10}{means[0]:9.3f}{means[1]:9.3f}{means[2]:13.3f}{means[3]:9.3f}")
    return accuracies


if __name__ == "__main__":
    main()
