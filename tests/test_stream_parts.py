"""The parts of StreamClassifier against definitions written down literally."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from onlinels import StreamClassifier
from onlinels.commit import Commit
from onlinels.scoring import PRIOR, SCALES
from onlinels.stream.experts import LEAST_RIDGE, RIDGE, Forecaster, Memories
from onlinels.stream.features import (
    N_DENSE,
    N_SPARSE,
    N_UNITS,
    Activations,
    RandomUnits,
    RunningScaler,
)
from onlinels.stream.rows import (
    MOST_CATEGORIES,
    ReadOnce,
    RowReader,
    read_stream_batch,
    read_stream_sample,
)

seeds = st.integers(0, 2**32 - 1)


def known_row(names, sample):
    """Return a row by its literal definition: gaps NaN, what is absent 0, texts 0 and 1."""
    row = []
    for name in names:
        key, text = name if isinstance(name, tuple) else (name, "")
        value = sample.get(key, 0.0)
        if value is None or value is np.nan:
            row.append(np.nan)
        elif text or isinstance(value, str):
            row.append(float(value == text))
        else:
            row.append(float(value))
    return np.array(row)


@given(strategies.streams(kinds=("number", "text", "text", "bool")))
def test_rows_are_read_literally(stream):
    reader, rows = RowReader(), []
    for x in stream.samples:
        reader = reader.knowing([read_stream_sample(x)])
        rows.append(reader.row(read_stream_sample(x)))
        np.testing.assert_array_equal(rows[-1], known_row(reader.names, x))
    at_once = RowReader().knowing([read_stream_sample(x) for x in stream.samples])
    assert at_once.names == reader.names
    assert reader.knowing([read_stream_sample(x) for x in stream.samples]) is reader


def test_texts_beyond_the_most_are_none_of_these():
    reader = RowReader()
    samples = [read_stream_sample({"a": f"text {n}"}) for n in range(300)]
    reader = reader.knowing(samples[:100]).knowing(samples)
    assert len(reader.names) == MOST_CATEGORIES
    assert reader.row(samples[63]).tolist() == [0.0] * 63 + [1.0]
    assert not reader.row(samples[64]).any()
    assert not reader.row(read_stream_sample({"a": "never met"})).any()
    assert not reader.row(read_stream_sample({"b": "never met"})).any()
    assert np.isnan(reader.row(read_stream_sample({"a": None}))).all()


def test_equal_names_of_texts_are_one():
    reader = RowReader().knowing([read_stream_sample({1: "x"}), read_stream_sample({"b": 1.0})])
    reader = reader.knowing(
        [read_stream_sample({1.0: "y", "c": 2.0}), read_stream_sample({"d": 3.0})]
    )
    assert reader.names == ((1, "x"), "b", "c", (1, "y"), "d")
    row = reader.row(read_stream_sample({True: "y", "d": 5.0}))
    np.testing.assert_array_equal(row, [0.0, 0.0, 0.0, 1.0, 5.0])


@pytest.mark.parametrize("missing", [None, np.nan, np.float32("nan"), pd.NA])
def test_what_is_missing_is_unknown(missing):
    sample = read_stream_sample({"a": missing, "b": 2, "c": "x"})
    assert (sample.layout, sample.numbers.tolist(), sample.texts) == (("b",), [2.0], {"c": "x"})
    _, (of_batch,) = read_stream_batch([{"a": missing}])
    assert of_batch.layout == ()


class LiteralFeature:
    """Mean and variance of one feature, as said: fading, anew after five values far off."""

    def __init__(self, n_rows):
        # What was 0 in all rows before it came.
        self.weight, self.mean, self.variance = sum(0.9995**age for age in range(n_rows)), 0.0, 0.0
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


@given(st.data(), strategies.rows(max_rows=30), seeds)
def test_scaling_is_that_of_the_rows_before(data, rows, seed):
    random = np.random.default_rng(seed)
    X = np.tile(rows.X.astype(float), (data.draw(st.integers(1, 4)), 1))
    X[random.random(X.shape) < data.draw(st.sampled_from([0.0, 0.4]))] = np.nan
    # Outliers, and a shift for good.
    X[random.random(X.shape) < data.draw(st.sampled_from([0.0, 0.1]))] *= 1e4
    X[len(X) * 3 // 4 :] += data.draw(st.sampled_from([0.0, 1e5]))
    X *= data.draw(st.sampled_from([1.0, 2.0**-400, 2.0**400]))
    late = data.draw(st.integers(0, X.shape[1]))
    scaler, literal = RunningScaler(), []
    for number, row in enumerate(X):
        n_features = late if number < len(X) // 2 else X.shape[1]
        literal += [LiteralFeature(number) for _ in range(n_features - len(literal))]
        scaler.grow(n_features)
        expected = [feature.transform(value) for feature, value in zip(literal, row, strict=False)]
        found = scaler.transform(row[:n_features])
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
        scaler.learn(row[:n_features])
        for feature, value in zip(literal, row, strict=False):
            feature.learn(value)


def test_scales_follow_the_stream():
    random, scaler = np.random.default_rng(0), RunningScaler()
    scaler.grow(3)
    for _ in range(3000):
        scaler.learn(random.normal(size=3))
    outlier = np.array([1e6, -1e3, 0.0])
    scaler.learn(outlier)
    np.testing.assert_allclose(scaler.transform(np.ones(3)), 1.0, atol=0.15)
    for _ in range(100):
        scaler.learn(random.normal(size=3) * [1.0, 1e4, 1.0] + [1e6, 0.0, 0.0])
    near = np.array([1e6 + 1.0, 1e4, 1.0])
    np.testing.assert_allclose(scaler.transform(near), 1.0, atol=0.5)


def test_scaling_of_extremes_neither_overflows_nor_underflows():
    scaler = RunningScaler()
    scaler.grow(4)
    assert not scaler.transform(np.full(4, 1e150)).any()
    for row in ([1e-150, 1e-160, 1e149, -1e150], [3e-150, 3e-160, -1e149, 1e150]):
        scaler.learn(np.array(row))
    np.testing.assert_allclose(
        scaler.transform(np.array([4e-150, 1e150, 2e149, 5e149])), [2, 1, 2, 0.5], rtol=1e-3
    )
    np.testing.assert_allclose(
        scaler.transform(np.array([1e150, -1e150, 0.0, np.nan])), [6, -1, 0, 0], atol=1e-3
    )


names_of_units = st.lists(
    st.one_of(
        st.text("abc=", max_size=3), st.integers(0, 9), st.tuples(st.just("a"), st.integers(0, 9))
    ),
    unique=True,
    min_size=1,
    max_size=7,
)


@given(st.data(), st.integers(0, 99), names_of_units)
def test_units_are_a_function_of_seed_and_names(data, seed, names):
    shuffled = data.draw(st.permutations(names))
    a, b = RandomUnits(seed), RandomUnits(seed)
    a.grow(names)
    b.grow(shuffled)
    row = np.array([shuffled.index(name) for name in names], dtype=float)
    np.testing.assert_allclose(a(row), b(np.arange(len(names), dtype=float)), rtol=0, atol=1e-12)
    # One feature alone, so that no sum rounds.
    for place, name in enumerate(names):
        alone, there = np.zeros(len(names)), np.zeros(len(names))
        alone[place] = there[shuffled.index(name)] = 1.0
        np.testing.assert_array_equal(a(alone), b(there))
    assert (RandomUnits(seed + 1)(np.zeros(0)) != a(np.zeros(len(names)))).all()


@given(st.data(), st.integers(0, 99), names_of_units)
def test_units_grow_consistently(data, seed, names):
    """Weights, from the units' answers to features alone, are as drawn when a feature came."""
    cut = data.draw(st.integers(0, len(names)))
    units, whole = RandomUnits(seed), RandomUnits(seed)
    units.grow(names[:cut])
    before = units._weights.copy()
    units.grow(names)
    whole.grow(names)
    np.testing.assert_array_equal(units._weights[:cut, :N_DENSE], before[:, :N_DENSE])
    # What sparse units see does not depend on when it came.
    np.testing.assert_array_equal(units._weights[:, N_DENSE:], whole._weights[:, N_DENSE:])
    n_seen = (units._weights[:, N_DENSE:] != 0.0).sum(axis=0)
    assert ((n_seen == 1) | (n_seen == min(2, len(names)))).all()
    kept = (units._weights[:cut, N_DENSE:] != 0.0) <= (before[:, N_DENSE:] != 0.0)
    assert kept.all()


