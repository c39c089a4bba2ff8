"""Times in every form that libraries have, to the last digit: weights of exact differences."""

import json
import pickle
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import metrics

import onlinels
from onlinels import (
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    WindowedClassifier,
    progressive_val_score,
)
from onlinels.rows.times import nanoseconds_of, read_times
from onlinels.windowed import windows_of
from support import laws, version_3
from support.strategies import examples
from support.untrusted_files import DESCRIPTION, members_of, places, rewritten, within
from support.version_4 import in_version_4

MOMENT = 1_777_863_721_123_456_789
"""Nanoseconds from 1970 to a moment in 2026, which no float64 holds."""

STEPS = [0, 3, 7, 7, 5, 12, 11]
"""Times of rows in parts of a half-life of 4, some of them late."""


def rows_of(n):
    """Return rows, each with a feature of its own."""
    return [{f"row {k}": 1.0} for k in range(n)]


def weights_of(model, n):
    """Return the weights of rows: with the target 1 and the ridge 1, output weights w / (w + 1)."""
    found = dict(zip(model.feature_names, model.output_weights.ravel(), strict=True))
    shares = np.array([found[f"row {k}"] for k in range(n)])
    return shares / (1.0 - shares)


def decayed(times, half_life):
    """Return the weights of rows by exact differences."""
    ages = [Fraction(max(times)) - Fraction(time) for time in times]
    return np.array([2.0 ** -float(age / Fraction(half_life)) for age in ages])


def regressor(half_life, accumulator="gram"):
    return LeastSquaresRegressor(1.0, accumulator, fit_intercept=False, half_life=half_life)


def by_batch(model, times):
    model.learn_many(rows_of(len(times)), [1.0] * len(times), t=times)
    return model


def by_row(model, times):
    if isinstance(times, (pl.Series, pa.Array)):
        times = np.asarray(times)  # Their own dates lack nanoseconds, or are no dates of Python.
    for x, time in zip(rows_of(len(times)), times, strict=True):
        model.learn_one(x, 1.0, t=time)
    return model


def before_learning(model, times):
    model.predict_learn_many(rows_of(len(times)), [1.0] * len(times), t=times)
    return model


def merged(model, times):
    other, rows, half = model.empty(), rows_of(len(times)), len(times) // 2
    model.learn_many(rows[:half], [1.0] * half, t=times[:half])
    other.learn_many(rows[half:], [1.0] * (len(times) - half), t=times[half:])
    return other.merge(model)


def loaded(model, times):
    rows = rows_of(len(times))
    model.learn_many(rows[:3], [1.0] * 3, t=times[:3])
    model = pickle.loads(pickle.dumps(onlinels.loads(onlinels.dumps(model))))
    model.learn_many(rows[3:], [1.0] * (len(times) - 3), t=times[3:])
    return model


def evaluated(model, times):
    progressive_val_score(
        (rows_of(len(times)), [1.0] * len(times)), model, metrics.MAE(), t=times, delay=1
    )
    return model


WAYS = by_batch, by_row, before_learning, merged, loaded, evaluated


def as_dates(unit):
    return lambda counts: np.array(counts, f"datetime64[{unit}]")


def as_datetimes(counts):
    return [datetime(1970, 1, 1) + timedelta(microseconds=count) for count in counts]


def in_berlin(counts):
    return pd.Series(pd.DatetimeIndex(as_dates("ns")(counts), tz="UTC").tz_convert("Europe/Berlin"))


