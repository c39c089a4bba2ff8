"""What is known about the errors of a linear layer, made when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onlinels.checks import Floats, Matrix
from onlinels.linear_layer import LinearLeastSquares
from onlinels.predictive import Spread, spread_of
from onlinels.rows import Layout
from onlinels.solution import Solution


class UncertainLeastSquares(LinearLeastSquares):
    """Linear least squares that knows how sure it is: noise variances and leverages of rows.

    They follow from the statistics and the ridge, and are dropped with the solution.
    """

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        solved: Solution | None = state["_solved"]
        return state | {"_solved": None if solved is None else solved._replace(spread=None)}

    def _known_spread(self) -> Spread:
        """Return noise variances and covariance as they are now, at the ridge in force."""
        solution = self._solution()
        if solution.spread is not None:
            return solution.spread
        weights = self._uncorrected(solution)
        spread = spread_of(self._statistics, solution.ridge, weights)
        self._solved = solution._replace(spread=spread)
        return spread

    def _uncorrected(self, solution: Solution) -> Floats:
        """Return the output weights that the statistics give; the solution's, by default."""
        return solution.output_weights

    def _split(self, layouts: Sequence[Layout], values: Matrix) -> tuple[Floats, Floats]:
        """Return rows (n, n_features) of known features, and their unknown ones beside them."""
        wider = self._columns.extended(layouts).place(layouts, values)
        known, unknown = np.split(wider, [len(self._columns)], axis=1)
        return known, unknown
