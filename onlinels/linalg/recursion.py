"""Recursive least squares, written once: an inverse and output weights that follow rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
from scipy.linalg.lapack import dpotrf, dpotri

from onlinels.checks import Floats, Integers, Matrix
from onlinels.linalg.packed import gathered, growth, symmetric
from onlinels.numerics import Calls, State, apply, becoming, product, shallow_copy
from onlinels.saving import COLUMNS, POSITIVE, VECTOR, WHOLE, savable

EPS = float(np.finfo(np.float64).eps)

SMALL = 320
"""Features up to which every row enters the inverse at once.

Measured, for product and update: 14 us against 21 us gathered at 256 features, 24 against 27 at
311, and 63 against 48 at 512.
"""

N_RECENT = 64
"""Columns that are gathered before one rank-k update takes them in."""

SMALLEST_SCALE = 2.0**-32
"""Factor that is kept apart from the inverse before it is multiplied in."""

FAINTEST = 1e-6
"""Factor on all weights from which the inverse is divided by it."""

SMALL_BLOCK = 32
"""Rows of a block that is answered at once, with up to 320 features.

Measured, us a row with 16, 32, 64 and 128 rows a block: 1.3, 0.85, 1.2, 1.0 at 10 features; 10,
6.3, 7.4, 8.6 at 213; 169, 157, 109, 114 at 1,024.
"""

LEAST = 0.5 * (1.0 - 1e-9)
"""Share of the ridge below which it is brought back.

