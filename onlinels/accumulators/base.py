"""The interface that all accumulators share, and the checks at its boundary."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from onlinels.accumulators.ledger import Ledger
from onlinels.arrays import (
    Floats,
    Integers,
    Matrix,
    check_mass,
    check_matrix,
    check_weights,
    row_blocks,
)
from onlinels.spectrum import Spectrum
from onlinels.targets import check_targets


class Accumulator(Ledger, ABC):
    """Sufficient statistics of a stream of rows: they add, subtract, grow, and give weights.

    The statistics of two streams add up to the statistics of both. Output weights are a pure
    function of statistics and ridge. No row is kept.

    Parameters
    ----------
    n_features : int
        Columns of the activations known beforehand. More may come at any time.
    n_targets : int
        Targets (classes) known beforehand. More may come at any time.
    """

    def update(self, activations: Matrix, targets: Matrix, w: Any = None) -> None:
        """Add rows to the statistics, in place.

        Parameters
        ----------
        activations : ndarray (n, n_features), any real dtype
            Columns beyond those known are new features, 0 in every row so far.
        targets : ndarray (n,) of int, or (n, n_targets) of float
            The column of every row's label, or a matrix of targets. Columns beyond those known
            are new targets, 0 in every row so far.
        w : float or ndarray (n,), optional
            Weights of the rows, at least 0; 1 by default.

        Raises
        ------
        TypeError, ValueError
            If shapes do not fit or a value is not finite; nothing has changed then.
        """
        self._signed_update(activations, targets, w, 1)

    def downdate(self, activations: Matrix, targets: Matrix, w: Any = None) -> None:
        """Take rows out of the statistics again, in place: the inverse of `update`.

        Parameters and errors are those of `update`; the weights are those the rows have now.
        """
        self._signed_update(activations, targets, w, -1)

    def _signed_update(self, activations: Matrix, targets: Matrix, w: Any, sign: int) -> None:
        activations = check_matrix("activations", activations)
        if sign < 0:
            self._check_subtracts()
        self._check_shape(activations, sign)
        targets, n_targets = check_targets(targets, len(activations))
        weights = check_weights(w, len(activations))
        check_mass(activations, weights)
        signed = sign * weights
        self._check_rows(activations, signed)
        self.grow(activations.shape[1], n_targets)
        for rows in row_blocks(*activations.shape):
            block = np.ascontiguousarray(activations[rows], dtype=np.float64)
            w_block = signed if isinstance(signed, float) else signed[rows]
            self.accumulate(block, targets[rows], w_block)
        self._count += np.int64(sign * len(activations))
        self._weigh(targets, signed)

    def _check_subtracts(self) -> None:
        """Raise if rows cannot be taken out of this kind of statistics."""

    def _check_rows(self, activations: Matrix, w: float | Floats) -> None:
        """Raise if checked rows, all together, cannot be added (or, of w < 0, taken out)."""

    @abstractmethod
    def accumulate(self, block: Floats, targets: Matrix, w: float | Floats) -> None:
        """Add checked float64 rows with weights of any one sign, without counting them."""

    @property
    @abstractmethod
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares, (n_features,)."""

    def merge(self, other: Self) -> None:
        """Add the statistics of `other`, in place; columns that it lacks count as zeros there.

        Raises
        ------
        TypeError
            If `other` is another kind of accumulator.
        """
        self._check_kind(other)
        self._add(other, 1)

    def subtract(self, other: Self) -> None:
        """Take the statistics of `other` away, in place: the inverse of `merge`.

        Raises
        ------
        TypeError
            If `other` is another kind of accumulator.
        ValueError
            If it has learnt more rows.
        """
        self._check_kind(other)
        self._check_subtracts()
        if other._count > self._count:
            raise ValueError(
                f"other has learnt {other._count} rows, expected at most the {self._count} here. "
                "Subtract only what was merged."
            )
        self._add(other, -1)

    def _add(self, other: Self, sign: int) -> None:
        # Only where a ridge is inside can it fail halfway; sums are not worth a copy.
        before = copy.deepcopy(vars(self)) if self.fixed_ridge is not None else {}
        try:
            self.grow(other.n_features, other.n_targets)
            self._combine(other, sign)
        except ValueError:
            vars(self).update(before)
            raise
        self._count += np.int64(sign) * other._count
        self._add_weights(other, sign)

    def _check_kind(self, other: Any) -> None:
        if type(other) is not type(self):
            raise TypeError(
                f"other is of type {type(other).__name__}, expected {type(self).__name__}. "
                "Combine accumulators of one kind."
            )

    @abstractmethod
    def _combine(self, other: Self, sign: int) -> None:
        """Add or take away the statistics of `other`, whose columns there is room for."""

    def scale(self, factor: float) -> None:
        """Multiply the weight of everything learnt so far, in place.

        Parameters
        ----------
        factor : float
            At least 0 and finite.

        Raises
        ------
        ValueError
            If it is not.
        """
        if not 0.0 <= factor < np.inf:
            raise ValueError(f"factor={factor!r} must be at least 0 and finite. Pass such a float.")
        self._scale(factor)
        self._weight *= factor
        self._target_squares *= factor

    @abstractmethod
    def _scale(self, factor: float) -> None:
        """Multiply all sums by a checked factor."""

    @abstractmethod
    def grow(self, n_features: int, n_targets: int) -> None:
        """Make room for features and targets that were 0 in every row so far, in place."""

    @abstractmethod
    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places among more columns.

        Parameters
        ----------
        feature_columns : ndarray (self.n_features,) of int
            The new column of every feature.
        target_columns : ndarray (self.n_targets,) of int
            The new column of every target.
        n_features, n_targets : int
            The sizes of the copy.

        Raises
        ------
        ValueError
            If two columns have one place, or a place is beyond the sizes.
        """

    def keep_targets(self, columns: Integers) -> None:
        """Drop all targets but those at the given columns, in place, in the order given."""
        self._keep_targets(columns)
        self._target_squares = self.target_squares[columns]
        self._n_targets = len(columns)

    @abstractmethod
    def _keep_targets(self, columns: Integers) -> None:
        """Drop all targets but those at checked columns."""

    @property
    def fixed_ridge(self) -> float | None:
        """The ridge inside the statistics; None where it enters only when weights are solved."""
        return None

    def fix_ridge(self, ridge: float) -> None:
        """Take a ridge into the statistics; does nothing where it enters only at solve time."""

    def ridge_diagonal(self, ridge: float) -> Floats:
        """Return the ridge in force on each feature, (n_features,), if `ridge` is the setting."""
        return np.full(self._n_features, ridge)

    @abstractmethod
    def spectrum(self) -> Spectrum:
        """Return the statistics in the eigenbasis of the Gram, from which a ridge is chosen."""

    @abstractmethod
    def leverages(self, rows: Floats, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return x'(A'A + c I)^-1 x of every row x, (n,): the variance of its score.

        That is in units of the noise variance, the intercept's part included where there is one.
        Parameters are those of `solve`; `rows` has shape (n, n_features).
        """

    @abstractmethod
    def solve(self, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return the output weights (n_features, n_targets).

        Parameters
        ----------
        ridge : float
            The ridge c; 0.0 gives the pseudo-inverse solution of minimum norm.
        diagonal : ndarray (n_features,), optional
            Instead of `self.diagonal`: with 0 for features that hold only rounding errors.
        """

    @abstractmethod
    def intercept(self, output_weights: Floats) -> Floats:
        """Return the constant (n_targets,) that goes with the output weights."""
