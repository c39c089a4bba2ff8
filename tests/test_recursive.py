"""The recursive form against batch solutions and against the Gram form, however the rows came."""

import copy
import functools
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onlinels import LeastSquaresClassifier, LeastSquaresRegressor
from support import laws, strategies
from support.slow import the_rest_slow


@pytest.mark.parametrize("change", ["ridge", "merge"])
def test_what_would_leave_too_few_digits_is_refused(change):
    random = np.random.default_rng(0)
    X, y = np.array([1e4, 1e4]) * (1.0 + 1e-6 * random.normal(size=(60, 2))), random.normal(size=60)
    model = LeastSquaresRegressor(0.01, "recursive", fit_intercept=False)
    other = model.empty()
    for row, target in zip(X[:40], y[:40], strict=True):
        model.learn_one(dict(enumerate(row.tolist())), target)
    other.learn_many(X[40:], y[40:])
    calls = {"ridge": lambda: setattr(model, "ridge", 150.0), "merge": lambda: model.merge(other)}
    laws.assert_refused(calls[change], model, r"leaves about \d digits of the weights")


def test_auto_is_as_exact_in_the_recursive_form_where_noise_begins_late():
    random = np.random.default_rng(0)
    X = random.normal(size=(5300, 4))
    X[:, 3] = X[:, 0] + 1e-3 * X[:, 3]
    y = X @ [1.0, 2.0, 3.0, 4.0]
    y[5000:] += random.normal(size=300)
    weights = []
    for accumulator in ("gram", "recursive"):
        model = LeastSquaresRegressor("auto", accumulator)
        for row, target in zip(X.tolist(), y.tolist(), strict=True):
            model.learn_one(dict(enumerate(row)), target)
        weights.append(model.output_weights)
    np.testing.assert_allclose(*weights, atol=1e-3)


@pytest.mark.parametrize("step", the_rest_slow([1, 64, 7, 5000], 2))
@pytest.mark.parametrize("centred", [False, True])
def test_many_correlated_rows_equal_the_gram_form(step, centred):
    random = np.random.default_rng(0)
    n_rows, n_features = 5_000 if step < 64 else 100_000, 20
    mix = random.normal(size=(n_features, n_features)) * np.logspace(0, -2, n_features)
    X = random.normal(size=(n_rows, n_features)) @ mix.T + 0.5
    Y = X[:, :2] + random.normal(size=(n_rows, 2))
    batches = [slice(start, start + step) for start in range(0, n_rows, step)]
    found = laws.taught(X, Y, None, 1e-3, "recursive", centred, batches).output_weights
    expected = laws.taught(X, Y, None, 1e-3, "gram", centred).output_weights
    assert np.linalg.norm(found - expected) <= 1e-8 * np.linalg.norm(expected)


@pytest.mark.parametrize("step", the_rest_slow([1, 25]))
def test_directions_that_are_never_excited_stay_bounded(step):
    """A plain recursion overflows here: its inverse grows by 1/0.99 with every row."""
    random = np.random.default_rng(0)
    n_rows, decay, ridge = (6_000 if step == 1 else 50_000), 0.99, 1e-3
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


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("decay", [{"forgetting_factor": 0.5}, {"half_life": 2.0}])
def test_refused_rows_leave_a_model_as_it_was(fit_intercept, decay):
    """That a ridge cannot hold a row is found out after time has passed and names are known."""
    model = LeastSquaresClassifier(1e-3, "recursive", fit_intercept, **decay)
    far = model.empty()
    model.learn_many([{"a": 1.0}, {"b": 2.0}, {"a": -1.0}], ["x", "y", "x"])
    calls = [
        lambda: model.learn_one({"a": 1.0, "new": 1e20}, "y"),
        lambda: model.learn_many([{"new": 1.0}, {"new": 1e20}], ["y", "new"], w=[1.0, 2.0]),
    ]
    if fit_intercept:
        far.learn_many([{"far": 1e8}, {"far": 1e8}], ["x", "z"], t=[9.0, 9.0])
        calls.append(lambda: model.merge(far))
    for call in calls:
        laws.assert_refused(call, model, "outweigh")


def test_rows_that_are_refused_late_in_a_batch_leave_a_model_as_it_was(monkeypatch):
    """The ridge is chosen, and then held inside, in the middle of the batch."""
    monkeypatch.setattr(laws.FIRST_ROWS, 16)
    model = LeastSquaresClassifier(ridge="paper", accumulator="recursive")
    model.learn_many([{"a": 1.0}, {"a": 2.0}], ["x", "y"])
    assert model.ridge_ > 0.0
    rows = [{"a": float(a)} for a in (*range(15), 1e20)]
    laws.assert_refused(lambda: model.learn_many(rows, list("xy" * 8)), model, "outweigh")


def test_a_ridge_that_cannot_be_held_is_refused():
    model = LeastSquaresClassifier(ridge=1.0, accumulator="recursive", forgetting_factor=0.5)
    model.learn_many([{"a": 1.0}, {"a": 2.0}], ["x", "y"])
    for ridge in (0.0, -1.0, "best"):
        change = functools.partial(setattr, model, "ridge", ridge)
        laws.assert_refused(change, model, "ridge=")


