"""Two experts that see the same, one with a long and one with a short memory."""

from __future__ import annotations

from onlinels.arrays import Floats
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
        self._forget_comparison()

    def _forget_comparison(self) -> None:
        self._lead, self._squares = 0.0, 0.0

    @property
    def experts(self) -> tuple[Expert, Expert]:
        """The long and the short memory."""
        return self.long, self.short

    @experts.setter
    def experts(self, experts: tuple[Expert, Expert]) -> None:
        """Replace both."""
        self.long, self.short = experts

    def learn(self, activations: Floats, errors: Floats, long_errs: bool, short_errs: bool) -> None:
        """Learn a row, after comparing the errors that both made on it before.

        Parameters
        ----------
        activations : ndarray (n_activations,)
        errors : ndarray (2, n_classes)
            The one-hot label minus the scores of the long and of the short memory.
        long_errs, short_errs : bool
            Whether their highest scores were of another class.
        """
        taken_over = self._compare(float(long_errs) - float(short_errs))
        self.long.learn(activations, errors[1] if taken_over else errors[0])
        self.short.learn(activations, errors[1])

    def _compare(self, difference: float) -> bool:
        """Let the short memory be taken over if it is clearly better; tell whether it was."""
        self._lead = COMPARED * self._lead + difference
        self._squares = COMPARED * self._squares + difference**2
        if self._lead <= max(CLEARLY, CLEARLY * self._squares**0.5):
            return False
        self.long.take_over(self.short)
        self.n_takeovers += 1
        self._forget_comparison()
        return True
