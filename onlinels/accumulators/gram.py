"""The Gram form: A'A and A'Y in float64, mergeable and subtractable."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.linalg.blas import dger
from scipy.sparse import csr_array

from onlinels.accumulators.base import (
    LEDGER,
    Accumulator,
    Covariance,
    Rows,
    adding_squares,
    has_sound_sizes,
)
from onlinels.checks import Floats, Integers, checked_assignment
from onlinels.linalg.packed import PANEL, PackedSymmetric, spread
from onlinels.linalg.recursion import Recursion
from onlinels.linalg.selection import Sums, check_penalties
from onlinels.linalg.solve import (
    SMALLEST_FOLLOWED,
    inverse_of_gram,
    invert_gram,
    solve_gram,
)
from onlinels.numerics import Calls, State, enlarged, product
from onlinels.saving import COLUMNS, VECTOR, made_of, savable

FEW_CLASSES = 64
"""Classes up to which a batch's labels are added by a product; of more each row for itself.

Measured: of 10 classes in batches of 7 rows it takes two thirds of the time to learn them.
"""

TRUSTED = 1e-3
"""Least eigenvalue, of the system scaled to unit diagonal, from which nothing need be refined."""


@savable(
    {
        **LEDGER,
        "_gram": made_of(PackedSymmetric),
        "_cross": COLUMNS,
        "_target_squares": VECTOR,
    },
    lambda acc: has_sound_sizes(acc, acc._cross.shape, (acc._gram.size, acc.n_targets)),
)
class GramAccumulator(Accumulator):
    """Accumulate A'A and A'Y, the sufficient statistics of least squares without an intercept.

    For rows a_k with targets y_k and weights w_k: gram = sum_k w_k a_k a_k' and
    cross = sum_k w_k a_k y_k' (A A^T and Y A^T of the paper, whose samples are columns).

    Parameters
    ----------
    n_features : int
        Columns of the activations known beforehand. More may come at any time.
    n_targets : int
        Targets (classes) known beforehand. More may come at any time.

    Notes
    -----
    Memory: ``4 M (M + 1024) + 8 M N`` bytes for M features (``8 M^2`` up to 1,024 of them) and N
    targets, whatever the length of the stream, and during an update copies of at most 64 MiB of
    rows. An update of n rows costs ``n M^2`` operations, half of a plain product, by symmetric
    rank-k updates in place; label columns cost ``n M`` more, however many classes there are. Many
    rows at once are learnt faster than one by one above some 500 features. All sums are float64:
    with float32 sums the Gram of the paper's network cannot be factored at any ridge that
    classifies well. Weights enter linearly, so statistics of whole numbers are exact. Solving
    squares the condition number of A: about 8 of 16 digits are left for features that are nearly
    collinear.

    Examples
    --------
    >>> acc = GramAccumulator()
    >>> acc.update(np.array([[1.0, 2.0], [0.0, 1.0]]), targets=np.array([0, 1]))
    >>> acc.gram
    array([[1., 2.],
           [2., 5.]])
    >>> acc.cross
    array([[1., 0.],
           [2., 1.]])
    >>> other = GramAccumulator()
    >>> other.update(np.array([[1.0, 1.0]]), targets=np.array([2]))
    >>> acc.merge(other)
    >>> acc.cross
    array([[1., 0., 1.],
           [2., 1., 1.]])
    """

    __setattr__ = checked_assignment

    by_target = (*Accumulator.by_target, "_target_squares")

    def __init__(self, n_features: int = 0, n_targets: int = 0) -> None:
        super().__init__(n_features, n_targets)
        self._target_squares = np.zeros(n_targets)
        self._gram = PackedSymmetric(n_features)
        # Fortran order: BLAS would silently work on a copy of anything else.
        self._cross = np.zeros((n_features, n_targets), order="F")

    @classmethod
    def of(cls, gram: Floats, cross: Floats) -> Self:
        """Return the accumulator of given sums A'A and A'Y, whose rows it does not count."""
        new = cls(*cross.shape)
        new._gram, new._cross = PackedSymmetric.of(gram), np.array(cross, order="F")
        return new

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes of the sums and of a factor: see `PackedSymmetric`."""
        return 8 * n_features * (n_features + min(n_features, PANEL) + 2 * n_targets)

    @property
    def gram(self) -> Floats:
        """A'A, (n_features, n_features), as a new array."""
        return self._gram.full()

    @property
    def cross(self) -> Floats:
        """A'Y, (n_features, n_targets), as a new array."""
        return self._cross.copy()

    def _raw_squares(self) -> tuple[Floats, Floats]:
        return self._gram.diagonal(), self._target_squares

    def _plan_row(self, sample: Floats, w: float, decay: float) -> tuple[Calls, State]:
        n_features = self._n_features
        if not (n_features and self._n_targets):
            return super()._plan_row(sample, w, decay)
        calls = self._plan_scaling(decay) if decay != 1.0 else ()
        row, targets = sample[:n_features], sample[n_features:]
        joining = (dger, w, row, targets, 1, 1, self._cross, 0, 0, 1)
        squares = adding_squares(self._target_squares, targets, w, decay)
        return (*calls, *self._gram.plan_product(row, w), joining, squares), ()

    def _plan_scaling(self, factor: float) -> Calls:
        return (*self._gram.plan_scaling(factor), (np.multiply, self._cross, factor, self._cross))

    def _plan_sums(self, rows: Rows, decay: float) -> tuple[Calls, State]:
        calls = self._plan_scaling(decay) if decay != 1.0 else ()
        if len(rows.values) and self._n_features:
            products = self._gram.plan_products(rows.values, rows.w, rows.sign)
            calls = (*calls, *products, *self._plan_cross(rows))
        squares = rows.added_target_squares(self._target_squares * decay)
        return calls, ((self, "_target_squares", squares), *self._squares_noted(rows, decay))

    def _plan_cross(self, rows: Rows) -> Calls:
        values, targets, last = rows.values, rows.targets, rows.last
        weights = rows.sign * rows.weights()
        calls: Calls = ()
        if last is not None:
            # The way between two means, which is float64.
            calls = ((dger, weights[-1], values[-1], last, 1, 1, self._cross, 0, 0, 1),)
            weights = weights[:-1]
        if targets.ndim == 2:
            # With zeros for the way: rows without their last one do not lie together in memory.
            weighted = np.zeros((len(values), targets.shape[1]), np.result_type(targets, weights))
            np.multiply(targets, weights[:, None], out=weighted[: len(targets)])
            sums = product(values.T, weighted)
            here = self._cross[:, : sums.shape[1]]
            return (*calls, (np.add, here, sums, here))
        # The rows of every class present enter its column, without a wide one-hot matrix.
        present, which = np.unique(targets, return_inverse=True)
        places = which, np.arange(len(targets))
        if len(present) <= FEW_CLASSES:
            one_hot = np.zeros((len(present), len(values)))
            one_hot[places] = weights
            sums = product(values.T, one_hot.T).T
        else:
            sums = csr_array((weights, places), shape=(len(present), len(values))) @ values
        columns = self._cross.T
        total = np.empty((len(present), columns.shape[1]))
        return (
            *calls,
            # "clip" spares numpy a copy.
            (columns.take, present, 0, total, "clip"),
            (np.add, total, sums, total),
            (columns.__setitem__, present, total),
        )

    def _absorb_sums(self, other: Self, w: float) -> None:
        self._gram.add(other._gram, w)
        self._cross[: other.n_features, : other.n_targets] += w * other._cross
        squares = enlarged(other._target_squares, self._n_targets)
        self._target_squares = self._target_squares + w * squares

    def _rearrange_sums(self, features: Integers, targets: Integers) -> None:
        self._gram = self._gram.placed(features, self._n_features)
        size = self._n_features, self._n_targets
        self._cross = spread(self._cross, size, features, targets)

    def _keep_sums(self, columns: Integers) -> None:
        self._cross = np.asfortranarray(self._cross[:, columns])

    def solve(
        self,
        ridge: float | Floats,
        diagonal: Floats | None = None,
        n_rows: int | None = None,
    ) -> Floats:
        """Return the output weights W of (A'A + D) W = A'Y, with D = c I or any diagonal.

        Parameters
        ----------
        ridge : float, or ndarray (n_features,)
            The ridge c, or the penalty of every feature; 0.0 gives the pseudo-inverse solution of
            minimum norm.
        diagonal : ndarray (n_features,), optional
            Instead of `self.diagonal`: with 0 for features that hold only rounding errors.

        Returns
        -------
        ndarray (n_features, n_targets), float64

        Notes
        -----
        ``M^3 / 3`` operations, see `onlinels.linalg.solve.solve_gram` for these and the rank
        tolerance. Every call solves anew; `onlinels.LeastSquaresClassifier` says when a solution
        goes on from row to row instead.

        Examples
        --------
        >>> acc = GramAccumulator()
        >>> acc.update(np.array([[1.0], [1.0]]), np.array([[3.0], [5.0]]))
        >>> acc.solve(ridge=0.0)
        array([[4.]])
        """
        check_penalties(ridge)
        diagonal = self.diagonal if diagonal is None else diagonal
        n_rows = self._count if n_rows is None else n_rows
        return solve_gram(self._gram, self._cross, ridge, diagonal, n_rows)

    def recursion_of(
        self, output_weights: Floats, ridge: float, penalties: Floats
    ) -> tuple[Recursion, float] | None:
        """Return a solution that may follow single rows; None where rounding would mislead it."""
        inverse = inverse_of_gram(self._gram, penalties)
        if inverse is None:
            return None
        weights = np.array(output_weights, order="F")
        return Recursion.of_inverse(inverse[0], weights, penalties, ridge), min(
            1.0, inverse[1] / TRUSTED
        )

    def refine(self, solution: Recursion) -> float:
        """Bring a solution that followed rows nearer to that of the sums, in place.

        Returns how far it can be trusted, as `recursion_of`, as now seen in the variance inflation
        of single features; 0 where rounding has the better of it, and nothing has changed.
        """
        weights, penalties = solution.weights, solution.penalties
        inflation = (self._gram.diagonal() + penalties) * solution.variances()
        largest = float(inflation.max(initial=1.0))
        if not (inflation.min(initial=1.0) > 0.0 and largest * SMALLEST_FOLLOWED < 1.0):
            return 0.0
        penalised = penalties[:, None] * weights
        solution.correct(self._cross - self._gram.times(weights) - penalised)
        return min(1.0, 1.0 / (largest * TRUSTED))

    def covariance(self, ridge: float | Floats, diagonal: Floats | None = None) -> Covariance:
        """Return (A'A + D)^-1; see `Accumulator.covariance`."""
        diagonal = self.diagonal if diagonal is None else diagonal
        return Covariance(*invert_gram(self._gram, ridge, diagonal))

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, (n_targets,)."""
        shortfall = 2.0 * self._cross - self._gram.times(output_weights)
        explained: Floats = (output_weights * shortfall).sum(axis=0)
        return explained

    def sums(self) -> Sums:
        """Return the sums in new memory."""
        return Sums(self._gram.square(), self.cross, self.target_squares, self.weight)

    def sums_about(self, centre: Self) -> Sums:
        """Return the sums themselves: raw sums are about 0 whatever the centre."""
        return self.sums()
