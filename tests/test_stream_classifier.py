"""StreamClassifier: exact in every expert, one by one and in batches, and as it is said to be.

It is compared with weighted ridge solutions and with a literal stream of rows one by one. What it
refuses changes nothing.
"""

import copy
import datetime
import functools
import pickle
from functools import partial
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, datasets, evaluate, feature_extraction, metrics, preprocessing

from onlinels import StreamClassifier, StreamRegressor, dumps, loads
from onlinels.stream import rows as stream_rows
from onlinels.stream.features import RunningScaler
from support import laws, strategies
from support.laws import assert_alike_streams as assert_alike
from support.laws import learn_stream as learnt
from support.stream_reference import Literal, literal_row

# -- experts, batches and answers against ridge solutions -----------------------------------------

FRAME_KINDS = "number", "text", "bool", "whole", "constant"


@strategies.examples(25)
@given(st.data(), strategies.streams(max_rows=60, weighed=True), st.integers(0, 9))
def test_every_expert_is_the_weighted_ridge_solution(data, stream, seed):
    batches = data.draw(strategies.splits(len(stream)))
    forced = data.draw(st.sets(st.integers(0, len(stream) - 1), max_size=3))

    learn = partial(laws.learn_stream_in, batches, stream)
    model = StreamClassifier(seed)
    laws.assert_memories_exact(model, laws.learn_logged(model, learn, forced))
    assert model.count == len(stream)


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


@strategies.examples(25)
@given(st.data(), strategies.streams(kinds=("number", "whole"), always=True))
def test_units_of_features_are_no_matter(data, stream):
    powers = {
        name: 2.0 ** data.draw(st.integers(-20, 20))
        for name in sorted({name for x in stream.samples for name in x})
    }
    samples = [
        {name: value if value is None else value * powers[name] for name, value in x.items()}
        for x in stream.samples
    ]
    a, b = learnt(stream), learnt(strategies.Stream(samples, stream.labels))
    assert a.predict_proba_many(stream.samples) == b.predict_proba_many(samples)
    assert a.shares == b.shares


