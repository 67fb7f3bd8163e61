"""Protocols: the names of the corruptions, their four groups, the 15 and the 19.

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
