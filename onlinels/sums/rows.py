"""Rows to learn: checked, about their mean, and apart from those that dwarf others.

Sums about the mean: the co-moments of two parts add up if the outer product of the difference of
their means is added, weighted by n_a n_b / (n_a + n_b): T. F. Chan, G. H. Golub and R. J. LeVeque,
"Algorithms for computing the sample variance", The American Statistician 37 (1983).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Floats, Integers, Matrix, ignoring
from onlinels.core.constants import CONSTANT_TOLERANCE, MIN_ROWS_DWARFED, MUCH_HEAVIER, MUCH_LARGER
from onlinels.numerics import enlarged, is_array
from onlinels.rows.batch import Columns
from onlinels.rows.times import Times
from onlinels.saving import savable
from onlinels.sums.packed import PANEL_COLUMNS
from onlinels.sums.removals import Prints, prints_of, prints_of_counts


class Targets(NamedTuple):
    """The targets of rows, read and checked.

    Attributes
    ----------
    values : ndarray (n,) of int, or (n, n_targets)
        Column of the label, or targets, of every row.
    outputs : Classes, or tuple of names
        Names of the outputs of the model, with those of the rows.
    """

    values: Matrix
    outputs: Any


class Checked(NamedTuple):
    """Rows of a batch, checked and placed in the columns of the model.

    Attributes
    ----------
    values : array or csr_array (n, n_features)
        Values of the features, with new columns of the model.
    targets : ndarray (n,) of int, or (n, n_targets) of float
        Column of the label, or targets, of every row.
    w : float or ndarray (n,)
        Weights when the rows are learnt.
    times : ndarray (n,) of float or object, or None
        Exact times of the rows.
    columns : Columns
        Columns of the model after these rows.
    outputs : Classes, or tuple of names
        Names of the outputs of the model after these rows.
    """

    values: Any
    targets: Matrix
    w: float | Floats
    times: Times | None
    columns: Columns
    outputs: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Number of features and of targets of the model after these rows."""
        return len(self.columns), len(self.outputs)

    def part(self, rows: slice) -> Checked:
        """Return some of the rows."""
        return self._replace(
            values=self.values[rows],
            targets=self.targets[rows],
            w=self.w if isinstance(self.w, float) else self.w[rows],
            times=None if self.times is None else self.times[rows],
        )


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


@savable(lambda mean: is_array(mean.offset, *mean.origin.shape))
class Mean(NamedTuple):
    """The mean of the features, followed by the targets: an origin and an offset from it.

    The origin is the first row at first, and an earlier mean later, so that a mean far from 0 keeps
    its digits.
    """

    origin: Floats
    offset: Floats

    # Without an annotation, it is no field.
    AXES = MappingProxyType({"origin": ("columns",), "offset": ("columns",)})

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


N_COMPARED = 256
"""Number of the heaviest rows of a first batch that are compared with each other."""


@ignoring("over", "invalid")
def beyond(rows: Rows, centre: Floats, limits: Floats) -> NDArray[np.bool_]:
    """Return which rows have a column whose weighted square about a centre exceeds its limit.

    Parameters
    ----------
    rows : Rows
        Rows with their targets; labels are not looked at.
    centre, limits : ndarray (n_features + n_targets,)

    Examples
    --------
    >>> rows = Rows(np.array([[0.0, 9.0], [8.0, 9.0]]), np.zeros((2, 1)))
    >>> beyond(rows, np.array([1.0, 9.0, 0.0]), np.array([10.0, 0.0, 0.0]))
    array([False,  True])
    """
    found = np.zeros(len(rows.values), dtype=bool)
    weights, n_features = rows.weights(), rows.values.shape[1]
    parts = [(rows.values, slice(0, n_features))]
    if rows.targets.ndim == 2:
        parts.append((rows.targets, slice(n_features, n_features + rows.targets.shape[1])))
    for values, columns in parts:
        origin, most = centre[columns], limits[columns]
        # Most rows exceed nothing, which a product tells, and otherwise two passes. Measured:
        # a product takes 2% of learning 1,000 rows of 256 features, two passes 6%.
        total = np.vdot(values, values) if values.flags.c_contiguous else np.inf
        if (weights.max() * 2.0 * (float(total) + origin**2) <= most).all():
            continue
        reach = np.maximum(values.max(axis=0) - origin, origin - values.min(axis=0))
        (which,) = np.nonzero(weights.max() * reach**2 > most)
        if which.size:
            squares = weights[:, None] * (values[:, which] - origin[which]) ** 2
            found |= (squares > most[which]).any(axis=1)
    return found


@ignoring("over", "invalid")
def spread_of_first(rows: Rows, held: Floats, is_centred: bool) -> tuple[Floats, Floats]:
    """Return the medians of the first rows of a stream, and sums of squares about them.

    Squares are added up from the smallest to the largest, to the first that is `MUCH_LARGER` than
    the sum of all below it; `held` are sums of squares of earlier rows.
    """
    heaviest = np.argsort(-rows.weights(), kind="stable")[:N_COMPARED]
    first = rows.some(heaviest)
    values = np.hstack((first.values, first.dense_targets(len(held) - first.values.shape[1])))
    centre = np.median(values, axis=0) if is_centred else np.zeros(len(held))
    squares = np.sort(first.weights()[:, None] * (values - centre) ** 2, axis=0)
    sums = held + np.cumsum(squares, axis=0)
    below, above = sums[MIN_ROWS_DWARFED - 1 : -1], squares[MIN_ROWS_DWARFED:]
    jumps = (above > MUCH_LARGER * below) & (below > of_rounding(centre, len(values)))
    last = np.where(jumps.any(axis=0), MIN_ROWS_DWARFED - 1 + jumps.argmax(axis=0), -1)
    return centre, sums[last, np.arange(len(held))]


@ignoring("over")
def of_rounding(mean: Floats, weight: float) -> Floats:
    """Return the sums of squares that rounding of constant features may cause."""
    bound: Floats = CONSTANT_TOLERANCE**2 * weight * mean**2
    return bound
