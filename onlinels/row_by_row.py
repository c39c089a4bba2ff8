"""Learning and answering one row at a time at little more than the cost of the arithmetic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import copysign
from typing import Any

from river import base

from onlinels.accumulators.base import Accumulator
from onlinels.checks import Floats
from onlinels.gathering import LONGEST, MOST_ROWS, Gathered, RowReader, Waiting, reader_of
from onlinels.numerics import Lock
from onlinels.rows import Columns, Layout


class RowByRow(base.Estimator, ABC):
    """Statistics of rows, some of which may still wait for company.

    Samples whose names are those of the one before are read without detours. Rows learnt in a
    row, without a look between them, are gathered, and enter the statistics together: one product
    of matrices in place of many of vectors. Nobody sees the difference but by rounding: whatever
    looks at `_statistics`, or sets another ridge, lets them in first, and no row is gathered that
    could be refused then. Whoever looks may change the model so far: the first of several threads
    lets the rows in, and the others wait for it.

    Parameters
    ----------
    statistics : Accumulator
        Empty ones.
    """

    half_life: Any
    _columns: Columns
    _solved: Any

    def __init__(self, statistics: Accumulator) -> None:
        self._sums = statistics
        self._gathered: Waiting | None = None
        self._layout: Layout | None = None
        self._ridge: Any = None
        self._harmless_square = 0.0
        self._reader: RowReader | None = None
        self._lock = Lock()

    @property
    def ridge(self) -> Any:
        """The setting of the ridge."""
        return self._ridge

    @ridge.setter
    def ridge(self, ridge: Any) -> None:
        """Set another ridge, from now on."""
        if type(ridge) is not type(self._ridge) or ridge != self._ridge:
            with self._lock:
                # Rows learnt so far were learnt under the setting of then.
                self._take_in()
                self._look_closely()
                self._ridge = ridge

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            # A copy begins with a closer look, and so does this model: both go on bit for bit.
            self._take_in()
            self._reader, self._layout, self._gathered = None, None, None
            return vars(self) | {"_gathered": None}

    @property
    def _statistics(self) -> Accumulator:
        """What all rows learnt add up to, those that were gathered included."""
        self._take_in()
        return self._sums

    @property
    @abstractmethod
    def _is_settled(self) -> bool:
        """Whether a ridge that statistics hold inside is the one of the setting."""

    @abstractmethod
    def _let_in(self, waiting: Waiting) -> None:
        """Let the first rows that wait, of known features and targets, in: by one commit."""

    def _take_in(self) -> None:
        """Let all rows that wait in; of those that an interrupt leaves none is lost or counted."""
        if self._gathered:
            with self._lock:
                while waiting := self._gathered:
                    n_rows = len(waiting)
                    try:
                        self._let_in(waiting)
                    except Exception:
                        # A signal's handler may have looked, and let them in, meanwhile.
                        if waiting is self._gathered and len(waiting) == n_rows > 0:
                            raise

    def _gather(self, x: Any, target: Any) -> bool:
        """Gather a row with a target that is read; tell whether it could be."""
        reader = self._reader
        if reader is None or not reader.is_complete or self.half_life is not None:
            return False
        row = reader.read(x, self._harmless_square)
        if row is None:
            return False
        gathered = self._gathered
        if not isinstance(gathered, Gathered) or not gathered.has_room(len(row)):
            self._take_in()
            gathered = Gathered(len(row))
        self._solved = None
        gathered.add(row, target)
        # A signal's handler may have made a copy in between, or asked for a solution.
        self._gathered, self._solved = gathered, None
        return True

    def _known_row(self, x: Mapping[Any, Any]) -> Floats | None:
        """Return a sample as the model's columns, or None if it needs a closer look."""
        return None if self._reader is None else self._reader.read(x)

    def _remember_names(self, layout: Layout) -> None:
        """Take note of the names of a sample: if they come again, they may for long."""
        if layout != self._layout:
            self._reader, self._layout = None, layout
        elif self._reader is None and self._is_settled:
            length = self._statistics.harmless_length(float(MOST_ROWS))
            # Of a negative length not even a row of zeros is harmless.
            self._harmless_square = copysign(min(LONGEST, length) ** 2, length)
            self._reader = reader_of(self._columns, layout)

    def _look_closely(self) -> None:
        """Read the next sample with all checks: columns, means or a ridge inside have changed."""
        self._reader = None
