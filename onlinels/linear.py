"""The linear least-squares layer: rows by feature name in, statistics, weights and scores out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from river import base

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.centred import CentredAccumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.orthogonal import OrthogonalAccumulator
from onlinels.arrays import Floats, Matrix
from onlinels.columns import Columns
from onlinels.encoding import Layout
from onlinels.names import Name
from onlinels.ridge import check_ridge, choose_ridge
from onlinels.settings import check_choice, check_flag

ACCUMULATORS: dict[str, Callable[[], Accumulator]] = {
    "gram": GramAccumulator,
    "orthogonal": OrthogonalAccumulator,
}


@dataclass(frozen=True)
class Solution:
    """Output weights and intercept, with the ridge setting and the ridge that gave them."""

    setting: float | str
    ridge: float
    output_weights: Floats
    intercept: Floats


class LinearLeastSquares(base.Estimator):
    """What classifier and regressor share: features by name, statistics, and weights on demand.

    Subclasses bring the targets. `_solution` is a pure function of the statistics and the ridge;
    it is dropped whenever one of them changes and solved again when it is next asked for.
    """

    def __init__(
        self, ridge: float | str = "paper", accumulator: str = "gram", fit_intercept: bool = True
    ) -> None:
        check_ridge(ridge)
        check_choice("accumulator", accumulator, ACCUMULATORS)
        check_flag("fit_intercept", fit_intercept)
        self.ridge = ridge
        self.accumulator = accumulator
        self.fit_intercept = fit_intercept
        self._columns = Columns()
        statistics = ACCUMULATORS[accumulator]()
        self._statistics = CentredAccumulator(statistics) if fit_intercept else statistics
        self._solved: Solution | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_solved": None}

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"ridge"}

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features, in the order of the rows of `output_weights`."""
        return self._columns.names

    @property
    def count(self) -> int:
        """Number of rows learnt."""
        return self._statistics.count

    @property
    def output_weights(self) -> Floats:
        """Output weights (n_features, n_targets), read-only."""
        return _read_only(self._solution().output_weights)

    @property
    def intercept(self) -> Floats:
        """Constant added to every score, (n_targets,), read-only; zeros without an intercept."""
        return _read_only(self._solution().intercept)

    @property
    def ridge_(self) -> float:
        """The ridge in force."""
        return choose_ridge(self.ridge, self._statistics.diagonal, self._statistics.n_targets)

    @property
    def ridge_diagonal(self) -> Floats:
        """The ridge in force on each feature, (n_features,), read-only."""
        return _read_only(np.full(len(self._columns), self.ridge_))

    def _make_room(self, columns: Columns, n_targets: int) -> None:
        """Take columns into use, which so far are 0 in every row: allocate first, then commit."""
        self._statistics.grow(len(columns), n_targets)
        self._columns = columns
        self._solved = None

    def _solution(self) -> Solution:
        if self._solved is None or self._solved.setting != self.ridge:
            ridge = self.ridge_
            weights = self._statistics.solve(ridge)
            constant = self._statistics.intercept(weights)
            self._solved = Solution(self.ridge, ridge, weights, constant)
        return self._solved

    def _scores(self, layouts: Sequence[Layout], values: Matrix) -> Floats:
        """Return raw outputs (n, n_targets) for rows (n, n_columns)."""
        activations = self._columns.place(layouts, values)
        solution = self._solution()
        scores: Floats = activations @ solution.output_weights + solution.intercept
        return scores

    def empty(self) -> Self:
        """Return a model with the same settings that has learnt nothing."""
        return self.clone()


def _read_only(array: Floats) -> Floats:
    view = array.view()
    view.flags.writeable = False
    return view
