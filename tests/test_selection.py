"""The ridge chosen from the spectrum, against the definitions on the rows themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_wine

import laws
import strategies
from onlinels import GramAccumulator, HiddenLayer
from onlinels.linalg.selection import (
    INFLATION,
    best_ridge,
    candidate_ridges,
    gcv_criterion,
    gcv_ridge,
    likelihood_criterion,
)


def empty(centred, *sizes):
    return laws.centred(GramAccumulator(*sizes)) if centred else GramAccumulator(*sizes)


def accumulate(X, Y, w=None, centred=True, step=1000):
    acc = empty(centred)
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        acc.update(X[rows], Y[rows], None if w is None else w[rows])
    return acc


def chosen(*args, **settings):
    return gcv_ridge(accumulate(*args, **settings).spectrum())


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


@given(whole_rows, st.booleans(), relative_ridges, st.sampled_from([1.0, INFLATION]))
def test_gcv_is_its_definition_on_repeated_rows(rows, centred, relative, inflation):
    """RSS and trace of the hat matrix, a row of weight 3 written three times."""
    X, Y_repeated, Y = repeated(rows)
    spectrum = accumulate(rows.X, Y, rows.w, centred).spectrum()
    if not spectrum.target_squares.any():
        return
    A = np.hstack([np.ones((len(X), int(centred))), X])
    ridges = np.sort(np.array(relative) * (1.0 + np.trace(X.T @ X)))
    expected = []
    for ridge in ridges:
        penalty = ridge * np.eye(A.shape[1])
        penalty[: int(centred), : int(centred)] = 0.0
        hat = A @ np.linalg.solve(A.T @ A + penalty, A.T)
        residual = Y_repeated - hat @ Y_repeated
        freedom = len(A) - inflation * np.trace(hat)
        error = (residual**2).sum() + 1e-14 * spectrum.target_squares.sum()
        expected.append(np.log(error) - 2.0 * np.log(freedom) if freedom > 1e-9 else np.inf)
    actual = gcv_criterion(spectrum, ridges, inflation)
    checked = np.isfinite(expected)
    np.testing.assert_allclose(actual[checked], np.array(expected)[checked], atol=1e-6)
    assert np.isfinite(actual).any()


@given(whole_rows, relative_ridges)
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
    spectrum = accumulate(rows.X, Y, rows.w).spectrum()
    actual = likelihood_criterion(spectrum, ridges)
    np.testing.assert_allclose(actual, expected, atol=1e-8)


@given(strategies.rows(min_rows=1), st.data(), st.booleans())
def test_any_statistics_give_a_ridge(rows, data, centred):
    """However few rows, whatever their weights and however decayed: positive, and no warning."""
    columns = np.unique([str(label) for label in rows.y], return_inverse=True)[1]
    acc = accumulate(rows.X, columns, rows.w, centred, step=data.draw(st.integers(1, 9)))
    acc.scale(data.draw(st.sampled_from([1.0, 0.3, 1e-3, 1e-30])))
    ridge = gcv_ridge(acc.spectrum())
    assert 0.0 < ridge < np.inf
    assert np.isfinite(acc.solve(ridge)).all()


@pytest.mark.parametrize(
    ("X", "Y"),
    [
        (np.ones((1, 3)), np.ones((1, 2))),
        (np.full((30, 3), 0.7), np.arange(30.0)[:, None]),
        (np.arange(30.0)[:, None], np.zeros((30, 1))),
        (np.arange(30.0)[:, None], np.full((30, 1), 0.1)),
        (np.zeros((5, 2)), np.ones((5, 1))),
        (np.arange(1e140, 1e141, 1e140)[:, None], np.arange(9.0)[:, None] * 1e149),
        (np.arange(9.0)[:, None] * 1e-140, np.arange(9.0)[:, None] * 1e-140),
        (np.arange(9.0)[:, None] * 1e-160, np.arange(9.0)[:, None] * 1e-160),
        (np.arange(9.0)[:, None] ** [1, 1, 2], np.arange(9.0)[:, None]),
    ],
)
def test_degenerate_rows_give_a_ridge(X, Y):
    for centred in (False, True):
        assert 0.0 < chosen(X, Y, centred=centred) < np.inf
        assert gcv_ridge(empty(centred, 3, 2).spectrum()) == 1.0
    assert gcv_ridge(GramAccumulator().spectrum()) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_the_ridge_does_not_depend_on_how_the_rows_came(seed):
    X, Y = noisy_rows(200, 20, seed)
    X[:, 3] = X[:, 4] + X[:, 5]
    assert len({chosen(X, Y, step=step) for step in (1, 13, 100, 200)}) == 1
    X, Y = np.full((60, 2), [0.1, 9.81]), np.arange(60.0)[:, None] % 7
    w = np.random.default_rng(seed).random(60)
    assert {chosen(X, Y, w, step=step) for step in (1, 7, 60)} == {1.0}


def test_more_effective_parameters_than_rows_are_left():
    """After much forgetting: the ridge leaves fewer parameters than what the rows weigh."""
    X, Y = noisy_rows(400, 30)
    acc = laws.centred(GramAccumulator())
    for row in range(400):
        acc.scale(0.9)
        acc.update(X[row : row + 1], Y[row : row + 1])
    spectrum = acc.spectrum()
    assert spectrum.weight == pytest.approx(10.0)
    ridge = gcv_ridge(spectrum)
    effective = 1.0 + (spectrum.eigenvalues / (spectrum.eigenvalues + ridge)).sum()
    assert INFLATION * effective < spectrum.weight


@pytest.mark.parametrize("weight", [0.5, 0.3, 0.55])
def test_no_more_rows_than_free_parameters_are_left(weight):
    """Nothing but the mean can be told: the largest ridge."""
    X, Y = np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([[1.0], [2.0]])
    spectrum = accumulate(X, Y, np.full(2, weight)).spectrum()
    assert gcv_ridge(spectrum) == candidate_ridges(spectrum.eigenvalues[-1])[-1]


def test_noise_gets_a_large_ridge_and_signal_a_small_one():
    random = np.random.default_rng(0)
    X, noise = random.normal(size=(300, 10)), random.normal(size=(300, 1))
    signal = X @ random.normal(size=(10, 1))
    largest = accumulate(X, noise).spectrum().eigenvalues[-1]
    assert chosen(X, noise) > largest
    assert chosen(X, signal + noise) < 0.1 * largest
    assert chosen(X, signal) < 1e-6 * largest


def test_units_of_features_and_targets():
    X, Y = noisy_rows(100, 8)
    ridge = chosen(X, Y)
    assert chosen(X, 1e6 * Y - 3.0) == ridge
    assert chosen(1e3 * X + 5.0, Y) == pytest.approx(1e6 * ridge)


def test_many_features_are_not_undersmoothed():
    """Plain cross-validation errs here by a fifth and more; the mean of ten cuts of real data."""
    X, y = load_wine(return_X_y=True)
    X = HiddenLayer(200, activation="square", bias=False).transform_many(
        (X - X.mean(axis=0)) / X.std(axis=0) / 4.0
    )
    ratios = {"plain": [], "chosen": []}
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:120], order[120:]
        acc = accumulate(X[train], y[train])
        ridges = candidate_ridges(acc.spectrum().eigenvalues[-1])[20::2]

        def error(ridge, acc=acc, test=test):
            weights = acc.solve(ridge)
            return ((X[test] @ weights + acc.intercept(weights) - np.eye(3)[y[test]]) ** 2).sum()

        best = min(map(error, ridges))
        plain = best_ridge(ridges, gcv_criterion(acc.spectrum(), ridges, 1.0))
        ratios["plain"].append(error(plain) / best)
        ratios["chosen"].append(error(gcv_ridge(acc.spectrum())) / best)
    assert np.median(ratios["chosen"]) < 1.1 < np.median(ratios["plain"])


def test_candidates_are_the_same_numbers_whatever_the_data():
    ridges = candidate_ridges(3.7)
    others = candidate_ridges(3.7e4)
    assert np.isin(ridges[32:], others).all()
    assert 1e-13 <= ridges[0] / 3.7 < 1.4e-13
    assert 0.7e3 < ridges[-1] / 3.7 <= 1e3
    for largest in (1e-270, 1e-279, 1e279, 1e290, 1e300):
        assert np.isfinite(candidate_ridges(largest)).all()
        assert len(candidate_ridges(largest))
    assert candidate_ridges(0.0) == [1.0]


def test_equally_good_ridges_give_the_largest():
    ridges = np.array([1.0, 2.0, 3.0, 4.0])
    assert best_ridge(ridges, np.array([1.0 + 9e-10, 1.0, 1.0 + 9e-10, 1.1])) == 3.0
    assert best_ridge(ridges, np.array([np.inf, 1.0, 2.0, np.inf])) == 2.0
