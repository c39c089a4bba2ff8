"""The experts of a stream: two views of a row, two memories each, one forecast."""

from __future__ import annotations

from typing import NamedTuple

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


class Outlook(NamedTuple):
    """What is thought of a row before it is learnt: activations, scores of experts, mixture."""

    activations: Floats
    scores: Floats
    mixture: Floats


class Pool:
    """Score rows by four experts, mix the scores, and learn rows in all of them.

    Two experts see the random units beside the features and the last label, two do without units,
    which are of no use where a hyperplane says it all and rows are few.
    """

    def __init__(self) -> None:
        self.wide, self.narrow = Memories(), Memories()
        self.forecaster = Forecaster(len(EXPERTS))
        self.n_classes = 0

    def grow(self, n_activations: int, n_classes: int) -> None:
        """Make room for activations and classes that were 0 in every row so far."""
        n_narrow = Activations.n_narrow(n_activations)
        wide = [expert.grown(n_activations, n_classes) for expert in self.wide.experts]
        narrow = [expert.grown(n_narrow, n_classes) for expert in self.narrow.experts]
        # All four are there: from here on nothing can fail.
        self.wide.experts, self.narrow.experts = (wide[0], wide[1]), (narrow[0], narrow[1])
        self.n_classes = n_classes

    def look(self, activations: Floats) -> Outlook:
        """Return what the experts and their mixture say of activations (n_activations,)."""
        narrow = Activations.narrow(activations)
        scores = np.empty((len(EXPERTS), self.n_classes))
        scores[0] = self.wide.long.scores(activations)
        scores[1] = self.wide.short.scores(activations)
        scores[2] = self.narrow.long.scores(narrow)
        scores[3] = self.narrow.short.scores(narrow)
        return Outlook(activations, scores, self.forecaster.mix(scores))

    def learn(self, outlook: Outlook, column: int, is_new: bool) -> None:
        """Learn a row that was looked at since the last one was learnt.

        Parameters
        ----------
        outlook : Outlook
        column : int
            Of the row's label.
        is_new : bool
            Whether the label is met for the first time, so that nobody could be right.
        """
        activations, scores, mixture = outlook
        if is_new:
            errs = self.forecaster.learn_new_class()
        else:
            errs = self.forecaster.learn(scores, mixture, column)
        errors = -scores
        errors[:, column] += 1.0
        self.wide.learn(activations, errors[:2], errs[0], errs[1])
        self.narrow.learn(Activations.narrow(activations), errors[2:], errs[2], errs[3])
