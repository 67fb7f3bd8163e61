"""Utility from a teacher, mixed with the model's own (section 3, discussion): distillation of what matters.

    python examples/teacher_utility.py

A large teacher has seen 4,000 examples, the small student sees 200. The student's own utility and the teacher's are
mixed half and half to choose what is perturbed.
"""

import torch
from torch import nn

import poise


def examples(size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(size, 20, generator=torch.Generator().manual_seed(seed))
    return x, ((x[:, 0] * x[:, 1] > 0).long() + 2 * (x[:, 2] > 1).long())


def fit(model: nn.Module, objective: poise.Objective, x: torch.Tensor, y: torch.Tensor, steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        rows = torch.randint(len(x), (100,), generator=generator)
        optimizer.zero_grad()
        objective(model, x[rows], y[rows], step, generator=generator).total.backward()
        optimizer.step()


def network(width: int) -> poise.SplitClassifier:
    return poise.split(
        nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 4))
    )


def main(steps: int = 500) -> dict[str, float]:
    torch.manual_seed(0)
    teacher = network(256)
    fit(teacher, poise.XE(), *examples(4000, seed=1), steps)
    utilities = {
        "its own utility": poise.GradientUtility(),
        "the teacher's utility": poise.TeacherUtility(teacher, name="wide"),
        "both": poise.MixedUtility((poise.GradientUtility(), poise.TeacherUtility(teacher, name="wide")), (0.5, 0.5)),
    }
    test_x, test_y = examples(4000, seed=3)
    accuracies = {}
    for name, utility in utilities.items():
        torch.manual_seed(1)
        student = network(32)
        select, perturb, contrast = poise.TopBottom(k=3), poise.Gaussian(sigma=0.5), poise.InfoNCE(temperature=0.5)
        fit(student, poise.FCL(utility, select, perturb, contrast, weight=0.1), *examples(200, seed=2), steps)
        accuracies[name] = (student(test_x).argmax(1) == test_y).float().mean().item()
        print(f"student with {name}: accuracy {accuracies[name]:.3f}")
    return accuracies


if __name__ == "__main__":
    main()
