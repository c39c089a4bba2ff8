"""WindowedClassifier: the batch solution on windows cut by hand, whichever way readings come."""

import copy
import pickle
import random
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from river import checks, compose, naive_bayes, preprocessing

from onlinels import HiddenLayer, LeastSquaresClassifier, MiniRocketFeatures, WindowedClassifier
from onlinels.windowed import windows_of
from support import strategies
from support.laws import (
    assert_is_batch_solution,
    assert_refused,
    fitted,
    settings_refused,
)
from support.slow import shorten_river_streams
from support.strategies import Rows, splits

NAMES = ("ax", "ay", "az", "gx")


def literal_windows(samples, labels, window, hop, rule):
    """Return the windows (n, window, n_channels) of one stretch of samples, and their labels.

    A label of None is none. At least `hop` samples lie from one window to the next.
    """
    cut, last = [], -hop
    for end in range(window, len(samples) + 1):
        seen = labels[end - window : end]
        # Of labels that are as frequent, the latest.
        label = max(reversed(seen), key=seen.count) if rule == "majority" else seen[-1]
        if rule == "unanimous" and len(set(seen)) > 1:
            label = None
        if end - last >= hop and None not in (seen[-1], label):
            cut.append((samples[end - window : end], label))
            last = end
    return cut


def literal_stretches(times, values, labels, rate, starts):
    """Return the samples and labels from each start on, resampled by numpy's interpolation."""
    for start, stop in pairwise([*starts, len(times)]):
        t, samples, known = times[start:stop], values[start:stop], labels[start:stop]
        if rate is not None:
            grid = t[0] + np.arange(int(np.floor((t[-1] - t[0]) * rate + 1e-3)) + 1) / rate
            samples = np.stack([np.interp(grid, t, column) for column in samples.T], axis=1)
            known = [known[k] for k in np.searchsorted(t, grid - 1e-3 / rate)]
        yield samples, known


@st.composite
def streams(draw):
    """Draw readings (n, n_channels) with labels that last a while, and times in quarters."""
    n, n_channels = draw(st.integers(1, 60)), draw(st.integers(1, 4))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = generator.integers(-3, 4, (n, n_channels)).astype(float)
    labels = np.repeat(generator.integers(0, 3, n), generator.integers(1, 9, n))[:n].tolist()
    times = np.cumsum(generator.integers(1, draw(st.sampled_from([4, 30])), n)) / 4.0
    settings = {
        "window": draw(st.integers(1, 8)),
        "hop": draw(st.integers(1, 10)),
        "label_rule": draw(st.sampled_from(["last", "majority", "unanimous"])),
    }
    return values, labels, times, settings


def readings_of(values, times=None):
    """Return dicts whose keys come in any order."""
    rows = [dict(zip(NAMES, row, strict=False)) for row in values.tolist()]
    if times is not None:
        rows = [{"t": t} | row for t, row in zip(times.tolist(), rows, strict=True)]
    return [dict(reversed(x.items())) if k % 2 else x for k, x in enumerate(rows)]


def linear(ridge=0.5, **settings):
    """Return a linear classifier of windows."""
    return WindowedClassifier(LeastSquaresClassifier(ridge=ridge), **settings)


def learn_part(model, rows, labels, part):
    if len(part) != 1:
        model.learn_many(rows[part.start : part.stop], labels[part.start : part.stop])
    elif labels[part[0]] is None:
        model.observe_one(rows[part[0]])
    else:
        model.learn_one(rows[part[0]], labels[part[0]])


