"""The interface that all accumulators share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from onlinels.accumulators.learner import RowLearner
from onlinels.arrays import Floats, Integers
from onlinels.names import Name
from onlinels.spectrum import Spectrum, Sums


class Accumulator(RowLearner, ABC):
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
        self.grow(other.n_features, other.n_targets)
        self._combine(other, 1)
        self._count += other._count
        self._add_weights(other, 1)

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
        self.grow(other.n_features, other.n_targets)
        self._combine(other, -1)
        self._count -= other._count
        self._add_weights(other, -1)

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

    def name_features(self, names: Sequence[Name]) -> None:
        """Take the names of all features, in the order of their columns; most do not need them."""

    def keep_targets(self, columns: Integers) -> None:
        """Drop all targets but those at the given columns, in place, in the order given."""
        squares = self.target_squares[columns]
        self._keep_targets(columns)
        self._target_squares = squares
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

    def sums_about(self, centre: Self) -> Sums:
        """Return plain sums of products of the rows, with `centre` at the origin.

        That is about the means of `centre` where there is an intercept, whatever the means here;
        about 0 otherwise. With them the squared error of any output weights can be told.

        Raises
        ------
        TypeError
            If this kind of statistics holds no sums of products.
        """
        raise TypeError(
            f"{type(self).__name__} holds no sums of products, which folds need. "
            'Use accumulator="gram".'
        )

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
