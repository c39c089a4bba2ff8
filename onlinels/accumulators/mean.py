"""The mean of rows and targets, and rows centred for sums about the mean.

The co-moments of two parts add up if the outer product of the difference of their means is added,
weighted by n_a n_b / (n_a + n_b): T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for
computing the sample variance", The American Statistician 37 (1983).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onlinels.accumulators.sums import Rows, with_target_sums
from onlinels.checks import Floats, Integers
from onlinels.linalg.packed import PANEL_COLUMNS, gathered, stacked
from onlinels.numerics import enlarged
from onlinels.saving import savable

CONSTANT_TOLERANCE = 2.0 * float(np.finfo(np.float64).eps)
"""Relative deviation from the mean, or from the only value, up to which a feature is constant.

These are two to four units in the last place: what rounding does to values that would be equal.
"""

MUCH_HEAVIER = 1000.0
"""Weight of rows, relative to the rows before, from which their mean becomes the origin."""


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

    def moved(self, difference: Floats, share: float) -> Mean:
        """Return the mean moved by a share of a difference."""
        return Mean(self.origin, self.offset + share * difference).settled()

    def joined(self, other: Mean, mine: float, theirs: float) -> Mean:
        """Return the mean of two parts of the weights `mine` and `theirs`, which may be below 0.

        The mean of a far heavier part moves, so that a light part far away costs no digits.
        """
        difference, total = self.difference(other), mine + theirs
        if theirs > MUCH_HEAVIER * mine:
            return other.moved(difference, -mine / total)
        return self.moved(difference, theirs / total)

    def settled(self) -> Mean:
        """Return the same mean with the rounded mean as origin, and the rest as offset."""
        mean = self.value
        way = mean - self.origin
        return Mean(mean, (self.origin - (mean - way)) + (self.offset - way))

    def reindexed(self, n_features: int, features: Integers, targets: Integers) -> Mean:
        """Return the mean of the given features and targets; 0 for the column -1."""
        places = stacked(features, targets, n_features)
        return Mean(*(gathered(each, places) for each in self))

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
        by_class = with_target_sums(np.zeros(n_targets), targets, weights)
        in_all = by_class.sum()
        first_target, target_shift = np.zeros(n_targets), by_class / in_all
    else:
        targets = targets - targets[row]
        first_target = enlarged(rows.targets[row].copy(), n_targets)
        target_shift = with_target_sums(np.zeros(n_targets), targets, weights) / total
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
        squares = with_target_sums(np.zeros(n_targets), targets**2, weights)
    return rows._replace(values=values, targets=targets, target_origin=origin), mean, squares
