"""Stream models: all that they are told is rows, one after the other, whichever way they come.

Their memories are batch solutions. What they refuse changes nothing.
"""

import copy
import datetime
import gc
import lzma
import math
import pickle
import sys
import tracemalloc
import warnings
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import (
    DataWarning,
    LeastSquaresClassifier,
    StreamClassifier,
    StreamRegressor,
    core,
    dumps,
    loads,
)
from onlinels.checks import is_missing
from onlinels.core.constants import DELAY, LAST_LABEL, ROWS_LEARNT
from onlinels.explain import feature_effects
from onlinels.stream import features
from onlinels.stream.features import RunningScaler
from support import laws, strategies, version_4
from support.slow import the_rest_slow
from support.streams import (
    COPIES,
    KINDS,
    assert_alike,
    assert_memories_exact,
    kinds,
    learnt_rows,
    read_in_python,
    rows_of,
)

# -- rows in any form, at any time ----------------------------------------------------------------


class Odd(dict):
    """A sample of another type."""


def as_dicts(samples, draw):
    """Return samples whose names come in any order, and values and gaps in any form."""
    return [
        draw.choice([dict, Odd])(
            (name, in_another_form(x[name], draw)) for name in draw.sample([*x], len(x))
        )
        for x in samples
    ]


def in_another_form(value, draw):
    if value is None or value is np.nan:
        return strategies.GAPS[draw.choice([*strategies.GAPS])]
    forms = {float: [float, np.float64, pa.scalar], str: [str, np.str_, pa.scalar]}
    return draw.choice(forms.get(type(value), [lambda value: value]))(value)


FRAMES = {
    "pandas": lambda samples, draw: pd.DataFrame(samples),
    # Whole numbers stay: pandas warns where it casts large ones to see.
    "nullable": lambda samples, draw: pd.DataFrame(samples).convert_dtypes(convert_integer=False),
    "polars": lambda samples, draw: pl.DataFrame(samples, strict=False, infer_schema_length=None),
}
WEIGHTS = [list, np.array, pd.Series, pl.Series]


@st.composite
def streams_in_forms(draw, kind):
    """Draw a stream, and the forms in which a batch of it may come."""
    forms = [as_dicts]
    names = ("mixed", "text", "text", *strategies.STREAM_KINDS)
    if in_frames := draw(st.booleans()):
        names = ("number", "text", "bool", "whole", "constant")
    stream = draw(kind.streams(max_rows=50, kinds=names, always=in_frames, weighed=True))
    if in_frames:
        # A frame has all columns in all rows: what is not there is a gap.
        names = dict.fromkeys(name for x in stream.samples for name in x)
        empty = dict.fromkeys(names)
        samples = [empty | {k: v for k, v in x.items() if v == v} for x in stream.samples]
        stream, forms = replace(stream, samples=samples), [as_dicts, *FRAMES.values()]
    return stream, forms


def learn(model, forms, rows, draw):
    """Learn rows as a batch in any form, or one by one."""
    samples, y, w = rows
    if draw.random() < 0.5:
        model.learn_many(draw.choice(forms)(samples, draw), y, draw.choice(WEIGHTS)(w))
    else:
        laws.fitted_by_row(model, as_dicts(samples, draw), y, w)


drawn_forms = [st.sampled_from([1, 64]), st.randoms(use_true_random=True)]


@pytest.mark.filterwarnings("ignore:Texts among numbers")
@kinds
@strategies.examples(60)
@given(st.data(), *drawn_forms)
def test_rows_that_are_learnt_at_once_are_rows_one_by_one(kind, data, most_texts, draw):
    """Asked before or not, and about rows that never come; copies and files go on."""
    (stream, forms), seed = data.draw(streams_in_forms(kind)), data.draw(st.integers(0, 3))
    model, expected, answers = kind.make(seed), kind.make(seed), []
    size, never = kind.size(stream.labels), [x | {"never met": 1.0} for x in stream.samples]
    with mock.patch.object(features, "MAX_CATEGORIES", most_texts):
        with read_in_python():
            for row in zip(stream.samples, stream.labels, stream.w, strict=True):
                answers.append([ask(expected, row[0]) for ask in kind.questions])
                expected.learn_one(*row)
        for part in strategies.batches(data, len(stream)):
            rows = samples, y, w = stream.samples[part], stream.labels[part], stream.w[part]
            before = kind.answer_and_learn(copy.deepcopy(model), as_dicts(samples, draw), y, w)
            for found, (answer, *_) in zip(before, answers[part], strict=True):
                # The copy that answers and learns has inverses of another scale.
                assert found == pytest.approx(answer, rel=1e-6, abs=1e-7 * size)
            if draw.random() < 0.5:
                learn(model, forms, rows, draw)
            else:
                for x, target, weight, answer in zip(*rows, answers[part], strict=True):
                    laws.answers_of(model, draw.sample(never, draw.choice([0, 0, 1])))
                    ask, told = draw.choice([*zip(kind.questions, answer, strict=True)])
                    found = ask(model, x)
                    assert found == told or found == pytest.approx(told, rel=1e-12, abs=1e-12)
                    model.learn_one(x, target, weight)
            model = draw.choice([lambda same: same, *COPIES.values()])(model)
    assert_alike(model, expected, [*stream.samples, *never])
    assert model.count == len(stream)


