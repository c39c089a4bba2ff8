"""The orthogonal form: the factor R of A = QR and Q'Y in float64; never squares the condition."""

from __future__ import annotations

from functools import partial
from operator import setitem
from typing import Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.uncertainty import Covariance
from onlinels.checks import Floats, Integers, Matrix, check_places
from onlinels.commit import AT_ONCE, Commit, picked_columns
from onlinels.linalg.selection import Spectrum, check_ridge, factor_spectrum
from onlinels.numerics import capacity, enlarged
from onlinels.solve_factor import invert_factor, solve_factor
from onlinels.triangle import add_rows, weighted_targets


class OrthogonalAccumulator(Accumulator):
    """Accumulate R and Q'Y of A = QR: least squares that keeps all digits of its condition.

    For rows a_k with targets y_k and weights w_k, the rows of A are sqrt(w_k) a_k and those of Y
    are sqrt(w_k) y_k. Then R'R = A'A and R'(Q'Y) = A'Y, but neither is ever formed: orthogonal
    transformations rotate new rows into the old factor.

    Parameters
    ----------
    n_features : int
        Columns of the activations known beforehand. More may come at any time.
    n_targets : int
        Targets (classes) known beforehand. More may come at any time.

    Notes
    -----
    Use it where features are nearly collinear or of high polynomial degree: it loses half as many
    digits to them as `GramAccumulator`. It costs more: an update of n rows takes ``2 n M^2``
    operations for M features, and ``4 n M N`` for N targets, label columns too, since a rotation
    fills every target of a row. Memory: ``8 * (M^2 + M N)`` bytes whatever the length of the
    stream; during an update two copies of at most 64 MiB of rows, and some MiB of targets. Measured
    on one core with 1024 features and 10 targets: 80 microseconds per row in batches of 64 rows and
    more, 1.6 milliseconds for single rows (the Gram form: 22 and 280 microseconds).

    Rows cannot be taken out: a small remainder of two large factors has lost its digits.

    References
    ----------
    G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th edition, 2013, section 6.5.

    Examples
    --------
    >>> acc = OrthogonalAccumulator()
    >>> acc.update(np.array([[3.0], [4.0]]), targets=np.array([0, 1]))
    >>> np.abs(acc.factor), acc.solve(ridge=0.0)
    (array([[5.]]), array([[0.12, 0.16]]))
    """

    def __init__(self, n_features: int = 0, n_targets: int = 0) -> None:
        super().__init__(n_features, n_targets)
        # Fortran order: LAPACK would silently work on a copy of anything else.
        self._factor = np.zeros((n_features, n_features), order="F")
        self._rotated = np.zeros((n_features, n_targets), order="F")

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes of the factor and of the three that a solution is made from."""
        return 32 * n_features * (n_features + n_targets)

    @property
    def factor(self) -> Floats:
        """R, upper triangular, (n_features, n_features), as a new array."""
        return self._factor[: self._n_features, : self._n_features].copy(order="F")

    @property
    def rotated_targets(self) -> Floats:
        """Q'Y, (n_features, n_targets), as a new array."""
        return self._rotated[: self._n_features, : self._n_targets].copy(order="F")

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares, (n_features,), as a new array."""
        factor = self._factor[: self._n_features, : self._n_features]
        squares: Floats = np.einsum("ij,ij->j", factor, factor)
        return self._without_residue(squares)

    def _raw_squares(self) -> tuple[Floats, Floats]:
        return self.diagonal, self.target_squares

    def accumulate(self, block: Floats, targets: Matrix, w: float | Floats, commit: Commit) -> None:
        """Add checked float64 rows with weights of at least 0, without counting them."""
        if not self._n_features:
            return
        roots = np.broadcast_to(np.sqrt(w), len(block))
        rows = np.zeros((len(block), len(self._factor)), order="F")
        np.multiply(block, roots[:, None], out=rows[:, : block.shape[1]])
        weighted = partial(_one_hot if targets.ndim == 1 else weighted_targets, targets, roots)
        add_rows(self._factor, self._rotated[:, : self._n_targets], rows, weighted, commit=commit)

    def _combine(self, other: Self, sign: int, commit: Commit) -> None:
        """Factor both factors, one above the other; the second is triangular like the first."""
        if not other._n_features:
            return
        rows = np.zeros((other._n_features, len(self._factor)), order="F")
        rows[:, : other._n_features] = other._factor[: other._n_features, : other._n_features]
        targets = partial(weighted_targets, other.rotated_targets, np.ones(len(rows)))
        rotated = self._rotated[:, : self._n_targets]
        add_rows(self._factor, rotated, rows, targets, len(rows), commit)

    def _check_subtracts(self) -> None:
        raise ValueError(
            f"{type(self).__name__} cannot take rows out: a triangular factor has no stable way to "
            'do so. Keep the Gram form, GramAccumulator or accumulator="gram", to unlearn.'
        )

    def _scale(self, factor: float, commit: Commit) -> None:
        for array in (self._factor, self._rotated):
            commit.then(np.multiply, array, np.sqrt(factor), out=array)

    def plan_growth(self, n_features: int, n_targets: int) -> None:
        """Make room in a draft for features and targets that were 0 in every row so far.

        Notes
        -----
        See `onlinels.capacity.capacity` for what is reserved.
        """
        n_features = max(n_features, self._n_features)
        n_targets = max(n_targets, self._n_targets)
        rows, columns = self._rotated.shape
        rows, columns = capacity(rows, n_features), capacity(columns, n_targets)
        factor = enlarged(self._factor, rows, rows)
        rotated = enlarged(self._rotated, rows, columns)
        self._factor, self._rotated = factor, rotated
        self._n_features, self._n_targets = n_features, n_targets

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places; see `Accumulator.placed`.

        Notes
        -----
        ``M^2`` operations where features keep their order. Otherwise the factor is no longer
        triangular, and ``2 M^3`` make it so again.
        """
        check_places("feature_columns", feature_columns, self._n_features, n_features)
        check_places("target_columns", target_columns, self._n_targets, n_targets)
        copy = type(self)(n_features, n_targets)
        rotated = np.zeros((self._n_features, n_targets), order="F")
        rotated[:, target_columns] = self.rotated_targets
        if np.all(np.diff(feature_columns) > 0):
            copy._factor[np.ix_(feature_columns, feature_columns)] = self.factor
            copy._rotated[feature_columns] = rotated
        else:
            rows = np.zeros((self._n_features, n_features), order="F")
            rows[:, feature_columns] = self.factor
            copy.accumulate(rows, rotated, 1.0, AT_ONCE)
        copy._weigh_like(self, feature_columns, target_columns)
        return copy

    def _keep_targets(self, columns: Integers, commit: Commit) -> None:
        self._rotated = picked_columns(self._rotated, columns, commit)

    def solve(self, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return the output weights W of (A'A + c I) W = A'Y.

        Parameters
        ----------
        ridge : float
            The ridge c; 0.0 gives the pseudo-inverse solution of minimum norm.
        diagonal : ndarray (n_features,), optional
            Instead of `self.diagonal`: with 0 for features that hold only rounding errors.

        Returns
        -------
        ndarray (n_features, n_targets), float64

        Notes
        -----
        See `onlinels.solve_factor.solve_factor` for cost and rank tolerance.
        """
        check_ridge(ridge)
        diagonal = self.diagonal if diagonal is None else diagonal
        return solve_factor(self.factor, self.rotated_targets, ridge, diagonal)

    def covariance(self, ridge: float, diagonal: Floats | None = None) -> Covariance:
        """Return (A'A + c I)^-1; see `Uncertainty.covariance`."""
        diagonal = self.diagonal if diagonal is None else diagonal
        return Covariance(*invert_factor(self.factor, ridge, diagonal))

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, (n_targets,)."""
        rotated = self.factor @ output_weights
        explained: Floats = (rotated * (2.0 * self.rotated_targets - rotated)).sum(axis=0)
        return explained

    def spectrum(self) -> Spectrum:
        """Return the statistics in the eigenbasis of the Gram, by one SVD of the factor."""
        return factor_spectrum(self.factor, self.rotated_targets, self.target_squares, self.weight)


def _one_hot(labels: Matrix, roots: Floats, columns: slice, out: Floats, commit: Commit) -> None:
    """Plan to write the weighted one-hot targets of some columns."""
    here = np.flatnonzero((labels >= columns.start) & (labels < columns.stop))
    commit.then(out.fill, 0.0)
    commit.then(setitem, out, (here, labels[here] - columns.start), roots[here])
