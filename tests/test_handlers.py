"""Handlers of signals amid calls of wrappers, networks, streams and windows: they look, or wait."""

from __future__ import annotations

import copy
import importlib
import pickle
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from river import preprocessing

import onlinels
from injection import Within, lines_of, run_traced
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
from onlinels.rows import key_text, sorted_names
from onlinels.saving.container import Entry
from onlinels.wrapping import last_step

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


def network(warm_up=10):
    features = ConvolutionalFeatures(pool_size=3, stride=3, padding=3)
    parts = features, HiddenLayer(6), LeastSquaresClassifier(0.5)
    return ShallowConvClassifier(*parts, warm_up=warm_up)


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
    "hidden units": (
        lambda: CalibratedClassifier(HiddenLayer(5) | LeastSquaresClassifier(1.0)),
        ROWS,
    ),
    "network": (network, IMAGES),
    "network warming up": (lambda: network(32), IMAGES),
}
MODELS = {name: (begun(*parts), parts[1]) for name, parts in MAKERS.items()}
OTHERS = {repr(model): pickle.dumps(model) for model, _ in MODELS.values()}


def many(rows):
    images = [row["image"] for row in rows if "image" in row]
    return np.array(images) if images else pd.DataFrame(rows)


CALLS = {
    "learn_one": lambda m, rows: m.learn_one(rows[40], LABELS[40]),
    "learn_many": lambda m, rows: m.learn_many(many(rows[40:44]), LABELS[40:44]),
    "predict_one": lambda m, rows: m.predict_one(rows[40]),
}
CHANGES = {
    "learn_one": lambda m, rows: m.learn_one(rows[50], LABELS[50]),
    "learn_many": lambda m, rows: m.learn_many(many(rows[50:53]), LABELS[50:53]),
    "merge": lambda m, rows: m.merge(pickle.loads(OTHERS[repr(m)])),
    "unlearn_one": lambda m, rows: m.unlearn_one(rows[5], LABELS[5]),
    "unlearn_many": lambda m, rows: m.unlearn_many(many(rows[5:7]), LABELS[5:7]),
    "observe_one": lambda m, rows: m.observe_one(rows[50]),
    "restart": lambda m, rows: m.restart(),
    "fix_features": lambda m, rows: m.fix_features(),
}
LOOKS = {
    "predict": lambda m, rows: [*m.predict_proba_one(rows[7]).values()],
    "predict what is new": lambda m, rows: [*m.predict_proba_one(rows[7] | {"new": 1.0}).values()],
    "predict many": lambda m, rows: np.asarray(m.predict_proba_many(many(rows[7:9]))),
    "copy": lambda m, rows: answers_of(copy.deepcopy(m), rows),
    "pickle": lambda m, rows: answers_of(pickle.loads(pickle.dumps(m)), rows),
    "save": lambda m, rows: answers_of(saved_and_loaded(m), rows),
}


