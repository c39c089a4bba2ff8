"""StreamClassifier: exact in every expert, one by one and in batches, and as it is said to be.

It is compared with weighted ridge solutions. What it refuses changes nothing.
"""

import copy
import datetime
from functools import partial
from itertools import repeat

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import LeastSquaresClassifier, StreamClassifier, StreamRegressor, dumps, loads
from onlinels.stream.classifier import MEMORIES
from onlinels.stream.features import RunningScaler
from support import laws, strategies
from support.laws import assert_alike_streams as assert_alike
from support.laws import learn_stream as learnt

# -- experts, batches and answers against ridge solutions -----------------------------------------

FRAME_KINDS = "number", "text", "bool", "whole", "constant"


@strategies.examples(20)
@given(st.data(), strategies.streams(max_rows=50, weighed=True), st.integers(0, 9))
def test_every_expert_is_the_weighted_ridge_solution(data, stream, seed):
    model = StreamClassifier(seed)
    learn = partial(laws.learn_stream_in, data.draw(strategies.splits(len(stream))), stream)
    laws.assert_memories_exact(model, laws.learn_logged(model, learn), MEMORIES)
    assert model.count == len(stream)
    assert sum(model.shares.values()) == pytest.approx(1.0)


@strategies.examples(20)
@given(strategies.streams(max_rows=40, weighed=True, kinds=("number", "bool"), gaps=False))
def test_one_expert_is_plain_least_squares(stream):
    model, plain = learnt(stream), LeastSquaresClassifier()
    expert = model._state.plain
    expert.learn_pending(model.count)
    names, units = model.feature_names, expert.factors
    for x, y, w in zip(stream.samples, stream.labels, stream.w or repeat(1.0), strict=False):
        values = np.array([float(x.get(name, 0.0)) for name in names]) * units
        plain.learn_one(dict(enumerate(values.tolist())), y, w)
    for x in stream.samples:
        values = np.array([float(x.get(name, 0.0)) for name in names]) * units
        row = dict(enumerate(values.tolist()))
        found, expected = expert.model.scores_one(row), plain.scores_one(row)
        # The expert names classes by their columns.
        assert [*found.values()] == pytest.approx([*expected.values()], rel=1e-6, abs=1e-6)


def in_kind(stream, rows, kind):
    if kind == "dicts":
        return [stream.samples[row] for row in rows]
    if kind == "pandas":
        return pd.DataFrame(stream.columns(rows, None if rows[0] % 2 else np.nan))
    if kind == "nullable":
        # Whole numbers stay: pandas warns where it casts large ones to see.
        return pd.DataFrame(stream.columns(rows)).convert_dtypes(convert_integer=False)
    return pl.DataFrame(stream.columns(rows), strict=False)


@strategies.examples(25)
@given(st.data(), strategies.streams(kinds=FRAME_KINDS, always=True))
def test_batches_of_any_kind_are_rows_one_by_one(data, stream):
    names = dict.fromkeys(name for sample in stream.samples for name in sample)
    # A frame has all columns in all rows: what is not there is a gap.
    samples = [{name: sample.get(name) for name in names} for sample in stream.samples]
    stream = strategies.Stream(samples, stream.labels)
    a, b = StreamClassifier(), learnt(stream)
    for rows in data.draw(strategies.splits(len(stream))):
        kind = data.draw(st.sampled_from(["dicts", "pandas", "nullable", "polars"]))
        y = [stream.labels[row] for row in rows]
        a.learn_many(in_kind(stream, rows, kind), y)
    assert_alike(a, b, stream.samples)


@strategies.examples(40)
@given(strategies.streams(always=True))
def test_predictions_agree_with_each_other(stream):
    model = learnt(stream)
    probabilities = model.predict_proba_many(stream.samples)
    assert probabilities == [model.predict_proba_one(x) for x in stream.samples]
    assert model.scores_many(stream.samples) == [model.scores_one(x) for x in stream.samples]
    predicted = model.predict_many(stream.samples)
    assert predicted == [model.predict_one(x) for x in stream.samples]
    for row, label in zip(probabilities, predicted, strict=True):
        assert tuple(row) == model.classes
        assert sum(row.values()) == pytest.approx(1.0)
        assert min(row.values()) > 0.0
        assert row[label] >= max(row.values()) * (1.0 - 1e-12)


