"""The experts of a stream: two views of a row, two memories each, one forecast."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onlinels.arrays import Floats
from onlinels.commit import Commit, draft_of
from onlinels.memory import check_room
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

    def grown(self, n_activations: int, n_classes: int) -> Pool:
        """Return a copy with room for activations and classes that were 0 in every row so far."""
        n_narrow = Activations.n_narrow(n_activations)
        sizes = n_activations * (n_activations + n_classes), n_narrow * (n_narrow + n_classes)
        what = "A stream of {:,} classes with {:,} features and labels"
        check_room(32 * sum(sizes), what, n_classes, n_narrow)
        new = draft_of(self)
        new.wide = self.wide.grown(n_activations, n_classes)
        new.narrow = self.narrow.grown(n_narrow, n_classes)
        new.n_classes = n_classes
        return new

    def copied(self) -> Pool:
        """Return a pool that has learnt the same, and learns on its own from here."""
        new = draft_of(self)
        new.wide, new.narrow = self.wide.copied(), self.narrow.copied()
        return new

    def look(self, activations: Floats) -> Outlook:
        """Return what the experts and their mixture say of activations (n_activations,)."""
        narrow = Activations.narrow(activations)
        scores = np.empty((len(EXPERTS), self.n_classes))
        scores[0] = self.wide.long.scores(activations)
        scores[1] = self.wide.short.scores(activations)
        scores[2] = self.narrow.long.scores(narrow)
        scores[3] = self.narrow.short.scores(narrow)
        return Outlook(activations, scores, self.forecaster.mix(scores))

    def learn(self, outlook: Outlook, column: int, is_new: bool, commit: Commit) -> None:
        """Gather what changes as a row is learnt, looked at since the last one was learnt.

        Parameters
        ----------
        outlook : Outlook
        column : int
            Of the row's label.
        is_new : bool
            Whether the label is met for the first time, so that nobody could be right.
        commit : Commit
            To be made before the next row.
        """
        activations, scores, mixture = outlook
        forecaster = draft_of(self.forecaster)
        errs = forecaster.learn_new_class() if is_new else forecaster.learn(scores, mixture, column)
        commit.set(self, forecaster=forecaster)
        errors = -scores
        errors[:, column] += 1.0
        self.wide.learn(activations, errors[:2], errs[:2], commit)
        self.narrow.learn(Activations.narrow(activations), errors[2:], errs[2:], commit)
