"""The experts of a stream: two views of a row, two memories each, one forecast."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Floats
from onlinels.stream.activations import Activations
from onlinels.stream.forecaster import Forecaster
from onlinels.stream.memories import Memories

EXPERTS = (
    "units, long memory",
    "units, short memory",
    "features, long memory",
    "features, short memory",
)
"""What the experts see and how long they remember, in their order."""


class Pool:
    """Score rows by four experts, mix the scores, and learn rows in all of them.

    Two experts see the random units beside the features and the last label, two do without units,
    which are of no use where a hyperplane says it all and rows are few.
    """

    def __init__(self) -> None:
        self.wide, self.narrow = Memories(), Memories()
        self.forecaster = Forecaster(len(EXPERTS))

    def grow(self, n_activations: int, n_classes: int) -> None:
        """Make room for activations and classes that were 0 in every row so far."""
        for memories, size in (
            (self.wide, n_activations),
            (self.narrow, Activations.n_narrow(n_activations)),
        ):
            for expert in memories.experts:
                expert.grow(size, n_classes)

    def scores(self, activations: Floats) -> Floats:
        """Return the experts' scores, (n_experts, n_classes), for activations (n_activations,)."""
        narrow = Activations.narrow(activations)
        return np.array(
            [expert.scores(activations) for expert in self.wide.experts]
            + [expert.scores(narrow) for expert in self.narrow.experts]
        )

    def learn(self, activations: Floats, column: int, scores: Floats | None) -> None:
        """Learn a row.

        Parameters
        ----------
        activations : ndarray (n_activations,)
        column : int
            Of the row's label.
        scores : ndarray (n_experts, n_classes), optional
            The experts' scores before; None if the label is new, so that all were wrong.
        """
        errs = self.forecaster.learn(scores, column)
        self.wide.learn(activations, column, errs[0], errs[1])
        self.narrow.learn(Activations.narrow(activations), column, errs[2], errs[3])