@strategies.examples(25)
@given(st.data(), strategies.streams(always=True), strategies.streams(max_rows=6))
def test_predictions_leave_no_trace(data, stream, others):
    """But that they wait for labels: a row asked about before other rows were learnt is late."""
    a, b = StreamClassifier(), StreamClassifier()
    asked = [x | {"never met": 1.0} for x in (*stream.samples, *others.samples, {"text 0": "new"})]
    for x, y in zip(stream.samples, stream.labels, strict=True):
        for sample in data.draw(st.permutations(asked))[:4]:
            a.predict_one(sample)
        a.predict_proba_many(asked)
        a.predict_one(x)
        a.predict_proba_one(x)
        a.learn_one(x, y)
        b.learn_one(x, y)
    assert_alike(a, b, asked)
    backwards = a.predict_proba_many(asked[::-1])
    assert backwards[::-1] == b.predict_proba_many(asked)


@strategies.examples(40)
@given(st.data(), strategies.streams(kinds=("text", "text", "number", "array")))
def test_the_order_of_keys_is_no_matter(data, stream):
    shuffled = [dict(data.draw(st.permutations(list(x.items())))) for x in stream.samples]
    a, b = learnt(stream), learnt(strategies.Stream(shuffled, stream.labels))
    assert_alike(a, b, stream.samples)
    assert a.predict_proba_many(shuffled) == b.predict_proba_many(stream.samples)


