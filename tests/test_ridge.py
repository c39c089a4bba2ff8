"""The ridge: the paper's, selected from sums or by folds, and the units on which it acts."""

import copy
import pickle
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from operator import methodcaller
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.linear_model import RidgeCV

import onlinels
from onlinels import (
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from onlinels.core.constants import MIN_RIDGE_IF_DEPENDENT, RIDGES_PER_DECADE
from onlinels.linear.ridge import kinds_of_units, select
from onlinels.sums.axes import grown
from onlinels.sums.folds import hashed_folds, name_hashes
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
from support.slow import pairs_in_turn, the_rest_slow

REMEDY = r'ridge=.*Pass a float >= 0, "paper", "auto" or KF'
BAD_RIDGES = [-1.0, np.nan, np.inf, np.float32(np.inf), 10**400, Fraction(-1, 3), "best"]
BAD_TYPES = [Decimal(1), None, KFold, True, [1.0]]
NO_UNITS = "without a ridge, the units of features do not matter"

test_settings_that_do_not_fit_are_refused = laws.settings_refused(
    LeastSquaresRegressor,
    [
        *(({"ridge": bad}, ValueError, REMEDY) for bad in BAD_RIDGES),
        *(({"ridge": bad}, TypeError, REMEDY) for bad in BAD_TYPES),
        ({"scaling": "Standard"}, ValueError, r'scaling=.*Pass "auto", "standard" or None'),
        ({"ridge": 0.0, "scaling": "standard"}, ValueError, NO_UNITS),
        ({"ridge": KFold(3), "accumulator": "orthogonal"}, ValueError, "do not go together"),
    ],
)


@pytest.mark.parametrize(
    "ridge", [0, 2.5, np.float32(1.0), Fraction(1, 3), "paper", "auto", KFold(), KFold(2)]
)
def test_a_ridge_stays_what_was_passed(ridge):
    assert LeastSquaresClassifier(ridge=ridge).ridge is ridge


def test_folds_are_equal_if_their_numbers_are():
    assert KFold() == KFold(n_folds=5) == pickle.loads(pickle.dumps(KFold()))
    assert len({KFold(3), KFold(4), KFold(3)}) == 2
    with pytest.raises(ValueError, match="ridge: KFold"):
        LeastSquaresClassifier(KFold(3)).merge(LeastSquaresClassifier(KFold(4)))


@pytest.mark.parametrize(
    ("n_folds", "error"), [(1, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_folds_are_at_least_two(n_folds, error):
    with pytest.raises(error, match="n_folds="):
        KFold(n_folds)


def test_paper_ridge_leaves_out_units_that_are_always_zero():
    """And one that hardly ever fires does not make the system singular."""
    A, rare = np.random.default_rng(0).normal(size=(100, 8)), np.diag([1e-15, *[1e2] * 99])
    for rows, n_classes, expected in (
        (A * (np.arange(8) > 2), 3, (3 / 8) ** 2 * (A**2).sum(axis=0)[3:].min()),
        *((np.zeros((4, n_features)), 4, 0.0) for n_features in (3, 0)),
        (rare, 10, 10 * np.finfo(float).eps * 100 * 1e4),
    ):
        model, labels = LeastSquaresClassifier("paper", fit_intercept=False), np.arange(len(rows))
        assert laws.fitted(model, rows, labels % n_classes).ridge_ == pytest.approx(expected)


# Selected from sums, by the definitions on the rows themselves


def accumulate(X, Y, w=None, centred=True, step=1000):
    """Return the statistics of rows that came in batches."""
    batches = [slice(start, start + step) for start in range(0, len(X), step)]
    return laws.taught(X, Y, w, fit_intercept=centred, batches=batches)._state.statistics


def ridge_from(acc):
    return select_ridge(acc.sums(), acc.count).ridge


def judge_by_rank(sums):
    """Judge ridges as for fewer rows than features."""
    return judge_by_tridiagonal(reduced_to_rank(sums) if sums.gram.any() else sums)


@given(
    strategies.rows(min_rows=4, whole=True),
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4),
)
@example(strategies.Rows(np.eye(4, 9), list("abba"), np.ones(4)), [1e-3, 1.0])
def test_the_likelihood_is_that_of_the_covariance_of_the_rows(rows, relative):
    """Restricted likelihood of targets with covariance I + A A' / c about an unknown mean.

    A row of weight 3 is one that is written three times.
    """
    Y, repeats = laws.one_hot(rows.y, tuple(dict.fromkeys(rows.y))), rows.w.astype(int)
    X, targets = np.repeat(rows.X.astype(float), repeats, axis=0), np.repeat(Y, repeats, axis=0)
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


@strategies.examples(100)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 1, 1, 10]))
def test_the_likelihood_is_within_a_tenth_of_its_maximum(seed, times):
    """Of that over all ridges, in logarithms."""
    sums, n_rows = hostile_sums(np.random.default_rng(seed), times)
    first, last = exponents(float(np.linalg.norm(sums.gram.diagonal())))
    grid = 10.0 ** (np.arange(first, last + 1) / RIDGES_PER_DECADE)
    ridges = np.append(select_ridge(copied(sums), n_rows).ridge, grid)
    found, *others = likelihood(sums, ridges)
    assert sums.weight * len(sums.target_squares) / 2.0 * (found - min(others)) < 0.1


