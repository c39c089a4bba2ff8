"""The experts of a stream: two views of a row, two memories each, one forecast."""

from __future__ import annotations

from math import exp
from typing import Any, Self

import numpy as np

from onlinels.checks import Floats
from onlinels.linalg.recursion import Recursion
from onlinels.numerics import Calls, State, shallow_copy
from onlinels.saving import REAL, SHARE, VECTOR, WHOLE, listed, made_of, row, savable
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

Outlook = tuple[Floats, Floats, Floats]
"""What is thought of a row before it is learnt: activations, scores of experts, mixture."""


def _pool_fits(pool: Any) -> bool:
    wide, wide_too, narrow, narrow_too = (expert.weights.shape for expert in pool.experts)
    fits = wide == wide_too and narrow == narrow_too and wide[1] == narrow[1]
    fits = fits and len(pool._leads) == len(pool._squares) == 2
    return fits and len(pool._errors) == len(EXPERTS) and len(pool._losses) == len(SCALES)


@savable(
    {
        "experts": row(made_of(Recursion)),
        "count": WHOLE,
        "_leads": listed(REAL),
        "_squares": listed(SHARE),
        "_errors": listed(SHARE),
        "_losses": VECTOR,
    },
    _pool_fits,
)
class Pool:
    """Score rows by four experts, mix the scores, and learn rows in all of them.

    Two experts see the random units beside the features and the last label, two do without units,
    which are of no use where a hyperplane says it all and rows are few. Of each two, one has a long
    memory and one a short one. All are ridge regressions of one-hot labels on activations.

    A long memory forgets nothing. Where the world changes, the short one makes fewer errors: once
    it is clearly better on recent rows, the long memory takes over what the short one knows, and
    forgets nothing from there on. Their errors on the same rows are compared as in a sign test:
    over discounted rows, the sum of the differences must exceed ``2`` and ``2`` times the root of
    the sum of their squares.

    Expert i has the share exp(-0.5 L_i) / sum_j exp(-0.5 L_j) in the forecast, where L_i counts its
    errors made before learning each row, discounted by 0.995 a row: the exponentially weighted
    average forecaster. Probabilities are the softmax of the mixture times a scale, the one of least
    log-loss on every fourth row so far.
    """

    def __init__(self) -> None:
        self.experts = tuple(Recursion(0, 0, RIDGE, LEAST_RIDGE) for _ in EXPERTS)
        self.count = 0
        # For both views, of the errors of the long memory less those of the short one.
        self._leads, self._squares = [0.0, 0.0], [0.0, 0.0]
        # Plain floats: numpy takes longer over four numbers.
        self._errors = [0.0] * len(EXPERTS)
        self._losses = np.zeros(len(SCALES))

    def grown(self, n_activations: int, n_classes: int) -> Self:
        """Return a pool with room for activations and classes that were 0 in every row so far."""
        new = shallow_copy(self)
        sizes = np.repeat([n_activations, n_activations - N_UNITS], 2).tolist()
        experts = zip(self.experts, sizes, strict=True)
        new.experts = tuple(expert.grown(size, n_classes) for expert, size in experts)
        return new

    @property
    def shares(self) -> Floats:
        """Shares of the experts in the forecast, (n_experts,), of sum 1."""
        fewest = min(self._errors)
        shares = [exp(RATE * (fewest - errors)) for errors in self._errors]
        total = sum(shares)
        return np.array([share / total for share in shares])

    def look(self, activations: Floats) -> Outlook:
        """Return what the experts and their mixture say of activations (n_activations,)."""
        narrow, (low, high) = activations[N_UNITS:], CREDIBLE
        scores = np.empty((len(EXPERTS), self.experts[0].weights.shape[1]))
        seen = activations, activations, narrow, narrow
        for expert, of_row, out in zip(self.experts, seen, scores, strict=True):
            of_row.dot(expert.weights, out=out)
        mixture: Floats = self.shares.dot(np.minimum(np.maximum(scores, low), high))
        return activations, scores, mixture

    def probabilities(self, mixtures: Floats) -> Floats:
        """Return probabilities for mixtures, both (n, n_classes)."""
        scale = best_scale(self._losses)
        return calibrate(mixtures, scale, self.count) if mixtures.size else mixtures

    def plan(self, outlook: Outlook, column: int, is_new: bool) -> tuple[Calls, State]:
        """Plan to learn a row that was looked at since the last one was learnt.

        Parameters
        ----------
        outlook : Outlook
        column : int
            Of the row's label.
        is_new : bool
            Whether the label is met for the first time: nobody could be right.
        """
        activations, scores, mixture = outlook
        errs, calls = [False] * len(EXPERTS), list[Any]()
        state: list[Any] = [(self, "count", self.count + 1)]
        if not is_new:
            errs = (scores.argmax(axis=1) != column).tolist()
            recent = [RECENT * e + err for e, err in zip(self._errors, errs, strict=True)]
            state.append((self, "_errors", recent))
            if self.count % SAMPLED == 0:
                likelihoods = calibrate(mixture, SCALES[:, None], self.count)[:, column]
                state.append((self, "_losses", self._losses - np.log(likelihoods)))
        errors = -scores
        errors[:, column] += 1.0
        experts, leads, squares = list(self.experts), self._leads.copy(), self._squares.copy()
        for view, of_row in enumerate((activations, activations[N_UNITS:])):
            long, short = 2 * view, 2 * view + 1
            difference = errs[long] - errs[short]
            leads[view] = COMPARED * leads[view] + difference
            squares[view] = COMPARED * squares[view] + difference**2
            if leads[view] > max(CLEARLY, CLEARLY * squares[view] ** 0.5):
                experts[long], errors[long] = experts[short].copied(), errors[short]
                leads[view] = squares[view] = 0.0
            for expert, decay in ((long, 1.0), (short, SHORT_MEMORY)):
                update = experts[expert].plan(of_row, errors[expert], 1.0, decay)
                calls += update[0]
                state += update[1]
        state += [(self, "experts", tuple(experts)), (self, "_leads", leads)]
        state.append((self, "_squares", squares))
        return tuple(calls), tuple(state)