@strategies.examples(150)
@given(
    streams(),
    st.sampled_from([None, None, 0.7, 1.0, 3.0, 4.0]),
    st.sampled_from([1, 3.5]),
    st.integers(1, 6),
    st.data(),
)
def test_the_batch_solution_on_windows_cut_by_hand(stream, rate, largest_gap, period, data):
    """Windows wait for a label, of which every so many readings have one.

    They begin anew after a gap and where a recording begins.
    """
    values, labels, times, settings = stream
    timed, parts, gaps = {}, [range(k, k + 1) for k in range(len(values))], ()
    if data.draw(st.booleans()):
        parts = data.draw(splits(len(values)))
    else:
        labels = [label if k % period == 0 else None for k, label in enumerate(labels)]
    if rate is not None:
        timed = {"timestamp": "t", "sample_rate": rate, "largest_gap": largest_gap}
        gaps = 1 + np.flatnonzero(np.diff(times) * rate > largest_gap)
    beginnings = {0, data.draw(st.sampled_from([part.start for part in parts]))}
    model, rows = linear(**settings, **timed), readings_of(values, times if timed else None)
    for part in parts:
        if part.start in beginnings:
            model.restart()
        learn_part(model, rows, labels, part)
    stretches = literal_stretches(times, values, labels, rate, sorted({*gaps, *beginnings}))
    windows = [
        cut for stretch in stretches for cut in literal_windows(*stretch, *settings.values())
    ]
    assert model.n_windows == len(windows)
    assert model.channels == NAMES[: values.shape[1]]
    if windows:
        X = np.array([window.ravel() for window, _ in windows])
        rows = Rows(X, [label for _, label in windows], np.ones(len(X)))
        columns = [name[1] for name in model.classifier.feature_names]
        assert_is_batch_solution(model.classifier, rows, columns)


MEANS = compose.FuncTransformer(lambda x: dict(enumerate(x["window"].mean(axis=0))))
CLASSIFIERS = {
    "linear": LeastSquaresClassifier(ridge=0.5),
    "pipeline": HiddenLayer(20) | LeastSquaresClassifier(ridge=1.0),
    "pipeline of river's": MEANS | naive_bayes.GaussianNB(),
}


@pytest.mark.parametrize("kind", CLASSIFIERS)
@given(streams(), st.data())
def test_any_classifier_learns_windows_and_is_asked_about_the_last_one(kind, stream, data):
    """Readings of a batch are asked about as if they followed one another; nothing is learnt."""
    values, labels, _, settings = stream
    rows, half = readings_of(values), len(values) // 2
    plain = CLASSIFIERS[kind].clone()
    model = WindowedClassifier(plain.clone(), **settings)
    for part in data.draw(splits(half)):
        learn_part(model, rows, labels, part)
    for window, label in literal_windows(values[:half], labels[:half], *settings.values()):
        plain.learn_one({"window": window}, label)
    many, tables = model.predict_many(rows[half:]), model.predict_proba_many(rows[half:])
    for k, x in enumerate(rows[half:], half):
        before, expected = (pickle.dumps(model._state), model.n_windows), (None, {})
        if k + 1 >= settings["window"]:
            sample = {"window": values[k + 1 - settings["window"] : k + 1]}
            expected = plain.predict_one(sample), plain.predict_proba_one(sample)
        table = model.predict_proba_one(x)
        for found in (table, tables[k - half]):
            assert found == pytest.approx(expected[1], abs=1e-9)
        # Of tied classes, either may be predicted.
        for label in (model.predict_one(x), many[k - half]):
            assert table.get(label) == pytest.approx(table.get(expected[0]), abs=1e-9)
        assert before == (pickle.dumps(model._state), model.n_windows)
        model.observe_one(x)


EPOCH = np.datetime64("2020-01-01")
READINGS = readings_of(np.random.default_rng(0).normal(size=(100, 2)))
LABELS = ["fast" if k // 20 % 2 else "slow" for k in range(100)]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_answers_in_kind(kind):
    """Channels are found by name."""
    model, of_frames = (
        fitted(linear(1.0, window=4, hop=1), make(READINGS[:40]), LABELS[:40])
        for make in (list, kind)
    )
    for each in (model, of_frames):
        each.restart()
    answers, expected = model.predict_many(READINGS[40:]), model.predict_proba_many(READINGS[40:])
    frame = kind(READINGS[40:])[["ay", "ax"]]
    found, table = of_frames.predict_many(frame), of_frames.predict_proba_many(frame)
    assert [y if isinstance(y, str) else None for y in found] == answers
    assert (answers[:3], type(table)) == ([None] * 3, kind)
    expected = [[each.get(label, 0.0) for label in ("slow", "fast")] for each in expected]
    np.testing.assert_allclose(np.asarray(table), expected)


@pytest.mark.parametrize(("rate", "n_windows"), [(None, 19), (2.0, 19), (3.0, 28)])
def test_dates_are_times_as_seconds_are(rate, n_windows):
    dates = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=0.5 * k) for k in range(40)]
    rows, *of_dates = (
        [x | {"t": t} for x, t in zip(READINGS, times, strict=False)]
        for times in (0.5 * np.arange(40), dates, np.arange(40) * np.timedelta64(500, "ms") + EPOCH)
    )
    weights = []
    for batch in (rows, *of_dates, pd.DataFrame(of_dates[0]), pl.DataFrame(of_dates[0])):
        model = linear(1.0, window=4, hop=2, timestamp="t", sample_rate=rate)
        model.learn_many(batch[:33], LABELS[:33])
        model.learn_many(batch[33:], LABELS[33:40])
        assert model.n_windows == n_windows
        weights.append(model.classifier.output_weights)
    np.testing.assert_allclose(weights, [weights[0]] * 5, atol=1e-6)


