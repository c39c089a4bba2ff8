"""An unpenalised intercept for any accumulator, by means and co-moments."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.arrays import Floats, Integers, Matrix
from onlinels.targets import target_mean

CONSTANT = 1e-28
"""Variance, relative to the squared mean, up to which a feature is constant (deviation 1e-14)."""

EMPTY = 1e-14
"""Total weight, relative to the weights that led to it, up to which nothing is left."""


class CentredAccumulator(Accumulator):
    """Learn rows relative to their mean, so that the intercept is exact and carries no ridge.

    Two groups of rows with total weights p and q, means m and n have the co-moment
    C = C_p + C_q + p q / (p + q) (n - m)(n - m)' (Chan, Golub and LeVeque). The last term is one
    more row, n - m with weight p q / (p + q). So a batch becomes its rows minus their mean, and
    that one row; a merger adds the co-moments, and that one row. What holds the co-moments needs
    to know nothing of this.

    Parameters
    ----------
    comoments : Accumulator
        An empty accumulator, which will hold the centred rows.

    Notes
    -----
    Never n * mean * mean' is subtracted, so features with a mean of 1e6 and a deviation of 1 keep
    their digits. The centred copy of a batch is one more temporary array of its size.

    References
    ----------
    T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample variance:
    analysis and recommendations", The American Statistician 37 (1983), equation 2.1.

    Examples
    --------
    >>> from onlinels.accumulators.gram import GramAccumulator
    >>> acc = CentredAccumulator(GramAccumulator())
    >>> acc.update(np.array([[1.0], [3.0]]), np.array([[10.0], [14.0]]))
    >>> weights = acc.solve(ridge=0.0)
    >>> round(weights.item(), 12), round(acc.intercept(weights).item(), 12)
    (2.0, 8.0)
    """

    def __init__(self, comoments: Accumulator) -> None:
        super().__init__(comoments.n_features, comoments.n_targets)
        self._comoments = comoments
        self._feature_mean = np.zeros(comoments.n_features)
        self._target_mean = np.zeros(comoments.n_targets)
        self._weight = 0.0

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares about its mean, (n_features,).

        What is at the level of rounding errors beside the mean counts as 0: the feature is
        constant.
        """
        squares = self._comoments.diagonal
        squares[squares <= CONSTANT * self._weight * self._feature_mean**2] = 0.0
        return squares

    def accumulate(self, block: Floats, targets: Matrix, w: float | Floats) -> None:
        """Add checked float64 rows with weights of any one sign, without counting them."""
        total = w * len(block) if isinstance(w, float) else float(w.sum())
        if total == 0.0:
            return
        # Relative to the first row: a constant feature then has exactly its value as mean.
        centred = block - block[0]
        shift = centred.mean(axis=0) if isinstance(w, float) else w @ centred / total
        centred -= shift
        means = target_mean(targets, self._n_targets, w, total)
        if len(block) > 1:
            # Label columns need no centring: their weighted sum over centred rows is the same.
            about = targets if targets.ndim == 1 else targets - means[: targets.shape[1]]
            self._comoments.accumulate(centred, about, w)
        self._shift(block[0] + shift, means, total)

    def _shift(self, feature_mean: Floats, target_mean: Floats, weight: float) -> None:
        """Join (or, of negative weight, part from) rows whose centred form is accounted for."""
        total = self._weight + weight
        if abs(total) <= EMPTY * (self._weight + abs(weight)):
            self.scale(0.0)
            self._feature_mean = np.zeros(self._n_features)
            self._target_mean = np.zeros(self._n_targets)
            return
        apart = feature_mean - self._feature_mean
        targets_apart = target_mean - self._target_mean
        if self._weight:
            between = self._weight * (weight / total)
            self._comoments.accumulate(apart[None], targets_apart[None], between)
        self._feature_mean += apart * (weight / total)
        self._target_mean += targets_apart * (weight / total)
        self._weight = total

    def _check_kind(self, other: Any) -> None:
        super()._check_kind(other)
        self._comoments._check_kind(other._comoments)

    def _combine(self, other: Self, sign: int) -> None:
        (self._comoments.merge if sign > 0 else self._comoments.subtract)(other._comoments)
        means = (
            _lengthened(other._feature_mean, self._n_features),
            _lengthened(other._target_mean, self._n_targets),
        )
        self._shift(*means, sign * other._weight)

    def _scale(self, factor: float) -> None:
        self._comoments.scale(factor)
        self._weight *= factor

    def grow(self, n_features: int, n_targets: int) -> None:
        """Make room for features and targets that were 0 in every row so far, in place."""
        self._comoments.grow(n_features, n_targets)
        self._n_features, self._n_targets = self._comoments.n_features, self._comoments.n_targets
        self._feature_mean = _lengthened(self._feature_mean, self._n_features)
        self._target_mean = _lengthened(self._target_mean, self._n_targets)

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places; see `Accumulator.placed`."""
        places = (feature_columns, target_columns, n_features, n_targets)
        copy = type(self)(self._comoments.placed(*places))
        copy._feature_mean[feature_columns] = self._feature_mean
        copy._target_mean[target_columns] = self._target_mean
        copy._weight = self._weight
        copy._count = self._count
        return copy

    def solve(self, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return the output weights (n_features, n_targets); the ridge spares the intercept."""
        return self._comoments.solve(ridge, self.diagonal if diagonal is None else diagonal)

    def intercept(self, output_weights: Floats) -> Floats:
        """Return the constant (n_targets,): the mean of the targets minus that of the scores."""
        constant: Floats = self._target_mean - self._feature_mean @ output_weights
        return constant


def _lengthened(vector: Floats, length: int) -> Floats:
    return vector if len(vector) == length else np.pad(vector, (0, length - len(vector)))
