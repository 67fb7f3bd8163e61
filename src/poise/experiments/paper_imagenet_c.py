"""The paper's numbers for ImageNet-C: Table 3, and appendix D corruption by corruption.

Its "All average" is over the 15 standard corruptions. It prints no mean corruption error; from its accuracies,

    mCE = mean over the 15 of (1 - accuracy) / AlexNet's error
"""

from __future__ import annotations

from statistics import fmean

from poise.experiments.paper_cifar_c import cells
from poise.protocols import ALEXNET_ERRORS, STANDARD

# All, its deviation; noise, blur, weather, digital; then the 15 in the order of `poise.protocols.STANDARD`.
_ROWS = {
    "XE": (
        *(0.3406, 0.0007, 0.2615, 0.2816, 0.4214, 0.3783),
        *(0.2860, 0.2651, 0.2335, 0.2945, 0.2312, 0.2844, 0.3163),
        *(0.2773, 0.3304, 0.4695, 0.6083, 0.3273, 0.4096, 0.2998, 0.4763),
    ),
    "XE+Gaussian": (
        *(0.3414, 0.0012, 0.2623, 0.2829, 0.4224, 0.3783),
        *(0.2876, 0.2654, 0.2339, 0.2978, 0.2293, 0.2851, 0.3193),
        *(0.2748, 0.3323, 0.4736, 0.6088, 0.3298, 0.4101, 0.2989, 0.4743),
    ),
    "CL+Gaussian": (
        *(0.3418, 0.0016, 0.2658, 0.2824, 0.4223, 0.3778),
        *(0.2898, 0.2694, 0.2383, 0.2955, 0.2290, 0.2873, 0.3177),
        *(0.2745, 0.3327, 0.4728, 0.6091, 0.3309, 0.4060, 0.2978, 0.4768),
    ),
    "FCL": (
        *(0.3437, 0.0022, 0.2696, 0.2850, 0.4188, 0.3827),
        *(0.2954, 0.2738, 0.2395, 0.2989, 0.2374, 0.2861, 0.3176),
        *(0.2739, 0.3297, 0.4674, 0.6044, 0.3278, 0.4143, 0.3111, 0.4777),
    ),
    "PG+XE": (
        *(0.3625, 0.0023, 0.3053, 0.3041, 0.4300, 0.3964),
        *(0.3265, 0.3070, 0.2822, 0.3333, 0.2571, 0.2923, 0.3337),
        *(0.2891, 0.3464, 0.4735, 0.6110, 0.3352, 0.4331, 0.3232, 0.4939),
    ),
    "PG+FCL": (
        *(0.3634, 0.0045, 0.3077, 0.3034, 0.4308, 0.3976),
        *(0.3304, 0.3107, 0.2821, 0.3344, 0.2571, 0.2920, 0.3302),
        *(0.2880, 0.3495, 0.4761, 0.6097, 0.3368, 0.4313, 0.3290, 0.4934),
    ),
}


def _with_mce(row: dict[str, tuple[float, float | None]]) -> dict[str, tuple[float, float | None]]:
    return {**row, "mCE": (fmean((1 - row[name][0]) / ALEXNET_ERRORS[name] for name in STANDARD), None)}


PAPER = {method: _with_mce(cells(row, "All, 15")) for method, row in _ROWS.items()}
