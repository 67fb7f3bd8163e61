"""Sentiment (section 4.1): the treebank, and agreement with human scores."""
