"""Weights and steps that no objective can use are refused, before the model runs and before anything is drawn."""

import math

import pytest
import torch
from toys import BagOfWords, Smooth, sentences

from poise import (
    FCL,
    XE,
    AugMix,
    CLGaussian,
    Constant,
    Cosine,
    Exponential,
    Gaussian,
    GradientUtility,
    InfoNCE,
    JensenShannon,
    MixedUtility,
    Ramp,
    RemovalUtility,
    Remove,
    Steps,
    TopBottom,
    TopBottomFraction,
    TrainStep,
    XEGaussian,
)

OBJECTIVES = {
    "FCL": lambda weight: FCL(GradientUtility(), TopBottom(2), Gaussian(0.1), InfoNCE(0.5), weight),
    "CL": lambda weight: CLGaussian(Gaussian(0.1), InfoNCE(0.5), weight),
    "XE+Gaussian": lambda weight: XEGaussian(Gaussian(0.1), weight),
}
X, Y = torch.rand(3, 6), torch.tensor([0, 1, 2])


@pytest.mark.parametrize("build", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf])
def test_a_weight_is_a_finite_number_of_0_or_more(build, weight: float) -> None:
    with pytest.raises(ValueError, match=f"weight={weight} must be a finite number of 0 or more"):
        build(weight)
    model, state = Smooth(6), torch.random.get_rng_state()
    with pytest.raises(ValueError, match=f"at step=3 the weight={weight} must be a finite number of 0 or more"):
        build(lambda step: weight)(model, X, Y, 3)
    assert model.calls == 0 and torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("build", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("weight", ["0.1", None, True, torch.tensor(0.1)])
def test_a_weight_is_a_number_or_a_schedule(build, weight: object) -> None:
    with pytest.raises(TypeError, match=r"weight=.* must be a number"):
        build(weight)
    with pytest.raises(TypeError, match=r"weight=.* must be a number"):
        build(Ramp)(Smooth(6), X, Y, 3)


@pytest.mark.parametrize("build", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("weight", [Ramp(1.0, 5), Ramp(1.0, 0, 5), Cosine(1.0, 9), lambda step: 1.0])
def test_a_schedule_needs_the_step(build, weight) -> None:
    model = Smooth(6)
    for call in (build(weight), JensenShannon(build(weight), lambda x, generator: x)):
        with pytest.raises(ValueError, match=r"step=None .* weight is a schedule"):
            call(model, X, Y)
    with pytest.raises(ValueError, match=r"step=None .* weight is a schedule"):
        TrainStep(model, build(weight))(X, Y)
    assert model.calls == 0
    assert build(weight)(model, X, Y, 2).total.isfinite()


@pytest.mark.parametrize("build", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("weight", [0.5, Constant(0.5), Ramp(0.5), 0])
def test_a_constant_needs_no_step(build, weight) -> None:
    assert build(weight)(Smooth(6), X, Y).total.isfinite()


@pytest.mark.parametrize("build", [*OBJECTIVES.values(), lambda weight: XE()], ids=[*OBJECTIVES, "XE"])
@pytest.mark.parametrize("step", [-1, True, 1.0, "1", torch.tensor(1)])
def test_a_step_is_a_whole_number(build, step: object) -> None:
    model = Smooth(6)
    with pytest.raises(ValueError, match=r"step=.* must be a whole number of 0 or more"):
        build(0.5)(model, X, Y, step)
    assert model.calls == 0


@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf])
def test_drop_below_is_a_finite_number(value: float) -> None:
    with pytest.raises(ValueError, match=f"drop_below={value}"):
        FCL(GradientUtility(), TopBottom(2), Gaussian(0.1), InfoNCE(0.5), 0.5, drop_below=value)
    with pytest.raises(ValueError, match=f"drop_below={value}"):
        MixedUtility((GradientUtility(),), (1.0,), drop_below=value)


@pytest.mark.parametrize("select", [TopBottom(2, "pixel"), TopBottomFraction(0.2, "pixel")])
def test_tokens_have_no_pixels(select) -> None:
    model, x = BagOfWords(), sentences([6, 6, 6])
    with pytest.raises(ValueError, match='per="pixel" needs channels and places'):
        FCL(RemovalUtility(), select, Remove(), InfoNCE(0.5), 0.5)(model, x, Y)
    assert model.rows == 0
    with pytest.raises(ValueError, match='per="pixel" needs channels and places'):
        select(torch.rand(3, 6), x.features)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: TopBottom(1.9), ValueError, "k=1.9 must be a whole number of 1 or more"),
        (lambda: TopBottom(True), ValueError, "k=True must be a whole number"),
        (lambda: TopBottomFraction("0.1"), TypeError, "fraction='0.1' must be a number"),
        (lambda: TopBottomFraction(math.nan), ValueError, "fraction=nan"),
        (lambda: Gaussian(math.nan), ValueError, "sigma=nan"),
        (lambda: Gaussian(math.inf), ValueError, "sigma=inf"),
        (lambda: Gaussian("0.1"), TypeError, "sigma='0.1'"),
        (lambda: Gaussian(0.1, clip=(0, 0.5, 1)), ValueError, "clip="),
        (lambda: Gaussian(0.1, clip=(0, math.nan)), ValueError, "clip="),
        (lambda: MixedUtility((GradientUtility(),), (math.nan,)), ValueError, r"weights\[0\]=nan"),
        (lambda: MixedUtility((GradientUtility(),), (0.0,)), ValueError, "must not all be 0"),
        (lambda: GradientUtility("no"), TypeError, "own_forward='no' must be True or False"),
        (lambda: RemovalUtility(memory=0), ValueError, "memory=0"),
        (lambda: JensenShannon(XE(), AugMix(), math.nan), ValueError, "strength=nan"),
        (lambda: JensenShannon(XE(), AugMix(), math.inf), ValueError, "strength=inf"),
        (lambda: XEGaussian(Remove(), 0.5), TypeError, "perturb=Remove.*use Gaussian"),
        (lambda: CLGaussian(Remove(), InfoNCE(0.5), 0.5), TypeError, "perturb=Remove.*use Gaussian"),
        (lambda: InfoNCE(0.5)(torch.rand(2, 3), None), TypeError, "near must be a tensor of floats"),
        (lambda: Constant(math.nan), ValueError, "value=nan"),
        (lambda: Ramp(math.inf), ValueError, "peak=inf"),
        (lambda: Ramp(1.0, start=0.5), ValueError, "start=0.5"),
        (lambda: Steps(1.0, (3, 2.5)), ValueError, r"milestones\[1\]=2.5"),
        (lambda: Steps(1.0, (3,), factor=math.nan), ValueError, "factor=nan"),
        (lambda: Exponential(1.0, math.nan), ValueError, "rate=nan"),
        (lambda: Exponential(1.0, 0.9, every=True), ValueError, "every=True"),
        (lambda: Cosine(math.nan, 9), ValueError, "peak=nan"),
        (lambda: Cosine(1.0, 9.5), ValueError, "steps=9.5"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_by_name(build, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        build()
