"""Recursive least squares: weights that are up to date after every row."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.pivots import OUTWEIGHED
from onlinels.accumulators.recursion import Recursion
from onlinels.accumulators.refusal import check_fixable
from onlinels.accumulators.uncertainty import Covariance
from onlinels.checks import Floats, Integers, Matrix
from onlinels.commit import Commit, draft_of
from onlinels.linalg.selection import Spectrum, check_ridge


class RecursiveAccumulator(Accumulator):
    """Keep (A'A + D)^-1 and the output weights, for streams that predict and learn row by row.

    A row x with target y and weight w gives the gain g = P x / (1/w + x'P x), the inverse
    P - g x'P and the weights W + g (y - x'W). Nothing is solved when weights are asked for. After
    any rows,

        W = argmin sum_i w_i ||y_i - x_i'W||^2 + sum_j D_j ||W_j||^2,

    where w_i is what the row's weight has decayed to, and D = c I unless something was forgotten.

    Parameters
    ----------
    n_features : int
        Columns of the activations known beforehand. More may come at any time.
    n_targets : int
        Targets (classes) known beforehand. More may come at any time.
    ridge : float, optional
        The ridge c > 0. Until it is known, here or by `fix_ridge`, rows are held as a Gram.

    Notes
    -----
    Memory: ``8 * (M^2 + 64 M + M N)`` bytes for M features and N targets. A row costs about
    ``3 M^2 + 4 M N`` operations; in a batch of over M rows it is ``M^2``, and ``2 M^3`` for the
    batch. Solving for the ridge inside costs a copy. Another ridge, `merge`, `subtract`,
    `spectrum` and a new `fix_ridge` go by way of A'A = P^-1 - D, in a few ``M^3`` operations.

    Prefer the Gram where weights are asked for once in more than about M/10 rows, where ridges
    are compared, and where features differ by many orders of magnitude: a direction in which
    A'A has grown to s keeps about ``16 - log10(s / c)`` digits, and taking rows out needs as many
    again. Rows that outweigh the ridge by 1e14, or of which less than 1e-10 would be left, raise.
    The minimum-norm solution (ridge 0) is not to be had.

    Forgetting: `scale` multiplies data and ridge alike, and entries of the ridge are brought back
    to c before they fall below c/2, those first that have decayed longest; `ridge_diagonal` shows
    D. With a decay of lambda a row, r = ``(M + k) * -log2(lambda)`` entries are due in a row,
    ``k = min(32, 1 + M / 4)`` or more at once, each for about ``M^2`` operations: 1.5 ``M^2`` a
    row at lambda = 1 - 1/M. A factor below 1/2, or over 1, in one call restores the whole ridge,
    by way of A'A, in about ``3 M^3``. A feature that comes late has the ridge c: as if known from
    the start if nothing was forgotten, within that factor of 2 otherwise.

    References
    ----------
    A. Bjorck, "Numerical Methods for Least Squares Problems" (1996), section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> acc = RecursiveAccumulator(ridge=1.0)
    >>> acc.update(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[4.0], [5.0]]))
    >>> acc.solve(ridge=1.0).ravel()
    array([2., 2.])
    """

    def __init__(self, n_features: int = 0, n_targets: int = 0, ridge: float | None = None) -> None:
        super().__init__(n_features, n_targets)
        self._inner: GramAccumulator | Recursion = GramAccumulator(n_features, n_targets)
        if ridge is not None:
            check_fixable(ridge)
            self._inner = Recursion(n_features, n_targets, float(ridge))

    @property
    def holds_ridge(self) -> bool:
        """True: the ridge is inside, once it is known."""
        return True

    @property
    def fixed_ridge(self) -> float | None:
        """The ridge c inside the statistics; None while they are held as a Gram."""
        return self._inner.fixed_ridge

    def fix_ridge(self, ridge: float) -> None:
        """Take a ridge into the statistics, in place of one that may be inside.

        Parameters
        ----------
        ridge : float
            c, greater than 0.

        Raises
        ------
        TypeError, ValueError
            If it is not such a number.

        Notes
        -----
        ``2 M^3`` operations, nothing where that ridge is inside already; another ``M^3`` if it
        takes the place of one. D is c everywhere then.

        Examples
        --------
        >>> import numpy as np
        >>> acc = RecursiveAccumulator()
        >>> acc.update(np.array([[1.0]]), np.array([[4.0]]))
        >>> acc.fix_ridge(1.0)
        >>> acc.solve(1.0), acc.fixed_ridge
        (array([[2.]]), 1.0)
        """
        commit = Commit()
        self.plan_ridge(ridge, commit)
        commit.make()

    def plan_ridge(self, ridge: float, commit: Commit) -> None:
        """Do as `fix_ridge` when the commit is made."""
        check_fixable(ridge)
        if ridge != self.fixed_ridge:
            inner = Recursion.of_gram(self._gram(), self._inner.diagonal, float(ridge))
            commit.set(self, _inner=inner)

    def draft(self) -> Self:
        """Return statistics to plan changes on."""
        draft = draft_of(self)
        draft._inner = self._inner.draft()
        return draft

    def own(self) -> None:
        """Hold arrays that are no other's, so that changes may build on one another."""
        self._inner.own()

    def unit_rows(self, n_rows: int) -> int:
        """Return how many of the rows of a batch can be learnt by one commit."""
        return self._inner.unit_rows(n_rows)

    def plan_restoring(self, commit: Commit) -> None:
        """Bring every entry of a ridge inside back to c."""
        self._inner.plan_restoring(commit)

    def _gram(self) -> GramAccumulator:
        inner = self._inner
        return inner if isinstance(inner, GramAccumulator) else inner.information()

    def ridge_diagonal(self, ridge: float) -> Floats:
        """Return the ridge in force on each feature: D, from c/2 to c, if `ridge` is inside."""
        return self._inner.ridge_diagonal(ridge)

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares, (n_features,), as a new array."""
        return self._without_residue(self._inner.diagonal)

    def _raw_squares(self) -> tuple[Floats, Floats]:
        return self.diagonal, self.target_squares

    def harmless_length(self, weight: float) -> float:
        """Return how long rows may be that cannot outweigh a ridge inside, 0 until it is known."""
        # No entry of P is over 2/c.
        ridge = self.fixed_ridge
        if ridge is None or not weight:
            return np.inf if ridge else 0.0
        return float((0.5 * OUTWEIGHED * ridge / weight) ** 0.5)

    def _check_rows(self, activations: Matrix, w: float | Floats) -> None:
        self._inner._check_rows(activations, w)

    def accumulate(self, block: Floats, targets: Matrix, w: float | Floats, commit: Commit) -> None:
        """Add checked float64 rows with weights of any one sign, without counting them."""
        self._inner.accumulate(block, targets, w, commit)

    def accumulate_both(
        self,
        parts: tuple[Floats, Matrix, float | Floats],
        row: tuple[Floats, Floats, float],
        commit: Commit,
    ) -> None:
        """Do as `accumulate` for rows and for one more row."""
        self._inner.accumulate_both(parts, row, commit)

    def _combine(self, other: Self, sign: int, commit: Commit) -> None:
        if isinstance(self._inner, GramAccumulator):
            self._inner._combine(other._gram(), sign, commit)
        else:
            self._inner.combine_gram(other._gram(), other.diagonal, sign)

    def _scale(self, factor: float, commit: Commit) -> None:
        self._inner._scale(factor, commit)

    def row_scores(self, row: Floats) -> Floats | None:
        """Return the outputs (n_targets,) for a row; None while no ridge is inside."""
        return self._inner.row_scores(row)

    def plan_growth(self, n_features: int, n_targets: int) -> None:
        """Make room in a draft for features and targets that were 0 in every row so far."""
        self._inner.plan_growth(n_features, n_targets)
        self._n_features, self._n_targets = self._inner.n_features, self._inner.n_targets

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places; see `Accumulator.placed`."""
        copy = type(self)()
        copy._inner = self._inner.placed(feature_columns, target_columns, n_features, n_targets)
        copy._n_features, copy._n_targets = n_features, n_targets
        copy._weigh_like(self, feature_columns, target_columns)
        return copy

    def _keep_targets(self, columns: Integers, commit: Commit) -> None:
        self._inner.plan_choice(columns, commit)

    def spectrum(self) -> Spectrum:
        """Return the statistics in the eigenbasis of the Gram, in about 11 M^3 operations."""
        spectrum = self._inner.spectrum()
        return replace(spectrum, target_squares=self.target_squares, weight=self.weight)

    def covariance(self, ridge: float, diagonal: Floats | None = None) -> Covariance:
        """Return (A'A + D)^-1; see `Uncertainty.covariance`."""
        return self._inner.covariance(ridge, diagonal)

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, (n_targets,), by way of the Gram."""
        return self._inner.explained_squares(output_weights)

    def solve(self, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return the output weights (n_features, n_targets) as a new array; see `Statistics.solve`.

        Raises
        ------
        ValueError
            If the ridge is 0 and one is inside: rounding errors have hidden the rank then.
        """
        check_ridge(ridge)
        if ridge == 0.0 and self.fixed_ridge is not None:
            raise ValueError(
                "ridge=0.0 must be greater than 0 for the recursive form. Pass a positive ridge, "
                'or accumulator="gram" or "orthogonal".'
            )
        return self._inner.solve(ridge, diagonal)
