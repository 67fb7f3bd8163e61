"""Corrupted test sets: a classifier's accuracy on them, and making them on disk."""
