"""Output weights that follow a Gram row by row, so that predicting between rows stays cheap."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dgemm

from onlinels.accumulators.inverse import RunningInverse
from onlinels.checks import Floats, Matrix
from onlinels.linalg.packed import (
    LARGEST_WHOLE,
    SymmetricPanels,
    factor_in_place,
    inverse_of_factored,
    smallest_eigenvalue,
)
from onlinels.targets import errors_of

TRUSTED = 1e-3
"""Smallest eigenvalue of the scaled system from which corrections need no check."""

TRACKED = 1e-11
"""Smallest eigenvalue of the scaled system at which an inverse still leads to the solution."""

STEPS = 8
"""Steps of conjugate gradients after which a new factor is the better choice."""

DRIFT = 0.5
"""Decay of the data, or change of the ridge, from which a new factor is the better choice."""

WASTED = 4
"""Products of M^2, times M, spent on another ridge until a factor of its own is the better choice.

Measured at 256 to 1,024 features: after "auto" has chosen anew a row takes a tenth of the time, and
with "paper", another ridge at every row, no longer than without.
"""

ROUNDING = 16.0 * float(np.finfo(np.float64).eps)
"""Residual relative to the size of its terms that is no more than rounding."""


class TrackedSolution:
    """The solution W of (A'A + c I) W = A'Y, corrected for rows that have come since.

    The inverse P of the system is made once, scaled to unit diagonal. k rows change it by a term
    of rank k, and W by P X'(Y - X W): the recursion of least squares, O(k M^2). Where that cannot
    be trusted to the last digits (a badly conditioned system, weights that have decayed, a
    ridge that has changed), conjugate gradients with P as preconditioner lead to the solution of
    the exact system, in one step or a few.

    Parameters
    ----------
    gram : SymmetricPanels
        A'A.
    weights : ndarray (n_features, n_targets)
        The solution.
    ridge : float
        c > 0.
    diagonal : ndarray (n_features,)
        That of the Gram, with 0 for features that have no weight.

    Raises
    ------
    ValueError
        If the system is too badly conditioned to be tracked.

    Notes
    -----
    ``M^3`` operations to make, three times those of a solution, and ``8 M^2`` bytes.
    """

    def __init__(
        self, gram: SymmetricPanels, weights: Floats, ridge: float, diagonal: Floats
    ) -> None:
        if len(gram) > LARGEST_WHOLE:
            raise ValueError(f"{len(gram)} features, expected at most {LARGEST_WHOLE}")
        self._active = diagonal > 0.0
        self._scale = np.where(self._active, 1.0 / np.sqrt(diagonal + ridge), 0.0)
        system = gram.scaled(self._scale)
        system.set_diagonal(1.0)
        smallest = smallest_eigenvalue(system) if factor_in_place(system) else 0.0
        if smallest < TRACKED:
            raise ValueError(f"the smallest eigenvalue is {smallest:.1g}, expected {TRACKED:g}")
        self._inverse = RunningInverse.holding(inverse_of_factored(system))
        self._weights = np.array(weights, order="F")
        self._ridge = ridge
        self._decay = 1.0
        self._trusted = smallest >= TRUSTED
        # Products with the Gram or the inverse, by column, that a factor with the ridge of now
        # would have spared.
        self._n_products = 0
        self.n_rows = 0

    def learn(self, block: Floats, targets: Matrix, w: Floats) -> None:
        """Follow rows with weights of one sign, in O(n M^2).

        Raises
        ------
        ValueError
            If they are too much for the inverse.
        """
        rows, sign = block * self._scale, -1.0 if w.min() < 0.0 else 1.0
        if len(block) == 1:
            gains = self._inverse.add_one(rows[0], float(w[0]))[:, None]
        else:
            gains = (self._inverse.add if sign > 0.0 else self._inverse.remove)(rows, sign * w)
        errors = errors_of(block, self._weights, targets)
        # Of what is taken out, the inverse keeps the rounding errors.
        self._trusted = self._trusted and sign > 0.0
        gains = gains[: len(self._scale)] * self._scale[:, None]
        self._weights = dgemm(sign, gains, errors, 1.0, self._weights, overwrite_c=1)
        self.n_rows += len(block)

    def decay(self, factor: float) -> None:
        """Follow a decay of the Gram, as if the ridge decayed with it.

        Raises
        ------
        ValueError
            If too little is left.
        """
        self._decay *= factor
        if not self._decay >= DRIFT:
            raise ValueError(f"weights have decayed to {self._decay:g}, expected {DRIFT:g}")
        self._inverse.scale(factor)
        self._trusted = False

    def add_targets(self, n_targets: int) -> None:
        """Make room for targets that were 0 so far."""
        missing = n_targets - self._weights.shape[1]
        if missing > 0:
            self._weights = np.pad(self._weights, ((0, 0), (0, missing)))

    def solve(
        self, gram: SymmetricPanels, cross: Floats, ridge: float, diagonal: Floats
    ) -> Floats | None:
        """Return the solution as it is now, or None if it takes too long from here.

        Parameters
        ----------
        gram : SymmetricPanels
        cross : ndarray (n_features, n_targets)
            The exact sums, all rows included.
        ridge : float
        diagonal : ndarray (n_features,)
        """
        drifted = not DRIFT <= ridge / self._ridge <= 1.0 / DRIFT
        if drifted or not np.array_equal(diagonal > 0.0, self._active):
            return None
        # From now on the weights are not those of the inverse's own ridge.
        self._trusted = self._trusted and ridge == self._ridge
        if not self._trusted:
            if self._n_products > WASTED * len(gram):
                return None
            refined = self._refined(gram, cross, ridge)
            if refined is None:
                return None
            self._weights = refined
        return self._weights.copy()

    def _refined(self, gram: SymmetricPanels, cross: Floats, ridge: float) -> Floats | None:
        """Return the solution by conjugate gradients, None if they take too many steps."""
        weights, scale = self._weights.copy(order="F"), self._scale[:, None]
        size = np.sqrt(len(scale)) * _norms(weights / np.where(scale, scale, 1.0))
        enough = ROUNDING * (size + _norms(scale * cross)) + np.finfo(np.float64).tiny
        residual = cross - (gram.times(weights) + ridge * weights)
        direction, power = np.zeros(weights.shape), np.ones(weights.shape[1])
        for _ in range(STEPS):
            if (_norms(scale * residual) <= enough).all():
                return weights
            if ridge != self._ridge:
                self._n_products += 2 * weights.shape[1]
            step = scale * self._inverse.times(scale * residual)
            before, power = power, np.einsum("ij,ij->j", residual, step)
            # What has converged to the last bit has no direction left.
            power = np.maximum(power, np.finfo(np.float64).tiny)
            direction = np.asfortranarray(step + direction * (power / before))
            product = gram.times(direction) + ridge * direction
            curvature = np.einsum("ij,ij->j", direction, product)
            length = np.where(curvature > 0.0, power / np.where(curvature > 0, curvature, 1.0), 0.0)
            weights += direction * length
            residual -= product * length
        return None


def _norms(columns: Floats) -> Floats:
    norms: Floats = np.linalg.norm(columns, axis=0)
    return norms
