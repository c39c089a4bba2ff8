"""From readings to the windows that are due with them, as a function of where the stream stood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from onlinels.arrays import Floats
from onlinels.batch import Layout, names_of
from onlinels.columns import Columns
from onlinels.labels import Label
from onlinels.windowed.readings import Readings
from onlinels.windowed.sliding import LABEL_RULES, UNLABELLED, Sliding
from onlinels.windowed.spacing import Position, Spacing

Labelled = tuple[Floats, Label]
"""A window (length, n_channels) and its label."""


@dataclass(frozen=True, eq=False)
class ReadingState:
    """Where a stream of readings stands: there is a new one after each reading.

    Parameters
    ----------
    columns : Columns
        The channels.
    position : Position, optional
        The last reading, if readings have times.
    sliding : Sliding, optional
        The window so far.
    dates : bool, optional
        Whether times are dates.
    """

    columns: Columns = field(default_factory=Columns)
    position: Position | None = None
    sliding: Sliding | None = None
    dates: bool | None = None

    def restarted(self) -> ReadingState:
        """Return the state before the first reading of another recording of these channels."""
        return ReadingState(self.columns)

    def latest(self, length: int) -> Floats | None:
        """Return the window (length, n_channels), None if it is not full."""
        full = self.sliding is not None and len(self.sliding.values) == length
        return self.sliding.values if self.sliding is not None and full else None


@dataclass(frozen=True)
class Follower:
    """What cuts windows from readings; it has no state.

    Parameters
    ----------
    window, hop : int
        Samples in a window, and from one that is learnt to the next, at least: a window that is due
        and has no label leaves the one after it due.
    spacing : Spacing
        What makes samples of readings.
    label_rule : str
        A name in LABEL_RULES.

    Examples
    --------
    >>> from onlinels.windowed.readings import read_readings
    >>> from onlinels.windowed.spacing import Even
    >>> readings = read_readings(np.array([[1.0], [2.0], [3.0]]), None)
    >>> steps = Follower(2, 1, Even(), "last").follow(ReadingState(), readings, ["a", "b", "c"])
    >>> [[(window.ravel().tolist(), label) for window, label in due] for _, due in steps]
    [[], [([1.0, 2.0], 'b')], [([2.0, 3.0], 'c')]]
    """

    window: int
    hop: int
    spacing: Spacing
    label_rule: str

    def follow(
        self, state: ReadingState, readings: Readings, labels: Sequence[Label]
    ) -> Iterator[tuple[ReadingState, list[Labelled]]]:
        """Yield the state after each reading, and the labelled windows that are due with it.

        Raises
        ------
        TypeError, ValueError
            If channels differ from before, or a time does not follow the one before.
        """
        state = _of_channels(state, readings)
        values = state.columns.place(readings.layouts, readings.values).astype(np.float64)
        times = [None] * len(values) if readings.times is None else readings.times.tolist()
        for time, sample, label in zip(times, values, labels, strict=True):
            step = self.spacing.follow(state.position, time, sample)
            sliding = state.sliding
            if sliding is None or step.afresh:
                sliding = Sliding.begin(len(sample))
            due = []
            for value in step.samples:
                sliding = sliding.followed_by(value, label, self.window)
                of = self._label(sliding)
                if of is not UNLABELLED:
                    due.append((sliding.values, of))
                    sliding = sliding.learnt()
            state = replace(state, position=step.position, sliding=sliding)
            yield state, due

    def _label(self, sliding: Sliding) -> Label:
        """Return the label of a window that is due now, UNLABELLED if it has none or is not due."""
        if sliding.labels[-1] is UNLABELLED or not sliding.is_due(self.window, self.hop):
            return UNLABELLED
        return LABEL_RULES[self.label_rule](sliding.labels)


def _of_channels(state: ReadingState, readings: Readings) -> ReadingState:
    """Return the state with channels known, or raise if those of the readings are others."""
    if state.dates not in (None, readings.dates):
        was, came = ("dates", "numbers") if state.dates else ("numbers", "dates")
        raise TypeError(f"Times are {came}, expected {was} as before. Convert them, or restart().")
    columns = state.columns if len(state.columns) else Columns().extended(readings.layouts[:1])
    if not len(columns):
        raise ValueError("A reading has no channels, expected a number for each. Leave it out.")
    for layout in readings.layouts:
        _check_channels(columns, layout)
    return replace(state, columns=columns, dates=readings.dates)


def _check_channels(columns: Columns, layout: Layout) -> None:
    located = columns.locate(layout)
    new = [name for name, column in zip(names_of(layout), located, strict=True) if column < 0]
    if new:
        raise ValueError(
            f"A reading has a new channel {new[0]!r}, expected only {list(columns.names)} as in "
            "the first reading. Leave it out, or begin with a new model."
        )
    if len(located) < len(columns):
        missing = columns.names[min(set(range(len(columns))) - set(located.tolist()))]
        raise ValueError(
            f"A reading lacks the channel {missing!r}, expected all of those of the first reading. "
            "Fill it first, for instance with river's preprocessing.StatImputer."
        )
