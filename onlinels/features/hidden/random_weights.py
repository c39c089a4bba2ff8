"""Random input weights, drawn feature by feature as these become known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onlinels.arrays import Matrix
from onlinels.features.hidden.draws import check_units, draw_row
from onlinels.features.hidden.receptive_fields import ReceptiveFields, Sight
from onlinels.names import Name, feature_key, key_text


@dataclass(frozen=True)
class RandomWeights:
    """How input weights are drawn: a feature's are a function of its name and these settings.

    Parameters
    ----------
    distribution : "gaussian", "uniform" or "bipolar"
    seed : int
    receptive_fields : ReceptiveFields, optional
        Weights outside a unit's rectangle are 0.
    """

    distribution: str
    seed: int
    receptive_fields: ReceptiveFields | None = None

    def extend(self, weights: Matrix, n_drawn: int, names: Sequence[Name]) -> Matrix:
        """Return weights with a row for each of `names`, of which `n_drawn` are drawn already.

        Parameters
        ----------
        weights : ndarray (capacity, n_hidden)
            Written to where rows beyond `n_drawn` have room.

        Returns
        -------
        ndarray (capacity, n_hidden)
            `weights` itself if there was room, else a copy with room for half as many again.

        Raises
        ------
        TypeError, ValueError
            If a name has no spelling of its own, or no position on the maps; nothing is written.
        """
        new, n_hidden = names[n_drawn:], weights.shape[1]
        check_units(n_hidden, len(names))
        texts = [key_text(feature_key(name)) for name in new]
        fields = self.receptive_fields
        sight = None if fields is None else Sight.draw(fields, new, n_hidden, self.seed)
        if len(names) > len(weights):
            capacity = max(len(names), len(weights) * 3 // 2)
            room = np.zeros((capacity, n_hidden), dtype=weights.dtype)
            room[:n_drawn] = weights[:n_drawn]
            weights = room
        for feature, text in enumerate(texts):
            row = draw_row(self.distribution, self.seed, text, n_hidden)
            weights[n_drawn + feature] = row if sight is None else row * sight.column(feature)
        return weights
