"""StreamClassifier against a literal one, and what it makes of scales, texts, gaps and names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from onlinels import StreamClassifier
from onlinels.linalg.recursion import Recursion
from onlinels.numerics import apply
from onlinels.scoring import PRIOR, SCALES
from onlinels.stream.features import N_DENSE, N_UNITS, Activations, RunningScaler


def literal_row(names, sample):
    """Return a row: gaps NaN, what is absent 0, texts 0 and 1."""
    row = []
    for name in names:
        key, part = name if isinstance(name, tuple) else (name, None)
        value = sample.get(key, 0.0)
        if value is None or value is np.nan:
            row.append(np.nan)
        elif isinstance(part, int):
            row.append(float(value[part]) if isinstance(value, np.ndarray) else 0.0)
        elif isinstance(part, str) or isinstance(value, (str, np.ndarray)):
            row.append(float(isinstance(value, str) and value == part))
        else:
            row.append(float(value))
    return np.array(row)


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


class LiteralPair:
    """A long and a short memory, of which the long one takes over what the short one knows."""

    def __init__(self):
        self.long, self.short = Recursion(0, 0, 1.0, 1 / 16), Recursion(0, 0, 1.0, 1 / 16)
        self.differences, self.n_takeovers = [], 0

    def learn(self, activations, target, errs):
        self.differences.append(float(errs[0]) - float(errs[1]))
        shares = 0.995 ** np.arange(len(self.differences))[::-1]
        lead = shares @ self.differences
        if lead > 2.0 and lead > 2.0 * np.sqrt(shares @ np.square(self.differences)):
            self.long, self.differences = self.short.copied(), []
            self.n_takeovers += 1
        for recursion, decay in ((self.long, 1.0), (self.short, 0.99)):
            errors = target - recursion.scores(activations)
            apply(recursion.plan(activations, errors, decay=decay))


def units_of(activations, features):
    return activations.of(features, None)[:N_UNITS]


class Literal:
    """The whole of it, of which only the recursion and the weights of random units are its own."""

    def __init__(self, seed, delay=0):
        self.units, self.delay = Activations(seed), delay
        self.names, self.features, self.places = (), [], []
        self.labels, self.columns = [], []
        self.wide, self.narrow = LiteralPair(), LiteralPair()
        self.errors, self.losses = [], np.zeros(len(SCALES))

    def shares(self):
        recent = 0.995 ** np.arange(len(self.errors))[::-1] @ np.reshape(self.errors, (-1, 4))
        return np.exp(-0.5 * recent) / np.exp(-0.5 * recent).sum()

    def look(self, x, columns):
        row = literal_row(self.names, x)
        scaled = [each.transform(value) for each, value in zip(self.features, row, strict=True)]
        values = {("feature", number): value for number, value in enumerate(scaled)}
        values[("label", columns[-1] if columns else None)] = 1.0
        narrow = np.array([1.0, *(values.get(place, 0.0) for place in self.places)])
        wide = np.array([*units_of(self.units, np.array(scaled)), *narrow])
        scores = [each.scores(wide) for each in (self.wide.long, self.wide.short)]
        scores += [each.scores(narrow) for each in (self.narrow.long, self.narrow.short)]
        return row, wide, narrow, np.array(scores)

    def scores(self, x):
        return self.shares() @ np.clip(self.look(x, self.columns)[3], -0.5, 1.5)

    def probabilities(self, mixture, scale):
        q = np.exp(scale * (mixture - mixture.max()))
        n_rows = len(self.columns)
        return (n_rows * q / q.sum() + 1.0) / (n_rows + len(mixture))

    def predict_proba(self, x):
        return self.probabilities(self.scores(x), SCALES[np.argmin(self.losses + PRIOR)])

    def learn(self, x, y, names):
        n_rows = len(self.columns)
        is_new = y not in self.labels
        self.labels += [y] * is_new
        added = range(len(self.names), len(names))
        self.places += [("feature", number) for number in added]
        self.places += [("label", len(self.labels) - 1)] * is_new
        self.features += [LiteralFeature(n_rows) for _ in added]
        self.names, self.units = names, self.units.grown(names, 0)
        for pair, size in ((self.narrow, 1), (self.wide, N_UNITS + 1)):
            size += len(self.places)
            pair.long = pair.long.grown(size, len(self.labels))
            pair.short = pair.short.grown(size, len(self.labels))
        # The labels that were there when this row was predicted.
        row, wide, narrow, scores = self.look(x, self.columns[: max(0, n_rows - self.delay)])
        column = self.labels.index(y)
        errs = scores.argmax(axis=1) != column if not is_new else np.zeros(4, bool)
        if not is_new:
            if n_rows % 4 == 0:
                mixture = self.shares() @ np.clip(scores, -0.5, 1.5)
                self.losses -= [np.log(self.probabilities(mixture, a)[column]) for a in SCALES]
            self.errors.append(errs)
        target = np.eye(len(self.labels))[column]
        self.wide.learn(wide, target, errs[:2])
        self.narrow.learn(narrow, target, errs[2:])
        for feature, value in zip(self.features, row, strict=True):
            feature.learn(value)
        self.columns.append(column)


def assert_alike(model, literal, asked):
    assert model.classes == tuple(literal.labels)
    np.testing.assert_allclose([*model.shares.values()], literal.shares(), rtol=1e-9)
    for x in asked:
        found, expected = [*model.scores_one(x).values()], literal.scores(x)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
        found, expected = [*model.predict_proba_one(x).values()], literal.predict_proba(x)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=25)
@given(
    strategies.streams(max_rows=40, always=True),
    st.integers(0, 9),
    st.sampled_from([0, 0, 3]),
    st.booleans(),
)
def test_it_does_what_it_says(stream, seed, delay, predicted):
    model, literal = StreamClassifier(seed, delay), Literal(seed, delay)
    for x, y in zip(stream.samples, stream.labels, strict=True):
        if predicted:
            model.predict_one(x)
        model.learn_one(x, y)
        literal.learn(x, y, model.feature_names)
        assert_alike(model, literal, [x, stream.samples[0], stream.samples[-1]])


def test_it_takes_over_where_it_says():
    X, y = strategies.turned_labels(500, 250, seed=5)
    model, literal = StreamClassifier(), Literal(0)
    for row, label in zip(X.tolist(), y, strict=True):
        model.learn_one(dict(enumerate(row)), label)
        literal.learn(dict(enumerate(row)), label, model.feature_names)
    assert min(literal.wide.n_takeovers, literal.narrow.n_takeovers) >= 1
    assert_alike(model, literal, [{0: 0.0, 1: 2.5, 2: 1e6}])


@given(st.data(), strategies.rows(max_rows=30), st.integers(0, 2**32 - 1))
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
        scaler = scaler.grown(n_features)
        expected = [feature.transform(value) for feature, value in zip(literal, row, strict=False)]
        found = scaler.transform(row[:n_features])
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
        scaler = scaler.learnt(row[:n_features])
        for feature, value in zip(literal, row, strict=False):
            feature.learn(value)


def test_scales_follow_the_stream():
    random, scaler = np.random.default_rng(0), RunningScaler().grown(3)
    for _ in range(3000):
        scaler = scaler.learnt(random.normal(size=3))
    scaler = scaler.learnt(np.array([1e6, -1e3, 0.0]))
    np.testing.assert_allclose(scaler.transform(np.ones(3)), 1.0, atol=0.15)
    for _ in range(100):
        scaler = scaler.learnt(random.normal(size=3) * [1.0, 1e4, 1.0] + [1e6, 0.0, 0.0])
    near = np.array([1e6 + 1.0, 1e4, 1.0])
    np.testing.assert_allclose(scaler.transform(near), 1.0, atol=0.5)


def test_what_comes_to_rest_stays_at_rest():
    scaler = RunningScaler().grown(1)
    for value in [1.0] * 500 + [3.3] * 50_000:
        scaler = scaler.learnt(np.array([value]))
    assert abs(scaler.transform(np.array([3.3]))[0]) < 0.01


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
    order = data.draw(st.permutations(range(len(names))))
    a = Activations(seed).grown(names, 0)
    b = Activations(seed).grown([names[k] for k in order], 0)
    # One feature alone, so that no sum rounds.
    for place in range(len(names)):
        alone = np.eye(len(names))[place]
        np.testing.assert_array_equal(units_of(a, alone), units_of(b, alone[order]))
    assert (units_of(Activations(seed + 1), np.zeros(0)) != units_of(a, np.zeros(len(names)))).all()
    cut = data.draw(st.integers(0, len(names)))
    before = Activations(seed).grown(names[:cut], 0)
    late = before.grown(names, 0)
    # What dense units gave to features stays; what sparse ones see does not depend on the time.
    for place in range(cut):
        alone = np.eye(len(names))[place]
        kept = units_of(before, alone[:cut])[:N_DENSE]
        np.testing.assert_array_equal(units_of(late, alone)[:N_DENSE], kept)
    for alone in np.eye(len(names)):
        sparse = units_of(late, alone)[N_DENSE:]
        np.testing.assert_array_equal(sparse, units_of(a, alone)[N_DENSE:])


def test_texts_beyond_the_most_are_none_of_these():
    model = StreamClassifier()
    for number in range(100):
        model.learn_one({"a": f"text {number}"}, number % 2)
    assert model.feature_names == tuple(("a", f"text {number}") for number in range(64))
    never_met, beyond = model.scores_one({"a": "never met"}), model.scores_one({"a": "text 64"})
    assert never_met == beyond == model.scores_one({"b": "never met"})
    assert beyond != model.scores_one({"a": None})


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
