"""Colours of heat maps: the same in light and dark, with text that can be read on them."""

from __future__ import annotations

from itertools import pairwise

Ramp = tuple[tuple[int, int, int], ...]

ACCURACY: Ramp = ((24, 32, 66), (33, 84, 124), (52, 140, 148), (131, 192, 158), (234, 240, 196))
DIFFERENCE: Ramp = ((150, 54, 42), (219, 142, 112), (243, 240, 234), (116, 170, 190), (28, 96, 128))
STRENGTH: Ramp = ((243, 240, 234), (186, 209, 214), (116, 170, 190), (28, 96, 128))


def colour(ramp: Ramp, share: float) -> str:
    """The colour at a share from 0 to 1 of a ramp."""
    at = min(1.0, max(0.0, share)) * (len(ramp) - 1)
    below, above = list(pairwise(ramp))[min(int(at), len(ramp) - 2)]
    rest = at - min(int(at), len(ramp) - 2)
    return "#" + "".join(f"{round(a + (b - a) * rest):02x}" for a, b in zip(below, above, strict=True))


def text_on(background: str) -> str:
    """Near black or white, whichever has the higher contrast."""
    channels = [int(background[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#141820" if luminance > 0.18 else "#ffffff"
