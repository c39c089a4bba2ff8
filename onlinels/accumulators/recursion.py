"""The recursion of least squares once its ridge is known: an inverse and weights, row by row."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.linalg.blas import dgemm, dger

from onlinels.accumulators.fading import FadingRidge
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.inverse import RunningInverse
from onlinels.accumulators.inverted import Inverted, inverse_of_gram
from onlinels.accumulators.ledger import lengthened
from onlinels.accumulators.refusal import check_rows
from onlinels.checks import Floats, Integers, Matrix, check_places
from onlinels.commit import AT_ONCE, Commit, DraftCommit, draft_of, picked_columns
from onlinels.numerics import capacity, enlarged, padded, product
from onlinels.targets import errors_of

BLOCK_ROWS = 64
"""Rows that are taken in together: as many as the inverse gathers."""

TOGETHER = BLOCK_ROWS + 1
"""Rows of one change, the one that a mean's move adds included."""


class Recursion(Inverted):
    """Hold P = (A'A + D)^-1 and the output weights W = P A'Y, both after every row.

    Parameters
    ----------
    n_features, n_targets : int
    ridge : float
        The ridge c > 0 on every feature; D = c I until something is forgotten.
    """

    def draft(self) -> Self:
        """Return statistics for one change of the arrays; before several, `own` them."""
        draft = draft_of(self)
        draft._inverse, draft._is_own = self._inverse.draft(), False
        return draft

    def own(self) -> None:
        """Hold arrays that are no other's: changes are made at once, and may build on another."""
        if not self._is_own:
            self._inverse, self._weights = (
                self._inverse.draft(copied=True),
                self._weights.copy(order="F"),
            )
            self._is_own = True

    def _when(self, commit: Commit) -> Commit:
        drafted = isinstance(commit, DraftCommit)
        return AT_ONCE if self._is_own and drafted else commit

    def unit_rows(self, n_rows: int) -> int:
        """Return how many of the rows of a batch can be learnt by one commit."""
        return n_rows if n_rows > self._n_features else BLOCK_ROWS

    @classmethod
    def of_gram(cls, gram: GramAccumulator, squares: Floats, ridge: float) -> Self:
        """Return the recursion that has learnt what a Gram holds, in ``2 M^3`` operations."""
        new = cls(gram.n_features, gram.n_targets, ridge)
        new._adopt(gram, squares, inverse_of_gram(gram.gram, ridge))
        return new

    def _adopt(self, gram: GramAccumulator, squares: Floats, inverse: RunningInverse) -> None:
        self._inverse, self._squares, self._is_own = inverse, squares, True
        self._weights = np.asfortranarray(gram.solve(self._ridge, squares))
        self._ridges = FadingRidge(self._n_features, self._ridge)

    def _check_rows(self, activations: Matrix, w: float | Floats) -> None:
        weights = np.broadcast_to(w, len(activations))
        used = np.flatnonzero(weights)
        if len(used) and self._n_features:
            rows = np.asarray(activations[used], float)
            check_rows(self._inverse, self._ridge, rows, weights[used])

    def accumulate(self, block: Floats, targets: Matrix, w: float | Floats, commit: Commit) -> None:
        """Add checked float64 rows with weights of any one sign, without counting them."""
        if len(block) == 1 and isinstance(w, float):
            self._accumulate_one(block[0], targets, w, self._when(commit))
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
        elif len(block) <= TOGETHER:
            self._learn(block, targets, weights, sign, self._when(commit))
        else:
            self.own()
            for start in range(0, len(block), BLOCK_ROWS):
                rows = slice(start, start + BLOCK_ROWS)
                self._learn(block[rows], targets[rows], weights[rows], sign, AT_ONCE)
        self._squares = self._squares + sign * (weights @ block**2)[: self._n_features]

    def accumulate_both(
        self,
        parts: tuple[Floats, Matrix, float | Floats],
        row: tuple[Floats, Floats, float],
        commit: Commit,
    ) -> None:
        """Do as `accumulate` for rows and for one more row, together in one change."""
        (block, targets, w), (last, last_targets, weight) = parts, row
        dense = np.zeros((len(block) + 1, self._n_targets))
        if targets.ndim == 1:
            dense[np.arange(len(block)), targets] = 1.0
        else:
            dense[:-1, : targets.shape[1]] = targets
        dense[-1, : last_targets.shape[1]] = last_targets
        weights = np.append(np.broadcast_to(w, len(block)), weight)
        self.accumulate(np.vstack([block, last]), dense, weights, commit)

    def _accumulate_one(self, row: Floats, targets: Matrix, w: float, commit: Commit) -> None:
        """Add a row (n_features,), of one target or row of targets: a few calls of BLAS."""
        if not (w and self._n_features):
            return
        width = self._inverse.width
        wide = row if len(row) == width else padded(row[None], width)[0]
        gain = self._inverse.add_one(wide, w, commit)
        if self._n_targets:
            errors = errors_of(wide[None], self._weights, targets)[0]
            sign = 1.0 if w > 0 else -1.0
            commit.then(dger, sign, gain, errors, a=self._weights, overwrite_a=1)
        commit.assign(self, _squares=self._squares + w * (row * row))

    def _learn(self, rows: Floats, targets: Matrix, w: Floats, sign: float, commit: Commit) -> None:
        errors = errors_of(rows, self._weights, targets).T
        gains = (self._inverse.add if sign > 0.0 else self._inverse.remove)(rows, w, commit)
        if self._n_targets:
            # Errors are of the weights before, and so is the commit's array until it is made.
            weights = self._weights
            commit.then(dgemm, sign, gains, errors, 1.0, weights, trans_b=1, overwrite_c=1)

    def _learn_many(self, block: Floats, targets: Matrix, w: Floats, sign: float) -> None:
        """Learn more rows than features: by way of the Gram."""
        self.own()
        step = np.zeros(self._weights.shape)
        n_rows = max(self._n_features, 1024)
        for start in range(0, len(block), n_rows):
            rows = slice(start, start + n_rows)
            errors = errors_of(block[rows], self._weights, targets[rows])
            step += product(block[rows].T, w[rows, None] * errors)
        known = slice(self._n_features)
        self._inverse.rebuild(block[:, known], w, sign)
        self._weights[known] += sign * self._inverse.times(step[known])

    def _combine(self, other: Self, sign: int, commit: Commit) -> None:
        self.combine_gram(other.information(), other._squares, sign)

    def combine_gram(self, gram: GramAccumulator, squares: Floats, sign: int) -> None:
        """Add or take away what a Gram holds; the whole ridge is then in force again."""
        if not squares.any():
            return
        total = self.information()
        total._combine(gram, sign, AT_ONCE)
        matrix = total.gram
        matrix.flat[:: self._n_features + 1] += self._ridge
        inverse = (
            inverse_of_gram(total.gram, self._ridge) if sign > 0 else RunningInverse.of(matrix)
        )
        self._adopt(total, self._squares + sign * lengthened(squares, self._n_features), inverse)

    def _scale(self, factor: float, commit: Commit) -> None:
        if factor == 0.0:
            self._forget()
        elif 0.5 <= factor < 1.0:
            self._inverse.scale(factor)
            self._squares = self._squares * factor
            self._ridges = draft_of(self._ridges)
            self._learn_ridge(*self._ridges.decay(factor))
        else:
            gram = self.information()
            gram.plan_scaling(factor, AT_ONCE)
            self._adopt(gram, self._squares * factor, inverse_of_gram(gram.gram, self._ridge))

    def plan_restoring(self, commit: Commit) -> None:
        """Bring every entry of D back to c."""
        self._ridges = draft_of(self._ridges)
        self._learn_ridge(*self._ridges.restore())

    def _learn_ridge(self, columns: Integers, amounts: Floats) -> None:
        """Learn the pseudo-rows that bring entries of the ridge back: their targets are 0."""
        if len(columns):
            self.own()
        for start in range(0, len(columns), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            gains = self._inverse.add_diagonal(columns[part], amounts[part])
            self._weights -= gains @ self._weights[columns[part]]

    def plan_growth(self, n_features: int, n_targets: int) -> None:
        """Make room in a draft for features and targets that were 0 in every row so far."""
        n_features, n_targets = map(max, self._sizes, (n_features, n_targets))
        if n_features > self._n_features:
            self._inverse.grow(n_features, self._ridge)
            self._ridges = draft_of(self._ridges)
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

    def _keep_targets(self, columns: Integers, commit: Commit) -> None:
        self._weights = picked_columns(self._weights, columns, self._when(commit))
