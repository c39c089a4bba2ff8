"""Products and factors in panels are those of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import LeastSquaresClassifier
from onlinels.panels import add_products, factor_in_place


@pytest.fixture(scope="module", autouse=True, params=[16_384, 1])
def whole_up_to(request):
    """Give BLAS matrices whole, or in panels of three columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onlinels.panels.LARGEST_WHOLE", request.param)
        patch.setattr("onlinels.panels.PANEL_COLUMNS", 3)
        yield


cases = {
    "seed": st.integers(0, 2**32 - 1),
    "n_rows": st.integers(1, 20),
    "n_features": st.integers(2, 11),
}


@given(**cases, kind=st.sampled_from(["one", "each", "negative"]))
def test_products_are_added_to_the_upper_triangle(whole_up_to, seed, n_rows, n_features, kind):
    random = np.random.default_rng(seed)
    rows = random.integers(-5, 6, (n_rows, n_features)).astype(float)
    before = np.triu(random.integers(-5, 6, (n_features, n_features)).astype(float))
    weights = 2.0 if kind == "one" else random.integers(0, 4, n_rows).astype(float)
    if kind == "negative":
        weights = -np.asarray(weights)
    gram = np.asfortranarray(before)
    after = add_products(gram, rows, weights)
    assert after is gram or np.shares_memory(after, gram)
    expected = before + rows.T @ (rows * np.broadcast_to(weights, n_rows)[:, None])
    assert (np.triu(after) == np.triu(expected)).all()


@given(**cases)
def test_factors_multiply_to_the_system(whole_up_to, seed, n_rows, n_features):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_rows, n_features))
    full = rows.T @ rows + 0.1 * np.eye(n_features)
    system = np.asfortranarray(np.triu(full))
    assert factor_in_place(system)
    upper = np.triu(system)
    np.testing.assert_allclose(upper.T @ upper, full, rtol=1e-12, atol=1e-12)


@given(n=st.integers(2, 11), at=st.integers(0, 10))
def test_what_is_not_positive_definite_has_no_factor(whole_up_to, n, at):
    system = np.eye(n, order="F")
    system[at % n, at % n] = -1.0
    assert not factor_in_place(system)


def test_a_classifier_learns_and_solves_in_panels(whole_up_to):
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(60, 10)), random.integers(0, 3, 60)
    model = LeastSquaresClassifier(ridge=0.5, fit_intercept=False)
    model.learn_many(rows, labels, w=random.random(60))
    model.unlearn_many(rows[:5], labels[:5], w=np.zeros(5))
    random = np.random.default_rng(0)
    random.normal(size=(60, 10)), random.integers(0, 3, 60)
    weights = random.random(60)
    targets = (labels[:, None] == np.array(model.classes)).astype(float)
    gram = rows.T @ (rows * weights[:, None]) + 0.5 * np.eye(10)
    expected = np.linalg.solve(gram, rows.T @ (targets * weights[:, None]))
    np.testing.assert_allclose(model.output_weights, expected, rtol=1e-9, atol=1e-12)
