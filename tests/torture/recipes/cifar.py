"""Noisy CIFAR in miniature, with a home of models that tables share."""

import tiny_cifar

from poise.recipes.cifar import noisy_cifar

EXPERIMENT = tiny_cifar.tiny(noisy_cifar.table, epochs=2)
