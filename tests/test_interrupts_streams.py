"""Whatever is raised wherever: models that learn streams are as before, or as after."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import strategies
from injection_streams import PACKAGE, assert_whole
from onlinels import (
    ConvolutionalFeatures,
    HiddenLayer,
    LeastSquaresClassifier,
    ShallowConvClassifier,
    StreamClassifier,
)
from onlinels.commit import Commit

MOST = 40
"""Bytecodes of each action that are interrupted here."""

RANDOM = np.random.default_rng(0)
ROWS = [dict(zip("abc", row, strict=True)) for row in RANDOM.normal(size=(400, 3)).tolist()]
LABELS = ["yes" if row["a"] > 0.3 * row["b"] else "no" for row in ROWS]


def continued(model):
    """Predict and learn three rows more."""
    for row, label in zip(ROWS[:3], LABELS[:3], strict=True):
        model.predict_one(row)
        model.learn_one(row, label)


def stream_of(n_rows, **settings):
    model = StreamClassifier(**settings)
    for row, label in zip(ROWS[:n_rows], LABELS[:n_rows], strict=True):
        model.learn_one(row, label)
    return model


def before(model, happens, X, y):
    """Let a stream classifier learn up to the row at which something happens; return the row."""
    for row, label in zip(X, y, strict=True):
        ahead = copy.deepcopy(model)
        ahead.learn_one(row, label)
        if happens(model, ahead):
            return row, label
        model.learn_one(row, label)
    raise AssertionError("it does not happen")


def restores(model, ahead):
    ridges = [each._pool.wide.short._ridges._entries for each in (model, ahead)]
    return (ridges[1] == 1.0).sum() > (ridges[0] == 1.0).sum() and model.count > 30


def takes_over(model, ahead):
    return ahead._pool.wide.n_takeovers > model._pool.wide.n_takeovers


def known_row():
    model = stream_of(5)
    model.predict_one(ROWS[5])
    return model, lambda model: model.learn_one(ROWS[5], LABELS[5])


def restored_ridge():
    model = StreamClassifier()
    row, label = before(model, restores, ROWS, LABELS)
    return model, lambda model: model.learn_one(row, label)


def rescaled_inverse():
    model = stream_of(5)
    for memories in (model._pool.wide, model._pool.narrow):
        memories.short._inverse *= 2.0**-32
        memories.short._scale *= 2.0**-32
    return model, lambda model: model.learn_one(ROWS[5], LABELS[5])


def takeover():
    X, y = strategies.turned_labels(400, 200, seed=5)
    model = StreamClassifier()
    model.learn_many(X[:200], y[:200])
    rows = [dict(enumerate(row)) for row in X[200:].tolist()]
    row, label = before(model, takes_over, rows, y[200:])
    return model, lambda model: model.learn_one(row, label)


def new_features_and_class():
    return stream_of(4), lambda model: model.learn_one({"a": 1.0, "d": "red", "e": None}, "third")


def first_row():
    return StreamClassifier(), lambda model: model.learn_one({"a": 1.0, "d": "red"}, "first")


def outlier_with_late_labels():
    model = stream_of(20, label_delay=2)
    return model, lambda model: model.learn_one({"a": 1e6, "b": None}, "no")


def batch_that_grows():
    rows = [ROWS[4], ROWS[5] | {"d": 2.0}, ROWS[6]]
    return stream_of(4), lambda model: model.learn_many(rows, ["yes", "third", "no"])


def refused_batch():
    rows = [ROWS[4] | {"d": np.ones(2)}, {"d": np.ones(3)}]
    return stream_of(4), lambda model: model.learn_many(rows, ["yes", "no"])


def predictions():
    def predict(model):
        model.predict_one(ROWS[9])
        model.predict_proba_many([ROWS[7], {"b": 1.0, "d": "red"}, {"a": None}])

    return stream_of(6), predict


STREAMS = (
    known_row,
    restored_ridge,
    rescaled_inverse,
    takeover,
    new_features_and_class,
    first_row,
    outlier_with_late_labels,
    batch_that_grows,
    refused_batch,
    predictions,
)


@pytest.mark.parametrize("case", STREAMS)
def test_streams(case):
    model, act = case()
    assert_whole(model, act, continued, most=MOST)


NETWORK = tuple(str(PACKAGE / f"{name}.py") for name in ("network", "numerics"))

IMAGES = RANDOM.random((60, 6, 6))
DIGITS = RANDOM.integers(0, 3, 60).tolist()


def network(n_images, start=0, hidden="difference"):
    model = ShallowConvClassifier(
        ConvolutionalFeatures(pool_size=3, stride=3, padding=3),
        HiddenLayer(6, hidden),
        LeastSquaresClassifier(1.0, fit_intercept=False),
        warm_up=12,
    )
    if n_images:
        learn_images(model, slice(start, start + n_images))
    return model


def learn_images(model, rows):
    model.learn_many(IMAGES[rows], DIGITS[rows])


def fresh_and_fixed():
    """Return a network that has met no image, and one of the same features that has."""
    model = network(0, hidden="gaussian")
    other = model.empty()
    learn_images(other, slice(5))
    return model, other


def network_goes_on(model):
    model.learn_one({"image": IMAGES[50]}, DIGITS[50])
    learn_images(model, slice(50, 53))
    model.predict_many(IMAGES[:2])


NETWORKS = {
    "one held": (lambda: network(3), lambda model: learn_images(model, slice(3, 4))),
    "some held": (lambda: network(3), lambda model: learn_images(model, slice(3, 7))),
    "first held": (lambda: network(0), lambda model: learn_images(model, slice(0, 3))),
    "warmed up": (lambda: network(3), lambda model: learn_images(model, slice(3, 20))),
    "fixed": (lambda: network(7), lambda model: model.fix_features()),
    "first learnt": (
        lambda: network(0, hidden="gaussian"),
        lambda model: learn_images(model, slice(0, 3)),
    ),
    "one learnt": (
        lambda: network(14),
        lambda model: model.learn_one({"image": IMAGES[20]}, DIGITS[20]),
    ),
    "some learnt": (lambda: network(14), lambda model: learn_images(model, slice(20, 23))),
    "many learnt": (lambda: network(14), lambda model: learn_images(model, slice(20, 33))),
    "unlearnt": (
        lambda: network(14),
        lambda model: model.unlearn_many(IMAGES[12:14], DIGITS[12:14]),
    ),
    "held merged": (lambda: network(3), lambda model: model.merge(network(5, 20))),
    "over the edge": (lambda: network(8), lambda model: model.merge(network(8, 20))),
    "held in fixed": (lambda: network(14), lambda model: model.merge(network(3, 20))),
    "fixed in held": (lambda: network(3), lambda model: model.merge(network(14, 20))),
    "fixed merged": (lambda: network(14), lambda model: model.merge(copy.deepcopy(model))),
    "fixed in fresh": (
        lambda: fresh_and_fixed()[0],
        lambda model: model.merge(fresh_and_fixed()[1]),
    ),
    "answers": (
        lambda: network(14),
        lambda model: model.predict_proba_many(IMAGES[:7]),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, monkeypatch):
    monkeypatch.setattr("onlinels.network.BLOCK_IMAGES", 5)
    make, act = NETWORKS[name]
    model = make()
    # Random weights are drawn when they are first wanted, by predictions too: here they are there.
    if model.features_fixed:
        model.transform_many(IMAGES[:1])
    assert_whole(model, act, network_goes_on, NETWORK, MOST)


def test_a_change_that_finds_no_memory_is_tried_once_more():
    made, lacks = [], iter([MemoryError, None])

    def change():
        error = next(lacks)
        if error:
            raise error
        made.append("second")

    commit = Commit()
    for each, *values in ((made.append, "first"), (change,), (made.append, "third")):
        commit.then(each, *values)
    with pytest.raises(MemoryError):
        commit.make()
    assert made == ["first", "second", "third"]
