"""Times in every form that libraries have, to the last digit: weights of exact differences."""

import json
import pickle
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import partial
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from river import metrics

import onlinels
from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    WindowedClassifier,
    progressive_val_score,
)
from onlinels.rows.times import read_times
from onlinels.windowed import windows_of
from support import laws, models, version_3
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


def by_batch(model, times, rows=slice(None)):
    some = rows_of(len(times))[rows]
    model.learn_many(some, [1.0] * len(some), t=times[rows])
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
    other = by_batch(model.empty(), times, slice(len(times) // 2, None))
    return other.merge(by_batch(model, times, slice(len(times) // 2)))


def loaded(model, times):
    model = by_batch(model, times, slice(3))
    model = pickle.loads(pickle.dumps(onlinels.loads(onlinels.dumps(model))))
    return by_batch(model, times, slice(3, None))


def evaluated(model, times):
    data = rows_of(len(times)), [1.0] * len(times)
    progressive_val_score(data, model, metrics.MAE(), t=times, delay=1)
    return model


WAYS = by_batch, by_row, before_learning, merged, loaded, evaluated


def as_dates(unit):
    return lambda counts: np.array(counts, f"datetime64[{unit}]")


NUMBERS = {
    "int": list,
    "int64": np.array,
    "tuple of int64": lambda counts: tuple(np.array(counts)),
    "pandas Int64": lambda counts: pd.Series(counts, dtype="Int64"),
    "polars Int64": pl.Series,
    "arrow int64": pa.array,
    "int beyond int64": lambda counts: [count + 10**30 for count in counts],
    "Fraction": lambda counts: [Fraction(count) + Fraction(1, 3) for count in counts],
    "long double": lambda counts: np.array(counts, np.longdouble),
    "ints and a Decimal": lambda counts: [*counts[:-1], Decimal(counts[-1])],
}
"""How times are made of counts."""


def in_zone(zone):
    return lambda dates: [date.replace(tzinfo=UTC).astimezone(zone) for date in dates.tolist()]


def in_year(year):
    return lambda dates: [date.replace(year=year) for date in dates.tolist()]


def in_berlin(dates):
    return pd.Series(pd.DatetimeIndex(dates, tz="UTC").tz_convert("Europe/Berlin"))


DATES = {
    "datetime": ("us", np.ndarray.tolist),
    "aware": ("us", in_zone(UTC)),
    "at an offset": ("us", in_zone(timezone(timedelta(hours=-3, minutes=30)))),
    "in a zone": ("us", in_zone(ZoneInfo("Europe/Berlin"))),
    # Years with more nanoseconds than int64.
    **{f"year {year}": ("us", in_year(year)) for year in (2, 1677, 2263, 9998)},
    **{unit: (unit, np.asarray) for unit in ("as", "ps", "ns", "us", "s", "25s", "h")},
    "list of datetime64": ("ns", list),
    "DatetimeIndex": ("ns", pd.DatetimeIndex),
    "DatetimeIndex in us": ("us", pd.DatetimeIndex),
    "Series with a zone": ("ns", in_berlin),
    "list of Timestamp": ("ns", lambda dates: [*in_berlin(dates)]),
    "list of Timestamp in s": ("s", lambda dates: [*pd.DatetimeIndex(dates)]),
    "Series of arrow": (
        "ns",
        lambda dates: in_berlin(dates).astype("timestamp[ns, UTC][pyarrow]"),
    ),
    "polars": ("ns", pl.Series),
    "polars with a zone": ("ns", lambda dates: pl.Series(dates).dt.replace_time_zone("Asia/Tokyo")),
    "polars in ms": ("ms", pl.Series),
    "arrow": ("ns", pa.array),
    "arrow with a zone": ("ns", lambda dates: pa.array(dates, pa.timestamp("ns", "UTC"))),
    "polars dates": ("D", pl.Series),
    "arrow dates": ("D", pa.array),
    "dates": ("D", np.ndarray.tolist),
}
"""Units, and how dates are made of numpy's."""


def all_ways(forms, several):
    """Return names of forms with ways to learn: two for each, and all others for several."""
    pairs = [(name, way) for name in forms for way in WAYS[:2]]
    return [*pairs, *((name, way) for name in several for way in WAYS[2:])]


def named(part):
    return getattr(part, "__name__", part)


@pytest.mark.parametrize(("name", "way"), all_ways(NUMBERS, ["int"]), ids=named)
def test_the_weights_are_those_of_exact_differences_of_numbers(name, way):
    model = way(regressor(4), NUMBERS[name]([MOMENT + step for step in STEPS]))
    np.testing.assert_allclose(weights_of(model, len(STEPS)), decayed(STEPS, 4), rtol=2e-13)


@pytest.mark.parametrize(("name", "way"), all_ways(DATES, ["ns", "polars", "arrow"]), ids=named)
def test_the_weights_are_those_of_exact_differences_of_dates(name, way):
    unit, form = DATES[name]
    first = MOMENT // max(1, np.timedelta64(1, unit) // np.timedelta64(1, "ns"))
    dates = as_dates(unit)([first + step for step in STEPS])
    model = way(regressor(4 * np.timedelta64(1, unit)), form(dates))
    np.testing.assert_allclose(weights_of(model, len(STEPS)), decayed(STEPS, 4), rtol=2e-13)


@examples(40)
@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=8),
    st.integers(-(10**20), 10**20),
    st.fractions(Fraction(1, 1000), 1000),
    st.floats(1.0, 1e6),
    st.sampled_from(WAYS[:5]),
)
@example([0, 1], MOMENT, Fraction(1, 10**9), 2.0, by_row)
def test_neither_the_origin_nor_the_unit_of_numbers_matters(steps, origin, unit, part, way):
    half_life = float(unit) * max(1.0, max(steps) / 9.0, part)
    steps = steps + [max(steps)] * 3
    times = [origin + step * Fraction(unit) for step in steps]
    model = way(regressor(half_life), times)
    expected = decayed([step * Fraction(unit) for step in steps], half_life)
    np.testing.assert_allclose(weights_of(model, len(steps)), expected, rtol=2e-13)


@pytest.mark.parametrize("ridge", [1.0, "auto"])
@pytest.mark.parametrize("accumulator", ["gram", "recursive"])
def test_a_model_of_late_dates_is_that_of_small_numbers(accumulator, ridge):
    """Also where the ridge decays, and where it is selected as time passes."""
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 2))
    y, steps = X[:, 0] + random.normal(size=50), np.cumsum(random.integers(0, 4, 50))
    dates = as_dates("ns")(MOMENT + steps)
    half_lives = [5.0, *[np.timedelta64(5, "ns")] * 3]
    small, late, before, singly = (
        LeastSquaresRegressor(ridge, accumulator, half_life=each) for each in half_lives
    )
    small.learn_many(X, y, t=steps)
    late.learn_many(X, y, t=dates)
    before.predict_learn_many(X, y, t=dates)
    laws.fitted_by_row(singly, [dict(enumerate(row)) for row in X], y, np.ones(50), dates)
    for model in (late, before, singly):
        assert model.ridge_ == pytest.approx(small.ridge_, rel=1e-6)
        np.testing.assert_allclose(model.ridge_diagonal, small.ridge_diagonal, rtol=1e-6)
        np.testing.assert_allclose(model.output_weights, small.output_weights, atol=1e-8)


SINGLE = "datetime", "aware", "at an offset", "in a zone", "list of datetime64", "dates"
SINGLE += "list of Timestamp", "list of Timestamp in s"


@examples(100)
@given(st.datetimes(datetime(1680, 1, 3), datetime(2260, 12, 29)), st.sampled_from(SINGLE))
@example(datetime(1, 1, 3), "aware")
@example(datetime(9999, 12, 29, 23, 59, 59, 999999), "datetime")
def test_single_rows_are_learnt_at_exact_dates(date, name):
    unit, form = DATES[name]
    [date] = form(as_dates(unit)([date]) + 7)
    model = LeastSquaresRegressor(1.0, half_life=timedelta(days=100_000))
    model.learn_one({"a": 1.0}, 1.0, t=datetime(1, 1, 1))
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
    for each in (model, model.clone(), onlinels.loads(onlinels.dumps(model))):
        assert type(each.half_life) is type(same)
        assert each.half_life == same


test_bad_half_lives = laws.settings_refused(
    LeastSquaresClassifier,
    [
        ({"half_life": np.timedelta64(1, "Y")}, ValueError, "no fixed length"),
        ({"half_life": np.timedelta64(0, "ns")}, ValueError, "positive"),
        ({"half_life": pd.Timedelta(-1, "ns")}, ValueError, "positive"),
        ({"half_life": np.timedelta64("NaT", "ns")}, TypeError, "half_life=.*NaT"),
        ({"half_life": pd.NaT}, TypeError, "half_life=NaT"),
    ],
)

STEPS_IN_NS = np.array(STEPS, "timedelta64[ns]")


@pytest.mark.parametrize(
    ("half_life", "t", "error", "message"),
    [
        (1.0, STEPS_IN_NS, TypeError, "t holds .*, expected numbers"),
        (1.0, pd.Series(pd.to_timedelta(STEPS, unit="D")), TypeError, "expected numbers"),
        (1.0, as_dates("ns")(STEPS), TypeError, "expected numbers"),
        (1.0, date(2026, 1, 1), TypeError, "expected numbers"),
        (1.0, "noon", TypeError, "'noon'"),
        (1.0, True, TypeError, "True"),
        (1.0, [None] * 7, ValueError, "t holds None, expected finite times"),
        (1.0, [1.0] * 6 + [np.nan], ValueError, "t holds nan"),
        (1.0, np.inf, ValueError, "t holds inf"),
        (1.0, np.ma.masked, ValueError, "t holds masked times"),
        (1.0, np.ma.array([1.0] * 7, mask=[True] * 7), ValueError, "t holds masked times"),
        (1.0, Decimal("sNaN"), ValueError, "t holds sNaN, expected finite times"),
        (1.0, [10**5000] * 7, ValueError, r"t holds a number beyond float64"),
        (1.0, pd.Series([1, None] * 3 + [1], dtype="Int64"), ValueError, "t holds (<NA>|nan)"),
        (timedelta(1), STEPS_IN_NS, TypeError, "expected dates"),
        (timedelta(1), MOMENT, TypeError, "expected dates"),
        (timedelta(1), None, ValueError, "t is None, expected dates"),
        (timedelta(1), [None] * 7, ValueError, "t holds None, expected finite times"),
        (timedelta(1), pd.NaT, ValueError, "t holds NaT"),
        (timedelta(1), np.array(["NaT"] * 7, "datetime64[ns]"), ValueError, "t holds NaT"),
        (timedelta(1), np.datetime64("NaT", "s"), ValueError, "t holds NaT"),
        (timedelta(1), pl.Series([datetime(2026, 1, 1)] * 6 + [None]), ValueError, "t holds NaT"),
        (timedelta(1), pd.Series([pd.NaT] * 7), ValueError, "t holds NaT"),
        (timedelta(1), np.datetime64(10**18, "Y"), ValueError, "beyond all days"),
        *((half_life, [1.0, 2.0], ValueError, "t has shape") for half_life in (None, 1.0)),
    ],
)
def test_bad_times_in_every_way(half_life, t, error, message):
    first = {timedelta(1): datetime(2026, 1, 1)}.get(half_life, 0.0)
    for model in (regressor(half_life), by_batch(regressor(half_life), [first])):
        for learn in (model.learn_many, model.predict_learn_many):
            call = partial(learn, rows_of(7), [1.0] * 7, t=t)
            laws.assert_refused(call, model, message, error)


# What passes times on


PASSING = {
    "calibrated": lambda **decay: CalibratedClassifier(LeastSquaresClassifier(1.0, **decay)),
    "drift": lambda **decay: DriftAwareClassifier(LeastSquaresClassifier(1.0, **decay)),
    "network": partial(models.digits_network, 5, image_shape=(8, 8)),
    "network that holds images": partial(models.digits_network, 30, image_shape=(8, 8)),
}


@pytest.mark.parametrize("kind", PASSING)
@pytest.mark.parametrize("form", [np.array, list, pl.Series, pa.array], ids=named)
def test_what_holds_a_model_passes_times_on_to_the_last_digit(kind, form):
    random, counts = np.random.default_rng(0), np.arange(20)
    X, y, weights = random.random((20, 64)), random.integers(0, 2, 20).tolist(), []
    for half_life, make, times in (
        (4.0, np.array, counts),
        (np.timedelta64(4, "ns"), form, as_dates("ns")(MOMENT + counts)),
    ):
        model = PASSING[kind](half_life=half_life)
        model.learn_many(X[:12], y[:12], t=make(times[:12]))
        model = onlinels.loads(onlinels.dumps(model))
        model.predict_learn_many(X[12:], y[12:], t=make(times[12:]))
        model.learn_many(X, y, t=times[-1])
        weights.append(model.classifier.output_weights)
    np.testing.assert_allclose(*weights, rtol=1e-12)


def windowed(**settings):
    return WindowedClassifier(
        LeastSquaresClassifier(1.0), window=3, hop=1, timestamp="t", **settings
    )


FRAMES = {
    "pandas": lambda times, v: pd.DataFrame({"t": times, "v": v}),
    "polars": lambda times, v: pl.DataFrame({"t": times, "v": v}),
    "arrow": lambda times, v: pa.table({"t": times, "v": v}),
    "rows": lambda times, v: [{"t": t, "v": each} for t, each in zip(times, v, strict=True)],
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("dtype", ["int64", "datetime64[ns]", "datetime64[us]"])
def test_times_of_readings_are_regular_to_the_last_digit(frame, dtype):
    values, labels = np.arange(12.0) % 5, [k // 4 % 2 for k in range(12)]
    times = as_dates("ns")([MOMENT // 1000 * 1000 + 2000 * k for k in range(12)]).astype(dtype)
    expected = WindowedClassifier(LeastSquaresClassifier(1.0), window=3, hop=1)
    expected.learn_many([{"v": v} for v in values], labels)
    data, models = FRAMES[frame](times, values), [windowed() for _ in range(3)]
    laws.fitted_by_row(models[0], FRAMES["rows"](times, values), labels)
    models[1].learn_many(data, labels)
    progressive_val_score((data, labels), models[2], metrics.Accuracy())
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
    regular = {"sample_rate": 1e9 / period, "largest_gap": 1e3}
    expected = np.interp(np.arange(0, ticks[-1] + 1, 100), ticks, values)
    times = [np.datetime64(MOMENT + unit * tick, "ns") for tick in ticks]
    pairs = [({"t": t, "v": v}, 0) for t, v in zip(times, values, strict=True)]
    found, _ = windows_of(pairs, window=1, hop=1, timestamp="t", **regular)
    np.testing.assert_allclose(found.ravel(), expected, rtol=0.0, atol=1e-9)
    # The same readings in a recording that has gone on for very long.
    model = laws.fitted_by_row(windowed(**regular), *zip(*pairs[:1], strict=True))
    state, far = model._state, onlinels.loads(onlinels.dumps(model))
    far._state = type(state)(**{**vars(state), "start": state.start - gone * period})
    for each in (model, far):
        laws.fitted_by_row(each, *zip(*pairs[1:], strict=True))
    np.testing.assert_allclose(far._state.values, model._state.values, rtol=0.0, atol=1e-9)
    assert len(far._state.labels) == len(model._state.labels)


# Files of older versions: dates in seconds since 1970, and the last time of numbers as a float


def state_in(said, kind):
    """Return the state of the first object of a kind in a description."""
    nodes = (within(said, path) for path in places(said))
    return next(n["state"] for n in nodes if isinstance(n, dict) and n.get("object") == kind)


def older(model, path, kind, names, change):
    """Return a model that is read from a file of an older version, changed where times are."""
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


def number_in(time):
    """Return an exact time of numbers as older versions wrote it."""
    return float(Fraction(*time["fraction"]) if isinstance(time, dict) else time)


def seconds_in(time):
    """Return an exact time of dates as older versions wrote it: in seconds."""
    return number_in(time) / 1e9


OLD_DATES = as_dates("us")([MOMENT // 1000 + 37_000 * k for k in range(90)]).tolist()


@pytest.mark.parametrize(
    ("half_life", "t", "written"),
    [(20.0, range(90), number_in), (timedelta(seconds=1), OLD_DATES, seconds_in)],
    ids=["numbers", "dates"],
)
def test_files_of_older_versions_go_on(tmp_path, half_life, t, written):
    X = np.random.default_rng(0).normal(size=(90, 2))
    model = LeastSquaresRegressor("auto", half_life=half_life)
    model.learn_many(X[:60], X[:60].sum(axis=1), t=t[:60])
    again = older(model, tmp_path / "model.npz", "Clock", ["now"], written)
    again = older(again, tmp_path / "model.npz", "Penalty", ["until_time"], written)
    for each in (model, again):
        each.learn_many(X[60:], X[60:].sum(axis=1), t=t[60:])
    assert again.ridge_ == model.ridge_
    laws.assert_same_model(again, model)


def test_windows_and_images_of_older_versions_go_on(tmp_path):
    pairs = [({"t": t, "v": float(k % 7)}, k // 9 % 2) for k, t in enumerate(OLD_DATES[:40])]
    model = laws.fitted_by_row(windowed(sample_rate=50.0), *zip(*pairs[:20], strict=True))
    again = older(model, tmp_path / "w.npz", "StreamState", ["time", "start"], seconds_in)
    for each in (model, again):
        laws.fitted_by_row(each, *zip(*pairs[20:], strict=True))
    laws.assert_same_model(again.classifier, model.classifier)
    model = ShallowConvClassifier.from_preset("digits", half_life=timedelta(seconds=1))
    model.learn_one(np.eye(8), 1, t=datetime(2026, 5, 4, 3, 2, 1, 234567))
    said = {"datetime": "2026-05-04T03:02:01.234567"}
    again = older(model, tmp_path / "n.npz", "Example", ["time"], lambda time: said)
    assert again._stage.stored[0].time == model._stage.stored[0].time == 1_777_863_721_234_567_000


@pytest.mark.parametrize("start", ["1970-01-01T00:00:01", "1970-01-01T00:00:00.000000000125"])
def test_dates_close_to_1970_are_not_read_as_those_of_older_versions(start):
    """Floats hold these nanoseconds. The file holds whole ones."""
    first, year = np.datetime64(start, "ns"), np.timedelta64(365, "D")
    X, models = np.random.default_rng(0).normal(size=(90, 2)), []
    for begin in (first, first + year):
        model = LeastSquaresRegressor("auto", half_life=timedelta(seconds=1))
        t = begin + np.arange(90) * np.timedelta64(10**9 + 1, "ns")
        model.learn_many(X[:60], X[:60, 0], t=t[:60])
        said = json.loads(members_of(onlinels.dumps(model))[DESCRIPTION])
        assert state_in(said, "Clock")["now"] == int(t[59].astype(np.int64))
        models.append(onlinels.loads(onlinels.dumps(model)))
        models[-1].learn_many(X[60:], X[60:, 0], t=t[60:])
    assert models[0].ridge_ == models[1].ridge_
    np.testing.assert_array_equal(models[0].output_weights, models[1].output_weights)
    window = laws.fitted_by_row(windowed(sample_rate=50.0), [{"t": first, "v": 1.0}], [1])
    assert onlinels.loads(onlinels.dumps(window))._state.time == window._state.time


FORGED = [float("nan"), float("inf"), 10**400, "noon", True, {"fraction": ["1e9", 1]}]


@pytest.mark.parametrize("now", [*FORGED, {"fraction": [1, 0]}, {"tuple": []}], ids=repr)
@pytest.mark.parametrize(
    ("half_life", "t"), [(5.0, 1.5), (timedelta(seconds=1), datetime(2026, 5, 4))], ids=str
)
def test_forged_times_are_refused(tmp_path, half_life, t, now):
    model = LeastSquaresRegressor("auto", half_life=half_life)
    model.learn_many(np.eye(2), [1.0, 2.0], t=t)
    for kind, name in (("Clock", "now"), ("Penalty", "until_time")):
        with pytest.raises(ValueError, match="cannot be read as a saved model"):
            older(model, tmp_path / "m.npz", kind, [name], lambda node: now)
