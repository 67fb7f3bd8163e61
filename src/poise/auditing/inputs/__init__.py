"""Inputs of an audit: models, weights, images, tables and text."""
