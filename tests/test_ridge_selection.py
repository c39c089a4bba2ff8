"""The ridge chosen from sums, against the definitions on the rows themselves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.linalg import eigh

from onlinels import KFold, LeastSquaresMultiTargetRegressor, LeastSquaresRegressor
from onlinels.core.constants import MIN_RIDGE_IF_DEPENDENT, RIDGES_PER_DECADE
from onlinels.linear.ridge import kinds_of_units, select
from onlinels.sums.axes import grown
from onlinels.sums.selection import (
    Sums,
    accepts_ridge,
    dependent_columns,
    exponents,
    in_units,
    judge_by_eigenvalues,
    judge_by_tridiagonal,
    likelihood_criterion,
    new_row_criterion,
    reduced_to_rank,
    select_ridge,
)
from support import harness, laws, strategies


def accumulate(X, Y, w=None, centred=True, step=1000):
    """Return the statistics of rows that came in batches."""
    batches = [slice(start, start + step) for start in range(0, len(X), step)]
    return laws.taught(X, Y, w, fit_intercept=centred, batches=batches)._state.statistics


def ridge_of(acc):
    return select_ridge(acc.sums(), acc.count).ridge


def chosen(*args, **settings):
    return ridge_of(accumulate(*args, **settings))


def repeated(rows):
    """Return rows and one-hot targets, a row of weight 3 written three times."""
    Y, repeats = laws.one_hot(rows.y, tuple(dict.fromkeys(rows.y))), rows.w.astype(int)
    return np.repeat(rows.X, repeats, axis=0).astype(float), np.repeat(Y, repeats, axis=0), Y


def noisy_rows(n_rows, n_features, seed=0, noise=0.5):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features))
    Y = X @ random.normal(size=(n_features, 2)) + noise * random.normal(size=(n_rows, 2))
    return X, Y


whole_rows = strategies.rows(min_rows=4, whole=True)
relative_ridges = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4)


def judge_by_rank(sums):
    """Judge ridges as for fewer rows than features."""
    return judge_by_tridiagonal(reduced_to_rank(sums) if sums.gram.any() else sums)


@given(whole_rows, relative_ridges)
@example(strategies.Rows(np.eye(4, 9), list("abba"), np.ones(4)), [1e-3, 1.0])
def test_the_likelihood_is_that_of_the_covariance_of_the_rows(rows, relative):
    """Restricted likelihood of targets with covariance I + A A' / c about an unknown mean."""
    X, targets, Y = repeated(rows)
    if len(X) < 2 or len(np.unique(targets, axis=0)) < 2:
        return
    ridges = np.array(relative) * (1.0 + np.trace(X.T @ X))
    ones, expected = np.ones((len(X), 1)), []
    for ridge in ridges:
        inverse = np.linalg.inv(np.eye(len(X)) + X @ X.T / ridge)
        shared = ones.T @ inverse @ ones
        projected = inverse - inverse @ ones @ ones.T @ inverse / shared
        error = np.trace(targets.T @ projected @ targets)
        logdet = np.log(shared.item() / len(X)) - np.linalg.slogdet(inverse)[1]
        expected.append(np.log(error) + logdet / (len(X) - 1))
    acc = accumulate(rows.X, Y, rows.w)
    for judge_by in (judge_by_eigenvalues, judge_by_tridiagonal, judge_by_rank):
        actual = likelihood_criterion(acc.sums(), judge_by(acc.sums()), ridges)
        np.testing.assert_allclose(actual, expected, atol=1e-8)


def drawn_sums(random, size):
    """Return sums of a drawn spectrum, some all but singular, and their eigenvalues."""
    decades = random.uniform(0.0, 15.0)
    eigenvalues = np.sort(10.0 ** (-decades * random.random(size) ** random.uniform(0.3, 3.0)))
    basis = np.linalg.qr(random.normal(size=(size, size)))[0]
    n_rows = int(size * 10.0 ** random.uniform(0.1, 2.0))
    gram = (basis * eigenvalues) @ basis.T * n_rows
    weights = random.normal(size=(size, 3)) * eigenvalues[:, None] ** random.uniform(-0.4, 0.5)
    noise = 10.0 ** random.uniform(-3, 1)
    rotated = n_rows * eigenvalues[:, None] * weights
    rotated += noise * np.sqrt(n_rows * eigenvalues)[:, None] * random.normal(size=(size, 3))
    explained = (rotated**2 / (n_rows * eigenvalues)[:, None]).sum(axis=0)
    squares = explained + noise**2 * (n_rows - size)
    return Sums((gram + gram.T) / 2.0, basis @ rotated, squares, float(n_rows)), n_rows


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    """selection.h, called without Python."""
    return harness.compiled("recursion", "C99", tmp_path_factory.mktemp("harness"))


