"""Recursive least squares: an inverse and output weights that are updated with every row."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dasum, dgemm, dsymm, dsyrk, dtrmm, dtrsm
from scipy.linalg.lapack import dpotrf

from onlinels.checks import Floats, Integers
from onlinels.core import settle
from onlinels.core.constants import KEPT, MAX_RUNNING_LEVERAGE, SCALE
from onlinels.core.reference import absorb, leverage_of
from onlinels.numerics import Calls, are_columns, is_array, restore, shallow_copy
from onlinels.saving import savable
from onlinels.sums.axes import Places, Room, gathered, grown, is_growth
from onlinels.sums.low_rank import MIN_COLUMNS, LowRank
from onlinels.sums.packed import PackedSymmetric, symmetric

BLOCK_ROWS, BLOCK_ROWS_OF_MANY = 32, 64
"""Number of rows of a block that is predicted at once, with up to 320 features and with more.

Measured, us per row with 16, 32, 64 and 128 rows per block: 10, 6.3, 7.4, 8.6 at 213 features; 169,
157, 109, 114 at 1,024.
"""

MANY_FEATURES = 320

VECTORS = "factors", "full_penalties", "pending", "criterion", "weights"
"""Names of the parts of `Recursion.numbers`, in their order."""


def _is_sound(recursion: Any) -> bool:
    inverse, numbers = recursion.inverse, recursion.numbers
    fits = are_columns(inverse) and inverse.shape == (len(inverse), len(inverse))
    fits = fits and is_array(numbers, numbers.size) and recursion.shape[1] >= 0
    return bool(fits and len(numbers) == 1 + (len(inverse) + 1) * (recursion.shape[1] + 2))


@savable(_is_sound, take=lambda recursion: recursion.said())
class Recursion:
    """Hold P = (A'A + D)^-1 and the output weights W = P A'Y, which follow rows.

    D is diagonal, with the penalty of every feature. If rows are forgotten, A'A and D decay with
    every row. When D falls below the share `least` of the full penalties, which only the models of
    streams set, it is restored by a factor of I + sqrt(E) P sqrt(E), where E is the missing part.
    This matrix is well conditioned.

    Single rows are learnt by `onlinels.core`, into these arrays.

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
    inverse : ndarray (n_features, n_features)
        B of P = (B + gain u u') / scale, of which the upper triangle is read.
    numbers : ndarray (1 + (n_features + 1) * (n_targets + 2),)
        All of the following, which are views.
    factors : ndarray (3,)
        The scale, the gain, and the share of the full penalties that is in force.
    full_penalties : ndarray (n_features,)
        The penalties without decay, at least 0.
    pending : ndarray (n_features,)
        u.
    criterion : ndarray (n_targets,)
        min |Y - A W|^2 + W'D W of every target; models of streams do not keep it.
    weights : ndarray (n_features, n_targets)
        W.
    trust : float
        Smallest eigenvalue of the system scaled to unit diagonal, or its estimate, divided by 1e-3,
        at most 1. Below 1, the first prediction after a row refines the weights by the sums.

    Examples
    --------
    >>> recursion = Recursion(1, 1, ridge=1.0)
    >>> scores, _ = recursion.answer_and_learn(np.array([[2.0]]), np.array([[5.0]]))
    >>> recursion.weights
    array([[2.]])
    """

    # Number of rows, at most, that have changed B: set where a file is written.
    n_rows: int | None = None

    def __init__(self, n_features: int, n_targets: int, ridge: float, least: float = 0.0) -> None:
        self.ridge, self.least, self.trust = float(ridge), least, 1.0
        # In Fortran order: BLAS would silently work on a copy of an array in another order.
        self.inverse = np.zeros((n_features, n_features), order="F")
        self.numbers = np.zeros(1 + (n_features + 1) * (n_targets + 2))
        self.inverse.flat[:: n_features + 1] = 1.0 / self.ridge
        self.full_penalties[:] = self.ridge
        self.factors[:] = 1.0, 0.0, 1.0

    @classmethod
    def blank(cls, n_features: int, n_targets: int, ridge: float) -> Recursion:
        """Return the memory of a recursion, which `onlinels.core` begins; all numbers are 0."""
        new = object.__new__(cls)
        new.ridge, new.least, new.trust = ridge, 0.0, 1.0
        new.inverse = np.zeros((n_features, n_features), order="F")
        new.numbers = np.zeros(1 + (n_features + 1) * (n_targets + 2))
        return new

    def said(self) -> dict[str, Any]:
        """Return what files hold."""
        self.settle()
        said = {
            name: each for name, each in vars(self).items() if name not in ("numbers", "n_rows")
        }
        penalties = self.penalties
        if self.n_rows is not None and len(penalties) >= MIN_COLUMNS and penalties.all():
            upper = PackedSymmetric.of(self.inverse)
            said["inverse"] = LowRank.of(upper, self.n_rows, self.factors[SCALE] / penalties)
        return said | {name: getattr(self, name) for name in VECTORS}

    def for_file(self, n_rows: int) -> Recursion:
        """Return this recursion for a file, which holds B of so many rows in the smallest form."""
        new = shallow_copy(self)
        new.n_rows = n_rows
        return new

    def __getstate__(self) -> dict[str, Any]:
        self.settle()
        return vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "numbers" not in state:
            # Files, and pickles of earlier versions, hold the views.
            others = dict(state)
            if type(others["inverse"]) is PackedSymmetric:
                others["inverse"] = others["inverse"].square()
            *vectors, weights = (others.pop(name) for name in VECTORS)
            if not (are_columns(weights) and all(is_array(each, each.size) for each in vectors)):
                raise ValueError("the arrays of a recursion are of other types")
            state = others | {"numbers": np.concatenate((*vectors, weights.ravel("F")))}
        restore(self, state)

    @property
    def n_features(self) -> int:
        """Number of rows of the weights."""
        return len(self.inverse)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and of targets."""
        m = len(self.inverse)
        return m, (len(self.numbers) - 3 - 2 * m) // (1 + m)

    @property
    def factors(self) -> Floats:
        """The scale, the gain, and the share of the full penalties that is in force."""
        return self.numbers[:3]

    @property
    def full_penalties(self) -> Floats:
        """The penalties without decay."""
        return self.numbers[3 : 3 + len(self.inverse)]

    @property
    def pending(self) -> Floats:
        """The product u that no row has added to B so far."""
        m = len(self.inverse)
        return self.numbers[3 + m : 3 + 2 * m]

    @property
    def criterion(self) -> Floats:
        """The penalised sum of squared errors of every target."""
        start = 3 + 2 * len(self.inverse)
        return self.numbers[start : start + self.shape[1]]

    @property
    def weights(self) -> Floats:
        """The output weights W."""
        m, n = self.shape
        return self.numbers[3 + 2 * m + n :].reshape((m, n), order="F")

    @property
    def arrays(self) -> tuple[Floats, ...]:
        """B, u, W, J, the factors and the full penalties."""
        own = self.inverse, self.pending, self.weights, self.criterion, self.factors
        return *own, self.full_penalties

    @property
    def share(self) -> float:
        """The share of the full penalties that is in force, from `least` to 1."""
        return float(self.factors[KEPT])

    @property
    def penalties(self) -> Floats:
        """The penalty in force on each feature, (n_features,)."""
        penalties: Floats = self.share * self.full_penalties
        return penalties

    def settle(self) -> None:
        """Add the pending product, which would reveal a single row, to B: no answer changes."""
        settle(self.inverse, self.pending, self.factors, np.empty(self.n_features))
        self.pending[:] = 0.0

    def times(self, columns: Floats) -> Floats:
        """Return P times columns (n_features, n)."""
        self.settle()
        step: Floats = dsymm(1.0 / self.factors[SCALE], self.inverse, columns)
        return step

    def with_penalties(self, features: Integers, penalties: Floats) -> Recursion:
        """Return a recursion with new penalties of features that were 0 so far."""
        new = self.copied()
        new.full_penalties[features] = penalties
        new.inverse[features, features] = 1.0 / (self.share * penalties)
        return new

    def restored(self) -> Recursion:
        """Return a copy with the full penalties in force."""
        new, roots = self.copied(), np.sqrt((1.0 - self.share) * self.full_penalties)
        if roots.any():
            inverse = symmetric(new.inverse)
            inverse *= roots
            system = roots[:, None] * inverse
            system.flat[:: len(system) + 1] += 1.0
            factor, _ = dpotrf(system, lower=0)
            columns = dtrsm(1.0, factor, inverse, side=1)
            missing = dtrsm(1.0, factor, roots[:, None] * new.weights, trans_a=1)
            np.subtract(new.weights, columns @ missing, out=new.weights)
            new.inverse = dsyrk(-1.0, columns, 1.0, new.inverse, overwrite_c=1)
        new.factors[KEPT] = 1.0
        return new

    def copied(self) -> Recursion:
        """Return an independent copy with the scale 1."""
        self.settle()
        new, share = shallow_copy(self), self.share
        new.inverse, new.numbers = self.inverse / self.factors[SCALE], self.numbers.copy()
        new.factors[:] = 1.0, 0.0, share
        return new

    def with_intercept(self, weight: float) -> Recursion:
        """Return a copy for centred rows followed by a 1, given the weight of the mean so far.

        The 1 has no penalty, so its output weight corrects the mean.
        """
        new = grown(self, self.n_features + 1, len(self.criterion))
        new.inverse[-1, -1], new.full_penalties[-1] = 1.0 / weight, 0.0
        return new

    def without_intercept(self) -> Recursion:
        """Return a copy for centred rows: the inverse of `with_intercept`."""
        new = Recursion(self.n_features - 1, self.shape[1], self.ridge, self.least)
        new.inverse[:], new.weights[:] = self.inverse[:-1, :-1], self.weights[:-1]
        new.full_penalties[:], new.pending[:] = self.full_penalties[:-1], self.pending[:-1]
        new.criterion[:], new.factors[:], new.trust = self.criterion, self.factors, self.trust
        return new

    def plan_row(self, z: Floats, v: Floats, w: float, decay: float) -> Calls:
        """Return calls that learn a row about the mean; none if it outweighs rows and ridge."""
        image, leverage = leverage_of(self.inverse, self.pending, self.factors, z)
        leverage *= w / decay
        if not (leverage >= 0.0 and 1.0 + leverage <= MAX_RUNNING_LEVERAGE):
            return ()
        errors, ratio = v - z @ self.weights, w / (1.0 + leverage)
        gain = ratio / float(self.factors[SCALE] * decay)
        criterion = decay * self.criterion + ratio * errors**2
        learning = absorb(self.inverse, self.weights, self.factors, decay, gain, image, errors)
        return ((self.criterion.__setitem__, ..., criterion), *learning)

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
        size = BLOCK_ROWS if self.n_features <= MANY_FEATURES else BLOCK_ROWS_OF_MANY
        found, start = [self._learn_block(rows[:size], targets[:size], most)], 0
        while n_learnt := len(found[-1][0]):
            start += n_learnt
            part = slice(start, start + size)
            found.append(self._learn_block(rows[part], targets[part], most))
        scores, innovations = map(np.concatenate, zip(*found, strict=True))
        return scores, innovations

    def _learn_block(self, rows: Floats, targets: Floats, most: float) -> tuple[Floats, Floats]:
        """Learn a few rows in place; return their scores and innovations.

        The recursion must have the scale 1. A block costs the digits of S = I + Z P Z'. Only the
        first rows, whose leverages z'P z add up to at most `most`, are learnt; none if rounding
        errors prevail in S.
        """
        columns, n_rows = rows.T, len(rows)
        if not n_rows:
            return targets, targets
        image = dsymm(1.0, self.inverse, columns)
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
        dsyrk(-1.0, gains, 1.0, self.inverse, 0, 0, 1)
        dgemm(1.0, gains, shares, 1.0, self.weights, 0, 0, 1)
        criterion = self.criterion
        criterion += (shares**2).sum(axis=0)
        # Without its diagonal, row i of L refers to the rows before row i.
        factor.ravel("K")[:: n_rows + 1] = 0.0
        return known + dtrmm(1.0, factor, shares, 0, 0, 1), shares

    def scaled(self, factor: float) -> Recursion:
        """Return a copy with the weight of every row multiplied by a factor above 0.

        The penalties decay with the rows, unless they would fall below their least share.
        """
        new = self.copied()
        new.inverse /= factor
        np.multiply(new.criterion, factor, out=new.criterion)
        new.factors[KEPT] *= factor
        return new.restored() if new.share < new.least else new

    def reindexed(self, places: Places) -> Recursion:
        """Return the recursion of other features and targets.

        No spare room is kept, because every row would pay for it, and a copy costs less than a row.
        """
        mine, others = self.copied(), np.flatnonzero(places.features < 0)
        if not is_growth(places.features, self.n_features):
            mine.inverse = symmetric(mine.inverse)
        new, features = shallow_copy(mine), places.features
        arrays = {
            "factors": mine.factors,
            "full_penalties": gathered(mine.full_penalties, features),
            "pending": gathered(mine.pending, features),
            "criterion": gathered(mine.criterion, places.targets),
            "weights": gathered(mine.weights, features, places.targets),
        }
        new.inverse = gathered(mine.inverse, features, features)
        new.numbers = np.concatenate([each.ravel("F") for each in arrays.values()])
        # P of a feature that was 0 so far is the inverse of its penalty.
        new.inverse[others, others] = 1.0 / (self.share * self.ridge)
        new.full_penalties[others] = self.ridge
        return new

    def with_room(self, room: Room) -> Recursion:
        """Return the recursion of more features and targets, which were 0 so far."""
        self.settle()
        known, n_targets = room.old
        new, (scale, _, share) = Recursion.blank(*room.new, self.ridge), self.factors.tolist()
        new.least, new.trust = self.least, self.trust
        np.divide(self.inverse, scale, out=new.inverse[:known, :known])
        new.full_penalties[:known] = self.full_penalties
        new.weights[:known, :n_targets] = self.weights
        new.criterion[:n_targets], new.factors[:] = self.criterion, (1.0, 0.0, share)
        # P of a feature that was 0 so far is the inverse of its penalty.
        new.full_penalties[known:] = self.ridge
        for feature in range(known, room.new[0]):
            new.inverse[feature, feature] = 1.0 / (share * self.ridge)
        return new

    def variances(self) -> Floats:
        """Return the diagonal of P, (n_features,)."""
        self.settle()
        variances: Floats = self.inverse.diagonal() / self.factors[SCALE]
        return variances
