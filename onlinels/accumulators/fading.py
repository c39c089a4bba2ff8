"""A ridge that decays with the data, and is restored a few entries at a time."""

from __future__ import annotations

from math import log

import numpy as np

from onlinels.accumulators.ledger import lengthened
from onlinels.checks import Floats, Integers

MOST_TOGETHER = 32
"""Entries that fall due before they are restored together, unless there are few."""


class FadingRidge:
    """Keep every entry of a diagonal ridge D between a share of c and c while the data decay.

    Decay multiplies data and ridge alike, for that is one number in the inverse, where a ridge
    that stays would be an update of full rank. The entries that have decayed longest are brought
    back to c in time, as pseudo-rows sqrt(c - D_j) e_j with target 0.

    Parameters
    ----------
    n_features : int
    ridge : float
        c.
    least : float
        Share s of c to which an entry may decay, below 1.

    Notes
    -----
    For M features and a decay of lambda a row, ``(M + k) * log(lambda) / log(s)`` entries fall due
    in a row, on average, k = min(32, 1 + M / 4) or more at once. Restoring one costs about
    ``M^2`` operations.

    Examples
    --------
    >>> ridge = FadingRidge(2, 1.0)
    >>> ridge.decay(0.9)
    (array([], dtype=int64), array([], dtype=float64))
    >>> columns, amounts = ridge.decay(0.6)
    >>> columns, amounts.round(2), ridge.entries
    (array([0, 1]), array([0.46, 0.46]), array([1., 1.]))
    """

    def __init__(self, n_features: int, ridge: float, least: float = 0.5) -> None:
        self._entries = np.full(n_features, ridge)
        self._ridge = ridge
        self._least = least
        self._due = 0.0
        # The entries wait for this factor until one of them is looked at.
        self._pending = 1.0
        self._lowest = ridge

    @property
    def entries(self) -> Floats:
        """D, (n_features,), as a new array: to look at it changes no digit of what follows."""
        return self._entries * self._pending

    def decay(self, factor: float) -> tuple[Integers, Floats]:
        """Multiply D by a factor from `least` to 1; return columns to restore, and by how much."""
        self._pending *= factor
        n_features = len(self._entries)
        together = min(MOST_TOGETHER, 1 + n_features // 4)
        self._due += (n_features + together) * log(factor) / log(self._least)
        is_low = self._lowest * self._pending < self._least * self._ridge
        if not is_low and self._due < together:
            return _NONE, _NO_AMOUNTS
        self._settle()
        n_low = int(np.count_nonzero(self._entries < self._least * self._ridge))
        n_restored = min(max(n_low, int(self._due)), n_features)
        self._due = max(0.0, self._due - n_restored)
        # The lowest have decayed longest.
        return self._restored(np.argsort(self._entries, kind="stable")[:n_restored])

    def _settle(self) -> None:
        """Let the entries decay by the factor that waited."""
        # Into new arrays, here and below: a draft may look at those of before.
        self._entries = self._entries * self._pending
        self._lowest *= self._pending
        self._pending = 1.0

    def restore(self) -> tuple[Integers, Floats]:
        """Bring all entries back to c; return those that were below, and by how much."""
        self._due = 0.0
        self._settle()
        return self._restored(np.arange(len(self._entries)))

    def _restored(self, columns: Integers) -> tuple[Integers, Floats]:
        columns = columns[self._entries[columns] < self._ridge]
        amounts = self._ridge - self._entries[columns]
        entries = self._entries.copy()
        entries[columns] = self._ridge
        self._entries = entries
        self._lowest = float(self._entries.min(initial=self._ridge))
        return columns, amounts

    def grow(self, n_features: int) -> None:
        """Append entries of c."""
        self._settle()
        known = len(self._entries)
        self._entries = lengthened(self._entries, n_features)
        self._entries[known:] = self._ridge

    def placed(self, columns: Integers, n_features: int) -> FadingRidge:
        """Return a copy whose entries stand at the given places, and c elsewhere."""
        new = FadingRidge(n_features, self._ridge, self._least)
        new._entries[columns] = self.entries
        new._lowest = float(new._entries.min(initial=self._ridge))
        new._due = self._due
        return new


_NONE: Integers = np.zeros(0, dtype=np.intp)
_NO_AMOUNTS: Floats = np.zeros(0)
