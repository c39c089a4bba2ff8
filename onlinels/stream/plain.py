"""Plain least squares on the raw features of a stream, which learns a row late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from onlinels.checks import Floats, quiet
from onlinels.core.constants import MAX_PLAIN_VALUE
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.single import rows_of
from onlinels.numerics import enlarged, is_array, restore, shallow_copy
from onlinels.saving import savable


def _plain_fits(expert: Any) -> bool:
    return is_array(expert.factors, expert.n_features)


@savable(_plain_fits)
class PlainExpert:
    """A linear model of all rows on the raw features, in units of their own.

    The unit of a feature is the power of 2 above its first value other than 0, because the model
    selects its ridge between standardised and given units. The model learns a row when the next row
    is forecast or learnt, because what learns a row in a stream cannot wait for Python code in the
    middle. `onlinels.core.StreamRows` writes to the arrays.

    Attributes
    ----------
    model : LeastSquaresClassifier or LeastSquaresRegressor
        The model, which selects its ridge; features and classes are named by their columns. So code
        of the labels does not run in the middle of a call.
    factors : ndarray (n_features,)
        What turns values into units, 0 if there is no unit.
    pending : ndarray (2 + n_features,)
        The column or target of the last row, its weight, and its values in units. The model has yet
        to learn it if it has learnt one row fewer than the stream model.

    Examples
    --------
    >>> from onlinels import LeastSquaresRegressor
    >>> expert = PlainExpert(LeastSquaresRegressor()).grown(1)
    >>> expert.factors[:], expert.pending[:] = 0.25, [5.0, 1.0, 0.75]
    >>> expert.score(np.array([2.0]), np.zeros(1), count=1)
    array([5.])
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.factors, self.pending = np.zeros(0), np.zeros(2)

    @property
    def n_features(self) -> int:
        """Number of features, some of which may not have a unit yet."""
        return len(self.factors)

    def __getstate__(self) -> dict[str, Any]:
        # Without the solution, which the model keeps or not, depending on how it was predicted;
        # and without the last row, which `learn_pending` has taught before.
        model, state = shallow_copy(self.model), self.model._state
        # No solution is of -1 rows.
        model._state = replace(state, following=state.following.saved(-1))
        return {"model": model, "_factors": self.factors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        factors = state["_factors"]
        restore(self, {"model": state["model"], "factors": factors})
        self.pending = np.zeros(2 + len(factors))

    def grown(self, n_features: int) -> Self:
        """Return the expert with room for new features."""
        new = shallow_copy(self)
        new.factors = enlarged(self.factors, n_features)
        new.pending = enlarged(self.pending, 2 + n_features)
        return new

    def rows(self, n_outputs: int) -> Any:
        """Return what learns single rows of the model in C; None if it has to grow before."""
        state = self.model._state
        fits = state.statistics.shape == (self.n_features, n_outputs)
        return rows_of(state) if fits else None

    def learn_pending(self, count: int) -> None:
        """Let the model learn the last row, unless it has learnt `count` rows."""
        if self.model.count < count:
            # Whether a row was scored before the next decides how weights follow rows: always one
            # is, so that predictions leave no trace.
            self._score(self.pending[2:], count)

    def score(self, values: Floats, means: Floats, count: int) -> Floats:
        """Return the scores (n_outputs,) of a row after the last of `count` rows is learnt.

        An unknown value is the mean.
        """
        scaled = np.where(values == values, values, means) * self.factors
        return self._score(np.clip(scaled, -MAX_PLAIN_VALUE, MAX_PLAIN_VALUE), count)

    @quiet
    def _score(self, row: Floats, count: int) -> Floats:
        by_column = dict(enumerate(row.tolist()))
        if self.model.count < count:
            target, w, *last = self.pending.tolist()
            is_label = isinstance(self.model, LeastSquaresClassifier)
            self.model.learn_one(dict(enumerate(last)), int(target) if is_label else target, w)
        scores: Floats = self.model._row_scores(by_column)
        self.pending[:] = 0.0  # No row is kept once it is learnt.
        return scores
