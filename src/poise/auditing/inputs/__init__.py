"""Inputs of an audit beside models and images: text, and the fit of models and data."""
