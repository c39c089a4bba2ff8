"""LeastSquaresRegressor: exact online least squares behind river's regressor interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from river import base, proba

from onlinels.checks import Floats, Matrix
from onlinels.linalg.selection import Ridge
from onlinels.linear.forgetting import HalfLife
from onlinels.real_targets import read_target, read_targets
from onlinels.real_valued import RealValuedLeastSquares
from onlinels.rows import Name, numbers_like, read_batch, read_sample


class LeastSquaresRegressor(RealValuedLeastSquares, base.MiniBatchRegressor):
    """Predict a number by ridge regression, learnt online and exactly.

    After any sequence of `learn_one`, `learn_many`, `unlearn_*` and `merge`, the output weights
    equal those of the batch solution w = (A'A + c I)^-1 A'y on all rows learnt, in any order and
    however the stream was cut. There is no learning rate and no row is kept.

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
    Learning n rows of M features costs ``n M^2`` operations, and the model takes about
    ``4 M^2`` bytes (``8 M^2`` up to 1,024 features).
    The weights are solved when they are first needed after learning, for ``M^3 / 3`` operations,
    so ask for predictions a mini-batch at a time when M is large. Predictive distributions cost
    ``M^3`` more after learning, then ``M^2`` each and another ``8 M^2`` bytes.

    A feature that is absent from a sample counts as 0, whether it was never seen or is missing
    today. `X` may be an array (n_rows, n_features), a pandas, polars or pyarrow frame, or a list of
    dicts, and answers come in kind; see `LeastSquaresClassifier`. Before anything is learnt the
    prediction is 0.0.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = LeastSquaresRegressor()
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.508028
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
        self._target_names = ("y",)
        self._statistics.grow(0, 1)

    def _read_target(self, y: Any) -> tuple[tuple[Name, ...], Floats]:
        return self._target_names, np.array([[read_target(y)]])

    def _read_targets(self, y: Any, n_rows: int) -> tuple[tuple[Name, ...], Floats]:
        return self._target_names, read_targets(y, n_rows)

    def predict_one(self, x: Mapping[Any, Any], with_dist: bool = False) -> Any:
        """Return the prediction for one sample, or a normal distribution around it.

        Parameters
        ----------
        x : mapping
            Feature names to numbers or arrays of numbers.
        with_dist : bool
            Whether to return the distribution of a fresh target instead of a number.

        Returns
        -------
        float, or river.proba.Gaussian
            Its variance is s^2 (1 + x'(A'A + c I)^-1 x), the intercept's part included, where
            s^2 = RSS / (n - p) is the residual sum of squares over the total weight of the rows
            minus the effective number of parameters. It is infinite, and so is its `sigma`, as
            long as n is not above p, as it is before anything is learnt.

        Notes
        -----
        Weights count as numbers of rows, those that have decayed too. The ridge counts as
        knowledge about the weights, so a ridge that is far too large makes the variance too small
        where it matters. Residuals below 1.5e-8 of the targets are beyond what the statistics
        tell: `sigma` is then about this much. For few rows Student's t would have heavier tails.

        Examples
        --------
        >>> model = LeastSquaresRegressor(ridge=0.0)
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0], [3.0]]), [0.1, 0.9, 2.1, 2.9])
        >>> model.predict_one({0: 1.5})
        1.5
        >>> fresh = model.predict_one({0: 1.5}, with_dist=True)
        >>> round(fresh.mu, 3), round(fresh.sigma, 3)
        (1.5, 0.141)
        """
        with self._lock:
            prediction = float(self._row_scores(x)[0, 0])
            if not with_dist:
                return prediction
            row = read_sample(x)
            variance = float(self._variances(row.layouts, row.values)[0, 0])
            gaussian: Any = proba.Gaussian
            return gaussian._from_state(n=1, m=prediction, var=variance, ddof=0)

    def _variances(self, layouts: Any, values: Matrix) -> Floats:
        """Return predictive variances (n, 1) for rows (n, n_columns)."""
        return self._known_spread().variances(*self._split(layouts, values))

    def predict_many(self, X: Any) -> Any:
        """Return the prediction for every row, in the kind of `X`: array, series or list.

        Examples
        --------
        >>> model = LeastSquaresRegressor(ridge=0.0)
        >>> model.learn_many(np.array([[0.0], [1.0]]), [1.0, 3.0])
        >>> model.predict_many(np.array([[2.0], [3.0]])).round(9)
        array([5., 7.])
        """
        with self._lock:
            batch = read_batch(X)
            return numbers_like(batch.source, self._scores(batch.layouts, batch.values)[:, 0])
