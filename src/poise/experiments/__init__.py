"""One file per table of the paper: recipes, not code."""
