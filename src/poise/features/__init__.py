"""Section 2 of the paper: what a feature is worth, how much the embedding moves with it, and how to nudge it."""
