"""WindowedClassifier: the batch solution on windows cut by hand, whichever way readings come."""

import copy
import pickle
import random
from collections import Counter
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
        counts = Counter(seen)
        label = seen[-1]
        if rule == "unanimous" and len(counts) > 1:
            label = None
        if rule == "majority":
            most = max(counts.values())
            label = next(label for label in reversed(seen) if counts[label] == most)
        if end - last >= hop and seen[-1] is not None and label is not None:
            cut.append((samples[end - window : end], label))
            last = end
    return cut


def literal_stretches(times, values, labels, rate, largest_gap):
    """Return the resampled stretches between gaps, by numpy's interpolation."""
    gaps = [k + 1 for k, d in enumerate(np.diff(times)) if d * rate > largest_gap]
    for start, stop in pairwise([0, *gaps, len(times)]):
        t = times[start:stop]
        grid = t[0] + np.arange(int(np.floor((t[-1] - t[0]) * rate + 1e-3)) + 1) / rate
        columns = [np.interp(grid, t, column) for column in values[start:stop].T]
        behind = np.searchsorted(t, grid - 1e-3 / rate)
        yield np.stack(columns, axis=1), [labels[start + k] for k in behind]


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


def learn_in_parts(model, rows, labels, parts):
    for part in parts:
        if len(part) > 1:
            model.learn_many(rows[part.start : part.stop], labels[part.start : part.stop])
        elif labels[part[0]] is None:
            model.observe_one(rows[part[0]])
        else:
            model.learn_one(rows[part[0]], labels[part[0]])
    return model


@strategies.examples(150)
@given(
    streams(),
    st.sampled_from([None, None, 0.7, 1.0, 3.0, 4.0]),
    st.sampled_from([1, 3.5]),
    st.integers(1, 6),
    st.data(),
)
def test_the_batch_solution_on_windows_cut_by_hand(stream, rate, largest_gap, period, data):
    """Windows wait for a label, of which every so many readings have one."""
    values, labels, times, settings = stream
    timed, parts = {}, [range(k, k + 1) for k in range(len(values))]
    if data.draw(st.booleans()):
        parts = data.draw(splits(len(values)))
    else:
        labels = [label if k % period == 0 else None for k, label in enumerate(labels)]
    stretches = [(values, labels)]
    if rate is not None:
        timed = {"timestamp": "t", "sample_rate": rate, "largest_gap": largest_gap}
        stretches = literal_stretches(times, values, labels, rate, largest_gap)
    model = linear(**settings, **timed)
    learn_in_parts(model, readings_of(values, times if timed else None), labels, parts)
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


@given(streams())
def test_answers_are_for_the_window_that_ends_in_the_reading(stream):
    """Of a batch, too, as if its readings followed one another; nothing is learnt."""
    values, labels, _, settings = stream
    rows, half = readings_of(values), len(values) // 2
    model = learn_in_parts(linear(**settings), rows, labels, [[k] for k in range(half)])
    many, tables = model.predict_many(rows[half:]), model.predict_proba_many(rows[half:])
    for k, x in enumerate(rows[half:], half):
        before, expected = (pickle.dumps(model._state), model.n_windows), (None, {})
        if k + 1 >= settings["window"]:
            sample, plain = {"window": values[k + 1 - settings["window"] : k + 1]}, model.classifier
            expected = plain.predict_one(sample), plain.predict_proba_one(sample)
        assert (model.predict_one(x), model.predict_proba_one(x)) == expected
        assert before == (pickle.dumps(model._state), model.n_windows)
        label, table = many[k - half], tables[k - half]
        # Of tied classes, either may be predicted.
        assert expected[1].get(label) == pytest.approx(expected[1].get(expected[0]), abs=1e-9)
        assert table == pytest.approx(expected[1], abs=1e-9)
        model.observe_one(x)


