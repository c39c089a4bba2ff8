"""Fixed kernels for windows of sensor values."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np

from onlinels.arrays import Floats, frozen_copy

MINIROCKET_SIZE = 9


@cache
def minirocket_kernels() -> Floats:
    """Return the 84 kernels of MiniRocket: length 9, six weights -1 and three weights 2.

    Returns
    -------
    ndarray (84, 9), float64, read-only
        All choices of three places, in lexicographic order. Every kernel's mean is 0, so a
        constant has no response. Read backwards the kernels are the same set: whether they are
        convolved or correlated makes a difference to the order of the maps alone.

    References
    ----------
    A. Dempster, D. F. Schmidt and G. I. Webb (2021), "MiniRocket: A Very Fast (Almost)
    Deterministic Transform for Time Series Classification". The original moreover dilates the
    kernels and pools by the share of positive values.

    Examples
    --------
    >>> kernels = minirocket_kernels()
    >>> kernels.shape, kernels[0].tolist()
    ((84, 9), [2.0, 2.0, 2.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0])
    """
    places = np.array(list(combinations(range(MINIROCKET_SIZE), 3)))
    kernels = np.full((len(places), MINIROCKET_SIZE), -1.0)
    np.put_along_axis(kernels, places, 2.0, axis=1)
    return frozen_copy(kernels)
