"""The experts of a stream: least squares of a long and a short memory, and how they mix.

Rows are learnt singly or in blocks. For rows Z of a block and targets Y the long memory answers
every row by the rows before it as `Recursion.answer_and_learn` does, from one Cholesky factor of
S = I + Z P Z'. In the short memory, in which all rows lose the factor f = 0.99 with each new row,
row i of a block of n weighs f^-i beside the rows before the block, so its factor is that of
S = I + F Z P Z' F with F = diag(f^(-i/2)); the past and the block are multiplied by f^n afterwards.
A block ends before a row at which a long memory is reset or a ridge is restored: that row is learnt
singly. Which row that is follows from the answers, before anything is learnt: of the factor of S
the leading part is the factor for the rows up to there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import exp, log
from typing import NamedTuple, Self

import numpy as np

from onlinels.checks import Floats
from onlinels.linalg.recursion import N_RECENT, Innovations, Recursion
from onlinels.numerics import Calls, State, apply, shallow_copy
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

LIGHTEST = 1e-100
"""In place of the weight 0 in a block: it leaves memories as they are, and scores can be scaled."""

CLEARLY = 2.0
"""Standard deviations by which the short memory must be better to be taken over."""


class Answered(NamedTuple):
    """Rows of a block, each with the scores (2, n, n_targets) by the rows before it."""

    long: Innovations
    short: Innovations
    scores: Floats


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
        self, row: Floats, targets: Floats, scores: Floats, difference: float, w: float = 1.0
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
        w : float
            The row's weight.
        """
        lead, squares, is_reset = self.compared(w * difference)
        long, errors = self.long, targets - scores
        for_long = errors[0]
        if is_reset:
            long, for_long = self.short.copied(), errors[1]
            lead = squares = 0.0
        calls, state = long.plan(row, for_long, w)
        further, states = self.short.plan(row, errors[1], w, SHORT_MEMORY)
        own = (self, "long", long), (self, "_lead", lead), (self, "_squares", squares)
        return (*calls, *further), (*state, *states, *own)

    def copied(self) -> Self:
        """Return a copy that learns on its own."""
        new = shallow_copy(self)
        new.long, new.short = self.long.copied(), self.short.copied()
        return new

    def answer(self, rows: Floats, targets: Floats, weights: Floats) -> Answered:
        """Answer rows (n, n_features) of a copy, each by the rows before it, and learn nothing."""
        roots = SHORT_MEMORY ** (-0.5 * np.arange(1.0, len(rows) + 1.0))[:, None]
        of_weights = np.sqrt(np.maximum(weights, LIGHTEST))[:, None]
        rows, targets = rows * of_weights, targets * of_weights
        long = self.long.innovations(rows, targets)
        short = self.short.innovations(rows * roots, targets * roots)
        scores = np.array([long.scores, short.scores / roots]) / of_weights
        return Answered(long, short, scores)

    def learn_answered(self, found: Answered, n_rows: int) -> None:
        """Learn the first rows of those that are answered, in place.

        None of them may be a row at which the long memory is reset or a ridge is restored.
        """
        self.long.learn_innovations(found.long, n_rows)
        self.short.learn_innovations(found.short, n_rows, SHORT_MEMORY**n_rows)

    def compared(self, difference: float) -> tuple[float, float, bool]:
        """Return the discounted sums of differences and of their squares, after another row.

        With them comes whether the long memory is reset at this row.
        """
        lead, squares = COMPARED * self._lead + difference, COMPARED * self._squares + difference**2
        return lead, squares, lead > max(CLEARLY, CLEARLY * squares**0.5)

    def n_until_restored(self) -> int:
        """Return how many rows come before the next one at which the ridge is restored."""
        short = self.short
        return max(0, int(log(short.least / short.share) / log(SHORT_MEMORY)))


Compare = Callable[[int, Sequence[Floats]], Iterable[Sequence[float]]]
"""Scores (2, n, n_targets) of every pair for rows from a number on, to differences by row."""


def learn_in_blocks(
    pairs: Sequence[Memories],
    rows: Sequence[Floats],
    targets: Sequence[Floats],
    weights: Floats,
    compare: Compare,
) -> list[Memories]:
    """Return copies of pairs of memories that have learnt rows one after another.

    Parameters
    ----------
    pairs : list of Memories
    rows, targets : list of ndarray (n, n_features), list of ndarray (n, n_targets)
        Of every pair.
    weights : ndarray (n,)
        Of the rows.
    compare : callable
        Yields for every row that is answered the differences of all pairs (see `Memories.plan`).
        Where a memory is reset it is called again from that row on, with new scores.
    """
    pairs = [each.copied() for each in pairs]
    n_rows, start = len(rows[0]), 0
    while start < n_rows:
        stop = min(n_rows, start + N_RECENT, start + min(pair.n_until_restored() for pair in pairs))
        if stop > start:
            start += _learn_block(pairs, rows, targets, weights, slice(start, stop), compare)
            if start == stop:
                continue
        # This row resets a memory, or restores a ridge.
        scores = [pair.scores(seen[start]) for pair, seen in zip(pairs, rows, strict=True)]
        (differences,) = compare(start, [both[:, None] for both in scores])
        for number, pair in enumerate(pairs):
            seen, y = rows[number][start], targets[number][start]
            planned = pair.plan(seen, y, scores[number], differences[number], weights.item(start))
            apply(planned)
        # Blocks go on from a scale of 1.
        pairs = [pair.copied() for pair in pairs]
        start += 1
    return pairs


def _learn_block(
    pairs: Sequence[Memories],
    rows: Sequence[Floats],
    targets: Sequence[Floats],
    weights: Floats,
    part: slice,
    compare: Compare,
) -> int:
    """Learn a part of rows, up to the first that resets a memory; return how many are learnt."""
    each = zip(pairs, rows, targets, strict=True)
    found = [pair.answer(seen[part], y[part], weights[part]) for pair, seen, y in each]
    n_learnt, differences_of = 0, compare(part.start, [answered.scores for answered in found])
    for differences, w in zip(differences_of, weights[part].tolist(), strict=True):
        compared = [pair.compared(w * each) for pair, each in zip(pairs, differences, strict=True)]
        if any(is_reset for _, _, is_reset in compared):
            break
        for pair, (lead, squares, _) in zip(pairs, compared, strict=True):
            pair._lead, pair._squares = lead, squares
        n_learnt += 1
    for pair, answered in zip(pairs, found, strict=True):
        pair.learn_answered(answered, n_learnt)
    return n_learnt


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
