"""Recursive least squares: an inverse and output weights that are updated with every row."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import (
    dasum,
    ddot,
    dgemm,
    dgemv,
    dger,
    dsymm,
    dsymv,
    dsyr,
    dsyrk,
    dtrmm,
    dtrsm,
)
from scipy.linalg.lapack import dpotrf

from onlinels.checks import Floats, Integers
from onlinels.numerics import (
    Calls,
    State,
    apply,
    are_columns,
    becoming,
    enlarged,
    product,
    shallow_copy,
)
from onlinels.saving import savable
from onlinels.sums.packed import gathered, growth, symmetric

EPS = float(np.finfo(np.float64).eps)

MAX_FEATURES_UNBUFFERED = 320
"""Number of features up to which every row updates the inverse immediately.

Measured, for product and update: 14 us against 21 us gathered at 256 features, 24 against 27 at
311, and 63 against 48 at 512.
"""

N_BUFFERED_COLUMNS = 64
"""Number of columns that are gathered before one rank-k update of the inverse."""

MIN_SCALE = 2.0**-32
"""Smallest scale that is kept apart from the inverse; a smaller scale is multiplied in."""

BLOCK_ROWS = 32
"""Number of rows of a block that is predicted at once, with up to 320 features.

Measured, us per row with 16, 32, 64 and 128 rows per block: 1.3, 0.85, 1.2, 1.0 at 10 features; 10,
6.3, 7.4, 8.6 at 213; 169, 157, 109, 114 at 1,024.
"""

MAX_LEVERAGE = 1e14
"""Largest ratio of new rows to earlier rows and ridge in a direction; no digit is left above it."""

MAX_RUNNING_LEVERAGE = 1e4
"""The same ratio for a recursion beside the sums, so that it keeps 12 digits in every direction."""


def _is_sound(recursion: Any) -> bool:
    size, n_recent = len(recursion._base), recursion._recent.shape[1]
    fits = recursion._base.shape == (size, size) and size == len(recursion.weights)
    fits = fits and recursion._recent.shape == (
        size,
        N_BUFFERED_COLUMNS if size > MAX_FEATURES_UNBUFFERED else 0,
    )
    fits = fits and recursion.full_penalties.shape == (size,)
    fits = fits and are_columns(recursion._base, recursion._recent, recursion.weights)
    return bool(fits and recursion._n_recent in range(n_recent + 1))


@savable(_is_sound)
class Recursion:
    """Hold P = (A'A + D)^-1 and the output weights W = P A'Y, and update both with rows.

    D is diagonal, with the penalty of every feature. If rows are forgotten, A'A and D decay with
    every row. When D falls below the share `least` of the full penalties, which only the models of
    streams set, it is restored by a factor of I + sqrt(E) P sqrt(E), where E is the missing part.
    This matrix is well conditioned.

    Parameters
    ----------
    n_features, n_targets : int
        Numbers of features and of targets.
    ridge : float
        The penalty of every feature until another penalty is set, above 0.
    least : float
        Share of the full penalties below which the penalties are restored; 0.0 for never.

    Attributes
    ----------
    full_penalties : ndarray (n_features,)
        The penalties without decay, at least 0.
    share : float
        The share of the full penalties that is in force, from `least` to 1.

    Examples
    --------
    >>> from onlinels.numerics import apply
    >>> recursion = Recursion(1, 1, ridge=1.0)
    >>> sample = np.array([2.0, 5.0])
    >>> apply(recursion.plan(sample, recursion.errors(sample)))
    >>> recursion.weights
    array([[2.]])
    """

    def __init__(self, n_features: int, n_targets: int, ridge: float, least: float = 0.0) -> None:
        self.ridge, self.least, self.share = float(ridge), least, 1.0
        # The inverse is scale^-1 (B - U U'). This is B, of which the upper triangle is read, in
        # Fortran order: BLAS would silently work on a copy of an array in another order.
        self._base = np.zeros((n_features, n_features), order="F")
        self._base.flat[:: n_features + 1] = 1.0 / self.ridge
        self._scale = 1.0
        self.full_penalties = np.full(n_features, self.ridge)
        self._recent, self._n_recent = _no_columns(n_features), 0
        self.weights = np.zeros((n_features, n_targets), order="F")

    @classmethod
    def of_inverse(
        cls, inverse: Floats, weights: Floats, penalties: Floats, ridge: float
    ) -> Recursion:
        """Return the recursion of P and W, both in Fortran order; the arrays are not copied."""
        new = cls(0, 0, ridge)
        new._base, new.weights, new.full_penalties = inverse, weights, penalties
        new._recent = _no_columns(len(inverse))
        return new

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without gathered columns, which would reveal single rows."""
        nothing = np.zeros(self._recent.shape, order="F")
        return vars(self) | {"_base": self._folded(), "_recent": nothing, "_n_recent": 0}

    @property
    def n_features(self) -> int:
        """Number of rows of the weights."""
        return len(self.weights)

    @property
    def n_targets(self) -> int:
        """Number of columns of the weights."""
        return self.weights.shape[1]

    @property
    def penalties(self) -> Floats:
        """The penalty in force on each feature, (n_features,)."""
        penalties: Floats = self.share * self.full_penalties
        return penalties

    def scores(self, row: Floats) -> Floats:
        """Return the scores (n_targets,) of a row (n_features,)."""
        # Measured: for a vector, at most half the time of the operator.
        scores: Floats = row.dot(self.weights)
        return scores

    def errors(self, sample: Floats, sign: float = 1.0) -> Floats:
        """Return the targets minus the scores, (n_targets,), of a row followed by its targets.

        With the sign -1.0, return the scores minus the targets.
        """
        weights = self.weights
        n_features = len(weights)
        if not weights.size:
            return sign * sample[n_features:]
        # Measured: one call by position takes 0.6 us; two views, a product and a difference 1.0.
        columns = dgemv(-sign, weights, sample, sign, sample, 0, 1, n_features, 1, 1)
        errors: Floats = columns[n_features:]
        return errors

    def plan(
        self,
        row: Floats,
        errors: Floats,
        w: float = 1.0,
        decay: float = 1.0,
        most: float = MAX_LEVERAGE,
    ) -> tuple[Calls, State]:
        """Plan to decay all rows and then to learn one row, in ``2 M^2`` operations.

        Parameters
        ----------
        row : ndarray (n_features,), or longer
            The row. Entries after the features are not read.
        errors : ndarray (n_targets,)
            Targets of the row minus its scores.
        w : float
            Weight of the row.
        decay : float
            Factor on all earlier weights, above 0 and at most 1. Penalties that fall below their
            least share are restored, in about ``3 M^3`` operations.
        most : float
            Largest ratio of the row to earlier rows and ridge in its direction. Digits are lost in
            proportion to this ratio.

        Raises
        ------
        ValueError
            If the row outweighs them, or rounding errors do.
        """
        base, scale, share = self._base, self._scale * decay, self.share * decay
        if share < self.least or not len(base):
            return self._plan_aside(row, errors, w, decay)
        image = dsymv(1.0, base, row)
        if self._n_recent:
            recent = self._recent[:, : self._n_recent]
            image = dgemv(-1.0, recent, dgemv(1.0, recent, row, trans=1), 1.0, image, overwrite_y=1)
        total = scale + w * ddot(image, row)
        if not 0.0 < total <= most * scale:
            raise ValueError(
                f"The row outweighs earlier rows and the ridge by {total / scale:.1g} in its "
                f"direction, expected at most {most:g}. Rescale the features."
            )
        # Bjorck 1996, section 3.2: g = P x w / (1 + w x'P x), then W + g (y - x'W) and P - g x'P.
        gain = w / total
        # Arguments by position take half the time of arguments by name; some are defaults.
        learn = (dger, gain, image, errors, 1, 1, self.weights, 0, 0, 1)
        if decay == 1.0 and self._recent.shape[1]:
            return self._plan_recent(image, gain, learn)
        calls: Calls = ((dsyr, -gain, image, 0, 1, 0, len(image), base, 1), learn)
        if decay == 1.0:
            return calls, ()
        if self._n_recent:
            calls = (self._folding(base), *calls)
        if scale < MIN_SCALE:
            calls = (*calls, (np.divide, base, scale, base))
            scale = 1.0
        return calls, ((self, "share", share), (self, "_n_recent", 0), (self, "_scale", scale))

    def times(self, columns: Floats) -> Floats:
        """Return P times columns (n_features, n)."""
        step: Floats = dsymm(1.0 / self._scale, self._base, columns)
        if self._n_recent:
            recent = self._recent[:, : self._n_recent]
            step -= product(recent, product(recent.T, columns)) / self._scale
        return step

    def _plan_recent(
        self, image: Floats, gain: float, learn: tuple[Any, ...]
    ) -> tuple[Calls, State]:
        """Plan to gather a column; with many features, one update for many columns is faster."""
        start = self._n_recent
        calls: Calls = (learn,)
        if start == N_BUFFERED_COLUMNS:
            calls, start = (self._folding(self._base), learn), 0
        column = (np.multiply, image, gain**0.5, self._recent[:, start])
        return (*calls, column), ((self, "_n_recent", start + 1),)

    def _folding(self, base: Floats) -> tuple[Any, ...]:
        return (dsyrk, -1.0, self._recent[:, : self._n_recent], 1.0, base, 0, 0, 1)

    def _plan_aside(
        self, row: Floats, errors: Floats, w: float, decay: float
    ) -> tuple[Calls, State]:
        """Plan as `plan` does if the penalties are restored, or if there are no features."""
        new, row = self.scaled(decay), row[: self.n_features]
        if len(row):
            apply(new.plan(row, errors + self.scores(row) - new.scores(row), w))
        return (), becoming(self, new)

    def _folded(self) -> Floats:
        """Return the matrix B - U U' of the inverse, in new memory."""
        base = self._base.copy(order="F")
        if self._n_recent:
            function, *args = self._folding(base)
            function(*args)
        return base

    def with_penalties(self, features: Integers, penalties: Floats) -> Recursion:
        """Return a recursion with new penalties of features that were 0 so far.

        Both objects may share arrays.
        """
        new = shallow_copy(self)
        new._base, new.full_penalties = self._base.copy(order="F"), self.full_penalties.copy()
        new.full_penalties[features] = penalties
        new._base[features, features] = self._scale / (self.share * penalties)
        return new

    def restored(self) -> Recursion:
        """Return a copy with the full penalties in force."""
        new, roots = self.copied(), np.sqrt((1.0 - self.share) * self.full_penalties)
        if roots.any():
            inverse = symmetric(new._base)
            inverse *= roots
            system = roots[:, None] * inverse
            system.flat[:: len(system) + 1] += 1.0
            factor, _ = dpotrf(system, lower=0)
            columns = dtrsm(1.0, factor, inverse, side=1)
            missing = dtrsm(1.0, factor, roots[:, None] * new.weights, trans_a=1)
            new.weights -= columns @ missing
            new._base = dsyrk(-1.0, columns, 1.0, new._base, overwrite_c=1)
        new.share = 1.0
        return new

    def copied(self) -> Recursion:
        """Return an independent copy with the scale 1."""
        new = shallow_copy(self)
        new._base = self._folded()
        new._base /= self._scale
        new._scale, new._n_recent, new._recent = 1.0, 0, _no_columns(self.n_features)
        new.weights, new.full_penalties = self.weights.copy(order="F"), self.full_penalties.copy()
        return new

    def with_intercept(self, weight: float) -> Recursion:
        """Return a copy for centred rows followed by a 1, given the weight of the mean so far.

        The 1 has no penalty, so its output weight corrects the mean.
        """
        new, size = self.copied(), self.n_features + 1
        new._base, new._recent = enlarged(new._base, size, size), _no_columns(size)
        new._base[-1, -1] = 1.0 / weight
        new.weights = enlarged(new.weights, size, self.n_targets)
        new.full_penalties = np.append(self.full_penalties, 0.0)
        return new

    def without_intercept(self) -> Recursion:
        """Return a copy for centred rows: the inverse of `with_intercept`."""
        new = shallow_copy(self)
        new._base, new.weights = (
            each.copy(order="F") for each in (self._base[:-1, :-1], self.weights[:-1])
        )
        new.full_penalties, new._recent = self.full_penalties[:-1], _no_columns(self.n_features - 1)
        return new

    def answer_and_learn(
        self,
        rows: Floats,
        targets: Floats,
        most: float = MAX_RUNNING_LEVERAGE,
    ) -> tuple[Floats, Floats]:
        """Learn rows in place; return the scores of every row from the rows before it.

        The recursion must have the scale 1, as a copy has. With S = I + Z P Z' = L L' for rows Z
        and targets Y, scaled by the roots of their weights, the innovations L^-1 (Y - Z W) are
        independent of each other. The scores of row i before it is learnt are
        z_i'W + sum_{j<i} L_ij (L^-1 (Y - Z W))_j.

        Parameters
        ----------
        rows : ndarray (n, n_features)
            Scaled rows, in C order.
        targets : ndarray (n, n_targets)
            Scaled targets.
        most : float
            Largest ratio of the rows of a block to earlier rows and ridge in some direction.

        Returns
        -------
        scores : ndarray (n, n_targets)
            Scores of the rows learnt: the scaled rows before the first row that outweighs earlier
            rows and ridge in some direction by more than `most`.
        innovations : ndarray (n, n_targets)
            Innovations of these rows.

        References
        ----------
        T. Kailath, "An innovations approach to least-squares estimation, part I" (1968).
        R. L. Brown, J. Durbin and J. M. Evans, "Techniques for testing the constancy of regression
        relationships over time" (1975), for the recursive residuals.

        Examples
        --------
        >>> recursion = Recursion(1, 1, ridge=1.0)
        >>> recursion.answer_and_learn(np.ones((2, 1)), np.array([[4.0], [7.0]]))[0]
        array([[0.],
               [2.]])
        """
        scores, innovations = (np.empty(targets.shape, order="F") for _ in range(2))
        size = BLOCK_ROWS if self.n_features <= MAX_FEATURES_UNBUFFERED else N_BUFFERED_COLUMNS
        start = 0
        while start < len(rows):
            part = slice(start, start + size)
            found, shares = self._learn_block(rows[part], targets[part], most)
            if not len(found):
                break
            learnt = slice(start, start + len(found))
            scores[learnt], innovations[learnt] = found, shares
            start = learnt.stop
        return scores[:start], innovations[:start]

    def _learn_block(self, rows: Floats, targets: Floats, most: float) -> tuple[Floats, Floats]:
        """Learn a few rows in place; return their scores and innovations.

        The recursion must have the scale 1. A block costs the digits of S = I + Z P Z'. Only the
        first rows, whose leverages z'P z add up to at most `most`, are learnt; none if rounding
        errors prevail in S.
        """
        columns, n_rows = rows.T, len(rows)
        if not n_rows:
            return targets, targets
        image = dsymm(1.0, self._base, columns)
        system = dgemm(1.0, columns, image, 0.0, None, 1)
        entries = system.ravel("K")
        leverages = entries[:: n_rows + 1]
        # Measured: a quarter of the time of leverages.sum().
        if not dasum(entries, n_rows, 0, n_rows + 1) <= most:
            n_learnt = int(np.argmax(~(leverages.cumsum() <= most)))
            return self._learn_block(rows[:n_learnt], targets[:n_learnt], most)
        leverages += 1.0
        factor, failed = dpotrf(system, 0, 0, 1)
        if failed:
            return targets[:0], targets[:0]
        # The gains P Z' L^-T and the innovations L^-1 (Y - Z W).
        gains = dtrsm(1.0, factor, image, 1, 0, 0, 0, 1)
        known = dgemm(1.0, columns, self.weights, 0.0, None, 1)
        shares = dtrsm(1.0, factor, np.subtract(targets, known, order="F"), 0, 0, 1, 0, 1)
        # Woodbury's identity (Golub and Van Loan 2013, section 2.1.4): P - K K' and W + K E.
        dsyrk(-1.0, gains, 1.0, self._base, 0, 0, 1)
        dgemm(1.0, gains, shares, 1.0, self.weights, 0, 0, 1)
        # Without its diagonal, row i of L refers to the rows before row i.
        factor.ravel("K")[:: n_rows + 1] = 0.0
        return known + dtrmm(1.0, factor, shares, 0, 0, 1), shares

    def scaled(self, factor: float) -> Recursion:
        """Return a copy with the weight of every row multiplied by a factor above 0.

        The penalties decay with the rows, unless they would fall below their least share.
        """
        new = self.copied()
        new._base /= factor
        new.share *= factor
        return new.restored() if new.share < new.least else new

    def grown(self, n_features: int, n_targets: int) -> Recursion:
        """Return a recursion with room for features and targets that were 0 in every row so far.

        No spare room is kept, because every row would pay for it, and a copy costs less than a row.
        """
        if (n_features, n_targets) == self.weights.shape:
            return shallow_copy(self)
        return self.reindexed(*map(growth, self.weights.shape, (n_features, n_targets)))

    def reindexed(self, features: Integers, targets: Integers) -> Recursion:
        """Return the recursion of the given features and targets; -1 stands for a new column.

        Both objects may share arrays.
        """
        new, others = shallow_copy(self), np.flatnonzero(features < 0)
        n_features = len(features)
        new._base = gathered(symmetric(self._base), features, features)
        new._base[others, others] = self._scale / (self.share * self.ridge)
        new.full_penalties = gathered(self.full_penalties, features)
        new.full_penalties[others] = self.ridge
        recent = growth(self._recent.shape[1], _no_columns(n_features).shape[1])
        new._recent = gathered(self._recent, features, recent)
        new.weights = gathered(self.weights, features, targets)
        return new

    def variances(self) -> Floats:
        """Return the diagonal of P, (n_features,)."""
        recent = self._recent[:, : self._n_recent]
        variances: Floats = self._base.diagonal() - (recent**2).sum(axis=1)
        return variances / self._scale


def _no_columns(n_features: int) -> Floats:
    """Return room for gathered columns: none with few features."""
    width = N_BUFFERED_COLUMNS if n_features > MAX_FEATURES_UNBUFFERED else 0
    return np.zeros((n_features, width), order="F")
