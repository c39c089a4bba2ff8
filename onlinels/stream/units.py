"""Fixed random units over features that come one after another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onlinels.arrays import Floats
from onlinels.features.hidden.draws import generator_of
from onlinels.names import Name, feature_key, key_text

N_DENSE, N_SPARSE = 80, 120
"""Units that see all features, and units that see one or two."""

N_UNITS = N_DENSE + N_SPARSE

STEEPNESS = 1.5
"""Standard deviation of a dense unit's weighted sum of standardised features."""

MOST_SEEN = 2
"""Features that a sparse unit sees at most; it is as steep in them as a rule."""


class RandomUnits:
    """Give tanh(z'V + b) with weights drawn by name, so that the order of features is no matter.

    The first units are dense: V_jk ~ N(0, 1.5^2 / d), where d features are known when feature j
    comes. The others are sparse: unit k sees the one or two (s_k) features of lowest rank in an
    order of its own, with V_jk ~ N(0, 2.25^2 / s_k): rules about few features, which
    dense units do not resolve. Biases are N(0, 1). A feature that comes late may take the place
    of another one in a sparse unit.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        random = generator_of(seed, "units")
        self._seed = seed
        self._n_seen = random.integers(1, MOST_SEEN + 1, N_SPARSE)
        self._biases = random.standard_normal(N_UNITS)
        self._dense = np.zeros((0, N_DENSE))
        self._sparse = np.zeros((0, N_SPARSE))
        self._ranks = np.zeros((0, N_SPARSE))
        self._weights = np.zeros((0, N_UNITS))

    def grow(self, names: Sequence[Name]) -> None:
        """Make room for features: `names` are all that are known, the latest last."""
        drawn = [self._draw(name) for name in names[len(self._dense) :]]
        if not drawn:
            return
        dense, sparse, ranks = map(np.array, zip(*drawn, strict=True))
        self._dense = np.concatenate((self._dense, STEEPNESS * dense / np.sqrt(len(names))))
        self._sparse = np.concatenate((self._sparse, STEEPNESS**2 * sparse))
        self._ranks = np.concatenate((self._ranks, ranks))
        self._weights = np.concatenate((self._dense, self._sparse * self._share_of_seen()), axis=1)

    def _draw(self, name: Name) -> tuple[Floats, Floats, Floats]:
        random = generator_of(self._seed, "unit " + key_text(feature_key(name)))
        weights = random.standard_normal(N_UNITS)
        return weights[:N_DENSE], weights[N_DENSE:], random.random(N_SPARSE)

    def _share_of_seen(self) -> Floats:
        """Return 1 / sqrt(s_k) where unit k sees feature j, else 0, (n_features, n_sparse)."""
        n_seen = np.minimum(self._n_seen, len(self._ranks))
        order = self._ranks.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
        share: Floats = (order < n_seen) / np.sqrt(n_seen)
        return share

    def __call__(self, row: Floats) -> Floats:
        """Return the units' values, (N_UNITS,), for a standardised row (n_features,)."""
        values: Floats = np.tanh(row @ self._weights + self._biases)
        return values
