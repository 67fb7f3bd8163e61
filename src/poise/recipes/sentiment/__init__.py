"""Sentiment (section 4.1): the treebank, and human scores."""
