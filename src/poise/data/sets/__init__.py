"""Data sets: the catalogue, how to get them, and the cache that stores them."""
