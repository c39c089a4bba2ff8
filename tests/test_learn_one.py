"""Rows that come one by one: asked in between or not, what is learnt is that of the batch."""

import copy
import pickle
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import (
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    dumps,
    loads,
)
from support import laws, strategies

SETTINGS = [
    {"ridge": 1.0},
    {"ridge": 1.0, "accumulator": "recursive"},
    {"ridge": 1.0, "accumulator": "recursive", "fit_intercept": False},
    {"ridge": 1.0, "accumulator": "orthogonal"},
    {"ridge": 1.0, "forgetting_factor": 0.9},
    {"ridge": 1.0, "forgetting_factor": 0.9, "accumulator": "recursive"},
    {"ridge": "paper"},
    {"ridge": 0.5, "priors": "equal"},
    {"ridge": KFold(3)},
    {},
]
OF_SUMS = [each for each in SETTINGS if each.get("accumulator") != "recursive"]


def stream(n_rows, seed=0, names="bac"):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_rows, len(names))).tolist()
    labels = random.integers(0, 3, n_rows).tolist()
    return [dict(zip(names, row, strict=True)) for row in rows], labels


def learnt(model, X, y):
    laws.fitted_by_row(model, X, y)
    return model


def assert_same_answers(model, other):
    assert (model.classes, model.count) == (other.classes, other.count)
    found = laws.aligned_weights(model, other)
    np.testing.assert_allclose(found, other.output_weights, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.intercept, other.intercept, rtol=1e-7, atol=1e-9)


CHOSEN = [{"fit_intercept": False}, {"scaling": None}, {"scaling": "standard"}, {"priors": "equal"}]
CHOSEN += [{"accumulator": "recursive"}, {"accumulator": "recursive", "forgetting_factor": 0.9}]
CHOSEN += [{"forgetting_factor": 0.9}, {"half_life": 9.0}, {"half_life": timedelta(days=9)}]
FIXED = [{"ridge": 1.0} | each for each in CHOSEN]
KINDS = LeastSquaresClassifier, LeastSquaresRegressor, LeastSquaresMultiTargetRegressor


def growing_stream(random, n_rows, kind):
    """Return rows, targets and weights; names, labels and changes of features come at any row."""
    n_names = random.integers(1, 9)
    names = random.permutation([*"abcdefgh"] if random.random() < 0.5 else range(8)).tolist()
    met = np.sort(random.integers(0, n_rows, n_names))
    met[: random.integers(1, n_names + 1)] = 0
    varies = met + random.integers(0, n_rows, n_names) * random.integers(0, 2, n_names)
    constants = random.choice([0.0, 1.0, -2.5], n_names)
    X = random.normal(size=(n_rows, n_names))
    X = np.where(np.arange(n_rows)[:, None] < varies, constants, X)
    rows = [
        {name: value for name, value, at in zip(names, row, met, strict=False) if at <= k}
        for k, row in enumerate(X.tolist())
    ]
    y = X.sum(axis=1) + random.normal(size=n_rows)
    if kind is LeastSquaresClassifier:
        n_classes = 1 + np.arange(n_rows) // random.integers(1, n_rows)
        targets = [int(k) for k in random.integers(0, np.minimum(n_classes, 6))]
    elif kind is LeastSquaresRegressor:
        targets = y.tolist()
    else:
        targets = [{"u": each, "v": -each + k % 3} for k, each in enumerate(y.tolist())]
    return rows, targets, random.choice([1.0, 1.0, 1.0, 0.5], n_rows).tolist()


