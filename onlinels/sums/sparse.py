"""Sums of sparse rows, computed by sparse products."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from onlinels.checks import SPARSE_TYPES, Floats
from onlinels.core.reference import numbers_of
from onlinels.numerics import product
from onlinels.sums.gram import GramSums
from onlinels.sums.products import Mean, target_prints
from onlinels.sums.removals import Prints
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
    weight, n_features = float(w.sum()), rows.shape[1]
    sums = GramSums(n_features, n_targets)
    made = Statistics(sums, is_centred)
    made._tally[:] = len(w), weight
    used = w > 0.0
    made._weightless = len(w) - int(np.count_nonzero(used))
    made._prints = np.hstack((sparse_prints(rows[used]), target_prints(targets[used], n_targets)))
    if not weight:
        return made
    rows = rows.astype(np.float64)
    mean, target_mean = np.zeros(n_features), np.zeros(n_targets)
    filled = np.empty(0, dtype=np.intp)
    one_hot = None
    if targets.ndim == 1:
        shape = len(targets), n_targets
        one_hot = sparse.csr_array((w, (np.arange(len(targets)), targets)), shape=shape)
    if is_centred:
        mean = w @ rows / weight
        filled = np.flatnonzero(weight * mean**2 > MAX_MEAN_SHARE * (w @ rows.power(2)))
        if one_hot is None:
            targets, target_mean = _about_mean(targets, w)
        else:
            target_mean = one_hot.sum(axis=0) / weight
    # Filled columns are centred as an array; for the other columns the product of the means is
    # subtracted.
    array, mean[filled] = _about_mean(rows[:, filled].toarray(), w)
    is_sparse = np.ones(n_features)
    is_sparse[filled] = 0.0
    about = (rows * is_sparse).tocsr()
    weighted, shift = (about * w[:, None]).tocsr(), mean * is_sparse
    beside = weighted.T @ array
    beside[filled] = product(array.T, array * w[:, None])
    for panel in sums.gram.panels:
        stop, own = panel.columns.stop, panel.columns
        block = (about[:, :stop].T @ weighted[:, own]).toarray()
        block -= np.outer(weight * shift[:stop], shift[own])
        here, above = filled[(filled >= own.start) & (filled < stop)], filled < stop
        block[:, here - own.start] = beside[:stop, np.isin(filled, here)]
        block[filled[above]] = beside[own, above].T
        panel.above[:], panel.corner[:] = block[: panel.start], np.triu(block[panel.start :])
    if one_hot is None:
        by_weight = targets * w[:, None]
        sums.cross[:] = about.T @ by_weight
        sums.cross[filled] = product(array.T, by_weight)
        made._target_squares = (targets * by_weight).sum(axis=0)
    else:
        sums.cross[:] = (about.T @ one_hot).toarray() - np.outer(weight * shift, target_mean)
        sums.cross[filled] = (one_hot.T @ array).T
        by_class = one_hot.sum(axis=0)
        in_all = by_class.sum()
        # As for dense rows: exactly 0 for one class.
        others = (in_all - by_class) / in_all if is_centred else 1.0
        made._target_squares = by_class * others
    if is_centred:
        origin = np.concatenate((mean, target_mean))
        made._mean = Mean(origin, np.zeros(len(origin)))
    return made


def sparse_prints(rows: Any) -> Prints:
    """Return the fingerprints of the columns of sparse rows."""
    numbers = numbers_of(rows.data.astype(np.float64, copy=False))
    sums = np.zeros((2, rows.shape[1]), np.uint64)
    np.add.at(sums[0], rows.indices, numbers)
    np.add.at(sums[1], rows.indices, numbers * numbers)
    return sums


def _about_mean(values: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Return columns about their mean, to the last digit, and the mean."""
    first = values[0]
    about = values - first
    shift = w @ about / w.sum()
    return about - shift, first + shift
