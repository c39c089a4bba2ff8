"""Rows to learn, and their mean.

Sums about the mean: the co-moments of two parts add up if the outer product of the difference of
their means is added, weighted by n_a n_b / (n_a + n_b): T. F. Chan, G. H. Golub and R. J. LeVeque,
"Algorithms for computing the sample variance", The American Statistician 37 (1983).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Floats, Integers, Matrix
from onlinels.core.reference import MUCH_HEAVIER
from onlinels.numerics import enlarged
from onlinels.saving import savable
from onlinels.sums.packed import PANEL_COLUMNS, gathered
from onlinels.sums.removals import Prints, prints_of, prints_of_counts


class Rows(NamedTuple):
    """Checked rows to add or remove.

    Attributes
    ----------
    values : ndarray (n, n_features)
        Values of the features, float32 or float64.
    targets : ndarray (n,) of int, or (n, n_targets) of float
        Column of the label, or targets, of every row.
    w : float or ndarray (n,)
        Weights, at least 0.
    sign : float
        1 to learn the rows, -1 to remove them.
    target_origin : ndarray (n_targets,), optional
        Origin subtracted from the one-hot targets of labels.
    """

    values: Matrix
    targets: Matrix
    w: float | Floats = 1.0
    sign: float = 1.0
    target_origin: Floats | None = None

    @classmethod
    def none(cls, n_features: int) -> Rows:
        """Return no rows, of `n_features` columns."""
        return cls(np.zeros((0, n_features)), np.zeros(0, dtype=np.intp))

    def weights(self) -> Floats:
        """Return the weights as a vector (n,)."""
        return np.broadcast_to(np.asarray(self.w, dtype=np.float64), len(self.values))

    def prints(self, n_targets: int, which: NDArray[np.bool_]) -> Prints:
        """Return the fingerprints of the features, then of the targets, of some rows."""
        rows = self if which.all() else self.some(which)
        return np.hstack((prints_of(rows.values), target_prints(rows.targets, n_targets)))

    def some(self, which: slice | NDArray[np.bool_] | Integers) -> Rows:
        """Return some of the rows."""
        w = self.w if isinstance(self.w, float) else self.w[which]
        return Rows(self.values[which], self.targets[which], w, self.sign)

    def dense_targets(self, n_targets: int) -> Floats:
        """Return the targets of all rows, (n, n_targets): 0 for targets that the rows lack."""
        dense = np.zeros((len(self.targets), n_targets), order="F")
        if self.targets.ndim == 1:
            dense[np.arange(len(self.targets)), self.targets] = 1.0
        else:
            dense[:, : self.targets.shape[1]] = self.targets
        if self.target_origin is not None:
            dense -= self.target_origin
        return dense

    def squares(self) -> Floats:
        """Return the weighted sum of squares of every feature, (n_features,)."""
        squares: Floats = self.weights() @ np.square(self.values, dtype=np.float64)
        return squares

    def target_squares(self, n_targets: int) -> Floats:
        """Return the weighted sum of squares of every target, (n_targets,)."""
        each = self.targets if self.targets.ndim == 1 else self.targets**2
        return target_sums(each, self.weights(), n_targets)


def target_prints(targets: Matrix, n_targets: int) -> Prints:
    """Return the fingerprints of targets, or of one-hot targets of labels."""
    if targets.ndim == 1:
        return prints_of_counts(np.bincount(targets, minlength=n_targets))
    return enlarged(prints_of(targets), 2, n_targets)


def target_sums(targets: Matrix, w: Floats, n_targets: int) -> Floats:
    """Return the weighted sums of targets, (n_targets,); of labels, the weights."""
    if targets.ndim == 1:
        return np.bincount(targets, w, n_targets).astype(np.float64, copy=False)
    return enlarged(w @ targets, n_targets)


@savable(lambda mean: mean.origin.shape == mean.offset.shape)
class Mean(NamedTuple):
    """The mean of the features, followed by the targets: an origin and an offset from it.

    The origin is the first row at first, and an earlier mean later, so that a mean far from 0 keeps
    its digits.
    """

    origin: Floats
    offset: Floats

    @property
    def value(self) -> Floats:
        """The mean, (n_features + n_targets,)."""
        value: Floats = self.origin + self.offset
        return value

    def difference(self, other: Mean) -> Floats:
        """Return another mean minus this mean."""
        difference: Floats = (other.origin - self.origin) + (other.offset - self.offset)
        return difference

    def joined(self, other: Mean, mine: float, theirs: float) -> Mean:
        """Return the mean of two parts of the weights `mine` and `theirs`, which may be below 0.

        The mean of a far heavier part moves, so that a light part far away costs no digits.
        """
        start, way = (other, -mine) if theirs > MUCH_HEAVIER * mine else (self, theirs)
        offset = start.offset + way / (mine + theirs) * self.difference(other)
        return Mean(start.origin, offset).settled()

    def settled(self) -> Mean:
        """Return the same mean with the rounded mean as origin, and the rest as offset."""
        mean = self.value
        way = mean - self.origin
        return Mean(mean, (self.origin - (mean - way)) + (self.offset - way))

    def reindexed(self, columns: Integers) -> Mean:
        """Return the mean of the given columns; 0 for the column -1."""
        return Mean(*(gathered(each, columns) for each in self))

    @classmethod
    def zero(cls, size: int) -> Mean:
        """Return the mean of no rows."""
        return cls(*np.zeros((2, size)))


def centred(
    rows: Rows, n_targets: int, total: float, before: Mean, share: float
) -> tuple[Rows, Mean, Floats]:
    """Return rows centred for sums about the mean, their mean, and the squares of their targets.

    Rows z_k of weight W about their own mean lack the outer product of the difference d between
    their mean and the mean before them, with the weight N W / (N + W). Shifting the rows by
    c = -sqrt(N / (N + W)) d adds this product: sum_k w_k (z_k + c)(z_k + c)' is
    sum_k w_k z_k z_k' + W c c', because sum_k w_k z_k is 0. So sums of any form learn the number of
    rows that there are, and no additional row.

    Parameters
    ----------
    rows : Rows
        The rows to centre.
    n_targets : int
        Number of targets.
    total : float
        Sum W of the weights, above 0.
    before : Mean
        The mean before these rows.
    share : float
        N / (N + W), where N is the weight of the rows before; 0 if there were no other rows.
    """
    # Relative to the first row with a weight: the mean of a constant is then exactly its value.
    row = 0 if isinstance(rows.w, float) else int(np.argmax(rows.w > 0.0))
    first = rows.values[row].astype(np.float64)
    n_features = len(first)
    # Column-major if the sums of products are in panels. Measured: transposing before centring
    # takes 0.6 of the time.
    by_column = n_features > PANEL_COLUMNS
    values = np.empty(rows.values.shape, order="F" if by_column else "C")
    if by_column:
        np.copyto(values, rows.values)
        values -= first
    else:
        np.subtract(rows.values, first, out=values)
    # The mean is the same to the last digit wherever rows lie in memory.
    shift = values.mean(axis=0) if isinstance(rows.w, float) else rows.w @ values / total
    targets, weights, origin = rows.targets, rows.weights(), None
    if targets.ndim == 1:
        by_class = target_sums(targets, weights, n_targets)
        in_all = by_class.sum()
        first_target, target_shift = np.zeros(n_targets), by_class / in_all
    else:
        targets = targets - targets[row]
        first_target = enlarged(rows.targets[row].copy(), n_targets)
        target_shift = target_sums(targets, weights, n_targets) / total
    mean = Mean(np.concatenate((first, first_target)), np.concatenate((shift, target_shift)))
    moved = -np.sqrt(share) * before.difference(mean)
    values -= shift - moved[:n_features]
    target_moved = moved[n_features:]
    if targets.ndim == 1:
        # The weight of the other classes by subtraction from the sum: exactly 0 for one class.
        squares = by_class * ((in_all - by_class) / in_all) + in_all * target_moved**2
        # Rows about their mean sum up to 0, so the origin of the labels does not matter.
        origin = target_shift - target_moved if share else None
    else:
        targets -= (target_shift - target_moved)[: targets.shape[1]]
        squares = target_sums(targets**2, weights, n_targets)
    return rows._replace(values=values, targets=targets, target_origin=origin), mean, squares
