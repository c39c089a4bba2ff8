"""Room reserved in advance, so that features which arrive one by one rarely copy a matrix."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Floats


def capacity(available: int, needed: int) -> int:
    """Return the size to reserve: the first as it is, later ones with half as much again.

    Examples
    --------
    >>> capacity(0, 10), capacity(10, 8), capacity(10, 11)
    (10, 10, 15)
    """
    if needed <= available:
        return available
    return needed if available == 0 else max(needed, available + available // 2)


def padded(block: Floats, width: int) -> Floats:
    """Widen rows with zeros to the reserved width, so that BLAS updates in place."""
    if block.shape[1] == width:
        return block
    wider = np.zeros((len(block), width))
    wider[:, : block.shape[1]] = block
    return wider


def enlarged(array: Floats, rows: int, columns: int) -> Floats:
    """Return the array in the corner of zeros of a larger shape: itself, if it has that already."""
    if array.shape == (rows, columns):
        return array
    larger = np.zeros((rows, columns), order="F")
    larger[: array.shape[0], : array.shape[1]] = array
    return larger