def test_the_origin_of_features_is_no_matter():
    random = np.random.default_rng(0)
    # Sixteenths stay exact when 4096 is added.
    X = random.integers(-80, 80, (300, 4)) / 16.0
    y = (X[:, 0] * X[:, 1] > 0.0).tolist()
    a, b = StreamClassifier(), StreamClassifier()
    a.learn_many(X, y)
    b.learn_many(X + 4096.0, y)
    found = b.predict_proba_many(X + 4096.0)
    np.testing.assert_allclose(found, a.predict_proba_many(X), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize(
    "model",
    [
        preprocessing.StatImputer() | StreamClassifier(),
        compose.SelectType(str) | preprocessing.OneHotEncoder() | StreamClassifier(),
        compose.Select("https", "popup_window", "gap") | StreamClassifier(seed=3),
        feature_extraction.BagOfWords(on="text") | StreamClassifier(),
        compose.Discard("gap") | preprocessing.FeatureHasher(8, seed=1) | StreamClassifier(),
    ],
    ids=["imputer", "one-hot", "select", "words", "hasher"],
)
def test_in_pipelines_and_with_late_labels(model):
    rows = [
        (x | {"colour": "red" if y else "blue", "text": f"very {y} url", "gap": None}, y)
        for x, y in datasets.Phishing().take(60)
    ]
    for delay in (None, 5):
        metric, fresh = metrics.Accuracy(), model.clone()
        evaluate.progressive_val_score(rows, fresh, metric, delay=delay)
        assert 0.4 < metric.get() <= 1.0


@pytest.mark.parametrize("is_predicted", [True, False])
def test_late_labels_mislead_only_if_nothing_tells_how_late(is_predicted):
    """Labels in runs of 25: the last one that is there is always that of the run before."""
    y = (np.arange(1000) // 25 % 3).tolist()
    X, right = np.random.default_rng(0).normal(size=(1000, 2)), []
    for model in (StreamClassifier(), StreamClassifier(label_delay=24)):
        right.append(0)
        for row, x in enumerate(X.tolist()):
            # Of a copy's forecast the model knows nothing.
            asked = model if is_predicted or row < 950 else copy.deepcopy(model)
            if is_predicted or row >= 950:
                right[-1] += asked.predict_one(dict(enumerate(x))) == y[row]
            if row >= 24:
                model.learn_one(dict(enumerate(X[row - 24].tolist())), y[row - 24])
    if is_predicted:
        assert min(right) > 750
    else:
        assert right[0] < 20
        assert right[1] > 40


def late_model(stream, late=3):
    """Return a model that has learnt every row late, while the last few wait."""
    model = StreamClassifier()
    for row, x in enumerate(stream.samples):
        model.predict_one(x)
        if row >= late:
            model.learn_one(stream.samples[row - late], stream.labels[row - late])
    return model


@strategies.examples(25)
@given(strategies.streams(always=True))
def test_a_row_asked_twice_waits_once_and_moves_the_scale_once(stream):
    a = late_model(stream)
    b, x = copy.deepcopy(a), {"always": 0.5, "text 0": "x", "number 0": None}
    answers = [a.predict_proba_one(x) for _ in range(3)]
    assert answers == [answers[0]] * 3
    assert a.predict_proba_many([x, x]) == answers[:2]
    b.predict_one(x)
    assert laws.saved(a) == laws.saved(b)


def test_no_more_than_4096_forecasts_wait():
    model = StreamClassifier()
    model.predict_many([{"a": float(number)} for number in range(6000)])
    assert len(model._waiting) == 4096
    model.learn_many([{"a": 1.0}, {"a": 2.0}], [0, 1])
    model.predict_many([{"a": float(number)} for number in range(9000, 13_500)])
    model.predict_one({"a": 0.5})
    assert len(model._waiting) == 4096
    memory = model._raw_memory_usage
    model.predict_many([{"a": float(number)} for number in range(20_000, 26_000)])
    assert model._raw_memory_usage < memory + 4096


# -- all parts against a literal one, and refusals ------------------------------------------------


def assert_as_said(model, literal, asked):
    assert model.classes == tuple(literal.labels)
    np.testing.assert_allclose([*model.shares.values()], literal.shares(), rtol=1e-9)
    for x in asked:
        found, expected = [*model.scores_one(x).values()], literal.scores(x)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
        found, expected = [*model.predict_proba_one(x).values()], literal.predict_proba(x)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@strategies.examples(25)
@given(
    strategies.streams(max_rows=40, always=True, weighed=True),
    st.integers(0, 9),
    st.sampled_from([0, 0, 3]),
    st.booleans(),
    st.sampled_from([1, 64]),
)
def test_it_does_what_it_says(stream, seed, delay, predicted, most_texts):
    model, literal = StreamClassifier(seed, delay), Literal(seed, delay, most_texts)
    with mock.patch.object(stream_rows, "MAX_CATEGORIES", most_texts):
        for x, y, w in zip(stream.samples, stream.labels, stream.w, strict=True):
            if predicted:
                model.predict_one(x)
            model.learn_one(x, y, w)
            literal.learn(x, y, model.feature_names, w)
            assert_as_said(model, literal, [x, stream.samples[0], stream.samples[-1]])


@strategies.examples(40)
@given(
    st.data(),
    strategies.streams(max_rows=40, always=True, weighed=True),
    st.sampled_from([0, 0, 3]),
    st.sampled_from([1, 64]),
)
def test_late_rows_are_learnt_as_it_says(data, stream, delay, most_texts):
    """Rows are asked about in their order, some twice, and learnt in any, some never."""
    model, literal = StreamClassifier(0, delay), Literal(0, delay, most_texts)
    order = data.draw(st.permutations(range(len(stream))))
    is_batch = data.draw(st.booleans())
    with mock.patch.object(stream_rows, "MAX_CATEGORIES", most_texts):
        for row in range(len(stream)):
            for x in data.draw(st.sampled_from([[], stream.samples[row : row + 3]])):
                model.predict_one(x)
                if literal.columns:
                    literal.ask(x)
                else:
                    literal.watch(x, model._waiting.columns.names)
            late = order[row] if data.draw(st.booleans()) else row
            x, y, w = stream.samples[late], stream.labels[late], stream.w[late]
            if is_batch:
                model.learn_many([x], [y], w)
            else:
                model.learn_one(x, y, w)
            literal.learn(x, y, model.feature_names, w)
            assert_as_said(copy.deepcopy(model), literal, [x])
        assert len(model._waiting) == len(literal.waiting)


def test_it_takes_over_where_it_says():
    X, y = strategies.turned_labels(500, 250, seed=5)
    model, literal = StreamClassifier(), Literal(0)
    for row, label in zip(X.tolist(), y, strict=True):
        model.learn_one(dict(enumerate(row)), label)
        literal.learn(dict(enumerate(row)), label, model.feature_names)
    assert min(literal.wide.n_takeovers, literal.narrow.n_takeovers) >= 1
    assert_as_said(model, literal, [{0: 0.0, 1: 2.5, 2: 1e6}])


@strategies.examples(25)
@given(st.data(), strategies.rows(max_rows=30), st.integers(0, 2**32 - 1))
def test_scales_follow_gaps_outliers_and_shifts_as_it_says(data, rows, seed):
    random = np.random.default_rng(seed)
    X = np.tile(rows.X.astype(float), (data.draw(st.integers(1, 4)), 1))
    X[random.random(X.shape) < data.draw(st.sampled_from([0.0, 0.4]))] = np.nan
    X[random.random(X.shape) < data.draw(st.sampled_from([0.0, 0.1]))] *= 1e4
    X[len(X) * 3 // 4 :] += data.draw(st.sampled_from([0.0, 1e5]))
    X *= data.draw(st.sampled_from([1.0, 2.0**-400, 2.0**400]))
    late = data.draw(st.integers(1, X.shape[1]))
    model, literal = StreamClassifier(), Literal(0)
    for number, row in enumerate(X.tolist()):
        x = dict(enumerate(row[:late] if number < len(X) // 2 else row))
        model.learn_one(x, rows.y[number % len(rows)])
        literal.learn(x, rows.y[number % len(rows)], model.feature_names)
    assert_as_said(model, literal, [dict(enumerate(row)) for row in X[:: len(X) // 4 + 1].tolist()])


def test_what_comes_to_rest_stays_at_rest():
    scaler = RunningScaler().grown(1)
    for value in [1.0] * 500 + [3.3] * 20_000:
        scaler = scaler.learnt(np.array([value]))
    assert abs(scaler.transform(np.array([3.3]))[0]) < 0.01


def test_equal_names_of_texts_are_one():
    model = StreamClassifier()
    model.learn_many([{1: "x"}, {"b": 1.0}], ["y", "z"])
    model.learn_many([{1.0: "y", "c": 2.0}, {True: "y", "d": 3.0}], ["y", "z"])
    assert model.feature_names == ((1, "x"), "b", "c", (1, "y"), "d")


@pytest.mark.parametrize("name", ["array", "number", "text", "both"])
def test_a_gap_leaves_all_columns_of_a_name_unknown(name):
    """As if they were at their means, which here are 0 in the rows that are asked."""
    x = {"array": np.array([1.0, -1.0]), "number": 1.0, "text": "x", "both": "x"}
    model = StreamClassifier()
    model.learn_one(x | {"both": 2.0}, 0)
    model.learn_one(x, 1)
    model.learn_one({key: value for key, value in x.items() if key != name}, 1)
    names = [each for each in model.feature_names if name in (each, each[0])]
    literal = literal_row(model.feature_names, x | {name: None})
    assert np.isnan(literal).sum() == len(names) == {"array": 2, "both": 2}.get(name, 1)
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
    ({"new": np.ones(1), "h3": 1.0, 3: 1.0}, "The names 'h3' and 3 stand for one feature"),
    ({"h3": 7.0, 3: None}, "stand for one feature"),
    ({"h3": "a", 3: 1.0}, "stand for one feature"),
    ({1: "a", "h1": "b"}, "stand for one feature"),
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


@functools.cache
def learnt_with_arrays():
    samples = [{"a": float(n % 4), "array": np.array([n, 1.0]), "b": "xy"[n % 2]} for n in range(9)]
    labels = [n % 4 > 1 for n in range(9)]
    stream = strategies.Stream(samples, labels)
    return pickle.dumps(learnt(stream)), stream


def twins():
    content, stream = learnt_with_arrays()
    return pickle.loads(content), pickle.loads(content), stream


def assert_unharmed(model, twin, stream):
    assert_alike(model, twin, stream.samples)
    further = [*stream.samples, {"new": 1.0, "newer": "text"}]
    for x, y in zip(further, [*stream.labels, "new"], strict=True):
        model.learn_one(x, y)
        twin.learn_one(x, y)
    assert_alike(model, twin, further)


@pytest.mark.parametrize(("X", "y", "message"), BAD_BATCHES)
def test_bad_rows_leave_no_trace(X, y, message):
    model, twin, stream = twins()
    with pytest.raises((ValueError, TypeError), match=laws.in_batch(message)):
        model.learn_many(X, y)
    if isinstance(X, list) and isinstance(y, list) and len(X) == len(y) == 1:
        with pytest.raises((ValueError, TypeError), match=message):
            model.learn_one(X[0], y[0])
    assert_unharmed(model, twin, stream)


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
    assert list(model.shares.values()) == [0.25] * 4


@pytest.mark.parametrize("make", [StreamClassifier, StreamRegressor])
@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame])
def test_a_table_that_lacks_columns_is_warned_of(make, table):
    model = make()
    model.learn_many(
        [{"a": 1.0, "b": "u", "h0": 2.0}, {"a": 2.0, "b": None, "h0": 3.0}], [1.0, 2.0]
    )
    with pytest.warns(UserWarning, match=r"^X lacks 2 of the 3 .*'a', .*'b'\].*has \['A', 'B'\]"):
        model.predict_many(table({"A": [1.0], "B": ["u"], "h0": [2.0]}))
    with pytest.warns(
        UserWarning, match=r"^X lacks 3 of the 3 columns|^X lacks 2 of the 3 columns"
    ):
        loads(dumps(model)).predict_many(np.ones((2, 1)))
    model.predict_many(table({"a": [1], "b": ["v"], "h0": [None]}))
    model.predict_many([{"A": 1.0}])


def test_two_hundred_classes_are_told_apart():
    model = StreamClassifier()
    for _ in range(2):
        for number in range(200):
            model.learn_one({"tens": str(number // 10), "ones": str(number % 10)}, number)
    assert len(model.classes) == 200
    rows = [{"tens": str(number // 10), "ones": str(number % 10)} for number in range(200)]
    found = model.predict_many(rows)
    assert np.mean([label == number for number, label in enumerate(found)]) > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(({"seed": seed}, "seed=") for seed in (-1, 1.5, True)),
        *(({"label_delay": delay}, "label_delay=") for delay in (-1, 1.5, "10", None)),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        StreamClassifier(**settings)


def test_texts_and_numbers_of_like_names_are_apart():
    model = StreamClassifier()
    model.learn_one({"a": "x", "a=x": 7.0, "a=b": "c"}, "y")
    model.learn_one({"a": "b=c"}, "z")
    assert set(model.feature_names) == {"a=x", ("a", "x"), ("a=b", "c"), ("a", "b=c")}


def test_few_texts_have_columns():
    model = StreamClassifier()
    for number in range(200):
        model.learn_one({"id": f"text {number}", "noise": float(number)}, number % 3)
    assert len(model.feature_names) == 65
    never_met = model.scores_one({"id": "never met"})
    assert never_met == model.scores_one({"id": "never met, neither"})
    assert never_met != model.scores_one({"id": None})
