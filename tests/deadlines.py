"""Deadlines that come without anybody waiting for them."""


class Soon(float):
    """A deadline that comes when it has been looked at so many times."""

    def __init__(self, looks: int) -> None:
        self.looks, self.looked = looks, 0

    def __le__(self, now: float) -> bool:
        self.looked += 1
        return self.looked > self.looks
