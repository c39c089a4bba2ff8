"""The experts of a stream: least squares of a long and a short memory, and how they mix."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Self

import numpy as np

from onlinels.checks import Floats
from onlinels.linalg.recursion import Recursion
from onlinels.numerics import Calls, State, shallow_copy
from onlinels.saving import REAL, SHARE, made_of, savable

RIDGE = 1.0
"""Ridge on every weight.

Activations are of about unit size, so this is the weight of one row. From 0.1 to 3 the mean
accuracy on nineteen streams stayed within 0.2 points.
"""

LEAST_RIDGE = 0.0625
"""Share of the ridge to which it may decay: a quarter of the restoring that 0.5 needs."""

SHORT_MEMORY = 0.99
"""Forgetting factor of the short memory: the last 100 rows weigh as much as all before."""

COMPARED = 0.995
"""What is left of a comparison after each further row: some 200 rows are compared."""

CLEARLY = 2.0
"""Standard deviations by which the short memory must be better to be taken over."""


@savable(
    {"long": made_of(Recursion), "short": made_of(Recursion), "_lead": REAL, "_squares": SHARE},
    lambda made: made.long.weights.shape == made.short.weights.shape,
)
class Memories:
    """A recursive least-squares model of all rows, and one of recent rows that may replace it.

    Both see the same rows. In every row one, the other or neither is better; as in a sign test, the
    long memory goes on from the short one once the discounted sum of the differences exceeds 2, and
    2 roots of that of their squares.

    Attributes
    ----------
    long, short : Recursion

    Examples
    --------
    >>> from onlinels.numerics import apply
    >>> memories = Memories().grown(1, 1)
    >>> row, target = np.array([1.0]), np.array([4.0])
    >>> apply(memories.plan(row, target, memories.scores(row), difference=0.0))
    >>> memories.scores(row).round(3)
    array([[2.  ],
           [2.01]])
    """

    def __init__(self) -> None:
        self.long, self.short = (Recursion(0, 0, RIDGE, LEAST_RIDGE) for _ in range(2))
        self._lead = self._squares = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and targets."""
        return self.long.n_features, self.long.n_targets

    def grown(self, n_features: int, n_targets: int) -> Self:
        """Return it with room for features and targets that were 0 in every row so far."""
        new = shallow_copy(self)
        new.long, new.short = (
            each.grown(n_features, n_targets) for each in (self.long, self.short)
        )
        return new

    def scores(self, row: Floats) -> Floats:
        """Return the scores (2, n_targets) of the long and the short memory."""
        return np.array([row.dot(self.long.weights), row.dot(self.short.weights)])

    def plan(
        self, row: Floats, targets: Floats, scores: Floats, difference: float
    ) -> tuple[Calls, State]:
        """Plan to learn a row: changes of both memories that are made together.

        Parameters
        ----------
        row : ndarray (n_features,)
        targets : ndarray (n_targets,)
        scores : ndarray (2, n_targets)
            As `scores` gives them for this row.
        difference : float
            1 if the short memory was the better one on this row, -1 if the long one was, else 0.
        """
        lead, squares = COMPARED * self._lead + difference, COMPARED * self._squares + difference**2
        long, errors = self.long, targets - scores
        for_long = errors[0]
        if lead > max(CLEARLY, CLEARLY * squares**0.5):
            long, for_long = self.short.copied(), errors[1]
            lead = squares = 0.0
        calls, state = long.plan(row, for_long)
        further, states = self.short.plan(row, errors[1], 1.0, SHORT_MEMORY)
        own = (self, "long", long), (self, "_lead", lead), (self, "_squares", squares)
        return (*calls, *further), (*state, *states, *own)


def shares_of(losses: Sequence[float], rate: float) -> Floats:
    """Return the shares of experts in a forecast, of sum 1, by their discounted losses.

    Expert i has the share exp(-rate L_i) / sum_j exp(-rate L_j): the exponentially weighted average
    forecaster.

    Examples
    --------
    >>> shares_of([0.0, 2.0], rate=0.5).round(3)
    array([0.731, 0.269])
    """
    fewest = min(losses)
    shares = [exp(rate * (fewest - loss)) for loss in losses]
    total = sum(shares)
    return np.array([share / total for share in shares])
