"""Which method suits your data? Put your network and your examples in place of these.

    poise advise examples/own_data.py

A table of 1,500 rows and 6 columns; the second of its three classes is rare. `train` is a pair (x, y) of arrays or
tensors, or a Dataset: pictures [N, H, W] or [N, C, H, W], a table [N, columns], or ids of tokens [N, T]. Optional names
are `validation` and `test`, like `train`, and `rare`, `epochs`, `batch_size`, `learning_rate` (docs/advise.md).
"""

import torch
from torch import nn

generator = torch.Generator().manual_seed(0)
y = torch.multinomial(torch.tensor([0.6, 0.04, 0.36]), 2500, replacement=True, generator=generator)
x = torch.randn(2500, 6, generator=generator)
x[:, 0] += 2.0 * (y == 2)
x[:, 1] += 3.0 * (y == 1)

train = x[:1500], y[:1500]
test = x[1500:], y[1500:]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3))
