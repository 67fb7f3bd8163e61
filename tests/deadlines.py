"""Deadlines that come without anybody waiting for them, and deadlines of tests."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TooLate(BaseException):
    """What a test waited for takes longer than it may."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Ends what is done inside, even a call of the system that waits, when the time is up."""

    def end(*arguments: object) -> None:
        raise TooLate(f"it takes more than {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Soon(float):
    """A deadline that comes when it has been looked at so many times."""

    def __init__(self, looks: int) -> None:
        self.looks, self.looked = looks, 0

    def __le__(self, now: float) -> bool:
        self.looked += 1
        return self.looked > self.looks
