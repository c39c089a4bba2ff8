"""The recursion of least squares once its ridge is known: an inverse and weights, row by row."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.linalg.blas import dgemm, dger

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.fading import FadingRidge
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.inverse import RunningInverse, inverse_of_gram
from onlinels.accumulators.ledger import lengthened
from onlinels.accumulators.refusal import check_rows
from onlinels.accumulators.uncertainty import Covariance
from onlinels.arrays import Floats, Integers, Matrix, check_places
from onlinels.capacity import capacity, enlarged, padded
from onlinels.products import product
from onlinels.spectrum import Spectrum
from onlinels.targets import errors_of

BLOCK_ROWS = 64
"""Rows that are taken in together: as many as the inverse gathers."""


class Recursion(Accumulator):
    """Hold P = (A'A + D)^-1 and the output weights W = P A'Y, both after every row.

    Parameters
    ----------
    n_features, n_targets : int
    ridge : float
        The ridge c > 0 on every feature; D = c I until something is forgotten.
    """

    def __init__(self, n_features: int, n_targets: int, ridge: float) -> None:
        super().__init__(n_features, n_targets)
        self._ridge = ridge
        self._forget()

    def _forget(self) -> None:
        self._ridges = FadingRidge(self._n_features, self._ridge)
        self._squares = np.zeros(self._n_features)
        self._inverse = RunningInverse(self._ridges.entries)
        self._weights = np.zeros((self._n_features, self._n_targets), order="F")

    @classmethod
    def of_gram(cls, gram: GramAccumulator, squares: Floats, ridge: float) -> Self:
        """Return the recursion that has learnt what a Gram holds, in ``2 M^3`` operations."""
        new = cls(gram.n_features, gram.n_targets, ridge)
        new._adopt(gram, squares, inverse_of_gram(gram.gram, ridge))
        return new

    def _adopt(self, gram: GramAccumulator, squares: Floats, inverse: RunningInverse) -> None:
        self._inverse, self._squares = inverse, squares
        self._weights = np.asfortranarray(gram.solve(self._ridge, squares))
        self._ridges = FadingRidge(self._n_features, self._ridge)

    def information(self) -> GramAccumulator:
        """Return A'A and A'Y, from P^-1 - D and P^-1 W, in ``M^3`` operations."""
        upper = np.triu(self._inverse.matrix())
        full = upper + np.triu(upper, 1).T
        cross = full @ self._weights[: self._n_features, : self._n_targets]
        full.flat[:: self._n_features + 1] -= self._ridges.entries
        never = self._squares == 0.0
        full[never], full[:, never], cross[never] = 0.0, 0.0, 0.0
        return GramAccumulator.of(full, cross)

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares, (n_features,), as a new array."""
        return self._squares.copy()

    def _raw_squares(self) -> tuple[Floats, Floats]:
        return self._squares, self.target_squares

    def row_scores(self, row: Floats) -> Floats | None:
        """Return the outputs (n_targets,) for a row; None while a feature was 0 in all rows."""
        squares = self._squares
        # Measured: a third of the time of a minimum.
        if not len(squares) or squares[squares.argmin()] <= 0.0:
            return None
        scores: Floats = row @ self._weights[: len(row), : self._n_targets]
        return scores

    def _check_rows(self, activations: Matrix, w: float | Floats) -> None:
        weights = np.broadcast_to(w, len(activations))
        used = np.flatnonzero(weights)
        if len(used) and self._n_features:
            rows = np.asarray(activations[used], float)
            check_rows(self._inverse, self._ridge, rows, weights[used])

    def accumulate(self, block: Floats, targets: Matrix, w: float | Floats) -> None:
        """Add checked float64 rows with weights of any one sign, without counting them."""
        if len(block) == 1 and isinstance(w, float):
            self._accumulate_one(block[0], targets, w)
            return
        weights = np.full(len(block), w) if isinstance(w, float) else w
        used = np.flatnonzero(weights)
        if len(used) < len(block):
            block, targets, weights = block[used], targets[used], weights[used]
        if not (block.size and self._n_features):
            return
        sign = 1.0 if weights[0] > 0.0 else -1.0
        weights, block = sign * weights, padded(block, self._inverse.width)
        if len(block) > self._n_features:
            self._learn_many(block, targets, weights, sign)
        else:
            for start in range(0, len(block), BLOCK_ROWS):
                rows = slice(start, start + BLOCK_ROWS)
                self._learn(block[rows], targets[rows], weights[rows], sign)
        self._squares += sign * (weights @ block**2)[: self._n_features]

    def _accumulate_one(self, row: Floats, targets: Matrix, w: float) -> None:
        """Add a row (n_features,), of one target or row of targets: a few calls of BLAS."""
        if not (w and self._n_features):
            return
        width = self._inverse.width
        wide = row if len(row) == width else padded(row[None], width)[0]
        gain = self._inverse.add_one(wide, w)
        if self._n_targets:
            errors = errors_of(wide[None], self._weights, targets)[0]
            self._weights = dger(
                1.0 if w > 0 else -1.0, gain, errors, a=self._weights, overwrite_a=1
            )
        self._squares += w * (row * row)

    def _learn(self, rows: Floats, targets: Matrix, w: Floats, sign: float) -> None:
        gains = (self._inverse.add if sign > 0.0 else self._inverse.remove)(rows, w)
        if self._n_targets:
            errors = errors_of(rows, self._weights, targets).T
            self._weights = dgemm(sign, gains, errors, 1.0, self._weights, trans_b=1, overwrite_c=1)

    def _learn_many(self, block: Floats, targets: Matrix, w: Floats, sign: float) -> None:
        """Learn more rows than features: by way of the Gram."""
        step = np.zeros(self._weights.shape)
        n_rows = max(self._n_features, 1024)
        for start in range(0, len(block), n_rows):
            rows = slice(start, start + n_rows)
            errors = errors_of(block[rows], self._weights, targets[rows])
            step += product(block[rows].T, w[rows, None] * errors)
        known = slice(self._n_features)
        self._inverse.rebuild(block[:, known], w, sign)
        self._weights[known] += sign * self._inverse.times(step[known])

    def _combine(self, other: Self, sign: int) -> None:
        self.combine_gram(other.information(), other._squares, sign)

    def combine_gram(self, gram: GramAccumulator, squares: Floats, sign: int) -> None:
        """Add or take away what a Gram holds; the whole ridge is then in force again."""
        if not squares.any():
            return
        total = self.information()
        total._combine(gram, sign)
        matrix = total.gram
        matrix.flat[:: self._n_features + 1] += self._ridge
        inverse = (
            inverse_of_gram(total.gram, self._ridge) if sign > 0 else RunningInverse.of(matrix)
        )
        self._adopt(total, self._squares + sign * lengthened(squares, self._n_features), inverse)

    def _scale(self, factor: float) -> None:
        if factor == 0.0:
            self._forget()
        elif not 0.5 <= factor <= 1.0:
            gram = self.information()
            gram.scale(factor)
            self._adopt(gram, self._squares * factor, inverse_of_gram(gram.gram, self._ridge))
        elif factor < 1.0:
            self._inverse.scale(factor)
            self._squares *= factor
            self._learn_ridge(*self._ridges.decay(factor))

    def restore_ridge(self) -> None:
        """Bring every entry of D back to c."""
        self._learn_ridge(*self._ridges.restore())

    def _learn_ridge(self, columns: Integers, amounts: Floats) -> None:
        """Learn the pseudo-rows that bring entries of the ridge back: their targets are 0."""
        for start in range(0, len(columns), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            gains = self._inverse.add_diagonal(columns[part], amounts[part])
            self._weights -= gains @ self._weights[columns[part]]

    def grow(self, n_features: int, n_targets: int) -> None:
        """Make room for features and targets that were 0 in every row so far, in place."""
        n_features, n_targets = map(max, self._sizes, (n_features, n_targets))
        if n_features > self._n_features:
            self._inverse.grow(n_features, self._ridge)
            self._ridges.grow(n_features)
            self._squares = lengthened(self._squares, n_features)
        columns = capacity(self._weights.shape[1], n_targets)
        self._weights = enlarged(self._weights, self._inverse.width, columns)
        self._n_features, self._n_targets = n_features, n_targets

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places; see `Accumulator.placed`."""
        check_places("feature_columns", feature_columns, self._n_features, n_features)
        check_places("target_columns", target_columns, self._n_targets, n_targets)
        copy = type(self)(n_features, n_targets, self._ridge)
        copy._inverse = self._inverse.placed(feature_columns, n_features, self._ridge)
        copy._ridges = self._ridges.placed(feature_columns, n_features)
        copy._squares[feature_columns] = self._squares
        here = self._weights[: self._n_features, : self._n_targets]
        copy._weights[np.ix_(feature_columns, target_columns)] = here
        return copy

    def _keep_targets(self, columns: Integers) -> None:
        self._weights = np.asfortranarray(self._weights[:, columns])

    @property
    def fixed_ridge(self) -> float:
        """The ridge c inside the statistics."""
        return self._ridge

    def ridge_diagonal(self, ridge: float) -> Floats:
        """Return D, (n_features,), if `ridge` is the one inside; else that ridge everywhere."""
        if ridge == self._ridge:
            return self._ridges.entries
        return super().ridge_diagonal(ridge)

    def spectrum(self) -> Spectrum:
        """Return the statistics in the eigenbasis of the Gram, by way of the Gram."""
        return self.information().spectrum()

    def covariance(self, ridge: float, diagonal: Floats | None = None) -> Covariance:
        """Return P, if `ridge` is the one inside; see `Uncertainty.covariance`."""
        if ridge != self._ridge:
            diagonal = self._squares if diagonal is None else diagonal
            return self.information().covariance(ridge, diagonal)
        matrix = self._inverse.times(np.eye(self._n_features))
        parameters = self._n_features - float(self._ridges.entries @ matrix.diagonal())
        return Covariance(matrix, parameters)

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, by way of the Gram."""
        return self.information().explained_squares(output_weights)

    def solve(self, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return the output weights: at once, if `ridge` is the one inside."""
        diagonal = self._squares if diagonal is None else diagonal
        if ridge != self._ridge:
            return self.information().solve(ridge, diagonal)
        weights = self._weights[: self._n_features, : self._n_targets].copy(order="F")
        if diagonal.size and diagonal.min() <= 0.0:
            weights[diagonal <= 0.0] = 0.0
        return weights
