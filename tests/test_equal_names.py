"""Names, texts, targets, labels and numbers that are equal are the same to every model."""

import enum
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, preprocessing

import onlinels
from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    StreamClassifier,
    StreamRegressor,
    WindowedClassifier,
)
from onlinels.checks import plain_value
from onlinels.explain import feature_effects
from onlinels.export import to_sklearn
from onlinels.sklearn import IncrementalRidgeClassifier
from onlinels.stream.waiting import sample_key
from support import strategies

PLAIN_NAMES = ["temp", "h7", "\u00e9", 0, 1, -3, 0.5, ("h", 2), ("site", (1, 0.25)), None]
"""Names that a file can hold."""

CHANNELS = ["temp", "h7", 0]

CLASSIFIERS = {
    "linear": lambda: LeastSquaresClassifier(0.1),
    "orthogonal": lambda: LeastSquaresClassifier(0.1, accumulator="orthogonal"),
    "recursive": lambda: LeastSquaresClassifier(0.1, accumulator="recursive"),
    "folds": lambda: LeastSquaresClassifier(KFold(3)),
    "priors": lambda: LeastSquaresClassifier(0.1, priors={"red": 2.0, 1: 3.0}),
    "stream": StreamClassifier,
    "late stream": lambda: StreamClassifier(label_delay=2),
    "hidden": lambda: HiddenLayer(7) | LeastSquaresClassifier(0.1),
    "scaled": lambda: preprocessing.StandardScaler() | LeastSquaresClassifier(0.1),
    "selected": lambda: compose.Select("temp", 0) | LeastSquaresClassifier(0.1),
    "calibrated": lambda: CalibratedClassifier(LeastSquaresClassifier(0.1)),
    "drift": lambda: DriftAwareClassifier(LeastSquaresClassifier(0.1)),
    "windowed": lambda: WindowedClassifier(LeastSquaresClassifier(0.1), window=2, hop=1),
}
REGRESSORS = {
    "linear regressor": lambda: LeastSquaresRegressor(0.1),
    "regressor of folds": lambda: LeastSquaresRegressor(KFold(3)),
    "stream regressor": StreamRegressor,
    "late stream regressor": lambda: StreamRegressor(label_delay=2),
    "hidden regressor": lambda: HiddenLayer(7) | LeastSquaresRegressor(0.1),
    "several": lambda: LeastSquaresMultiTargetRegressor(0.1),
    "several of folds": lambda: LeastSquaresMultiTargetRegressor(KFold(3)),
}
MODELS = CLASSIFIERS | REGRESSORS
LABELS = ["red", 1, 0.5, ("a", 0), "0"]
TARGETS = ["price", 1, ("h", 0)]


def names_for(kind):
    if kind == "windowed":
        return CHANNELS
    # River's scaler itself looks names up, and Python compares no Decimal with a numpy integer.
    return [name for name in PLAIN_NAMES if kind != "scaled" or isinstance(name, str)]


@st.composite
def streams(draw, kind):
    """Draw rows, with their targets, twice: of plain objects, and of objects equal to them."""
    known = names_for(kind)
    number = st.integers(-8, 8).map(lambda each: each / 4)
    value = st.one_of(number, st.sampled_from(["red", "h1", ""])) if "stream" in kind else number
    n_names = len(known) if kind == "windowed" else draw(st.integers(1, min(4, len(known))))
    names = draw(st.permutations(known))[:n_names]
    if kind == "selected":
        names = ["temp", 0, *(name for name in names if name not in ("temp", 0))]
    columns = st.one_of(*(st.just(number), st.just(value))) if "stream" in kind else st.just(number)
    columns = [draw(columns) for _ in names]
    rows, others = [], []
    for _ in range(draw(st.integers(4, 12))):
        values = [draw(column) for column in columns]
        if kind in CLASSIFIERS:
            y = draw(st.sampled_from(LABELS))
            other = draw(strategies.equals(y))
        elif "several" in kind:
            numbers = [draw(number) for _ in TARGETS]
            y, other = (
                dict(zip(TARGETS, numbers, strict=True)),
                draw(strategies.equal_dicts(TARGETS, numbers)),
            )
        else:
            y = draw(number)
            other = draw(strategies.equals(y, real=True))
        rows.append((dict(zip(names, values, strict=True)), y))
        # River's scaler itself computes with the numbers, and Python adds no Decimal to a float.
        is_kept = kind == "scaled"
        others.append((draw(strategies.equal_dicts(names, values, is_kept)), other))
    return rows, others


