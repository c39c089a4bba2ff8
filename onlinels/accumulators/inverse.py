"""A symmetric inverse that follows its matrix as rows are added and taken out."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import ddot, dsyrk, dtrsm

from onlinels.accumulators.corrected import CorrectedMatrix
from onlinels.accumulators.pivots import LEFT, check_pivots, checked_factor, inverted
from onlinels.checks import Floats, Integers
from onlinels.commit import AT_ONCE, Commit, draft_of
from onlinels.numerics import padded, product

SCALES = 2.0**-32, 2.0**32
"""Range of the factor that is kept apart from the inverse."""


class RunningInverse:
    """Hold P = (A'A + D)^-1 for rows that come and go, never solved from scratch.

    One row x of weight w gives P - g g' / (1/w + x'g) with g = P x (Sherman and Morrison); n rows
    X of weights w give P - T S^-1 T' with T = P X' and S = diag(1/w) + X T (Woodbury). It knows
    no targets: what changes output weights is returned.

    Parameters
    ----------
    diagonal : ndarray (n_features,)
        D, the ridge on each feature; greater than 0.

    Notes
    -----
    Memory: ``8 * (M^2 + 64 M)`` bytes for M features. One row costs about ``3 M^2`` operations.
    Where A'A has grown to s, about ``16 - log10(s / D)`` digits are left.

    References
    ----------
    G. H. Golub and C. F. Van Loan, "Matrix Computations" (2013), 2.1.4 and 6.5.

    Examples
    --------
    >>> inverse = RunningInverse(np.array([1.0, 2.0]))
    >>> gains = inverse.add(np.array([[1.0, 0.0]]), np.ones(1))
    >>> inverse.times(np.eye(2))
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    def __init__(self, diagonal: Floats) -> None:
        self._n_features = len(diagonal)
        # P times the scale: to scale A'A + D is to change one number.
        self._scaled = CorrectedMatrix(1.0 / diagonal)
        self._scale = 1.0

    @classmethod
    def of(cls, matrix: Floats) -> RunningInverse:
        """Return the inverse of a matrix, of which only the upper triangle is read.

        Raises
        ------
        ValueError
            If the matrix is not positive definite to rounding.

        Notes
        -----
        ``M^3`` operations.
        """
        return cls.holding(inverted(np.array(matrix, order="F")))

    @classmethod
    def holding(cls, inverse: Floats) -> RunningInverse:
        """Return P as it is given; only its upper triangle is read."""
        new = cls(np.ones(len(inverse)))
        new._scaled.set_corner(inverse)
        return new

    @property
    def n_features(self) -> int:
        """Number of rows and of columns of P."""
        return self._n_features

    @property
    def width(self) -> int:
        """Number of rows and of columns that are reserved; those beyond n_features are 0."""
        return len(self._scaled)

    def times(self, columns: Floats) -> Floats:
        """Return P X, (n_features, n), for columns X (n_features, n)."""
        if not columns.size:
            return np.zeros(columns.shape)
        wider = padded(np.asarray(columns.T, dtype=np.float64, order="C"), self.width)
        result: Floats = self._scaled.times(wider.T)[: self._n_features] / self._scale
        return result

    def draft(self, copied: bool = False) -> RunningInverse:
        """Return an inverse for one change that is committed; copied, for any that are not."""
        draft = draft_of(self)
        draft._scaled = self._scaled.copied() if copied else self._scaled.draft()
        return draft

    def add(self, rows: Floats, w: Floats, commit: Commit = AT_ONCE) -> Floats:
        """Add rows, and return their gains.

        Parameters
        ----------
        rows : ndarray (n, n_features), C order
        w : ndarray (n,)
            Weights, greater than 0.
        commit : Commit, optional
            When to change the entries; by default, at once.

        Returns
        -------
        ndarray (width, n)
            P X' diag(w) with the new P. Output weights W of the rows so far become
            W + gains (Y - X W).

        Raises
        ------
        ValueError
            If a row outweighs all that was known in its direction by more than float64 resolves;
            nothing has changed then.

        Notes
        -----
        ``3 n M^2 + 4 n^2 M`` operations: best in blocks of up to 64 rows; see also `rebuild`.
        """
        return self._add(rows, w, 1.0, commit)

    def remove(self, rows: Floats, w: Floats, commit: Commit = AT_ONCE) -> Floats:
        """Take rows out, and return their gains: output weights become W - gains (Y - X W).

        Parameters and cost are those of `add`.

        Raises
        ------
        ValueError
            If the rest would not be positive definite, or hold less than 1e-10 of what was known
            in a direction; nothing has changed then.
        """
        return self._add(rows, w, -1.0, commit)

    def _add(self, rows: Floats, w: Floats, sign: float, commit: Commit) -> Floats:
        root = np.sqrt(w / self._scale)
        scaled = padded(rows, self.width) * root[:, None]
        image = self._scaled.times(scaled.T)
        return self._take_in(image, product(scaled, image), root, sign, commit)

    def add_one(self, row: Floats, w: float, commit: Commit = AT_ONCE) -> Floats:
        """Add a row (width,), or take it out if its weight is negative; return its gain (width,).

        As `add` and `remove` do, at a fraction of their calls' cost.
        """
        sign, weight = (1.0, w / self._scale) if w > 0.0 else (-1.0, -w / self._scale)
        image = self._scaled.times_one(row)
        square = ddot(row, image)
        if square == np.inf:
            # Of little weight: scaled by its root the row is of size.
            gains = self._add(row[None], np.array([abs(w)]), sign, commit)
            return np.ascontiguousarray(gains[:, 0])
        pivot = 1.0 + sign * weight * square
        check_pivots(pivot, pivot, sign)
        self._scaled.subtract_one(image, (weight / pivot) ** 0.5, sign, commit)
        gain: Floats = image * (abs(w) / (pivot * self._scale))
        return gain

    def _take_in(
        self, image: Floats, system: Floats, root: Floats, sign: float, commit: Commit
    ) -> Floats:
        """Apply Woodbury's identity to T = s P X' and X T, where X is scaled to unit weights."""
        factor = checked_factor(system, sign)
        columns = dtrsm(1.0, factor, image, side=1)
        self._scaled.subtract(columns, sign, commit)
        gains: Floats = dtrsm(1.0, factor, columns, side=1, trans_a=1)
        gains *= root
        return gains

    def add_diagonal(self, columns: Integers, amounts: Floats) -> Floats:
        """Add amounts > 0 to some of D, and return the gains (width, n), as `add` does.

        Notes
        -----
        They are rows of one entry, whose products with P are columns of P: ``n M^2 + 4 n^2 M``.
        """
        root = np.sqrt(amounts / self._scale)
        image = self._scaled.picked(columns) * root
        return self._take_in(image, root[:, None] * image[columns], root, 1.0, AT_ONCE)

    def check_removable(self, rows: Floats, w: Floats) -> None:
        """Raise ValueError if these rows, all together, cannot be taken out."""
        if len(rows) > self._n_features:
            self._rebuilt(rows, w, -1.0)
            return
        scaled = padded(rows, self.width) * np.sqrt(w / self._scale)[:, None]
        checked_factor(scaled @ self._scaled.times(scaled.T), -1.0)

    def rebuild(self, rows: Floats, w: Floats, sign: float) -> None:
        """Add many rows (sign 1), or take them out (-1), through A'A + D; see `add` for the rest.

        Notes
        -----
        ``2 M^3 + n M^2`` operations. The gains are left out: for errors E, they times E are
        `times` of X' diag(w) E, which costs less.
        """
        self._scaled.set_corner(self._rebuilt(rows, w, sign))

    def _rebuilt(self, rows: Floats, w: Floats, sign: float) -> Floats:
        """Return the inverse of s^-1 (A'A + D + X'WX), or minus."""
        matrix = self.matrix() / self._scale
        before = matrix.diagonal() * LEFT if sign < 0 else 0.0
        scaled = rows * np.sqrt(w / self._scale)[:, None]
        return inverted(dsyrk(sign, scaled.T, 1.0, matrix, overwrite_c=1), before)

    def matrix(self) -> Floats:
        """Return A'A + D, (n_features, n_features): the upper triangle, the lower holds anything.

        Raises
        ------
        ValueError
            If P is not positive definite any more, because of rounding.

        Notes
        -----
        ``M^3`` operations.
        """
        matrix = inverted(self._scaled.corner(self._n_features))
        matrix *= self._scale
        return matrix

    def scale(self, factor: float) -> None:
        """Multiply A'A + D by a factor > 0, kept as one number until it leaves 2^-32 to 2^32."""
        self._scale *= factor
        if not SCALES[0] <= self._scale <= SCALES[1]:
            # Of a draft the entries are another's.
            self._scaled = self._scaled.copied()
            self._scaled.divide(self._scale)
            self._scale = 1.0

    def grow(self, n_features: int, ridge: float) -> None:
        """Make room for features that were 0 in every row so far, with a ridge on each."""
        self._scaled.grow(self._n_features, n_features, self._scale / ridge)
        self._n_features = n_features

    def placed(self, places: Integers, n_features: int, ridge: float) -> RunningInverse:
        """Return a copy whose features stand at the given places, with a ridge on the others."""
        full = np.zeros((n_features, n_features), order="F")
        full.flat[:: n_features + 1] = 1.0 / ridge
        upper = np.triu(self._scaled.corner(self._n_features)) / self._scale
        full[np.ix_(places, places)] = upper + np.triu(upper, 1).T
        return RunningInverse.holding(full)