@pytest.mark.filterwarnings("ignore:Texts among numbers")
@kinds
@strategies.examples(40)
@given(st.data(), *drawn_forms)
def test_rows_that_are_learnt_late_are_rows_one_by_one(kind, data, most_texts, draw):
    """Batches are predicted; some are learnt later, some never; others are learnt unasked."""
    stream, forms = data.draw(streams_in_forms(kind))
    model, expected, left = kind.make(), kind.make(), []
    with mock.patch.object(features, "MAX_CATEGORIES", most_texts):
        for part in strategies.batches(data, len(stream)):
            left.append((stream.samples[part], stream.labels[part], stream.w[part]))
            samples, *_ = left[-1]
            if draw.random() < 0.5:
                answers = laws.answers_of(model, as_dicts(samples, draw))
                with read_in_python():
                    for x, answer in zip(samples, answers, strict=True):
                        found = kind.questions[0](expected, x)
                        assert found == pytest.approx(answer, rel=1e-12, abs=1e-12)
                # A row that is predicted again waits once.
                kind.questions[0](model, samples[-1])
            if draw.random() < 0.5:
                rows = left.pop(draw.randrange(len(left)))
                learn(model, forms, rows, draw)
                with read_in_python():
                    laws.fitted_by_row(expected, *rows)
            model = draw.choice([lambda same: same, *COPIES.values()])(model)
    assert model.waiting == expected.waiting
    assert laws.saved(model) == laws.saved(expected)


@kinds
def test_a_long_stream_passes_what_is_due_after_so_many_rows(kind):
    """Labels are counted by 500, and a scale by 1,024; ridges are restored."""
    model, expected = kind.make(), kind.make()
    for number, (x, y) in enumerate(rows_of(kind, 1300)):
        x["b"] += 0.01 * number
        answer = model.predict_one(x), model.predict_one(x)
        model.learn_one(x, y)
        with read_in_python():
            assert (expected.predict_one(x), expected.predict_one(x)) == answer
            expected.learn_one(x, y)
    # A row that is predicted again is counted.
    assert model._state.waiting.matches == expected._state.waiting.matches
    assert laws.saved(model) == laws.saved(expected)


# -- experts, answers and weights -----------------------------------------------------------------


@kinds
@strategies.examples(20)
@given(st.data(), st.integers(0, 9))
def test_memories_are_the_weighted_ridge_solutions_of_their_rows(kind, data, seed):
    stream = data.draw(kind.streams(max_rows=50, weighed=True))
    model = kind.make(seed)

    def learn(model):
        for part in strategies.batches(data, len(stream)):
            model.learn_many(stream.samples[part], stream.labels[part], stream.w[part])

    assert_memories_exact(model, learnt_rows(model, learn), kind.decays)
    assert sum(model.shares.values()) == pytest.approx(1.0)


@strategies.examples(20)
@given(strategies.streams(max_rows=40, weighed=True, kinds=("number", "bool"), gaps=False))
def test_one_expert_is_plain_least_squares(stream):
    """With an automatic ridge, on features in units of their own."""
    model = laws.fitted_by_row(StreamClassifier(), stream.samples, stream.labels, stream.w)
    expert, plain = model._state.plain, LeastSquaresClassifier()
    expert.learn_pending(model.count)
    values = [[float(x.get(name, 0.0)) for name in model.feature_names] for x in stream.samples]
    rows = [dict(enumerate((np.array(row) * expert.factors).tolist())) for row in values]
    laws.fitted_by_row(plain, rows, stream.labels, stream.w)
    for row in rows:
        # The expert names classes by their columns.
        found, expected = ([*each.scores_one(row).values()] for each in (expert.model, plain))
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


@strategies.examples(20)
@given(strategies.streams(always=True))
def test_labels_scores_and_probabilities_agree(stream):
    model = laws.fitted_by_row(StreamClassifier(), stream.samples, stream.labels)
    probabilities = model.predict_proba_many(stream.samples)
    assert probabilities == [model.predict_proba_one(x) for x in stream.samples]
    predicted = model.predict_many(stream.samples)
    assert predicted == [model.predict_one(x) for x in stream.samples]
    all_scores = model.scores_many(stream.samples)
    assert all_scores == [model.scores_one(x) for x in stream.samples]
    for row, label, scores in zip(probabilities, predicted, all_scores, strict=True):
        assert tuple(row) == tuple(scores) == model.classes
        assert sum(row.values()) == pytest.approx(1.0)
        assert min(row.values()) > 0.0
        assert row[label] >= max(row.values()) * (1.0 - 1e-12)
        assert scores[label] == max(scores.values())


