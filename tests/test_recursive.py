"""The recursive form against batch solutions and the Gram form, however the rows came."""

import copy

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse

from onlinels import KFold, LeastSquaresRegressor
from support import laws, strategies
from support.slow import pairs_in_turn, the_rest_slow
from support.strategies import kinds


@kinds
@strategies.examples(30)
@given(st.data())
def test_without_forgetting_it_is_the_gram_form(kind, data):
    rows, make = data.draw(strategies.cases(kind, unlearns=True))
    forgetting = {"forgetting_factor": 1.0, "half_life": None, "scaling": "auto"}
    ridge = data.draw(st.sampled_from([0.0, 1e-6, 1.0, 1e3, "auto"]))
    gram, recursive = (
        make().clone({"ridge": ridge, "accumulator": form, **forgetting})
        for form in ("gram", "recursive")
    )
    asked = data.draw(st.booleans())
    for batch in data.draw(strategies.splits(len(rows))):
        part = rows.take(batch)
        for model in (gram, recursive):
            model.learn_many(part.X, part.y, part.w)
            if asked:
                model.predict_one(dict(enumerate(part.X[0].tolist())))
    for name in ("output_weights", "intercept", "ridge_diagonal"):
        np.testing.assert_array_equal(getattr(recursive, name), getattr(gram, name))


@pytest.mark.parametrize("step", the_rest_slow([1, 25]))
def test_directions_that_are_never_excited_stay_bounded(step):
    """A plain recursion overflows here: its inverse grows by 1/0.99 with every row."""
    random = np.random.default_rng(0)
    n_rows, decay, ridge = (4_000 if step == 1 else 50_000), 0.99, 1e-3
    X = random.normal(size=(n_rows, 3)) @ random.normal(size=(3, 20))
    Y = X[:, :1] + random.normal(size=(n_rows, 1))
    model = LeastSquaresRegressor(ridge, "recursive", False, forgetting_factor=decay)
    for start in range(0, n_rows, step):
        model.learn_many(X[start : start + step], Y[start : start + step, 0])
    w = decay ** np.arange(n_rows - 1, -1, -1.0)
    diagonal = model.ridge_diagonal
    assert np.all((diagonal >= ridge / 2) & (diagonal <= ridge))
    expected, sizes = batch_solution(model, X[-5000:], Y[-5000:, 0], w[-5000:])
    error = np.abs(model.output_weights * sizes - expected).max()
    assert error < 1e-8 * (1.0 + np.abs(expected).max())


@pytest.mark.parametrize("centred", [False, True])
def test_a_ridge_that_has_faded_is_left_out_of_the_gram(centred):
    random = np.random.default_rng(0)
    X, y, w = random.normal(size=(40, 8)), random.normal(size=40), 0.985 ** np.arange(39, -1, -1.0)

    def faded():
        model = LeastSquaresRegressor(5.0, "recursive", centred, forgetting_factor=0.985)
        model.learn_many(X, y)
        assert model.ridge_diagonal.min() < 5.0
        return model

    def assert_solves(model, w):
        expected, sizes = batch_solution(model, X, y, w)
        np.testing.assert_allclose(model.output_weights * sizes, expected, atol=1e-9)

    merged, changed, strong = faded(), faded(), faded()
    assert_solves(merged, w)
    merged.merge(faded())
    assert (merged.ridge_diagonal == 5.0).all()
    assert_solves(merged, 2.0 * w)
    changed.ridge = 3.0
    assert (changed.ridge_diagonal == 3.0).all()
    assert_solves(changed, w)
    strong.fade(0.25)
    assert (strong.ridge_diagonal == 5.0).all()
    assert_solves(strong, 0.25 * w)


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("w", [0.0, 0])
def test_rows_without_weight_at_the_beginning_leave_the_ridge(asks, w):
    rows = [({"x": 1.0}, 5.0, w), ({"x": 2.0}, 1.0, 1.0), ({"x": 3.0}, 2.0, 1.0)]
    model = LeastSquaresRegressor(1.0, "recursive", forgetting_factor=0.6)
    for x, y, weight in rows:
        if asks:
            model.predict_one(x)
        model.learn_one(x, y, w=weight)
    assert model.ridge_diagonal.tolist() == [0.6]