def test_late_labels_do_not_mislead():
    """Labels in runs of 25: the last one that is there is always that of the run before."""
    y = (np.arange(1000) // 25 % 3).tolist()
    X, model, right = np.random.default_rng(0).normal(size=(1000, 2)), StreamClassifier(), 0
    for row, x in enumerate(X.tolist()):
        right += model.predict_one(dict(enumerate(x))) == y[row]
        if row >= 24:
            model.learn_one(dict(enumerate(X[row - 24].tolist())), y[row - 24])
    assert right > 750


@strategies.examples(25)
@given(strategies.streams(always=True))
def test_a_row_asked_twice_waits_once_and_moves_the_scale_once(stream):
    a = laws.learnt_late(stream.samples, stream.labels)
    b, x = copy.deepcopy(a), {"always": 0.5, "text 0": "x", "number 0": None}
    answers = [a.predict_proba_one(x) for _ in range(3)]
    assert answers == [answers[0]] * 3
    assert a.predict_proba_many([x, x]) == answers[:2]
    b.predict_one(x)
    assert laws.saved(a) == laws.saved(b)


def test_no_more_than_4096_forecasts_wait():
    model = StreamClassifier()
    model.predict_many([{"a": float(number)} for number in range(4200)])
    assert len(model._state.waiting) == 4096
    model.learn_many([{"a": 1.0}, {"a": 2.0}], [0, 1])
    model.predict_many([{"a": float(number)} for number in range(9000, 13_200)])
    model.predict_one({"a": 0.5})
    assert len(model._state.waiting) == 4096
    memory = model._raw_memory_usage
    model.predict_many([{"a": float(number)} for number in range(20_000, 24_200)])
    assert model._raw_memory_usage < memory + 4096


# -- parts, and refusals --------------------------------------------------------------------------


class LiteralFeature:
    """Mean and variance of one feature, as said: fading, anew after five values far off."""

    def __init__(self, before=()):
        # What was 0 in all rows before it came, but where it was unknown.
        known = [age for age, value in enumerate(reversed(before)) if not np.isnan(value)]
        self.weight, self.mean, self.variance = sum(0.9995**age for age in known), 0.0, 0.0
        self.n_far = 0

    def transform(self, value):
        if np.isnan(value) or not self.weight:
            return 0.0
        if not self.variance:
            return np.sign(value - self.mean)
        return np.clip((value - self.mean) / np.sqrt(self.variance), -6.0, 6.0)

    def learn(self, value):
        if np.isnan(value):
            self.weight, self.n_far = 0.9995 * self.weight, 0
            return
        limit = 6.0 * np.sqrt(self.variance)
        if limit and self.weight >= 4.0 and abs(value - self.mean) > limit:
            self.n_far += 1
            if self.n_far == 5:
                self.weight, self.mean, self.variance, self.n_far = 1.0, value, 0.0, 0
                return
            value = np.clip(value, self.mean - limit, self.mean + limit)
        else:
            self.n_far = 0
        before, self.weight = 0.9995 * self.weight, 0.9995 * self.weight + 1.0
        mean = self.mean + (value - self.mean) / self.weight
        squares = before * (self.variance + (self.mean - mean) ** 2) + (value - mean) ** 2
        self.mean, self.variance = mean, squares / self.weight


@strategies.examples(40)
@given(st.data(), strategies.rows(max_rows=30), st.integers(0, 2**32 - 1))
def test_scales_follow_gaps_outliers_shifts_and_late_features(data, rows, seed):
    random = np.random.default_rng(seed)
    X = np.tile(rows.X.astype(float), (data.draw(st.integers(1, 4)), 1))
    X[random.random(X.shape) < data.draw(st.sampled_from([0.0, 0.4]))] = np.nan
    X[random.random(X.shape) < data.draw(st.sampled_from([0.0, 0.1]))] *= 1e4
    X[len(X) * 3 // 4 :] += data.draw(st.sampled_from([0.0, 1e5]))
    X *= data.draw(st.sampled_from([1.0, 2.0**-400, 2.0**400]))
    n_known, late = data.draw(st.integers(1, X.shape[1])), len(X) // 2
    scaler, literal = RunningScaler().grown(n_known), [LiteralFeature() for _ in range(n_known)]
    for number, row in enumerate(X):
        if number == late:
            scaler = scaler.grown(X.shape[1], lambda name: [name])
            literal += [LiteralFeature(0.0 * column) for column in X[:late, n_known:].T]
        known = row[: len(literal)]
        expected = [each.transform(value) for each, value in zip(literal, known, strict=True)]
        np.testing.assert_allclose(scaler.transform(known), expected, rtol=1e-7, atol=1e-7)
        scaler = scaler.learnt(known, np.flatnonzero(np.isnan(row)).tolist())
        for each, value in zip(literal, known, strict=True):
            each.learn(value)


def test_what_comes_to_rest_stays_at_rest():
    scaler = RunningScaler().grown(1)
    for value in [1.0] * 500 + [3.3] * 20_000:
        scaler = scaler.learnt(np.array([value]))
    assert abs(scaler.transform(np.array([3.3]))[0]) < 0.01


def test_equal_names_of_texts_are_one():
    model = laws.fitted(StreamClassifier(), [{1: "x"}, {"b": 1.0}], ["y", "z"])
    model.learn_many([{1.0: "y", "c": 2.0}, {True: "y", "d": 3.0}], ["y", "z"])
    assert model.feature_names == ((1, "x"), "b", "c", (1, "y"), "d")


@pytest.mark.parametrize("name", ["array", "number", "text", "both"])
def test_a_gap_leaves_all_columns_of_a_name_unknown(name):
    """As if they were at their means, which here are 0 in the rows that are asked."""
    x = {"array": np.array([1.0, -1.0]), "number": 1.0, "text": "x", "both": "x"}
    model = StreamClassifier()
    model.learn_one(x, 1)
    model.learn_one(x | {"both": 2.0}, 0)
    x = x | {"both": 3.0}
    model.learn_one({key: value for key, value in x.items() if key != name}, 1)
    names = [each for each in model.feature_names if name in (each, each[0])]
    assert len(names) == {"array": 2, "both": 2}.get(name, 1)
    assert model.scores_one(x | {name: None}) == model.scores_one(x | {name: np.nan})
    assert model.scores_one(x | {name: None}) != model.scores_one(x)


GOOD = {"newer": 3.0, "newest": "text"}
BAD_SAMPLES = [
    (["a"], "x is of type list"),
    (None, "x is of type NoneType"),
    ({"a": np.inf}, r"x\['a'\] is inf"),
    ({"a": -1e151}, r"x\['a'\] is -1e\+151"),
    ({"a": 1.0, "b": {}}, r"x\['b'\] is {}"),
    ({"a": datetime.date(2020, 1, 1)}, r"of type date, expected a number"),
    ({"a": [1.0, 2.0]}, r"x\['a'\] is \[1.0, 2.0\] of type list"),
    ({"a": b"text"}, r"x\['a'\] is b'text'"),
    ({"a": np.array([1.0, np.inf])}, r"x\['a'\] holds inf"),
    ({"array": np.ones(3)}, r"x\['array'\] has 3 values, expected 2"),
    ({"new": np.ones(1), ("new", 0): 1.0}, r"The names \('new', 0\) and .* stand for one feature"),
    ({np.nan: 1.0}, "name is NaN"),
    ({"new": "text", np.nan: "text"}, "name is NaN"),
    ({"new": 2.0, object(): 1.0}, "Feature name <object object"),
]
BAD_BATCHES = [
    (np.zeros(3), [1, 2, 3], r"X has shape \(3,\)"),
    (np.zeros((2, 2, 2)), [1, 2], r"X has shape \(2, 2, 2\)"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), [1], "X has several columns of one name"),
    (pd.Series([1.0]), [1], "X is of type Series"),
    ({"a": 1.0}, [1], "X is of type dict"),
    (None, [1], "X is of type NoneType"),
    (np.array([[1.0], [np.inf]]), [1, 2], r"^X\[1\]\[0\] is inf"),
    ([{"new": 1.0}, {"a": 1.0}], [1], "y has 1 labels, expected 2"),
    ([{"new": 1.0}], [1, "new class"], "y has 2 labels, expected 1"),
    ([{"new": 1.0}], 1, "y is of type int"),
    ([{"new": 1.0}], np.ones((1, 2)), r"y has shape \(1, 2\)"),
    ([{"c": np.ones(2)}, {"c": np.ones(3)}], [1, 2], r"x\['c'\] has 3 values"),
    *(
        (batch, ["new class", 1, 2][: len(batch)], text)
        for sample, text in BAD_SAMPLES
        for batch in ([sample], [GOOD, sample, GOOD])
    ),
    ([GOOD, {"a": 2.0}, GOOD], ["new class", float("nan"), 1], r"y\[1\] is nan"),
    ([GOOD], [["x"]], r"y(\[0\])? is .* of type list"),
    ([GOOD, None, GOOD], ["x"] * 3, r"^X\[1\] is of type NoneType"),
    ([GOOD, {"a": [1.0]}], ["x"] * 2, r"^X\[1\]\['a'\] is \[1.0\] of type list"),
]


def test_bad_rows_leave_no_trace():
    model = StreamClassifier()
    calls = [("learn_one", x, "new class", text) for x, text in BAD_SAMPLES]
    calls += [("learn_many", X, y, laws.in_batch(text)) for X, y, text in BAD_BATCHES]
    laws.assert_stream_refuses(model, calls, [n % 4 > 1 for n in range(9)])


@pytest.mark.parametrize(
    "samples",
    [
        [{}] * 9,
        [{"a": 7.0}] * 9,
        [{"a": scale * (1 + n)} for n, scale in enumerate([1e-150, 1e149] * 5)],
        [{"a": 1e150 * (-1) ** n, "b": 1e-300 * n, "c": 5e-324} for n in range(9)],
        [{"a": None, "b": np.nan}] * 9,
        [{"a": f"text {n}"} for n in range(300)],
        [{f"late {n}": n} for n in range(40)],
        [{"a": np.arange(800.0) * n} for n in range(2)],
        [{"a": n % 2, "a=x": 2.0, "é\n": True, "": 1, ("a", (1, None)): 3} for n in range(9)],
    ],
    ids=["none", "constant", "far", "farther", "gaps", "texts", "late", "wide", "odd names"],
)
def test_extremes_are_learnt(samples):
    one_class, model = StreamClassifier(), StreamClassifier()
    for number, x in enumerate(samples):
        one_class.learn_one(x, "only")
        model.learn_one(x, number % 3)
    asked = [*samples[:5], {"a": 1e150}, {}]
    assert one_class.predict_many(asked) == ["only"] * len(asked)
    assert one_class.predict_proba_one(samples[0]) == {"only": 1.0}
    for row in model.predict_proba_many(asked):
        assert sum(row.values()) == pytest.approx(1.0)
        assert min(row.values()) > 0.0
    assert model.margin_one(samples[0]) >= 0.0


def test_nothing_learnt_gives_no_label():
    model = StreamClassifier()
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": "x"}) == {}
    assert model.predict_many([{}, {"a": 1.0}]) == [None, None]
    assert model.predict_proba_many(np.ones((2, 3))).shape == (2, 0)
    assert (model.classes, model.feature_names, model.count) == ((), (), 0)
    assert sum(model.shares.values()) == pytest.approx(1.0)
    assert model.shares["plain least squares"] == pytest.approx(3.0 / 9.0)


@pytest.mark.parametrize("make", [StreamClassifier, StreamRegressor])
@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame])
def test_a_table_that_lacks_columns_is_warned_of(make, table):
    model = make()
    model.learn_many(
        [{"a": 1.0, "b": "u", "h0": 2.0}, {"a": 2.0, "b": None, "h0": 3.0}], [1.0, 2.0]
    )
    with pytest.warns(UserWarning, match=r"^X lacks .* 2 of 3 .*'a', .*'b'\].*has \['A', 'B'\]"):
        model.predict_many(table({"A": [1.0], "B": ["u"], "h0": [2.0]}))
    with pytest.warns(UserWarning, match=r"^X lacks columns .* 3 of 3 columns"):
        loads(dumps(model)).predict_many(np.ones((2, 1)))
    model.predict_many(table({"a": [1], "b": ["v"], "h0": [None]}))
    model.predict_many([{"A": 1.0}])


