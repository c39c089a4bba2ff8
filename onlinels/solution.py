"""Output weights on demand, and the scores that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onlinels.checks import Floats, Matrix, read_only
from onlinels.choice import RidgeChoice
from onlinels.numerics import product
from onlinels.predictive import Spread
from onlinels.row_by_row import RowByRow
from onlinels.rows import Layout, read_row


class Solution(NamedTuple):
    """Output weights and intercept, with the ridge setting and the ridge that gave them.

    And what is known of their errors, once somebody has asked.
    """

    setting: Any
    ridge: float
    output_weights: Floats
    intercept: Floats
    spread: Spread | None = None


class WeightsOnDemand(RowByRow):
    """The answering half of a linear layer: weights are solved when they are first asked for.

    `_solution` is a pure function of the statistics and the ridge; it is dropped whenever one of
    them changes.
    """

    _choice: RidgeChoice
    _solved: Solution | None

    @property
    def output_weights(self) -> Floats:
        """Output weights (n_features, n_targets), read-only."""
        with self._lock:
            return read_only(self._solution().output_weights)

    @property
    def intercept(self) -> Floats:
        """Constant added to every score, (n_targets,), read-only; zeros without an intercept."""
        with self._lock:
            return read_only(self._solution().intercept)

    @property
    def ridge_(self) -> float:
        """The ridge in force."""
        with self._lock:
            return self._choice.in_force(self.ridge, self._statistics)

    @property
    def ridge_diagonal(self) -> Floats:
        """The ridge in force on each feature, (n_features,), read-only."""
        with self._lock:
            return read_only(self._statistics.ridge_diagonal(self.ridge_))

    @property
    def _is_settled(self) -> bool:
        return self._choice.is_settled(self.ridge, self._statistics)

    def _solution(self) -> Solution:
        solved, setting = self._solved, self.ridge
        if solved is None or solved.setting != setting:
            ridge = self.ridge_
            weights = self._statistics.solve(ridge)
            constant = self._statistics.intercept(weights)
            solved = Solution(setting, ridge, *self._corrected(weights, constant))
            self._solved = solved
        return solved

    def _corrected(self, output_weights: Floats, intercept: Floats) -> tuple[Floats, Floats]:
        """Return what answers are made of, from what the statistics give; the same, by default."""
        return output_weights, intercept

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        """Return raw outputs (1, n_targets) for one sample."""
        row = self._known_row(x)
        if row is None:
            layout, values = read_row(x)
            scores = self._scores((layout,), values[None])
            self._remember_names(layout)
            return scores
        if self._solved is None:
            at_hand = self._scores_at_hand(row)
            if at_hand is not None:
                return at_hand[None]
        solution = self._solution()
        known: Floats = row @ solution.output_weights
        known += solution.intercept
        return known[None]

    def _scores_at_hand(self, row: Floats) -> Floats | None:
        """Return raw outputs (n_targets,), or None where weights have to be solved or corrected."""
        return self._statistics.row_scores(row)

    def _scores(self, layouts: Sequence[Layout], values: Matrix) -> Floats:
        """Return raw outputs (n, n_targets) for rows (n, n_columns)."""
        activations = self._columns.place(layouts, values)
        solution = self._solution()
        scores: Floats = product(activations, solution.output_weights)
        scores += solution.intercept
        return scores
