"""The experts of a stream: two views of a row, two memories each, one forecast."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Self

import numpy as np

from onlinels.checks import Floats, check_room
from onlinels.linalg.recursion import Recursion
from onlinels.numerics import Calls, State, shallow_copy
from onlinels.saving import POSITIVE, REAL, SHARE, VECTOR, WHOLE, listed, made_of, savable
from onlinels.scoring import SCALES, best_scale, calibrate
from onlinels.stream.features import N_UNITS

RIDGE = 1.0
"""Ridge on every weight.

Activations are of about unit size, so this is the weight of one row. From 0.1 to 3 the mean
accuracy on nineteen streams stayed within 0.2 points.
"""

LEAST_RIDGE = 0.0625
"""Share of the ridge to which it may decay: a quarter of the restoring that 0.5 needs."""

SHORT_MEMORY = 0.99
"""Forgetting factor of the short memory: the last 100 rows weigh as much as all before."""

COMPARED = 0.995
"""What is left of a comparison after each further row: some 200 rows are compared."""

CLEARLY = 2.0
"""Standard deviations by which the short memory must be better to be taken over."""


@savable(
    {
        "long": made_of(Recursion),
        "short": made_of(Recursion),
        "n_takeovers": WHOLE,
        "_lead": REAL,
        "_squares": SHARE,
    },
    lambda memories: memories.long.weights.shape == memories.short.weights.shape,
)
class Memories:
    """Keep a long memory of what still holds.

    Both memories are ridge regressions of one-hot labels on activations, row by row. The long one
    forgets nothing. Where the world changes, the short one makes fewer errors: once it is clearly
    better on recent rows, the long memory takes over what the short one knows, and forgets nothing
    from there on. So the rows' weights are 1 since the last takeover, and what the short memory
    gave them before it; that many rows, and no rate, is what adapts.

    The errors of both on the same rows are compared as in a sign test: over discounted rows, the
    sum of the differences must exceed ``2`` and ``2`` times the root of the sum of their squares.

    References
    ----------
    S. H. Bach and M. A. Maloof, "Paired learners for concept drift", ICDM 2008: a stable learner
    that is made anew from recent rows when a reactive one does better.
    """

    def __init__(self) -> None:
        self.long = Recursion(0, 0, RIDGE, LEAST_RIDGE)
        self.short = Recursion(0, 0, RIDGE, LEAST_RIDGE)
        self.n_takeovers = 0
        self._lead, self._squares = 0.0, 0.0

    def grown(self, n_activations: int, n_classes: int) -> Self:
        """Return memories with room for activations and classes that were 0 in every row so far."""
        new = shallow_copy(self)
        new.long = self.long.grown(n_activations, n_classes)
        new.short = self.short.grown(n_activations, n_classes)
        return new

    def plan(
        self, activations: Floats, errors: Floats, errs: Sequence[bool]
    ) -> tuple[Calls, State]:
        """Plan to learn a row, after comparing the errors of both memories on it.

        Parameters
        ----------
        activations : ndarray (n_activations,)
        errors : ndarray (2, n_classes)
            The one-hot label minus the scores of the long and of the short memory.
        errs : sequence of 2 bools
            Whether their highest scores were of another class.
        """
        difference = errs[0] - errs[1]
        lead = COMPARED * self._lead + difference
        squares = COMPARED * self._squares + difference**2
        long, long_errors = self.long, errors[0]
        taken_over: State = ()
        if lead > max(CLEARLY, CLEARLY * squares**0.5):
            long, long_errors, lead, squares = self.short.copied(), errors[1], 0.0, 0.0
            taken_over = (self, "long", long), (self, "n_takeovers", self.n_takeovers + 1)
        calls, state = long.plan(activations, long_errors)
        short = self.short.plan(activations, errors[1], 1.0, SHORT_MEMORY)
        compared = (self, "_lead", lead), (self, "_squares", squares)
        return (*calls, *short[0]), (*state, *short[1], *taken_over, *compared)


RECENT = 0.995
"""What is left of an error after each further row: some 200 rows count."""

RATE = 0.5
"""An expert's share falls by the factor exp(-0.5) with each recent error more."""

CREDIBLE = -0.5, 1.5
"""Scores beyond this range are taken as its ends: an expert far off must not outvote the rest."""

SAMPLED = 4
"""Of so many rows one is used to choose the scale: a tenth of the time of a row saved."""

EXPERTS = (
    "units, long memory",
    "units, short memory",
    "features, long memory",
    "features, short memory",
)
"""What the experts see and how long they remember, in their order."""


