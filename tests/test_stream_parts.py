"""StreamClassifier against a literal one, what it refuses before anything changes, and bears."""

import datetime
import pickle
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinels import StreamClassifier
from onlinels.linalg.recursion import Recursion
from onlinels.numerics import apply
from onlinels.scoring import PRIOR, SCALES
from onlinels.stream import rows
from onlinels.stream.cells import N_PARTITIONS, Cells
from onlinels.stream.features import N_UNITS, Activations, RunningScaler
from support import strategies
from support.laws import assert_alike_streams as assert_alike
from support.laws import learn_stream as learnt


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

    def __init__(self, before):
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


class LiteralCells:
    """Shares of classes in the cells of partitions, of which only the draws are not its own."""

    def __init__(self):
        self.sums, self.seen, self.losses = {}, [None] * N_PARTITIONS, np.zeros(N_PARTITIONS)

    def look(self, cells, scaled, texts):
        """Return the cells of a row: of partitions, by what they see, then of texts."""
        found = []
        for p in range(N_PARTITIONS):
            bins = (4, 4, 4) if p % 2 else (8, 8)
            seen = tuple(cells._seen[: len(bins), p]) if len(scaled) else ()
            values = [scaled[column] for column in seen] or [0.0] * len(bins)
            shifted = np.array(bins) / 4 * values + cells._shifts[: len(bins), p]
            clipped = np.clip(shifted // 1, 0, np.array(bins) - 1)
            found.append((p, seen, tuple(clipped)))
        return [*found, *texts]

    def shares(self, places, n_classes):
        """Return shares of classes: of the mixture, then of every text."""
        each = [self.sums.get(place, np.zeros(1 + n_classes)) for place in places]
        each = [np.append(sums, np.zeros(1 + n_classes - len(sums))) for sums in each]
        each = np.array([(sums[1:] + 1 / n_classes) / (sums[0] + 1) for sums in each])
        weights = np.exp(-self.losses) / np.exp(-self.losses).sum()
        return each, np.array([weights @ each[:N_PARTITIONS], *each[N_PARTITIONS:]]) - 1 / n_classes

    def learn(self, places, each, column, is_new):
        if not is_new:
            self.losses = 0.995 * self.losses - np.log(each[:N_PARTITIONS, column])
        for number, place in enumerate(places):
            sums = self.sums.get(place, np.zeros(1))
            sums = np.append(sums, np.zeros(max(0, 2 + column - len(sums))))
            left = 0.98 if number >= N_PARTITIONS or number % 4 > 1 else 0.8
            sums = sums * left
            sums[0] += 1
            sums[1 + column] += 1
            self.sums[place] = sums


def units_of(activations, features):
    return activations.of(features)[:N_UNITS]


class Literal:
    """The whole of it, of which only the recursion and what is drawn at random are its own."""

    def __init__(self, seed, delay=0, most_texts=64):
        self.units, self.delay = Activations(seed), delay
        self.draws, self.cells = Cells(seed), LiteralCells()
        self.most_texts, self.crowded = most_texts, []
        self.names, self.features, self.places = (), [], []
        self.labels, self.columns, self.samples = [], [], []
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
        texts = [name for name in self.crowded if isinstance(x.get(name), str)]
        texts = [name for name in texts if (name, x[name]) not in self.names]
        seen = self.cells.look(self.draws, scaled, [(name, x[name]) for name in texts])
        each, shares = self.cells.shares(seen, len(self.labels))
        for source, of_classes in zip((None, *texts), shares, strict=True):
            values |= {("share", source, number): s for number, s in enumerate(of_classes)}
        rest = {place: values.get(place, 0.0) for place in self.places}
        wide = np.array([*units_of(self.units, np.array(scaled)), 1.0, *rest.values()])
        rest = [value for place, value in rest.items() if place[:2] != ("share", None)]
        narrow = np.array([1.0, *rest])
        scores = [each.scores(wide) for each in (self.wide.long, self.wide.short)]
        scores += [each.scores(narrow) for each in (self.narrow.long, self.narrow.short)]
        return row, wide, narrow, np.array(scores), seen, each

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
        for name in names[len(self.names) :]:
            self.features.append(LiteralFeature([literal_row([name], x)[0] for x in self.samples]))
        self.names, self.units = names, self.units.grown(names, 0)
        self.draws = self.draws.grown(names, 0, 0)
        for name in sorted(x.keys() - set(self.crowded), key=repr):
            others = [each for each in names if isinstance(each, tuple) and each[0] == name]
            if isinstance(x[name], str) and (name, x[name]) not in names:
                assert len(others) >= self.most_texts
                self.crowded.append(name)
        shares = [(source, k) for source in (None, *self.crowded) for k in range(len(self.labels))]
        shares = [("share", *each) for each in shares]
        self.places += [place for place in shares if place not in self.places]
        narrow = [place for place in self.places if place[:2] != ("share", None)]
        sizes = 1 + len(narrow), N_UNITS + 1 + len(self.places)
        for pair, size in zip((self.narrow, self.wide), sizes, strict=True):
            pair.long = pair.long.grown(size, len(self.labels))
            pair.short = pair.short.grown(size, len(self.labels))
        # The labels that were there when this row was predicted.
        before = self.columns[: max(0, n_rows - self.delay)]
        row, wide, narrow, scores, seen, each = self.look(x, before)
        column = self.labels.index(y)
        errs = scores[:, column] < scores.max(axis=1) - 1e-9 if not is_new else np.zeros(4, bool)
        if not is_new:
            if n_rows % 4 == 0:
                mixture = self.shares() @ np.clip(scores, -0.5, 1.5)
                self.losses -= [np.log(self.probabilities(mixture, a)[column]) for a in SCALES]
            self.errors.append(errs)
        target = np.eye(len(self.labels))[column]
        self.cells.learn(seen, each, column, is_new)
        self.wide.learn(wide, target, errs[:2])
        self.narrow.learn(narrow, target, errs[2:])
        for feature, value in zip(self.features, row, strict=True):
            feature.learn(value)
        self.columns.append(column)
        self.samples.append(x)


def assert_as_said(model, literal, asked):
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
    st.sampled_from([1, 64]),
)
def test_it_does_what_it_says(stream, seed, delay, predicted, most_texts):
    model, literal = StreamClassifier(seed, delay), Literal(seed, delay, most_texts)
    with mock.patch.object(rows, "MOST_CATEGORIES", most_texts):
        for x, y in zip(stream.samples, stream.labels, strict=True):
            if predicted:
                model.predict_one(x)
            model.learn_one(x, y)
            literal.learn(x, y, model.feature_names)
            assert_as_said(model, literal, [x, stream.samples[0], stream.samples[-1]])


