"""The experts of a stream: two views of a row, two memories each, one forecast."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import ddot, dgemm, dger, dsymv, dsyr, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf

from onlinels.accumulators.fading import FadingRidge
from onlinels.checks import Floats, Integers, check_room
from onlinels.commit import Commit, draft_of
from onlinels.scoring import SCALES, best_scale, calibrate
from onlinels.stream.features import Activations
from onlinels.triangle import columns_of_upper

RIDGE = 1.0
"""Ridge on every weight.

Activations are of about unit size, so this is the weight of one row. From 0.1 to 3 the mean
accuracy on nineteen streams stayed within 0.2 points.
"""

LEAST_RIDGE = 0.0625
"""Share of the ridge to which an entry may decay: a quarter of the restoring that 0.5 needs."""

SMALLEST_SCALE = 2.0**-32
"""Factor kept apart from the inverse, before it is multiplied in."""


class Expert:
    """Keep the weighted ridge regression of one-hot labels on activations, row by row.

    After rows a_i of weights w_i, the output weights W and the inverse P are

        P = (sum_i w_i a_i a_i' + D)^-1,    W = P sum_i w_i a_i y_i',

    where w_i is the forgetting factor to the power of the rows since, and D the ridge.

    Parameters
    ----------
    forgetting_factor : float
        What is left of a row's weight after each further row, in (0, 1].

    Notes
    -----
    A row costs about ``3 M^2`` operations for M activations, in four calls of BLAS, and up to as
    much again where rows are forgotten, as entries of the ridge are brought back (see
    `FadingRidge`). Memory is ``8 M^2`` bytes. `Recursion` in `onlinels.accumulators` is the same
    recursion for models that also merge, unlearn and take batches. Measured at M = 210: this is
    three times faster on single rows, which here is all there is.

    Examples
    --------
    >>> expert = Expert(forgetting_factor=1.0).grown(n_activations=2, n_classes=1)
    >>> row, commit = np.array([1.0, 2.0]), Commit()
    >>> expert.learn(row, 1.0 - expert.scores(row), commit)
    >>> commit.make()
    >>> expert.output_weights.round(3).tolist()
    [[0.167], [0.333]]
    """

    def __init__(self, forgetting_factor: float) -> None:
        self.forgetting_factor = forgetting_factor
        # W in Fortran order: BLAS would silently work on a copy of anything else.
        self.output_weights = np.zeros((0, 0), order="F")
        self._ridges = FadingRidge(0, RIDGE, LEAST_RIDGE)
        # P times the scale, upper triangle: to forget is to change one number.
        self._inverse = np.zeros((0, 0), order="F")
        self._scale = 1.0

    @property
    def ridge_diagonal(self) -> Floats:
        """D, (n_activations,), as a new array: 1, or where rows are forgotten at least 1/16."""
        return self._ridges.entries

    def grown(self, n_activations: int, n_classes: int) -> Expert:
        """Return a copy with room for activations and classes that were 0 in every row so far."""
        known, n_known = self.output_weights.shape
        new = Expert(self.forgetting_factor)
        new.output_weights = np.zeros((n_activations, n_classes), order="F")
        new.output_weights[:known, :n_known] = self.output_weights
        new._inverse = np.zeros((n_activations, n_activations), order="F")
        new._inverse[:known, :known] = self._inverse
        places = np.arange(known, n_activations)
        new._inverse[places, places] = self._scale / RIDGE
        new._ridges = draft_of(self._ridges)
        new._ridges.grow(n_activations)
        new._scale = self._scale
        return new

    def scores(self, activations: Floats) -> Floats:
        """Return a score per class, (n_classes,), for activations (n_activations,)."""
        # Measured: of a vector, half the time of the operator, or less.
        scores: Floats = activations.dot(self.output_weights)
        return scores

    def learn(self, activations: Floats, errors: Floats, commit: Commit) -> None:
        """Gather what changes as a row is learnt: nothing has before the commit is made.

        Parameters
        ----------
        activations : ndarray (n_activations,)
        errors : ndarray (n_classes,)
            The one-hot label minus the scores of these activations.
        commit : Commit
            To be made before the next row.
        """
        scale = self._scale * self.forgetting_factor
        image = dsymv(1.0, self._inverse, activations)
        share = 1.0 / (scale + ddot(activations, image))
        # By position, which takes half the time of names: the other ones are the defaults.
        commit.then(dsyr, -share, image, 0, 1, 0, len(image), self._inverse, 1)
        commit.then(dger, share, image, errors, 1, 1, self.output_weights, 0, 0, 1)
        if self.forgetting_factor < 1.0:
            ridges = draft_of(self._ridges)
            columns, amounts = ridges.decay(self.forgetting_factor)
            if len(columns):
                learnt = share * image, image, errors
                self._restore(columns, scale / amounts, learnt, commit)
            if scale < SMALLEST_SCALE:
                commit.then(np.divide, self._inverse, scale, out=self._inverse)
                scale = 1.0
            commit.set(self, _scale=scale, _ridges=ridges)

    def _restore(
        self,
        columns: Integers,
        noise: Floats,
        learnt: tuple[Floats, Floats, Floats],
        commit: Commit,
    ) -> None:
        """Learn rows sqrt(amount) e_j with target 0, all at once (Woodbury's identity).

        They come after a row whose changes are gathered, but not made: P - s i i', W + s i e'.
        """
        shared, image, errors = learnt
        picked = columns_of_upper(self._inverse, columns) - shared[:, None] * image[columns]
        weights = self.output_weights[columns] + shared[columns, None] * errors
        system = picked[columns]
        system.flat[:: len(columns) + 1] += noise
        factor, _ = dpotrf(system)
        picked = dtrsm(1.0, factor, np.asfortranarray(picked), side=1)
        weights = dtrsm(1.0, factor, weights, trans_a=1)
        commit.then(dsyrk, -1.0, picked, 1.0, self._inverse, overwrite_c=1)
        commit.then(dgemm, -1.0, picked, weights, 1.0, self.output_weights, overwrite_c=1)

    def copied(self) -> Expert:
        """Return an expert that has learnt the same, and learns on its own from here."""
        new = draft_of(self)
        new.output_weights = self.output_weights.copy(order="F")
        new._inverse = self._inverse.copy(order="F")
        return new

    def going_on_from(self, other: Expert) -> Expert:
        """Return an expert with the memory of this one that has learnt what another has."""
        new = other.copied()
        new.forgetting_factor = self.forgetting_factor
        return new


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


RECENT = 0.995
"""What is left of an error after each further row: some 200 rows count."""

RATE = 0.5
"""An expert's share falls by the factor exp(-0.5) with each recent error more."""

CREDIBLE = -0.5, 1.5
"""Scores beyond this range are taken as its ends: an expert far off must not outvote the rest."""

SAMPLED = 4
"""Of so many rows one is used to choose the scale: a tenth of the time of a row saved."""


class Forecaster:
    """Mix the scores of experts, and turn the mixture into probabilities.

    Expert i has the share exp(-0.5 L_i) / sum_j exp(-0.5 L_j), where L_i counts its errors made
    before learning each row, discounted by 0.995 a row: the exponentially weighted average
    forecaster. Probabilities are the softmax of the mixture times a scale, the one of least
    log-loss on every fourth row so far.

    Parameters
    ----------
    n_experts : int

    References
    ----------
    N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games" (2006), sections 2.1 and 2.11.

    Examples
    --------
    >>> forecaster, scores = Forecaster(2), np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> forecaster.learn(scores, forecaster.mix(scores), column=0)
    [False, True]
    >>> forecaster.shares.round(2)
    array([0.62, 0.38])
    """

    def __init__(self, n_experts: int) -> None:
        # Plain floats: numpy takes longer over four numbers.
        self._errors = [0.0] * n_experts
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
        mixed: Floats = self.shares.dot(np.minimum(np.maximum(scores, low), high))
        return mixed

    def probabilities(self, mixtures: Floats) -> Floats:
        """Return probabilities for mixtures, both (n, n_classes)."""
        if not mixtures.shape[1]:
            return mixtures
        return calibrate(mixtures, self._scale, self._count)

    def learn_new_class(self) -> list[bool]:
        """Take note of a row that nobody could know: it counts, and nobody erred."""
        self._count += 1
        return [False] * len(self._errors)

    def learn(self, scores: Floats, mixture: Floats, column: int) -> list[bool]:
        """Take note of who erred on a row of a known class, before it is learnt.

        Parameters
        ----------
        scores : ndarray (n_experts, n_classes)
        mixture : ndarray (n_classes,)
            What `mix` made of the scores.
        column : int
            Of the row's label.

        Returns
        -------
        list of bool
            Whether each expert erred.
        """
        if self._count % SAMPLED == 0:
            likelihoods = calibrate(mixture, SCALES[:, None], self._count)[:, column]
            # Into a new array: a draft may look at that of before.
            self._losses = self._losses - np.log(likelihoods)
            self._scale = best_scale(self._losses)
        errs: list[bool] = (scores.argmax(axis=1) != column).tolist()
        self._errors = [RECENT * e + err for e, err in zip(self._errors, errs, strict=True)]
        self._count += 1
        return errs


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
