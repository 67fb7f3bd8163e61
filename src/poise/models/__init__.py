"""phi and h: the paper's four networks, and a way to see any classifier as embed + head."""