def shaken(n):
    """Return readings of two channels, one of which shakes faster where the label says so."""
    generator = np.random.default_rng(0)
    labels = ["fast" if k // 60 % 2 else "slow" for k in range(n)]
    speed = np.where(np.array(labels) == "fast", 1.3, 0.5)
    values = np.stack([np.sin(np.cumsum(speed)), generator.normal(size=n)], axis=1)
    return readings_of(values + 0.1 * generator.normal(size=values.shape)), labels


EXAMPLES = np.random.default_rng(0).normal(size=(20, 16, 2))
MINIROCKET = MiniRocketFeatures.from_examples(EXAMPLES, n_features=168)
SPEEDS = compose.FuncTransformer(
    lambda x: {f"s{c}": float(np.abs(np.diff(x["window"][:, c])).mean()) for c in range(2)}
)
LINEAR = LeastSquaresClassifier(ridge=1.0)
PIPELINES = {
    "hidden": MINIROCKET | HiddenLayer(50) | LINEAR.clone(),
    "a river classifier after a function": SPEEDS | naive_bayes.GaussianNB(),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_learn_one_reading_at_a_time(name):
    rows, labels = shaken(400)
    one, many = (WindowedClassifier(PIPELINES[name].clone(), window=16, hop=4) for _ in range(2))
    right = []
    for x, y in zip(rows, labels, strict=True):
        right.append(one.predict_one(x) == y)
        one.learn_one(x, y)
    assert np.mean(right[200:]) > 0.75
    many.learn_many(rows, labels)
    assert one.n_windows == many.n_windows == 97
    assert one.predict_many(rows[:40]) == many.predict_many(rows[:40])
    assert one.predict_many(rows[:40]).count(None) == 0


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_answers_in_kind(kind):
    rows, labels = shaken(60)
    model = fitted(linear(1.0, window=4, hop=1), rows[:40], labels[:40])
    of_frames = fitted(linear(1.0, window=4, hop=1), kind(rows[:40]), labels[:40])
    for each in (model, of_frames):
        each.restart()
    answers = model.predict_many(rows[40:])
    assert (answers[:3], model.predict_proba_many(rows[40:43])) == ([None] * 3, [{}] * 3)
    # Channels are found by name.
    frame = kind(rows[40:])[["ay", "ax"]]
    found, table = of_frames.predict_many(frame), of_frames.predict_proba_many(frame)
    assert [y if isinstance(y, str) else None for y in found] == answers
    assert type(table) is kind
    assert (np.asarray(table)[:3] == 0.0).all()
    np.testing.assert_allclose(np.asarray(table)[3:].sum(axis=1), 1.0)


@pytest.mark.parametrize(("rate", "n_windows"), [(None, 19), (2.0, 19), (3.0, 28)])
def test_times_in_kind(rate, n_windows):
    rows, labels = shaken(40)
    seconds = [0.5 * k for k in range(40)]
    dates = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=t) for t in seconds]
    of_numpy = [np.datetime64(date.replace(tzinfo=None)) for date in dates]
    numbers, *timed = [
        [x | {"t": t} for x, t in zip(rows, times, strict=True)]
        for times in (seconds, dates, of_numpy)
    ]
    weights = []
    for batch in (numbers, *timed, pd.DataFrame(timed[0]), pl.DataFrame(timed[0])):
        model = linear(1.0, window=4, hop=2, timestamp="t", sample_rate=rate)
        model.learn_many(batch[:33], labels[:33])
        model.learn_many(batch[33:], labels[33:])
        weights.append(model.classifier.output_weights)
        assert model.n_windows == n_windows
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
    for k, (x, y) in enumerate(zip(*shaken(100), strict=True)):
        plain.learn_one(x, y)
        timed.learn_one(x | {"t": 1.7e9 + 0.02 * k}, y)
        assert timed.n_windows == plain.n_windows
    found, expected = timed.classifier.output_weights, plain.classifier.output_weights
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_restart_and_gaps_start_afresh():
    model, timed = linear(window=8, hop=1), linear(window=8, hop=1, timestamp="t", sample_rate=1.0)
    for k, (x, y) in enumerate(zip(*shaken(24), strict=True)):
        if k == 10:
            model.restart()
        model.learn_one(x, y)
        timed.learn_one(x | {"t": k + 4.5 * (k >= 10)}, y)
    assert model.n_windows == timed.n_windows == 3 + 7
    np.testing.assert_allclose(model.classifier.output_weights, timed.classifier.output_weights)


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


def learnt(**settings):
    model = linear(1.0, window=3, hop=1, **settings)
    for k in range(6):
        time = {"t": float(k)} if "timestamp" in settings else {}
        model.learn_one({"ax": k % 2, "ay": 1.0} | time, k % 2)
    return model


TIMED = {"timestamp": "t"}
RATED = {"timestamp": "t", "sample_rate": 1.0}
GOOD = {"ax": 1.0, "ay": 2.0}


