"""Data sets, augmentations, and the tasks made of them."""
