"""Experts' scores into one forecast, by their recent errors."""

from __future__ import annotations

from math import exp

import numpy as np

from onlinels.arrays import Floats
from onlinels.calibration import SCALES, best_scale, calibrate

RECENT = 0.995
"""What is left of an error after each further row: some 200 rows count."""

RATE = 0.5
"""An expert's share falls by the factor exp(-0.5) with each recent error more."""

CREDIBLE = -0.5, 1.5
"""Scores beyond this range are taken as its ends: an expert far off must not outvote the rest."""

SAMPLED = 4
"""Of so many rows one is used to choose the scale: a tenth of the time of a row saved."""


class Forecaster:
    """Mix the scores of experts, and turn the mixture into probabilities.

    Expert i has the share exp(-0.5 L_i) / sum_j exp(-0.5 L_j), where L_i counts its errors made
    before learning each row, discounted by 0.995 a row: the exponentially weighted average
    forecaster. Probabilities are the softmax of the mixture times a scale, the one of least
    log-loss on every fourth row so far.

    Parameters
    ----------
    n_experts : int

    References
    ----------
    N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games" (2006), sections 2.1 and 2.11.

    Examples
    --------
    >>> forecaster, scores = Forecaster(2), np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> forecaster.learn(scores, forecaster.mix(scores), column=0)
    [False, True]
    >>> forecaster.shares.round(2)
    array([0.62, 0.38])
    """

    def __init__(self, n_experts: int) -> None:
        # Plain floats: numpy takes longer over four numbers.
        self._errors = [0.0] * n_experts
        self._losses = np.zeros(len(SCALES))
        self._scale = best_scale(self._losses)
        self._count = 0

    @property
    def shares(self) -> Floats:
        """Shares of the experts in the forecast, (n_experts,), of sum 1."""
        fewest = min(self._errors)
        shares = [exp(RATE * (fewest - errors)) for errors in self._errors]
        total = sum(shares)
        return np.array([share / total for share in shares])

    def mix(self, scores: Floats) -> Floats:
        """Return the mixture (n_classes,) of scores (n_experts, n_classes)."""
        low, high = CREDIBLE
        mixed: Floats = self.shares.dot(np.minimum(np.maximum(scores, low), high))
        return mixed

    def probabilities(self, mixtures: Floats) -> Floats:
        """Return probabilities for mixtures, both (n, n_classes)."""
        if not mixtures.shape[1]:
            return mixtures
        return calibrate(mixtures, self._scale, self._count)

    def learn_new_class(self) -> list[bool]:
        """Take note of a row that nobody could know: it counts, and nobody erred."""
        self._count += 1
        return [False] * len(self._errors)

    def learn(self, scores: Floats, mixture: Floats, column: int) -> list[bool]:
        """Take note of who erred on a row of a known class, before it is learnt.

        Parameters
        ----------
        scores : ndarray (n_experts, n_classes)
        mixture : ndarray (n_classes,)
            What `mix` made of the scores.
        column : int
            Of the row's label.

        Returns
        -------
        list of bool
            Whether each expert erred.
        """
        if self._count % SAMPLED == 0:
            likelihoods = calibrate(mixture, SCALES[:, None], self._count)[:, column]
            # Into a new array: a draft may look at that of before.
            self._losses = self._losses - np.log(likelihoods)
            self._scale = best_scale(self._losses)
        errs: list[bool] = (scores.argmax(axis=1) != column).tolist()
        self._errors = [RECENT * e + err for e, err in zip(self._errors, errs, strict=True)]
        self._count += 1
        return errs
