"""Triangular factors: rows are rotated into R and Q'Y, in place, by LAPACK."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import starmap
from operator import call, itemgetter
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtpmqrt, dtpqrt

from onlinels.checks import Floats, Integers
from onlinels.commit import AT_ONCE, Commit

PANEL = 16
"""Columns whose reflections are applied at once.

Measured for 64 to 1024 features: within 25% of the best width, for one row as for 2048 rows.
"""

CHUNK_BYTES = 1 << 22
"""Float64 bytes of the targets that are rotated at once (4 MiB)."""

REFLECTORS_AND_BLOCKS = itemgetter(1, 2)
"""Of what LAPACK returns for a factor."""


Targets = Callable[[slice, Floats, Commit], None]
"""Plans to write targets in a slice of columns into an array."""


def add_rows(
    factor: Floats,
    rotated: Floats,
    rows: Floats,
    targets: Targets,
    n_triangular: int = 0,
    commit: Commit = AT_ONCE,
) -> None:
    """Rotate rows into a triangular factor and its targets, in place: [R; A] = Q [R'; 0].

    Parameters
    ----------
    factor : ndarray (n_features, n_features), float64, Fortran order
        Upper triangular R; afterwards that of all rows.
    rotated : ndarray (n_features, n_targets), float64, Fortran order
        Q'Y; afterwards that of all rows.
    rows : ndarray (n, n_features), float64, Fortran order
        The rows A, which are overwritten.
    targets : callable
        Plans to write the rows' targets in a slice of columns into an array (n, n_columns) of
        float64. So no more than some of them need to exist at any time.
    n_triangular : int
        How many of the last rows form an upper trapezoid, which takes a third of the work.
    commit : Commit, optional
        When to do so; by default, at once.

    Notes
    -----
    ``2 n M^2 + 4 n M N`` operations for n rows, M features and N targets. Columns of zeros at the
    end of the rows leave their part of both arrays as it is.

    Examples
    --------
    >>> factor, rotated = np.zeros((1, 1)), np.zeros((1, 1))
    >>> def ones(columns, out, commit):
    ...     commit.then(out.fill, 1.0)
    >>> add_rows(factor, rotated, np.array([[3.0], [4.0]]), ones)
    >>> np.abs(factor), (factor * rotated).round(12)
    (array([[5.]]), array([[7.]]))
    """
    n_targets = rotated.shape[1]
    width = max(1, CHUNK_BYTES // (8 * max(len(rows), PANEL)))
    block = np.zeros((len(rows), min(width, n_targets)), order="F")
    # How the rows are reflected is known once they are, and without a step of Python the targets
    # are, too: maps run when a list or deque takes in what they give.
    panel, reflections = min(PANEL, len(factor)), list[Any]()
    reflect = partial(dtpqrt, n_triangular, panel, factor, rows, overwrite_a=1, overwrite_b=1)
    commit.then(reflections.extend, map(REFLECTORS_AND_BLOCKS, map(call, [reflect])))
    for start in range(0, n_targets, width):
        # Columns of an array in Fortran order lie together: LAPACK writes into them.
        a = rotated[:, start : start + width]
        b = block[:, : a.shape[1]]
        targets(slice(start, start + a.shape[1]), b, commit)
        turn = partial(dtpmqrt, n_triangular, a=a, b=b, trans="T", overwrite_a=1, overwrite_b=1)
        commit.then(deque, starmap(turn, reflections), 0)


def no_targets(columns: slice, out: Floats, commit: Commit) -> None:
    """Stand for the targets of rows whose targets are all 0.

    Examples
    --------
    >>> targets = np.ones((2, 1))
    >>> no_targets(slice(3, 4), targets, AT_ONCE)
    >>> targets
    array([[0.],
           [0.]])
    """
    commit.then(out.fill, 0.0)


def weighted_targets(
    targets: Floats, weights: Floats, columns: slice, out: Floats, commit: Commit
) -> None:
    """Plan to write rows' targets of some columns times the rows' weights; others are 0.

    Examples
    --------
    >>> out = np.ones((1, 2))
    >>> weighted_targets(np.array([[1.0, 2.0]]), np.array([3.0]), slice(1, 3), out, AT_ONCE)
    >>> out
    array([[6., 0.]])
    """
    part = targets[:, columns]
    n_columns = part.shape[1]
    commit.then(np.multiply, part, weights[:, None], out=out[:, :n_columns])
    commit.then(out[:, n_columns:].fill, 0.0)


def columns_of_upper(upper: Floats, places: Integers) -> Floats:
    """Return some columns (n, k) of a symmetric matrix, of which only the upper triangle is read.

    Examples
    --------
    >>> columns_of_upper(np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([0]))
    array([[1.],
           [2.]])
    """
    above = np.arange(len(upper))[:, None] <= places
    picked: Floats = np.where(above, upper[:, places], upper[places].T)
    return picked
