"""The tests of features against errors: partial correlations by least squares, and what they find that others miss."""

import numpy as np
import pytest

from poise.auditing.estimates.misuse import FeatureRemoval, exceptions, misused_features, overall, softmax, temperature


def sample(count: int, classes: int = 3, features: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p [N, L], labels [N], values [N, J]: a model of some of the features, labels of others."""
    draw = np.random.default_rng(seed)
    values = draw.normal(size=(count, features))
    p = softmax(values @ draw.normal(size=(features, classes)))
    labels = np.array([draw.choice(classes, p=row) for row in softmax(values @ draw.normal(size=(features, classes)))])
    return p, labels, values


def partial(residual: np.ndarray, feature: np.ndarray, beside: np.ndarray) -> float:
    """sqrt(n) corr of what is left of both beside some columns."""
    a, b = (each - beside @ np.linalg.lstsq(beside, each, rcond=None)[0] for each in (residual, feature))
    return float(np.sqrt(len(a)) * (a @ b) / np.sqrt((a @ a) * (b @ b)))


def log_odds(p: np.ndarray) -> np.ndarray:
    return np.log(p / (1 - p))


def test_z_overall_is_a_partial_correlation() -> None:
    p, labels, values = sample(80)
    found = overall(p, labels, values, 0)
    assert found is not None
    for row, label in enumerate(found.labels):
        residual, beside = (labels == label) - p[:, label], np.stack([np.ones(80), log_odds(p[:, label])], 1)
        expected = [partial(residual, feature, beside) for feature in values.T]
        np.testing.assert_allclose(found.z[row], expected, rtol=1e-6)


def test_z_of_exceptions_is_one_within_the_classes_they_are_taken_for() -> None:
    p, labels, values = sample(150, classes=3)
    taken_for, odds = p.argmax(1), log_odds(p.max(1))
    residual = (taken_for == labels) - p.max(1)
    found = exceptions(p, labels, values, 0)
    assert found is not None and found.labels[-1] is None and len(found.labels) > 1
    dummies = (taken_for[:, None] == np.arange(3)).astype(float)
    for row, label in enumerate(found.labels):
        inside = np.ones(150, bool) if label is None else taken_for == label
        beside = np.concatenate([dummies[inside][:, dummies[inside].any(0)], odds[inside, None]], 1)
        expected = [partial(residual[inside], feature, beside) for feature in values[inside].T]
        np.testing.assert_allclose(found.z[row], expected, rtol=1e-6)


def test_chance_is_that_of_the_largest_z() -> None:
    """Where nothing goes with the errors, p is uniform: a tenth of the samples lies below .1."""
    below = 0
    for seed in range(60):
        draw = np.random.default_rng(seed)
        values = draw.normal(size=(60, 5))
        p = softmax(2 * values[:, :2])
        labels = (draw.uniform(size=60) > p[:, 0]).astype(int)
        for family in (overall(p, labels, values, seed), exceptions(p, labels, values, seed)):
            assert family is not None
            below += (family.chance >= np.abs(family.z).max()).mean() < 0.1
    assert below <= 22  # of 120, 12 expected: three deviations


def test_what_turns_the_answer_round_in_every_class_is_found_over_all_of_them() -> None:
    """A switch, in five classes of twenty examples each: too few to be tested one by one."""
    draw = np.random.default_rng(1)
    values = draw.normal(size=(100, 20))
    said = np.arange(100) % 5
    labels = np.where(values[:, 7] > 0.5, (said + draw.integers(1, 5, 100)) % 5, said)
    logits = 3.0 * (np.arange(5) == said[:, None]) + draw.normal(0, 0.1, (100, 5))
    untouched = FeatureRemoval(lambda _: logits, np.zeros(20), np.ones(20))
    found = misused_features(logits, labels, values, untouched, [f"column {n}" for n in range(20)])[0]
    assert (found.kind, found.name, found.label) == ("unused", "column 7", None) and found.counts


def test_a_feature_inside_the_logit_is_seen_beside_it() -> None:
    """The model puts far too much on feature 0: beside its logit, the errors go with it twice as clearly."""
    draw = np.random.default_rng(2)
    values = draw.normal(size=(300, 10))
    good, logit = 2 * values[:, 1:5].sum(1), 2 * values[:, 1:5].sum(1) + 8 * values[:, 0]
    labels = (draw.uniform(size=300) < 1 / (1 + np.exp(-good))).astype(int)
    logits = np.stack([-logit / 2, logit / 2], 1)
    p = softmax(logits / temperature(logits, labels))
    found = overall(p, labels, values, 0)
    assert found is not None
    residual = (labels == 1) - p[:, 1]
    plain = np.sqrt(300) * np.corrcoef(residual, values[:, 0])[0, 1]
    assert abs(found.z[:, 0]).max() > 1.5 * abs(plain)


@pytest.mark.parametrize("family", [overall, exceptions])
def test_a_model_without_residuals_has_no_tests(family: object) -> None:
    p = np.tile([0.5, 0.5], (40, 1))
    p[:, 0] = 1.0 - 1e-12
    p[:, 1] = 1e-12
    assert family(p, np.zeros(40, int), np.random.default_rng(0).normal(size=(40, 3)), 0) is None  # type: ignore[operator]


def test_carried_is_what_the_examples_add_in_their_own_standard_errors() -> None:
    """Example by example: r and v beside the logit, their products against the root of the sum of their squares."""
    p, labels, values = sample(90)
    found = overall(p, labels, np.maximum(values - np.linspace(0, 1.2, 6), 0), 0)
    assert found is not None
    both = set()
    for row, label in enumerate(found.labels):
        beside = np.stack([np.ones(90), log_odds(p[:, label])], 1)
        residual = (labels == label) - p[:, label]
        for column, feature in enumerate(np.maximum(values - np.linspace(0, 1.2, 6), 0).T):
            r, v = (e - beside @ np.linalg.lstsq(beside, e, rcond=None)[0] for e in (residual, feature))
            expected = abs(sum(r * v)) >= 2.576 * np.sqrt(sum((r * v) ** 2))
            assert found.carried[row, column] == expected
            both.add(bool(expected))
    assert both == {True, False}


def with_ink(pictures: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """100 examples of a model that is nearly sure of ten classes and right, but for those with ink in feature 7."""
    draw = np.random.default_rng(seed)
    values = draw.normal(size=(100, 20))
    values[:, 7] = np.where(np.arange(100) < pictures, draw.uniform(0.1, 1, 100), 0.0)
    said = draw.integers(10, size=100)
    labels = np.where(np.arange(100) < pictures, (said + 1) % 10, said)
    return 6.0 * (np.arange(10) == said[:, None]) + draw.normal(0, 0.3, (100, 10)), labels, values


@pytest.mark.parametrize(("pictures", "found"), [(1, False), (2, False), (5, False), (15, True)])
def test_one_picture_with_ink_says_nothing_of_a_feature_and_several_do(pictures: int, found: bool) -> None:
    """As at the border of digits: what is nearly always 0 goes with any error that happens there."""
    logits, labels, values = with_ink(pictures)
    untouched = FeatureRemoval(lambda _: logits, np.zeros(20), np.ones(20))
    hits = misused_features(logits, labels, values, untouched, [f"column {n}" for n in range(20)])
    assert [each.name for each in hits if each.counts] == (["column 7"] if found else [])
