"""Experts' scores into one forecast, by their recent errors."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Floats
from onlinels.calibration import SCALES, best_scale, calibrate

RECENT = 0.995
"""What is left of an error after each further row: some 200 rows count."""

RATE = 0.5
"""An expert's share falls by the factor exp(-0.5) with each recent error more."""

CREDIBLE = -0.5, 1.5
"""Scores beyond this range are taken as its ends: an expert far off must not outvote the rest."""


class Forecaster:
    """Mix the scores of experts, and turn the mixture into probabilities.

    Expert i has the share exp(-0.5 L_i) / sum_j exp(-0.5 L_j), where L_i counts its errors made
    before learning each row, discounted by 0.995 a row: the exponentially weighted average
    forecaster. Probabilities are the softmax of the mixture times a scale, the one of least
    log-loss on the rows so far.

    Parameters
    ----------
    n_experts : int

    References
    ----------
    N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games" (2006), sections 2.1 and 2.11.

    Examples
    --------
    >>> forecaster = Forecaster(2)
    >>> forecaster.learn(np.array([[0.9, 0.1], [0.2, 0.8]]), column=0)
    [False, True]
    >>> forecaster.shares.round(2)
    array([0.62, 0.38])
    """

    def __init__(self, n_experts: int) -> None:
        self._errors = np.zeros(n_experts)
        self._losses = np.zeros(len(SCALES))
        self._count = 0

    @property
    def shares(self) -> Floats:
        """Shares of the experts in the forecast, (n_experts,), of sum 1."""
        shares = np.exp(RATE * (self._errors.min() - self._errors))
        normalised: Floats = shares / shares.sum()
        return normalised

    def mix(self, scores: Floats) -> Floats:
        """Return the mixture (n_classes,) of scores (n_experts, n_classes)."""
        low, high = CREDIBLE
        mixed: Floats = self.shares @ np.minimum(np.maximum(scores, low), high)
        return mixed

    def probabilities(self, mixtures: Floats) -> Floats:
        """Return probabilities for mixtures, both (n, n_classes)."""
        if not mixtures.shape[1]:
            return mixtures
        return calibrate(mixtures, best_scale(self._losses), self._count)

    def learn(self, scores: Floats | None, column: int) -> list[bool]:
        """Take note of who erred on a row, before it is learnt.

        Parameters
        ----------
        scores : ndarray (n_experts, n_classes) or None
            None for a row of a new class, which nobody could know: it counts, and nothing else.
        column : int

        Returns
        -------
        list of bool
            Whether each expert erred.
        """
        if scores is None:
            self._count += 1
            return [False] * len(self._errors)
        self._losses -= np.log(calibrate(self.mix(scores), SCALES[:, None], self._count)[:, column])
        errs = scores.argmax(axis=1) != column
        self._errors *= RECENT
        self._errors += errs
        self._count += 1
        return [bool(err) for err in errs]