@pytest.mark.parametrize("decay", [{"forgetting_factor": 0.93}, {"half_life": 6.0}])
@pytest.mark.parametrize("fit_intercept", [False, True])
@strategies.examples(15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 20]), st.data())
def test_rows_one_by_one_are_rows_in_batches(decay, fit_intercept, seed, every, data):
    """With predictions of known names between rows, over several resets of the ridge."""
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(60, 3)) + 1.0, random.normal(size=60)
    w = random.integers(0, 3, 60) * 1.0 if data.draw(st.booleans()) else np.ones(60)
    single = LeastSquaresRegressor(2.0, "recursive", fit_intercept, **decay)
    batches, before = single.empty(), single.empty()
    for row, (x, target) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        if row % every == 0:
            single.predict_one(dict(zip("abc", x, strict=True)))
        single.learn_one(dict(zip("abc", x, strict=True)), target, w=w[row])
    for batch in data.draw(strategies.splits(60)):
        batches.learn_many(X[batch], y[batch], w[batch])
        before.predict_learn_many(X[batch], y[batch], w[batch])
    for other in (batches, before):
        np.testing.assert_allclose(other.ridge_diagonal, single.ridge_diagonal, rtol=1e-9)
        np.testing.assert_allclose(other.output_weights, single.output_weights, atol=1e-8)


@pytest.mark.parametrize("decay", [{"forgetting_factor": 0.9999}, {"half_life": 9000.0}])
def test_sparse_rows_let_the_ridge_decay(decay):
    random = np.random.default_rng(0)
    X, y = sparse.random_array((3000, 500), density=0.01, rng=random, format="csr"), np.ones(3000)
    of_sparse, of_dense = (LeastSquaresRegressor(1.0, "recursive", **decay) for _ in range(2))
    of_sparse.learn_many(X, y)
    of_dense.learn_many(X.toarray(), y)
    assert 0.5 < of_sparse.ridge_diagonal[0] < 0.9
    for name in ("ridge_diagonal", "output_weights"):
        found, expected = getattr(of_sparse, name), getattr(of_dense, name)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def batch_solution(model, X, y, w):
    """Return the weights of a batch with the ridge that a model reports, in units of one."""
    A, T, _, _ = laws.weighted_centred(X, y[:, None], w, model.fit_intercept)
    sizes = np.sqrt((A**2).sum(axis=0) + model.ridge_diagonal)
    stacked = np.vstack([A, np.diag(np.sqrt(model.ridge_diagonal))]) / sizes
    below = np.vstack([T, np.zeros((len(sizes), 1))])
    return np.linalg.lstsq(stacked, below, rcond=None)[0], sizes[:, None]


@pytest.mark.parametrize(("kind", "fit_intercept"), pairs_in_turn(strategies.SHAPES, [False, True]))
@strategies.examples(20)
@given(
    st.sampled_from([0.3, 0.5, 0.6, 0.8, 0.9, 0.99]),
    st.sampled_from([1e-6, 1e-2, 1.0, 100.0]),
    st.integers(1, 7),
    st.integers(0, 2**32 - 1),
)
def test_what_is_forgotten_fast_leaves_the_batch_solution(
    kind, fit_intercept, factor, ridge, step, seed
):
    random = np.random.default_rng(seed)
    X = strategies.SHAPES[kind](random, 90)
    y = X[:, 0] / np.abs(X[:, 0]).max() + random.normal(size=90)
    model = LeastSquaresRegressor(ridge, "recursive", fit_intercept, forgetting_factor=factor)
    asked, grown = dict(enumerate(X[0].tolist())), 0.0
    for start in range(0, 90, step):
        stop = min(start + step, 90)
        model.learn_many(X[start:stop], y[start:stop])
        model.predict_one(asked)
        w = factor ** np.arange(stop - 1.0, -1.0, -1.0)
        expected, sizes = batch_solution(model, X[:stop], y[:stop], w)
        # What has grown to s keeps 16 - log10(s / c) digits.
        grown = max(factor**step * grown, (w @ X[:stop] ** 2).sum() / ridge)
        allowed = 1e-7 + 1e3 * laws.EPS * grown
        error = np.abs(model.output_weights * sizes - expected).max()
        assert allowed > 0.1 or error <= allowed * (1.0 + np.abs(expected).max())


