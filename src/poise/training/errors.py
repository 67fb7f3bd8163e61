"""What can go wrong in training, said in a sentence."""


class TrainingError(Exception):
    """A run cannot go on; the message says where it stands and what to do."""