def hostile_sums(random, times=1):
    """Return sums of a few rows of features of any units, some of them dependent or constant."""
    n_rows, size = times * random.integers(2, 120), times * random.integers(1, 24)
    n_targets = random.integers(1, 4)
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


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    """selection.h, called without Python."""
    return harness.compiled("C99", tmp_path_factory.mktemp("harness"))


def copied(sums):
    return replace(sums, gram=sums.gram.copy(order="F"), cross=sums.cross.copy(order="F"))


def likelihood(sums, ridges):
    return likelihood_criterion(sums, judge_by_eigenvalues(copied(sums)), ridges)


@pytest.mark.parametrize(
    ("is_short", "criterion"),
    [(False, likelihood), (True, lambda sums, ridges: new_row_criterion(sums)(ridges))],
)
@strategies.examples(100)
@given(st.integers(0, 2**32 - 1))
def test_both_languages_select_the_same_ridge_and_units(header, is_short, criterion, seed):
    """Nearly always exactly; otherwise ridges that are as good, up to the tie."""
    sums, n_rows = hostile_sums(np.random.default_rng(seed))
    if is_short:
        sums = replace(sums, weight=max(1.0, min(n_rows, len(sums.gram) / 2.0)))
    kinds = kinds_of_units("auto", np.sqrt(sums.gram.diagonal() / n_rows))
    ridge, which = harness.choose(header, sums, kinds, is_short)
    choice, expected = select(copied(sums), n_rows, kinds, is_short)
    own = in_units(copied(sums), kinds[expected])
    dependent = dependent_columns(copied(sums).gram)
    largest = own.gram.diagonal()[dependent].max(initial=0.0)
    choice = choice._replace(ridge=max(choice.ridge, MIN_RIDGE_IF_DEPENDENT * largest))
    assert which == expected
    if ridge == pytest.approx(choice.ridge, rel=1e-9):
        return
    found = criterion(own, np.array([ridge, choice.ridge]))
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


@pytest.mark.slow
def test_a_choice_takes_little_memory():
    """Of M features with many rows about 8 M^2 bytes beside the statistics."""
    random, size = np.random.default_rng(0), 6400
    acc = accumulate(random.normal(size=(2 * size, size)), random.normal(size=(2 * size, 1)))
    assert laws.peak_of(lambda: select(acc.sums(), acc.count, [None])) < 10 * size**2


COUNT = np.arange(30.0)[:, None]
DEGENERATE = [
    (np.full((30, 3), 0.7), COUNT),
    (COUNT, np.zeros((30, 1))),
    (COUNT, np.full((30, 1), 0.1)),
    (np.arange(1e140, 1e141, 1e140)[:, None], COUNT[:9] * 1e149),
    (COUNT[:9] * 1e-160, COUNT[:9] * 1e-160),
]


@given(strategies.rows(min_rows=1), st.data(), st.booleans())
def test_any_statistics_give_a_ridge(rows, data, centred):
    """However few rows, whatever their weights and however decayed: positive, and no warning."""
    own = rows.X, laws.one_hot(rows.y, tuple(dict.fromkeys(rows.y))), rows.w
    batch = data.draw(st.sampled_from([own] * 4 + DEGENERATE))
    acc = accumulate(*batch, centred=centred, step=data.draw(st.integers(1, 9)))
    acc = acc.scaled(data.draw(st.sampled_from([1.0, 0.3, 1e-3, 1e-30])))
    ridge = ridge_from(acc)
    assert 0.0 < ridge < np.inf
    assert np.isfinite(acc.solve(ridge, acc.diagonal)).all()
    empty = LeastSquaresMultiTargetRegressor(fit_intercept=centred)._state.statistics
    assert ridge_from(grown(empty, 3, 2)) == ridge_from(empty) == 1.0


@pytest.mark.parametrize("weight", [0.5, 0.3, 0.55])
def test_without_a_free_parameter_nothing_but_the_mean_can_be_told(weight):
    X = np.random.default_rng(0).normal(size=(2, 10))
    assert ridge_from(accumulate(X, X[:, :1], np.full(2, weight))) > 100.0