def copied(sums):
    return replace(sums, gram=sums.gram.copy(order="F"), cross=sums.cross.copy(order="F"))


def hostile_sums(random):
    """Return sums of a few rows of features of any units, some of them dependent or constant."""
    n_rows, size, n_targets = random.integers(2, 120), random.integers(1, 24), random.integers(1, 4)
    X = random.normal(size=(n_rows, size)) * 10.0 ** random.uniform(-2.0, 2.0, size)
    kind = random.integers(6)
    X[:, ::2] = X[:, ::2] > 0.0 if kind == 0 else X[:, ::2]
    X *= 10.0 ** random.integers(-60, 60) if kind == 1 else 1.0
    if kind == 2:
        X[:, -1] = X[:, 0] + X[:, size // 2]
    if kind == 3:
        X[:, 0] = 0.0
    noise = 10.0 ** random.integers(-6, 3) * np.abs(X).max()
    Y = X @ random.normal(size=(size, n_targets)) + noise * random.normal(size=(n_rows, n_targets))
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return Sums(X.T @ X, X.T @ Y, (Y**2).sum(axis=0), float(n_rows), 1), int(n_rows)


@pytest.mark.parametrize("is_short", [False, True])
@strategies.examples(100)
@given(st.integers(0, 2**32 - 1))
def test_both_languages_select_the_same_ridge_and_units(header, is_short, seed):
    """Nearly always exactly; otherwise ridges that are as good, up to the tie."""
    random = np.random.default_rng(seed)
    sums, n_rows = hostile_sums(random) if seed % 4 else drawn_sums(random, int(seed % 90 + 1))
    if is_short:
        sums = replace(sums, weight=max(1.0, min(n_rows, len(sums.gram) / 2.0)))
    diagonal = sums.gram.diagonal().copy()
    kinds = kinds_of_units("auto", np.sqrt(diagonal / n_rows))
    ridge, which = harness.choose(header, sums, kinds, is_short)
    choice, expected = select(copied(sums), n_rows, kinds, is_short)
    own = in_units(copied(sums), kinds[expected])
    dependent = dependent_columns(copied(sums).gram)
    largest = own.gram.diagonal()[dependent].max(initial=0.0)
    if choice.ridge < MIN_RIDGE_IF_DEPENDENT * largest:
        choice = choice._replace(ridge=MIN_RIDGE_IF_DEPENDENT * largest)
    assert which == expected
    if ridge == pytest.approx(choice.ridge, rel=1e-9):
        return
    ridges = np.array([ridge, choice.ridge])
    if is_short:
        found = new_row_criterion(own)(ridges)
    else:
        found = likelihood_criterion(own, judge_by_eigenvalues(copied(own)), ridges)
    assert abs(found[0] - found[1]) <= choice.tie


@strategies.examples(100)
@given(st.integers(0, 2**32 - 1), st.floats(-6.0, 6.0))
def test_both_languages_test_a_ridge_alike(header, seed, power):
    """Unless it is at the edge, where a ridge that is a little different is judged differently."""
    sums, _ = hostile_sums(np.random.default_rng(seed))
    ridge = 10.0**power * float(sums.gram.diagonal().max())
    near = [accepts_ridge(copied(sums), ridge * factor) for factor in (0.999, 1.0, 1.001)]
    if len(set(near)) == 1:
        assert harness.is_kept(header, sums, ridge) == near[0]


def likelihoods(sums, ridges):
    """The criterion from eigenvalues and vectors of the Gram."""
    eigenvalues, vectors = eigh(sums.gram, lower=False)
    eigenvalues = np.maximum(eigenvalues, 1e-15 * eigenvalues[-1])
    squares = ((vectors.T @ sums.cross) ** 2).sum(axis=1) / eigenvalues
    shrunk = ridges / (eigenvalues[:, None] + ridges)
    left = max(sums.target_squares.sum() - squares.sum(), 0.0) + squares @ shrunk
    return np.log(left) - np.log(shrunk).sum(axis=0) / (sums.weight - sums.n_free)


@pytest.mark.parametrize("seed", range(12))
def test_the_likelihood_of_a_large_gram_is_within_a_tenth_of_its_maximum(seed):
    """Of that over all ridges, in logarithms."""
    random = np.random.default_rng(seed)
    sums, n_rows = drawn_sums(random, int(random.integers(150, 300)))
    first, last = exponents(float(np.linalg.norm(sums.gram.diagonal())))
    criterion = likelihoods(sums, 10.0 ** (np.arange(first, last + 1) / RIDGES_PER_DECADE))
    freedom = sums.weight * len(sums.target_squares) / 2.0
    ridge = select_ridge(copied(sums), n_rows).ridge
    found = likelihoods(sums, np.array([ridge]))[0]
    assert freedom * (found - criterion.min()) < 0.1


@pytest.mark.slow
def test_a_choice_takes_little_memory():
    """Of M features with many rows about 8 M^2 bytes beside the statistics."""
    random, size = np.random.default_rng(0), 6400
    acc = accumulate(random.normal(size=(2 * size, size)), random.normal(size=(2 * size, 1)))
    assert laws.peak_of(lambda: select(acc.sums(), acc.count, [None])) < 10 * size**2


@given(strategies.rows(min_rows=1), st.data(), st.booleans())
def test_any_statistics_give_a_ridge(rows, data, centred):
    """However few rows, whatever their weights and however decayed: positive, and no warning."""
    Y = laws.one_hot(rows.y, tuple(dict.fromkeys(rows.y)))
    acc = accumulate(rows.X, Y, rows.w, centred, step=data.draw(st.integers(1, 9)))
    acc = acc.scaled(data.draw(st.sampled_from([1.0, 0.3, 1e-3, 1e-30])))
    ridge = ridge_of(acc)
    assert 0.0 < ridge < np.inf
    assert np.isfinite(acc.solve(ridge, acc.diagonal)).all()


@pytest.mark.parametrize(
    ("X", "Y"),
    [
        (np.full((30, 3), 0.7), np.arange(30.0)[:, None]),
        (np.arange(30.0)[:, None], np.zeros((30, 1))),
        (np.arange(30.0)[:, None], np.full((30, 1), 0.1)),
        (np.arange(1e140, 1e141, 1e140)[:, None], np.arange(9.0)[:, None] * 1e149),
        (np.arange(9.0)[:, None] * 1e-160, np.arange(9.0)[:, None] * 1e-160),
    ],
)
def test_degenerate_rows_give_a_ridge(X, Y):
    for centred in (False, True):
        assert 0.0 < chosen(X, Y, centred=centred) < np.inf
        empty = LeastSquaresMultiTargetRegressor(fit_intercept=centred)._state.statistics
        assert ridge_of(grown(empty, 3, 2)) == ridge_of(empty) == 1.0


@pytest.mark.parametrize("weight", [0.5, 0.3, 0.55])
def test_no_more_rows_than_free_parameters_are_left(weight):
    """Nothing but the mean can be told: the largest ridge."""
    X, Y = np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([[1.0], [2.0]])
    choice = select_ridge(accumulate(X, Y, np.full(2, weight)).sums(), 2)
    assert choice.ridge > 100.0


def test_noise_gets_a_large_ridge_and_signal_a_small_one():
    random = np.random.default_rng(0)
    X, noise = random.normal(size=(300, 10)), random.normal(size=(300, 1))
    signal = X @ random.normal(size=(10, 1))
    largest = eigh(X.T @ X)[0][-1]
    assert chosen(X, noise) > largest
    assert chosen(X, signal + noise) < 0.1 * largest
    assert chosen(X, signal) < 1e-6 * largest


def test_units_of_features_and_targets():
    X, Y = noisy_rows(100, 8)
    ridge = chosen(X, Y)
    assert chosen(X, 1e6 * Y - 3.0) == ridge
    assert chosen(1e3 * X + 5.0, Y) == pytest.approx(1e6 * ridge)


def test_batches_do_not_change_the_choice_where_rows_can_be_fitted_exactly():
    """With 72 rows of 120 features: differences of sums would leave rounding to decide."""
    random = np.random.default_rng(4)
    X, y = random.normal(size=(72, 120)), random.normal(size=72)
    y += X @ random.normal(size=120)
    parts = ([slice(at, at + size) for at in range(0, 72, size)] for size in (1, 7, 72))
    taught = [laws.taught(X, y[:, None], None, "auto", "gram", True, each) for each in parts]
    assert len({model.ridge_ for model in taught}) == 1


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_folds_select_one_ridge_in_any_cut_of_rows_that_are_fitted_exactly(fit_intercept):
    """Also where features or targets are constant, and all errors are rounding."""
    for seed in range(6):
        random = np.random.default_rng(seed)
        n_rows, n_features = random.integers(5, 40), random.integers(1, 4)
        X = random.normal(size=(n_rows, n_features)) * 10.0 ** random.integers(-3, 4, n_features)
        X[:, 0] = (0.1, 1e8 / 3.0, X[0, 0])[seed % 3]
        y = np.full(n_rows, 0.1) if seed % 5 == 0 else X @ random.normal(size=n_features)
        ridge = KFold(int(random.integers(2, 6)))
        batch, single = (LeastSquaresRegressor(ridge, fit_intercept=fit_intercept) for _ in "bs")
        batch.learn_many(X, y)
        for x, target in zip(X.tolist(), y.tolist(), strict=True):
            single.predict_one(dict(enumerate(x)))
            single.learn_one(dict(enumerate(x)), target)
        assert single.ridge_ == pytest.approx(batch.ridge_, rel=1e-9), seed