FORMS = [
    {"accumulator": "recursive"},
    {"accumulator": "recursive", "forgetting_factor": 0.9},
    {"accumulator": "recursive", "forgetting_factor": 0.5, "fit_intercept": False},
    {"accumulator": "recursive", "half_life": 3.0, "ridge": 1e-3},
    {"accumulator": "gram", "forgetting_factor": 0.9},
    {"accumulator": "orthogonal", "forgetting_factor": 0.9},
]


@pytest.mark.parametrize(("kind", "settings"), pairs_in_turn(strategies.SHAPES, FORMS, 3), ids=str)
@strategies.examples(6)
@example(seed=6783)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_call_raises_whatever_the_rows(settings, kind, seed):
    random = np.random.default_rng(seed)
    X = strategies.SHAPES[kind](random, 60) * random.choice([1e-3, 1.0, 1e3])
    model = LeastSquaresRegressor(**{"ridge": 1.0, **settings})
    for number, x in enumerate(X.tolist()):
        model.learn_one(dict(zip("abcde", x, strict=False)), float(random.normal()))
        if number % 15 == 14:
            assert np.isfinite(model.predict_one({"a": 1.0}))
            assert model.predict_one({"a": 1.0}, with_dist=True).sigma >= 0.0
            assert np.isfinite(model.output_weights).all()
            for other in (copy.deepcopy(model), model + model.empty(), model.empty() + model):
                assert other.count == model.count
                assert np.isfinite(other.predict_one({"a": 1.0}))
    laws.saved(model)


def test_a_ridge_that_is_chosen_once_more_does_not_depend_on_the_cutting():
    """Rows say nothing of the targets: it stays at the end of the range searched."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(552, 3)), random.normal(size=552)
    settings = {"accumulator": "recursive", "forgetting_factor": 0.9, "scaling": None}
    whole, cut = LeastSquaresRegressor(**settings), LeastSquaresRegressor(**settings)
    whole.learn_many(X, y)
    for start in range(0, 552, 8):
        cut.learn_many(X[start : start + 8], y[start : start + 8])
    np.testing.assert_allclose(cut.ridge_diagonal, whole.ridge_diagonal)


@pytest.mark.parametrize(("ridge", "n_features"), [(KFold(3), 2), ("auto", 2), ("auto", 130)])
def test_a_late_feature_has_the_share_of_the_ridge_that_is_left(ridge, n_features):
    random = np.random.default_rng(3)
    names, n_rows = [f"x{column}" for column in range(n_features)], 18 + 3 * n_features
    asked, silent = (
        LeastSquaresRegressor(ridge, "recursive", forgetting_factor=0.95) for _ in range(2)
    )
    for row in range(n_rows):
        x = dict(zip(names, random.normal(size=n_features).tolist(), strict=True))
        y = x["x0"] + float(random.normal())
        if row >= n_rows - 3:
            asked.predict_one(x)
        asked.learn_one(x, y)
        silent.learn_one(x, y)
    for model in (asked, silent):
        model.learn_one(x | {"late": -0.07}, 2.5)
    expected = silent.predict_one(x | {"late": 3.0})
    assert asked.predict_one(x | {"late": 3.0}) == pytest.approx(expected, rel=1e-9)
