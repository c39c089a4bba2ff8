"""Forecasts that wait for their labels are found by what the sample says, or the model warns."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import StreamClassifier, StreamRegressor
from onlinels.stream import waiting as stream_waiting
from onlinels.stream.waiting import sample_key
from support import strategies


@given(st.data(), strategies.streams())
def test_keys_tell_samples_apart_whatever_the_order_and_types(data, stream):
    for x in stream.samples:
        shuffled = dict(data.draw(st.permutations(list(x.items()))))
        gap = data.draw(st.sampled_from([None, np.nan, pd.NA]))
        for name, value in x.items():
            if value is None or value is np.nan:
                shuffled[name] = gap
            elif isinstance(value, (bool, int, float)):
                shuffled[name] = np.float64(value)
        assert sample_key(shuffled) == sample_key(x)
    keys = {sample_key(x) for x in stream.samples}
    assert len(keys) == len({str(sorted((repr(n), v) for n, v in said(x))) for x in stream.samples})


def said(x):
    for name, value in x.items():
        if isinstance(value, np.ndarray):
            yield name, str(value.astype(float).tolist())
        elif isinstance(value, str):
            yield name, f"text {value}"
        else:
            yield name, "gap" if value is None or value is np.nan else str(float(value))


def test_names_of_one_feature_and_no_names():
    assert sample_key({1: 2.0}) == sample_key({np.int64(1): 2}) == sample_key({1.0: 2.0})
    assert sample_key({1: 2.0}) == sample_key({True: 2.0})
    assert len({sample_key(x) for x in ({}, {"1": 2.0}, {1: 2.0}, {"a": "2.0"}, {"a": ""})}) == 5


KINDS = StreamClassifier, StreamRegressor
LOST, UNSURE = "Many labels do not find", "Many rows equal other rows"


@pytest.fixture
def few_labels(monkeypatch):
    """Let models judge 40 labels at once instead of 500."""
    for name, value in {"N_JUDGED_LABELS": 40, "MANY_LABELS": 4, "NEARLY_ALL_LABELS": 36}.items():
        monkeypatch.setattr(stream_waiting, name, value)


def rows_of(n_rows, n_values=0):
    """Return samples of one feature, with one of some values or any, and their labels."""
    random = np.random.default_rng(0)
    values = random.integers(n_values, size=n_rows) if n_values else random.normal(size=n_rows)
    return [({"a": float(value)}, float(row // 25 % 3)) for row, value in enumerate(values)]


def rounded(x):
    return {name: round(value, 6) for name, value in x.items()}


def told(model, rows, delay, n_labels=lambda row: 1, changed=lambda row, x: x, n_asked=1):
    """Return the warnings of a model that predicts rows and learns them later."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        for row, (x, _) in enumerate(rows):
            for _ in range(n_asked):
                model.predict_one(x)
            late = row - delay
            for _ in range(n_labels(late) if late >= 0 else 0):
                model.learn_one(changed(late, rows[late][0]), rows[late][1])
    return [str(each.message) for each in caught]


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_warns_if_half_of_the_last_500_labels_find_no_forecast(kind):
    model = kind()
    (message,) = told(
        model, rows_of(540), 30, changed=lambda row, x: rounded(x) if row % 2 else x, n_asked=2
    )
    assert message.startswith(LOST)
    assert "Of the last 500 rows learnt, 250 had not been predicted, and 280 forecasts" in message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("few_labels")
def test_a_model_warns_once_until_labels_find_their_forecasts_again(kind):
    model, rows = kind(), rows_of(290)

    def changed(row, x):
        return x if 100 < row < 190 or row % 5 else rounded(x)

    assert [each[: len(LOST)] for each in told(model, rows, 20, changed=changed)] == [LOST] * 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("few_labels")
def test_a_model_that_is_saved_again_and_again_warns_as_well(kind):
    model, rows, messages = kind(), rows_of(100), []
    for start in range(0, 100, 20):
        messages += told(model, rows[start : start + 20], 10, changed=lambda row, x: rounded(x))
        model = onlinels.loads(onlinels.dumps(model))
    assert [each[: len(LOST)] for each in messages] == [LOST]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("few_labels")
def test_a_model_warns_of_forecasts_lost_in_batches(kind):
    model, X = kind(), [x for x, _ in rows_of(240)]
    with warnings.catch_warnings(record=True, action="always") as caught:
        for start in range(0, 240, 80):
            model.predict_many(X[start : start + 80])
            y = np.arange(80.0) // 25 % 3
            model.learn_many([*map(rounded, X[start : start + 80])], y)
    assert [str(each.message)[: len(LOST)] for each in caught] == [LOST]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("few_labels")
