"""Room for columns to come, reserved so that growing one by one copies little."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Floats


def capacity(available: int, needed: int) -> int:
    """Return the number of columns to reserve: half as much again when there are too few.

    The first size is taken as it is.

    Examples
    --------
    >>> capacity(0, 10), capacity(10, 9), capacity(10, 11)
    (10, 10, 15)
    """
    if needed <= available:
        return available
    return needed if available == 0 else max(needed, available + available // 2)


def enlarged(array: Floats, rows: int, columns: int) -> Floats:
    """Return a matrix with zeros appended, in Fortran order: itself, if it has that shape already.

    Examples
    --------
    >>> enlarged(np.ones((1, 1)), 2, 2)
    array([[1., 0.],
           [0., 0.]])
    """
    if array.shape == (rows, columns):
        return array
    larger = np.zeros((rows, columns), order="F")
    larger[: array.shape[0], : array.shape[1]] = array
    return larger


def padded(block: Floats, columns: int) -> Floats:
    """Widen rows with zeros to the reserved columns, so that BLAS updates in place.

    Examples
    --------
    >>> padded(np.ones((1, 2)), 3)
    array([[1., 1., 0.]])
    """
    if block.shape[1] == columns:
        return block
    wider = np.zeros((len(block), columns))
    wider[:, : block.shape[1]] = block
    return wider