@strategies.examples(150)
@given(
    st.sampled_from(KINDS),
    st.sampled_from([*SETTINGS, *CHOSEN, *FIXED]),
    st.integers(0, 10_000),
    st.integers(2, 40),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_names_labels_and_changes_that_come_with_any_row_are_as_if_known(
    kind, settings, seed, n_rows, asked
):
    if kind is not LeastSquaresClassifier:
        settings = {name: each for name, each in settings.items() if name != "priors"}
    random = np.random.default_rng(seed)
    rows, targets, weights = growing_stream(random, n_rows, kind)
    model, whole = kind(**settings), kind(**settings)
    times = [None] * n_rows
    if settings.get("half_life"):
        hours = np.cumsum(random.integers(-3, 9, n_rows)).tolist()
        times = [float(each) for each in hours]
        if isinstance(settings["half_life"], timedelta):
            times = [datetime(2024, 1, 1) + timedelta(hours=each) for each in hours]
    for x, y, w, t in zip(rows, targets, weights, times, strict=True):
        if random.random() < asked:
            model.predict_one(x)
        model.learn_one(x, y, w, t)
    whole.learn_many(rows, targets, weights, None if times[0] is None else times)
    assert model.count == whole.count
    laws.assert_same_model(model, whole)
    np.testing.assert_allclose(model.ridge_, whole.ridge_, rtol=1e-9)
    found = laws.aligned_weights(model, whole)
    np.testing.assert_allclose(found, whole.output_weights, rtol=1e-6, atol=1e-8)
    assert model.predict_one(rows[0]) == model.predict_many(rows[:1])[0] or (
        kind is not LeastSquaresClassifier
    )
    # A copy has the same numbers, and goes on alone.
    twin = copy.deepcopy(model)
    before = pickle.dumps(model)
    twin.learn_one(rows[0] | {"more": 1.0}, targets[-1], 1.0, times[-1])
    assert pickle.dumps(model) == before


@strategies.examples(40)
@given(st.data(), strategies.classifier_settings(), st.sampled_from([3, 12, 40]))
def test_answers_between_single_rows_are_those_of_a_fresh_solution(data, settings, n_features):
    """With new classes, heavy rows, batches, rows taken out and other ridges among them."""
    X, y = stream(90, data.draw(st.integers(0, 99)), range(n_features))
    asked, silent = LeastSquaresClassifier(**settings), LeastSquaresClassifier(**settings)
    steps = ["rows", "rows", "rows", "batch", "ridge", "heavy"]
    steps += ["out"] * (settings["accumulator"] != "orthogonal")
    y[60] = "late"
    for row in range(0, 90, 3):
        step = data.draw(st.sampled_from(steps))
        for model in (asked, silent):
            go_on(model, step, X[row : row + 3], y[row : row + 3], model is asked)
        found, expected = asked.scores_one(X[0]), copy.deepcopy(silent).scores_one(X[0])
        assert list(found) == list(expected)
        for label, score in expected.items():
            assert found[label] == pytest.approx(score, rel=1e-6, abs=1e-6)


def go_on(model, step, X, y, asks):
    """Learn three rows, in one of several ways."""
    if step == "ridge":
        model.ridge = 1.0 if model.ridge != 1.0 else 7.0
    if step == "batch":
        model.learn_many(X, y)
        return
    for x, label in zip(X, y, strict=True):
        model.learn_one(x, label, 1e3 if step == "heavy" else 1.0)
        if asks:
            model.predict_one(x)
    if step == "out":
        with suppress(ValueError):  # Too few digits would be left.
            model.unlearn_one(X[1], y[1])


@pytest.mark.parametrize("settings", OF_SUMS, ids=str)
def test_asking_and_saving_change_no_bit_of_what_is_learnt(settings):
    X, y = stream(140)
    asked, silent = LeastSquaresClassifier(**settings), LeastSquaresClassifier(**settings)
    for start in range(0, 140, 7):
        part = slice(start, start + 7)
        for model in (asked, silent):
            if start < 70:
                model.learn_many(X[part], y[part])
            else:
                learnt(model, X[part], y[part])
        asked.predict_one(X[start])
        if asked.priors is None:
            asked.variance_one(X[start])
        laws.saved(asked)
    for model in (asked, silent):
        # What was asked between single rows goes on with a batch from the sums alone.
        model.learn_many(X[:7], y[:7])
    assert (asked.output_weights == silent.output_weights).all()
    assert (asked.intercept == silent.intercept).all()
    assert asked.ridge_ == silent.ridge_


@pytest.mark.parametrize("seed", range(12))
def test_saving_between_rows_changes_no_bit_of_the_answers(seed):
    X, y = stream(60, seed, "abcde"[: 1 + seed % 5])
    model, twin = LeastSquaresClassifier(ridge=0.1), LeastSquaresClassifier(ridge=0.1)
    for number, (x, label) in enumerate(zip(X, y, strict=True)):
        assert model.scores_one(x) == twin.scores_one(x)
        for each in (model, twin):
            each.learn_one(x, label)
        twin = twin if number % 3 else loads(dumps(twin))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@strategies.examples(8)
@given(st.integers(0, 99), st.randoms(use_true_random=False))
def test_the_order_of_keys_changes_no_bit(settings, seed, random):
    X, y = stream(40, seed, "abcd")
    plain, shuffled = LeastSquaresClassifier(**settings), LeastSquaresClassifier(**settings)
    for number, (x, label) in enumerate(zip(X, y, strict=True)):
        items = list(x.items())
        if number:
            random.shuffle(items)
        plain.learn_one(x, label)
        shuffled.learn_one(dict(items), label)
        if number % 5 == 0:
            assert plain.scores_one(X[0]) == shuffled.scores_one(dict(reversed(X[0].items())))
    assert plain.feature_names == shuffled.feature_names
    assert (plain.output_weights == shuffled.output_weights).all()


VALUES = st.one_of(
    st.floats(-1e6, 1e6),
    st.integers(-(10**6), 10**6),
    st.booleans(),
    st.sampled_from(
        [
            *(kind(3) for kind in (np.float16, np.float32, np.uint8, np.int64, np.longdouble)),
            *(np.bool_(True), Fraction(1, 3), Decimal("2.5"), np.array(4.0), np.array([5.0])),
            *(np.array([1.0, 2.0]), np.float32(3e38), np.nan, np.inf, 10**400, 1e200),
            *(10**20, 1e50, 1e100, np.longdouble("1e400")),
            *("3", None, 1j, np.datetime64("2020-01-01"), timedelta(3), [1.0], np.ma.masked),
        ]
    ),
)


def outcome(call):
    try:
        return call()
    except (TypeError, ValueError) as error:
        return type(error)


@given(st.lists(VALUES, min_size=1, max_size=4), st.sampled_from([0, 100]), st.randoms())
def test_known_names_in_any_order_are_read_as_at_first_sight(values, n_others, shuffle):
    """Learnt or refused alike, without a warning, and a refused row leaves no trace."""
    values = values + [1.0] * n_others
    names = [f"name {number}" for number in range(len(values))]
    model = LeastSquaresClassifier(ridge=1.0)
    model.learn_many([dict.fromkeys(names, 1.0 + label) for label in (0, 1, 0)], [0, 1, 0])
    given_row = dict(zip(names, values, strict=True))
    shuffle.shuffle(names)
    x = {name: given_row[name] for name in names}
    careful = copy.deepcopy(model)
    for label in (0, 1, 0):
        model.predict_one(dict.fromkeys(given_row, 1.0 + label))
    found = outcome(lambda: model.predict_proba_one(x))
    expected = outcome(lambda: careful.predict_proba_many([x])[0])
    assert found == (pytest.approx(expected) if isinstance(expected, dict) else expected)
    before = pickle.dumps(model)
    refused = outcome(lambda: model.learn_one(x, 1))
    assert refused is outcome(lambda: careful.learn_many([x], [1]))
    if refused:
        assert pickle.dumps(model) == before
    else:
        expected = careful.output_weights
        np.testing.assert_allclose(model.output_weights, expected, rtol=1e-6, atol=1e-12)


@given(
    st.data(),
    st.integers(-12, 2),
    st.booleans(),
    st.lists(st.integers(-2, 3), min_size=1, max_size=4),
)
def test_rows_that_outweigh_the_ridge_cost_no_digits(data, exponent, fit_intercept, sizes):
    """A solution that follows single rows would lose as many digits as a row outweighs the past."""
    n_rows = data.draw(st.integers(2, 12))
    whole = st.lists(st.integers(-3, 3), min_size=len(sizes), max_size=len(sizes))
    X = np.array(data.draw(st.lists(whole, min_size=n_rows, max_size=n_rows)), dtype=float)
    X *= 10.0 ** np.array(sizes)
    y = [0, *data.draw(st.lists(st.integers(0, 2), min_size=n_rows - 1, max_size=n_rows - 1))]
    model = LeastSquaresClassifier(10.0**exponent, fit_intercept=fit_intercept)
    for row, label in zip(X.tolist(), y, strict=True):
        x = dict(enumerate(row))
        model.predict_one(x)
        model.learn_one(x, label)
    model.predict_one(x)
    laws.assert_is_batch_solution(model, strategies.Rows(X, y, np.ones(n_rows)))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_rows_without_features_are_predicted_and_learnt(settings):
    model = LeastSquaresClassifier(**settings)
    for number in range(20):
        model.predict_one({})
        model.learn_one({}, number % 2)
    assert model.predict_one({}) in (0, 1)
    model.learn_one({"a": 1.0}, 1)
    assert model.feature_names == ("a",)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_rows_after_rows_without_weight_are_learnt_whoever_asks(settings, fit_intercept):
    X, y = stream(8)
    asked, silent = (
        LeastSquaresClassifier(**{"fit_intercept": fit_intercept, **settings}) for _ in range(2)
    )
    for number, (x, label) in enumerate(zip(X, y, strict=True)):
        asked.predict_one(x)
        for model in (asked, silent):
            model.learn_one(x, label, float(number >= 4))
    assert_same_answers(asked, silent)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"accumulator": "recursive"},
        {"accumulator": "recursive", "forgetting_factor": 0.999},
    ],
    ids=repr,
)
def test_many_features_are_predicted_and_learnt_row_by_row(settings, fit_intercept):
    """Above 320 features rows are gathered in the inverse; some change in between empties that."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 331)), random.integers(0, 3, 200)
    X[:150, -1] = 0.0
    model = LeastSquaresClassifier(ridge=1.0, fit_intercept=fit_intercept, **settings)
    for number, (x, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        # The last feature comes late.
        x = dict(enumerate(x if number >= 150 else x[:-1]))
        model.predict_one(x)
        model.learn_one(x, label)
        if number == 100:
            model = pickle.loads(pickle.dumps(model))
    Y = (y[:, None] == np.array(model.classes)).astype(float)
    w = settings.get("forgetting_factor", 1.0) ** np.arange(199.0, -1.0, -1.0)
    A, T, _, _ = laws.weighted_centred(X, Y, w, fit_intercept)
    system = A.T @ A + np.diag(model.ridge_diagonal)
    expected = np.linalg.solve(system, A.T @ T)
    np.testing.assert_allclose(model.output_weights, expected, atol=1e-11)


def test_a_solution_that_goes_on_is_made_anew_after_so_many_rows():
    """Predicting and learning in turn solves once in 16,384 rows, and not once a row."""
    model, (X, y) = LeastSquaresClassifier(ridge=1.0), stream(16_400)
    valid_until = []
    for x, label in zip(X, y, strict=True):
        model.predict_one(x)
        model.learn_one(x, label)
        valid_until.append(model._state.following.valid_until)
    assert {*valid_until[20:16_383]} == {16_384.0}
    assert {*valid_until[16_384:]} == {32_768.0}


@pytest.mark.parametrize("n_labels", [0, 1, 2])
def test_empty_arrays_are_no_features(n_labels):
    model = LeastSquaresClassifier(ridge=1.0)
    for label in range(n_labels):
        model.learn_one({"h": np.zeros(0)}, label)
    answers = {model.predict_one({"h": np.zeros(0)}) for _ in range(3)}
    assert answers == {0 if n_labels else None}


def test_numbers_of_few_bits_are_read_without_a_warning():
    """Their sum may be beyond what they can hold; warnings are errors here."""
    wide, narrow = (
        {"a": np.float16(0.5), "b": 70000.0},
        {"a": np.float16(6e4), "b": np.float16(6e4)},
    )
    for row in (wide, narrow):
        model = LeastSquaresClassifier(ridge=1.0)
        for number in range(6):
            model.predict_one(row)
            model.learn_one(row, number % 2)
        assert model.count == 6


@strategies.examples(40)
@given(st.data(), st.sampled_from(SETTINGS[:6] + SETTINGS[-1:]), st.booleans())
def test_rows_of_any_weight_are_learnt_one_by_one_as_in_a_batch(data, settings, asks):
    """Whole numbers too, and none; the heaviest may dwarf all others."""
    X, y = stream(40, data.draw(st.integers(0, 99)))
    weights = [1.0, 1, 2.0, 3, 0.25, 7.5, 0, 0.0, np.float64(2.0), 1e6, True]
    w = [data.draw(st.sampled_from(weights)) for _ in y]
    singly, batch = LeastSquaresClassifier(**settings), LeastSquaresClassifier(**settings)
    for x, label, weight in zip(X, y, w, strict=True):
        if asks:
            singly.predict_one(x)
        singly.learn_one(x, label, weight)
    batch.learn_many(X, y, [float(weight) for weight in w])
    assert_same_answers(singly, batch)
    singly, batch = singly._state.statistics, batch._state.statistics
    np.testing.assert_allclose(singly.tally, batch.tally)
    assert singly.weightless == batch.weightless