FORMS = {
    "int": (1, list),
    "int64": (1, np.array),
    "tuple of int64": (1, lambda counts: tuple(np.array(counts))),
    "pandas Int64": (1, lambda counts: pd.Series(counts, dtype="Int64")),
    "polars Int64": (1, pl.Series),
    "arrow int64": (1, pa.array),
    "int beyond int64": (1, lambda counts: [count + 10**30 for count in counts]),
    "Fraction": (1, lambda counts: [Fraction(count) + Fraction(1, 3) for count in counts]),
    "Decimal": (Fraction(1, 10**9), lambda counts: [Decimal(count) / 10**9 for count in counts]),
    "long double": (1, lambda counts: np.array(counts, np.longdouble)),
    "ints and a Decimal": (1, lambda counts: [*counts[:-1], Decimal(counts[-1])]),
    "datetime": (1000, as_datetimes),
    "aware": (1000, lambda counts: [d.replace(tzinfo=UTC) for d in as_datetimes(counts)]),
    "at an offset": (
        1000,
        lambda counts: [
            d.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=5, minutes=30)))
            for d in as_datetimes(counts)
        ],
    ),
    "datetime64[us]": (1000, as_dates("us")),
    "datetime64[ns]": (1, as_dates("ns")),
    "datetime64[ps]": (Fraction(1, 1000), as_dates("ps")),
    "datetime64[as]": (Fraction(1, 10**9), as_dates("as")),
    "datetime64[s]": (10**9, as_dates("s")),
    "datetime64[25s]": (25 * 10**9, as_dates("25s")),
    "datetime64[h]": (3600 * 10**9, as_dates("h")),
    "list of datetime64": (1, lambda counts: [*as_dates("ns")(counts)]),
    "DatetimeIndex": (1, lambda counts: pd.DatetimeIndex(as_dates("ns")(counts))),
    "DatetimeIndex in us": (1000, lambda counts: pd.DatetimeIndex(as_dates("us")(counts))),
    "Series with a zone": (1, in_berlin),
    "list of Timestamp": (1, lambda counts: [*in_berlin(counts)]),
    "Series of arrow": (1, lambda counts: in_berlin(counts).astype("timestamp[ns, UTC][pyarrow]")),
    "polars": (1, lambda counts: pl.Series(as_dates("ns")(counts))),
    "polars with a zone": (
        1,
        lambda counts: pl.Series(as_dates("ns")(counts)).dt.replace_time_zone("Asia/Tokyo"),
    ),
    "polars in ms": (10**6, lambda counts: pl.Series(as_dates("ms")(counts))),
    "arrow": (1, lambda counts: pa.array(as_dates("ns")(counts))),
    "arrow with a zone": (1, lambda counts: pa.array(counts, pa.timestamp("ns", "UTC"))),
    "polars dates": (86_400 * 10**9, lambda counts: pl.Series(as_dates("D")(counts))),
    "arrow dates": (86_400 * 10**9, lambda counts: pa.array(as_dates("D")(counts))),
    "dates": (86_400 * 10**9, lambda counts: as_dates("D")(counts).tolist()),
}
"""Nanoseconds in a unit, and how times are made of counts of units."""

NUMBERS = [name for name in FORMS if "int" in name.lower() or name in ("Fraction", "long double")]


PAIRS = [(name, way) for name in FORMS for way in WAYS[:2]]
PAIRS += [(name, way) for name in ("int", "datetime64[ns]", "polars", "arrow") for way in WAYS[2:]]


@pytest.mark.parametrize(("name", "way"), PAIRS, ids=lambda part: getattr(part, "__name__", part))
def test_the_weights_are_those_of_exact_differences(name, way):
    unit, form = FORMS[name]
    # The epoch of attoseconds lasts nine seconds.
    first = MOMENT // int(max(unit, 1)) if unit >= Fraction(1, 1000) else 8 * 10**18 + 1
    if name == "Decimal":
        first, half_life = MOMENT, 4e-9
    elif name in NUMBERS:
        half_life = 4
    elif unit >= 1000:
        half_life = timedelta(microseconds=4 * unit // 1000)
    else:
        half_life = np.timedelta64(int(4 * unit * 10**9), "as")
    times = form([first + step for step in STEPS])
    model = way(regressor(half_life), times)
    expected = decayed(STEPS, 4)
    np.testing.assert_allclose(weights_of(model, len(STEPS)), expected, rtol=2e-13)


@examples(40)
@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=8),
    st.integers(-(10**20), 10**20),
    st.fractions(Fraction(1, 1000), 1000),
    st.floats(1.0, 1e6),
    st.sampled_from(WAYS[:5]),
)
def test_neither_the_origin_nor_the_unit_of_numbers_matters(steps, origin, unit, part, way):
    half_life = float(unit) * max(1.0, max(steps) / 9.0, part)
    steps += [max(steps)] * 3
    times = [origin + step * Fraction(unit) for step in steps]
    model = way(regressor(half_life), times)
    expected = decayed([step * Fraction(unit) for step in steps], half_life)
    np.testing.assert_allclose(weights_of(model, len(steps)), expected, rtol=2e-13)