def test_units_are_as_steep_as_said():
    units = RandomUnits(0)
    units.grow(range(400))
    assert units._weights.shape == (400, N_DENSE + N_SPARSE)
    assert np.linalg.norm(units._weights[:, :N_DENSE], axis=0).mean() == pytest.approx(
        1.5, rel=0.02
    )
    squares = (units._weights[:, N_DENSE:] ** 2).sum(axis=0)
    assert squares.mean() == pytest.approx(2.25**2, rel=0.2)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 15)), max_size=8), seeds)
def test_places_of_activations_never_move(steps, seed):
    random = np.random.default_rng(seed)
    activations, places = Activations(), [f"unit {n}" for n in range(N_UNITS)] + ["constant"]
    n_features = n_classes = 0
    for more_features, more_classes in steps:
        places += [f"feature {n}" for n in range(n_features, n_features + more_features)]
        added = range(n_classes, min(n_classes + more_classes, 32))
        places += [f"label {n}" for n in added]
        n_features, n_classes = n_features + more_features, n_classes + more_classes
        activations.grow(n_features, n_classes)
        units, features = random.normal(size=N_UNITS), random.normal(size=n_features)
        for last in (None, *range(n_classes)):
            values = {f"unit {n}": value for n, value in enumerate(units)} | {"constant": 1.0}
            values |= {f"feature {n}": value for n, value in enumerate(features)}
            values[f"label {last}"] = 1.0
            wide = activations.of(units, features, last)
            assert wide.tolist() == [values.get(place, 0.0) for place in places]
            assert Activations.narrow(wide).tolist() == wide.tolist()[N_UNITS:]
        assert activations.n_wide == len(places)
        assert Activations.n_narrow(len(places)) == len(places) - N_UNITS