def test_times_and_channels_may_have_any_names():
    model = linear(window=1, hop=1, timestamp=0.0)
    model.learn_many(np.array([[0.0, 5.0], [1.0, 6.0]]), [0, 1])
    assert (model.channels, model.n_windows) == ((1,), 2)
    model = linear(window=1, hop=1, timestamp=("t", 0))
    for k in range(3):
        model.learn_one({("t", 0): float(k), np.int64(5): 1.0}, "u")
    assert (model.channels, model.n_windows) == ((5,), 3)


def test_even_times_are_no_resampling():
    """Times in floating point, each a little before or after its place on the grid."""
    plain = linear(1.0, window=8, hop=1)
    timed = linear(1.0, window=8, hop=1, timestamp="t", sample_rate=50.0)
    for k, (x, y) in enumerate(zip(READINGS, LABELS, strict=True)):
        plain.learn_one(x, y)
        timed.learn_one(x | {"t": 1.7e9 + 0.02 * k}, y)
        assert timed.n_windows == plain.n_windows
    found, expected = timed.classifier.output_weights, plain.classifier.output_weights
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_river_finds_nothing_but_channels_that_come_and_go(monkeypatch):
    shorten_river_streams(monkeypatch, 8)
    model, error = linear(window=1, hop=1), r"A reading (has a new|lacks the) channel"
    found = {check.__name__: check for check in checks.yield_checks(model)}
    # It takes as long as all others.
    del found["check_bounded_memory_growth"]
    for name, check in found.items():
        random.seed(0)
        is_refused = name in model._unit_test_skips()
        with pytest.raises(ValueError, match=error) if is_refused else nullcontext():
            check(model.clone())


TIMED = {"timestamp": "t"}
RATED = {"timestamp": "t", "sample_rate": 1.0}
GOOD = {"ax": 1.0, "ay": 2.0}


BAD_READINGS = [
    ({}, GOOD | {"ay": float("nan")}, r"\['ay'\] is nan"),
    ({}, GOOD | {"ay": np.ones(2)}, "A reading holds an array"),
    ({}, {"ax": 1.0}, "lacks the channel 'ay'.*last value"),
    (TIMED, {"t": 6.0}, "lacks the channel 'ax'"),
    ({}, GOOD | {"az": 1.0}, "new channel 'az', expected exactly"),
    ({}, [1.0, 2.0], "expected a dict"),
    (TIMED, GOOD, "x has no 't'"),
    (TIMED, GOOD | {"t": 7.0}, r"2 s after .* expected 1 s .* Pass sample_rate"),
    (TIMED, GOOD | {"t": 5.0}, "'t' is 5.0, expected a later time than"),
    (RATED, GOOD | {"t": 5.0}, r"'t' is 5.0, expected a later.*Leave out"),
    (RATED, GOOD | {"t": 4.5}, "'t' is 4.5, expected a later time than"),
    (RATED, GOOD | {"t": float("nan")}, "'t' holds nan, expected finite times"),
    (RATED, GOOD | {"t": "12:00"}, "'12:00' of type str, expected only seconds"),
    (RATED, GOOD | {"t": True}, "'t' is True of type bool"),
    (RATED, GOOD | {"t": datetime(2020, 1, 1)}, "are dates, expected numbers"),
]