def answers(model, kind, x):
    """Return all that a model answers about a sample."""
    asked = ["predict_one"]
    if kind in CLASSIFIERS:
        asked.append("predict_proba_one")
    said = [getattr(model, ask)(x) for ask in asked]
    if kind in ("linear", "folds", "several", "linear regressor"):
        said.append(feature_effects(model, x))
    return said


def facts(model):
    """Return what a model has learnt."""
    last = model[list(model.steps)[-1]] if isinstance(model, compose.Pipeline) else model
    while hasattr(last, "classifier"):
        last = last.classifier
        last = last[list(last.steps)[-1]] if isinstance(last, compose.Pipeline) else last
    known = ("feature_names", "classes", "target_names", "count", "ridge_")
    said = [getattr(last, name, None) for name in known]
    weights = getattr(last, "output_weights", None)
    return [*said, None if weights is None else weights.tobytes()]


def follow(model, kind, rows, questions, in_batch):
    """Learn rows, ask questions between them, and return all answers."""
    said = []
    half = len(rows) // 2
    for place, (x, y) in enumerate(rows):
        said += [answers(model, kind, x)] if place in questions else []
        if place < half or not in_batch:
            model.learn_one(x, y)
    if in_batch:
        model.learn_many([x for x, _ in rows[half:]], [y for _, y in rows[half:]])
        if kind != "windowed":
            said.append(list(model.predict_many([x for x, _ in rows])))
    return said


@pytest.mark.parametrize("kind", MODELS)
@strategies.examples(10)
@given(st.data())
def test_equal_objects_change_nothing(kind, data):
    rows, others = data.draw(streams(kind))
    questions = data.draw(st.sets(st.integers(0, len(rows) - 1)))
    # River's own steps read no lists of dicts.
    in_batch = kind not in ("scaled", "selected") and data.draw(st.booleans())
    mine, theirs = MODELS[kind](), MODELS[kind]()
    assert follow(mine, kind, rows, questions, in_batch) == follow(
        theirs, kind, others, questions, in_batch
    )
    assert facts(mine) == facts(theirs)
    loaded = onlinels.loads(onlinels.dumps(theirs))
    assert facts(mine) == facts(loaded)
    # Lessons of one kind, questions of the other; the order of the questions does not matter.
    for x, other in ((rows[0][0], others[0][0]), (others[-1][0], rows[-1][0])):
        assert answers(mine, kind, x) == answers(theirs, kind, other) == answers(loaded, kind, x)
        assert answers(mine, kind, other) == answers(theirs, kind, x)


MERGED = ["linear", "orthogonal", "folds", "priors", "linear regressor", "several", "hidden"]


@pytest.mark.parametrize("kind", MERGED)
@strategies.examples(10)
@given(st.data())
def test_equal_objects_are_merged_and_unlearnt(kind, data):
    rows, others = data.draw(streams(kind))
    half = len(rows) // 2
    merged = []
    for first, second in ((rows[:half], rows[half:]), (rows[:half], others[half:])):
        parts = MODELS[kind](), MODELS[kind]()
        for part, each in zip(parts, (first, second), strict=True):
            for x, y in each:
                part.learn_one(x, y)
        whole = onlinels.merge(*parts)
        if kind not in ("orthogonal", "hidden"):
            whole.unlearn_one(*(others if second is rows[half:] else rows)[0])
        merged.append(whole)
    assert facts(merged[0]) == facts(merged[1])


class Sensor(str, enum.Enum):  # noqa: UP042 (its text is "Sensor.TEMP")
    TEMP = "temp"
    HUMID = "humid"


class Level(enum.IntEnum):
    LOW = 0
    HIGH = 1


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Tag:
    name: str


def test_the_sign_of_zeros_does_not_change_which_forecast_waits():
    for zero in (0.0, -0.0, 0, False, np.float32(-0.0), Decimal("-0")):
        for others in ({}, {"text": "red"}, {"h": np.array([-0.0, 1.0])}):
            sample = {"a": zero, **others}
            expected = {"a": 0.0, **others}
            if "h" in others:
                expected["h"] = np.array([0.0, 1.0])
            assert sample_key(sample) == sample_key(expected)


class Casual(str):
    """A text that equals texts in other cases."""

    __slots__ = ()

    def __eq__(self, other):
        return self.lower() == str.lower(other)

    def __hash__(self):
        return hash(self.lower())


def test_names_keep_a_meaning_of_equality_of_their_own():
    assert type(plain_value(Casual("Temp"))) is Casual
    model = LeastSquaresRegressor(1e-9)
    model.learn_many([{Casual("Temp"): 1.0}, {Casual("TEMP"): 2.0}], [1.0, 2.0])
    assert len(model.feature_names) == 1
    assert model.predict_one({Casual("temp"): 3.0}) == pytest.approx(3.0)


