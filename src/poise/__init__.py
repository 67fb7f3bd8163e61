"""Poise: feature contrastive learning, for classifiers that ignore noise and keep an eye on what decides."""

from importlib import import_module
from typing import Any

from poise.checks import TORCH, is_torch

__version__ = "0.2.0"

# Names are imported on first use, so that the command line starts without torch; __init__.pyi is for type checkers.
_HOMES = {
    "poise.auditing.audit": "audit",
    "poise.auditing.result": "Audit Names",
    "poise.classifier": "Classifier Forward",
    "poise.corruptions.corrupt": "Corrupt Corruption corrupt",
    "poise.data.augment": "Chain GaussianNoise PatchGaussian Standard",
    "poise.data.augmix": "AugMix",
    "poise.data.pixmix": "PixMix",
    "poise.data.prime": "PRIME",
    "poise.data.randaugment": "RandAugment",
    "poise.data.trivialaugment": "TrivialAugment",
    "poise.data.balance": "balanced_sampler class_counts",
    "poise.features.external": "EqualUtility GivenUtility MixedUtility TeacherUtility",
    "poise.features.perturbation": "Gaussian Remove",
    "poise.features.selection": "AtRandom AtRandomFraction TopBottom TopBottomFraction",
    "poise.features.sensitivity": "Estimate JacobianSensitivity RemovalSensitivity",
    "poise.features.utility": "GradientUtility RemovalUtility",
    "poise.losses": "CrossEntropy LogitAdjusted",
    "poise.models.lenet": "LeNet",
    "poise.models.resnet": "ResNet ResNetV2 resnet56 resnet_v2_50",
    "poise.models.saved": "load_model save_model",
    "poise.models.split": "SplitClassifier split",
    "poise.models.transformer": "Transformer",
    "poise.objectives.balanced": "balanced_contrast",
    "poise.objectives.contrast": "InfoNCE Margin",
    "poise.objectives.fcl": "FCL",
    "poise.objectives.gaussian": "CLGaussian XEGaussian",
    "poise.objectives.jensen_shannon": "JensenShannon",
    "poise.objectives.objective": "Loss Objective XE",
    "poise.objectives.sam": "SAM",
    "poise.evaluation.harness": "benchmark",
    "poise.evaluation.robustness": "Robustness evaluate",
    "poise.schedules": "Constant Cosine Exponential Ramp Schedule Steps",
    "poise.tokens": "Input Tokens",
    "poise.training.engine": "TrainStep",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'poise' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        if not is_torch(error):
            raise
        raise ModuleNotFoundError(f"poise.{name} {TORCH}", name="torch") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