@savable(
    {"_errors": listed(SHARE), "_losses": VECTOR, "_scale": POSITIVE, "_count": WHOLE},
    lambda made: len(made._errors) == len(EXPERTS) and len(made._losses) == len(SCALES),
)
class Forecaster:
    """Mix the scores of experts, and turn the mixture into probabilities.

    Expert i has the share exp(-0.5 L_i) / sum_j exp(-0.5 L_j), where L_i counts its errors made
    before learning each row, discounted by 0.995 a row: the exponentially weighted average
    forecaster. Probabilities are the softmax of the mixture times a scale, the one of least
    log-loss on every fourth row so far. A forecaster never changes: what has learnt is a new one.

    References
    ----------
    N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games" (2006), sections 2.1 and 2.11.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])
    >>> forecaster, errs = Forecaster().learnt(scores, Forecaster().mix(scores), column=0)
    >>> errs, forecaster.shares.round(2)
    ([False, True, False, False], array([0.28, 0.17, 0.28, 0.28]))
    """

    def __init__(self) -> None:
        # Plain floats: numpy takes longer over four numbers.
        self._errors = [0.0] * len(EXPERTS)
        self._losses = np.zeros(len(SCALES))
        self._scale = best_scale(self._losses)
        self._count = 0

    @property
    def shares(self) -> Floats:
        """Shares of the experts in the forecast, (n_experts,), of sum 1."""
        fewest = min(self._errors)
        shares = [exp(RATE * (fewest - errors)) for errors in self._errors]
        total = sum(shares)
        return np.array([share / total for share in shares])

    def mix(self, scores: Floats) -> Floats:
        """Return the mixture (n_classes,) of scores (n_experts, n_classes)."""
        low, high = CREDIBLE
        mixture: Floats = self.shares.dot(np.minimum(np.maximum(scores, low), high))
        return mixture

    def probabilities(self, mixtures: Floats) -> Floats:
        """Return probabilities for mixtures, both (n, n_classes)."""
        return calibrate(mixtures, self._scale, self._count) if mixtures.size else mixtures

    def learnt(
        self, scores: Floats, mixture: Floats, column: int | None
    ) -> tuple[Forecaster, list[bool]]:
        """Return a forecaster that knows of one more row, and which experts erred on it.

        Parameters
        ----------
        scores : ndarray (n_experts, n_classes)
            Before the row was learnt.
        mixture : ndarray (n_classes,)
            What `mix` made of them.
        column : int or None
            Of the row's label; None if it is met for the first time: nobody could be right.
        """
        new = shallow_copy(self)
        new._count = self._count + 1
        if column is None:
            return new, [False] * len(EXPERTS)
        if self._count % SAMPLED == 0:
            likelihoods = calibrate(mixture, SCALES[:, None], self._count)[:, column]
            new._losses = self._losses - np.log(likelihoods)
            new._scale = best_scale(new._losses)
        errs: list[bool] = (scores.argmax(axis=1) != column).tolist()
        new._errors = [RECENT * e + err for e, err in zip(self._errors, errs, strict=True)]
        return new, errs


Outlook = tuple[Floats, Floats, Floats]
"""What is thought of a row before it is learnt: activations, scores of experts, mixture."""


def check_room_for(n_activations: int, n_classes: int) -> None:
    """Refuse activations and classes whose inverses and weights cannot fit into memory."""
    n_narrow = n_activations - N_UNITS
    sizes = n_activations * (n_activations + n_classes), n_narrow * (n_narrow + n_classes)
    what = "A stream of {:,} classes with {:,} features and labels"
    check_room(32 * sum(sizes), what, n_classes, n_narrow)


@savable(
    {
        "wide": made_of(Memories),
        "narrow": made_of(Memories),
        "forecaster": made_of(Forecaster),
        "n_classes": WHOLE,
    },
    lambda pool: pool.n_classes == pool.wide.long.n_targets == pool.narrow.long.n_targets,
)
class Pool:
    """Score rows by four experts, mix the scores, and learn rows in all of them.

    Two experts see the random units beside the features and the last label, two do without units,
    which are of no use where a hyperplane says it all and rows are few.
    """

    def __init__(self) -> None:
        self.wide, self.narrow = Memories(), Memories()
        self.forecaster = Forecaster()
        self.n_classes = 0

    def grown(self, n_activations: int, n_classes: int) -> Self:
        """Return a pool with room for activations and classes that were 0 in every row so far."""
        new = shallow_copy(self)
        new.wide = self.wide.grown(n_activations, n_classes)
        new.narrow = self.narrow.grown(n_activations - N_UNITS, n_classes)
        new.n_classes = n_classes
        return new

    def look(self, activations: Floats) -> Outlook:
        """Return what the experts and their mixture say of activations (n_activations,)."""
        narrow, scores = activations[N_UNITS:], np.empty((len(EXPERTS), self.n_classes))
        activations.dot(self.wide.long.weights, out=scores[0])
        activations.dot(self.wide.short.weights, out=scores[1])
        narrow.dot(self.narrow.long.weights, out=scores[2])
        narrow.dot(self.narrow.short.weights, out=scores[3])
        return activations, scores, self.forecaster.mix(scores)

    def plan(self, outlook: Outlook, column: int, is_new: bool) -> tuple[Calls, State]:
        """Plan to learn a row that was looked at since the last one was learnt.

        Parameters
        ----------
        outlook : Outlook
        column : int
            Of the row's label.
        is_new : bool
            Whether the label is met for the first time.
        """
        activations, scores, mixture = outlook
        forecaster, errs = self.forecaster.learnt(scores, mixture, None if is_new else column)
        errors = -scores
        errors[:, column] += 1.0
        wide = self.wide.plan(activations, errors[:2], errs[:2])
        narrow = self.narrow.plan(activations[N_UNITS:], errors[2:], errs[2:])
        state = *wide[1], *narrow[1], (self, "forecaster", forecaster)
        return (*wide[0], *narrow[0]), state