@pytest.mark.parametrize("name", [Tag("a"), Casual("A"), ("h", Tag("a")), Colour.RED, b"a"])
@pytest.mark.parametrize(
    "learn",
    [
        lambda x: HiddenLayer(3).transform_one(x),
        lambda x: LeastSquaresClassifier(KFold(2)).learn_one(x, "a"),
        lambda x: StreamClassifier().learn_one(x, "a"),
    ],
)
def test_names_whose_equals_cannot_be_spelt_are_refused_where_their_text_counts(name, learn):
    with pytest.raises(TypeError, match=r"has no fixed spelling, .* Rename the feature"):
        learn({name: 1.0})
    # Elsewhere their equality counts.
    model = LeastSquaresRegressor()
    model.learn_one({name: 1.0}, 1.0)
    assert model.feature_names == (name,)


def test_labels_stay_as_given_and_are_saved_in_plain_types(tmp_path):
    model = LeastSquaresClassifier(0.1)
    model.learn_many([{"a": 0.0}, {"a": 1.0}, {"a": 2.0}], [Sensor.TEMP, Level.HIGH, (Level.LOW,)])
    assert model.predict_one({"a": 0.0}) is Sensor.TEMP
    loaded = onlinels.loads(onlinels.dumps(model))
    assert loaded.classes == model.classes
    assert list(map(type, loaded.classes)) == [str, int, tuple]
    small = onlinels.loads(onlinels.dumps(onlinels.export.answers_only(model)))
    assert small.classes == model.classes


def test_exports_and_estimators_have_plain_labels():
    X, y = np.eye(4), [Sensor.TEMP, Sensor.HUMID] * 2
    first = IncrementalRidgeClassifier().fit(X, y)
    second = IncrementalRidgeClassifier().fit(X, [*map(str.__str__, y)])
    for each in (first, second, to_sklearn(first.to_river())):
        assert sorted(each.classes_.tolist()) == ["humid", "temp"]
    np.testing.assert_array_equal(first.predict(X), second.predict(X))


@pytest.mark.parametrize(
    ("labels", "plain"),
    [
        ([Sensor.TEMP, Sensor.HUMID], ["temp", "humid"]),
        ([Sensor.TEMP, "humid"], ["temp", "humid"]),
        ([Level.HIGH, Level.LOW], [1, 0]),
        ([True, Level.LOW], [True, 0]),
    ],
)
@pytest.mark.parametrize("make", [LeastSquaresClassifier, StreamClassifier])
def test_frames_of_answers_name_classes_by_their_plain_labels(make, labels, plain):
    frame = pl.DataFrame({"a": [0.0, 1.0]})
    models = make(), make()
    for model, given_labels in zip(models, (labels, plain), strict=True):
        model.learn_many(frame, given_labels)
    probabilities = [model.predict_proba_many(frame) for model in models]
    assert probabilities[0].equals(probabilities[1])
    if type(plain[0]) is type(plain[1]):
        said = [model.predict_many(frame) for model in models]
        assert said[0].to_list() == said[1].to_list()


def test_frames_name_columns_by_any_equal_object():
    rows = np.random.default_rng(0).normal(size=(20, 3))
    labels = ["a", "b"] * 10
    names = [
        ["temp", 1, "humid"],
        [Sensor.TEMP, True, Sensor.HUMID],
        [np.str_("temp"), 1.0, "humid"],
    ]
    for make in (LeastSquaresClassifier, StreamClassifier):
        models = [make() for _ in names]
        for model, given_names in zip(models, names, strict=True):
            columns = pd.Index(given_names, dtype=object)
            model.learn_many(pd.DataFrame(rows, columns=columns), labels)
        known = [facts(model) for model in models]
        assert known[0] == known[1] == known[2]


def test_pixels_and_settings_are_named_by_any_equal_object():
    pixels = np.random.default_rng(0).random((8, 12))
    made = []
    for form in (int, float, np.int64, Fraction):
        model = ShallowConvClassifier.from_preset(
            "digits", image_shape=(3, 4), n_hidden=20, warm_up=4, drop_ring=0, padding=6
        )
        names = [*map(form, range(12))]
        for row, label in zip(pixels.tolist(), "abababab", strict=True):
            model.learn_one(dict(zip(names, row, strict=True)), label)
        made.append(model.predict_proba_one(dict(zip(names, pixels[0], strict=True))))
    assert all(each == made[0] for each in made)
    kind = enum.Enum("Kind", {"ONE": "gaussian"}, type=str).ONE
    plain = HiddenLayer(3).transform_one({"a": 1.0})
    assert HiddenLayer(3, kind).transform_one({"a": 1.0}) == plain
