"""What experts see of a row: random units, a constant, the features and the last label."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Floats, Integers
from onlinels.stream.units import N_UNITS

MOST_LABELS = 32
"""Classes that are told apart as last label: the first ones."""


class Activations:
    """Lay rows out as [units, 1, features and last labels in the order in which they came].

    Places never change: what is new is appended, so what was learnt stays where it is.

    Examples
    --------
    >>> activations = Activations()
    >>> activations.grow(n_features=1, n_classes=2)
    >>> wide = activations.of(np.zeros(N_UNITS), np.array([0.5]), last_label=1)
    >>> Activations.narrow(wide)
    array([1. , 0.5, 0. , 1. ])
    """

    def __init__(self) -> None:
        self._features: list[int] = []
        self._labels: list[int] = []
        self._feature_places: Integers = np.zeros(0, dtype=np.intp)
        self.n_wide = N_UNITS + 1

    def grow(self, n_features: int, n_classes: int) -> None:
        """Make room for features and classes never met before."""
        self._features = self._extended(self._features, n_features)
        self._labels = self._extended(self._labels, min(n_classes, MOST_LABELS))
        self._feature_places = np.array(self._features, dtype=np.intp)

    def _extended(self, places: list[int], n_places: int) -> list[int]:
        added = max(0, n_places - len(places))
        self.n_wide += added
        return [*places, *range(self.n_wide - added, self.n_wide)]

    def of(self, units: Floats, features: Floats, last_label: int | None) -> Floats:
        """Return the activations (n_wide,) of a row.

        Parameters
        ----------
        units : ndarray (N_UNITS,)
        features : ndarray (n_features,)
            Standardised.
        last_label : int or None
            Column of the label learnt last.
        """
        wide = np.zeros(self.n_wide)
        wide[:N_UNITS] = units
        wide[N_UNITS] = 1.0
        wide[self._feature_places] = features
        if last_label is not None and last_label < len(self._labels):
            wide[self._labels[last_label]] = 1.0
        return wide

    @staticmethod
    def n_narrow(n_wide: int) -> int:
        """Return how many of the activations are no units."""
        return n_wide - N_UNITS

    @staticmethod
    def narrow(wide: Floats) -> Floats:
        """Return the activations without the units, (n_wide - N_UNITS,)."""
        return wide[N_UNITS:]
