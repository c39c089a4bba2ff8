"""Forgetting: the weights of the past and of every row of a batch after the batch is learnt."""

from __future__ import annotations

import reprlib
from datetime import timedelta
from math import ceil, isfinite
from typing import Any

import numpy as np
from scipy.linalg.blas import dtbsv

from onlinels.checks import Floats, by_row, check_number, ignoring, refusal, warn_caller
from onlinels.core.constants import (
    HALF_LIFE,
    LOW,
    LOW_PART,
    MAX_HALF_LIVES,
    MAX_TIME,
    N_HANDS,
    NOW,
    TIMED,
    UNTIL,
)
from onlinels.rows.times import (
    FACTORS,
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
    nanoseconds_of,
    rational,
    read_duration,
    read_times,
    since,
    times_of,
)
from onlinels.saving import savable
from onlinels.saving.description import SavedState

HalfLife = float | timedelta | np.timedelta64 | None


def _clock_of(state: SavedState) -> Clock:
    now, timed, is_steady = state["now"], state["timed"], state.get("is_steady", True)
    if not (type(timed) is type(is_steady) is bool and (now is not None or not timed)):
        raise ValueError(f"a clock at {now!r} has timed={timed!r}, is_steady={is_steady!r}")
    made = Clock(**state | {"now": None, "timed": False})
    now = from_seconds(now, made.counts_dates)
    if now is not None and (made.half_life is None or not is_time(now)):
        raise ValueError(f"a clock has the time {now!r}")
    return made.at(now, timed)


