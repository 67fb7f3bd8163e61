"""Rare details under noise: which method keeps both, on digits, corner CIFAR and long-tailed CIFAR-10.

Each part has a file: digits.py, corner_cifar.py and long_tailed.py. The digits have no compressed version.
"""

from __future__ import annotations

from poise.recipes.rare_details import corner_cifar, digits, long_tailed

EXPERIMENTS = {
    length: (*digits.EXPERIMENTS.get(length, ()), *corner_cifar.EXPERIMENTS[length], *long_tailed.EXPERIMENTS[length])
    for length in corner_cifar.EXPERIMENTS
}
