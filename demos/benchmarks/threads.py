"""Rows dealt with in several threads, where many small steps leave the cores of BLAS idle."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Array = NDArray[Any]


class Threads:
    """Apply a function of rows to parts of them at the same time, with one thread of BLAS each.

    Parameters
    ----------
    n_threads : int
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._blas = ThreadpoolController()

    def map_rows(self, function: Callable[[Array], Array], rows: Array) -> Array:
        """Return function(rows), for a function that takes every row on its own."""
        parts = np.array_split(rows, min(self.n_threads, len(rows)))
        if len(parts) == 1:
            return function(rows)
        with self._blas.limit(limits=1, user_api="blas"), ThreadPoolExecutor(len(parts)) as pool:
            return np.concatenate(list(pool.map(function, parts)))
