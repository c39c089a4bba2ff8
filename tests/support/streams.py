"""Stream models of both kinds, what streams ask and teach them, and what must hold of them."""

import copy
import pickle
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
from hypothesis import strategies as st

import onlinels
from onlinels import StreamClassifier, StreamRegressor, core
from onlinels.core import reference
from onlinels.stream import base, classifier, regressor
from onlinels.stream import rows as stream_rows
from support import laws, strategies


def normal_one(model, x, **key):
    """Return the mean and the standard deviation of a new target."""
    normal = model.predict_one(x, with_dist=True, **key)
    return normal.mu, normal.sigma


def normals_learn_many(model, *batch):
    """Return the same for every row of a batch before it is learnt."""
    return [(each.mu, each.sigma) for each in model.predict_learn_many(*batch, with_dist=True)]


class Kind(NamedTuple):
    """A kind of stream models, and what draws streams for it."""

    make: type
    streams: Callable
    # Questions about one sample; the first one tells what `laws.answers_of` tells.
    questions: tuple[Callable, ...]
    answer_and_learn: Callable
    decays: tuple[float, ...]
    # Draws settings of a model.
    settings: st.SearchStrategy
    # The target of a sample of `rows_of`, and the answer to a row before the first one.
    target_of: Callable
    blank: float | None
    # The size of answers, given the targets.
    size: Callable


KINDS = {
    "labels": Kind(
        make=StreamClassifier,
        streams=strategies.streams,
        questions=(
            StreamClassifier.predict_proba_one,
            StreamClassifier.predict_one,
            StreamClassifier.scores_one,
            StreamClassifier.margin_one,
        ),
        answer_and_learn=StreamClassifier.predict_proba_learn_many,
        decays=(*classifier.MEMORIES,),
        settings=st.sampled_from([{}, {"labels": ["cat", "dog", "unheard of"]}]),
        target_of=lambda x: "yn"[x["a"] > x["b"]],
        blank=None,
        size=lambda labels: 1.0,
    ),
    "numbers": Kind(
        make=StreamRegressor,
        streams=strategies.number_streams,
        questions=(normal_one, StreamRegressor.predict_one, StreamRegressor.predict_interval_one),
        answer_and_learn=normals_learn_many,
        decays=tuple(decay for *_, decay in regressor.MEMORIES),
        settings=st.just({}),
        target_of=lambda x: x["a"],
        blank=0.0,
        size=lambda targets: float(np.ptp([*targets, 0.0])) or 1.0,
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)

COPIES = {
    "copy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "file": lambda model: onlinels.loads(onlinels.dumps(model)),
}
"""Ways to a model that goes on as another."""


def rows_of(kind, n_rows, seed=0):
    """Return samples that all differ, with their labels or targets."""
    values = np.random.default_rng(seed).normal(size=(n_rows, 3)).tolist()
    made = [dict(zip("abc", row, strict=True)) for row in values]
    return [(x, kind.target_of(x)) for x in made]


class HandedRows:
    """`StreamRows` that hand back all samples, which Python code then reads."""

    def __init__(self, **named):
        self.rows = core.StreamRows(**named)
        self.waits, self.forget = self.rows.waits, self.rows.forget

    def hand_over(self, *arguments):
        return NotImplemented

    scores = label = probabilities = normal = learn = hand_over

    def forecast(self, row, *others):
        return NotImplemented if type(row) is dict else self.rows.forecast(row, *others)

    def plan(self, row, *others):
        return NotImplemented if type(row) is dict else self.rows.plan(row, *others)


def read_in_python():
    """Return a context in which no sample is read in C."""
    return mock.patch.object(base, "StreamRows", core.StreamRows and HandedRows)


def assert_alike(a, b, samples):
    """Assert that two models are one, bit for bit, but for what they were asked; answer alike."""
    a, b = laws.unasked(a), laws.unasked(b)
    assert laws.saved(a) == laws.saved(b)
    assert laws.answers_of(a, samples) == laws.answers_of(b, samples)


def learnt_rows(model, learn):
    """Learn, and return (activations, targets, w) of the rows that each recursion learnt."""
    logs = [[] for _ in model._state.memories]

    class Logged(reference.Experts):
        def plan(self, errors, column, is_new, w):
            left = errors.ravel()
            for log, row, (_, weights, *_) in zip(logs, self._seen, self._memories, strict=False):
                own, left = np.split(left, [weights.shape[1]])
                log.append((row, own + row @ weights, w))
            return super().plan(errors, column, is_new, w)

    with (
        mock.patch.object(stream_rows, "Experts", Logged),
        mock.patch.object(base, "StreamRows", None),
    ):
        learn(model)
    return logs


def assert_memories_exact(model, logs, decays):
    """Assert that all memories solve weighted ridge regression on the rows of their logs."""
    for memory, log, decay in zip(model._state.memories, logs, decays, strict=True):
        n_activations, n_targets = memory.weights.shape
        A, Y = (np.zeros((len(log), size)) for size in (n_activations, n_targets))
        for row, other, (activations, targets, _) in zip(A, Y, log, strict=True):
            row[: len(activations)], other[: len(targets)] = activations, targets
        diagonal, least = memory.penalties, memory.ridge * memory.least
        assert ((diagonal >= least) & (diagonal <= memory.ridge)).all()
        w = decay ** np.arange(len(log))[::-1].astype(float) * [w for _, _, w in log]
        laws.assert_solves_weighted_ridge(memory.weights, diagonal, A, Y, w)