# Selected while rows come


def two_classes(n_rows, noise=1.0):
    random = np.random.default_rng(n_rows)
    X = random.normal(size=(n_rows, 6))
    y = (X[:, 0] + noise * random.normal(size=n_rows) > 0).tolist()
    return strategies.Rows(X, y, np.ones(n_rows))


def ridge_of(rows, setting="auto", scaling="auto"):
    """The ridge selected from the statistics of some rows: a merged model selects anew."""
    model, last = (LeastSquaresClassifier(setting, scaling=scaling) for _ in range(2))
    model.learn_many(rows.X[:-1], rows.y[:-1], rows.w[:-1])
    last.learn_many(rows.X[-1:], rows.y[-1:], rows.w[-1:])
    return (model + last).ridge_


def is_accepted(rows, ridge):
    """Rao's score test at half a standard deviation, from the rows."""
    A, Y = rows.X - rows.X.mean(axis=0), np.eye(2)[np.array(rows.y, dtype=int)]
    Y = Y - Y.mean(axis=0)
    inverse, freedom = np.linalg.inv(A.T @ A + ridge * np.eye(A.shape[1])), len(A) - 1
    weights = inverse @ A.T @ Y
    least = (Y**2).sum() - (weights * (A.T @ Y)).sum()
    effective = inverse @ A.T @ A
    score = freedom * ridge * (weights**2).sum() / least - np.trace(effective)
    variance = 2.0 * (np.trace(effective @ effective) - np.trace(effective) ** 2 / freedom)
    return score**2 <= variance / 4.0


CHECKPOINTS = [
    *((6, 6, 4), (7, 7, 4), (9, 9, 8), (17, 17, 16), (32, 31, 16)),
    *((64, 63, 33), (82, 82, 67), (93, 88, 67), (300, 296, 261)),
]
"""How many rows there are, up to the last checkpoint, and up to the last doubling."""


@pytest.mark.parametrize(("counts", "noise"), pairs_in_turn(CHECKPOINTS, [0.3, 1.0, 20.0]), ids=str)
def test_the_ridge_of_the_last_doubling_is_kept_while_it_is_accepted(counts, noise):
    """Otherwise, a checkpoint selects, however few rows there are."""
    n_rows, checkpoint, doubling = counts
    rows = two_classes(n_rows, noise)
    model = laws.learnt(lambda: LeastSquaresClassifier(scaling=None), rows)
    base = ridge_of(rows.take(range(doubling)), scaling=None)
    is_kept = is_accepted(rows.take(range(checkpoint)), base)
    expected = base if is_kept else ridge_of(rows.take(range(checkpoint)), scaling=None)
    assert model.ridge_ == pytest.approx(expected)
    laws.assert_is_batch_solution(model, rows)


def mixed(random, n_rows, n_features=6):
    """Return numbers of any units, indicators, a constant, and features that begin to vary late."""
    X = random.normal(size=(n_rows, n_features)) + random.normal(size=n_features)
    X[:, 1] = X[:, 1] > 0.8
    X[:, -1] = 0.1
    for feature, begin in enumerate(random.integers(0, n_rows, 3)):
        X[:begin, feature] = 0.0
    return X * 10.0 ** random.uniform(-6, 6, n_features)


