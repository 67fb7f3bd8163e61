"""Three methods, two of which share their first epochs; a sweep of two values."""

from dataclasses import replace

import miniature

EXPERIMENT = replace(miniature.EXPERIMENT, seeds=1)
SWEEP = replace(miniature.SWEEP, experiment=EXPERIMENT, choices={"objective.select.k": (20, 40)}, seeds=2)
