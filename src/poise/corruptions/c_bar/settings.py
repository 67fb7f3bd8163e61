"""The constants of C-bar, of a level from 0 to 10. Five levels per corruption were published for each data set.

No levels exist for Tiny ImageNet. A corruption is known in the profiles whose data set contains it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from poise.corruptions.c_bar.patterns import CocentricSineWaves, PerlinNoise, PlasmaNoise, SingleFrequencyGreyscale
from poise.corruptions.c_bar.shapes import CheckerboardCutout, InverseSparkles, Lines, Sparkles
from poise.corruptions.c_bar.spectra import BlueNoiseSample, BrownishNoise
from poise.corruptions.c_bar.splines import CircularMotionBlur, TransverseChromaticAberration
from poise.corruptions.c_bar.warps import CausticRefraction, PinchAndTwirl, Ripple
from poise.corruptions.profiles import Setting, Settings

LEVELS: dict[str, dict[str, tuple[float, ...]]] = {
    "cifar": {
        "blue_noise_sample": (0.7, 1.4, 2.1, 3.5, 4.2),
        "checkerboard_cutout": (1, 2, 3, 4, 5),
        "inverse_sparkles": (1, 1.5, 2.5, 4.5, 5),
        "pinch_and_twirl": (5.5, 6, 6.5, 8.5, 10),
        "ripple": (5.5, 6, 6.5, 7.5, 8),
        "brownish_noise": (2.5, 4, 5.5, 6.5, 7),
        "circular_motion_blur": (2.8, 3.6, 4.4, 5.2, 6),
        "lines": (0.5, 1, 1.5, 2, 2.5),
        "sparkles": (0.7, 3.5, 5.6, 6.3, 7),
        "transverse_chromatic_abberation": (1, 2, 5, 9, 10),
    },
    "imagenet": {
        "caustic_refraction": (2.35, 3.2, 4.9, 6.6, 9.15),
        "inverse_sparkles": (1, 2, 4, 9, 10),
        "sparkles": (1, 2, 3, 5, 6),
        "perlin_noise": (4.6, 5.2, 5.8, 7.6, 8.8),
        "blue_noise_sample": (0.8, 1.6, 2.4, 4, 5.6),
        "plasma_noise": (4.75, 7, 8.5, 9.25, 10),
        "checkerboard_cutout": (2, 3, 4, 5, 6),
        "cocentric_sine_waves": (3, 5, 8, 9, 10),
        "single_frequency_greyscale": (1, 1.5, 2, 4.5, 5),
        "brownish_noise": (1, 2, 3, 4, 5),
    },
}


def _of(level: float, most: float) -> float:
    return level * most / 10


_MAKE: dict[str, Callable[[float], Setting]] = {
    "blue_noise_sample": lambda level: BlueNoiseSample(_of(level, 3) - 2.5),
    "brownish_noise": lambda level: BrownishNoise(_of(level, 64)),
    "caustic_refraction": lambda level: CausticRefraction(_of(level, 0.5), _of(level, 2)),
    "checkerboard_cutout": lambda level: CheckerboardCutout(_of(level, 1)),
    "circular_motion_blur": lambda level: CircularMotionBlur(_of(level, 15)),
    "cocentric_sine_waves": lambda level: CocentricSineWaves(_of(level, 128)),
    "inverse_sparkles": lambda level: InverseSparkles((100 - (100 - _of(level, 65))) / 50),
    "lines": lambda level: Lines(_of(level, 1)),
    "perlin_noise": lambda level: PerlinNoise(_of(level, 0.5)),
    "pinch_and_twirl": lambda level: PinchAndTwirl(_of(level, math.pi / 2), _of(level, 0.4) + 0.1),
    "plasma_noise": lambda level: PlasmaNoise(_of(level, 64)),
    "ripple": lambda level: Ripple(_of(level, 0.025)),
    "single_frequency_greyscale": lambda level: SingleFrequencyGreyscale(_of(level, 196)),
    "sparkles": lambda level: Sparkles(_of(level, 0.1)),
    "transverse_chromatic_abberation": lambda level: TransverseChromaticAberration(_of(level, 0.5)),
}

C_BAR_PROFILES: dict[str, Settings] = {
    profile: {name: tuple(map(_MAKE[name], levels)) for name, levels in table.items()}
    for profile, table in LEVELS.items()
}