@strategies.examples(20)
@given(strategies.number_streams(always=True))
def test_means_distributions_and_intervals_agree(stream):
    model = laws.fitted_by_row(StreamRegressor(), stream.samples, stream.labels)
    normals = [model.predict_one(x, with_dist=True) for x in stream.samples]
    means = model.predict_many(stream.samples)
    assert means == [each.mu for each in normals] == [*map(model.predict_one, stream.samples)]
    assert len({each.sigma for each in normals}) == 1
    low, high = min(stream.labels), max(stream.labels)
    margin = 0.1 * (high - low) + 1e-9 * (abs(low) + abs(high))
    assert low - margin <= min(means) <= max(means) <= high + margin
    ends = [model.predict_interval_one(x, 0.5) for x in stream.samples]
    assert model.predict_interval_many(stream.samples, 0.5) == ends
    for (lower, upper), normal in zip(ends, normals, strict=True):
        quartiles = normal.mu - 0.6745 * normal.sigma, normal.mu + 0.6745 * normal.sigma
        assert (lower, upper) == pytest.approx(quartiles, rel=1e-4, abs=1e-4 * (high - low))


@pytest.mark.parametrize("level", [0.0, 1.0, math.nan, "0.9"])
def test_levels_that_are_none_are_refused(level):
    model = StreamRegressor()
    assert model.predict_interval_one({}, 1e-300) == (-math.inf, math.inf)
    for ask in (model.predict_interval_one, model.predict_interval_many):
        with pytest.raises((ValueError, TypeError), match="level="):
            ask([{"a": 3.0}], level)


@strategies.examples(20)
@given(st.data(), strategies.number_streams(kinds=("number", "whole"), always=True))
def test_units_are_no_matter(data, stream):
    """Features and targets multiplied by powers of 2: forecasts follow, bit for bit."""
    names = sorted({name for x in stream.samples for name in x})
    powers = {name: 2.0 ** data.draw(st.integers(-20, 20)) for name in [*names, "target"]}
    scaled = [{n: v if v is None else v * powers[n] for n, v in x.items()} for x in stream.samples]
    targets = [powers["target"] * y for y in stream.labels]
    a = laws.fitted_by_row(StreamRegressor(), stream.samples, stream.labels)
    b = laws.fitted_by_row(StreamRegressor(), scaled, targets)
    answers = np.array(laws.answers_of(a, stream.samples))
    np.testing.assert_array_equal(laws.answers_of(b, scaled), powers["target"] * answers)
    assert a.shares == b.shares


@strategies.examples(20)
@given(st.data(), strategies.streams(max_rows=40), st.integers(1, 12))
def test_of_rows_without_weight_only_the_last_label_counts(data, stream, n_light):
    """Their labels may be any of those that are known, but for one that later rows see."""
    model = laws.fitted_by_row(StreamClassifier(), stream.samples, stream.labels)
    known, n_rows = st.sampled_from(model.classes), n_light + 1
    samples = [data.draw(st.sampled_from(stream.samples)) for _ in range(n_rows)]
    last, others = data.draw(known), [copy.deepcopy(model) for _ in range(2)]
    for each in others:
        labels = [data.draw(known) for _ in range(n_light)]
        laws.fitted_by_row(each, samples, [*labels, last], [0.0] * n_rows)
        assert_memories_kept(each, model)
    answers, expected = (laws.answers_of(each, stream.samples) for each in others)
    assert answers == expected


def assert_memories_kept(model, before):
    for each, same in zip(model._state.memories, before._state.memories, strict=True):
        np.testing.assert_array_equal(each.weights, same.weights)


def test_targets_of_rows_without_weight_judge_nothing():
    model = laws.fitted_by_row(StreamRegressor(), *zip(*rows_of(KINDS["numbers"], 80), strict=True))
    before, x = copy.deepcopy(model), {"a": 1.0, "b": 1.0}
    model.learn_one(x, 7.0, 0.0)
    (_, deviation), (_, expected) = (laws.answers_of(each, [x])[0] for each in (model, before))
    assert deviation == expected
    prior = np.log([*StreamRegressor().shares.values()])
    found, expected = (np.log([*each.shares.values()]) - prior for each in (model, before))
    # Recent errors fade, as with every row.
    np.testing.assert_allclose(found - found[0], 0.99 * (expected - expected[0]), atol=1e-12)
    assert_memories_kept(model, before)


