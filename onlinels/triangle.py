"""Triangular factors: rows are rotated into R and Q'Y, in place, by LAPACK."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dtpmqrt, dtpqrt

from onlinels.arrays import Floats, Integers

PANEL = 16
"""Columns whose reflections are applied at once.

Measured for 64 to 1024 features: within 25% of the best width, for one row as for 2048 rows.
"""

CHUNK_BYTES = 1 << 22
"""Float64 bytes of the targets that are rotated at once (4 MiB)."""


def add_rows(
    factor: Floats,
    rotated: Floats,
    rows: Floats,
    targets: Callable[[slice], Floats],
    n_triangular: int = 0,
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
        Returns the rows' targets in a slice of columns, as a new array (n, n_columns) of float64
        in Fortran order. So no more than some of them need to exist at any time.
    n_triangular : int
        How many of the last rows form an upper trapezoid, which takes a third of the work.

    Notes
    -----
    ``2 n M^2 + 4 n M N`` operations for n rows, M features and N targets. Columns of zeros at the
    end of the rows leave their part of both arrays as it is.

    Examples
    --------
    >>> factor, rotated = np.zeros((1, 1)), np.zeros((1, 1))
    >>> add_rows(factor, rotated, np.array([[3.0], [4.0]]), lambda columns: np.ones((2, 1)))
    >>> np.abs(factor), (factor * rotated).round(12)
    (array([[5.]]), array([[7.]]))
    """
    panel = min(PANEL, len(factor))
    _, reflectors, blocks, _ = dtpqrt(
        n_triangular, panel, factor, rows, overwrite_a=1, overwrite_b=1
    )
    n_targets = rotated.shape[1]
    width = max(1, CHUNK_BYTES // (8 * max(len(rows), PANEL)))
    for start in range(0, n_targets, width):
        columns = slice(start, min(start + width, n_targets))
        dtpmqrt(
            n_triangular,
            reflectors,
            blocks,
            # Columns of an array in Fortran order lie together: LAPACK writes into them.
            rotated[:, columns],
            targets(columns),
            trans="T",
            overwrite_a=1,
            overwrite_b=1,
        )


def no_targets(n_rows: int) -> Callable[[slice], Floats]:
    """Return what stands for the targets of rows whose targets are all 0.

    Examples
    --------
    >>> no_targets(2)(slice(3, 4))
    array([[0.],
           [0.]])
    """
    return lambda columns: np.zeros((n_rows, columns.stop - columns.start), order="F")


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
