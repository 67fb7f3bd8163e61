"""Protocols: the names of the corruptions, their four groups, the 15, the 19 and C-bar, and the errors of a reference.

The 15 standard corruptions are those of Hendrycks and Dietterich (2019); the 4 extra ones were meant for validation.
The groups hold the standard ones only, as in the paper's tables. Its "All average" is over the 19 for CIFAR-10-C and
CIFAR-100-C and over the 15 for ImageNet-C (docs/decisions.md).
"""

from __future__ import annotations

GROUPS: dict[str, tuple[str, ...]] = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}
STANDARD: tuple[str, ...] = tuple(name for group in GROUPS.values() for name in group)
EXTRA: tuple[str, ...] = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
CORRUPTIONS: tuple[str, ...] = STANDARD + EXTRA
SEVERITIES: tuple[int, ...] = (1, 2, 3, 4, 5)

# C-bar (Mintun, Kirillov and Xie 2021): ten corruptions unlike the 19, named as published, by profile.
C_BAR: dict[str, tuple[str, ...]] = {
    "cifar": (
        *("blue_noise_sample", "checkerboard_cutout", "inverse_sparkles", "pinch_and_twirl", "ripple"),
        *("brownish_noise", "circular_motion_blur", "lines", "sparkles", "transverse_chromatic_abberation"),
    ),
    "imagenet": (
        *("caustic_refraction", "inverse_sparkles", "sparkles", "perlin_noise", "blue_noise_sample"),
        *("plasma_noise", "checkerboard_cutout", "cocentric_sine_waves", "single_frequency_greyscale"),
        "brownish_noise",
    ),
}
EVERY: tuple[str, ...] = (*CORRUPTIONS, *dict.fromkeys(name for names in C_BAR.values() for name in names))

# AlexNet's errors on ImageNet-C, means over the severities (Hendrycks and Dietterich, 2019). The mean corruption error
# of a model is the mean over the 15 of its error / AlexNet's. No such reference was published for the CIFAR sets.
ALEXNET_ERRORS: dict[str, float] = {
    "gaussian_noise": 0.886428,
    "shot_noise": 0.894468,
    "impulse_noise": 0.922640,
    "defocus_blur": 0.819880,
    "glass_blur": 0.826268,
    "motion_blur": 0.785948,
    "zoom_blur": 0.798360,
    "snow": 0.866816,
    "frost": 0.826572,
    "fog": 0.819324,
    "brightness": 0.564592,
    "contrast": 0.853204,
    "elastic_transform": 0.646056,
    "pixelate": 0.717840,
    "jpeg_compression": 0.606500,
}
REFERENCE_ERRORS: dict[str, dict[str, float]] = {"imagenet-c": ALEXNET_ERRORS}

# AlexNet's error on the clean validation images, for the relative corruption error: 43.45 % in torchvision's list of
# pretrained models, which the paper's table rounds to 43.5 %.
REFERENCE_CLEAN_ERRORS: dict[str, float] = {"imagenet-c": 0.4345}
