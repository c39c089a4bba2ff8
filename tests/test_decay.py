"""Forgetting factors and half-lives: what the past and every row weigh."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels.linear.forgetting import Clock, check_decay, read_times

factors = st.floats(0.5, 1.0)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), factors)
def test_rows_decay_by_one_step_each_however_they_are_cut(sizes, factor):
    clock, weights = Clock(factor), np.zeros(0)
    for size in sizes:
        tick = clock.tick(1.0, size)
        weights = np.append(weights * tick.past, np.broadcast_to(tick.w, size))
        clock = tick.clock
    np.testing.assert_allclose(weights, factor ** np.arange(sum(sizes) - 1.0, -1.0, -1.0))


@given(st.data(), st.lists(st.floats(-50, 50), min_size=1, max_size=12), st.floats(0.5, 100))
def test_timestamps_weigh_by_age_in_any_order_and_cut(data, times, half_life):
    n_rows = len(times)
    cuts = data.draw(st.lists(st.integers(0, n_rows), max_size=3))
    w = np.arange(1.0, n_rows + 1.0)
    clock, weights = Clock(half_life=half_life), np.zeros(0)
    edges = sorted({0, n_rows, *cuts})
    for start, stop in itertools.pairwise(edges):
        n_rows = stop - start
        tick = clock.tick(w[start:stop], n_rows, clock.read(times[start:stop], n_rows))
        weights = np.append(weights * tick.past, tick.w)
        clock = tick.clock
    age = max(times) - np.array(times)
    np.testing.assert_allclose(weights, w * 2.0 ** (-age / half_life), rtol=1e-9, atol=1e-300)
    assert clock.now == max(times)


def test_without_timestamps_the_half_life_counts_rows():
    tick = Clock(half_life=1.0).tick(1.0, 3)
    assert tick.w.tolist() == [0.25, 0.5, 1.0]
    assert tick.clock.tick(1.0, 1).past == 0.5
    assert tick.clock.now == 3.0


def test_nothing_decays_by_default():
    clock = Clock()
    tick = clock.tick(2.5, 3, clock.read([9.0, 1.0, 5.0], 3))
    assert (tick.clock, tick.past, tick.w) == (clock, 1.0, 2.5)


def test_dates_of_any_kind():
    start = datetime(2026, 3, 1, 12)
    days = [start, start + timedelta(days=1)]
    expected = read_times(days, 2, dates=True)
    for form in (np.array(days, dtype="M8[ns]"), pd.Series(days), pl.Series(days)):
        assert (read_times(form, 2, dates=True) == expected).all()
    aware = [day.replace(tzinfo=UTC) for day in days]
    assert (read_times(aware, 2, dates=True) == expected).all()
    clock = Clock(half_life=timedelta(hours=12))
    tick = clock.tick(1.0, 2, clock.read(days, 2))
    assert tick.w.tolist() == [0.25, 1.0]
    assert read_times(pd.Timestamp(start), 1, dates=True)[0] == expected[0]


def test_merged_clocks_come_to_the_later_time():
    early = Clock(half_life=2.0, now=10.0, timed=True)
    late = Clock(half_life=2.0, now=14.0, timed=True)
    assert early.joined(late) == (late, 0.25, 1.0)
    assert late.joined(early) == (late, 1.0, 0.25)
    assert early.joined(Clock(half_life=2.0)) == (early, 1.0, 1.0)
    assert Clock(half_life=2.0).joined(late) == (late, 1.0, 1.0)
    assert Clock(0.5).joined(Clock(0.5)) == (Clock(0.5), 1.0, 1.0)


@pytest.mark.parametrize(
    ("clock", "n_rows", "t", "error", "message"),
    [
        (Clock(half_life=1.0), 2, [1.0], ValueError, r"t has shape \(1,\)"),
        (Clock(half_life=1.0), 2, [1.0, np.nan], ValueError, "t holds nan"),
        (Clock(half_life=1.0), 1, np.inf, ValueError, "t holds inf"),
        (Clock(half_life=1.0), 1, "noon", TypeError, "'noon'"),
        (Clock(half_life=1.0), 1, True, TypeError, "True"),
        (Clock(half_life=1.0), 1, datetime(2026, 1, 1), TypeError, "expected numbers"),
        (Clock(half_life=timedelta(1)), 1, 5.0, TypeError, "expected datetimes"),
        (Clock(half_life=timedelta(1)), 1, None, ValueError, "t is None"),
        (Clock(half_life=timedelta(1)), 1, pd.NaT, ValueError, "t holds nan"),
    ],
)
def test_bad_times(clock, n_rows, t, error, message):
    with pytest.raises(error, match=message):
        clock.read(t, n_rows)


@pytest.mark.parametrize(
    ("factor", "half_life", "error", "message"),
    [
        (0.0, None, ValueError, "above 0"),
        (1.5, None, ValueError, "at most 1"),
        (float("nan"), None, ValueError, "forgetting_factor=nan"),
        ("slow", None, TypeError, "forgetting_factor='slow'"),
        (True, None, TypeError, "forgetting_factor=True"),
        (1.0, 0.0, ValueError, "half_life=0.0 must be positive"),
        (1.0, timedelta(0), ValueError, "positive"),
        (1.0, float("inf"), ValueError, "finite"),
        (1.0, "week", TypeError, "half_life='week'"),
        (1.0, True, TypeError, "half_life=True"),
        (0.9, 5.0, ValueError, "both set"),
    ],
)
def test_bad_settings(factor, half_life, error, message):
    with pytest.raises(error, match=message):
        check_decay(factor, half_life)
