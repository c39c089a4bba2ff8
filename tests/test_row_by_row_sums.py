"""Rows that come one by one, asked for in between: sums and weights are those of the batch."""

from __future__ import annotations

import numpy as np
import pytest

from onlinels import LeastSquaresClassifier

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(40, 3)), RANDOM.integers(0, 3, 40)
ROWS = [dict(enumerate(row)) for row in X.tolist()]


def learnt_singly(rows, labels, **settings):
    model = LeastSquaresClassifier(1.0, **settings)
    for row, label in zip(rows, labels, strict=True):
        model.predict_one(row)
        model.learn_one(row, label)
    return model


def learnt_at_once(rows, labels, **settings):
    model = LeastSquaresClassifier(1.0, **settings)
    model.learn_many(rows, labels)
    return model


@pytest.mark.parametrize("accumulator", ["gram", "recursive", "orthogonal"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sums_of_single_rows_are_those_of_the_batch(accumulator, fit_intercept):
    settings = {"accumulator": accumulator, "fit_intercept": fit_intercept}
    labels = sorted(Y.tolist())
    one, many = learnt_singly(ROWS, labels, **settings), learnt_at_once(ROWS, labels, **settings)
    assert (one.count, one.classes) == (many.count, many.classes)
    np.testing.assert_allclose(one.output_weights, many.output_weights, rtol=1e-9)
    for name in ("weight", "target_squares", "diagonal"):
        found, expected = getattr(one._sums, name), getattr(many._sums, name)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_models_that_are_asked_row_by_row_merge_and_meet_new_classes(fit_intercept):
    settings = {"fit_intercept": fit_intercept}
    model = learnt_singly(ROWS[:20], Y[:20].tolist(), **settings)
    model.merge(learnt_at_once(ROWS[20:], Y[20:].tolist(), **settings))
    whole = learnt_at_once(ROWS, Y.tolist(), **settings)
    np.testing.assert_allclose(model.scores_many(X), whole.scores_many(X), rtol=1e-9, atol=1e-12)
    for model_of in (model, whole):
        model_of.learn_one(ROWS[0], "new")
        model_of.predict_one(ROWS[1])
        model_of.learn_one(ROWS[1], "newer")
    again = learnt_at_once([*ROWS, *ROWS[:2]], [*Y.tolist(), "new", "newer"], **settings)
    order = [model.classes.index(label) for label in again.classes]
    found = model.scores_many(X)[:, order]
    np.testing.assert_allclose(found, again.scores_many(X), rtol=1e-9, atol=1e-12)