@pytest.mark.parametrize(("n_values", "wait"), [(3, 1), (3, 25), (8, 1)])
def test_a_model_warns_if_labels_may_find_the_forecasts_of_equal_rows(kind, n_values, wait):
    """Labels that arrive one by one, or many at once."""
    random, model, rows = np.random.default_rng(1), kind(), rows_of(150, n_values)
    with warnings.catch_warnings(record=True, action="always") as caught:
        for row, (x, _) in enumerate(rows):
            model.predict_one(x)
            if row >= 25 and row % wait == 0:
                for late in rows[row - 24 - wait : row - 24]:
                    if wait > 1 or random.random() < 0.5:
                        model.learn_one(*late)
    assert [str(each.message)[: len(UNSURE)] for each in caught] == [UNSURE]


def test_rows_of_few_values_with_labels_300_late_are_told():
    (message,) = told(StreamClassifier(), rows_of(1300, 8), 300)
    assert message.startswith(UNSURE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("few_labels")
@pytest.mark.parametrize(
    ("n_values", "delay", "how"),
    [
        # Labels in order.
        (0, 20, {}),
        (18, 10, {}),
        (0, 20, {"n_asked": 2}),
        # Labels at once, of equal rows as well.
        (0, 0, {}),
        (3, 0, {}),
        # Labels of some rows alone, or of more rows than wait.
        (0, 20, {"n_labels": lambda row: row % 3 == 0}),
        (0, 0, {"n_labels": lambda row: row % 3 == 0}),
        # Rows learnt twice.
        (0, 4, {"n_labels": lambda row: 2}),
        (3, 0, {"n_labels": lambda row: 2}),
    ],
)
def test_nothing_is_said_of_labels_that_find_their_forecasts(kind, n_values, delay, how):
    assert told(kind(), rows_of(150, n_values), delay, **how) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("few_labels")
def test_nothing_is_said_of_rows_that_are_learnt_without_a_forecast(kind, recwarn):
    rows = rows_of(360)
    X, y = [x for x, _ in rows], [target for _, target in rows]
    never, history, few = kind(), kind(), kind()
    for x, target in rows_of(100, 3):
        never.learn_one(x, target)
    # A history first, and a history after some predictions and late labels.
    history.learn_many(X[:100], y[:100])
    for _ in range(2):
        history.predict_many(X[:100])
    assert told(history, rows[100:200], 10) == []
    assert told(few, rows[:30], 10) == []
    few.learn_many(X[30:200], y[30:200])
    # Predictions of every row, and again, before its label.
    for start in range(200, 360, 20):
        few.predict_many(X[start : start + 20])
        few.predict_many(X[start : start + 20])
        few.learn_many(X[start : start + 20], y[start : start + 20])
    assert not recwarn


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_counts_of_labels_are_refused(kind):
    waiting = kind()._state.waiting
    for counts in (np.zeros(3), np.full(len(stream_waiting.Matches()), -1), np.zeros((2, 7))):
        with pytest.raises((TypeError, ValueError)):
            stream_waiting.Waiting().__setstate__(waiting.__getstate__() | {"_matches": counts})


@pytest.mark.filterwarnings("ignore:Texts among numbers")
@pytest.mark.parametrize(("make", "y"), [(StreamClassifier, "a"), (StreamRegressor, 1.0)])
@pytest.mark.parametrize(
    ("sample", "other"),
    [
        # Of texts, only the first 64 have columns.
        ({"id": "new", "v": 1.0}, {"id": "newer", "v": 1.0}),
        ({"id": 0.0, "v": 1.0}, {"w": 0.0, "v": 1.0}),
        ({"id": None, "v": 1.0}, {"id": "n/a", "v": 1.0}),
    ],
)
def test_samples_with_equal_rows_are_told_apart(make, y, sample, other):
    model = make()
    for number in range(100):
        name = f"text {number}" if sample["id"] == "new" else float(number)
        model.learn_one({"id": name, "v": float(number), "w": 0.5}, y)
    model.predict_one(sample)
    model.predict_one(other)
    waiting = model._state.waiting
    stored = [waiting.find(sample_key(x), 100, 0) for x in (sample, other)]
    assert None not in stored
    model.learn_one(sample, y)
    waiting = model._state.waiting
    assert waiting.find(sample_key(sample), 101, 0) is None
    assert waiting.find(sample_key(other), 101, 0) is not None
