"""Forgetting: the weights of the past and of every row of a batch after the batch is learnt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
from scipy.linalg.blas import dtbsv

from onlinels.checks import Floats, by_row, check_number, ignoring, warn_caller
from onlinels.rows.times import (
    NANOSECONDS,
    Duration,
    ReadTimes,
    Time,
    Times,
    elapsed,
    exact,
    from_seconds,
    is_time,
    nanoseconds_in,
    rational,
    read_duration,
    read_times,
    since,
    times_of,
)
from onlinels.saving import savable
from onlinels.saving.description import SavedState

HalfLife = float | timedelta | np.timedelta64 | None

MAX_HALF_LIVES = 40.0
"""Half-lives after which the weight of a row, 1e-12, no longer counts."""


def _clock_of(state: SavedState) -> Clock:
    clock = Clock(**state)
    return replace(clock, now=from_seconds(clock.now, clock.counts_dates))


def _clock_fits(clock: Clock) -> bool:
    if clock.now is None:
        return clock.timed is False
    return clock.half_life is not None and type(clock.timed) is bool and is_time(clock.now)


@savable(_clock_fits, make=_clock_of)
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
    half_life : float, timedelta, timedelta64 or None
        Time in which weights halve, in units of the timestamps; a duration if these are dates.
    now : int, float, Fraction or None
        Time of the latest row, exactly, of dates in nanoseconds since 1970; None before the first
        row.
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
    now: Time | None = None
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
    def counts_dates(self) -> bool:
        """Whether timestamps are dates."""
        return isinstance(self.half_life, Duration)

    @property
    def _unit(self) -> float:
        """The half-life in the units of `read_times`."""
        half_life: Any = self.half_life
        return float(nanoseconds_in(half_life) if self.counts_dates else half_life)

    def passed(self, n_rows: int, times: Times | None, origin: Time | None = None) -> Floats | None:
        """Return the time from an origin to the latest time after each of some rows, (n_rows,).

        None without a half-life. The default origin is any time.
        """
        if self.half_life is None or not n_rows:
            return None
        if times is None:
            times = self._counted(n_rows)
        origin = exact(times[0]) if origin is None else origin
        passed = np.maximum.accumulate(since(times, origin))
        earlier = -np.inf if self.now is None else elapsed(self.now, origin)
        latest: Floats = np.maximum(passed, earlier)
        return latest

    def _counted(self, n_rows: int) -> Times:
        """Return the times of rows without timestamps."""
        now: Any = 0 if self.now is None else self.now
        if isinstance(now, float) or abs(now) + n_rows < 2**53:
            return float(now) + np.arange(1.0, n_rows + 1.0)
        return times_of([now + row for row in range(1, n_rows + 1)])

    def read(self, t: Any, n_rows: int) -> Times | None:
        """Return the exact times of rows, (n_rows,), or None if rows are counted instead.

        Parameters
        ----------
        t : number, date, or array of them (n_rows,), or None
            Times of the rows, which only count with a half-life. None lets one unit pass per row.
        n_rows : int
            Number of rows.

        Raises
        ------
        TypeError, ValueError
            If times cannot be read, or `t` is None and the half-life is a timedelta.
        """
        if self.counts_dates and t is None:
            raise ValueError(
                f"t is None, expected dates, because half_life={self.half_life!r} is a duration. "
                "Pass the date of every row, or make the model with a number as half_life."
            )
        if self.half_life is None and t is not None and not isinstance(t, ReadTimes):
            by_row("t", t, n_rows)  # Raises if the number of times is wrong.
        if self.half_life is None or t is None:
            return None
        is_read = isinstance(t, ReadTimes)
        times: Times = t.times if is_read else read_times(t, n_rows, self.counts_dates)
        if self.now is not None and len(times):
            self._warn_of_gap(self._half_lives(since(times, self.now)))
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
        self, w: float | Floats, n_rows: int, times: Times | None = None
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
        now = exact(times.max())
        if self.counts_dates:
            now = rational(now)  # In files, a float is of an older version, in seconds.
        past = 1.0
        if self.now is not None:
            now = max(now, self.now)
            past = float(self._decay(elapsed(now, self.now)))
        return replace(self, now=now, timed=timed), past, w * self._decay(-since(times, now))

    def factors(self, n_rows: int, times: Times | None = None) -> Floats:
        """Return the factor by which each row of a batch multiplies the past, (n_rows,)."""
        if self.half_life is None or not n_rows:
            return np.full(n_rows, self.forgetting_factor)
        if times is None:
            times = self._counted(n_rows)
        latest = np.maximum.accumulate(times)
        steps = np.append(np.inf, np.diff(latest).astype(np.float64))
        # A late row makes no step, nor does the part of a step that lies before now.
        after = since(latest, exact(times[0]) if self.now is None else self.now)
        factors: Floats = self._decay(np.minimum(steps, np.maximum(after, 0.0)))
        return factors

    @ignoring("over")
    def totals(
        self,
        before: tuple[float, float],
        w: float | Floats,
        n_rows: int,
        times: Times | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the sums of weights, and of squared weights, after each row of a batch.

        `before` are the sums before the batch; see `tick` for the other parameters.

        Examples
        --------
        >>> Clock(forgetting_factor=0.5).totals((2.0, 1.0), 1.0, 3)
        (array([2., 2., 2.]), array([1.25    , 1.3125  , 1.328125]))
        """
        own = np.array(np.broadcast_to(np.asarray(w, dtype=np.float64), n_rows))
        if self.half_life is not None:
            times = self._counted(n_rows) if times is None else times
            origin = exact(times[0])
            passed: Any = self.passed(n_rows, times, origin)
            own *= self._decay(passed - since(times, origin))  # Late rows.
        factors = self.factors(n_rows, times)
        squares = running_sums(before[1], own**2, factors**2)
        return running_sums(before[0], own, factors), squares

    def _decay(self, age: Any) -> Any:
        return np.exp2(-self._half_lives(age))

    @ignoring("over")
    def _half_lives(self, age: Any) -> Any:
        return age / np.float64(self._unit)

    def joined(self, other: Clock) -> tuple[Clock, float, float]:
        """Return the clock of merged models, and the factors on the weights of both.

        With timestamps, both models decay to the later time, so the merged model equals one that
        has learnt all rows. Without timestamps, the weights do not change.
        """
        if self.now is None or other.now is None:
            return (other if self.now is None else self), 1.0, 1.0
        now: Time = max(self.now, other.now)
        clock = replace(self, now=now, timed=self.timed or other.timed)
        if not clock.timed:
            return clock, 1.0, 1.0
        ages = elapsed(now, self.now), elapsed(now, other.now)
        return clock, float(self._decay(ages[0])), float(self._decay(ages[1]))


