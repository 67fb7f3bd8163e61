"""Rare details under noise: which method keeps both, on four kinds of data."""
