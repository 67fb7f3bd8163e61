"""Evaluation of trained classifiers: accuracy by class, and under corruptions."""
