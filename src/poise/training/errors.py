"""What can go wrong in training, said in a sentence."""


class TrainingError(Exception):
    """A run cannot go on; the message says where it stands and what to do."""


class NotFinite(TrainingError):
    """A part of the loss is NaN or infinite: it is the settings that are wrong; `place` is the run's in a fleet."""

    def __init__(self, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.place = place


class OutOfTime(TrainingError):
    """The time that a run was given is over; its checkpoint is kept."""


def out_of_time(after: str) -> OutOfTime:
    """The error of a run that stops after an epoch, a batch or a test."""
    return OutOfTime(f"the time limit was reached after {after}; run the same command to continue")