@pytest.mark.parametrize(("settings", "x", "message"), BAD_READINGS)
def test_bad_readings_change_nothing(settings, x, message):
    errors, times = (TypeError, ValueError), np.arange(6.0) if settings else None
    rows = readings_of(np.array([[k % 2, 1.0] for k in range(6)]), times)
    model = fitted(linear(1.0, window=3, hop=1, **settings), rows, [0, 1] * 3)
    model.predict_one(GOOD | ({"t": 6.0} if settings else {}))
    assert_refused(lambda: model.learn_one(x, 0), model, message, errors)
    for act in (model.observe_one, model.predict_one, model.predict_proba_one):
        assert_refused(lambda act=act: act(x), model, message, errors)
    assert_refused(lambda: model.learn_many([x, GOOD], [0, 1]), model, None, errors)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([{"t": 1.0}] * 2, "A reading has no channels, expected a number"),
        (pd.DataFrame({"t": [1.0, 2.0]}), "A reading has no channels, expected a number"),
        (np.ones((2, 2)), "[xX] has no 't'"),
        (pd.DataFrame({"ax": [1.0, 2.0]}), "[xX] has no 't'"),
        ([{"ax": 1.0, "t": 0.0}, [1.0, 2.0]], r"X\[1\] is of type list, expected a dict"),
    ],
)
def test_readings_need_channels_and_their_times(batch, message):
    model = linear(window=2, hop=1, timestamp="t")
    assert_refused(lambda: model.learn_many(batch, [0, 1]), model, message, (TypeError, ValueError))


def test_what_the_wrapped_classifier_refuses_is_not_taken_in():
    short = MiniRocketFeatures.from_examples(np.ones((2, 9, 2)), n_features=84)
    model = WindowedClassifier(short | LeastSquaresClassifier(), 10, 1)
    for _ in range(9):
        model.learn_one(GOOD, 1)
    for learn in (lambda: model.learn_one(GOOD, 1), lambda: model.learn_many([GOOD] * 3, [1] * 3)):
        dump = lambda model: pickle.dumps(model._state)  # noqa: E731
        assert_refused(learn, model, "A window has shape", dump=dump)


@pytest.mark.parametrize("n_windows", [2, 3])
def test_a_refusal_leaves_the_very_steps_that_were_passed_in_as_they_were(n_windows):
    cut = compose.FuncTransformer(lambda x: {"a": x["window"][0, 0], "b": x["window"][-1, 0]})
    scaler = preprocessing.StandardScaler()
    bound = compose.FuncTransformer(lambda x: {k: v * (1 // int(v < 5.0)) for k, v in x.items()})
    linear = LeastSquaresClassifier(1.0)
    pipeline = cut | scaler | bound | linear
    model = WindowedClassifier(pipeline, 2, 1)
    model.learn_many([{"x": float(k % 3)} for k in range(60)], [k % 2 for k in range(60)])
    before = copy.deepcopy(vars(scaler)), linear.output_weights.tolist(), model._state
    with pytest.raises(ZeroDivisionError):
        model.learn_many([{"x": 1.0}] * (n_windows - 1) + [{"x": 1e6}], [0] * n_windows)
    assert model.classifier is pipeline
    assert list(pipeline.steps.values()) == [cut, scaler, bound, linear]
    assert (vars(scaler), linear.output_weights.tolist(), model._state) == before
    assert (linear.count, scaler.counts["a"], model.n_windows) == (59, 59, 59)
    model.learn_one({"x": 1.0}, 0)
    assert (linear.count, scaler.counts["a"]) == (60, 60)


@given(streams())
def test_windows_of_a_stream_are_those_that_are_cut_by_hand(stream):
    values, labels, _, settings = stream
    cut = literal_windows(values, labels, *settings.values())
    assume(cut)
    windows, of_windows = windows_of(zip(readings_of(values), labels, strict=True), **settings)
    assert of_windows == [label for _, label in cut]
    np.testing.assert_array_equal(windows, [window for window, _ in cut])


def test_what_is_no_stream_of_readings_gives_no_windows():
    for stream, error, message in (
        ([], ValueError, "0 readings fill no window of 64"),
        ([({"ax": 1.0}, [])], TypeError, "label"),
        ([{"ax": 1.0}], TypeError, r"yields {'ax': 1.0}, expected pairs .*zip"),
    ):
        with pytest.raises(error, match=message):
            windows_of(stream)


test_bad_settings = settings_refused(
    lambda **settings: WindowedClassifier(**{"classifier": LeastSquaresClassifier()} | settings),
    [
        ({"classifier": HiddenLayer()}, TypeError, "classifier is of type HiddenLayer"),
        ({"sample_rate": 50.0}, ValueError, "needs the times of readings. Pass timestamp"),
        ({"timestamp": "t", "sample_rate": 0.0}, ValueError, "sample_rate=0.0"),
        ({"largest_gap": 0.5}, ValueError, "at least 1 sampling period"),
    ],
)
