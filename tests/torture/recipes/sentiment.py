"""Section 4.1 in miniature."""

import tiny_sst

EXPERIMENT = tiny_sst.tiny(epochs=3, seeds=1)
