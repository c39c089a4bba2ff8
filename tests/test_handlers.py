"""Handlers of signals amid calls of wrappers, networks, streams and windows: they look, or wait."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from river import preprocessing

from injection import Within, lines_of
from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    ShallowConvClassifier,
    StreamClassifier,
    WindowedClassifier,
)

RANDOM = np.random.default_rng(0)
ROWS = [dict(zip("abc", row, strict=True)) for row in RANDOM.normal(size=(60, 3)).tolist()]
LABELS = ["yes" if row["a"] > 0.3 * row["b"] else "no" for row in ROWS]
IMAGES = [{"image": image} for image in RANDOM.uniform(size=(60, 8, 8))]


def begun(make, rows):
    model = make()
    for row, label in zip(rows[:30], LABELS[:30], strict=True):
        model.predict_one(row)
        model.learn_one(row, label)
    return model


def small_network():
    features = ConvolutionalFeatures(pool_size=3, stride=3, padding=3)
    return ShallowConvClassifier(features, HiddenLayer(6), LeastSquaresClassifier(), warm_up=10)


MAKERS = {
    "stream": (StreamClassifier, ROWS),
    "late stream": (lambda: StreamClassifier(label_delay=3), ROWS),
    "calibrated": (lambda: CalibratedClassifier(LeastSquaresClassifier()), ROWS),
    "drift": (lambda: DriftAwareClassifier(LeastSquaresClassifier()), ROWS),
    "drift of a pipeline": (
        lambda: DriftAwareClassifier(preprocessing.StandardScaler() | LeastSquaresClassifier()),
        ROWS,
    ),
    "windows": (lambda: WindowedClassifier(LeastSquaresClassifier(), window=4, hop=2), ROWS),
    "network": (small_network, IMAGES),
}
MODELS = {name: (begun(*parts), parts[1]) for name, parts in MAKERS.items()}


def many(rows):
    images = [row["image"] for row in rows if "image" in row]
    return np.array(images) if images else pd.DataFrame(rows)


CALLS = {
    "a row": lambda m, rows: m.learn_one(rows[40], LABELS[40]),
    "a batch": lambda m, rows: m.learn_many(many(rows[40:44]), LABELS[40:44]),
    "a prediction": lambda m, rows: m.predict_one(rows[40]),
}
CHANGES = {
    "learn_one": lambda m, rows: m.learn_one(rows[50], LABELS[50]),
    "learn_many": lambda m, rows: m.learn_many(many(rows[50:53]), LABELS[50:53]),
    "merge": lambda m, rows: m.merge(copy.deepcopy(m)),
    "unlearn_one": lambda m, rows: m.unlearn_one(rows[5], LABELS[5]),
    "observe_one": lambda m, rows: m.observe_one(rows[50]),
    "restart": lambda m, rows: m.restart(),
}
LOOKS = {
    "predict": lambda m, rows: m.predict_proba_one(rows[7]),
    "predict many": lambda m, rows: m.predict_proba_many(many(rows[7:9])),
    "copy": lambda m, rows: copy.deepcopy(m),
    "pickle": lambda m, rows: pickle.dumps(m),
}


def answers_of(model, rows):
    proba = [model.predict_proba_one(row) for row in rows[55:]]
    n_learnt = model.n_windows if hasattr(model, "n_windows") else model.count
    return [n_learnt, *([each[label] for label in sorted(each)] for each in proba)]


def near(found, expected):
    pairs = zip(found, expected, strict=True)
    return all(np.allclose(one, other, rtol=1e-6, atol=1e-9) for one, other in pairs)


def after(model, rows, *changes):
    model = copy.deepcopy(model)
    for change in changes:
        change(model, rows)
    return answers_of(model, rows)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("name", "change"),
    [(name, change) for name in MODELS for change in CHANGES if hasattr(MODELS[name][0], change)],
)
def test_what_a_handler_changes_is_changed_as_a_whole_or_refused(name, call, change):
    begun, rows = MODELS[name]
    call, change = CALLS[call], CHANGES[change]
    outcomes = {
        0: [after(begun, rows, change, call), after(begun, rows, call, change)],
        1: [after(begun, rows, call)],
    }
    seen = set()
    for at in lines_of(lambda: copy.deepcopy(begun), lambda model: call(model, rows)):
        model, refused = copy.deepcopy(begun), []

        def handle(model=model, refused=refused):
            try:
                change(model, rows)
            except RuntimeError as error:
                refused.append(str(error))

        Within(at, handle).run(lambda model=model: call(model, rows))
        found = answers_of(model, rows)
        assert all("in the middle of another call" in said for said in refused)
        assert any(near(found, expected) for expected in outcomes[len(refused)]), at
        seen.add(len(refused))
    assert 1 in seen


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", MODELS)
def test_a_look_by_a_handler_changes_nothing(name, call, look):
    begun, rows = MODELS[name]
    call = CALLS[call]
    expected = after(begun, rows, call)
    for at in lines_of(lambda: copy.deepcopy(begun), lambda model: call(model, rows)):
        model = copy.deepcopy(begun)
        handle = Within(at, lambda model=model: LOOKS[look](model, rows))
        handle.run(lambda model=model: call(model, rows))
        assert near(answers_of(model, rows), expected), at