def literal_probabilities(mixture, scale, count):
    q = np.exp(scale * (mixture - mixture.max()))
    return (count * q / q.sum() + 1.0) / (count + len(mixture))


@given(st.integers(1, 5), st.integers(2, 4), st.integers(0, 40), seeds)
def test_forecasts_are_as_defined(n_experts, n_classes, n_rows, seed):
    random = np.random.default_rng(seed)
    forecaster, errors, losses = Forecaster(n_experts), [], np.zeros(len(SCALES))
    for row in range(n_rows + 1):
        ages = np.arange(len(errors))[::-1]
        recent = 0.995**ages @ np.array(errors) if errors else np.zeros(n_experts)
        shares = np.exp(-0.5 * recent) / np.exp(-0.5 * recent).sum()
        np.testing.assert_allclose(forecaster.shares, shares, rtol=1e-9)
        scores = random.normal(size=(n_experts, n_classes))
        mixture = shares @ np.clip(scores, -0.5, 1.5)
        np.testing.assert_allclose(forecaster.mix(scores), mixture, rtol=1e-9, atol=1e-12)
        scale = SCALES[np.argmin(losses + PRIOR)]
        expected = literal_probabilities(mixture, scale, row)
        found = forecaster.probabilities(forecaster.mix(scores)[None])[0]
        np.testing.assert_allclose(found, expected, rtol=1e-7)
        column = int(random.integers(n_classes))
        if random.random() < 0.1:
            assert forecaster.learn_new_class() == [False] * n_experts
            continue
        if row % 4 == 0:
            losses -= [np.log(literal_probabilities(mixture, a, row)[column]) for a in SCALES]
        errors.append(scores.argmax(axis=1) != column)
        found = forecaster.learn(scores, forecaster.mix(scores), column)
        assert found == errors[-1].tolist()


@given(st.integers(1, 120), st.floats(0.0, 1.0), st.floats(0.0, 1.0), seeds)
def test_memories_are_compared_as_defined(n_rows, long_rate, short_rate, seed):
    random = np.random.default_rng(seed)
    memories, differences, n_takeovers, started = Memories(), [], 0, 0
    memories = memories.grown(1, 1)
    for row in range(n_rows):
        long_errs, short_errs = random.random(2) < [long_rate, short_rate]
        differences.append(float(long_errs) - float(short_errs))
        shares = 0.995 ** np.arange(len(differences))[::-1]
        lead, squares = shares @ differences, shares @ np.square(differences)
        if lead > 2.0 and lead > 2.0 * np.sqrt(squares):
            n_takeovers, started, differences = n_takeovers + 1, row, []
        errors = [1.0 - expert.scores(np.ones(1)) for expert in memories.experts]
        commit = Commit()
        memories.learn(np.ones(1), np.array(errors), [bool(long_errs), bool(short_errs)], commit)
        commit.make()
        assert memories.n_takeovers == n_takeovers
    before = 0.99 ** np.arange(started)
    of_long = float(n_rows - started) + before.sum(), memories.long
    of_short = (0.99 ** np.arange(n_rows)).sum(), memories.short
    for weight, expert in (of_long, of_short):
        ridge = expert.ridge_diagonal
        assert RIDGE * LEAST_RIDGE <= ridge[0] <= RIDGE
        np.testing.assert_allclose(expert.scores(np.ones(1)), weight / (weight + ridge), rtol=1e-9)


