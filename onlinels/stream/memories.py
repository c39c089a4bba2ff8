"""Two experts that see the same, one with a long and one with a short memory."""

from __future__ import annotations

from collections.abc import Sequence

from onlinels.arrays import Floats
from onlinels.commit import Commit, draft_of
from onlinels.stream.expert import Expert

SHORT_MEMORY = 0.99
"""Forgetting factor of the short memory: the last 100 rows weigh as much as all before."""

COMPARED = 0.995
"""What is left of a comparison after each further row: some 200 rows are compared."""

CLEARLY = 2.0
"""Standard deviations by which the short memory must be better to be taken over."""


class Memories:
    """Keep a long memory of what still holds.

    The long memory forgets nothing. Where the world changes, the short one makes fewer errors:
    once it is clearly better on recent rows, the long memory takes over what the short one knows,
    and forgets nothing from there on. So the rows' weights are 1 since the last takeover, and
    what the short memory gave them before it; that many rows, and no rate, is what adapts.

    Notes
    -----
    The errors of both on the same rows are compared as in a sign test: over discounted rows, the
    sum of the differences must exceed ``2`` and ``2`` times the root of the sum of their squares.
    A takeover costs a copy.

    References
    ----------
    S. H. Bach and M. A. Maloof, "Paired learners for concept drift", ICDM 2008: a stable learner
    that is made anew from recent rows when a reactive one does better.
    """

    def __init__(self) -> None:
        self.long = Expert(1.0)
        self.short = Expert(SHORT_MEMORY)
        self.n_takeovers = 0
        self._lead, self._squares = 0.0, 0.0

    @property
    def experts(self) -> tuple[Expert, Expert]:
        """The long and the short memory."""
        return self.long, self.short

    def with_experts(self, long: Expert, short: Expert) -> Memories:
        """Return memories with these experts, whose comparison goes on."""
        new = draft_of(self)
        new.long, new.short = long, short
        return new

    def grown(self, n_activations: int, n_classes: int) -> Memories:
        """Return a copy with room for activations and classes that were 0 in every row so far."""
        long, short = (expert.grown(n_activations, n_classes) for expert in self.experts)
        return self.with_experts(long, short)

    def copied(self) -> Memories:
        """Return memories that have learnt the same, and learn on their own from here."""
        return self.with_experts(self.long.copied(), self.short.copied())

    def learn(
        self, activations: Floats, errors: Floats, errs: Sequence[bool], commit: Commit
    ) -> None:
        """Gather what changes as a row is learnt, after comparing the errors of both before.

        Parameters
        ----------
        activations : ndarray (n_activations,)
        errors : ndarray (2, n_classes)
            The one-hot label minus the scores of the long and of the short memory.
        errs : sequence of 2 bools
            Whether their highest scores were of another class.
        commit : Commit
            To be made before the next row.
        """
        difference = float(errs[0]) - float(errs[1])
        lead = COMPARED * self._lead + difference
        squares = COMPARED * self._squares + difference**2
        if lead <= max(CLEARLY, CLEARLY * squares**0.5):
            self.long.learn(activations, errors[0], commit)
            commit.set(self, _lead=lead, _squares=squares)
        else:
            long = self.long.going_on_from(self.short)
            long.learn(activations, errors[1], commit)
            n_takeovers = self.n_takeovers + 1
            commit.set(self, long=long, n_takeovers=n_takeovers, _lead=0.0, _squares=0.0)
        self.short.learn(activations, errors[1], commit)
