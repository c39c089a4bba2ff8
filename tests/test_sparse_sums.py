"""Sparse rows, learnt by sparse products: the statistics of the same rows as an array."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from onlinels import GramAccumulator, LeastSquaresClassifier, LeastSquaresRegressor
from onlinels.accumulators.centred import CentredAccumulator
from onlinels.accumulators.sparse import sums_of_sparse, takes_sparse
from onlinels.linalg import packed
from onlinels.linear import model as linear_model
from support import strategies


def drawn(data, centred):
    """Draw rows, most of them zeros, of columns that are filled or not, far from 0 or not."""
    n_rows, n_features = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 9))
    random = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    X = random.integers(-9, 10, (n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.3)
    X = X.astype(float)
    # Far from 0 without centring, rounding alone tells columns apart.
    offsets = st.sampled_from([0.0, 3.0, 1e6] if centred else [0.0, 3.0])
    for column in np.flatnonzero(random.random(n_features) < 0.3):
        X[:, column] = random.integers(-9, 10, n_rows) + data.draw(offsets)
    w = random.integers(0, 3, n_rows).astype(float)
    w[0] = 1.0
    return random, X, w


@strategies.examples(60)
@given(st.data(), st.booleans(), st.booleans(), st.sampled_from([2, 4, 1024]))
def test_sums_are_those_of_an_array(data, centred, labels, width):
    random, X, w = drawn(data, centred)
    targets = random.integers(0, 3, len(X)) if labels else random.normal(size=(len(X), 2)) + 1e3
    n_targets = 3 if labels else 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "PANEL", width)
        empty = GramAccumulator(X.shape[1], n_targets)
        empty = CentredAccumulator(empty) if centred else empty
        expected = empty.copied()
        expected.update(X, targets, w)
        made = sums_of_sparse(empty, sparse.csr_array(X), targets, w, n_targets)
        ours, theirs = made.sums(), expected.sums()
        size = np.sqrt(np.outer(X.std(axis=0) + 1.0, X.std(axis=0) + 1.0)) * len(X)
        triangle = np.triu_indices(X.shape[1])
        tolerance = 1e-9 * size[triangle].max()
        np.testing.assert_allclose(ours.gram[triangle], theirs.gram[triangle], 1e-9, tolerance)
        np.testing.assert_allclose(ours.cross, theirs.cross, 1e-9, 1e-6)
        np.testing.assert_allclose(ours.target_squares, theirs.target_squares, 1e-9, 1e-9)
        assert (made.count, made.weight) == (expected.count, expected.weight)
        np.testing.assert_allclose(made.feature_mean, expected.feature_mean, 1e-12, 1e-12)
        if not centred:
            assert (made.gram == expected.gram).all()
        both = expected.copied()
        both.merge(made)
        assert both.count == 2 * len(X)


@strategies.examples(30)
@given(st.data(), st.booleans(), st.sampled_from([1.0, 0.9]))
def test_models_learn_sparse_rows_as_arrays(data, fit_intercept, forgetting_factor):
    random, X, w = drawn(data, fit_intercept)
    settings = {"fit_intercept": fit_intercept, "forgetting_factor": forgetting_factor}
    values, labels = X[:, 0] + random.normal(size=len(X)), random.integers(0, 3, len(X))
    for kind, y in ((LeastSquaresRegressor, values), (LeastSquaresClassifier, labels)):
        model, expected = kind(1.0, **settings), kind(1.0, **settings)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(linear_model, "takes_sparse", lambda _, rows: sparse.issparse(rows))
            for part in (slice(0, 10), slice(10, 20), slice(20, None)):
                if len(X[part]):
                    model.learn_many(sparse.csr_array(X[part]), y[part], w[part])
                    expected.learn_many(sparse.csr_array(X[part]).toarray(), y[part], w[part])
        assert model.count == expected.count
        scores, known = model.output_weights, expected.output_weights
        np.testing.assert_allclose(scores, known, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(model.intercept, expected.intercept, rtol=1e-6, atol=1e-3)
        if kind is LeastSquaresClassifier:
            assert model.classes == expected.classes
        if forgetting_factor == 1.0:
            model.unlearn_many(sparse.csr_array(X[:3]), y[:3], w[:3])
            assert model.count == max(0, len(X) - 3)


def test_only_what_is_quicker_is_learnt_so():
    rows = sparse.random_array((3000, 500), density=0.01, format="csr", rng=0)
    centred = CentredAccumulator(GramAccumulator())
    assert takes_sparse(centred, rows)
    assert not takes_sparse(centred, rows[:5])
    assert not takes_sparse(centred, rows.toarray())
    assert not takes_sparse(LeastSquaresRegressor(1.0, "orthogonal")._statistics, rows)
    model, expected = LeastSquaresRegressor(1.0), LeastSquaresRegressor(1.0)
    y = np.asarray(rows.sum(axis=1)).ravel()
    model.learn_many(rows, y)
    expected.learn_many(rows.toarray(), y)
    np.testing.assert_allclose(model.output_weights, expected.output_weights, rtol=1e-9)
    with pytest.raises(ValueError, match="nan"):
        model.learn_many(rows * np.nan, y)
    assert model.count == 3000
