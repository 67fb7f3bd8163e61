"""The accuracy on pairs: an example and its twin, in which the detail that decides is changed, are both right."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from poise.evaluation.accuracy import pair_accuracy
from poise.running.experiment import Examples, Task
from poise.running.judge import placed


@dataclass(frozen=True)
class PairAccuracy:
    """{"TEST, pairs": accuracy} for every test set whose examples name their twins."""

    def __call__(self, model: nn.Module, task: Task) -> dict[str, float]:
        device = next(model.parameters()).device
        found = {}
        for name, make in task.tests.items():
            examples = make(device)
            if isinstance(examples, Examples) and examples.twins is not None:
                rows, labels = placed(examples, device)
                twins = torch.from_numpy(examples.twins).long().to(device)
                found[f"{name}, pairs"] = pair_accuracy(model, rows, labels, twins)
        return found
