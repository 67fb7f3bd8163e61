"""The objective that we recommend: adjusted logits, and a contrast on views with noise on random features.

    total = mean CE(f(x) + tau * log prior, y) + lambda * InfoNCE(z, phi(x + epsilon(S)), phi(x + epsilon(S')))

with S and S' disjoint random shares of the features. The first part keeps rare classes, the second makes noise
harmless. docs/rare-details.md compares it with the paper's choice of features by utility, and with others.
"""

from __future__ import annotations

from typing import Any

from poise.checks import require_number
from poise.features.external import EqualUtility
from poise.features.perturbation import Gaussian, Perturbation
from poise.features.selection import AtRandomFraction
from poise.losses import LogitAdjusted
from poise.objectives.contrast import InfoNCE
from poise.objectives.fcl import FCL
from poise.schedules import Schedule


def balanced_contrast(
    counts: Any,
    weight: Schedule | float = 0.01,
    *,
    share: float = 1 / 3,
    perturb: Perturbation = Gaussian(0.5),
    temperature: float = 0.1,
    tau: float = 1.0,
) -> FCL:
    """The objective, which trains a network to ignore noise and to keep its rare classes.

    counts       the training examples of each class: numbers, or what `poise.class_counts` finds.
    weight       lambda: more for more robustness, less for more accuracy without noise; .001 to .1.
    share        the share of the features that a view perturbs, up to .5.
    perturb      the noise: Gaussian(sigma) for pictures in [0, 1] and standardised numbers, Remove() for Tokens.
    temperature  of the contrast; lower separates examples that are alike more sharply.
    tau          of LogitAdjusted: more for rare classes, 0 for cross-entropy.

    >>> objective = balanced_contrast([4932, 5678, 50])
    >>> objective.weight, objective.select
    (0.01, AtRandomFraction(fraction=0.3333333333333333, per='value'))
    """
    require_number("share", share, above=0, most=0.5)
    return FCL(
        EqualUtility(),
        AtRandomFraction(share),
        perturb,
        InfoNCE(temperature),
        weight,
        loss=LogitAdjusted(counts, tau),
    )
