"""Audits of trained classifiers: whether their sensitivity follows the utility of features."""