FEATURES = {
    "mixed": mixed,
    "many late ones": lambda random, n_rows: mixed(random, n_rows, 24),
    "more than rows": lambda random, n_rows: random.normal(size=(n_rows, n_rows + 1)),
    "all but collinear": lambda random, n_rows: (
        np.repeat(random.normal(size=(n_rows, 3)), 2, axis=1)
        + 10.0 ** random.integers(-9, -3) * random.normal(size=(n_rows, 6))
    ),
}
WEIGHTS = {
    "ones": np.ones,
    "tenths": lambda n_rows: np.full(n_rows, 0.1),
    "a jump": lambda n_rows: np.where(np.arange(n_rows) < n_rows // 2, 1e-6, 1.0),
    "whole": lambda n_rows: np.arange(n_rows) % 4.0,
}
SETTINGS = [
    *({}, {"fit_intercept": False}, {"scaling": None}, {"scaling": "standard"}),
    *({"accumulator": "orthogonal"}, {"accumulator": "recursive"}, {"ridge": KFold(3)}),
    *({"forgetting_factor": 0.95}, {"half_life": 20.0}, {"ridge": "paper"}),
    {"accumulator": "recursive", "forgetting_factor": 0.97},
    {"scaling": "standard", "accumulator": "recursive", "ridge": 1.0},
    {"scaling": "standard", "accumulator": "recursive", "ridge": "paper"},
]
"""Settings of a classifier whose ridge or units follow the rows."""


def learn_cut(model, rows, data):
    """Let a model learn rows in drawn batches, or singly; questions and copies come between."""
    for batch in data.draw(strategies.splits(len(rows))):
        part, way = rows.take(batch), data.draw(st.integers(0, 4))
        if way == 0:
            model.learn_many(part.X, part.y, part.w)
        elif way == 1:
            model.predict_learn_many(part.X, part.y, part.w)
        elif way == 2:
            model.predict_many(part.X)
            other, model = model, pickle.loads(pickle.dumps(model))
            other.learn_many(-3.0 * part.X, part.y)
            other.predict_many(part.X)
            model.learn_many(part.X, part.y, part.w)
        else:
            for x, y, w in zip(part.dicts(), part.y, part.w.tolist(), strict=True):
                model.predict_one(x if way == 3 else {})
                model.learn_one(x, y, w)
    return model


def assert_cutting_changes_nothing(start, rows, data):
    """Assert that a drawn cutting gives the ridge, the units and the answers of one batch."""
    whole = laws.learnt(lambda: copy.deepcopy(start), rows)
    cut = learn_cut(copy.deepcopy(start), rows, data)
    assert cut.ridge_ == pytest.approx(whole.ridge_, rel=1e-5)
    np.testing.assert_allclose(cut.ridge_diagonal, whole.ridge_diagonal, rtol=1e-5)
    found, expected = (
        getattr(each, "scores_many", each.predict_many)(rows.X) for each in (cut, whole)
    )
    allowed = 1e-5 * (1.0 + np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=allowed)


def sides(signal, random):
    """Return labels that tell, but for noise, whether a signal is above its mean."""
    return (signal + random.normal(size=len(signal)) > signal.mean()).tolist()


TARGETS = {
    "labels": (LeastSquaresClassifier, sides),
    "numbers": (LeastSquaresRegressor, lambda s, random: s + random.normal(size=len(s))),
    "exact": (LeastSquaresRegressor, lambda s, random: s),
    "one class at first": (
        LeastSquaresClassifier,
        lambda s, random: np.where(np.arange(len(s)) < 20, "a", np.where(s > s.mean(), "b", "c")),
    ),
}
"""A kind of model, and its targets, of a signal and a generator."""


def last_unlearnt(model, rows):
    """Let a model unlearn its last row, if it can."""
    with suppress(ValueError):
        laws.unlearn(model, rows.take([len(rows) - 1]))
    return model


PASTS = {
    "learnt": lambda model, rows: model,
    "faded": lambda model, rows: model.fade(1e-3) or model,
    "merged": lambda model, rows: model + model.empty(),
    "unlearnt": last_unlearnt,
}
"""What may have become of a model since it has learnt rows."""


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@strategies.examples(50)
@given(
    data=st.data(),
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(3, 150),
    features=st.sampled_from([*FEATURES]),
    targets=st.sampled_from([*TARGETS]),
    weights=st.sampled_from(["ones", *WEIGHTS]),
    past=st.sampled_from([*PASTS]),
)
def test_no_cutting_of_the_stream_changes_ridge_or_units(
    settings, data, seed, n_rows, features, targets, weights, past
):
    """However many rows come at once, whenever somebody asks, and whatever became of the first."""
    random, (kind, target) = np.random.default_rng(seed), TARGETS[targets]
    X = FEATURES[features](random, n_rows)
    spread = np.ptp(X, axis=0)
    signal = X @ (random.normal(size=X.shape[1]) / np.where(spread > 0.0, spread, np.inf)) * 5.0
    rows = strategies.Rows(X, [*target(signal, random)], WEIGHTS[weights](n_rows))
    n_first = data.draw(st.integers(2, n_rows - 1))
    start = laws.learnt(lambda: kind(**settings), rows.take(range(n_first)))
    start = PASTS[past](start, rows.take(range(n_first)))
    assert_cutting_changes_nothing(start, rows.take(range(n_first, n_rows)), data)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@strategies.examples(40)
@given(data=st.data(), X=strategies.few_rows(), seed=st.integers(0, 2**32 - 1))
def test_no_cutting_of_few_rows_changes_ridge_or_units(settings, data, X, seed):
    """Rounding errors do not select between units in which the rows are equally likely."""
    labels = np.random.default_rng(seed).integers(0, data.draw(st.integers(2, 3)), len(X))
    rows = strategies.Rows(X, labels.tolist(), np.ones(len(X)))
    assert_cutting_changes_nothing(LeastSquaresClassifier(**settings), rows, data)


def test_a_batch_is_learnt_whole_where_memory_is_short_of_a_choice(monkeypatch):
    """The choice stays due; compiled code, which is short of it, too, leaves it to other code."""
    rows, model = two_classes(105), LeastSquaresClassifier()
    with monkeypatch.context() as patch:
        fails = mock.Mock(side_effect=MemoryError)
        patch.setattr("onlinels.linear.ridge.select_ridge_and_units", fails)
        patch.setattr("onlinels.linear.state.rows_of", lambda state: None)
        with pytest.raises(MemoryError):
            model.learn_many(rows.X, rows.y)
    assert model.ridge_ == pytest.approx(ridge_of(rows))
    laws.assert_is_batch_solution(model, rows)


@pytest.mark.parametrize("setting", ["auto", KFold(3)])
def test_merging_unlearning_and_fading_select_anew(setting):
    rows = two_classes(50)
    kept, make = rows.take(range(40)), partial(LeastSquaresClassifier, setting)
    left, right = (laws.learnt(make, rows.take(part)) for part in (range(30), range(30, 50)))
    merged, reverse = left + right, right + left
    assert merged.ridge_ == reverse.ridge_ == pytest.approx(ridge_of(rows, setting))
    merged.unlearn_many(rows.X[40:], rows.y[40:])
    assert merged.ridge_ == pytest.approx(ridge_of(kept, setting))
    laws.assert_is_batch_solution(merged, kept, size=300.0)
    merged.fade(0.1)
    assert merged.ridge_ == pytest.approx(ridge_of(kept.weighing(np.full(40, 0.1)), setting))


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
@pytest.mark.parametrize("setting", ["paper", "auto", 7.0])
@pytest.mark.parametrize("when", [(0,), (3, 64)])
def test_a_ridge_set_between_rows_is_in_force(accumulator, setting, when):
    rows = two_classes(70)
    asked, silent = (LeastSquaresClassifier(1.0, accumulator) for _ in range(2))
    for number, (x, y) in enumerate(zip(rows.dicts(), rows.y, strict=True)):
        for model in (asked, silent):
            if number in when:
                model.ridge = setting
            model.learn_one(x, y)
        asked.predict_one(x)
    for model in (asked, silent):
        laws.assert_is_batch_solution(model, rows)


@pytest.mark.parametrize("setting", ["auto", KFold(3)])
def test_while_rows_say_too_little_the_ridge_is_the_papers(setting):
    """One row, or all of one class at the checkpoint: nothing can be selected."""
    rows = two_classes(40)
    for y in (rows.y[:1], [True] * 36 + [False] * 2):
        model, paper = LeastSquaresClassifier(setting), LeastSquaresClassifier("paper")
        for one in (model, paper):
            one.learn_many(rows.X[: len(y)], y)
        assert model.ridge_ == pytest.approx(paper.ridge_)
    model.unlearn_many(rows.X[:1], [True])
    assert model.ridge_ != pytest.approx(paper.ridge_)


# How good the selected ridge is


def data_of(random, weights, n_rows, noise=1.0):
    X = random.normal(size=(n_rows, len(weights)))
    return X, X @ weights + noise * random.normal(size=n_rows)


UNITS = np.array([1e-2, 1.0, 30.0, 1.0])
WEIGHTS_NOW = np.array([3.0, -2.0, 1.0, 2.0])
PAST, NOW = map(partial(data_of, np.random.default_rng(0)), (np.zeros(4), WEIGHTS_NOW), (2000, 60))
FADE = methodcaller("fade", 1e-3)


def merge_with_whole_rows(model):
    model.fade(1e-3)
    model.merge(laws.fitted(model.empty(), PAST[0][:2] * UNITS, PAST[1][:2]))


LIGHT = [
    *(({}, FADE), ({"ridge": KFold(3)}, FADE), ({"accumulator": "orthogonal"}, FADE)),
    *(({"forgetting_factor": 0.999}, FADE), ({"half_life": 300.0}, id)),
    ({}, methodcaller("unlearn_many", PAST[0] * UNITS, PAST[1], w=1.0 - 1e-3)),
    ({}, merge_with_whole_rows),
]
"""Settings of models, and what leaves hardly any weight of what they have learnt."""


@pytest.mark.parametrize(("settings", "forget"), LIGHT)
@pytest.mark.filterwarnings("ignore:A removal leaves a part of a row:UserWarning")
def test_a_ridge_follows_rows_that_outweigh_the_past(settings, forget):
    """The past had hardly any signal, so its ridge is far too large for the rows that come."""
    errors, fresh = [], LeastSquaresRegressor(**settings)
    model = laws.fitted(fresh.clone(), PAST[0] * UNITS, PAST[1])
    forget(model)
    for each in (model, fresh):
        for row, (x, target) in enumerate(zip((NOW[0] * UNITS).tolist(), NOW[1], strict=True)):
            each.learn_one(dict(enumerate(x)), target, t=5000.0 + row)
        errors.append(np.linalg.norm(each.output_weights[:, 0] * UNITS - WEIGHTS_NOW))
    assert errors[0] < 1.3 * errors[1]


@pytest.mark.parametrize("scaling", ["auto", "standard"])
@pytest.mark.parametrize("case", the_rest_slow([(5, 1.5), (15, 1.25), (3, 1.5), (9, 1.25)], 2))
def test_few_rows_get_a_ridge_that_is_about_as_good_as_cross_validation(case, scaling):
    """In the median over problems, whatever the units; the paper's ridge is off by up to 1e4."""
    (n_rows, most), errors = case, []
    for seed in range(60):
        random = np.random.default_rng(seed)
        X, fresh = random.normal(size=(n_rows, 6)), random.normal(size=(300, 6))
        weights = random.normal(size=6) * (random.random(6) < 0.5)
        y, units = X @ weights + random.normal(size=n_rows), 10.0 ** random.integers(-4, 5, 6)
        model = laws.fitted(LeastSquaresRegressor(scaling=scaling), X * units, y)
        theirs = RidgeCV(np.logspace(-3, 4, 29)).fit(X, y)
        answers = model.predict_many(fresh * units), theirs.predict(fresh)
        errors.append([np.mean((each - fresh @ weights) ** 2) for each in answers])
    ours, theirs = np.median(errors, axis=0)
    assert ours < most * theirs


SHORT = [
    *((20, 60, 0.1, 1.0), (64, 60, 1.0, 1.0), (100, 60, 0.1, 1.0), (400, 50, 1.0, 0.97)),
    *((400, 50, 1.0, 0.9), (400, 20, 1.0, 0.95), (400, 20, 1.0, 0.99)),
    *((n_rows, 60, noise, 1.0) for n_rows in (20, 64, 100, 300) for noise in (0.1, 1.0)),
]
"""Numbers of rows and features, noise and forgetting factor: rows are few, or memory is short."""


@pytest.mark.parametrize("case", the_rest_slow(SHORT, 4), ids=str)
def test_the_selected_ridge_is_nearly_the_best(case):
    """Squared error beside that at the best ridge in hindsight, over six streams."""
    (n_rows, n_features, noise, factor), shares = case, []
    for seed in range(6):
        random = np.random.default_rng(seed)
        weights, fresh = random.normal(size=n_features), random.normal(size=(500, n_features))
        batch = data_of(random, weights, n_rows, noise)
        model = laws.fitted(LeastSquaresRegressor(forgetting_factor=factor), *batch)
        others = [laws.at(model, ridge=10.0**power) for power in np.arange(-6.0, 4.0, 0.5)]
        answers = np.array([each.predict_many(fresh) for each in (model, *others)])
        found, *wanted = ((answers - fresh @ weights) ** 2).mean(axis=1)
        shares.append(found / min(wanted))
    assert np.exp(np.log(shares).mean()) < 1.3
    assert max(shares) < 3.0


# Selected by folds


def explicit_error(X, y, folds, ridge, n_folds):
    """K-fold cross-validation with all rows at hand."""
    error = 0.0
    for fold in range(n_folds):
        out = folds == fold
        x_mean, y_mean, units = X[~out].mean(axis=0), y[~out].mean(), X[~out].std(axis=0)
        A = (X[~out] - x_mean) / units
        weights = np.linalg.solve(A.T @ A + ridge * np.eye(X.shape[1]), A.T @ (y[~out] - y_mean))
        error += (((X[out] - x_mean) / units @ weights + y_mean - y[out]) ** 2).sum()
    return error


@pytest.mark.parametrize("n_folds", [2, 3, 5])
@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_the_ridge_is_the_best_of_cross_validation(n_folds, noise):
    """Features are standardised by their training rows."""
    random = np.random.default_rng(n_folds)
    X, y = data_of(random, random.normal(size=8), 79, noise)
    X = (X + 0.5) * 10.0 ** random.uniform(-3, 3, 8)
    model = laws.fitted(LeastSquaresRegressor(KFold(n_folds), scaling="standard"), X, y)
    folds = hashed_folds(name_hashes(range(X.shape[1])), X, n_folds)
    ridges = model.ridge_ * 2.0 ** np.arange(-8.0, 9.0)
    errors = [explicit_error(X, y, folds, ridge, n_folds) for ridge in ridges]
    assert errors[8] <= min(errors) * (1.0 + 1e-3)
    np.testing.assert_allclose(model.ridge_diagonal, model.ridge_ * X.std(axis=0) ** 2)


WHOLE = np.unique(np.random.default_rng(0).integers(0, 8, (20_000, 6)), axis=0).astype(float)


@pytest.mark.parametrize("values", [WHOLE, WHOLE[:, :1] + np.arange(len(WHOLE))[:, None] / 3.0])
def test_folds_are_about_equal_and_the_same_in_every_precision(values):
    """Of whole numbers, small and often 0, and of others: chi-squared of 9 degrees of freedom."""
    names, expected = name_hashes(range(values.shape[1])), len(values) / 10
    folds = hashed_folds(names, values, 10)
    assert ((np.bincount(folds, minlength=10) - expected) ** 2 / expected).sum() < 35
    assert (hashed_folds(names, values.astype(np.float32), 10) == folds).all()


@given(
    st.data(), st.integers(0, 2**32 - 1), st.integers(17, 40), st.builds(KFold, st.integers(2, 5))
)
def test_neither_the_order_of_columns_nor_absent_zeros_change_the_folds(data, seed, n_rows, ridge):
    random = np.random.default_rng(seed)
    names = ["a", ("b", 2), 3, "4", "h5", None]
    X = random.normal(size=(n_rows, 6)) * (random.random((n_rows, 6)) < 0.7)
    y = (X @ random.normal(size=6) + random.normal(size=n_rows)).tolist()
    order = data.draw(st.permutations(range(6)))
    rows = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    samples = [{names[k]: row[k] for k in order if row[k]} for row in X.tolist()]
    models = [laws.fitted(LeastSquaresRegressor(ridge), each, y) for each in (rows, samples)]
    assert models[1].ridge_ == pytest.approx(models[0].ridge_, rel=1e-6)


@pytest.mark.parametrize("ridge", [1.0, "auto"])
def test_folds_are_dropped_with_the_ridge_that_needs_them(ridge):
    X, y = np.arange(40.0)[:, None], [number % 2 for number in range(40)]
    model, new = LeastSquaresClassifier(KFold(3)), LeastSquaresClassifier(ridge)
    for each in (model, new):
        each.learn_many(X, y)
        each.ridge = 2.0
        each.ridge = ridge
    assert (model.output_weights == new.output_weights).all()
    for other in (new, laws.fitted(model.empty(), X, y)):
        assert (model + other).count == 80
    laws.assert_refused(lambda: setattr(model, "ridge", KFold(3)), model, "needs statistics in 3")


# What the ridge acts on: features as they are, or standardised over all rows, exactly

FORMS = [
    *({"accumulator": each} for each in ("gram", "orthogonal", "recursive")),
    *({"accumulator": each, "fit_intercept": False} for each in ("gram", "recursive")),
]


def copied_by_a_file(model):
    return onlinels.loads(onlinels.dumps(model))


def units_of(model, rows):
    """Return every feature's deviation, about 0 without an intercept, as rows weigh."""
    X, weights = rows.X, rows.w / rows.w.sum()
    units = np.sqrt(weights @ (X - weights @ X * model.fit_intercept) ** 2)
    constant = np.ptp(X, axis=0) <= 1e-13 * np.abs(X).max(axis=0)
    return np.where(constant & model.fit_intercept, 0.0, units)


@pytest.mark.filterwarnings("ignore:X has more columns")
@pytest.mark.parametrize("form", FORMS, ids=str)
@strategies.examples(30)
@given(
    data=st.data(),
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(8, 90),
    ridge=st.one_of(st.floats(1e-2, 1e2), st.sampled_from(["auto", "paper"])),
    power=st.sampled_from([0, 0, 90, -90]),
)
def test_the_ridge_acts_on_features_standardised_over_all_rows(
    form, data, seed, n_rows, ridge, power
):
    """Scores and variances are those of rows that are standardised before, of any units.

    Models merge that know some of the features, and are saved, before anybody asks.
    """
    random = np.random.default_rng(seed)
    X, w = mixed(random, n_rows), random.integers(1, 4, n_rows) * 0.5
    rows = strategies.Rows(X * 10.0**power, sides(np.sign(X[:, 0]), random), w)
    model = LeastSquaresClassifier(ridge=ridge, scaling="standard", **form)
    n_first, n_merged = data.draw(st.sampled_from([(0, 0), (1, 2), (n_rows // 3, n_rows // 2)]))
    for part in map(rows.take, (range(n_first), range(n_first, n_merged))):
        samples = [{name: value for name, value in x.items() if value} for x in part.dicts()]
        model += laws.fitted(model.empty(), samples, part.y, part.w)
    model = data.draw(st.sampled_from([copy.copy, copied_by_a_file]))(model)
    rest = rows.take(range(n_merged, n_rows))
    laws.learn_in_batches(model, rest, data, ask=True, singly=True)
    units, order = units_of(model, rows), list(model.feature_names)
    np.testing.assert_allclose(model.ridge_diagonal, model.ridge_ * units[order] ** 2, rtol=1e-9)
    assert not model.output_weights[units[order] == 0.0].any()
    factors = np.divide(1.0, units, out=np.zeros(len(units)), where=units > 0.0)
    scaled = strategies.Rows(rows.X * factors, rows.y, rows.w)
    make = partial(LeastSquaresClassifier, model.ridge_, scaling=None, **form)
    plain = laws.learnt(make, scaled)
    for name, rtol in (("scores_many", 1e-6), ("variance_many", 1e-5)):
        found, wanted = getattr(model, name)(rows.X), getattr(plain, name)(scaled.X)
        allowed = rtol * (1.0 + np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0))
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=allowed)
    both = (laws.learnt(model.empty, strategies.Rows(each, rows.y, w)) for each in (X, rows.X))
    assert next(both).ridge_ == pytest.approx(next(both).ridge_, rel=1e-6)


@pytest.mark.parametrize("ridge", [2.0, "auto"])
def test_features_that_have_not_varied_have_a_variance_in_units_of_the_row(ridge):
    """In every form, also if the feature is new."""
    X = np.random.default_rng(0).normal(size=(256, 3))
    X[:, 2] = 5.0
    y, deviations = X[:, 0] + np.sin(np.arange(256.0)), []
    asked = [{2: 5.0 + far, 9: new} for far in (0.0, 1e-3, 1e3) for new in (0.0, 1e-3, 1e3)]
    for accumulator in ("gram", "recursive", "orthogonal"):
        model = laws.fitted(LeastSquaresRegressor(ridge, accumulator, scaling="standard"), X, y)
        deviations.append([each.sigma for each in model.predict_many(asked, True)])
    np.testing.assert_allclose(deviations[1:], deviations[:1] * 2, rtol=1e-6)
    known, *others = deviations[0]
    assert min(others) > known
    assert others[0] == pytest.approx(others[1], rel=1e-9)


def test_a_small_ridge_counts_for_small_features_beside_large_dependent_ones():
    """The ridge 1e-3 is nothing to features of size 1e6, and much to one of size 1e-2."""
    random = np.random.default_rng(0)
    A = random.normal(size=(100, 4)) * [1e6, 1e6, 1.0, 1e-2]
    A[:, 2] = A[:, 0] - A[:, 1]
    Y = random.normal(size=(100, 1))
    weights = laws.taught(A, Y, ridge=1e-3).output_weights
    stacked = np.vstack([A, np.sqrt(1e-3) * np.eye(4)])
    expected = np.linalg.lstsq(stacked, np.vstack([Y, np.zeros((4, 1))]), rcond=None)[0]
    np.testing.assert_allclose(weights[3], expected[3], rtol=1e-6)


@strategies.examples(30)
@given(
    exponent=st.integers(-30, 60),
    n_units=st.integers(0, 2**20),
    step=st.integers(3, 1000),
    n_rows=st.integers(6, 60),
    accumulator=st.sampled_from(["gram", "orthogonal"]),
    n_batch=st.sampled_from([1, 7, 100]),
)
def test_a_feature_varies_as_float64_says(exponent, n_units, step, n_rows, accumulator, n_batch):
    """Values some units in the last place apart, as long as float64 holds them exactly."""
    random = np.random.default_rng(n_units)
    counts = np.arange(n_rows)[:, None] * float(step)
    X = np.ldexp(2.0**52 + n_units, exponent) + np.ldexp(counts, exponent)
    y = 3.0 * counts[:, 0] / step + random.normal(size=n_rows)
    model, near = (LeastSquaresRegressor(0.0, accumulator) for _ in range(2))
    for start in range(0, n_rows, n_batch):
        part = slice(start, start + n_batch)
        model.learn_many(X[part], y[part])
        near.learn_many(counts[part], y[part])
    slope = np.ldexp(near.output_weights.item(), -exponent)
    assert model.output_weights.item() == pytest.approx(slope, rel=1e-9)
    expected = near.predict_many(counts)
    np.testing.assert_allclose(model.predict_many(X), expected, rtol=1e-9, atol=1e-9)
    assert model.predict_one({0: float(X[2, 0])}) == pytest.approx(expected[2], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
def test_a_warning_names_features_that_count_as_constant(accumulator):
    x = [{"time": 1.7e18 + 256.0 * (row % 2), "a": float(row)} for row in range(20)]
    model = laws.fitted(LeastSquaresRegressor(0.0, accumulator), x, np.arange(20.0) % 7)
    with pytest.warns(UserWarning, match=r"vary by rounding alone.* 1 of 2 .*'time'"):
        weights = model.output_weights
    assert (weights.ravel() == 0.0).tolist() == [name == "time" for name in model.feature_names]
