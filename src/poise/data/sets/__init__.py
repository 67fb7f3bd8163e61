"""The data sets: what they are, how to get them, and the cache that keeps them."""