def saved_and_loaded(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.npz")
        return onlinels.load(Path(folder) / "model.npz")


def answers_of(model, rows):
    """Return what a model answers and has noted."""
    notes = [getattr(model, name, 0) for name in ("count", "n_windows", "n_alarms", "_losses")]
    if not isinstance(model, StreamClassifier):
        notes.append(last_step(model.classifier).count)
    proba = [model.predict_proba_one(row) for row in rows[55:]]
    return [*notes, *([each[label] for label in sorted(each)] for each in proba)]


def fresh(model):
    """Return a copy all of whose settings are other objects, as after loading."""
    return pickle.loads(pickle.dumps(model))


def near(found, expected):
    if [*map(np.shape, found)] != [*map(np.shape, expected)]:
        return False
    pairs = zip(found, expected, strict=True)
    return all(np.allclose(one, other, rtol=1e-6, atol=1e-9) for one, other in pairs)


def after(model, rows, *changes):
    model = fresh(model)
    for change in changes:
        change(model, rows)
    return answers_of(model, rows)


def triples(calls, others):
    """Return names of models, of a call of each, and of what a handler does meanwhile."""
    return [
        (name, call, other)
        for name, (model, rows) in MODELS.items()
        for call in calls
        for other in others
        if hasattr(model, call) and (other in LOOKS or hasattr(model, other))
        if not (call == "fix_features" and name == "network")
        if not ("merge" in (call, other) and name == "hidden units")
        if not (other == "predict what is new" and ("image" in rows[0] or name == "windows"))
    ]


ALL = CHANGES | CALLS
REST = [name for name in CHANGES if name not in CALLS]


@pytest.mark.parametrize(
    ("name", "call", "change"), triples(CALLS, CHANGES) + triples(REST, ["learn_one"])
)
def test_what_a_handler_changes_is_changed_as_a_whole_or_refused(name, call, change):
    begun, rows = MODELS[name]
    call, change = ALL[call], CHANGES[change]
    outcomes = {0: [], 1: [after(begun, rows, call)]}
    for order in ((change, call), (call, change)):
        with suppress(ValueError):
            outcomes[0].append(after(begun, rows, *order))
    seen = set()
    for at in lines_of(lambda: fresh(begun), lambda model: call(model, rows), most=16):
        model, refused = fresh(begun), []

        def handle(model=model, refused=refused):
            try:
                change(model, rows)
            except RuntimeError as error:
                refused.append(str(error))

        within = Within(at, handle)
        within.run(lambda model=model: call(model, rows))
        if within.count < at:  # Only the first call of all takes so many lines.
            break
        found = answers_of(model, rows)
        assert all("in the middle of another call" in said for said in refused)
        assert any(near(found, expected) for expected in outcomes[len(refused)]), at
        seen.add(len(refused))
    assert 1 in seen


@pytest.mark.parametrize(
    ("name", "call", "look"), triples(CALLS, LOOKS) + triples(REST, ["copy", "predict"])
)
def test_a_look_by_a_handler_sees_a_whole_and_changes_nothing(name, call, look):
    begun, rows = MODELS[name]
    call, look = ALL[call], LOOKS[look]
    expected, whole = after(begun, rows, call), []
    for changes in ((), (call,)):
        model = fresh(begun)
        for change in changes:
            change(model, rows)
        whole.append(look(model, rows))
    for at in lines_of(lambda: fresh(begun), lambda model: call(model, rows), most=16):
        model, seen = fresh(begun), []
        handle = Within(at, lambda model=model, seen=seen: seen.append(look(model, rows)))
        handle.run(lambda model=model: call(model, rows))
        assert near(answers_of(model, rows), expected), at
        assert all(any(near(one, each) for each in whole) for one in seen), at


class Asked(int):
    """A number that, while it is spelt, asks for something else once."""

    def __new__(cls, number, ask):
        made = super().__new__(cls, number)
        made.ask, made.answers = ask, []
        return made

    def __repr__(self):
        if not self.answers:
            self.answers.append(None)
            self.answers[0] = self.ask()
        return int.__repr__(self)


def test_tuples_are_spelt_alike_while_they_are_being_spelt():
    """Of a tuple that it is spelling already Python says "(...)", as if it held itself."""
    number = Asked(4, lambda: (entry.header, key_text(name), sorted_names([name, ("a", 3)])))
    entry, name = Entry("<f8", (3, number), False, ""), ("a", number)
    entry.header, repr(entry.shape), repr(name)
    header, text, names = number.answers[0]
    assert b"'shape': (3, 4)}" in header
    assert text == "tuple:('a', 4)"
    assert names == [("a", 3), name]
    number.answers.clear()
    assert repr(name) == "('a', 4)"
    assert number.answers[0] == (header, text, names)


def pipelines():
    inner = preprocessing.StandardScaler() | LeastSquaresClassifier(ridge=1.0)
    return [CalibratedClassifier(inner), DriftAwareClassifier(inner.clone())]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("how", ["made", "loaded", "pickled", "cloned"])
def test_an_interrupt_in_the_first_call_of_a_pipeline_leaves_it_whole(number, how, tmp_path):
    source = pipelines()[number]
    source.save(tmp_path / "model")
    ways = {
        "made": lambda: pipelines()[number],
        "loaded": lambda: onlinels.load(tmp_path / "model"),
        "pickled": lambda: fresh(source),
        "cloned": source.clone,
    }
    expected = begun(lambda: ways[how](), ROWS).predict_proba_one(ROWS[50])
    river_pipeline = importlib.import_module("river.compose.pipeline").__file__
    at = n_lines = 0
    while n_lines >= at:
        at, n_lines, model = at + 1, 0, ways[how]()

        def step(frame, event, arg, at=at):
            nonlocal n_lines
            n_lines += event == "line"
            if event == "line" and n_lines == at:
                raise KeyboardInterrupt
            return step

        def enter(frame, event, arg, step=step):
            return step if frame.f_code.co_filename == river_pipeline else None

        with suppress(KeyboardInterrupt):
            run_traced(enter, lambda model=model: model.predict_proba_one(ROWS[0]))
        assert begun(lambda model=model: model, ROWS).predict_proba_one(ROWS[50]) == expected
    assert at > 3
