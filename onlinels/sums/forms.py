"""The two forms of the sums of products: A'A and A'Y, and the factor R of A = QR, in float64."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from scipy.linalg.blas import dger
from scipy.sparse import csr_array

from onlinels.checks import Floats, row_blocks
from onlinels.core.constants import MIN_EIGENVALUE_UNREFINED
from onlinels.numerics import Calls, are_columns, product
from onlinels.saving import savable
from onlinels.sums.axes import Places, Room, has_axes, moved_by_axes
from onlinels.sums.low_rank import LowRank
from onlinels.sums.packed import PANEL_COLUMNS, PackedSymmetric
from onlinels.sums.recursion import Recursion
from onlinels.sums.rows import Rows
from onlinels.sums.solve import (
    MIN_EIGENVALUE_FOR_UPDATES,
    inverse_of_gram,
    invert_factor,
    invert_gram,
    solve_factor,
    solve_gram,
    triangular,
    with_rows,
)

MAX_CLASSES_BY_PRODUCT = 64
"""Number of classes in a batch up to which labels are added by one product, not row by row.

Measured: with 10 classes in batches of 7 rows, learning takes two thirds of the time.
"""


def products_fit(sums: Any) -> bool:
    """Return whether loaded sums of products are of the same features."""
    return bool(sums.gram.size == len(sums.cross) and are_columns(sums.cross))


@savable(products_fit)
@has_axes(gram=(), cross=("features", "targets"))
class GramSums:
    """A'A, as its upper triangle in panels, and A'Y.

    For rows a_k with targets y_k and weights w_k: gram = sum_k w_k a_k a_k' and
    cross = sum_k w_k a_k y_k' (A A^T and Y A^T of the paper, whose samples are columns).

    All sums are float64: with float32 sums, the Gram of the paper's network cannot be factored at
    any ridge that classifies well. The sums are linear in the weights of the rows, so statistics of
    whole numbers are exact. Solving squares the condition number of A: about 8 of 16 digits are
    left for nearly collinear features. For M features and N targets, they take
    ``4 M (M + 1024) + 8 M N`` bytes (``8 M^2`` up to 1,024 features), and n rows ``n M^2``
    operations, half of a plain product, by symmetric rank-k updates in place.

    Examples
    --------
    >>> from onlinels.core.apply import apply
    >>> sums = GramSums(1, 1)
    >>> apply(sums.plan_rows(Rows(np.array([[3.0]]), np.array([[4.0]])), decay=1.0))
    >>> sums.gram_and_cross()
    (array([[9.]]), array([[12.]]))
    """

    form = "gram"
    # Whether `recursion_of` returns a recursion, and whether rows can be removed.
    allows_recursion = can_remove = True

    def __init__(self, n_features: int = 0, n_targets: int = 0) -> None:
        self.gram = PackedSymmetric(n_features)
        # Fortran order: BLAS would silently work on a copy of an array in another order.
        self.cross = np.zeros((n_features, n_targets), order="F")

    @classmethod
    def of(cls, gram: Floats, cross: Floats) -> GramSums:
        """Return copies of A'A, of which the upper triangle is read, and of A'Y."""
        new = GramSums()
        new.gram, new.cross = PackedSymmetric.of(gram), np.array(cross, order="F")
        return new

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and of targets."""
        return self.cross.shape[0], self.cross.shape[1]

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes of the sums and of a factor: see `PackedSymmetric`."""
        return 8 * n_features * (n_features + min(n_features, PANEL_COLUMNS) + 2 * n_targets)

    def squares(self) -> Floats:
        """Return the diagonal of A'A."""
        return self.gram.diagonal()

    def row_arrays(self) -> tuple[Floats, ...]:
        """Return A'Y and the panels of A'A, into which `onlinels.core` learns single rows."""
        return self.cross, *(part for panel in self.gram.panels for part in panel)

    def plan_rows(self, rows: Rows, decay: float) -> Calls:
        """Plan to decay all rows and to add or remove rows."""
        calls: Calls = ()
        if decay != 1.0:
            calls = (*self.gram.plan_scaling(decay), (np.multiply, self.cross, decay, self.cross))
        if self.cross.size and len(rows.values):
            products = self.gram.plan_products(rows.values, rows.w, rows.sign)
            calls = (*calls, *products, *self._plan_cross(rows))
        return calls

    def _plan_cross(self, rows: Rows) -> Calls:
        values, targets, weights = rows.values, rows.targets, rows.sign * rows.weights()
        if targets.ndim == 2:
            sums = product(values.T, targets * weights[:, None])
            here = self.cross[:, : sums.shape[1]]
            return ((np.add, here, sums, here),)
        # Rows are added to the columns of the classes present, without a wide one-hot matrix.
        present, which = np.unique(targets, return_inverse=True)
        places = which, np.arange(len(targets))
        if len(present) <= MAX_CLASSES_BY_PRODUCT:
            one_hot = np.zeros((len(present), len(values)))
            one_hot[places] = weights
            sums = product(values.T, one_hot.T).T
        else:
            sums = csr_array((weights, places), shape=(len(present), len(values))) @ values
        columns = self.cross.T
        total = np.empty((len(present), columns.shape[1]))
        calls: Calls = ()
        if rows.target_origin is not None:
            row = sums.sum(axis=0)
            calls = ((dger, -1.0, row, rows.target_origin, 1, 1, self.cross, 0, 0, 1),)
        return (
            *calls,
            # "clip" saves a copy.
            (columns.take, present, 0, total, "clip"),
            (np.add, total, sums, total),
            (columns.__setitem__, present, total),
        )

    def for_file(self, n_rows: int) -> GramSums:
        """Return these sums with A'A in the smallest form that a file may hold; see `LowRank`."""
        new = copy.copy(self)
        new.gram = LowRank.of(self.gram, n_rows)  # type: ignore[assignment]
        return new

    def with_room(self, room: Room) -> GramSums:
        """Return these sums with room for more features and targets; see `Room`."""
        new = object.__new__(type(self))
        new.gram, new.cross = self.gram.with_room(room), np.zeros(room.new, order="F")
        new.cross[: room.old[0], : room.old[1]] = self.cross
        return new

    def add(self, other: Any) -> None:
        """Add sums of as many columns, in place; no other object may use these sums."""
        self.gram.add(other.gram)
        self.cross += other.cross

    def gram_and_cross(self) -> tuple[Floats, Floats]:
        """Return A'A, of which the upper triangle is read, and A'Y, in new memory."""
        return self.gram.square(), self.cross.copy()

    def solve(self, penalties: float | Floats, diagonal: Floats, n_rows: int) -> Floats:
        """Return the W of (A'A + D) W = A'Y, a new array; see `onlinels.sums.solve.solve_gram`."""
        return solve_gram(self.gram, self.cross, penalties, diagonal, n_rows)

    def covariance(self, penalties: float | Floats, diagonal: Floats) -> tuple[Floats, float]:
        """Return (A'A + D)^-1 and the trace of its product with A'A."""
        return invert_gram(self.gram, penalties, diagonal)

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, (n_targets,)."""
        shortfall = 2.0 * self.cross - self.gram.times(output_weights)
        explained: Floats = (output_weights * shortfall).sum(axis=0)
        return explained

    def explained_products(self, output_weights: Floats) -> Floats:
        """Return W'A'Y, (n_targets, n_targets)."""
        return product(output_weights.T, self.cross)

    def recursion_of(
        self, output_weights: Floats, ridge: float, penalties: Floats
    ) -> Recursion | None:
        """Return a recursion that can learn single rows; None if rounding prevails."""
        inverse = inverse_of_gram(self.gram, penalties)
        if inverse is None:
            return None
        new = Recursion(*self.shape, ridge)
        new.inverse, new.weights[:], new.full_penalties[:] = inverse[0], output_weights, penalties
        new.trust = min(1.0, inverse[1] / MIN_EIGENVALUE_UNREFINED)
        return new

    def refine(self, recursion: Recursion) -> float:
        """Correct the weights of a recursion by the sums, in place; return its trust.

        The trust is that of `recursion_of`, estimated from the variance inflation of single
        features. If rounding prevails, return 0 and change nothing.
        """
        weights, penalties = recursion.weights, recursion.penalties
        inflation = (self.gram.diagonal() + penalties) * recursion.variances()
        largest = float(inflation.max(initial=1.0))
        if not (inflation.min(initial=1.0) > 0.0 and largest * MIN_EIGENVALUE_FOR_UPDATES < 1.0):
            return 0.0
        penalised = penalties[:, None] * weights
        weights += recursion.times(self.cross - self.gram.times(weights) - penalised)
        return min(1.0, 1.0 / (largest * MIN_EIGENVALUE_UNREFINED))


@savable(
    lambda sums: (
        sums.factor.shape == (len(sums.rotated), len(sums.rotated))
        and are_columns(sums.factor, sums.rotated)
    )
)
@has_axes(factor=("features", "features"), rotated=("features", "targets"))
class FactorSums:
    """R and Q'Y of A = QR: R'R = A'A and R'(Q'Y) = A'Y, which are not formed.

    The rows of A are sqrt(w_k) a_k. Orthogonal transformations rotate new rows into the old factor,
    so half as many digits are lost to nearly collinear features as in A'A. Rows cannot be removed:
    the small difference of two large factors has lost its digits. For M features and N targets,
    n rows take ``2 n M^2 + 4 n M N`` operations.

    References
    ----------
    G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th edition, 2013, section 6.5.

    Examples
    --------
    >>> from onlinels.core.apply import apply
    >>> sums = FactorSums(1, 1)
    >>> apply(sums.plan_rows(Rows(np.array([[3.0], [4.0]]), np.ones((2, 1))), decay=1.0))
    >>> np.abs(sums.factor)
    array([[5.]])
    """

    form = "orthogonal"
    allows_recursion = can_remove = False

    def __init__(self, n_features: int = 0, n_targets: int = 0) -> None:
        # Fortran order, as in LAPACK.
        self.factor = np.zeros((n_features, n_features), order="F")
        self.rotated = np.zeros((n_features, n_targets), order="F")

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and of targets."""
        return self.rotated.shape[0], self.rotated.shape[1]

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes of the factor and of the three factors that a solution needs."""
        return 32 * n_features * (n_features + n_targets)

    def squares(self) -> Floats:
        """Return the weighted sum of squares of every feature, (n_features,)."""
        squares: Floats = np.einsum("ij,ij->j", self.factor, self.factor)
        return squares

    def row_arrays(self) -> tuple[Floats, ...]:
        """Return no arrays: single rows are learnt as batches are."""
        return ()

    def plan_rows(self, rows: Rows, decay: float) -> Calls:
        """Plan to decay all rows and to rotate new rows into the factor."""
        factor, rotated = self.factor, self.rotated
        if decay != 1.0:
            factor, rotated = factor * np.sqrt(decay), rotated * np.sqrt(decay)
        if len(rows.values) and len(factor):
            root = np.sqrt(rows.weights())[:, None]
            # Blocks of 4 MiB of targets, because those of labels are dense here.
            for part in row_blocks(len(root), 16 * self.shape[1]):
                targets = rows._replace(targets=rows.targets[part]).dense_targets(self.shape[1])
                new = rows.values[part] * root[part], targets * root[part]
                factor, rotated = with_rows(factor, rotated, *new)
        return ((vars(self).update, {"factor": factor, "rotated": rotated}),)

    def add(self, other: Any) -> None:
        """Add sums of as many columns, in place: factor the stacked factors."""
        both = self.factor, self.rotated, other.factor, other.rotated
        self.factor, self.rotated = with_rows(*both, len(self.factor))

    def reindexed(self, places: Places) -> Self:
        """Return the sums of other features and targets."""
        new, known = moved_by_axes(self, places), places.features[places.features >= 0]
        if (np.diff(known) < 0).any():
            # The permuted factor is not triangular.
            new.factor, new.rotated = triangular(new.factor, new.rotated)
        return new

    def for_file(self, n_rows: int) -> Self:
        """Return these sums, as a file holds them."""
        return self

    def with_room(self, room: Room) -> Self:
        """Return the sums with room for more features and targets."""
        return moved_by_axes(self, Places.for_growth(room.old, room.new))

    def gram_and_cross(self) -> tuple[Floats, Floats]:
        """Return R'R and R'Q'Y; no ridge is searched for where these have lost their digits."""
        return product(self.factor.T, self.factor), product(self.factor.T, self.rotated)

    def solve(self, penalties: float | Floats, diagonal: Floats, n_rows: int) -> Floats:
        """Return the W of (A'A + D) W = A'Y; see `onlinels.sums.solve.solve_factor`."""
        return solve_factor(self.factor, self.rotated, penalties, diagonal)

    def covariance(self, penalties: float | Floats, diagonal: Floats) -> tuple[Floats, float]:
        """Return (A'A + D)^-1 and the trace of its product with A'A."""
        return invert_factor(self.factor, penalties, diagonal)

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, (n_targets,)."""
        image = self.factor @ output_weights
        explained: Floats = (image * (2.0 * self.rotated - image)).sum(axis=0)
        return explained

    def explained_products(self, output_weights: Floats) -> Floats:
        """Return W'A'Y, (n_targets, n_targets)."""
        return product((self.factor @ output_weights).T, self.rotated)

    def recursion_of(self, output_weights: Floats, ridge: float, penalties: Floats) -> None:
        """Return None: no recursion learns rows beside a factor."""

    def refine(self, recursion: Recursion) -> float:
        """Return 0.0: no recursion can be used."""
        return 0.0