def test_two_hundred_classes_are_told_apart():
    model = StreamClassifier()
    rows = [{"tens": f"t{number // 10}", "ones": f"o{number % 10}"} for number in range(200)]
    for _ in range(2):
        for number, x in enumerate(rows):
            model.learn_one(x, number)
    assert len(model.classes) == 200
    found = model.predict_many(rows)
    assert np.mean([label == number for number, label in enumerate(found)]) > 0.9


@pytest.mark.parametrize("kind", [StreamClassifier, StreamRegressor])
def test_bad_settings(kind):
    assert kind(seed=np.int64(3)).seed == 3
    for value in (-1, 1.5, True, "10", None):
        with pytest.raises((TypeError, ValueError), match="seed="):
            kind(seed=value)


def test_the_last_label_may_be_of_any_type_that_equals_a_label():
    """As in an array of texts: the plain expert still has to learn the last row."""
    model = StreamClassifier()
    for label in np.array(["ok", "belt"]):
        model.learn_one({"a": 1.0}, label)
    assert loads(dumps(model)).classes == ("ok", "belt")


def test_no_row_is_kept_once_it_is_learnt():
    """Nor in a file, although the plain expert learns a row when the next one is due."""
    model = StreamClassifier()
    model.learn_many([{"a": 1.0}, {"a": 2.0}, {"a": 4.0}], ["x", "y", "x"])
    restored = loads(dumps(model))
    assert not restored._state.plain.pending.any()
    assert restored._state.plain.model.count == 3
