"""Sums of sparse rows, computed by sparse products."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from onlinels.checks import SPARSE_TYPES, Floats, dense
from onlinels.core.reference import numbers_of
from onlinels.numerics import product
from onlinels.sums.forms import GramSums
from onlinels.sums.removals import Prints
from onlinels.sums.rows import Mean, Rows, centred, target_prints
from onlinels.sums.statistics import Statistics

SECONDS_OF_PAIR, SECONDS_OF_ENTRY, SECONDS_OF_PRODUCT = 5e-9, 1.5e-8, 2.5e-11
"""Cost of sparse products per pair of entries of a row, and per entry of the Gram; and cost of a
dense product per multiplication. Measured for 300 to 8,000 columns.
"""

MAX_MEAN_SHARE = 0.5
"""Share of the sum of squares of a column that its mean may have: centring then loses one bit.

Columns above it, most of whose entries are not 0, are centred as an array.
"""


def takes_sparse(statistics: Any, rows: Any) -> bool:
    """Return whether statistics learn rows faster by sparse products.

    Examples
    --------
    >>> rows = sparse.random_array((2000, 1000), density=0.01, format="csr", rng=0)
    >>> empty = Statistics(GramSums(), True)
    >>> takes_sparse(empty, rows), takes_sparse(empty, rows[:5])
    (True, False)
    """
    if not isinstance(rows, SPARSE_TYPES) or type(statistics.products) is not GramSums:
        return False
    n_rows, n_columns = rows.shape
    pairs = float((np.diff(rows.indptr).astype(np.float64) ** 2).sum())
    dense = SECONDS_OF_PRODUCT * n_rows * n_columns**2
    return bool(SECONDS_OF_PAIR * pairs + SECONDS_OF_ENTRY * n_columns**2 < dense)


def sums_of_sparse(
    rows: Any, targets: Any, w: Floats, n_targets: int, is_centred: bool
) -> Statistics:
    """Return statistics in the Gram form of some sparse rows.

    Parameters
    ----------
    rows : csr_array (n, n_features)
        The rows.
    targets : ndarray (n,) of int, or (n, n_targets)
        Column of the label, or targets, of every row.
    w : ndarray (n,)
        Weights of the rows.
    n_targets : int
        Number of targets.
    is_centred : bool
        Whether the sums are about the means.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 3.0]]))
    >>> y, w = np.array([[2.0], [4.0]]), np.ones(2)
    >>> np.triu(sums_of_sparse(rows, y, w, 1, is_centred=True).sums().gram)
    array([[ 0.5, -1.5],
           [ 0. ,  4.5]])
    """
    weight, n_features, used = float(w.sum()), rows.shape[1], w > 0.0
    sums = GramSums(n_features, n_targets)
    made = Statistics(sums, is_centred)
    made._tally[:] = len(w), weight, w @ w
    made._weightless = len(w) - int(np.count_nonzero(used))
    made._prints = np.hstack((sparse_prints(rows[used]), target_prints(targets[used], n_targets)))
    if not weight:
        return made
    rows, mean, filled = rows.astype(np.float64), np.zeros(n_features), np.empty(0, dtype=np.intp)
    if is_centred:
        mean = w @ rows / weight
        filled = np.flatnonzero(weight * mean**2 > MAX_MEAN_SHARE * (w @ rows.power(2)))
    # Filled columns and targets are centred as arrays; for the other columns the product of the
    # means is subtracted.
    beside, target_mean = Rows(rows[:, filled].toarray(), targets, w), np.zeros(n_targets)
    made._target_squares = beside.target_squares(n_targets)
    if is_centred:
        nothing = Mean.zero(len(filled) + n_targets)
        beside, centre, made._target_squares = centred(beside, n_targets, weight, nothing, 0.0)
        mean[filled], target_mean = np.split(centre.value, [len(filled)])
        made._mean = Mean(np.concatenate((mean, target_mean)), np.zeros(n_features + n_targets))
    array, targets = beside.values, beside.targets
    if targets.ndim == 1:
        shape = len(targets), n_targets
        outputs = sparse.csr_array((w, (np.arange(len(targets)), targets)), shape=shape)
    else:
        # About their mean already.
        outputs, target_mean = targets * w[:, None], np.zeros(n_targets)
    is_sparse = np.ones(n_features)
    is_sparse[filled] = 0.0
    about = (rows * is_sparse).tocsr()
    weighted, shift = (about * w[:, None]).tocsr(), mean * is_sparse
    of_filled = weighted.T @ array
    of_filled[filled] = product(array.T, array * w[:, None])
    for panel in sums.gram.panels:
        stop, own = panel.columns.stop, panel.columns
        block = (about[:, :stop].T @ weighted[:, own]).toarray()
        block -= np.outer(weight * shift[:stop], shift[own])
        here, above = filled[(filled >= own.start) & (filled < stop)], filled < stop
        block[:, here - own.start] = of_filled[:stop, np.isin(filled, here)]
        block[filled[above]] = of_filled[own, above].T
        panel.above[:], panel.corner[:] = block[: panel.start], np.triu(block[panel.start :])
    sums.cross[:] = dense(about.T @ outputs) - np.outer(weight * shift, target_mean)
    sums.cross[filled] = (outputs.T @ array).T
    return made


def sparse_prints(rows: Any) -> Prints:
    """Return the fingerprints of the columns of sparse rows."""
    numbers = numbers_of(rows.data.astype(np.float64, copy=False))
    sums = np.zeros((2, rows.shape[1]), np.uint64)
    np.add.at(sums[0], rows.indices, numbers)
    np.add.at(sums[1], rows.indices, numbers * numbers)
    return sums