@kinds
def test_the_heaviest_rows_are_learnt(kind):
    """Wide rows, of which some weigh 1e5 and some nothing, outgrow nothing."""
    random = np.random.default_rng(0)
    X, w = random.choice([-1e5, 1e5], (200, 130)), random.choice([0.0, 1e-300, 1.0, 1e5], 200)
    y = (X[:, 0] > 0.0).astype(int)
    model = kind.make()
    model.predict_learn_many(X, y, w)
    assert np.mean(np.round(model.predict_many(X).astype(float)) == y) > 0.9


@pytest.mark.parametrize("w", [1e-6, 0.01, 1.0])
def test_intervals_become_finite_after_as_many_rows_for_any_weight(w):
    model = StreamRegressor()
    for row, (x, y) in enumerate(rows_of(KINDS["numbers"], 10)):
        low, high = model.predict_interval_one(x)
        assert np.isfinite(high - low) == (row >= 3)
        model.learn_one(x, y, w=w)


# -- what forecasts are worth ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [
        lambda random, n: random.normal(size=n),
        lambda random, n: random.standard_t(2, size=n),
        lambda random, n: np.exp(np.sin(np.arange(n) / 150)) * random.normal(size=n),
        lambda random, n: np.cumsum(random.normal(size=n)),
    ],
    ids=["normal", "heavy tails", "changing", "walk"],
)
@pytest.mark.parametrize("delay", the_rest_slow([0, 10]))
def test_intervals_of_90_percent_hold_90_percent(noise, delay):
    model, inside, random = StreamRegressor(), [], np.random.default_rng(1)
    X = random.normal(size=(1200, 3))
    y = X @ [3.0, -2.0, 1.0] + np.sin(np.arange(1200) / 100.0) + random.normal(size=1200)
    rows = [*zip(strategies.Rows(X, y, y).dicts(), (y + noise(random, 1200)).tolist(), strict=True)]
    for number, (x, y) in enumerate(rows):
        lower, upper = model.predict_interval_one(x)
        inside.append(lower <= y <= upper)
        if number >= delay:
            model.learn_one(*rows[number - delay])
    # Errors of forecasts that overlap are alike: they say less.
    assert np.mean(inside[200:]) == pytest.approx(0.9, abs=0.05 if delay else 0.03)


def test_many_classes_are_told_apart():
    """More than those whose shares in cells are stored."""
    rows = [{"tens": f"t{number // 10}", "ones": f"o{number % 10}"} for number in range(60)]
    model = laws.fitted_by_row(StreamClassifier(), 2 * rows, 2 * [*range(60)])
    found = model.predict_many(rows)
    assert np.mean([label == number for number, label in enumerate(found)]) > 0.9


@kinds
@pytest.mark.parametrize(
    "samples",
    [
        [{}] * 9,
        [{"a": 7.0}] * 9,
        [{"a": scale * (1 + n)} for n, scale in enumerate([1e-150, 1e149] * 5)],
        [{"a": 1e150 * (-1) ** n, "b": 1e-300 * n, "c": 5e-324} for n in range(9)],
        [{"a": None, "b": np.nan}] * 9,
        [{"a": f"text {n}"} for n in range(100)],
        [{f"late {n}": n} for n in range(40)],
        [{"a": np.arange(800.0) * n} for n in range(2)],
        [{"a": n % 2, "a=x": 2.0, "é\n": True, "": 1, ("a", (1, None)): 3} for n in range(9)],
        [{"a": 1e9 + 1e-7 * (n % 2), "b": 1e6 if n == 250 else n % 7} for n in range(300)],
    ],
    ids=["none", "constant", "far", "farther", "gaps", "texts", "late", "wide", "odd", "rounding"],
)
def test_extreme_samples_are_learnt(kind, samples):
    model = kind.make()
    for number, x in enumerate(samples):
        laws.answers_of(model, [x])
        model.learn_one(x, number % 3)
    answers = laws.answers_of(model, [*samples[:5], {"a": 1e150}, {}])
    numbers = [[*answer.values()] if type(answer) is dict else answer for answer in answers]
    assert np.min(numbers) >= -1.0
    assert (np.array(numbers)[:, 0] < 3.0).all()


@pytest.mark.parametrize("x", [{}, {"a": 1e150, "b": 5e-324}, {"a": None, "b": "text"}])
@pytest.mark.parametrize("sizes", [(1e150, -1e150), (5e-324, 1e-323), (0.0, 1e150, 1e-150)])
def test_extreme_targets_are_learnt(x, sizes):
    model = StreamRegressor()
    for target in 3 * sizes:
        model.learn_one(x, target)
        fresh = model.predict_one(x, with_dist=True)
        assert math.isfinite(fresh.mu)
        assert fresh.sigma >= 0.0


