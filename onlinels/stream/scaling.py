"""Features on one scale, by means and variances of the rows so far."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinels.accumulators.ledger import lengthened
from onlinels.arrays import Floats, Integers

Booleans = NDArray[np.bool_]

FARTHEST = 6.0
"""Standard deviations beyond which a value is taken as this far: an outlier is one row."""

LEAST_DEVIATION = 1e-155
"""Standard deviation below which values count as equal: others over it would overflow."""

RESOLUTION = 1e-9
"""Standard deviation, relative to the mean, below which differences are rounding errors."""

FADING = 0.9995
"""What is left of a row's weight after each further row: some 2,000 rows tell the scale.

From 0.999 to 1 the mean accuracy on sixteen streams stayed within 0.1 points.
"""

FEWEST = 4.0
"""Rows, by weight, on which a scale must rest: of fewer it is not believed."""

ANEW = 5
"""Values in a row that are too far off, after which a feature begins anew."""


class RunningScaler:
    """Standardise rows by the mean and variance of the rows learnt before them.

    What is unknown (NaN) is 0, the mean, and so is all of the first row. A feature that comes late
    was 0 before. While all values of a feature were equal, another one is -1 or 1. So the units of
    a feature do not matter, and of one that was there from the first row the origin neither.

    The scale follows the stream: the weight of rows fades, and from the fifth row on a value more
    than 6 standard deviations off is learnt as being 6 off. So one outlier changes little; after
    five in a row, as when a sensor is replaced, the feature begins anew. A scale that falls, or was
    spoilt by an outlier among the first rows, is followed more slowly: by a factor of 10 in some
    thousands of rows. It cannot be told from a signal that moves slowly.

    Notes
    -----
    Welford's recursion with weights that fade: about ten operations a feature and row.

    References
    ----------
    B. P. Welford, "Note on a method for calculating corrected sums of squares and products",
    Technometrics 4 (1962).

    Examples
    --------
    >>> scaler = RunningScaler()
    >>> scaler.grow(1)
    >>> for value in (10.0, 30.0):
    ...     scaler.learn(np.array([value]))
    >>> scaler.transform(np.array([40.0])).round(2), scaler.transform(np.array([np.nan]))
    (array([2.]), array([0.]))
    """

    def __init__(self) -> None:
        self._count = 0.0
        self._n_rows = 0
        self.counts = np.zeros(0)
        self._n_far: Integers = np.zeros(0, dtype=np.intp)
        self._any_far = False
        self.means = np.zeros(0)
        self.variances = np.zeros(0)

    def grow(self, n_features: int) -> None:
        """Make room for features that were 0 in every row so far."""
        known = len(self.counts)
        self.counts = lengthened(self.counts, n_features)
        self.counts[known:] = self._count
        self.means = lengthened(self.means, n_features)
        self._n_far = np.concatenate((self._n_far, np.zeros(n_features - known, dtype=np.intp)))
        self.variances = lengthened(self.variances, n_features)

    def transform(self, row: Floats) -> Floats:
        """Return a row (n_features,), NaN where unknown, in standard deviations from the mean."""
        gaps = row - self.means
        deviations = np.sqrt(self.variances)
        if len(row) and not deviations[deviations.argmin()] > LEAST_DEVIATION:
            signs = np.where(gaps, abs(gaps), 1.0)
            deviations = np.where(deviations > LEAST_DEVIATION, deviations, signs)
            gaps[self.counts == 0.0] = 0.0
        gaps /= deviations
        # Measured: half the time of numpy's clip.
        np.minimum(gaps, FARTHEST, out=gaps)
        np.maximum(gaps, -FARTHEST, out=gaps)
        gaps[gaps != gaps] = 0.0
        return gaps

    def learn(self, row: Floats) -> None:
        """Take a row into account: in new arrays, as a draft may look at those of before."""
        self._count = FADING * self._count + 1.0
        self._n_rows += 1
        if self._n_rows % 1024 == 0:
            # A mean never quite comes to rest at a value that does not change any more.
            least = (RESOLUTION * self.means) ** 2
            self.variances = np.where(self.variances > 0.0, np.maximum(self.variances, least), 0.0)
        known: Any = row == row
        # Measured, here and below: a fifth of the time of numpy's all and any.
        if len(row) and known[known.argmin()]:
            known = 1.0
        else:
            # A value at the mean, without weight.
            row = np.where(known, row, self.means)
        gaps = row - self.means
        squares = gaps * gaps
        far = squares > FARTHEST**2 * self.variances
        if self._any_far or (len(row) and far[far.argmax()]):
            self._meet_outliers(far, row, gaps)
            squares = gaps * gaps
        self.counts = FADING * self.counts + known
        shares = known / np.maximum(self.counts, 1.0)
        self.means = self.means + shares * gaps
        squares -= shares * squares
        squares -= self.variances
        squares *= shares
        self.variances = self.variances + squares

    def _meet_outliers(self, far: Booleans, row: Floats, gaps: Floats) -> None:
        """Let values far off count as less far, and features begin anew after too many of them."""
        deviations = np.sqrt(self.variances)
        far &= (deviations > LEAST_DEVIATION) & (self.counts >= FEWEST)
        limit = FARTHEST * deviations[far]
        gaps[far] = np.minimum(np.maximum(gaps[far], -limit), limit)
        self._n_far = np.where(far, self._n_far + 1, 0)
        anew = self._n_far == ANEW
        self.counts = np.where(anew, 0.0, self.counts)
        self.variances = np.where(anew, 0.0, self.variances)
        self.means = np.where(anew, row, self.means)
        gaps[anew], self._n_far[anew] = 0.0, 0
        self._any_far = bool(self._n_far.any())
