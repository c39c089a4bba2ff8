"""From readings at their times to evenly spaced samples: as they come, checked, or resampled."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Any, Protocol

import numpy as np

from onlinels.arrays import Floats
from onlinels.memory import check_room
from onlinels.names import Name
from onlinels.settings import check_positive

REGULAR = 0.1
"""Share of the first spacing by which later ones may differ from it without a sample rate."""

OF_GAP = "Lower largest_gap, or sample_rate."

EARLY = 1e-3
"""Share of a sampling period by which a reading before a sample's time counts as at that time.

Times in seconds since 1970 are rounded to 2.4e-7 seconds.
"""


@dataclass(frozen=True, eq=False)
class Position:
    """The last reading of a stream, and where the samples stand.

    Parameters
    ----------
    time : float
        Time of the reading, in seconds.
    values : ndarray (n_channels,)
        The reading.
    start : float
        Time of sample 0.
    reached : int
        Number of the last sample.
    spacing : float, optional
        Seconds between the first two readings.
    """

    time: float
    values: Floats
    start: float
    reached: int = 0
    spacing: float | None = None


@dataclass(frozen=True, eq=False)
class Step:
    """What a reading brings.

    Parameters
    ----------
    position : Position, optional
        Where the stream stands after it.
    samples : ndarray (n_samples, n_channels)
        The samples that it completes, none to several.
    afresh : bool
        Whether no window may reach back over it.
    """

    position: Position | None
    samples: Floats
    afresh: bool = False


class Spacing(Protocol):
    """What turns readings into evenly spaced samples, one by one and without state."""

    def follow(self, position: Position | None, time: float | None, values: Floats) -> Step:
        """Return what a reading brings after a position, None at the start of a stream."""


@dataclass(frozen=True)
class Even:
    """Every reading is a sample.

    Examples
    --------
    >>> Even().follow(None, None, np.array([1.0, 2.0])).samples
    array([[1., 2.]])
    """

    def follow(self, position: Position | None, time: float | None, values: Floats) -> Step:
        """Return the reading as a sample."""
        return Step(None, values[None])


@dataclass(frozen=True)
class Regular:
    """Every reading is a sample, and times must be a tenth of their spacing from even at most.

    Parameters
    ----------
    name : hashable
        What the time is called in errors.

    Examples
    --------
    >>> first = Regular("t").follow(None, 0.0, np.array([1.0])).position
    >>> Regular("t").follow(first, 0.5, np.array([2.0])).position.spacing
    0.5
    """

    name: Name

    def follow(self, position: Position | None, time: float | None, values: Floats) -> Step:
        """Return the reading as a sample, or raise ValueError if it comes at no regular time."""
        now = float(time or 0.0)
        if position is None:
            return Step(Position(now, values, now), values[None])
        passed = _passed(self.name, position, now)
        spacing = position.spacing or passed
        if abs(passed - spacing) > REGULAR * spacing:
            raise ValueError(
                f"{self.name!r} is {now!r}, {passed:g} s after the reading before, expected "
                f"{spacing:g} s as between the first two, up to a tenth. Pass sample_rate (for "
                f"instance {1.0 / spacing:g}) and readings are resampled to it, or call restart() "
                "after a pause."
            )
        return Step(Position(now, values, position.start, spacing=spacing), values[None])


@dataclass(frozen=True)
class Resampled:
    """Samples on a grid of times, each between two readings on the straight line between them.

    Sample k lies at the time s + k / rate, s the time of the first reading, and after a gap that of
    the reading behind it.

    Parameters
    ----------
    name : hashable
        What the time is called in errors.
    rate : float
        Samples a second.
    largest_gap : float
        Sampling periods between two readings over which values are still drawn in.

    Examples
    --------
    >>> grid = Resampled("t", rate=2.0, largest_gap=4.0)
    >>> first = grid.follow(None, 0.0, np.array([0.0])).position
    >>> grid.follow(first, 1.25, np.array([5.0])).samples
    array([[2.],
           [4.]])
    """

    name: Name
    rate: float
    largest_gap: float

    def follow(self, position: Position | None, time: float | None, values: Floats) -> Step:
        """Return the samples since the reading before, which may be none."""
        now = float(time or 0.0)
        if position is None:
            return Step(Position(now, values, now), values[None])
        passed = _passed(self.name, position, now)
        if passed * self.rate > self.largest_gap * (1.0 + EARLY):
            return Step(Position(now, values, now), values[None], afresh=True)
        reached = max(position.reached, floor((now - position.start) * self.rate + EARLY))
        n_bytes = 8 * (reached - position.reached) * (2 + len(values))
        check_room(n_bytes, "A gap of {:,} samples", reached - position.reached, remedy=OF_GAP)
        times = position.start + np.arange(position.reached + 1, reached + 1) / self.rate
        share = np.clip((times - position.time) / passed, 0.0, 1.0)[:, None]
        # Both ends are weighed, so that a sample at a reading's time is that reading, exactly.
        samples = (1.0 - share) * position.values + share * values
        return Step(Position(now, values, position.start, reached), samples)


def _passed(name: Name, position: Position, now: float) -> float:
    """Return the time since the reading before, or raise ValueError if it is not above 0."""
    if now <= position.time:
        before = "as" if now == position.time else "before"
        raise ValueError(
            f"{name!r} is {now!r}, {before} that of the reading before, expected a time after "
            f"{position.time!r}. Leave out readings that repeat or come late, or call restart() "
            "where another recording begins."
        )
    return now - position.time


def make_spacing(timestamp: Any, sample_rate: Any, largest_gap: Any) -> Spacing:
    """Return the spacing of these settings; see `onlinels.WindowedClassifier`.

    Raises
    ------
    TypeError, ValueError
        If the rate is no number above 0 or comes without the name of the times, or the gap is no
        number of at least 1.
    """
    check_positive("largest_gap", largest_gap)
    if largest_gap < 1.0:
        raise ValueError(
            f"largest_gap={largest_gap!r} must be at least 1 sampling period. Pass a larger number."
        )
    if sample_rate is None:
        return Even() if timestamp is None else Regular(timestamp)
    check_positive("sample_rate", sample_rate)
    if timestamp is None:
        raise ValueError(
            f"sample_rate={sample_rate!r} needs the times of readings. Pass timestamp, the name "
            "under which they come, or leave sample_rate out if readings are evenly spaced."
        )
    return Resampled(timestamp, float(sample_rate), float(largest_gap))