@kinds
def test_a_model_that_has_learnt_nothing_says_so(kind):
    model = kind.make(seed=np.int64(3))
    assert (model.predict_many([{}, {"a": "x"}]), model.seed) == ([kind.blank] * 2, 3)
    assert laws.answers_of(model, [{"a": "x"}]) in ([{}], [(0.0, math.inf)])
    assert (model.count, model.feature_names) == (0, ())
    assert sum(model.shares.values()) == pytest.approx(1.0)


def scaled_literally(values):
    """Return values of a feature in deviations from the mean of those before, whose weight fades.

    Of values further off than 6 deviations, the fifth in a row begins the scale anew; before it,
    and from the sixth row on, they are learnt as 6 deviations off.
    """
    taken, n_far, scaled = np.zeros(0), 0, []
    for value in values:
        ages = np.flatnonzero(taken == taken)
        before, weights = taken[ages], 0.9995**ages
        # Values that are all equal differ by nothing, also by no rounding.
        last, total = before[:1].sum(), weights.sum() or 1.0
        mean = weights @ (before - last) / total
        deviation = np.sqrt(weights @ (before - last - mean) ** 2 / total)
        off = np.nan_to_num(value - last - mean) * (ages.size > 0)
        scaled.append(np.clip(off / deviation, -6.0, 6.0) if deviation else np.sign(off))
        is_far = total >= 4.0 and abs(off) > 6.0 * deviation > 0.0
        n_far = n_far + 1 if is_far else 0
        learnt = last + mean + 6.0 * deviation * np.sign(off) if is_far else value
        taken = np.append(learnt, taken) if n_far < 5 else np.array([value])
        n_far %= 5
    return scaled


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
    # A feature was 0 in all rows before it came, but where it was unknown.
    X[:late, n_known:] *= 0.0
    expected = np.transpose([*map(scaled_literally, X.T)])
    scaler = RunningScaler().grown(n_known)
    for number, row in enumerate(X):
        if number == late:
            scaler = scaler.grown(X.shape[1], lambda name: [name])
        known = row[: len(scaler.means)]
        found, literal = scaler.transform(known), expected[number, : len(known)]
        np.testing.assert_allclose(found, literal, rtol=1e-7, atol=1e-7)
        scaler = scaler.learnt(known, np.flatnonzero(np.isnan(row)).tolist())


def test_what_comes_to_rest_stays_at_rest():
    scaler = RunningScaler().grown(1)
    for value in [3.3 + 1e-11 * (k % 7) for k in range(500)] + [3.3] * 10_000:
        scaler = scaler.learnt(np.array([value]))
    assert abs(scaler.transform(np.array([3.3]))[0]) < 0.01


# -- gaps and texts -------------------------------------------------------------------------------


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
    assert model.scores_one(x | {name: None}) != model.scores_one(x)


@kinds
def test_gaps_of_every_kind_are_explained_alike(kind):
    model = laws.fitted_by_row(kind.make(), *zip(*rows_of(kind, 9), strict=True))
    samples = [{"a": gap, "b": 1.0, "never met": gap} for gap in strategies.GAPS.values()]
    assert len({str((feature_effects(model, x), model.debug_one(x))) for x in samples}) == 1


@pytest.mark.parametrize(
    "value", [0, "nan", b"nan", [np.nan], np.array([np.nan]), pl.Series([np.nan]), (1, np.nan)]
)
def test_arrays_containers_and_texts_are_not_missing(value):
    assert not is_missing(value)


AMONG = "Texts among numbers count as unknown values. They are in the features "
AS_TEXT = "Numbers as text are learnt as categories. They are in the features "


