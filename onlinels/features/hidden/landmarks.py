"""Differences of landmark examples as input weights, without forming the matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import DTypeLike

from onlinels.arrays import Integers, Matrix
from onlinels.features.hidden.input_weights import FixedWeights, InputWeights
from onlinels.products import product

BLOCK_ROWS = 8
"""Rows whose differences are gathered at once, so that they stay in the cache."""

GATHER_COST = 100
"""Multiply-adds in the time of one gathered difference.

Measured for 1,000 rows of 6,000 features, 12,000 units, float32, one thread, medians of 7: with
2,000 (4,000) landmarks the product takes 228 (448) ms and the differences 23 (25) ms, np.take in
blocks of 8 rows (2 ns each, as about 100 multiply-adds); all rows at once 36 (35) ms, and indexing
51 (67) ms. Rows of the transposed product take 19 (16) ms, but 56 (60) ms with bringing the result
back to rows. The formed matrix takes 1,330 ms.
"""


def landmarks_pay(n_landmarks: int, n_features: int, n_hidden: int) -> bool:
    """Tell whether differences of landmarks are cheaper than the formed matrix: a count of work.

    Examples
    --------
    >>> landmarks_pay(2000, 6000, 12000), landmarks_pay(12000, 6000, 12000)
    (True, False)
    """
    return n_features * n_landmarks + GATHER_COST * n_hidden < n_features * n_hidden


@dataclass(frozen=True, eq=False, repr=False)
class LandmarkWeights(InputWeights):
    """Input weights that are scaled differences of landmark examples, never formed.

    Unit k projects features x on w_k = scale_k (l_a - l_b), the pair a, b being its own:
    scale_k ((x l_a + offset_a) - (x l_b + offset_b)).

    Parameters
    ----------
    names : tuple
        Names of the features, a column of `landmarks` each.
    landmarks : ndarray (n_landmarks, n_features)
        The differences do not change with what is subtracted from all landmarks, but the rounding
        errors do: they should have mean 0.
    landmark_offsets : ndarray (n_landmarks,)
    first, second : ndarray (n_hidden,) of int
        The landmarks of every pair.
    scales : ndarray (n_hidden,)
        0 for pairs of equal examples.

    Notes
    -----
    ``n L m`` multiply-adds for n rows and m landmarks, and ``n M`` differences of the time of about
    100 multiply-adds each. Memory: the landmarks, and three numbers a hidden unit.

    The rounding errors are relative to the landmarks, not to their differences. In float32, for
    2,000 features whose means are 30 standard deviations, the relative error was 4e-7 as of the
    formed matrix, and 2e-4 with landmarks whose mean was left in.

    Examples
    --------
    >>> landmarks, pair = np.array([[1.0, 0.0], [0.0, 1.0]]), (np.array([0]), np.array([1]))
    >>> weights = LandmarkWeights(("a", "b"), landmarks, np.zeros(2), *pair, np.array([2.0]))
    >>> weights.project(np.array([[3.0, 5.0]]))
    array([[-4.]])
    """

    landmarks: Matrix
    landmark_offsets: Matrix
    first: Integers
    second: Integers
    scales: Matrix

    @property
    def n_hidden(self) -> int:
        """Number M of hidden units."""
        return len(self.scales)

    @property
    def weights(self) -> Matrix:
        """The matrix (n_features, n_hidden), formed anew."""
        return self.formed().weights

    def formed(self) -> FixedWeights:
        """Return the same input weights as a matrix."""
        differences = self.landmarks[self.first] - self.landmarks[self.second]
        offsets = self.landmark_offsets[self.first] - self.landmark_offsets[self.second]
        weights = np.ascontiguousarray((differences * self.scales[:, None]).T)
        return FixedWeights(self.names, weights, offsets * self.scales)

    def project(self, features: Matrix) -> Matrix:
        """Return the projections (n, n_hidden) of features (n, n_features), a new array."""
        products = product(features, self.landmarks.T)
        products += self.landmark_offsets
        projections = np.empty((len(products), self.n_hidden), dtype=products.dtype)
        subtracted = np.empty((BLOCK_ROWS, self.n_hidden), dtype=products.dtype)
        for start in range(0, len(products), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            block, part = products[rows], projections[rows]
            # The indices are known to be good; mode="raise" would go through a buffer.
            np.take(block, self.first, axis=1, out=part, mode="clip")
            mates = np.take(block, self.second, axis=1, out=subtracted[: len(part)], mode="clip")
            part -= mates
            part *= self.scales
        return projections

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the same in another precision; this very object if it has it already."""
        if self.landmarks.dtype == dtype:
            return self
        return replace(
            self,
            landmarks=self.landmarks.astype(dtype),
            landmark_offsets=self.landmark_offsets.astype(dtype),
            scales=self.scales.astype(dtype),
        )