def test_it_takes_over_where_it_says():
    X, y = strategies.turned_labels(500, 250, seed=5)
    model, literal = StreamClassifier(), Literal(0)
    for row, label in zip(X.tolist(), y, strict=True):
        model.learn_one(dict(enumerate(row)), label)
        literal.learn(dict(enumerate(row)), label, model.feature_names)
    assert min(literal.wide.n_takeovers, literal.narrow.n_takeovers) >= 1
    assert_as_said(model, literal, [{0: 0.0, 1: 2.5, 2: 1e6}])


@settings(max_examples=25)
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


@given(
    strategies.streams(max_rows=20, kinds=("number", "text", "array", "whole"), gaps=False),
    st.integers(1, 9),
)
def test_gaps_before_the_first_value_tell_nothing_of_its_scale(stream, n_gaps):
    names = sorted({name for x in stream.samples for name in x})
    gaps = strategies.Stream([dict.fromkeys(names)] * n_gaps, stream.labels[:1] * n_gaps)
    found, expected = learnt(stream, learnt(gaps))._scaler, learnt(stream)._scaler
    for name in ("means", "variances"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_what_comes_to_rest_stays_at_rest():
    scaler = RunningScaler().grown(1)
    for value in [1.0] * 500 + [3.3] * 20_000:
        scaler = scaler.learnt(np.array([value]))
    assert abs(scaler.transform(np.array([3.3]))[0]) < 0.01


def test_another_seed_is_another_model():
    one, twin, other = StreamClassifier(1), StreamClassifier(1), StreamClassifier(2)
    for model in (one, twin, other):
        for number in range(9):
            model.learn_one({"a": float(number), "b": "xy"[number % 2]}, number % 3)
    assert one.scores_one({"a": 2.5}) == twin.scores_one({"a": 2.5})
    assert one.scores_one({"a": 2.5}) != other.scores_one({"a": 2.5})


def test_few_texts_have_columns_and_many_are_told_apart():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 200)
    model, right = StreamClassifier(), []
    for _ in range(1500):
        text = int(random.integers(200))
        x = {"id": f"text {text}", "noise": float(random.normal())}
        right.append(model.predict_one(x) == labels[text])
        model.learn_one(x, labels[text])
    assert len(model.feature_names) == 65
    assert np.mean(right[-500:]) > 0.9
    never_met = model.scores_one({"id": "never met"})
    assert never_met == model.scores_one({"id": "never met, neither"}) == model.scores_one({})
    assert never_met != model.scores_one({"id": None})
    asked = [{"id": f"text {text}"} for text in range(200)]
    assert pickle.loads(pickle.dumps(model)).predict_many(asked) == model.predict_many(asked)
    assert model.predict_many(pd.DataFrame(asked)).tolist() == model.predict_many(asked)


@pytest.mark.slow
def test_ten_thousand_texts_are_told_apart():
    random = np.random.default_rng(0)
    labels, model = random.integers(0, 2, 10_000), StreamClassifier()
    for _ in range(2):
        for text in random.permutation(10_000).tolist():
            model.learn_one({"id": f"text {text}"}, labels[text])
    right = model.predict_many([{"id": f"text {text}"} for text in range(10_000)]) == labels
    # One in seven shares its hash with another, which half of the time has the other label.
    assert right.mean() > 0.9


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
    ({"a": datetime.date(2020, 1, 1)}, r"of type date, expected a number or text.*toordinal"),
    ({"a": [1.0, 2.0]}, r"x\['a'\] is \[1.0, 2.0\] of type list.*np.asarray"),
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
    (np.zeros((0, 2)), [], "X has 0 rows"),
    ([], [], "X has 0 rows"),
    (pd.DataFrame({"a": []}), [], "X has 0 rows"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), [1], "X has columns of one name"),
    (pd.Series([1.0]), [1], "X is of type Series"),
    ({"a": 1.0}, [1], "X is of type dict"),
    (None, [1], "X is of type NoneType"),
    (np.array([[1.0], [np.inf]]), [1, 2], r"x\[0\] is inf"),
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
]


def twins():
    samples = [{"a": float(n % 4), "array": np.array([n, 1.0]), "b": "xy"[n % 2]} for n in range(9)]
    labels = [n % 4 > 1 for n in range(9)]
    stream = strategies.Stream(samples, labels)
    return learnt(stream), learnt(stream), stream


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
    with pytest.raises((ValueError, TypeError), match=message):
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
        [{"a": np.arange(2000.0) * n} for n in range(2)],
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
