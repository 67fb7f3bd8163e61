"""Poise: feature contrastive learning, for classifiers that ignore noise and keep an eye on what decides."""

from poise.classifier import Classifier, Forward
from poise.corruptions.corrupt import Corruption, corrupt
from poise.corruptions.transform import Corrupt
from poise.data.augment import Chain, GaussianNoise, PatchGaussian, Standard
from poise.features.external import GivenUtility, MixedUtility, TeacherUtility
from poise.features.perturbation import Gaussian, Remove
from poise.features.selection import TopBottom, TopBottomFraction
from poise.features.sensitivity import Estimate, JacobianSensitivity, RemovalSensitivity
from poise.features.utility import GradientUtility, RemovalUtility
from poise.losses import CrossEntropy
from poise.models.lenet import LeNet
from poise.models.resnet import ResNet, resnet56
from poise.models.resnet_v2 import ResNetV2, resnet_v2_50
from poise.models.split import SplitClassifier, split
from poise.models.transformer import Transformer
from poise.objectives.cl_gaussian import CLGaussian
from poise.objectives.contrast import InfoNCE, Margin
from poise.objectives.fcl import FCL
from poise.objectives.objective import Loss, Objective
from poise.objectives.xe import XE
from poise.objectives.xe_gaussian import XEGaussian
from poise.robustness.evaluation import evaluate
from poise.robustness.scores import Robustness
from poise.schedules import Constant, Exponential, Ramp, Schedule, Steps
from poise.tokens import Input, Tokens
from poise.training.step import TrainStep

__version__ = "0.1.0"

__all__ = [
    "FCL",
    "XE",
    "CLGaussian",
    "Chain",
    "Classifier",
    "Constant",
    "Corrupt",
    "Corruption",
    "CrossEntropy",
    "Estimate",
    "Exponential",
    "Forward",
    "Gaussian",
    "GaussianNoise",
    "GivenUtility",
    "GradientUtility",
    "InfoNCE",
    "Input",
    "JacobianSensitivity",
    "LeNet",
    "Loss",
    "Margin",
    "MixedUtility",
    "Objective",
    "PatchGaussian",
    "Ramp",
    "RemovalSensitivity",
    "RemovalUtility",
    "Remove",
    "ResNet",
    "ResNetV2",
    "Robustness",
    "Schedule",
    "SplitClassifier",
    "Standard",
    "Steps",
    "TeacherUtility",
    "Tokens",
    "TopBottom",
    "TopBottomFraction",
    "TrainStep",
    "Transformer",
    "XEGaussian",
    "corrupt",
    "evaluate",
    "resnet56",
    "resnet_v2_50",
    "split",
]