KINDS = {
    "plain": lambda random, n: random.normal(size=(n, 3)),
    "far": lambda random, n: 3.0 + random.normal(size=(n, 1)),
    "units": lambda random, n: 10.0 ** random.uniform(-1.0, 6.0, (n, 3)),
    "scales": lambda random, n: random.normal(size=(n, 4)) * np.logspace(-1.0, 3.0, 4),
    "constant": lambda random, n: np.column_stack([random.normal(size=n), np.full(n, 7.0)]),
    "rare": lambda random, n: random.normal(size=(n, 5)) * (random.random((n, 5)) < 0.1),
    "equal": lambda random, n: np.repeat(random.normal(size=(n, 2)), 2, axis=1),
    "jumps": lambda random, n: (
        random.normal(size=(n, 2)) + 100.0 * (np.arange(n) > n // 2)[:, None]
    ),
}


def batch_solution(model, X, y, w):
    """Return the weights of a batch with the ridge that a model reports, in units of one."""
    A, T, _, _ = laws.weighted_centred(X, y[:, None], w, model.fit_intercept)
    sizes = np.sqrt((A**2).sum(axis=0) + model.ridge_diagonal)
    stacked = np.vstack([A, np.diag(np.sqrt(model.ridge_diagonal))]) / sizes
    below = np.vstack([T, np.zeros((len(sizes), 1))])
    return np.linalg.lstsq(stacked, below, rcond=None)[0], sizes[:, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [False, True])
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
    """Rows may be refused; those that are not are learnt, and never grow into an error."""
    random = np.random.default_rng(seed)
    X = KINDS[kind](random, 90)
    y = X[:, 0] / np.abs(X[:, 0]).max() + random.normal(size=90)
    model = LeastSquaresRegressor(ridge, "recursive", fit_intercept, forgetting_factor=factor)
    rows, grown = [], 0.0
    for start in range(0, 90, step):
        batch = range(start, min(start + step, 90))
        try:
            model.learn_many(X[batch], y[batch])
        except ValueError:
            assert model.count == len(rows)
            continue
        rows += batch
        w = factor ** np.arange(len(rows) - 1.0, -1.0, -1.0)
        expected, sizes = batch_solution(model, X[rows], y[rows], w)
        # What has grown to s keeps 16 - log10(s / c) digits.
        grown = max(grown, (w @ X[rows] ** 2).sum() / ridge)
        allowed = 1e-7 + 1e3 * laws.EPS * grown
        error = np.abs(model.output_weights * sizes - expected).max()
        assert allowed > 0.1 or error <= allowed * (1.0 + np.abs(expected).max())
    assert model.count == len(rows)


FORMS = [
    {"accumulator": "recursive"},
    {"accumulator": "recursive", "forgetting_factor": 0.9},
    {"accumulator": "recursive", "forgetting_factor": 0.5, "fit_intercept": False},
    {"accumulator": "recursive", "half_life": 3.0, "ridge": 1e-3},
    {"accumulator": "gram", "forgetting_factor": 0.9},
    {"accumulator": "orthogonal", "forgetting_factor": 0.9},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", FORMS, ids=str)
@strategies.examples(6)
@example(seed=6783)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_row_that_was_accepted_makes_no_later_call_raise(settings, kind, seed):
    random = np.random.default_rng(seed)
    X = KINDS[kind](random, 60) * random.choice([1e-3, 1.0, 1e3])
    model = LeastSquaresRegressor(**{"ridge": 1.0, **settings})
    for number, x in enumerate(X.tolist()):
        with suppress(ValueError):  # To refuse a row is fine.
            model.learn_one(dict(zip("abcde", x, strict=False)), float(random.normal()))
        if number % 15 == 14:
            assert np.isfinite(model.predict_one({"a": 1.0}))
            assert model.predict_one({"a": 1.0}, with_dist=True).sigma >= 0.0
            assert np.isfinite(model.output_weights).all()
            for other in (copy.deepcopy(model), model + model.empty(), model.empty() + model):
                assert other.count == model.count
                assert np.isfinite(other.predict_one({"a": 1.0}))
    laws.saved(model)


def test_the_ridge_is_chosen_again_at_checkpoints():
    """Columns of many sizes, and labels that begin to depend on one of them late."""
    random = np.random.default_rng(0)
    X = random.normal(size=(2100, 3)) * [1.0, 1e3, 1e6]
    y = (X[:, 0] + 0.3 * random.normal(size=2100) > 0.0).tolist()
    y[:300] = random.permutation(y[:300])
    model, ridges = LeastSquaresClassifier(accumulator="recursive"), set()
    for start in range(0, 2100, 100):
        part = slice(start, start + 100)
        model.learn_many(X[part], y[part])
        ridges.add(model.ridge_)
    assert len(ridges) > 3
    assert np.mean(model.predict_many(X[-500:]) == np.array(y[-500:])) > 0.85


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


def test_a_row_that_is_refused_leaves_the_units_of_features():
    random = np.random.default_rng(0)
    X = np.column_stack((random.normal(size=(320, 2)), np.ones(320)))
    model = LeastSquaresRegressor(accumulator="recursive")
    model.learn_many(X, random.normal(size=320) + X[:, 0])
    row = {0: 1e60, 1: 0.0, 2: 7.0}  # The constant feature begins to vary.
    laws.assert_refused(lambda: model.learn_one(row, 1.0), model, "outweigh")
