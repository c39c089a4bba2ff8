"""The experts of a stream: least squares with a long and a short memory, and their mixture.

Rows are learnt singly or in blocks. For rows Z of a block and targets Y the long memory answers
every row by the rows before it as `Recursion.answer_and_learn` does, from one Cholesky factor of
S = I + Z P Z'. In the short memory each new row multiplies the weight of all earlier rows by
f = 0.99. Row i of a block of n therefore weighs f^-i relative to the rows before the block, and the
factor is that of S = I + F Z P Z' F with F = diag(f^(-i/2)); afterwards the past and the block are
multiplied by f^n. A block ends before a row at which a long memory is reset or a ridge is restored:
that row is learnt singly. The answers determine this row before anything is learnt, and the leading
part of the factor of S is the factor for the rows before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import exp, log
from typing import NamedTuple, Self

import numpy as np

from onlinels.checks import Floats
from onlinels.linalg.recursion import N_BUFFERED_COLUMNS, Innovations, Recursion
from onlinels.numerics import Calls, State, apply, shallow_copy
from onlinels.saving import savable

RIDGE = 1.0
"""Ridge on every weight.

Activations are of about unit size, so the ridge weighs as much as one row. From 0.1 to 3 the mean
accuracy on nineteen streams stayed within 0.2 points.
"""

MIN_RIDGE_SHARE = 0.0625
"""Share to which the ridge may decay before it is restored, a quarter as often as with 0.5."""

SHORT_FORGETTING_FACTOR = 0.99
"""Forgetting factor of the short memory: about 100 rows count."""

COMPARISON_DECAY = 0.995
"""Factor on a comparison with each further row: about 200 rows are compared."""

MIN_BLOCK_WEIGHT = 1e-100
"""Replaces the weight 0 in a block: it does not change memories, and scores can be scaled."""

MIN_TAKEOVER_DEVIATIONS = 2.0
"""Standard deviations by which the short memory must be better to replace the long memory."""


class Answered(NamedTuple):
    """Rows of a block, each with the scores (2, n, n_targets) by the rows before it."""

    long: Innovations
    short: Innovations
    scores: Floats


@savable()
class Memories:
    """A recursive least-squares model of all rows, and one of recent rows that may replace it.

    Both learn the same rows. On every row the long, the short or neither memory is better. As in a
    sign test, the long memory is reset to a copy of the short one when the discounted sum of the
    differences exceeds 2 and twice the root of the discounted sum of their squares.

    Attributes
    ----------
    long, short : Recursion
        The long and the short memory.

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
        self.long, self.short = (Recursion(0, 0, RIDGE, MIN_RIDGE_SHARE) for _ in range(2))
        self._lead = self._squares = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and targets."""
        return self.long.n_features, self.long.n_targets

    def grown(self, n_features: int, n_targets: int) -> Self:
        """Return memories with room for features and targets that were 0 in every earlier row."""
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
        """Plan to learn a row (n_features,) of weight w in both memories together.

        `scores` (2, n_targets) are those of the row; `difference` is 1 if the short memory was
        better on this row, -1 if the long memory was, else 0.
        """
        lead, squares, is_reset = self.compared(w * difference)
        long, errors = self.long, targets - scores
        for_long = errors[0]
        if is_reset:
            long, for_long = self.short.copied(), errors[1]
            lead = squares = 0.0
        calls, state = long.plan(row, for_long, w)
        further, states = self.short.plan(row, errors[1], w, SHORT_FORGETTING_FACTOR)
        own = (self, "long", long), (self, "_lead", lead), (self, "_squares", squares)
        return (*calls, *further), (*state, *states, *own)

    def copied(self) -> Self:
        """Return an independent copy."""
        new = shallow_copy(self)
        new.long, new.short = self.long.copied(), self.short.copied()
        return new

    def answer(self, rows: Floats, targets: Floats, weights: Floats) -> Answered:
        """Answer rows (n, n_features), each by the rows before it, without learning them."""
        roots = SHORT_FORGETTING_FACTOR ** (-0.5 * np.arange(1.0, len(rows) + 1.0))[:, None]
        of_weights = np.sqrt(np.maximum(weights, MIN_BLOCK_WEIGHT))[:, None]
        rows, targets = rows * of_weights, targets * of_weights
        long = self.long.innovations(rows, targets)
        short = self.short.innovations(rows * roots, targets * roots)
        scores = np.array([long.scores, short.scores / roots]) / of_weights
        return Answered(long, short, scores)

    def learn_answered(self, found: Answered, n_rows: int) -> None:
        """Learn the first `n_rows` of the answered rows, in place.

        At none of them may the long memory be reset or a ridge be restored.
        """
        self.long.learn_innovations(found.long, n_rows)
        self.short.learn_innovations(found.short, n_rows, SHORT_FORGETTING_FACTOR**n_rows)

    def compared(self, difference: float) -> tuple[float, float, bool]:
        """Return the discounted sums of differences and of their squares after another row.

        The third value tells whether the long memory is reset at this row.
        """
        lead, squares = (
            COMPARISON_DECAY * self._lead + difference,
            COMPARISON_DECAY * self._squares + difference**2,
        )
        return (
            lead,
            squares,
            lead > max(MIN_TAKEOVER_DEVIATIONS, MIN_TAKEOVER_DEVIATIONS * squares**0.5),
        )

    def n_until_restored(self) -> int:
        """Return the number of rows before the next row at which the ridge is restored."""
        short = self.short
        return max(0, int(log(short.least / short.share) / log(SHORT_FORGETTING_FACTOR)))


Compare = Callable[[int, Sequence[Floats]], Iterable[Sequence[float]]]
"""Maps a first row and the scores (2, n, n_targets) of every pair to differences by row."""


def learn_in_blocks(
    pairs: Sequence[Memories],
    rows: Sequence[Floats],
    targets: Sequence[Floats],
    weights: Floats,
    compare: Compare,
) -> list[Memories]:
    """Return copies of pairs of memories that have learnt rows one after another.

    `rows` and `targets` have an array (n, n_features) and (n, n_targets) for every pair. `compare`
    yields the differences of all pairs (see `Memories.plan`) for every answered row; after a reset
    it is called again from that row on, with new scores.
    """
    pairs = [each.copied() for each in pairs]
    n_rows, start = len(rows[0]), 0
    while start < n_rows:
        stop = min(
            n_rows,
            start + N_BUFFERED_COLUMNS,
            start + min(pair.n_until_restored() for pair in pairs),
        )
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
        # A block starts with a scale of 1.
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
    """Learn a part of rows before the first row that resets a memory; return how many it learnt."""
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
    """Return the shares of experts in a forecast, with sum 1, from their discounted losses.

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