@examples(40)
@given(
    st.lists(st.integers(0, 10**6), min_size=3, max_size=8),
    st.integers(1, 9998),
    st.sampled_from(["us", "ms", "s", "m", "h"]),
    st.sampled_from(WAYS[:5]),
)
def test_dates_of_any_year(steps, year, unit, way):
    """Those before 1678 and after 2262 have more nanoseconds than int64."""
    half_life = max(max(steps), 9) / 9.0 * np.timedelta64(1, unit) / np.timedelta64(1, "us")
    half_life = timedelta(microseconds=half_life)
    first = np.datetime64(datetime(year, 3, 1, 2, 3, 4, 567891), "us")
    steps = [step if unit != "h" else step % 5000 for step in steps]
    times = first + np.array(steps) * np.timedelta64(1, unit).astype("timedelta64[us]")
    model = way(regressor(half_life), times.tolist())
    expected = decayed(times.astype(np.int64).tolist(), half_life / timedelta(microseconds=1))
    np.testing.assert_allclose(weights_of(model, len(steps)), expected, rtol=2e-13)


@pytest.mark.parametrize("ridge", [1.0, "auto"])
@pytest.mark.parametrize("accumulator", ["gram", "recursive"])
def test_a_model_of_late_dates_is_that_of_small_numbers(accumulator, ridge):
    """Also where the ridge decays, and where it is selected as time passes."""
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 2))
    y, steps = X[:, 0] + random.normal(size=50), np.cumsum(random.integers(0, 4, 50))
    half_life = np.timedelta64(5, "ns")
    models = [LeastSquaresRegressor(ridge, accumulator, half_life=5.0) for _ in range(2)]
    models += [LeastSquaresRegressor(ridge, accumulator, half_life=half_life) for _ in range(3)]
    dates = as_dates("ns")(MOMENT + steps)
    models[0].learn_many(X, y, t=steps)
    models[1].predict_learn_many(X, y, t=MOMENT + steps)
    models[2].learn_many(X, y, t=dates)
    models[3].predict_learn_many(X, y, t=dates)
    for row, target, time in zip(X, y, dates, strict=True):
        models[4].learn_one(dict(enumerate(row)), target, t=time)
    for model in models[1:]:
        assert model.ridge_ == pytest.approx(models[0].ridge_, rel=1e-6)
        for name in ("output_weights", "ridge_diagonal"):
            expected = getattr(models[0], name)
            np.testing.assert_allclose(getattr(model, name), expected, rtol=1e-6, atol=1e-9)


ZONES = [None, UTC, timezone(timedelta(hours=-3, minutes=30)), ZoneInfo("Europe/Berlin")]


@given(
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), allow_imaginary=False),
    st.sampled_from(ZONES),
    st.integers(0, 999),
)
def test_one_date_is_read_fast_as_among_others(date, zone, nanoseconds):
    date = date.replace(tzinfo=zone)
    assert nanoseconds_of(date) == read_times([date], 1, dates=True)[0]
    if 1680 < date.year < 2260:
        moment = pd.Timestamp(date) + pd.Timedelta(nanoseconds, "ns")
        for each in (moment, moment.to_datetime64(), moment.as_unit("us"), moment.as_unit("s")):
            assert nanoseconds_of(each) == read_times([each], 1, dates=True)[0]
    for each in (
        date.date(),
        np.datetime64("NaT", "ns"),
        pd.NaT,
        1.0,
        None,
        np.datetime64(1, "ps"),
    ):
        assert nanoseconds_of(each) is NotImplemented


@given(
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), allow_imaginary=False),
    st.sampled_from(ZONES),
    st.sampled_from([UTC, None]),
)
def test_single_rows_are_learnt_at_exact_dates(date, zone, zone_before):
    date = date.replace(tzinfo=zone)
    model = LeastSquaresRegressor(1.0, half_life=timedelta(days=100_000))
    model.learn_one({"a": 1.0}, 1.0, t=datetime(1, 1, 1, tzinfo=zone_before))
    model.learn_one({"a": 2.0}, 2.0, t=date)
    assert model._state.clock.now == read_times([date], 1, dates=True)[0]