class Literal:
    """The whole stream classifier as its parts in order, each asked anew for every row."""

    def __init__(self, seed, delay=0):
        self.reader, self.scaler, self.units = RowReader(), RunningScaler(), RandomUnits(seed)
        self.activations, self.forecaster = Activations(), Forecaster(4)
        self.wide, self.narrow = Memories(), Memories()
        self.labels, self.columns, self.delay = [], [], delay

    def look(self, x, columns=None):
        columns = self.columns if columns is None else columns
        row = self.reader.row(read_stream_sample(x))
        features = self.scaler.transform(row)
        wide = self.activations.of(self.units(features), features, columns[-1] if columns else None)
        scores = [expert.scores(wide) for expert in self.wide.experts]
        scores += [expert.scores(wide[N_UNITS:]) for expert in self.narrow.experts]
        return row, wide, np.array(scores)

    def learn(self, x, y):
        is_new = y not in self.labels
        self.labels += [y] * is_new
        self.reader = self.reader.knowing([read_stream_sample(x)])
        n_features, n_classes = len(self.reader.names), len(self.labels)
        self.scaler.grow(n_features)
        self.units.grow(self.reader.names)
        self.activations.grow(n_features, n_classes)
        n_wide = N_UNITS + 1 + n_features + n_classes
        self.wide = self.wide.grown(n_wide, n_classes)
        self.narrow = self.narrow.grown(n_wide - N_UNITS, n_classes)
        # The labels that were there when this row was predicted.
        row, wide, scores = self.look(x, self.columns[: max(0, len(self.columns) - self.delay)])
        column = self.labels.index(y)
        self.columns.append(column)
        if is_new:
            errs = self.forecaster.learn_new_class()
        else:
            errs = self.forecaster.learn(scores, self.forecaster.mix(scores), column)
        errors = np.eye(n_classes)[column] - scores
        commit = Commit()
        self.wide.learn(wide, errors[:2], errs[:2], commit)
        self.narrow.learn(wide[N_UNITS:], errors[2:], errs[2:], commit)
        commit.make()
        self.scaler.learn(row)


@settings(max_examples=25)
@given(strategies.streams(max_rows=40, always=True), st.integers(0, 9), st.integers(0, 9))
def test_the_whole_is_its_parts_in_order(stream, seed, delay):
    model, literal = StreamClassifier(seed, delay), Literal(seed, delay)
    for x, y in zip(stream.samples, stream.labels, strict=True):
        model.predict_one(x)
        model.learn_one(x, y)
        literal.learn(x, y)
        for asked in (x, stream.samples[0], stream.samples[-1]):
            mixture = literal.forecaster.mix(literal.look(asked)[2])
            found = [*model.scores_one(asked).values()]
            np.testing.assert_allclose(found, mixture, rtol=1e-9, atol=1e-9)
            probabilities = literal.forecaster.probabilities(mixture[None])[0]
            found = [*model.predict_proba_one(asked).values()]
            np.testing.assert_allclose(found, probabilities, rtol=1e-9, atol=1e-9)
        assert model.classes == tuple(literal.labels)
        np.testing.assert_allclose([*model.shares.values()], literal.forecaster.shares, rtol=1e-9)


def test_the_whole_takes_over_where_its_parts_do():
    X, y = strategies.turned_labels(500, 250, seed=5)
    model, literal = StreamClassifier(), Literal(0)
    for row, label in zip(X.tolist(), y, strict=True):
        model.learn_one(dict(enumerate(row)), label)
        literal.learn(dict(enumerate(row)), label)
        found = model._pool.wide.n_takeovers, model._pool.narrow.n_takeovers
        assert found == (literal.wide.n_takeovers, literal.narrow.n_takeovers)
    assert min(found) >= 1
    found = [*model.scores_one({0: 0.0, 1: 2.5, 2: 1e6}).values()]
    mixture = literal.forecaster.mix(literal.look({0: 0.0, 1: 2.5, 2: 1e6})[2])
    np.testing.assert_allclose(found, mixture, atol=1e-9)


def test_a_sample_that_changes_is_read_anew():
    reader, x = ReadOnce(), {"a": 1.0, "b": np.array([1.0, 2.0])}
    reader.read(x)
    x["b"][0] = 5.0
    assert reader.read(x).numbers.tolist() == [1.0, 5.0, 2.0]
    x = {"a": 1.0}
    assert reader.read(x) is reader.read({"a": True})
    x["a"] = 2.0
    assert reader.read(x).numbers.tolist() == [2.0]
    assert reader.read({"a": np.array([2.0])}).layout != ("a",)
    assert reader.read({"a": "2.0"}).texts == {"a": "2.0"}


def test_gaps_leave_all_columns_of_a_name_unknown():
    first = {"a": np.array([5.0, 6.0]), "b": 5.0, "c": "x"}
    samples = [read_stream_sample(x) for x in (first, {"b": "x", "c": 1.0})]
    reader = RowReader().knowing(samples)
    row = reader.row(read_stream_sample({"a": None, "b": None, "c": None, "d": None}))
    assert len(row) == len(reader.names) == 6
    assert np.isnan(row).all()


def test_what_comes_to_rest_stays_at_rest():
    scaler = RunningScaler()
    scaler.grow(1)
    for value in [1.0] * 500 + [3.3] * 150_000:
        scaler.learn(np.array([value]))
    assert abs(scaler.transform(np.array([3.3]))[0]) < 0.01
