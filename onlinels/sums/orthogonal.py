"""The orthogonal form: R and Q'Y of A = QR in float64, without squaring the condition number."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from onlinels.checks import Floats, Integers, row_blocks
from onlinels.numerics import Calls, are_columns, product, shallow_copy
from onlinels.saving import savable
from onlinels.sums.packed import gathered
from onlinels.sums.products import Rows
from onlinels.sums.recursion import Recursion
from onlinels.sums.solve import invert_factor, solve_factor, triangular, with_rows


@savable(
    lambda sums: (
        sums.factor.shape == (len(sums.rotated), len(sums.rotated))
        and are_columns(sums.factor, sums.rotated)
    )
)
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
    >>> from onlinels.core.reference import apply
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

    def reindexed(self, features: Integers, targets: Integers) -> Self:
        """Return the sums of the given features and targets; -1 stands for a new column."""
        new = shallow_copy(self)
        new.rotated = gathered(self.rotated, features, targets)
        new.factor = gathered(self.factor, features, features)
        if (np.diff(features[features >= 0]) < 0).any():
            # The permuted factor is not triangular.
            new.factor, new.rotated = triangular(new.factor, new.rotated)
        return new

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