Next to a half: decays of whole half-lives come to it but for rounding, by which nothing may hang.
"""

OUTWEIGHED = 1e14
"""Largest ratio of new rows to what was known in their direction: beyond, nothing is left."""

MAX_PIVOT_RATIO = 1e4
"""The same ratio for a solution beside the sums, so that it keeps 12 digits in every direction."""

REMEDY = 'set a larger ridge, or accumulator="gram"'


def _is_sound(recursion: Any) -> bool:
    size, n_recent = len(recursion._base), recursion._recent.shape[1]
    fits = recursion._base.shape == (size, size) and size == len(recursion.weights)
    fits = fits and recursion._recent.shape == (size, N_RECENT if size > SMALL else 0)
    fits = fits and len(recursion.full_penalties) == size
    return bool(fits and recursion._n_recent <= n_recent)


class Innovations(NamedTuple):
    """Rows Z and targets Y before they are learnt: of the factor of S = I + Z P Z' = L L'.

    Attributes
    ----------
    gains : ndarray (n_features, n)
        P Z' L^-T: row i takes column i times itself out of P.
    shares : ndarray (n, n_targets)
        The innovations L^-1 (Y - Z W): their squares are what the rows add to the penalised sum of
        squares.
    scores : ndarray (n, n_targets)
        Of every row, by the rows before it.
    alone : ndarray (n,)
        Leverages z'P z of every row before all of them.
    taken : ndarray (n, n)
        Column i squared is what the rows before row i take from its leverage: L' without its
        diagonal; below it stands anything.
    """

    gains: Floats
    shares: Floats
    scores: Floats
    alone: Floats
    taken: Floats

    @property
    def leverages(self) -> Floats:
        """Leverages of every row by the rows before it, (n,)."""
        leverages: Floats = self.alone - (np.triu(self.taken, 1) ** 2).sum(axis=0)
        return leverages


@savable(
    {
        "ridge": POSITIVE,
        "least": POSITIVE,
        "share": POSITIVE,
        "full_penalties": VECTOR,
        "_base": COLUMNS,
        "_scale": POSITIVE,
        "_recent": COLUMNS,
        "_n_recent": WHOLE,
        "weights": COLUMNS,
    },
    _is_sound,
)
class Recursion:
    """Hold P = (A'A + D)^-1 and the output weights W = P A'Y for rows that come and go.

    D, on the diagonal, is the penalty of every feature. Rows may be forgotten: then A'A and D decay
    with every row, and once D has fallen below a share of what it was, it is brought back, by one
    factor of I + sqrt(E) P sqrt(E) for the part E that is missing, which is well conditioned.

    Parameters
    ----------
    n_features, n_targets : int
    ridge : float
        The penalty of features until another one is set, over 0.
    least : float
        Share of the penalties below which they do not stay.

    Attributes
    ----------
    full_penalties : ndarray (n_features,)
        The penalties before they decay, at least 0.
    share : float
        The share of them that is in force, from `least` to 1.

    Examples
    --------
    >>> from onlinels.numerics import apply
    >>> recursion = Recursion(1, 1, ridge=1.0)
    >>> sample = np.array([2.0, 5.0])
    >>> apply(recursion.plan(sample, recursion.errors(sample)))
    >>> recursion.weights
    array([[2.]])
    """

    def __init__(self, n_features: int, n_targets: int, ridge: float, least: float = LEAST) -> None:
        self.ridge, self.least, self.share = float(ridge), least, 1.0
        # The inverse is scale^-1 (B - U U'): B here, of which the upper triangle is read, in
        # Fortran order, as BLAS would silently work on a copy of anything else.
        self._base = np.zeros((n_features, n_features), order="F")
        self._base.flat[:: n_features + 1] = 1.0 / self.ridge
        self._scale = 1.0
        self.full_penalties = np.full(n_features, self.ridge)
        self._recent = np.zeros((n_features, N_RECENT if n_features > SMALL else 0), order="F")
        self._n_recent = 0
        self.weights = np.zeros((n_features, n_targets), order="F")

    @classmethod
    def of_gram(
        cls, gram: Floats, weights: Floats, penalties: Floats, ridge: float, least: float = LEAST
    ) -> Recursion:
        """Return the recursion of A'A, of which the upper triangle is read, in ``M^3`` operations.

        Raises
        ------
        ValueError
            If A'A + D is not positive definite.
        """
        matrix = np.array(gram, order="F")
        matrix.flat[:: len(matrix) + 1] += penalties
        weights = np.array(weights, order="F")
        return cls.of_inverse(inverted(matrix), weights, penalties, ridge, least)

    @classmethod
    def of_inverse(
        cls, inverse: Floats, weights: Floats, penalties: Floats, ridge: float, least: float = LEAST
    ) -> Recursion:
        """Return the recursion of P and W, which are not copied, both in Fortran order."""
        new = cls(0, 0, ridge, least)
        new._base, new.weights, new.full_penalties = inverse, weights, penalties
        new._recent = np.zeros((len(inverse), N_RECENT if len(inverse) > SMALL else 0), order="F")
        return new

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without gathered columns: they would tell of single rows."""
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
        # Measured: of a vector, half the time of the operator, or less.
        scores: Floats = row.dot(self.weights)
        return scores

    def errors(self, sample: Floats, sign: float = 1.0) -> Floats:
        """Return the targets less the scores, (n_targets,), of a row and, after it, its targets.

        With the sign -1.0: the scores less the targets.
        """
        weights = self.weights
        n_features = len(weights)
        if not weights.size:
            return sign * sample[n_features:]
        # One call, by position: measured, 0.6 us against 1.0 of two views, product and difference.
        columns = dgemv(-sign, weights, sample, sign, sample, 0, 1, n_features, 1, 1)
        errors: Floats = columns[n_features:]
        return errors

    def plan(
        self,
        row: Floats,
        errors: Floats,
        w: float = 1.0,
        decay: float = 1.0,
        most: float = OUTWEIGHED,
    ) -> tuple[Calls, State]:
        """Plan to let all rows decay and then to learn one: ``2 M^2`` operations.

        Parameters
        ----------
        row : ndarray (n_features,), or longer
            What comes after the features is not read.
        errors : ndarray (n_targets,)
            Its targets less its scores.
        w : float
            Its weight; below 0 it is taken out.
        decay : float
            From 1e-6 to 1. Penalties that fall below their least share are brought back, in about
            ``3 M^3`` operations.
        most : float
            Largest ratio of the row to what was known in its direction; digits are lost by it.

        Raises
        ------
        ValueError
            If the row cannot be added, or taken out, in float64.
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
            _check_pivot(total / scale, w, most)
        # Bjorck 1996, section 3.2: g = P x w / (1 + w x'P x), then W + g (y - x'W) and P - g x'P.
        gain = w / total
        # By position, which takes half the time of names: the other ones are the defaults.
        learn = (dger, gain, image, errors, 1, 1, self.weights, 0, 0, 1)
        if decay == 1.0 and self._recent.shape[1] and w > 0.0:
            return self._plan_recent(image, gain, learn)
        calls: Calls = ((dsyr, -gain, image, 0, 1, 0, len(image), base, 1), learn)
        if decay == 1.0:
            return calls, ()
        if self._n_recent:
            calls = (self._folding(base), *calls)
        if scale < SMALLEST_SCALE:
            calls = (*calls, (np.divide, base, scale, base))
            scale = 1.0
        return calls, ((self, "share", share), (self, "_n_recent", 0), (self, "_scale", scale))

    def correct(self, residual: Floats) -> None:
        """Add P times a residual (n_features, n_targets) to the weights, in place: W + P R."""
        self.weights += self.times(residual)

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
        """Plan to gather a column: of many features, faster than to take in one at a time."""
        start = self._n_recent
        calls: Calls = (learn,)
        if start == N_RECENT:
            calls, start = (self._folding(self._base), learn), 0
        column = (np.multiply, image, gain**0.5, self._recent[:, start])
        return (*calls, column), ((self, "_n_recent", start + 1),)

    def _folding(self, base: Floats) -> tuple[Any, ...]:
        return (dsyrk, -1.0, self._recent[:, : self._n_recent], 1.0, base, 0, 0, 1)

    def _plan_aside(
        self, row: Floats, errors: Floats, w: float, decay: float
    ) -> tuple[Calls, State]:
        """Plan what `plan` does where the penalties come back, and without features."""
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
        """Return it with other penalties of features that are 0 so far; it may share arrays."""
        new = shallow_copy(self)
        new._base, new.full_penalties = self._base.copy(order="F"), self.full_penalties.copy()
        new.full_penalties[features] = penalties
        new._base[features, features] = self._scale / (self.share * penalties)
        return new

    def restored(self) -> Recursion:
        """Return a copy whose penalties are whole again."""
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
        """Return a copy that has learnt the same, of scale 1, and learns on its own."""
        base = self._folded()
        base /= self._scale
        weights, penalties = self.weights.copy(order="F"), self.full_penalties.copy()
        new = Recursion.of_inverse(base, weights, penalties, self.ridge, self.least)
        new.share = self.share
        return new

    def with_intercept(self, weight: float) -> Recursion:
        """Return a copy for rows about their mean so far, of this weight, and 1 after each of them.

        The 1 has no penalty, so its weight corrects the mean.
        """
        size = self.n_features + 1
        base = np.zeros((size, size), order="F")
        weights = np.zeros((size, self.n_targets), order="F")
        np.divide(self._folded(), self._scale, out=base[:-1, :-1])
        base[-1, -1] = 1.0 / weight
        weights[:-1] = self.weights
        penalties = np.append(self.full_penalties, 0.0)
        new = Recursion.of_inverse(base, weights, penalties, self.ridge, self.least)
        new.share = self.share
        return new

    def without_intercept(self) -> Recursion:
        """Return a copy for rows about their mean, as `with_intercept` was given one."""
        base = self._base[:-1, :-1].copy(order="F")
        weights = self.weights[:-1].copy(order="F")
        new = Recursion.of_inverse(base, weights, self.full_penalties[:-1], self.ridge, self.least)
        new.share = self.share
        return new

    def learnt(self, rows: Floats, targets: Floats, w: Floats) -> Recursion:
        """Return a copy that has learnt rows, or given them back, of weights of one sign, not 0.

        Parameters
        ----------
        rows : ndarray (n, n_features)
        targets : ndarray (n, n_targets)
        w : ndarray (n,)

        Raises
        ------
        ValueError
            If the rows, all together, cannot be added, or taken out.
        """
        new, sign = self.copied(), float(np.sign(w[0]))
        # A product with the inverse is rarely needed to be sure.
        if w @ (rows**2 @ (1.0 / new.full_penalties)) > 0.5 * OUTWEIGHED * new.share:
            image = dsymm(1.0, new._base, np.asfortranarray(rows.T))
            leverages = w * np.einsum("ij,ji->i", rows, image)
            _check_pivot(1.0 + max(0.0, float(leverages.max())), 1.0)
        if len(rows) > new.n_features:
            # By way of A'A + D, to which the rows' products are added: P = (P^-1 + Z'Z)^-1.
            matrix = inverted(new._base)
            scaled = rows * np.sqrt(abs(w))[:, None]
            new._base = inverted(dsyrk(sign, scaled.T, 1.0, matrix, overwrite_c=1))
            step = product(rows.T, w[:, None] * (targets - product(rows, new.weights)))
            new.weights += dsymm(1.0, new._base, np.asfortranarray(step))
            return new
        for start in range(0, len(rows), N_RECENT):
            part = slice(start, start + N_RECENT)
            new._learn_block(rows[part], targets[part], w[part])
        return new

    def answer_and_learn(
        self,
        rows: Floats,
        targets: Floats,
        most: float = MAX_PIVOT_RATIO,
        note: Callable[[Innovations, Floats], None] | None = None,
    ) -> Floats:
        """Learn rows, in place, of a copy; return the score of every row by the rows before it.

        With S = I + Z P Z' = L L' for rows Z and targets Y, scaled by the roots of their weights,
        the innovations L^-1 (Y - Z W) are independent of one another: the scores of row i before it
        is learnt are z_i'W + sum_{j<i} L_ij (L^-1 (Y - Z W))_j.

        Parameters
        ----------
        rows : ndarray (n, n_features)
            In C order.
        targets : ndarray (n, n_targets)
        most : float
            Largest ratio of the rows of a block to what was known in some direction.
        note : callable, optional
            Called with the innovations of every block that is learnt, and the weights before it.

        Returns
        -------
        scores : ndarray (n, n_targets)
            Of the scaled rows that are learnt: those before the first one that outweighs what was
            known in some direction by `most`.

        References
        ----------
        T. Kailath, "An innovations approach to least-squares estimation, part I" (1968).
        R. L. Brown, J. Durbin and J. M. Evans, "Techniques for testing the constancy of regression
        relationships over time" (1975), for the recursive residuals.

        Examples
        --------
        >>> recursion = Recursion(1, 1, ridge=1.0)
        >>> recursion.answer_and_learn(np.ones((2, 1)), np.array([[4.0], [7.0]]))
        array([[0.],
               [2.]])
        """
        scores = np.empty(targets.shape, order="F")
        size = SMALL_BLOCK if self.n_features <= SMALL else N_RECENT
        start = 0
        while start < len(rows):
            part = slice(start, start + size)
            found = self.innovations(rows[part], targets[part], most)
            n_learnt = len(found.scores)
            if not n_learnt:
                break
            scores[start : start + n_learnt] = found.scores
            if note is not None:
                note(found, self.weights)
            self.learn_innovations(found, n_learnt)
            start += n_learnt
        return scores[:start]

    def innovations(self, rows: Floats, targets: Floats, most: float | None = None) -> Innovations:
        """Answer a few rows as `answer_and_learn` does, of a copy whose scale is 1; learn nothing.

        The digits that a block costs are those of I + Z P Z'. Only the first rows are answered
        whose leverages z'P z come to no more than `most`; without it more than 1e14 raise
        ValueError.
        """
        columns, n_rows = rows.T, len(rows)
        image = dsymm(1.0, self._base, columns)
        system = dgemm(1.0, columns, image, 0.0, None, 1)
        entries = system.ravel("K")
        leverages = entries[:: n_rows + 1]
        # Measured: a quarter of the time of leverages.sum().
        total = dasum(entries, n_rows, 0, n_rows + 1)
        if most is None:
            _check_pivot(1.0 + total, 1.0)
        elif not total <= most:
            n_answered = int(np.argmax(~(leverages.cumsum() <= most)))
            if not n_answered:
                return self._nothing_answered(targets)
            return self.innovations(rows[:n_answered], targets[:n_answered], most)
        alone = leverages.copy()
        leverages += 1.0
        factor, failed = dpotrf(system, 0, 0, 1)
        if failed and most is None:
            _check_pivot(0.0, 1.0)
        if failed:
            # Rounding has the better of what is known; single rows may still be learnt.
            return self._nothing_answered(targets)
        gains = dtrsm(1.0, factor, image, 1, 0, 0, 0, 1)
        known = dgemm(1.0, columns, self.weights, 0.0, None, 1)
        shares = dtrsm(1.0, factor, np.subtract(targets, known, order="F"), 0, 0, 1, 0, 1)
        # Without its diagonal, L holds for every row the rows before it.
        factor.ravel("K")[:: n_rows + 1] = 0.0
        scores = known + dtrmm(1.0, factor, shares, 0, 0, 1)
        return Innovations(gains, shares, scores, alone, factor)

    def _nothing_answered(self, targets: Floats) -> Innovations:
        nothing = np.zeros((0, 0))
        gains = np.zeros((self.n_features, 0), order="F")
        return Innovations(gains, targets[:0], targets[:0], nothing.ravel(), nothing)

    def learn_innovations(self, found: Innovations, n_rows: int, decay: float = 1.0) -> None:
        """Learn the first rows of a block that is answered, in place, and let all rows decay."""
        if not n_rows:
            return
        # As `_learn_block`: (P - K K') / decay and W + K E, with the gains K and the innovations E.
        gains, shares = found.gains[:, :n_rows], found.shares[:n_rows]
        dsyrk(-1.0 / decay, gains, 1.0 / decay, self._base, 0, 0, 1)
        dgemm(1.0, gains, shares, 1.0, self.weights, 0, 0, 1)
        self.share *= decay

    def _learn_block(self, rows: Floats, targets: Floats, w: Floats) -> None:
        """Learn a few rows by Woodbury's identity, in place, of a copy whose scale is 1.

        With S = I + Z P Z' = L L' and K = P Z' L^-T: P - K K' and W + K L^-1 (Y - Z W) (Golub and
        Van Loan 2013, section 2.1.4).
        """
        weights, sign, root = self.weights, float(np.sign(w[0])), np.sqrt(abs(w))
        errors = (targets - product(rows, weights)) * root[:, None]
        scaled = np.asfortranarray((rows * root[:, None]).T)
        image = dsymm(1.0, self._base, scaled)
        system = sign * product(scaled.T, image)
        system.flat[:: len(system) + 1] += 1.0
        factor, failed = dpotrf(system.T, lower=0, overwrite_a=1)
        pivots = factor.diagonal() ** 2
        _check_pivot(0.0 if failed else float(pivots.min()), sign)
        _check_pivot(1.0 if failed else float(pivots.max()), sign)
        columns = dtrsm(1.0, factor, image, side=1)
        dsyrk(-sign, columns, 1.0, self._base, overwrite_c=1)
        if self.n_targets:
            shares = dtrsm(1.0, factor, np.asfortranarray(errors), trans_a=1)
            dgemm(sign, columns, shares, 1.0, weights, overwrite_c=1)

    def scaled(self, factor: float) -> Recursion:
        """Return a copy whose rows weigh a factor > 0 of what they did.

        The penalties have decayed with them, unless that would be below their least share.
        """
        if not FAINTEST <= factor <= 1.0:
            # By way of A'A: the penalties would grow with the rows, or all but vanish.
            gram = factor * self.information()
            cross = gram @ self.weights + factor * self.penalties[:, None] * self.weights
            penalties = self.full_penalties.copy()
            new = Recursion.of_gram(gram, cross, penalties, self.ridge, self.least)
            new.weights = np.asfortranarray(new.inverse() @ cross)
            return new
        new = self.copied()
        new._base /= factor
        new.share *= factor
        return new.restored() if new.share < new.least else new

    def grown(self, n_features: int, n_targets: int) -> Recursion:
        """Return it with room for features and targets that were 0 in every row so far.

        No room is kept for more: every row would pay for it, and a copy costs less than a row.
        """
        if (n_features, n_targets) == self.weights.shape:
            return shallow_copy(self)
        return self.reindexed(*map(growth, self.weights.shape, (n_features, n_targets)))

    def reindexed(self, features: Integers, targets: Integers) -> Recursion:
        """Return it with the given features and targets, new ones for -1; it may share arrays."""
        new, others = shallow_copy(self), np.flatnonzero(features < 0)
        n_features = len(features)
        new._base = gathered(symmetric(self._base), features, features)
        new._base[others, others] = self._scale / (self.share * self.ridge)
        new.full_penalties = gathered(self.full_penalties, features)
        new.full_penalties[others] = self.ridge
        recent = growth(self._recent.shape[1], N_RECENT if n_features > SMALL else 0)
        new._recent = gathered(self._recent, features, recent)
        new.weights = gathered(self.weights, features, targets)
        return new

    def without(self, features: Matrix) -> Recursion:
        """Return a copy in which features, given as a mask, are 0 in every row."""
        new = self.copied()
        places = np.flatnonzero(features)
        new._base[places], new._base[:, places] = 0.0, 0.0
        new._base[places, places] = 1.0 / self.penalties[places]
        new.weights[places] = 0.0
        return new

    def variances(self) -> Floats:
        """Return the diagonal of P, (n_features,)."""
        recent = self._recent[:, : self._n_recent]
        variances: Floats = self._base.diagonal() - (recent**2).sum(axis=1)
        return variances / self._scale

    def inverse(self) -> Floats:
        """Return P, (n_features, n_features), a new array."""
        return symmetric(self.copied()._base)

    def information(self) -> Floats:
        """Return A'A, (n_features, n_features), from P^-1 - D, in ``M^3`` operations."""
        try:
            full = symmetric(inverted(self.inverse()))
        except ValueError:
            # Rounding errors of EPS remain of sqrt(D) P sqrt(D), whose eigenvalues are at most 1.
            roots = np.sqrt(self.penalties)
            eigenvalues, vectors = np.linalg.eigh(self.inverse() * roots * roots[:, None])
            eigenvalues = np.clip(eigenvalues, EPS, 1.0)
            full = (vectors / eigenvalues) @ vectors.T * roots * roots[:, None]
        full.flat[:: self.n_features + 1] -= self.penalties
        return full


def inverted(matrix: Floats) -> Floats:
    """Return the upper triangle of the inverse, in the matrix's place; the lower holds anything."""
    if not len(matrix):
        return matrix
    factor, failed = dpotrf(matrix, lower=0, overwrite_a=1, clean=0)
    if failed:
        raise ValueError(
            "the statistics are not positive definite, expected more data than is taken out, and "
            f"a ridge above rounding errors. Take out only rows that are in; or {REMEDY}."
        )
    inverse: Floats = dpotri(factor, lower=0, overwrite_c=1)[0]
    return inverse


def _check_pivot(pivot: float, sign: float, most: float = OUTWEIGHED) -> None:
    """Raise ValueError unless rows of such a pivot can be added (sign > 0) or taken out (< 0)."""
    if sign < 0 and not pivot > 0.0:
        raise ValueError(
            "rows to take out hold all that is known in a direction, expected that some of it "
            f"stays. Take out only rows that were learnt, unchanged; or {REMEDY}."
        )
    if not pivot > 0.0:
        raise ValueError(
            "rounding errors have overgrown what is known in a direction, expected features whose "
            f"squares the ridge can stand beside. Scale them, {REMEDY}."
        )
    if not pivot <= most:
        raise ValueError(
            f"rows outweigh what is known in a direction by {pivot:.1g}, expected at most "
            f"{most:g}, which float64 resolves. Rescale the features, {REMEDY}."
        )
