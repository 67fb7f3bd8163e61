"""Two methods that differ in lambda alone, and one that is a fleet of its own."""

from dataclasses import replace

import miniature

from poise.running.experiment import Method

XE, CL, _ = miniature.EXPERIMENT.methods
STRONGER = Method("CL+Gaussian, stronger", replace(CL.objective, weight=replace(miniature.CONTRAST, peak=0.1)))
EXPERIMENT = replace(miniature.EXPERIMENT, methods=(XE, CL, STRONGER), groups=(), paper={})
