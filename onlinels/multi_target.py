"""LeastSquaresMultiTargetRegressor: many targets by name, from one set of statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from river import base

from onlinels.checks import Floats, Integers
from onlinels.linalg.selection import Ridge
from onlinels.linear.forgetting import HalfLife
from onlinels.real_targets import arranged, read_named_targets, read_target_table
from onlinels.real_valued import RealValuedLeastSquares
from onlinels.rows import Name, read_batch, sorted_names, table_like


class LeastSquaresMultiTargetRegressor(RealValuedLeastSquares, base.MultiTargetRegressor):
    """Predict several numbers by ridge regression, learnt online and exactly.

    Every target has the weights that a `LeastSquaresRegressor` of this ridge would give it; the
    statistics of the features are kept and factored once for all of them.

    Parameters
    ----------
    ridge : float, "auto", "paper" or KFold
    accumulator : "gram", "orthogonal" or "recursive"
    forgetting_factor : float
    half_life : float or timedelta, optional
        As in `onlinels.LeastSquaresClassifier`; one ridge serves all targets.
    fit_intercept : bool
        Whether every target has a constant, exact and without ridge (by means and co-moments).

    Notes
    -----
    The first row settles which targets there are, and every later one must have them all: where
    one is missing its error is unknown, not 0, and the statistics that targets share could not
    leave it out. Give targets that come and go a `LeastSquaresRegressor` each.

    The order of a dict's keys and of a frame's columns never matters, in `y` either. Cost and
    memory are those of `LeastSquaresRegressor`, with ``M N`` more for N targets.

    Examples
    --------
    >>> model = LeastSquaresMultiTargetRegressor(ridge=0.0)
    >>> model.learn_one({"size": 1.0}, {"price": 2.0, "weight": 5.0})
    >>> model.learn_one({"size": 2.0}, {"price": 4.0, "weight": 6.0})
    >>> {name: round(value, 9) for name, value in model.predict_one({"size": 4.0}).items()}
    {'price': 8.0, 'weight': 8.0}
    """

    def __init__(
        self,
        ridge: Ridge = "auto",
        accumulator: str = "gram",
        fit_intercept: bool = True,
        forgetting_factor: float = 1.0,
        half_life: HalfLife = None,
    ) -> None:
        super().__init__(ridge, accumulator, fit_intercept, forgetting_factor, half_life)
        self._target_names = ()

    @property
    def target_names(self) -> tuple[Name, ...]:
        """Names of the targets, in the order of the columns of `output_weights`."""
        return self._target_names

    def learn_one(
        self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None, **kwargs: Any
    ) -> None:
        """Learn one sample; `y` maps target names to numbers, see `learn_many` for the others."""
        super().learn_one(x, y, w, t, **kwargs)

    def _read_target(self, y: Any) -> tuple[tuple[Name, ...], Floats]:
        targets = read_named_targets(y)
        return self._arranged(tuple(targets), np.array([list(targets.values())]))

    def _read_targets(self, y: Any, n_rows: int) -> tuple[tuple[Name, ...], Floats]:
        return self._arranged(*read_target_table(y, n_rows))

    def _arranged(self, names: tuple[Name, ...], values: Floats) -> tuple[tuple[Name, ...], Floats]:
        known = self._target_names or tuple(sorted_names(names))
        return known, arranged(names, values, known)

    def _matched(self, other: Self) -> tuple[Integers, tuple[Name, ...]]:
        if not (self._target_names and other._target_names):
            names = self._target_names or other._target_names
            return np.arange(len(other._target_names)), names
        if set(self._target_names) != set(other._target_names):
            raise ValueError(
                f"other has the targets {other._target_names!r}, expected {self._target_names!r}. "
                "Merge models of the same targets."
            )
        places = [self._target_names.index(name) for name in other._target_names]
        return np.array(places, dtype=np.intp), self._target_names

    def predict_one(self, x: Mapping[Any, Any]) -> dict[Name, float]:
        """Return the prediction of every target for one sample; {} before anything is learnt."""
        with self._lock:
            scores = self._row_scores(x)[0]
            return dict(zip(self._target_names, scores.tolist(), strict=True))

    def predict_many(self, X: Any) -> Any:
        """Return predictions, a column per target, in the kind of `X`: array, frame or list.

        Examples
        --------
        >>> model = LeastSquaresMultiTargetRegressor(ridge=0.0)
        >>> model.learn_many(np.array([[0.0], [1.0]]), np.array([[1.0, 0.0], [3.0, 1.0]]))
        >>> model.predict_many(np.array([[2.0]])).round(9)
        array([[5., 2.]])
        """
        with self._lock:
            batch = read_batch(X)
            return table_like(
                batch.source, self._target_names, self._scores(batch.layouts, batch.values)
            )