BAD_READINGS = [
    ({}, GOOD | {"ay": float("nan")}, r"\['ay'\] is nan"),
    ({}, GOOD | {"ay": None}, r"\['ay'\] is None"),
    ({}, GOOD | {"ay": "high"}, "'high'"),
    ({}, GOOD | {"ay": np.ones(2)}, "A reading holds an array"),
    ({}, {"ax": 1.0}, "lacks the channel 'ay'.*last value"),
    ({}, {}, "lacks the channel 'ax'"),
    (TIMED, {"t": 6.0}, "lacks the channel 'ax'"),
    ({}, GOOD | {"az": 1.0}, "new channel 'az', expected exactly"),
    ({}, [1.0, 2.0], "expected a dict"),
    (TIMED, GOOD, "x has no 't'"),
    (TIMED, GOOD | {"t": 7.0}, r"2 s after .* expected 1 s .* Pass sample_rate"),
    (TIMED, GOOD | {"t": 5.0}, "'t' is 5.0, expected a later time than"),
    (RATED, GOOD | {"t": 5.0}, r"'t' is 5.0, expected a later.*Leave out"),
    (RATED, GOOD | {"t": 4.5}, "'t' is 4.5, expected a later time than"),
    (RATED, GOOD | {"t": float("nan")}, "'t' holds nan, expected finite times"),
    (RATED, GOOD | {"t": None}, "'t' is None of type NoneType"),
    (RATED, GOOD | {"t": "12:00"}, "'12:00' of type str, expected only seconds"),
    (RATED, GOOD | {"t": True}, "'t' is True of type bool"),
    (RATED, GOOD | {"t": datetime(2020, 1, 1)}, "are dates, expected numbers"),
]


@pytest.mark.parametrize(("settings", "x", "message"), BAD_READINGS)
def test_bad_readings_change_nothing(settings, x, message):
    model, errors = learnt(**settings), (TypeError, ValueError)
    model.predict_one(GOOD | ({"t": 6.0} if settings else {}))
    assert_refused(lambda: model.learn_one(x, 0), model, message, errors)
    for act in (
        lambda: model.observe_one(x),
        lambda: model.predict_one(x),
        lambda: model.predict_proba_one(x),
        lambda: model.learn_many([x, GOOD], [0, 1]),
    ):
        assert_refused(act, model, None, errors)


NO_CHANNELS, NO_TIME = "A reading has no channels, expected a number", r"[xX] has no 't'"


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        *((batch, NO_CHANNELS) for batch in ([{"t": 1.0}] * 2, pd.DataFrame({"t": [1.0, 2.0]}))),
        *((batch, NO_TIME) for batch in (np.ones((2, 2)), pd.DataFrame({"ax": [1.0, 2.0]}))),
        ([{"ax": 1.0, "t": 0.0}, [1.0, 2.0]], r"X\[1\] is of type list, expected a dict"),
    ],
)
def test_readings_need_channels_and_their_times(batch, message):
    model = linear(window=2, hop=1, timestamp="t")
    call = lambda: model.learn_many(batch, [0, 1])  # noqa: E731
    assert_refused(call, model, message, (TypeError, ValueError))


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
    for stream, settings, error, message in (
        ([], {}, ValueError, "0 readings fill no window of 64"),
        ([({"ax": 1.0}, 0)], {"window": 0}, ValueError, "window=0"),
        ([([1.0, 2.0], 0)], {}, TypeError, "expected a dict"),
        ([({"ax": 1.0}, [])], {}, TypeError, "label"),
        ([({"ax": "high"}, 0)], {}, TypeError, "'high'"),
        ([{"ax": 1.0}], {}, TypeError, r"yields {'ax': 1.0}, expected pairs .*zip"),
    ):
        with pytest.raises(error, match=message):
            windows_of(stream, **settings)


test_bad_settings = settings_refused(
    lambda **settings: WindowedClassifier(**{"classifier": LeastSquaresClassifier()} | settings),
    [
        ({"classifier": HiddenLayer()}, TypeError, "classifier is of type HiddenLayer"),
        ({"window": 0}, ValueError, "window=0"),
        ({"hop": 1.5}, TypeError, "hop=1.5"),
        ({"label_rule": "first"}, ValueError, "label_rule='first'"),
        ({"sample_rate": 50.0}, ValueError, "needs the times of readings. Pass timestamp"),
        ({"timestamp": "t", "sample_rate": 0.0}, ValueError, "sample_rate=0.0"),
        ({"largest_gap": 0.5}, ValueError, "at least 1 sampling period"),
        ({"largest_gap": "long"}, TypeError, "largest_gap='long'"),
    ],
)
