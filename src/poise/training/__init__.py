"""Training: plans, steps, the loop and its checkpoints."""
