"""Section 2 of the paper: the utility of features, the embedding's sensitivity to them, and their perturbation."""