@pytest.mark.parametrize("bad", ["NaT", "2262-04-11T23:47:16.854775807"])
def test_an_array_of_dates_is_learnt_or_refused_as_a_list(bad):
    """Also where a missing date, or one that hands cannot tell, stands among others."""
    half_life, X = timedelta(seconds=9), np.random.default_rng(0).normal(size=(30, 2))
    dates = as_dates("ns")([MOMENT + 10**9 * k for k in range(30)])
    dates[7] = np.datetime64(bad, "ns")
    array, listed = (LeastSquaresRegressor(1.0, half_life=half_life) for _ in range(2))
    for model, t in ((array, dates), (listed, [*dates])):
        model.learn_many(X, X[:, 0], t=dates[8])
        with pytest.raises(ValueError, match="NaT") if bad == "NaT" else nullcontext():
            model.learn_many(X, X[:, 0], t=t)
    assert array._state.clock == listed._state.clock
    laws.assert_same_model(array, listed)


def test_times_as_far_apart_as_can_be():
    model = by_batch(regressor(1e-300), [-1e150, 1e150])
    assert weights_of(model, 2).tolist() == [0.0, pytest.approx(1.0)]


def test_rows_without_times_let_one_unit_pass_at_any_time():
    model = regressor(4)
    model.learn_one({"row 0": 1.0}, 1.0, t=MOMENT)
    model.learn_many(rows_of(4)[1:], [1.0] * 3)
    np.testing.assert_allclose(weights_of(model, 4), decayed([0, 1, 2, 3], 4), rtol=1e-13)


@pytest.mark.parametrize(
    ("half_life", "same"),
    [
        (pd.Timedelta(hours=3), timedelta(hours=3)),
        (np.timedelta64(3, "h"), timedelta(hours=3)),
        (pd.Timedelta(1500, "ns"), np.timedelta64(1500, "ns")),
        (np.timedelta64(10**9, "W"), np.timedelta64(10**9, "W")),
    ],
)
def test_half_lives_of_numpy_and_pandas(half_life, same):
    model = LeastSquaresClassifier(half_life=half_life)
    assert type(model.half_life) is type(same)
    assert model.half_life == same
    for again in (model.clone(), onlinels.loads(onlinels.dumps(model))):
        assert again.half_life == same
        assert again._state.clock == model._state.clock


@pytest.mark.parametrize(
    ("half_life", "error", "message"),
    [
        (np.timedelta64(1, "Y"), ValueError, "no fixed length"),
        (np.timedelta64(0, "ns"), ValueError, "positive"),
        (pd.Timedelta(-1, "ns"), ValueError, "positive"),
        (np.timedelta64("NaT", "ns"), TypeError, "half_life=.*NaT"),
        (pd.NaT, TypeError, "half_life=NaT"),
    ],
)
def test_bad_half_lives(half_life, error, message):
    with pytest.raises(error, match=message):
        LeastSquaresClassifier(half_life=half_life)


@pytest.mark.parametrize("warm_up", [5, 30])
@pytest.mark.parametrize("form", [list, pd.Series, pl.Series, np.array])
def test_image_networks_keep_the_times_of_images_they_hold(form, warm_up):
    random = np.random.default_rng(0)
    images, labels = random.random((20, 8, 8)), random.integers(0, 2, 20).tolist()
    dates = as_dates("ns")(MOMENT + np.arange(20))
    first, second = form(dates[:12]), form(dates[12:])
    models = []
    parts = (4.0, list(range(12)), list(range(12, 20))), (np.timedelta64(4, "ns"), first, second)
    for half_life, *times in parts:
        model = ShallowConvClassifier.from_preset("digits", warm_up=warm_up, half_life=half_life)
        model.learn_many(images[:12], labels[:12], t=times[0])
        model = onlinels.loads(onlinels.dumps(model))
        model.predict_learn_many(images[12:], labels[12:], t=times[1])
        model.learn_many(images, labels, t=19 if half_life == 4.0 else dates[-1])
        models.append(model)
    np.testing.assert_allclose(models[1].output_weights, models[0].output_weights, rtol=1e-9)
    assert models[1]._stage.classifier._state.clock.now == MOMENT + 19


# Windows


def windowed(**settings):
    return WindowedClassifier(
        LeastSquaresClassifier(1.0), window=3, hop=1, timestamp="t", **settings
    )


