"""Forgetting: the weights of the past and of every row of a batch after the batch is learnt."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from onlinels.checks import Floats, as_number, check_number, equals_itself, readable, warn_caller
from onlinels.saving import savable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_times(t: Any, n_rows: int, dates: bool) -> Floats:
    """Return the times of rows, (n_rows,): numbers unchanged, dates as seconds since 1970.

    Parameters
    ----------
    t : number, datetime, or array, series or list of n_rows of them
        Times of the rows, or one time for all rows.
    n_rows : int
        Number of rows.
    dates : bool
        Whether dates are expected; dates without a time zone count as UTC.

    Raises
    ------
    TypeError
        If `t` has dates where numbers are expected, or numbers where dates are expected.
    ValueError
        If a time is NaN, infinite or missing, or the number of times is not `n_rows`.

    Examples
    --------
    >>> read_times([3, 4.5], n_rows=2, dates=False)
    array([3. , 4.5])
    >>> read_times(datetime(1970, 1, 2), n_rows=2, dates=True)
    array([86400., 86400.])
    """
    if np.ma.is_masked(t):
        raise ValueError("t holds masked times, expected finite times. Leave out the masked rows.")
    values = np.asarray(readable(t))
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]").astype(object)
    if values.ndim and values.shape != (n_rows,):
        raise ValueError(
            f"t has shape {values.shape}, expected ({n_rows},). Pass one time per row, or one time "
            "for all rows."
        )
    times = np.array([_time(value, dates) for value in values.ravel().tolist()], dtype=np.float64)
    if not np.isfinite(times).all():
        raise ValueError(
            f"t holds {times[~np.isfinite(times)][0]}, expected finite times. Leave out rows "
            "without a time."
        )
    return np.broadcast_to(times, n_rows) if values.ndim == 0 else times


def _time(value: Any, dates: bool) -> float | None:
    """Return a time as a number; a missing date as None."""
    if dates and (value is None or not equals_itself(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, datetime if dates else numbers.Real):
        raise TypeError(
            f"t holds {value!r} of type {type(value).__name__}, expected "
            f"{'datetimes' if dates else 'numbers'} to match half_life. Pass half_life as "
            "a timedelta if times are datetimes, otherwise as a number."
        )
    if not isinstance(value, datetime):
        return as_number(value)
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - EPOCH).total_seconds()


HalfLife = float | timedelta | None

MAX_HALF_LIVES = 40.0
"""Half-lives after which the weight of a row, 1e-12, no longer counts."""


@savable()
@dataclass(frozen=True)
class Clock:
    """The time of a stream, in rows or timestamps, and the decay of weights with time.

    With the forgetting factor f, a row learnt k rows ago has the weight w f^k. With the half-life
    h, a row of time s has the weight w 2^(-(now - s) / h), where now is the latest time learnt. The
    model minimises sum_k w_k d_k ||y_k - W'a_k||^2 + c ||W||^2 with these decays d_k. The ridge c
    does not decay, except with accumulator="recursive": there it decays with the rows, and is reset
    when it falls below c/2.

    A late row, with a timestamp before now, gets the weight that it would have if it had come in
    time, and does not change the clock. So with timestamps the order of rows does not matter (with
    accumulator="recursive", it matters for the ridge).

    Parameters
    ----------
    forgetting_factor : float
        Factor on all earlier weights with every row, above 0 and at most 1.
    half_life : float, timedelta or None
        Time in which weights halve, in units of the timestamps; a timedelta if these are dates.
    now : float or None
        Time of the latest row; None before the first row.
    timed : bool
        Whether any row had a timestamp.

    Examples
    --------
    >>> clock, past, w = Clock(forgetting_factor=0.5).tick(1.0, n_rows=3)
    >>> past, w
    (0.125, array([0.25, 0.5 , 1.  ]))
    >>> clock = Clock(half_life=10.0, now=100.0)
    >>> clock.tick(1.0, 1, np.array([110.0]))[1:], clock.tick(1.0, 1, np.array([90.0]))[1:]
    ((0.5, array([1.])), (1.0, array([0.5])))
    """

    forgetting_factor: float = 1.0
    half_life: HalfLife = None
    now: float | None = None
    timed: bool = False

    @property
    def forgets(self) -> bool:
        """Whether weights decay."""
        return self.half_life is not None or self.forgetting_factor != 1.0

    @property
    def memory(self) -> float:
        """Number of rows in which weights decay to 1/e; infinite without a forgetting factor."""
        return 1.0 / (1.0 - self.forgetting_factor) if self.forgetting_factor != 1.0 else np.inf

    @property
    def lasting(self) -> float:
        """Time in which weights decay to 1/e; there must be a half-life."""
        return float(self._unit / np.log(2.0))

    @property
    def _unit(self) -> float:
        """The half-life in the units of `read_times`."""
        half_life: Any = self.half_life
        return half_life.total_seconds() if isinstance(half_life, timedelta) else half_life

    def latest(self, n_rows: int, times: Floats | None) -> Floats | None:
        """Return the latest time after each of some rows, (n_rows,); None without a half-life."""
        if self.half_life is None:
            return None
        if times is None:
            times = self._counted(n_rows)
        start = -np.inf if self.now is None else self.now
        latest: Floats = np.maximum(np.maximum.accumulate(times), start)
        return latest

    def _counted(self, n_rows: int) -> Floats:
        """Return the times of rows without timestamps."""
        return (self.now or 0.0) + np.arange(1.0, n_rows + 1.0)

    def read(self, t: Any, n_rows: int) -> Floats | None:
        """Return the times of rows as numbers, (n_rows,), or None if rows are counted instead.

        Parameters
        ----------
        t : number, datetime, or array of them (n_rows,), or None
            Times of the rows, ignored without a half-life. None lets one unit pass per row.
        n_rows : int
            Number of rows.

        Raises
        ------
        TypeError, ValueError
            If times cannot be read, or `t` is None and the half-life is a timedelta.
        """
        dates = isinstance(self.half_life, timedelta)
        if dates and t is None:
            raise ValueError(
                f"t is None, expected datetimes, because half_life={self.half_life!r} is a "
                "timedelta. Pass the datetime of every row, or make the model with a number as "
                "half_life."
            )
        if self.half_life is None or t is None:
            return None
        times = read_times(t, n_rows, dates)
        if self.now is not None and len(times):
            self._warn_of_gap((times - self.now) / self._unit)
        return times

    def _warn_of_gap(self, ages: Floats) -> None:
        """Warn of rows so many half-lives after the latest one that these no longer count."""
        earliest, latest = float(ages.min()), float(ages.max())
        if earliest > MAX_HALF_LIVES:
            warn_caller(
                "t is so late that the rows learnt before no longer count.",
                f"It is {latest:,.0f} half-lives after the latest time learnt. Check the unit of t "
                "and of half_life.",
            )
        elif earliest < -MAX_HALF_LIVES:
            warn_caller(
                "t is so early that the row does not count.",
                f"It is {-earliest:,.0f} half-lives before the latest time learnt. Check t, also "
                "that of the rows learnt before.",
            )

    def tick(
        self, w: float | Floats, n_rows: int, times: Floats | None = None
    ) -> tuple[Clock, float, float | Floats]:
        """Return the clock and the weights after a batch of rows.

        Parameters
        ----------
        w : float or ndarray (n_rows,)
            Weights of the rows when they are learnt.
        n_rows : int
            Number of rows, at least 1.
        times : ndarray (n_rows,), optional
            Times of the rows, from `read`.

        Returns
        -------
        clock : Clock
            The clock after the batch.
        past : float
            Factor on the weight of all earlier rows.
        w : float or ndarray (n_rows,)
            Weights of the rows after the batch is learnt.
        """
        factor = self.forgetting_factor
        if self.half_life is None:
            if factor == 1.0 or n_rows == 1:
                return self, factor**n_rows, w
            return self, factor**n_rows, w * factor ** np.arange(n_rows - 1.0, -1.0, -1.0)
        timed = self.timed or times is not None
        if times is None:
            times = self._counted(n_rows)
        latest = float(times.max())
        now = latest if self.now is None else max(self.now, latest)
        past = 1.0 if self.now is None else float(self._decay(now - self.now))
        return replace(self, now=now, timed=timed), past, w * self._decay(now - times)

    def factors(self, n_rows: int, times: Floats | None = None) -> Floats:
        """Return the factor by which each row of a batch multiplies the past, (n_rows,)."""
        latest = self.latest(n_rows, times)
        if latest is None:
            return np.full(n_rows, self.forgetting_factor)
        start = latest[0] if self.now is None else self.now
        factors: Floats = self._decay(np.diff(latest, prepend=start))
        return factors

    def _decay(self, age: Any) -> Any:
        return np.exp2(-age / self._unit)

    def joined(self, other: Clock) -> tuple[Clock, float, float]:
        """Return the clock of merged models, and the factors on the weights of both.

        With timestamps, both models decay to the later time, so the merged model equals one that
        has learnt all rows. Without timestamps, the weights do not change.
        """
        if self.now is None or other.now is None:
            return (other if self.now is None else self), 1.0, 1.0
        now: float = max(self.now, other.now)
        clock = replace(self, now=now, timed=self.timed or other.timed)
        if not clock.timed:
            return clock, 1.0, 1.0
        return clock, float(self._decay(now - self.now)), float(self._decay(now - other.now))


def check_decay(forgetting_factor: Any, half_life: Any) -> None:
    """Raise unless both settings are in their ranges, and at most one makes weights decay.

    Raises
    ------
    TypeError
        If the factor is not a number, or the half-life is not a number, timedelta or None.
    ValueError
        If the factor is not in (0, 1], the half-life is not positive, or both are set.
    """
    expected = "above 0 and at most 1, where 1 forgets nothing"
    check_number("forgetting_factor", forgetting_factor, lambda f: 0.0 < f <= 1.0, expected)
    if half_life is None:
        return
    length = half_life.total_seconds() if isinstance(half_life, timedelta) else half_life
    expected = "positive and finite, in units of t, or a timedelta if t are dates"
    check_number("half_life", length, lambda h: 0.0 < h < np.inf, expected)
    if forgetting_factor != 1.0:
        raise ValueError(
            f"forgetting_factor={forgetting_factor!r} and half_life={half_life!r} are both set, "
            "expected at most one of the two. Leave the other at its default."
        )