@savable(make=_clock_of)
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
        row with this kind of decay.
    timed : bool
        Whether any row had a timestamp.
    is_steady : bool
        Whether what is left of the weight of every row follows from its age: rows were not faded,
        nor learnt with another decay.

    Attributes
    ----------
    counts_dates : bool
        Whether timestamps are dates.
    hands : ndarray (N_HANDS,), or None
        The time that `now` and `timed` tell, which `onlinels.core` moves with single rows: see
        `onlinels.core.constants`. None without a half-life.

    Notes
    -----
    The hands belong to one clock: `tick`, `joined` and `copied` return clocks with hands of their
    own, unless there is no half-life.

    Examples
    --------
    >>> clock, past, w = Clock(forgetting_factor=0.5).tick(1.0, n_rows=3)
    >>> past, w
    (0.125, array([0.25, 0.5 , 1.  ]))
    >>> clock = Clock(half_life=10.0, now=100.0)
    >>> clock.tick(1.0, 1, np.array([110.0]))[1:], clock.tick(1.0, 1, np.array([90.0]))[1:]
    ((0.5, array([1.])), (1.0, array([0.5])))
    """

    def __init__(
        self,
        forgetting_factor: float = 1.0,
        half_life: HalfLife = None,
        now: Time | None = None,
        timed: bool = False,
        is_steady: bool = True,
    ) -> None:
        self.is_steady = is_steady
        self.forgetting_factor, self.half_life = forgetting_factor, half_life
        self.counts_dates = isinstance(half_life, Duration)
        self.hands: Floats | None = None
        # A time that the hands cannot tell.
        self._beyond = now
        if half_life is not None:
            self.hands = np.full(N_HANDS, np.nan)
            self.hands[[TIMED, HALF_LIFE]] = timed, self._unit
            parts = (-np.inf, 0.0) if now is None else hands_of(now, self.counts_dates)
            if parts is not None:
                self._beyond, self.hands[NOW : LOW + 1] = None, parts

    def __getstate__(self) -> SavedState:
        own: dict[str, Any] = {"forgetting_factor": self.forgetting_factor}
        own |= {"half_life": self.half_life}
        own |= {"now": self.now, "timed": self.timed}
        return own if self.is_steady else own | {"is_steady": False}

    def __reduce__(self) -> Any:
        return Clock, (*self.__getstate__().values(),)

    def __setstate__(self, state: SavedState) -> None:
        Clock.__init__(self, **state)

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.__getstate__().items())
        return f"Clock({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return type(other) is Clock and self.__getstate__() == other.__getstate__()

    __hash__ = None  # type: ignore[assignment]

    def at(self, now: Time | None, timed: bool) -> Clock:
        """Return a clock of these settings at another time."""
        return Clock(self.forgetting_factor, self.half_life, now, timed, self.is_steady)

    def unsteady(self) -> Clock:
        """Return a clock that tells of no row how much of its weight is left."""
        return Clock(self.forgetting_factor, self.half_life, self.now, self.timed, is_steady=False)

    def copied(self) -> Clock:
        """Return a clock that moves on its own."""
        return self.at(self.now, self.timed)

    @property
    def now(self) -> Time | None:
        """Time of the latest row, exactly, of dates in nanoseconds since 1970; None before it."""
        if self.hands is None:
            return None
        high, low = self.hands[NOW : LOW + 1].tolist()
        if not isfinite(high):
            return self._beyond
        return int(high) + int(low) if self.counts_dates else exact(high)

    @property
    def is_told(self) -> bool:
        """Whether hands tell the time, or there is none so far."""
        return self._beyond is None

    @property
    def timed(self) -> bool:
        """Whether any row had a timestamp."""
        return self.hands is not None and bool(self.hands[TIMED])

    def set_until(self, until: Time | None) -> None:
        """Let `onlinels.core` tell when the time comes at which a choice of the ridge is due."""
        if self.hands is not None:
            parts = None if until is None else hands_of(until, self.counts_dates, above=True)
            self.hands[UNTIL : UNTIL + 2] = parts or (np.inf, 0.0)

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

    def _before(self, times: Times | None) -> Time:
        """Return the time of all earlier rows, given those of the next rows; None counts these.

        What was learnt before there was a time is as old as the first row that has one, and one
        unit older than a first row without.
        """
        if self.now is not None:
            return self.now
        return 0 if times is None else exact(times[0])

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

    def read_one(self, t: Any) -> Any:
        """Return the time of a row as `onlinels.core` takes it, a number of Python.

        NotImplemented, if `read` must read it.
        """
        if self.half_life is None:
            return None
        if isinstance(t, ReadTimes):
            t = t.times.tolist()[0]
            is_known = type(t) is int if self.counts_dates else type(t) in (int, float)
            return t if is_known else NotImplemented
        if self.counts_dates:
            return nanoseconds_of(t)
        if isinstance(t, float):
            return float(t)
        is_whole = type(t) is int or (
            isinstance(t, np.integer) and not isinstance(t, np.timedelta64)
        )
        return int(t) if is_whole else NotImplemented

    def parts(self, times: Times) -> Floats | None:
        """Return times of rows as hands tell them, (n_rows, 2); None if they cannot."""
        found = np.zeros((len(times), 2))
        if not self.counts_dates:
            if times.dtype != np.float64:
                return None
            found[:, 0] = times
            return found
        if times.dtype.kind not in "fi" and {*map(type, times.tolist())} - {int}:
            return None
        if not ((times % 1 == 0) & (abs(times) < MAX_TIME)).all():
            return None
        counts = times.astype(np.int64)
        found[:, 1] = counts % LOW_PART
        found[:, 0] = counts - counts % LOW_PART
        return found

    def parts_in(self, t: Any, n_rows: int) -> tuple[Floats] | None:
        """Return the times in a plain array of numpy, (n_rows,), as `parts` does; None for others.

        Missing times are no times that hands tell.
        """
        if type(t) is not np.ndarray or t.shape != (n_rows,):
            return None
        if not self.counts_dates:
            found = self.parts(t) if t.dtype == np.float64 else None
            return None if found is None else (found,)
        factor: Any = FACTORS.get(t.dtype)
        if factor is None:
            return None
        counts = t.astype(np.int64)
        if not (abs(counts.astype(np.float64)) < MAX_TIME / factor).all():
            return None
        found = self.parts(counts * factor)
        return None if found is None else (found,)

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
        before = self._before(times)
        if times is None:
            times = self._counted(n_rows)
        now = exact(times.max())
        if self.counts_dates:
            # In files, a float is of an older version, in seconds.
            now, before = rational(now), rational(before)
        now = max(now, before)
        past = float(self._decay(elapsed(now, before)))
        return self.at(now, timed), past, w * self._decay(-since(times, now))

    def kept(self, n_rows: int, t: Any, age: Any) -> float | Floats:
        """Return what decay has left of the weights of rows, given their times or their ages.

        Parameters
        ----------
        t, age : optional
            One number or date, or one per row: see `LinearModel.unlearn_many`. Nothing has decayed
            without both, or without forgetting.

        Raises
        ------
        TypeError, ValueError
            If they cannot be read, or do not tell the weights, because the model knows no times, or
            because the rows came with times.

        Examples
        --------
        >>> Clock(forgetting_factor=0.5).kept(2, None, [0, 3])
        array([1.   , 0.125])
        >>> Clock(half_life=10.0, now=100.0, timed=True).kept(1, 80.0, None)
        array([0.25])
        """
        self._check_told(t, age)
        if age is not None:
            ages = ages_of(age, n_rows)
            if self.half_life is None:
                left: Floats = self.forgetting_factor**ages
                return left
            if self.timed or self.counts_dates:
                found = f"is {reprlib.repr(age)}"
                raise refusal("age", found, "None for rows with times", "Pass their times as t.")
            # One unit of time has passed for each row.
            learnt = 0 if self.now is None else self.now
            if ages.max(initial=-1.0) >= learnt:
                expected = f"less than {learnt}, the number of rows learnt"
                remedy = "Pass how many rows were learnt since each row."
                raise refusal("age", f"holds {ages.max():.0f}", expected, remedy)
            return np.broadcast_to(self._decay(ages), n_rows)
        if t is None:
            return 1.0
        if self.half_life is not None:
            return np.broadcast_to(self._kept_since(n_rows, t), n_rows)
        if self.forgets:
            expected = "None, because the weights of rows decay with their number"
            remedy = "Pass as age how many rows were learnt since each row."
            raise refusal("t", f"is {reprlib.repr(t)}", expected, remedy)
        by_row("t", t, n_rows)
        return 1.0

    def _check_told(self, t: Any, age: Any) -> None:
        """Raise ValueError unless times or ages, if there are any, tell what is left of weights."""
        if age is not None and t is not None:
            raise ValueError("t and age are both passed, expected one of the two. Leave one out.")
        if not self.is_steady and not (t is None and age is None):
            argument, found = ("t", t) if age is None else ("age", age)
            expected = "None, because the model was faded, or weights decayed otherwise before"
            remedy = "Pass as w what is left of the weight of every row."
            raise refusal(argument, f"is {reprlib.repr(found)}", expected, remedy)

    def _kept_since(self, n_rows: int, t: Any) -> Any:
        """Return what a half-life has left of the weights of rows, given their times."""
        times = read_times(t, n_rows, self.counts_dates)
        passed = -since(times, 0 if self.now is None else self.now)
        if self.now is None or (passed < 0.0).any():
            row = int((passed < 0.0).argmax())
            found, expected = f"is later than all rows learnt in row {row}", "times of learnt rows"
            raise refusal("t", found, expected, "Remove only rows that were learnt.")
        return self._decay(passed)

    def factors(self, n_rows: int, times: Times | None = None) -> Floats:
        """Return the factor by which each row of a batch multiplies the past, (n_rows,)."""
        if self.half_life is None or not n_rows:
            return np.full(n_rows, self.forgetting_factor)
        before = self._before(times)
        if times is None:
            times = self._counted(n_rows)
        latest = np.maximum.accumulate(times)
        steps = np.append(np.inf, np.diff(latest).astype(np.float64))
        # A late row makes no step, nor does the part of a step that lies before now.
        after = since(latest, before)
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
        if not (self.is_steady and other.is_steady):
            # Neither tells the age of all rows then.
            one, two = self.at(self.now, self.timed), other.at(other.now, other.timed)
            one.is_steady = two.is_steady = True
            clock, *pasts = one.joined(two)
            return clock.unsteady(), pasts[0], pasts[1]
        if self.now is None or other.now is None:
            return (other if self.now is None else self).copied(), 1.0, 1.0
        now: Time = max(self.now, other.now)
        clock = self.at(now, self.timed or other.timed)
        if not clock.timed:
            return clock, 1.0, 1.0
        ages = elapsed(now, self.now), elapsed(now, other.now)
        return clock, float(self._decay(ages[0])), float(self._decay(ages[1]))


def hands_of(time: Time, dates: bool, above: bool = False) -> tuple[float, float] | None:
    """Return the parts of a time as hands tell it; None if these cannot.

    Numbers have one part, a float. Differences of parts are exact, and so those of dates are
    rounded once. If `above` is true, a time that hands cannot tell is the next one that they can.

    Examples
    --------
    >>> from fractions import Fraction
    >>> hands_of(2**60 + 1, dates=True), hands_of(0.5, dates=False)
    ((1.152921504606847e+18, 1.0), (0.5, 0.0))
    >>> hands_of(Fraction(1, 3), dates=False), hands_of(Fraction(1, 3), True, above=True)
    (None, (0.0, 1.0))
    """
    size: Any = abs(time)
    if not size < MAX_TIME:
        return None
    if dates:
        whole = ceil(time) if above else time
        if not isinstance(whole, int):
            return None
        low = whole % LOW_PART
        return float(whole - low), float(low)
    number = float(time)
    if above and number < time:
        number = float(np.nextafter(number, np.inf))
    return (number, 0.0) if above or number == time else None


def ages_of(age: Any, n_rows: int) -> Floats:
    """Return the numbers of rows learnt after each of some rows, (n_rows,)."""
    expected = "whole and at least 0, the number of rows learnt since"
    ages = by_row("age", age, n_rows)
    for each in ages:
        check_number("age", each, lambda rows: rows >= 0.0 and rows % 1.0 == 0.0, expected)
    return np.array(ages, dtype=np.float64)


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
    if isinstance(read, Duration) and not np.isnat(np.timedelta64(read)):
        if isinstance(read, np.timedelta64) and np.datetime_data(read)[0] not in NANOSECONDS:
            raise ValueError(
                f"half_life={half_life!r} has no fixed length, expected weeks or a shorter unit. "
                "Pass a timedelta."
            )
        if nanoseconds_in(read) <= 0:
            raise ValueError(f"half_life={half_life!r} must be positive. Pass a longer duration.")
    else:
        expected = "positive and finite, in units of t, or a timedelta if t are dates"
        check_number("half_life", read, lambda h: 0.0 < h < np.inf, expected)
    if forgetting_factor != 1.0:
        raise ValueError(
            f"forgetting_factor={forgetting_factor!r} and half_life={half_life!r} are both set, "
            "expected at most one of the two. Leave the other at its default."
        )
    return read
