"""Statistics in folds: dealt by content, summed like others, exact in cross-validation."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laws
import strategies
from onlinels import KFold, LeastSquaresClassifier
from onlinels.accumulators.centred import CentredAccumulator
from onlinels.accumulators.folded import FoldedAccumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.held_out import cross_validation_errors, held_out_errors
from onlinels.dealing import fold_of_rows
from onlinels.linalg.selection import candidate_ridges


def centred_gram():
    return CentredAccumulator(GramAccumulator())


makers = st.sampled_from([GramAccumulator, centred_gram])
fold_counts = st.integers(2, 6)


def targets_of(rows):
    classes = tuple(dict.fromkeys(rows.y))
    return laws.one_hot(rows.y, classes)


def explicit_errors(X, Y, w, folds, ridges, centred):
    """K-fold cross-validation with all rows at hand, by QR of the stacked system."""
    errors = np.zeros(len(ridges))
    for fold in set(folds.tolist()):
        out = folds == fold
        A, T, x_mean, y_mean = laws.weighted_centred(X[~out], Y[~out], w[~out], centred)
        for number, ridge in enumerate(ridges):
            stacked = np.vstack([A, np.sqrt(ridge) * np.eye(X.shape[1])])
            padded = np.vstack([T, np.zeros((X.shape[1], Y.shape[1]))])
            weights = np.linalg.lstsq(stacked, padded, rcond=None)[0]
            residual = (X[out] - x_mean) @ weights + y_mean - Y[out]
            errors[number] += w[out] @ (residual**2).sum(axis=1)
    return errors


@given(strategies.rows(), st.data(), fold_counts)
def test_rows_are_dealt_by_content(rows, data, n_folds):
    """Blind to the order of columns, to dtype, to columns of zeros and to the sign of zero."""
    names = ["a", ("b", 2), 3, "4", "h5", None][: rows.X.shape[1]]
    folds = fold_of_rows(names, rows.X, n_folds)
    assert folds.shape == (len(rows),)
    assert ((folds >= 0) & (folds < n_folds)).all()
    order = np.array(data.draw(st.permutations(range(len(names)))))
    values = rows.X.astype(np.float64)[:, order]
    values[values == 0.0] = -0.0
    names = [names[column] for column in order]
    assert (fold_of_rows(names, values, n_folds) == folds).all()
    wider = np.hstack([np.zeros((len(rows), 1)), values])
    assert (fold_of_rows(["absent", *names], wider, n_folds) == folds).all()
    used = [column for column in range(len(names)) if values[:, column].any()]
    assert (fold_of_rows([names[c] for c in used], values[:, used], n_folds) == folds).all()
    for row in range(len(rows)):
        assert fold_of_rows(names, values[row : row + 1], n_folds) == folds[row]


def test_names_that_stand_for_one_feature_deal_alike():
    values = np.random.default_rng(0).normal(size=(50, 2))
    folds = fold_of_rows([3, 4], values, 5)
    assert (fold_of_rows(["h3", ("h", 4)], values, 5) == folds).all()
    assert (fold_of_rows([4, 3], values, 5) != folds).any()
    assert (fold_of_rows(["3", "4"], values, 5) != folds).any()


def test_folds_are_the_same_in_every_process():
    values = np.arange(20.0).reshape(10, 2) / 3.0
    assert fold_of_rows(["x", 1], values, 5).tolist() == [3, 2, 4, 3, 2, 0, 4, 1, 4, 3]


@given(strategies.rows(), fold_counts)
def test_the_last_digits_do_not_deal(rows, n_folds):
    """A row transformed alone and in a batch, or kept as float32, comes into one fold."""
    values = rows.X.astype(np.float32).astype(np.float64)
    folds = fold_of_rows(range(values.shape[1]), values, n_folds)
    for nearly in (values * (1.0 + 1e-14), values.astype(np.float32)):
        assert (fold_of_rows(range(values.shape[1]), nearly, n_folds) == folds).all()


def test_folds_are_about_equal():
    """Whole numbers, small and often 0, as well as reals: chi-squared of 9 degrees of freedom."""
    random = np.random.default_rng(0)
    for values in (
        np.unique(random.integers(0, 8, (20_000, 6)), axis=0),
        random.normal(size=(20_000, 1)),
        np.arange(20_000)[:, None],
        np.arange(1, 20_001)[:, None] * [1, 2**20],
    ):
        sizes = np.bincount(fold_of_rows(range(values.shape[1]), values, 10), minlength=10)
        expected = len(values) / 10
        assert ((sizes - expected) ** 2 / expected).sum() < 35


@given(strategies.rows(), st.data(), makers, fold_counts)
def test_errors_are_those_of_cross_validation_on_stored_rows(rows, data, make, n_folds):
    """However the rows came: in batches, with repetitions merged in, some taken out, decayed."""
    Y = targets_of(rows)
    first = data.draw(st.integers(0, len(rows) - 1))
    factor = data.draw(st.sampled_from([1.0, 0.25]))
    acc, other = FoldedAccumulator(make, n_folds), FoldedAccumulator(make, n_folds)
    for batch in data.draw(strategies.splits(len(rows))):
        acc.update(rows.X[batch], Y[batch], rows.w[batch])
    w = rows.w.astype(float)
    if first:
        acc.update(rows.X[:first], Y[:first], 2.0)
        acc.scale(factor)
        acc.downdate(rows.X[:first], Y[:first], 2.0 * factor)
        other.update(rows.X[:first], Y[:first], 3.0)
        acc.merge(other)
        w = factor * w
        w[:first] += 3.0
    X = rows.X.astype(float)
    centre = X.mean(axis=0) if make is centred_gram else 0.0
    size = np.linalg.norm(np.sqrt(w)[:, None] * (X - centre)) ** 2 + 1e-3
    ridges = size * np.array(data.draw(st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=3)))
    folds = fold_of_rows(range(X.shape[1]), rows.X, n_folds)
    expected = explicit_errors(X, Y, w, folds, ridges, make is centred_gram)
    actual = cross_validation_errors(acc._members, ridges)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10 * (w @ Y**2).sum())
    assert acc.count == len(rows) + first
    np.testing.assert_allclose(acc.weight, w.sum())


@given(st.integers(0, 1000), st.integers(3, 60), st.integers(1, 8), makers, fold_counts)
def test_the_chosen_ridge_is_the_best_candidate(seed, n_rows, n_features, make, n_folds):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) + 0.5
    Y = X @ random.normal(size=(n_features, 2)) + random.normal(size=(n_rows, 2))
    w = random.random(n_rows) + 0.5
    acc = FoldedAccumulator(make, n_folds)
    acc.grow(n_features, 2)
    acc.name_features([f"x{column}" for column in range(n_features)])
    acc.update(X, Y, w)
    ridge = acc.select_ridge()
    folds = fold_of_rows([f"x{column}" for column in range(n_features)], X, n_folds)
    centred = make is centred_gram
    A = laws.weighted_centred(X, Y, w, centred)[0]
    # Smaller ones are near the limits of the explicit solution, too.
    ridges = candidate_ridges(np.linalg.eigvalsh(A.T @ A)[-1])[24:]
    best = explicit_errors(X, Y, w, folds, ridges, centred).min()
    assert explicit_errors(X, Y, w, folds, [ridge], centred)[0] <= best * (1.0 + 1e-6)


def test_telling_errors_changes_no_sums():
    sums = GramAccumulator(), GramAccumulator()
    for acc in sums:
        acc.update(np.arange(6.0).reshape(3, 2), [0, 1, 1])
    train, held_out = (acc.sums_about(acc) for acc in sums)
    first = held_out_errors(train, held_out, np.array([1.0]))
    assert held_out_errors(train, held_out, np.array([1.0])) == first


def test_rows_in_directions_that_no_training_row_has():
    """Rounding errors of the null space, divided by a tiny ridge, must not weigh such rows."""
    random = np.random.default_rng(280)
    X = random.normal(size=(3, 3)) + 0.5
    Y = random.normal(size=(3, 1))
    folds = [GramAccumulator(), GramAccumulator()]
    folds[0].update(X[:1], Y[:1])
    folds[1].update(X[1:], Y[1:])
    ridges = np.array([1e-12, 1e-11, 1e-10])
    errors = cross_validation_errors(folds, ridges)
    expected = explicit_errors(X, Y, np.ones(3), np.array([0, 1, 1]), np.zeros(3), False)
    np.testing.assert_allclose(errors, expected, rtol=1e-7)


def test_a_name_deals_like_that_name():
    X, Y = np.random.default_rng(0).normal(size=(40, 2)), np.ones((40, 1))
    for names in (["a", "b"], [0, 1], [7, "c"]):
        acc = FoldedAccumulator(GramAccumulator, 4)
        acc.grow(2, 1)
        acc.name_features(names)
        acc.update(X, Y)
        expected = np.bincount(fold_of_rows(names, X, 4), minlength=4)
        assert [fold.count for fold in acc._members] == expected.tolist()


@given(strategies.rows(min_rows=2), st.data(), makers, fold_counts)
def test_the_sum_of_the_folds_is_what_one_accumulator_holds(rows, data, make, n_folds):
    Y = targets_of(rows)
    as_labels = data.draw(st.booleans())
    targets = Y.argmax(axis=1) if as_labels else Y
    first = data.draw(st.integers(1, len(rows) - 1))
    plain, folded = make(), FoldedAccumulator(make, n_folds)
    others = make(), FoldedAccumulator(make, n_folds)
    width = rows.X.shape[1] + 1
    wider = rows.X.astype(float) @ np.eye(width - 1, width)
    large = 1.0 + (wider**2).sum()
    for change in (
        lambda acc, other: acc.update(rows.X[:first], targets[:first], rows.w[:first]),
        lambda acc, other: acc.grow(width, Y.shape[1] + 1),
        lambda acc, other: other.update(rows.X[first:], targets[first:], rows.w[first:]),
        lambda acc, other: acc.merge(other),
        lambda acc, other: acc.update(wider[:first], targets[:first], 1.5),
        lambda acc, other: acc.subtract(other),
        lambda acc, other: acc.merge(other),
        lambda acc, other: acc.downdate(wider[:1], targets[:1], rows.w[:1]),
        lambda acc, other: acc.scale(0.5),
    ):
        change(plain, others[0])
        change(folded, others[1])
        # The sum is asked for after every change, so a stale one shows.
        np.testing.assert_allclose(folded.solve(large), plain.solve(large), atol=1e-9)
    size = 1.0 + np.abs(plain.diagonal).max()
    weights = folded.solve(size)
    np.testing.assert_allclose(weights, plain.solve(size), atol=1e-9)
    np.testing.assert_allclose(folded.intercept(weights), plain.intercept(weights), atol=1e-9)
    np.testing.assert_allclose(folded.diagonal, plain.diagonal, atol=1e-9 * size)
    np.testing.assert_allclose(folded.target_squares, plain.target_squares, atol=1e-9)
    np.testing.assert_allclose(folded.weight, plain.weight)
    queries = rows.X.astype(float) @ np.eye(rows.X.shape[1], plain.n_features)
    np.testing.assert_allclose(
        folded.covariance(size).leverages(queries),
        plain.covariance(size).leverages(queries),
        atol=1e-9,
    )
    mine, theirs = folded.spectrum(), plain.spectrum()
    np.testing.assert_allclose(mine.eigenvalues, theirs.eigenvalues, atol=1e-9 * size)
    assert (mine.n_free, folded.count) == (theirs.n_free, plain.count)
    assert (folded.n_features, folded.n_targets) == (plain.n_features, plain.n_targets)
    sums, plain_sums = folded.sums_about(folded), plain.sums_about(plain)
    np.testing.assert_allclose(sums.gram, plain_sums.gram, atol=1e-9 * size)
    kept = np.array([Y.shape[1] - 1])
    for acc in (plain, folded):
        acc.keep_targets(kept)
    np.testing.assert_allclose(folded.solve(size), plain.solve(size), atol=1e-9)
    np.testing.assert_allclose(folded.target_squares, plain.target_squares, atol=1e-9)


@given(strategies.rows(min_rows=2), makers, st.randoms(use_true_random=False))
def test_placed_copies_merge_fold_by_fold(rows, make, random):
    """Sites that know features in other orders: the folds are those of one site that saw all."""
    width = rows.X.shape[1]
    names = [f"x{column}" for column in range(width)]
    order = random.sample(range(width), width)
    Y = targets_of(rows)
    here, there, both = (FoldedAccumulator(make, 3) for _ in range(3))
    for acc, used, part in [
        (here, range(width), slice(0, 1)),
        (there, order, slice(1, None)),
        (both, range(width), slice(None)),
    ]:
        acc.grow(width, Y.shape[1])
        acc.name_features([names[column] for column in used])
        acc.update(rows.X[part][:, list(used)], Y[part], rows.w[part])
    placed = there.placed(np.array(order), np.arange(Y.shape[1]), width, Y.shape[1])
    placed_again = placed.placed(np.arange(width), np.arange(Y.shape[1]), width + 1, Y.shape[1])
    assert (placed_again._hashes[:width] == here._hashes).all()
    here.merge(placed)
    assert [fold.count for fold in here._members] == [fold.count for fold in both._members]
    size = 1.0 + float(both.diagonal.max())
    ridges = np.array([1e-2, 1.0]) * size
    np.testing.assert_allclose(
        cross_validation_errors(here._members, ridges),
        cross_validation_errors(both._members, ridges),
        atol=1e-9 * (1.0 + both.weight),
    )


@pytest.mark.parametrize("make", [GramAccumulator, centred_gram])
def test_few_rows_or_none(make):
    acc = FoldedAccumulator(make, 5)
    assert acc.select_ridge() == 1.0
    acc.grow(3, 2)
    assert acc.select_ridge() == 1.0
    for row in range(4):
        acc.update(np.eye(4, 3)[row : row + 1] * 3.0, [row % 2])
        assert 0.0 < acc.select_ridge() < np.inf
    acc.update(np.zeros((5, 3)), [1] * 5)
    assert 0.0 < acc.select_ridge() < np.inf
    acc.scale(0.0)
    assert acc.select_ridge() == 1.0


@pytest.mark.parametrize("make", [GramAccumulator, centred_gram])
def test_bad_calls_change_nothing(make):
    acc, larger = FoldedAccumulator(make, 3), FoldedAccumulator(make, 3)
    random = np.random.default_rng(0)
    X = random.normal(size=(9, 2))
    acc.update(X, [0, 1, 1] * 3)
    larger.update(random.normal(size=(9, 2)), [0, 1, 1] * 3)
    stray = X[:1] + np.arange(50.0)[:, None]
    folds = fold_of_rows(range(2), stray, 3)
    beyond = stray[folds == 0][: acc._members[0].count + 1]
    before = pickle.dumps(acc)
    for call, error, message in [
        (lambda: acc.merge(FoldedAccumulator(make, 4)), ValueError, "4 folds, expected 3"),
        (lambda: acc.merge(make()), TypeError, "one kind"),
        (lambda: acc.subtract(larger), ValueError, "rows of one fold"),
        (
            lambda: acc.downdate(beyond, [0] * len(beyond)),
            ValueError,
            r"In fold 0 .* rows, expected at most the|sum of squares",
        ),
        (lambda: acc.downdate(np.ones((10, 2)), [0] * 10), ValueError, "at most the 9"),
        (lambda: acc.name_features(["a"]), ValueError, "1 names, expected 2"),
        (lambda: acc.scale(-1.0), ValueError, "factor=-1.0"),
        (lambda: acc.update([[np.nan, 1.0]], [0]), ValueError, "nan"),
    ]:
        with pytest.raises(error, match=message):
            call()
        assert pickle.dumps(acc) == before, message


def test_other_statistics_of_the_folds_do_not_mix():
    acc, centred = FoldedAccumulator(GramAccumulator, 2), FoldedAccumulator(centred_gram, 2)
    with pytest.raises(TypeError, match="expected GramAccumulator"):
        acc.merge(centred)


def test_statistics_without_sums_of_products_say_so():
    class Sumless(GramAccumulator):
        def sums_about(self, centre):
            return super(GramAccumulator, self).sums_about(centre)

    acc = FoldedAccumulator(Sumless, 2)
    acc.update(np.eye(2), [0, 1])
    with pytest.raises(TypeError, match=r'Sumless holds no sums .* Use accumulator="gram"'):
        acc.select_ridge()


@pytest.mark.parametrize(
    ("n_folds", "error"), [(1, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_bad_numbers_of_folds(n_folds, error):
    for make in (KFold, lambda n: FoldedAccumulator(GramAccumulator, n)):
        with pytest.raises(error, match="n_folds="):
            make(n_folds)


def test_the_sum_is_kept_until_something_changes_and_never_saved():
    acc = FoldedAccumulator(GramAccumulator, 2)
    acc.update(np.eye(3), [0, 1, 1])
    empty = pickle.dumps(acc)
    total = acc.total
    assert acc.total is total
    assert pickle.dumps(acc) == empty
    twin = copy.deepcopy(acc)
    twin.update(np.eye(3), [0, 1, 1])
    assert (acc.diagonal == 1.0).all()
    assert (twin.diagonal == 2.0).all()
    assert acc.total is total


def test_settings_of_folds():
    assert KFold() == KFold(n_folds=5)
    assert hash(KFold(3)) != hash(KFold(4))
    assert pickle.loads(pickle.dumps(KFold(7))) == KFold(7)


@pytest.mark.parametrize("seed", range(5))
def test_the_ridge_does_not_depend_on_how_the_rows_came(seed):
    random = np.random.default_rng(seed)
    X, noise = random.normal(size=(200, 12)), random.normal(size=(200, 2))
    X[:, 3] = X[:, 4] + X[:, 5]
    Y = X @ random.normal(size=(12, 2)) + noise
    ridges = set()
    for step in (1, 13, 200):
        order = random.permutation(200)
        acc = FoldedAccumulator(centred_gram, 4)
        for start in range(0, 200, step):
            rows = order[start : start + step]
            acc.update(X[rows], Y[rows])
        ridges.add(acc.select_ridge())
    assert len(ridges) == 1


def test_models_that_were_made_with_other_folds_merge_at_an_equal_ridge():
    """Neither empty() nor equal settings of now say in how many folds rows were kept."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(30, 3)), (np.arange(30) % 3).tolist()
    folded = LeastSquaresClassifier(ridge=KFold(3))
    folded.learn_many(X[:20], y[:20])
    folded.mutate({"ridge": 2.0})
    plain, both = folded.empty(), LeastSquaresClassifier(ridge=2.0)
    assert (folded + plain)._statistics.n_folds == 3
    plain.learn_many(X[20:], y[20:])
    both.learn_many(X, y)
    for merged in (folded + plain, plain + folded):
        laws.assert_same_model(merged, both)


def test_folds_that_are_needed_must_be_as_many():
    models = [LeastSquaresClassifier(ridge=ridge) for ridge in (KFold(3), 1.0)]
    for model in models:
        model.learn_many([{"a": 1.0}, {"b": 2.0}], ["x", "y"])
        model.mutate({"ridge": KFold(3)})
    unchanged = pickle.dumps(models[1])
    with pytest.raises(ValueError, match="needs statistics in 3 folds"):
        models[1].learn_one({"new": 1.0}, "z")
    laws.assert_unchanged(unchanged, models[1], pickle.dumps)
    before = pickle.dumps(models[0])
    with pytest.raises(ValueError, match="statistics in 1 folds, expected 3"):
        models[0].merge(models[1])
    laws.assert_unchanged(before, models[0], pickle.dumps)
