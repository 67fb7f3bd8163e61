import pytest
import torch
from toys import BagOfWords, Linear, Smooth, same_state, sentences, state_of

from poise import (
    FCL,
    EqualUtility,
    Gaussian,
    GivenUtility,
    GradientUtility,
    InfoNCE,
    MixedUtility,
    RemovalUtility,
    TeacherUtility,
    TopBottom,
)
from poise.classifier import Forward


def handed(given: torch.Tensor) -> Forward:
    nothing = torch.zeros(1)
    return Forward(nothing, nothing, nothing, nothing, given=given)


def test_a_teacher_gives_its_own_utility() -> None:
    student, teacher, x, y = Smooth(6), Smooth(6), torch.rand(4, 6), torch.tensor([0, 1, 2, 0])
    before = state_of(teacher)
    torch.testing.assert_close(TeacherUtility(teacher)(student, x, y), GradientUtility()(teacher, x, y))
    assert same_state(before, state_of(teacher))


def test_a_teacher_is_measured_with_the_loss_of_the_objective() -> None:
    def first_logit(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return logits[:, 0]

    student, teacher, x, y = Smooth(6), Linear(6), torch.rand(4, 6), torch.tensor([0, 1, 2, 0])
    expected = (teacher.head.weight[0] @ teacher.body.weight).abs().expand(4, 6)
    torch.testing.assert_close(TeacherUtility(teacher)(student, x, y, loss=first_logit), expected.detach())


def test_a_teacher_is_not_asked_through_the_student_s_pass() -> None:
    """The objective hands its own forward to the utility; a teacher must not mistake it for its own."""
    student, teacher, x, y = Smooth(6), Smooth(6), torch.rand(4, 6), torch.tensor([0, 1, 2, 0])
    FCL(TeacherUtility(teacher), TopBottom(2), Gaussian(0.1), InfoNCE(0.1), 1.0)(student, x, y)
    assert (student.calls, teacher.calls) == (2, 1)


def test_a_teacher_of_sentences() -> None:
    student, teacher, x, y = BagOfWords(), BagOfWords(), sentences([4, 5]), torch.tensor([0, 1])
    u = TeacherUtility(teacher, utility=RemovalUtility())(student, x, y)
    torch.testing.assert_close(u, RemovalUtility()(teacher, x, y))


def test_a_teacher_shows_its_name_only() -> None:
    assert repr(TeacherUtility(Linear(3), name="resnet50")) == (
        "TeacherUtility(name='resnet50', utility=GradientUtility(own_forward=False))"
    )


def test_given_utility_is_what_the_user_brings() -> None:
    given = torch.randn(4, 6)
    u = GivenUtility()(Linear(6), torch.rand(4, 6), torch.zeros(4), forward=handed(given))
    assert torch.equal(u, given.abs())


def test_missing_or_misshapen_given_utility_is_named() -> None:
    x, y = torch.rand(4, 6), torch.zeros(4, dtype=torch.long)
    fcl = FCL(GivenUtility(), TopBottom(2), Gaussian(0.1), InfoNCE(0.1), 1.0)
    with pytest.raises(ValueError, match="call objective"):
        fcl(Linear(6), x, y)
    with pytest.raises(ValueError, match=r"given has shape \[4, 5\], must have that of the features, \[4, 6\]"):
        fcl(Linear(6), x, y, given=torch.rand(4, 5))


def test_a_mix_weighs_shares() -> None:
    model, x, y = Smooth(6), torch.rand(4, 6), torch.tensor([0, 1, 2, 0])
    given = torch.rand(4, 6) * 1e6
    mixed = MixedUtility((GradientUtility(), GivenUtility()), (0.25, 0.75))(
        model, x, y, forward=handed_losses(model, x, y, given)
    )
    own = GradientUtility()(model, x, y)
    expected = 0.25 * own / own.sum(1, keepdim=True) + 0.75 * given / given.sum(1, keepdim=True)
    torch.testing.assert_close(mixed, expected)


def handed_losses(model, x, y, given) -> Forward:
    """A pass without a graph, so that GradientUtility runs its own."""
    with torch.no_grad():
        z = model.embed(x)
        return Forward(x, z, model.head(z), torch.zeros(len(y)), given=given)


def test_a_part_that_says_nothing_counts_as_zero() -> None:
    x, y = torch.rand(2, 6), torch.tensor([0, 1])
    given = torch.stack([torch.zeros(6), torch.arange(6.0)])
    u = MixedUtility((GivenUtility(),), (1.0,))(Linear(6), x, y, forward=handed(given))
    assert torch.equal(u[0], torch.zeros(6))
    assert u[1].sum().item() == pytest.approx(1.0)
    assert (MixedUtility((GivenUtility(),), (1.0,), drop_below=9.0)(Linear(6), x, y, forward=handed(given)) == 0).all()


@pytest.mark.parametrize(
    ("parts", "weights"), [((), ()), ((GradientUtility(),), (0.5, 0.5)), ((GradientUtility(),), (-1.0,))]
)
def test_bad_mixes_are_refused(parts, weights) -> None:
    with pytest.raises(ValueError, match="weight"):
        MixedUtility(parts, weights)


def test_features_that_count_the_same() -> None:
    x, y = torch.rand(2, 3, 4), torch.tensor([0, 1])
    assert torch.equal(EqualUtility()(Linear(12), x, y), torch.ones(2, 3, 4))
    text = sentences([2, 4], special=True)
    assert torch.equal(EqualUtility()(BagOfWords(), text, y), text.features.float())