@pytest.mark.parametrize("name", [name for name in FORMS if name not in ("arrow dates", "Decimal")])
def test_times_of_readings_are_regular_to_the_last_digit(name):
    unit, form = FORMS[name]
    first = MOMENT // int(max(unit, 1)) if unit >= Fraction(1, 1000) else 8 * 10**18 + 1
    times, values = form([first + 2 * k for k in range(12)]), np.arange(12.0) % 5
    labels = [k // 4 % 2 for k in range(12)]
    expected = WindowedClassifier(LeastSquaresClassifier(1.0), window=3, hop=1)
    expected.learn_many([{"v": v} for v in values], labels)
    models = [windowed() for _ in range(3)]
    rows = [{"t": t, "v": v} for t, v in zip(np.asarray(times).tolist(), values, strict=True)]
    if np.asarray(times).dtype.kind == "M" or name not in NUMBERS:
        rows = [{"t": t, "v": v} for t, v in zip(np.asarray(times), values, strict=True)]
    for x, y in zip(rows, labels, strict=True):
        models[0].learn_one(x, y)
    models[1].learn_many(rows, labels)
    library = {pl.Series: pl.DataFrame, pd.Series: pd.DataFrame, pd.DatetimeIndex: pd.DataFrame}
    frame = library.get(type(times), pa.table if isinstance(times, pa.Array) else None)
    if frame:
        data = frame({"t": times, "v": values})
        models[2].learn_many(data, labels)
        other = windowed()
        progressive_val_score((data, labels), other, metrics.Accuracy())
        models.append(other)
    else:
        models.pop()
    for model in models:
        assert model.n_windows == expected.n_windows == 10
        found = model.classifier.output_weights
        np.testing.assert_allclose(found, expected.classifier.output_weights, atol=1e-12)


@examples(15)
@given(
    st.lists(st.integers(1, 300), min_size=6, max_size=20),
    st.sampled_from([1, 1000]),
    st.sampled_from([0, 10**6, 10**15]),
)
def test_samples_lie_at_their_places_however_far_the_first_reading(steps, unit, gone):
    """Readings some parts of a microsecond apart, a long recording after the first one."""
    ticks = [0, 150, *(150 + np.cumsum(steps)).tolist()]
    values = np.random.default_rng(0).normal(size=len(ticks)).round(3)
    period = 100 * unit
    rate, gap = 1e9 / period, 1e3
    grid = np.arange(0, ticks[-1] + 1, 100)
    expected = np.interp(grid, ticks, values)
    times = [np.datetime64(MOMENT + unit * tick, "ns") for tick in ticks]
    model = windowed(sample_rate=rate, largest_gap=gap)
    pairs = [({"t": t, "v": v}, 0) for t, v in zip(times, values, strict=True)]
    found, _ = windows_of(pairs, window=1, hop=1, timestamp="t", sample_rate=rate, largest_gap=gap)
    np.testing.assert_allclose(found.ravel(), expected, rtol=0.0, atol=1e-9)
    # The same readings in a recording that has gone on for very long.
    model.learn_one(*pairs[0])
    state = model._state
    far = onlinels.loads(onlinels.dumps(model))
    far._state = type(state)(**{**vars(state), "start": state.start - gone * period})
    for x, y in pairs[1:]:
        model.learn_one(x, y)
        far.learn_one(x, y)
    np.testing.assert_allclose(far._state.values, model._state.values, rtol=0.0, atol=1e-9)
    assert len(far._state.labels) == len(model._state.labels)


# Files of older versions: dates in seconds since 1970, and the last time of numbers as a float


def state_in(said, kind):
    """Return the state of the first object of a kind in a description."""
    nodes = (within(said, path) for path in places(said))
    return next(n["state"] for n in nodes if isinstance(n, dict) and n.get("object") == kind)


def older(model, path, kind, names, change):
    model.save(path)

    in_version_4(path)

    def changed(said):
        if kind != "Example":  # Images are stored in a file of format 3 as in one of format 4.
            said = version_3.as_version_3(said) | {"format": 3}
        state = state_in(said, kind)
        state.update({name: change(state[name]) for name in names})
        return said

    rewritten(path, changed)
    return onlinels.load(path)


def seconds_in(time):
    """Return an exact time of dates as older versions wrote it: in seconds."""
    return number_in(time) / 1e9


def number_in(time):
    """Return an exact time of numbers as older versions wrote it."""
    return float(Fraction(*time["fraction"]) if isinstance(time, dict) else time)


@pytest.mark.parametrize("half_life", [timedelta(seconds=1), 20.0], ids=str)
@pytest.mark.parametrize("accumulator", ["gram", "recursive"])
def test_files_of_older_versions_go_on(tmp_path, accumulator, half_life):
    X, change, t = np.random.default_rng(0).normal(size=(90, 2)), number_in, list(range(90))
    if half_life != 20.0:
        change, t = seconds_in, as_datetimes([MOMENT // 1000 + 37_000 * k for k in range(90)])
    model = LeastSquaresRegressor("auto", accumulator, half_life=half_life)
    model.learn_many(X[:60], X[:60].sum(axis=1), t=t[:60])
    path = tmp_path / "model.npz"
    again = older(model, path, "Clock", ["now"], change)
    assert again._state.clock == model._state.clock
    again = older(again, path, "Penalty", ["until_time"], change)
    for each in (model, again):
        each.learn_many(X[60:], X[60:].sum(axis=1), t=t[60:])
    assert again.ridge_ == model.ridge_
    laws.assert_same_model(again, model)


def test_windows_of_older_versions_go_on(tmp_path):
    dates = as_datetimes([MOMENT // 1000 + 37_000 * k for k in range(40)])
    pairs = [({"t": t, "v": float(k % 7)}, k // 9 % 2) for k, t in enumerate(dates)]
    model = windowed(sample_rate=50.0)
    for x, y in pairs[:20]:
        model.learn_one(x, y)
    again = older(model, tmp_path / "w.npz", "StreamState", ["time", "start"], seconds_in)
    assert (again._state.time, again._state.start) == (model._state.time, model._state.start)
    for x, y in pairs[20:]:
        model.learn_one(x, y)
        again.learn_one(x, y)
    laws.assert_same_model(again.classifier, model.classifier)


@pytest.mark.parametrize("start", ["1970-01-01T00:00:01", "1970-01-01T00:00:00.000000000125"])
def test_dates_close_to_1970_are_not_read_as_those_of_older_versions(start):
    """Floats hold these nanoseconds."""
    X, half_life = np.random.default_rng(0).normal(size=(90, 2)), timedelta(seconds=1)
    first = np.datetime64(start)
    step = np.timedelta64(1, np.datetime_data(first.dtype)[0])
    y, t = X.sum(axis=1) + X[:, 0] ** 2, first + np.arange(90) * step
    t += np.arange(90) * np.timedelta64(1, "s")
    early, late = (LeastSquaresRegressor("auto", half_life=half_life) for _ in range(2))
    late.learn_many(X[:60], y[:60], t=t[:60] + np.timedelta64(10**6, "s"))
    early.learn_many(X[:60], y[:60], t=t[:60])
    early = onlinels.loads(onlinels.dumps(early))
    early.learn_many(X[60:], y[60:], t=t[60:])
    late.learn_many(X[60:], y[60:], t=t[60:] + np.timedelta64(10**6, "s"))
    assert early.ridge_ == late.ridge_
    np.testing.assert_array_equal(early.output_weights, late.output_weights)
    window = windowed(sample_rate=50.0)
    window.learn_one({"t": np.datetime64(start), "v": 1.0}, 1)
    assert onlinels.loads(onlinels.dumps(window))._state.time == window._state.time


def test_images_that_older_versions_held_go_on(tmp_path):
    model = ShallowConvClassifier.from_preset("digits", half_life=timedelta(seconds=1))
    image = np.eye(8)
    model.learn_one(image, 1, t=datetime(2026, 5, 4, 3, 2, 1, 234567))
    said = {"datetime": "2026-05-04T03:02:01.234567"}
    again = older(model, tmp_path / "n.npz", "Example", ["time"], lambda time: said)
    assert again._stage.stored[0].time == model._stage.stored[0].time == 1_777_863_721_234_567_000


FORGED = [float("nan"), float("inf"), 10**400, "noon", True, {"fraction": ["1e9", 1]}]


@pytest.mark.parametrize("now", [*FORGED, {"fraction": [1, 0]}, {"tuple": []}], ids=repr)
@pytest.mark.parametrize("half_life", [5.0, timedelta(seconds=1)], ids=str)
def test_forged_times_are_refused(tmp_path, half_life, now):
    t = 1.5 if half_life == 5.0 else datetime(2026, 5, 4)
    model = LeastSquaresRegressor("auto", half_life=half_life)
    model.learn_many(np.eye(2), [1.0, 2.0], t=t)
    for kind, name in (("Clock", "now"), ("Penalty", "until_time")):
        with pytest.raises(ValueError, match="cannot be read as a saved model"):
            older(model, tmp_path / "m.npz", kind, [name], lambda node: now)


@pytest.mark.parametrize(
    ("half_life", "t", "error", "message"),
    [
        (1.0, np.array(STEPS, "timedelta64[ns]"), TypeError, "t holds .*, expected numbers"),
        (timedelta(1), np.array(STEPS, "timedelta64[ns]"), TypeError, "expected dates"),
        (1.0, pd.Series(pd.to_timedelta(STEPS, unit="D")), TypeError, "expected numbers"),
        (1.0, as_dates("ns")(STEPS), TypeError, "expected numbers"),
        (1.0, date(2026, 1, 1), TypeError, "expected numbers"),
        (1.0, [None] * 7, ValueError, "t holds None, expected finite times"),
        (timedelta(1), [None] * 7, ValueError, "t holds None, expected finite times"),
        (1.0, Decimal("sNaN"), ValueError, "t holds sNaN, expected finite times"),
        (1.0, [10**5000] * 7, ValueError, r"t holds a number beyond float64"),
        (1.0, pd.Series([1, None] * 3 + [1], dtype="Int64"), ValueError, "t holds (<NA>|nan)"),
        (timedelta(1), np.array(["NaT"] * 7, "datetime64[ns]"), ValueError, "t holds NaT"),
        (timedelta(1), np.datetime64("NaT", "s"), ValueError, "t holds NaT"),
        (timedelta(1), pl.Series([datetime(2026, 1, 1)] * 6 + [None]), ValueError, "t holds NaT"),
        (timedelta(1), pd.Series([pd.NaT] * 7), ValueError, "t holds NaT"),
        (timedelta(1), MOMENT, TypeError, "expected dates"),
        (timedelta(1), np.datetime64(10**18, "Y"), ValueError, "beyond all days"),
    ],
)
def test_bad_times_in_every_way(half_life, t, error, message):
    model = by_batch(regressor(half_life), [0.0] if half_life == 1.0 else [datetime(2026, 1, 1)])
    for learn in (model.learn_many, model.predict_learn_many):
        laws.assert_refused(lambda: learn(rows_of(7), [1.0] * 7, t=t), model, message, error)  # noqa: B023


def test_the_file_holds_whole_nanoseconds():
    model = by_batch(regressor(timedelta(microseconds=3)), as_datetimes([MOMENT // 1000]))
    said = json.loads(members_of(onlinels.dumps(model))[DESCRIPTION])
    assert state_in(said, "Clock")["now"] == MOMENT // 1000 * 1000


@pytest.mark.parametrize("kind", [onlinels.DriftAwareClassifier, onlinels.CalibratedClassifier])
@pytest.mark.parametrize(
    "form", [np.array, pl.Series, pa.array], ids=["numpy", "polars", "pyarrow"]
)
def test_wrappers_pass_times_on_to_the_last_digit(kind, form):
    rows, labels = [{"a": float(k % 5)} for k in range(7)], [0, 1, 1, 0, 1, 0, 1]
    dates = form(as_dates("ns")([MOMENT + step for step in STEPS]))
    expected = LeastSquaresClassifier(1.0, half_life=4.0)
    expected.learn_many(rows, labels, t=STEPS)
    for learn in ("learn_many", "predict_learn_many"):
        model = kind(LeastSquaresClassifier(1.0, half_life=np.timedelta64(4, "ns")))
        getattr(model, learn)(rows, labels, t=dates)
        found = model.classifier.output_weights
        np.testing.assert_allclose(found, expected.output_weights, rtol=1e-12)


@pytest.mark.parametrize("half_life", [None, 1.0])
@pytest.mark.parametrize("learn", ["learn_many", "predict_learn_many"])
def test_a_wrong_number_of_times_is_refused_whether_they_count_or_not(half_life, learn):
    for model in (regressor(half_life), LeastSquaresClassifier(1.0, half_life=half_life)):
        call = getattr(model, learn)
        laws.assert_refused(lambda: call(rows_of(3), [1, 0, 1], t=[1.0, 2.0]), model, "t has shape")  # noqa: B023
