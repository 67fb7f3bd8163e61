"""FCL in Lightning: the objective is the whole training_step.

    pip install ".[lightning]"
    python examples/lightning_module.py

Automatic optimisation, precision plugins, accumulation and logging work as with any loss. On several devices, negatives
are gathered across all of them.
"""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import poise


class Classifier(lightning.LightningModule):
    def __init__(self, network: nn.Module, objective: poise.Objective) -> None:
        super().__init__()
        self.model = poise.split(network)
        self.objective = objective

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        x, y = batch
        loss = self.objective(self.model, x, y, self.global_step)
        self.log_dict(dict(loss.parts), prog_bar=True)
        return loss.total

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(epochs: int = 8, **trainer_options: object) -> Classifier:
    torch.manual_seed(0)
    y = torch.arange(512) % 2
    x = torch.rand(512, 1, 16, 16)
    x[y == 1, :, 4:8, 4:8] *= 0.5  # a darker square
    body = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 32), nn.ReLU()]
    network = nn.Sequential(*body, nn.Linear(32, 2))
    objective = poise.FCL(
        utility=poise.GradientUtility(),
        select=poise.TopBottom(k=32),
        perturb=poise.Gaussian(sigma=0.3, clip=(0, 1)),
        contrast=poise.InfoNCE(temperature=0.1),
        weight=poise.Ramp(0.01, start=8),
    )
    module = Classifier(network, objective)
    options = {"logger": False, "enable_checkpointing": False, "accelerator": "auto", **trainer_options}
    lightning.Trainer(max_epochs=epochs, **options).fit(module, DataLoader(TensorDataset(x, y), batch_size=64))
    return module


if __name__ == "__main__":
    main()
