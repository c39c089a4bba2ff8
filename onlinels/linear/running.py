"""Single rows: a fast reader of known names, and a recursion that learns beside the sums."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np

from onlinels.checks import Floats, Integers
from onlinels.numerics import Calls, State
from onlinels.rows.batch import Layout, RowReader
from onlinels.saving import savable
from onlinels.sums.recursion import Recursion
from onlinels.sums.solve import are_few
from onlinels.sums.statistics import Statistics

RENEWAL_ROWS, RENEWAL_ROWS_PER_FEATURE = 1024, 16
"""A recursion is replaced at multiples of 1,024 rows, or of 16 rows per feature.

Learning never amplifies the errors of an inverse relative to the sums: the errors only add up.
"""

MAX_DROPPED_SHARE = 1e-12
"""Sum of squares, relative to the ridge, of a feature that counts as constant, for a recursion."""

MAX_ROWS_BETWEEN_PREDICTIONS, FEATURES_PER_ROW_BETWEEN = 4, 16
"""A recursion learns rows only while every 4 rows, or features / 16, have a prediction."""


@savable()
@final
@dataclass(eq=False)
class RunningSolution:
    """A recursion that learns rows beside the sums, and the count of rows at the last prediction.

    The recursion is a cache; the sums are the truth. The recursion can replace a solution of the
    sums up to a given count of rows, and learns rows only while predictions keep coming.

    Parameters
    ----------
    predicted_at : int
        Count of rows at the last prediction.
    recursion : Recursion, optional
        None if solving is as fast, or rounding errors are too large: then predictions compute the
        weights from the sums.
    trust : float
        Smallest eigenvalue of the system scaled to unit diagonal, or its estimate, divided by 1e-3,
        at most 1. Below 1, the first prediction after a row refines the recursion by the sums.
    valid_until : int
        Count of rows up to which the recursion can replace a solution of the sums.
    """

    predicted_at: int
    recursion: Recursion | None = None
    trust: float = 1.0
    valid_until: int = 0

    @classmethod
    def after_solving(
        cls,
        before: RunningSolution | None,
        statistics: Statistics,
        weights: Floats,
        ridge: float,
        penalties: float | Floats,
    ) -> RunningSolution:
        """Return the running solution after a prediction for which the sums were solved.

        It has a recursion if predictions keep coming and solving takes longer than learning a row.
        """
        count, n_features = statistics.count, statistics.n_features
        new, found = cls(count), None
        if before is None or not before.is_in_use(count, n_features) or are_few(count, n_features):
            return new
        # The first row with a weight is learnt as a batch, which a recursion cannot learn.
        if not (statistics.weight and statistics.products.allows_running_solution):
            return new
        if (statistics.dropped > MAX_DROPPED_SHARE * np.asarray(penalties)).any():
            # The inverse would know of squares that the weights leave out.
            return new
        with suppress(MemoryError):  # Without a recursion, the next solution takes longer.
            full = np.array(np.broadcast_to(penalties, n_features))
            found = statistics.products.recursion_of(weights, ridge, full)
        if found is not None:
            new.recursion, new.trust = found
            per_feature = RENEWAL_ROWS_PER_FEATURE << max(0, n_features - 1).bit_length()
            step = max(RENEWAL_ROWS, per_feature)
            new.valid_until = (count // step + 1) * step
        return new

    def is_in_use(self, count: int, n_features: int) -> bool:
        """Return whether few enough rows came between the last prediction and a count of rows."""
        most = max(MAX_ROWS_BETWEEN_PREDICTIONS, n_features // FEATURES_PER_ROW_BETWEEN)
        return count - self.predicted_at <= most

    def for_prediction(self, statistics: Statistics, count: int) -> Recursion | None:
        """Return the recursion, refined if necessary; None if it cannot replace a solution.

        Stores the count of rows, because the recursion learns rows only while predictions keep
        coming.
        """
        recursion = self.recursion
        if recursion is None or count >= self.valid_until:
            return None
        if count != self.predicted_at:
            if self.trust < 1.0 and not self.refine(statistics, recursion):
                return None
            self.predicted_at = count
        return recursion

    def refine(self, statistics: Statistics, recursion: Recursion) -> bool:
        """Refine a recursion by the sums and store it; drop it if rounding errors prevail.

        The trust falls as features become more collinear, and never rises.
        """
        trust = min(self.trust, statistics.products.refine(recursion))
        vars(self).update(trust=trust or 1.0, recursion=recursion if trust else None)
        return trust > 0.0

    def plan_row(
        self,
        statistics: Statistics,
        count: int,
        sample: Floats,
        w: float,
        decay: float,
        is_restored: bool,
    ) -> tuple[Calls, State]:
        """Plan that the sums of `count` rows and the recursion learn a row.

        If the recursion cannot learn the row, or its ridge `is_restored` to c with this row, the
        plan drops the recursion, and the sums still learn the row.
        """
        recursion = self.recursion
        if recursion is None:
            return statistics.plan_row(sample, w, decay)
        is_in_use = count == self.predicted_at or self.is_in_use(count + 1, statistics.n_features)
        if is_in_use and not is_restored:
            # Not `suppress`, which takes as long as the whole condition.
            try:
                return statistics.plan_row(sample, w, decay, recursion)
            except ValueError:
                pass
        calls, state = statistics.plan_row(sample, w, decay)
        return calls, (*state, (self, "recursion", None))

    def changed(self, change: Callable[[Recursion], Recursion]) -> RunningSolution:
        """Return a copy with another recursion, if there is one."""
        return replace(self, recursion=self.recursion and change(self.recursion))


class KnownRows(NamedTuple):
    """A reader of samples whose names came before, and the count of rows up to which it is valid.

    Attributes
    ----------
    layout : Layout
        Names of the last sample that the reader could not read.
    reader : RowReader or None
        Reader of samples with these names; None until the names come twice in a row.
    next_due : int
        Count of rows at which a choice is due.
    constants : tuple of ndarray, or None
        Features that have not varied so far, and their values. A row with other values is not
        known.
    """

    layout: Layout
    reader: RowReader | None = None
    next_due: int = 0
    constants: tuple[Integers, Floats] | None = None

    def read(self, x: Any, targets: bytes, count: int) -> Floats | None:
        """Return the sample after `count` rows, or None if the row needs the slow path.

        That is so for new names, at a selection of the ridge, or if a feature begins to vary.
        """
        # Measured: unpacking takes a quarter of the time of reading the fields by name.
        _, reader, next_due, constants = self
        if reader is None or not reader.is_complete or count + 1 >= next_due:
            return None
        sample = reader.read(x, targets)
        if constants is not None and sample is not None:
            places, values = constants
            if (sample[places] != values).any():
                return None
        return sample
