"""The paper's grids (section 4.3 and appendix C), for the sweeps of every table.

Where the paper gives the ends of a range only, "[0.0001...0.0004]", the values between are those of appendix C or ours.
"""

from __future__ import annotations

TEMPERATURES = (2.0, 1.0, 0.5, 0.1)  # tau
WEIGHTS = (1e-4, 2e-4, 4e-4)  # lambda
COUNTS = (256, 512, 1024, 2048)  # k
SIGMAS = (0.1, 0.3, 0.5)  # of Gaussian and of the perturbation
TOKEN_TEMPERATURES = (1.0, 0.1, 0.02)  # tau of section 4.1: the ends, and one between
TOKEN_FRACTIONS = (0.1, 0.2, 0.3)  # of the tokens of a sentence
PATCH_SIZES = (15, 20, 25)
PATCH_SIGMAS = (0.01, 0.05, 0.1)
WEIGHT_DECAYS = (5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3)  # not in the paper
