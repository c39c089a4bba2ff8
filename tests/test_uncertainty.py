"""How sure a classifier is: margins and variances of scores, by their batch definitions."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import LeastSquaresClassifier, ShallowConvClassifier
from support import laws, strategies

BALANCES = st.sampled_from([None, "priors", "classwise"])


@given(
    st.data(),
    strategies.rows(),
    strategies.accumulators,
    st.floats(0.5, 100.0),
    st.booleans(),
    BALANCES,
)
def test_variances_by_definition(data, rows, accumulator, ridge, fit_intercept, balance):
    if accumulator == "recursive" and balance == "classwise":
        balance = None
    model = LeastSquaresClassifier(ridge, accumulator, fit_intercept, balance=balance)
    for batch in data.draw(strategies.splits(len(rows))):
        part = rows.take(batch)
        model.learn_many(part.X, part.y, part.w)
        model.variance_many(part.X)
    Y, X = laws.one_hot(rows.y, model.classes), rows.X.astype(np.float64)
    factors = laws.factors_of(rows.y, rows.w)
    factors = np.array([factors[label] for label in model.classes])
    w = rows.w * (Y @ factors if balance == "classwise" else 1.0)
    A, T, x_mean, _ = laws.weighted_centred(X, Y, w, fit_intercept)
    inverse = np.linalg.inv(A.T @ A + ridge * np.eye(A.shape[1]))
    residuals = T - A @ (inverse @ A.T @ T)
    n_free = w.sum() - np.trace(inverse @ A.T @ A) - fit_intercept
    about = X - x_mean
    leverages = np.einsum("ij,jk,ik->i", about, inverse, about) + fit_intercept / w.sum()
    found = model.variance_many(rows.X)
    if n_free <= 1e-6 * w.sum():
        assert n_free < -1e-6 * w.sum() or np.isfinite(found).all() or np.isinf(found).all()
        return
    noise = (residuals**2).sum(axis=0) / n_free
    noise = noise * (factors**2 if balance == "priors" else 1.0)
    size = (1.0 + leverages[:, None]) * (1.0 + noise) * (1.0 + 1.0 / n_free)
    assert (np.abs(found - np.outer(leverages, noise)) <= 1e-6 * size).all()
    # Sums of one row and of many are rounded in other ways.
    rtol = 1e-9 + 10.0 * laws.EPS * np.linalg.norm(A.T @ A) / ridge
    for x, row in zip(rows.dicts(), found, strict=True):
        one = model.variance_one(x)
        assert tuple(one) == model.classes
        np.testing.assert_allclose(list(one.values()), row, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("kind", ["labels", "balanced labels"])
@given(st.data())
def test_margins_by_definition(kind, data):
    rows, make = data.draw(strategies.cases(kind))
    assert make().margin_many(rows.X).tolist() == [0.0] * len(rows)
    model = laws.learnt(make, rows)
    scores = np.sort(model.scores_many(rows.X), axis=1)
    margins = model.margin_many(rows.X)
    if len(model.classes) > 1:
        assert (margins == scores[:, -1] - scores[:, -2]).all()
    else:
        assert not margins.any()
    # A score of one row and of many may differ by rounding.
    ones = [model.margin_one(x) for x in rows.dicts()]
    np.testing.assert_allclose(ones, margins, atol=1e-5 * (1.0 + np.abs(scores).max()))


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
def test_what_nobody_knows(accumulator):
    model = LeastSquaresClassifier(1.0, accumulator)
    assert model.variance_one({"a": 1.0}) == {}
    assert model.margin_one({"a": 1.0}) == 0.0
    model.learn_one({"a": 1.0}, "yes")
    assert model.variance_one({"a": 1.0}) == {"yes": np.inf}
    assert model.margin_one({"a": 1.0}) == 0.0
    for k in range(20):
        model.learn_one({"a": k % 5}, "yes" if k % 5 > 2 else "no")
    near, far = model.variance_one({"a": 2.0}), model.variance_one({"a": 50.0})
    assert all(0.0 < near[label] < far[label] < np.inf for label in model.classes)
    # The weight of a feature never met is known from the ridge alone.
    assert model.variance_one({"a": 2.0, "b": 3.0})["yes"] > near["yes"]


def test_variances_follow_learning_fading_and_the_ridge():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 3)), random.integers(0, 3, 60).tolist()
    model = LeastSquaresClassifier(1.0)
    model.learn_many(X, y)
    before = model.variance_many(X[:5])
    model.fade(0.5)
    faded = model.variance_many(X[:5])
    assert (faded > 1.5 * before).all()
    model.learn_many(X, y, w=0.5)
    np.testing.assert_allclose(model.variance_many(X[:5]), before)
    model.mutate({"ridge": 100.0})
    assert (model.variance_many(X[:5]) < before).all()


def test_fresh_rows_lie_as_far_as_they_say():
    """Over many training sets scores scatter around their mean as widely as their variance says."""
    random = np.random.default_rng(0)
    queries = random.normal(size=(6, 4))
    slopes = random.normal(size=4)
    scores, variances = [], []
    for _ in range(300):
        X = random.normal(size=(80, 4))
        y = (X @ slopes + 2.0 * random.normal(size=80) > 0.0).tolist()
        model = LeastSquaresClassifier(ridge=1e-3)
        model.learn_many(X, y)
        scores.append(model.scores_many(queries)[:, model.classes.index(True)])
        variances.append(model.variance_many(queries)[:, model.classes.index(True)])
    ratio = np.var(scores, axis=0) / np.mean(variances, axis=0)
    assert 0.7 < ratio.min() < ratio.max() < 1.4


def test_answers_in_kind():
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 2.0, 1.0]}, index=list("wxyz"))
    model = LeastSquaresClassifier(1.0)
    model.learn_many(frame, ["low", "low", "high", "high"])
    table = model.variance_many(frame)
    assert (table.index.tolist(), list(table.columns)) == (list("wxyz"), ["low", "high"])
    assert model.margin_many(frame).index.tolist() == list("wxyz")
    records = frame.to_dict("records")
    assert isinstance(model.margin_many(records), list)
    assert model.variance_many(records)[1] == model.variance_one(records[1])
    with pytest.raises(ValueError, match="StatImputer"):
        model.variance_one({"a": None})
    images = np.random.default_rng(0).random((40, 8, 8))
    network = ShallowConvClassifier.from_preset("digits", n_hidden=20, warm_up=20)
    network.learn_many(images, np.arange(40) % 2)
    assert (network.margin_many(images) >= 0.0).all()
