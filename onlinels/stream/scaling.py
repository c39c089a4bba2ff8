"""Features on one scale, by means and variances of the rows so far."""

from __future__ import annotations

import numpy as np

from onlinels.accumulators.ledger import lengthened
from onlinels.arrays import Floats

FARTHEST = 6.0
"""Standard deviations beyond which a value is taken as this far: an outlier is one row."""

LEAST_DEVIATION = 1e-155
"""Standard deviation below which values count as equal: others over it would overflow."""


class RunningScaler:
    """Standardise rows by the mean and variance of the rows learnt before them.

    What is unknown (NaN) is 0, the mean, and so is all of the first row. A feature that comes late
    was 0 before. While all values of a feature were equal, another one is -1 or 1. So the units of
    a feature do not matter, and of one that was there from the first row the origin neither.

    Notes
    -----
    Welford's recursion: ``5 n_features`` operations a row, exact in one pass.

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
    >>> scaler.transform(np.array([40.0])), scaler.transform(np.array([np.nan]))
    (array([2.]), array([0.]))
    """

    def __init__(self) -> None:
        self._count = 0
        self.counts = np.zeros(0)
        self.means = np.zeros(0)
        self.variances = np.zeros(0)

    def grow(self, n_features: int) -> None:
        """Make room for features that were 0 in every row so far."""
        known = len(self.counts)
        self.counts = lengthened(self.counts, n_features)
        self.counts[known:] = self._count
        self.means = lengthened(self.means, n_features)
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
        """Take a row into account."""
        self._count += 1
        known = row == row
        if not known.all():
            # A value at the mean, without weight.
            row = np.where(known, row, self.means)
        self.counts += known
        shares = known / np.maximum(self.counts, 1.0)
        gaps = row - self.means
        self.means += shares * gaps
        gaps *= row - self.means
        gaps -= self.variances
        gaps *= shares
        self.variances += gaps