def told_by(call):
    """Return the beginnings of the warnings of a call, up to the names of features."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message).partition(". Convert")[0] for warning in caught]


def learn_values(model, values):
    """Learn the values of one feature, row by row."""
    for k, value in enumerate(values):
        model.learn_one({"a": value, "b": k % 4}, float(k % 2))


@kinds
@pytest.mark.parametrize(
    ("values", "is_told", "names"),
    [
        ([1.0, 2.0, "n/a", 3.0, "", 4.0, "4.5", 5.0], True, {"a"}),
        ([np.ones(2), np.zeros(2), "n/a"], True, {("a", 0), ("a", 1)}),
        # Texts before the first number stay features, and are gaps later.
        (["n/a", "n/a", 1.0, 2.0], False, {"a", ("a", "n/a")}),
        (["n/a", 2.0, "n/a", 3.0, "other"], True, {"a", ("a", "n/a")}),
    ],
)
def test_a_text_among_numbers_is_a_gap_and_is_told_once(kind, values, is_told, names):
    model, expected = kind.make(), kind.make()
    assert told_by(lambda: learn_values(model, values)) == [f"{AMONG}'a'"] * is_told
    are_texts = [isinstance(value, str) for value in values]
    start = are_texts.index(False)
    values = [None if k > start and is_text else values[k] for k, is_text in enumerate(are_texts)]
    learn_values(expected, values)
    assert {*model.feature_names} == {*expected.feature_names} == names | {"b"}
    with warnings.catch_warnings(action="ignore"):
        answers = laws.answers_of(model, [{"a": "n/a", "b": 1.0}])
        assert answers == laws.answers_of(expected, [{"a": None, "b": 1.0}])
    again = loads(dumps(model))
    assert told_by(lambda: again.learn_one({"a": "n/a", "b": 1.0}, 1.0)) == []


@kinds
@pytest.mark.parametrize("call", ["predict_one", "predict_many", "learn_many"])
def test_a_model_of_numbers_tells_that_it_meets_texts(kind, call):
    model = laws.fitted(kind.make(), [{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 1.0}], [0.0, 1.0])
    x = {"b": "1.5", "a": "2.5"}
    arguments = {
        "predict_one": [x],
        "predict_many": [pd.DataFrame([x])],
        "learn_many": [[x], [1.0]],
    }
    assert told_by(lambda: getattr(model, call)(*arguments[call])) == [f"{AMONG}'a', 'b'"]
    for name in arguments:
        assert told_by(lambda name=name: getattr(model, name)(*arguments[name])) == []


TEXTS = {
    "fractions": ([f"{k / 8}" for k in range(8)], True),
    "decimal commas": ([f"{k},5" for k in range(8)], True),
    "exponents": ([f" {k}e-5 " for k in range(8)], True),
    "with marks of gaps": (["", "0.5", "1", "n/a", "2", *"345", "6", "7"] * 2, True),
    "few whole numbers": ([*"12345678"] * 4, False),
    "whole numbers": ([*"123"] * 30, True),
    "larger whole numbers": ([str(10 * k) for k in range(40)] * 2, True),
    "of a fraction late": ([*"12345678", "9.5"] * 2, True),
    "two whole numbers": ([*"01"] * 40, False),
    "identifiers": ([f"{k:03d}" for k in range(95, 155)] * 2, False),
    "zip codes": ([str(10_000 + 7 * k) for k in range(50)] + ["01067"] * 20, False),
    "mostly words": (["1.5", "2.5", "3.5", "red"] * 4, False),
    "versions and dates": (["3.11.2", "2020-01-01", "12:30", "10.0.0.1"] * 4, False),
    "names of numbers": (["nan", "inf", "none", "x"] * 4, False),
    "with a letter": ([f"c{k}" for k in range(60)] * 2, False),
}
"""Texts of a feature, and whether they are told to be numbers."""


@pytest.mark.parametrize(("values", "is_told"), TEXTS.values(), ids=TEXTS)
def test_numbers_as_text_are_told_once(values, is_told):
    model, samples = StreamClassifier(), [{"a": each, "more": each} for each in values]
    told = told_by(lambda: model.learn_many(samples, [k % 2 for k in range(len(values))]))
    assert told == [f"{AS_TEXT}'a', 'more'"] * is_told
    for _ in told:
        again = loads(dumps(model))
        assert told_by(lambda: again.learn_many(samples, [0] * len(values))) == []  # noqa: B023
    assert len(model.feature_names) == 2 * len({*values})


@kinds
def test_a_warning_that_is_an_error_leaves_a_model_that_learns(kind):
    model = kind.make()
    learn_values(model, [1.0, 2.0])
    with pytest.raises(DataWarning, match=AMONG):
        model.learn_many([{"a": 3.0}, {"a": "n/a"}], [0.0, 1.0])
    assert model.count == 2
    with pytest.raises(DataWarning, match=AMONG):
        model.learn_one({"a": "n/a", "b": 1.0}, 1.0)
    assert model.count in (2, 3)
    learn_values(model, ["n/a", 2.0])


# -- refusals -------------------------------------------------------------------------------------

GOOD = {"newer": 3.0, "newest": "text"}
BAD_SAMPLES = [
    (["a"], "x is of type list"),
    ({"a": np.inf}, r"x\['a'\] is inf"),
    ({"a": -1e151}, r"x\['a'\] is -1e\+151"),
    ({"a": 10**400}, r"x\['a'\] is a number beyond float64"),
    ({"a": 1.0, "b": {}}, r"x\['b'\] is {}"),
    ({"a": datetime.date(2020, 1, 1)}, "of type date, expected a number"),
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
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), [1], "X has several columns of one name"),
    ({"a": 1.0}, [1], "X is of type dict"),
    (np.array([[1.0], [np.inf]]), [1, 2], r"^X\[1\]\[0\] is inf"),
    ([{"new": 1.0}, {"a": 1.0}], [1], "y has 1 (labels|targets), expected 2"),
    ([{"new": 1.0}], 1, "y is of type int"),
    ([{"new": 1.0}], np.ones((1, 2)), r"y has shape \(1, 2\)"),
    ([{"c": np.ones(2)}, {"c": np.ones(3)}], [1, 2], r"x\['c'\] has 3 values"),
    *(([GOOD, x, GOOD], [3, 1, 2], laws.in_batch(text)) for x, text in BAD_SAMPLES),
]
BAD_TARGETS = {
    "labels": [(math.nan, "is nan"), (["x"], "is .* of type list"), (None, "is None")],
    "numbers": [
        *((None, "is None"), (np.nan, "is nan"), (np.inf, "is inf"), (1e151, r"is 1e\+151")),
        (10**400, "is a number beyond float64"),
        *(("text", "is 'text'"), ([1.0], r"y(\[\d\])? is \[1.0\] of type list.*several targets")),
        *(({"y": 1.0}, "is {'y': 1.0}"), (1j, "is 1j")),
        *((gap, "(?s)is .*, expected (a n|fin)") for gap in strategies.GAPS.values()),
    ],
}
BAD_WEIGHTS = [(-1.0, "w holds -1.0"), (2e5, "w holds 200000.0.*at most 100000")]
BAD_WEIGHTS += [(10**400, "w"), (np.nan, "w")]


@pytest.mark.parametrize("name", KINDS)
def test_bad_rows_leave_no_trace(name):
    kind, y = KINDS[name], [float(n % 4 > 1) for n in range(9)]
    samples = [{"a": float(n % 4), "array": np.array([n, 1.0]), "b": "xy"[n % 2]} for n in range(9)]
    model = laws.fitted_by_row(kind.make(), samples, y)
    twin = copy.deepcopy(model)
    bad_targets, no_number = BAD_TARGETS[name], "w is .*, expected one number"
    calls = [("learn_one", (x, 3.0), message) for x, message in BAD_SAMPLES]
    calls += [("learn_one", (GOOD, target), message) for target, message in bad_targets]
    calls += [("learn_one", (GOOD, 3.0, w), message) for w, message in BAD_WEIGHTS]
    calls += [("learn_one", (GOOD, 3.0, w), no_number) for w in (None, np.ones(1))]
    calls += [("learn_many", ([GOOD] * 2, [3.0, 1.0], [1.0, w]), text) for w, text in BAD_WEIGHTS]
    batches = [([GOOD, {"a": 2.0}], [1.0, target], message) for target, message in bad_targets]
    for *batch, message in [*BAD_BATCHES, *batches]:
        calls += [(method, batch, message) for method in ("learn_many", "predict_learn_many")]
    for method, arguments, message in calls:
        with pytest.raises((ValueError, TypeError), match=message):
            getattr(model, method)(*arguments)
    further = [*samples, {"new": 1.0, "newer": "text"}]
    for each in (model, twin):
        laws.fitted_by_row(each, further, [*y, y[0]])
    assert_alike(model, twin, further)


def test_labels_that_no_answer_can_hold_change_nothing():
    """A polars series holds no labels of several types."""
    model, X = StreamClassifier(), pl.DataFrame({"a": np.arange(40.0)})
    model.learn_many(X, [(1, 2), "b"] * 20)
    call = lambda: model.predict_learn_many(X, [(1, 2), "b"] * 20)  # noqa: E731
    laws.assert_refused(call, model, "several types")


# -- rows in C ------------------------------------------------------------------------------------

compiled = pytest.mark.skipif(core.StreamRows is None, reason="the extension is not in use")


def others_than(value):
    """Yield what is no such argument."""
    if isinstance(value, np.ndarray):
        yield from (value.astype(np.float32), None, "text")
        if value.size:
            yield value.ravel()[:-1].copy()
    elif isinstance(value, tuple):
        yield from (None, value[:-1]) if value else (None, ("y",))
    elif not isinstance(value, (int, float, dict)):
        yield from (object(), [], "text")


@compiled
@kinds
def test_arguments_that_do_not_fit_are_refused(kind):
    """As in a file that somebody has changed."""
    model = laws.fitted_by_row(kind.make(), *zip(*rows_of(kind, 40), strict=True))
    named = laws.arguments_of_rows(model)
    core.StreamRows(**named)
    cases = [{name: other} for name, value in named.items() for other in others_than(value)]
    for number, array in enumerate(named["arrays"]):
        before, after = named["arrays"][:number], named["arrays"][number + 1 :]
        cases += [{"arrays": (*before, other, *after)} for other in others_than(array)]
    for case in cases:
        with pytest.raises((TypeError, ValueError, IndexError, BufferError)):
            core.StreamRows(**named | case)


@compiled
@kinds
def test_no_memory_and_no_reference_is_lost(kind):
    """Of rows that C knows, and of those that it hands back."""
    tracemalloc.start()
    (x, y), *_ = rows = rows_of(kind, 60)
    model = laws.fitted_by_row(kind.make(), *zip(*rows, strict=True))
    odd = [{"a": "text"}, {"a": 1.0, "z": 1.0}, {}, Odd(x), x | {"a": 1e200}]
    kept, held = [x, *x, *x.values(), y, *odd], []
    for _ in range(2):
        for _ in range(30):
            for ask in kind.questions:
                ask(model, x)
            model.learn_one(x, y, 0.0)
            model.learn_one(x, y)
            for sample in odd:
                with pytest.raises(ValueError, match=r"w holds|1e\+200"):
                    model.learn_one(sample, y, -1.0)
        gc.collect()
        held.append((tracemalloc.get_traced_memory()[0], *map(sys.getrefcount, kept)))
    tracemalloc.stop()
    (before, *counts), (after, *counts_after) = held
    assert after < before + 10_000
    assert counts_after == pytest.approx(counts, abs=3)


# -- files of earlier versions --------------------------------------------------------------------

FORMER = lzma.decompress(Path(__file__).with_name("streams_of_version_3.xz").read_bytes())
"""A list of `taught` models of both kinds, written by the last version of format 3."""

FORMAT_4 = version_4.unpacked()
FILES = {
    "version 3": lambda place, name: loads(FORMER)[place],
    "version 4": lambda place, name: loads(FORMAT_4["models"])[name],
    "pickle of version 4": lambda place, name: pickle.loads(FORMAT_4["pickles"])[name],
}
ROWS = [{"a": float(n % 4), "b": "xy"[n % 2], "c": None if n % 3 else 2.0} for n in range(12)]
LATE = {"a": "text", "b": "x"}


def taught(kind):
    """Return a model with late labels, which has warned of a text, and for which rows wait.

    Rows without weight keep the file small: matrices stay diagonal.
    """
    model = kind()
    for row, x in enumerate(ROWS[:8]):
        model.predict_one(x)
        if row >= 2:
            model.learn_one(ROWS[row - 2], (row - 2) % 3, 0.0)
    model.predict_one(LATE)
    return model


@pytest.mark.filterwarnings("ignore:Texts among numbers")
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(
    ("place", "name", "kind"),
    [(0, "stream", StreamClassifier), (1, "stream of numbers", StreamRegressor)],
)
def test_models_of_earlier_versions_go_on(file, place, name, kind):
    found, expected = FILES[file](place, name), taught(kind)
    assert (found.count, found.feature_names) == (expected.count, expected.feature_names)
    assert found.waiting == expected.waiting
    # What a model has said it does not say again.
    assert told_by(lambda: found.predict_one(LATE | {"c": 1.0})) == []
    expected.predict_one(LATE | {"c": 1.0})
    for model in (found, expected):
        laws.fitted_by_row(model, ROWS[6:], [row % 3 for row in range(6, 12)])
    assert found.shares == pytest.approx(expected.shares)
    answers = zip(laws.answers_of(found, ROWS), laws.answers_of(expected, ROWS), strict=True)
    for answer, expected_answer in answers:
        assert answer == pytest.approx(expected_answer)


@pytest.mark.parametrize("last", [-(10**12), -2, 2.5, None, "0"])
def test_a_last_label_of_a_former_file_without_a_column_is_refused(last):
    saved = {"_count": 8, "_delay": 0, "_last": last}
    with pytest.raises((TypeError, ValueError)):
        StreamClassifier()._state.take_former(saved)


NO_COLUMNS = -(2.0**40), -2.0, 5.0, 0.5, 2.0**62, 2.0**63, np.nan, np.inf
FORGED = [("labels", LAST_LABEL, number) for number in NO_COLUMNS]
FORGED += [(kind, place, -1.0) for kind in KINDS for place in (ROWS_LEARNT, DELAY)]
FORGED += [(kind, place, 0.5) for kind in KINDS for place in (ROWS_LEARNT, DELAY)]


@pytest.mark.parametrize(("name", "place", "number"), FORGED)
def test_numbers_that_are_no_counts_and_no_columns_are_refused(name, place, number):
    kind = KINDS[name]
    model = laws.fitted_by_row(kind.make(), *zip(*rows_of(kind, 9), strict=True))
    forged, state = kind.make.__new__(kind.make), model._own_state()
    state["_numbers"] = state["_numbers"].copy()
    state["_numbers"][place] = number
    forged.__setstate__(state)
    with pytest.raises(ValueError, match=r".*"):
        loads(dumps(forged))
