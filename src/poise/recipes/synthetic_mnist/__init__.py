"""Synthetic MNIST (section 4.2): Table 1, and the studies around it."""
