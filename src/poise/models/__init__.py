"""phi and h: the paper's four networks, and `split`, which presents any classifier as embed + head."""
