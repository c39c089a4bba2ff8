"""Plain least squares on the raw features of a stream, which learns a row late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from onlinels.checks import Floats, quiet
from onlinels.core.constants import MAX_PLAIN_VALUE
from onlinels.linear.regressors import LeastSquaresRegressor
from onlinels.linear.single import rows_of
from onlinels.numerics import enlarged, is_array, restore, shallow_copy
from onlinels.saving import savable
from onlinels.stream.features import RunningScaler

MIN_UNIT_EXPONENT = -500
"""Least power of 2 as a unit, so that no value in this unit exceeds float64."""


def units_of(values: Floats) -> Floats:
    """Return the power of 2 above every value other than 0.

    Examples
    --------
    >>> units_of(np.array([3.0, -0.2]))
    array([4.  , 0.25])
    """
    return np.ldexp(1.0, np.maximum(np.frexp(values)[1], MIN_UNIT_EXPONENT))


def _plain_fits(expert: Any) -> bool:
    return is_array(expert._factors, expert.n_features) and type(expert._limit) is float


@savable(_plain_fits)
class PlainExpert:
    """A linear model of all rows on the raw features, in units of their own.

    The unit of a feature is the power of 2 above its first value other than 0, because the model
    selects its ridge between standardised and given units. The model learns a row when the next row
    is predicted or learnt. So a stream model that learns a row replaces its expert together with
    all other attributes, and the model inside is the same.

    Attributes
    ----------
    model : LeastSquaresClassifier or LeastSquaresRegressor
        The model, which selects its ridge; features are named by their columns.

    Examples
    --------
    >>> from onlinels import LeastSquaresRegressor
    >>> expert, row = PlainExpert(LeastSquaresRegressor()), np.array([3.0])
    >>> expert = expert.with_units(row)
    >>> values = expert.read(row, RunningScaler().grown(1))
    >>> expert = expert.with_pending_row(values, 5.0, w=1.0)
    >>> expert.score({0: 0.5}, count=1)
    array([5.])
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        # What turns values into units, 0 if unknown, and a row that is not learnt. Classes are
        # named by their columns: code of the labels does not run in the middle of a call.
        self._factors, self._limit = np.zeros(0), MAX_PLAIN_VALUE
        self._pending: tuple[dict[int, float], Any, float] | None = None

    @property
    def n_features(self) -> int:
        """Number of features, some of which may not have a unit yet."""
        return len(self._factors)

    def __getstate__(self) -> dict[str, Any]:
        # Without the solution, which the model keeps or not, depending on how it was predicted;
        # and without the last row, which `learn_pending` has taught before.
        model, state = shallow_copy(self.model), self.model._state
        # No solution is of -1 rows.
        model._state = replace(state, following=state.following.saved(-1))
        return {"model": model, "_factors": self._factors, "_limit": self._limit}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._pending = None
        restore(self, {name: state[name] for name in ("model", "_factors", "_limit")})

    def with_units(self, row: Floats) -> Self:
        """Return the expert with units for the values of a row (n_features,)."""
        if len(row) == np.count_nonzero(self._factors):
            return self
        new, known = shallow_copy(self), enlarged(self._factors, len(row))
        is_first = (known == 0.0) & (row != 0.0) & (row == row)
        new._factors = np.where(is_first, 1.0 / units_of(np.where(is_first, row, 1.0)), known)
        # Sum of squares of a row whose values need no limit.
        new._limit = MAX_PLAIN_VALUE / max(1.0, float(new._factors.max(initial=0.0))) ** 2
        return new

    def read(self, row: Floats, scaler: RunningScaler) -> dict[int, float]:
        """Return values in units by column: the mean if unknown, the largest limited.

        Features without a unit, which are new, are left out.
        """
        factors = self._factors
        row = row[: len(factors)]
        scaled = row * factors
        if not row.dot(row) <= self._limit:
            scaled = np.where(row == row, scaled, scaler.means[: len(factors)] * factors)
            scaled = np.clip(scaled, -MAX_PLAIN_VALUE, MAX_PLAIN_VALUE)
        return dict(enumerate(scaled.tolist()))

    @property
    def factors(self) -> Floats:
        """What turns values into units, 0 if there is no unit."""
        return self._factors

    @property
    def limit(self) -> float:
        """Sum of squares of a row whose values need no limit."""
        return self._limit

    def rows(self, n_outputs: int) -> Any:
        """Return what learns single rows of the model in C; None if it has to grow before."""
        state = self.model._state
        fits = state.statistics.shape == (self.n_features, n_outputs)
        return rows_of(state) if fits else None

    def pending_row(self) -> tuple[Floats, float, float] | None:
        """Return the row that is to be learnt: its values, its column or target, and its weight."""
        if self._pending is None:
            return None
        row, y, w = self._pending
        return np.array([*row.values()]), float(y), w

    def with_pending(self, pending: Any, kind: type) -> Self:
        """Return the expert with the row that C leaves to learn, or None."""
        new = shallow_copy(self)
        new._pending = None
        if pending is not None:
            row, y, w = pending
            new._pending = dict(enumerate(row)), y if kind is LeastSquaresRegressor else int(y), w
        return new

    def with_pending_row(self, row: dict[int, float], y: Any, w: float) -> Self:
        """Return the expert with a row to learn; the model has learnt all earlier rows."""
        new = shallow_copy(self)
        new._pending = row, y, w
        return new

    def learn_pending(self, count: int) -> None:
        """Let the model learn the last row, unless it has learnt `count` rows."""
        if self._pending is not None:
            # Whether a row was scored before the next decides how weights follow rows: always one
            # is, so that predictions leave no trace.
            self.score(self._pending[0], count)

    @quiet
    def score(self, row: dict[int, float], count: int) -> Floats:
        """Return the scores (n_outputs,) of a row after the last of `count` rows is learnt."""
        if self._pending is not None and self.model.count < count:
            self.model.learn_one(*self._pending)
        scores: Floats = self.model._row_scores(row)
        self._pending = None  # No row is kept once it is learnt.
        return scores