def running_sums(before: float, added: Floats, factors: Floats) -> Floats:
    """Return the sums T_i = f_i T_(i-1) + a_i, given the sum before.

    Examples
    --------
    >>> running_sums(8.0, np.array([1.0, 2.0]), np.array([0.5, 1.0]))
    array([5., 7.])
    """
    # A matrix with ones on its diagonal, and -f_i below it, times T is a.
    band = np.zeros((2, len(added)))
    band[1, :-1] = -factors[1:]
    first = np.append(added[0] + factors[0] * before, added[1:])
    sums: Floats = dtbsv(1, band, first, lower=1, diag=1)
    return sums


def read_decay(forgetting_factor: Any, half_life: Any) -> HalfLife:
    """Return the half-life; raise unless both settings are in their ranges, and at most one is set.

    Raises
    ------
    TypeError
        If the factor is not a number, or the half-life is not a number, a duration or None.
    ValueError
        If the factor is not in (0, 1], the half-life is not positive, or both are set.
    """
    expected = "above 0 and at most 1, where 1 forgets nothing"
    check_number("forgetting_factor", forgetting_factor, lambda f: 0.0 < f <= 1.0, expected)
    if half_life is None:
        return None
    read: HalfLife = read_duration(half_life)
    length: Any = read
    if isinstance(read, timedelta):
        length = nanoseconds_in(read)
    elif isinstance(read, np.timedelta64) and not np.isnat(read):
        unit = np.datetime_data(read.dtype)[0]
        if unit not in NANOSECONDS:
            raise ValueError(
                f"half_life={half_life!r} has no fixed length, expected weeks or a shorter unit. "
                "Pass a timedelta."
            )
        length = nanoseconds_in(read)
    expected = "positive and finite, in units of t, or a timedelta if t are dates"
    check_number("half_life", length, lambda h: 0.0 < h < np.inf, expected)
    if forgetting_factor != 1.0:
        raise ValueError(
            f"forgetting_factor={forgetting_factor!r} and half_life={half_life!r} are both set, "
            "expected at most one of the two. Leave the other at its default."
        )
    return read
