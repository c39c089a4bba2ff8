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
from river import compose, metrics

import onlinels
from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    StreamClassifier,
    progressive_val_score,
)
from onlinels.checks import plain_value
from onlinels.explain import feature_effects
from onlinels.export import to_sklearn
from onlinels.pipelines import last_step
from onlinels.sklearn import IncrementalRidgeClassifier
from onlinels.stream.waiting import sample_key
from support import laws, models, strategies

PLAIN_NAMES = ["temp", "h7", "\u00e9", 0, 1, -3, 0.5, ("h", 2), ("site", (1, 0.25)), None]
"""Names that a file can hold."""

MODELS = models.MODELS | models.STEPS_OF_RIVER
LABELS = ["red", 1, 0.5, ("a", 0), "0"]
TARGETS = ["price", 1, ("h", 0)]


def names_for(kind):
    if kind == "windowed":
        return ["temp", "h7", 0]
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
        if kind not in models.REGRESSORS:
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
    said = [model.predict_one(x)]
    if kind not in models.REGRESSORS:
        said.append(model.predict_proba_one(x))
    if kind in ("no intercept", "folds", "several", "regressor"):
        said.append(feature_effects(model, x))
    return said


def facts(model):
    """Return what a model has learnt."""
    while hasattr(model, "classifier") or isinstance(model, compose.Pipeline):
        model = last_step(model) if isinstance(model, compose.Pipeline) else model.classifier
    known = "feature_names", "classes", "target_names", "count", "ridge_", "output_weights"
    said = [getattr(model, name, None) for name in known]
    return [each.tobytes() if isinstance(each, np.ndarray) else each for each in said]


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


# Drawn features often hold numbers and texts; where users are told is tested.
@pytest.mark.filterwarnings("ignore:Texts among numbers:UserWarning")
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


MERGED = ["no intercept", "orthogonal", "folds", "priors", "regressor", "several", "pipeline"]


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
        if kind not in ("orthogonal", "pipeline"):
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
    for zero in (-0.0, 0, False, np.float32(-0.0), Decimal("-0"), np.array([-0.0, 1.0])):
        expected = np.array([0.0, 1.0]) if isinstance(zero, np.ndarray) else 0.0
        assert sample_key({"a": zero, "b": "c"}) == sample_key({"a": expected, "b": "c"})


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
    model = IncrementalRidgeClassifier().fit(X, y)
    for each in (model, to_sklearn(model.to_river())):
        assert each.predict(X).tolist() == ["temp", "humid"] * 2


@pytest.mark.parametrize("labels", [[Sensor.TEMP, "humid"], [Level.HIGH, Level.LOW]])
@pytest.mark.parametrize("make", [LeastSquaresClassifier, StreamClassifier])
def test_frames_of_answers_name_classes_by_their_plain_labels(make, labels):
    frame, answers = pl.DataFrame({"a": [0.0, 1.0]}), []
    for given_labels in (labels, [*map(plain_value, labels)]):
        model = laws.fitted(make(), frame, given_labels)
        answers.append((model.predict_proba_many(frame), model.predict_many(frame).to_frame()))
    assert all(map(pl.DataFrame.equals, *answers))


@pytest.mark.parametrize("make", [LeastSquaresClassifier, StreamClassifier])
def test_frames_name_columns_by_any_equal_object(make):
    """The order of columns does not matter either, to the last bit."""
    rows, known = np.random.default_rng(0).normal(size=(20, 9)), []
    names = ["temp", 1, "humid", *"abcdef"]
    equal = [Sensor.TEMP, True, np.str_("humid"), *"abcdef"]
    for columns, order in ((names, slice(None)), (equal, [3, 8, 1, 0, 4, 2, 7, 6, 5])):
        model = make()
        frame = pd.DataFrame(rows, columns=pd.Index(columns, dtype=object)).iloc[:, order]
        model.learn_many(frame, ["a", "b"] * 10)
        known.append([facts(model), np.asarray(model.predict_proba_many(frame)).tolist()])
    assert known[0] == known[1]


def test_pixels_and_settings_are_named_by_any_equal_object():
    pixels, made = np.random.default_rng(0).random((8, 64)), []
    for form in (int, float, np.int64, Fraction):
        model = models.digits_network(4)
        samples = [dict(zip(map(form, range(64)), row, strict=True)) for row in pixels.tolist()]
        laws.fitted_by_row(model, samples, "abababab")
        made.append(model.predict_proba_one(samples[0]))
    assert all(each == made[0] for each in made)
    kind = enum.Enum("Kind", {"ONE": "gaussian"}, type=str).ONE
    plain = HiddenLayer(3).transform_one({"a": 1.0})
    assert HiddenLayer(3, kind).transform_one({"a": 1.0}) == plain


@pytest.mark.parametrize("wrap", [lambda model: model, CalibratedClassifier])
def test_a_hidden_layer_keeps_the_form_of_a_table_that_is_evaluated_row_by_row(wrap):
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = wrap(HiddenLayer(5) | LeastSquaresClassifier(1.0))
    progressive_val_score((X, X[:, 0] > 0), model, metrics.Accuracy(), delay=3)
    for rows in (pd.DataFrame(X, columns=["a", "b"]), [{"a": 1.0}]):
        with pytest.raises(ValueError, match="one form"):
            model.predict_many(rows)
    assert len(model.predict_many(X)) == 30
