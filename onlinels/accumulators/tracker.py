"""When a solution is tracked row by row, and when it is solved anew."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from onlinels.accumulators.tracking import TrackedSolution
from onlinels.checks import Floats, Matrix
from onlinels.linalg.packed import SymmetricPanels
from onlinels.solve import solve_gram

SMALL_STEP = 16
"""Tracking pays if the rows between two solutions are at most the features divided by this."""

PATIENCE = 3
"""Features divided by this: rows after which nobody seems to ask any more."""

REFRESHED = 64
"""Least number of rows after which the inverse is made anew, so that no error builds up."""


class Tracker:
    """Solve for output weights, from the last solution where that is cheaper.

    People who predict and learn in turns ask for weights after every row. Then k rows cost
    O(k M^2), the solution being tracked; else it is solved anew, and nothing is tracked. Nothing is
    tracked for longer than M rows. It is copied and pickled with the model, so that the copy and
    the original go on alike to the last bit.
    """

    def __init__(self) -> None:
        self._tracked: TrackedSolution | None = None
        self._n_new = 0.0

    @classmethod
    def lost(cls) -> Tracker:
        """Return what knows no last solution, because something else than rows has changed."""
        tracker = cls()
        tracker._n_new = np.inf
        return tracker

    def _taken(self) -> tuple[Tracker, TrackedSolution | None]:
        """Return a tracker to put in this one's place, and the last solution, which this loses.

        So whatever is raised before it is there, no solution of other rows is left.
        """
        # A new one in any case: a signal's handler may have this one solve in between.
        taken, tracked = Tracker(), self._tracked
        taken._n_new, self._tracked = self._n_new, None
        return taken, tracked

    def having_learnt(
        self, block: Floats, targets: Matrix, n_targets: int, w: float | Floats
    ) -> Tracker:
        """Return what follows rows with weights of any one sign; this loses the last solution."""
        tracker, tracked = self._taken()
        tracker._n_new += len(block)
        if tracked is None or tracker._n_new * PATIENCE > block.shape[1] + PATIENCE:
            return tracker
        weights = np.full(len(block), w) if isinstance(w, float) else w
        try:
            tracked.add_targets(n_targets)
            tracked.learn(np.asarray(block, dtype=np.float64), targets, weights)
        except ValueError:
            return tracker
        tracker._tracked = tracked
        return tracker

    def decayed(self, factor: float) -> Tracker:
        """Return what follows a decay of all sums; this loses the last solution."""
        tracker, tracked = self._taken()
        if tracked is not None:
            with suppress(ValueError):
                tracked.decay(factor)
                tracker._tracked = tracked
        return tracker

    def solve(self, gram: SymmetricPanels, cross: Floats, ridge: float, diagonal: Floats) -> Floats:
        """Return the output weights; parameters and result are those of `solve_gram`."""
        small_step = self._n_new <= max(1, len(gram) // SMALL_STEP)
        self._n_new = 0.0
        tracked, self._tracked = self._tracked, None
        if tracked is not None and tracked.n_rows <= max(REFRESHED, len(gram)):
            tracked.add_targets(cross.shape[1])
            weights = tracked.solve(gram, cross, ridge, diagonal)
            if weights is not None:
                self._tracked = tracked
                return weights
        weights = solve_gram(gram, cross, ridge, diagonal)
        if small_step and ridge > 0.0 and cross.size:
            # Without one, and where there is no memory for it, the next solution takes longer.
            with suppress(ValueError, MemoryError):
                self._tracked = TrackedSolution(gram, weights, ridge, diagonal)
        return weights
