"""The paper's experiments as recipes."""
