"""Weights that follow single rows: when a recursion begins beside the sums, and while it answers.

A model's marks (`onlinels.core.constants`) count rows: at its last prediction, and up to which its
weights answer. `onlinels.core` reads and writes them with every row.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import numpy as np

from onlinels.checks import Floats
from onlinels.core.constants import DUE_WEIGHT, N_MARKS, NEXT_DUE, PREDICTED_AT, SHARE, VALID_UNTIL
from onlinels.numerics import is_array
from onlinels.sums.recursion import Recursion
from onlinels.sums.solve import are_few
from onlinels.sums.statistics import Statistics, patience_of

RENEWAL_ROWS, RENEWAL_ROWS_PER_FEATURE = 16_384, 16
"""A recursion is replaced at multiples of 16,384 rows, or of 16 rows per feature.

Learning never amplifies the errors of an inverse relative to the sums: the errors only add up.
Measured over 20,000 rows of 5 to 64 features, independent or correlated, with outliers or far from
0: the weights differ from solved weights by 1e-16 to 3e-12, after 20,000 rows as after 2,000.
"""

MAX_DROPPED_SHARE = 1e-12
"""Sum of squares, relative to the ridge, of a feature that counts as constant, for a recursion."""

MIN_SHARE = 0.5 * (1.0 - 1e-9)
"""Share of the ridge below which a ridge that decays with the rows is set to c again.

It is slightly below a half, because decays over whole half-lives reach a half up to rounding, and
rounding must not decide.
"""


def new_marks(share: float = 1.0, due: float = 0.0, due_weight: float = 0.0) -> Floats:
    """Return the marks of a model without predictions, given the share of its ridge.

    `due` is the count of rows at which a ridge is chosen next; 0 for now. `due_weight` is the mark
    `DUE_WEIGHT`.
    """
    marks = np.zeros(N_MARKS)
    marks[[PREDICTED_AT, NEXT_DUE, SHARE, DUE_WEIGHT]] = -np.inf, due, share, due_weight
    return marks


def are_marks(marks: Floats) -> bool:
    """Return whether loaded marks can be those of a model."""
    return bool(is_array(marks, N_MARKS) and 0.0 < marks[SHARE] <= 1.0)


def decayed(share: float, factors: Iterable[float]) -> float:
    """Return the share of a ridge after rows, given the factor on the earlier rows at each.

    Examples
    --------
    >>> decayed(1.0, [0.75]), decayed(0.75, [0.5, 0.75])
    (0.75, 0.75)
    """
    for factor in factors:
        share *= factor
        if share < MIN_SHARE:
            share = 1.0
    return share


def recursion_at(
    statistics: Statistics, weights: Floats, ridge: float, penalties: float | Floats
) -> Recursion | None:
    """Return the recursion of solved weights; None if rounding prevails in its inverse."""
    # The inverse would know of squares that the weights leave out.
    if (statistics.dropped > MAX_DROPPED_SHARE * np.asarray(penalties)).any():
        return None
    full = np.array(np.broadcast_to(penalties, statistics.n_features))
    recursion = statistics.products.recursion_of(weights, ridge, full)
    if recursion is not None:
        # min |Y - A W|^2 + W'D W = Y'Y - W'A'Y
        explained = np.einsum("ij,ij->j", weights, statistics.products.row_arrays()[0])
        recursion.criterion[:] = statistics.target_squares - explained
    return recursion


def begin_after_solving(
    marks: Floats, statistics: Statistics, weights: Floats, ridge: float, penalties: float | Floats
) -> Recursion | None:
    """Return a recursion after a prediction for which the sums were solved, and note both.

    None unless predictions keep coming, and solving takes longer than learning a row. Without a
    recursion, the weights answer until the next row.
    """
    count, n_features = statistics.count, statistics.n_features
    keeps_coming = count - marks[PREDICTED_AT] <= patience_of(n_features)
    # In this order: until the last line, no weights answer.
    marks[PREDICTED_AT] = count
    recursion = None
    # The first row with a weight is learnt as a batch, which a recursion cannot learn.
    # If a choice of the ridge is due with the next row, the weights answer for no other.
    follows = marks[NEXT_DUE] > count + 1 and not are_few(count, n_features)
    if keeps_coming and statistics.weight and follows:
        with suppress(MemoryError):  # Without a recursion, the next solution takes longer.
            recursion = recursion_at(statistics, weights, ridge, penalties)
    if recursion is None:
        marks[VALID_UNTIL] = count + 1
        return None
    per_feature = RENEWAL_ROWS_PER_FEATURE << max(0, n_features - 1).bit_length()
    step = max(RENEWAL_ROWS, per_feature)
    marks[VALID_UNTIL] = (count // step + 1) * step
    return recursion


def is_answering(marks: Floats, statistics: Statistics, recursion: Recursion | None) -> bool:
    """Return whether a recursion can replace a solution of the sums; refine it if necessary.

    This counts as a prediction. The trust falls as features become more collinear, and never rises.
    """
    count = statistics.count
    if recursion is None or count >= marks[VALID_UNTIL]:
        return False
    if count != marks[PREDICTED_AT]:
        if recursion.trust < 1.0:
            trust = min(recursion.trust, statistics.products.refine(recursion))
            if not trust:
                marks[VALID_UNTIL] = 0.0
                return False
            recursion.trust = trust
        marks[PREDICTED_AT] = count
    return True
