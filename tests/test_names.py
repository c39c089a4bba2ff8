"""Names, texts, targets and labels are one if they are equal, and only then; outputs have names."""

import enum
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import onlinels
from onlinels import (
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    StreamClassifier,
    StreamRegressor,
)
from onlinels.checks import plain_value
from onlinels.explain import feature_effects
from onlinels.export import answers_only, to_sklearn
from onlinels.pipelines import end_of
from onlinels.sklearn import IncrementalRidgeClassifier
from onlinels.stream.waiting import sample_key
from support import laws, models, untrusted_files

# -- equal objects are one -------------------------------------------------------------------------


class Sensor(str, enum.Enum):  # noqa: UP042 (its text is "Sensor.TEMP")
    TEMP = "temp"
    HUMID = "humid"


class Level(enum.IntEnum):
    LOW = 0
    HIGH = 1


class Colour(enum.Enum):
    RED = 1


class OwnText(str):
    """A text that is shown as another one."""

    __slots__ = ()
    __str__ = __repr__ = lambda self: "another text"


Place = namedtuple("Place", "name number")
EQUAL = {
    "temp": (np.str_("temp"), Sensor.TEMP, OwnText("temp")),
    "\u00e9": (np.str_("\u00e9"), OwnText("\u00e9")),
    "humid": (np.str_("humid"), Sensor.HUMID),
    0: (False, -0.0, np.int8(0), Decimal(0), Level.LOW, np.bool_(False), 0j),
    1: (True, 1.0, np.uint64(1), Fraction(1), Level.HIGH),
    -3: (np.float32(-3.0), Decimal(-3), -3 + 0j),
    0.5: (Fraction(1, 2), np.float16(0.5), Decimal("0.5")),
    ("h", 2): (Place("h", 2), (np.str_("h"), np.int64(2)), (OwnText("h"), 2.0)),
    ("site", (1, 0.25)): (("site", Place(True, Fraction(1, 4))),),
    None: (None,),
}
"""Names and labels that a file can hold, and objects that equal them."""

NAMES = {kind: [*EQUAL] for kind in models.MODELS} | {"windowed": ["temp", "\u00e9", 0]}
WORDS = dict.fromkeys(("stream", "stream regressor"), ("humid",))
"""Features that are texts."""

TARGETS = dict.fromkeys(models.CLASSIFIERS, lambda random: [*EQUAL][random.integers(5)])
TARGETS |= dict.fromkeys(models.REGRESSORS, lambda random: float(random.integers(-8, 9) / 4))
SEVERAL = "temp", 1, ("h", 2)
TARGETS |= dict.fromkeys(
    ("several", "several of folds"),
    lambda random: {name: float(random.integers(-8, 9) / 4) for name in SEVERAL},
)
QUESTIONS = dict.fromkeys(models.CLASSIFIERS, "predict_proba_one")


def twin(value, random, is_name=False):
    """Return an object that equals a name, label or number; or a dict, in another order."""
    if isinstance(value, dict):
        pairs = [(twin(name, random, True), twin(each, random)) for name, each in value.items()]
        return dict(reversed(pairs))
    forms = EQUAL.get(value) or [kind(value) for kind in (float, np.float64, Fraction, Decimal)]
    forms = [each for each in forms if is_name or not isinstance(each, complex)]
    return forms[random.integers(len(forms))]


def near(expected):
    return pytest.approx(expected, rel=1e-9, abs=1e-12)


def assert_same_facts(model, other):
    """Assert that two models have learnt the same."""
    model, other = (end_of(each)[1] for each in (model, other))
    for name in ("feature_names", "classes", "target_names", "count"):
        assert getattr(model, name, None) == getattr(other, name, None)
    if hasattr(model, "output_weights"):
        np.testing.assert_allclose(model.output_weights, other.output_weights, 1e-9, 1e-12)


@pytest.mark.parametrize("kind", models.MODELS)
@pytest.mark.parametrize("seed", [0, 1])
def test_equal_objects_change_nothing(kind, seed):
    """Learnt in any form, asked in any other; saved and loaded."""
    random, rows = np.random.default_rng(seed), []
    for _ in range(12):
        values = (random.integers(-8, 9, len(NAMES[kind])) / 4).tolist()
        x = dict(zip(NAMES[kind], values, strict=True))
        x |= {name: ("temp", "\u00e9")[random.integers(2)] for name in WORDS.get(kind, ())}
        rows.append((x, TARGETS[kind](random)))
    others = [(twin(x, random), twin(y, random)) for x, y in rows]
    mine, theirs = models.MODELS[kind](), models.MODELS[kind]()
    for model, each in ((mine, rows), (theirs, others)):
        for x, y in each[:6]:
            model.predict_one(x)
            model.learn_one(x, y)
        model.learn_many(*map(list, zip(*each[6:], strict=True)))
    loaded = onlinels.loads(onlinels.dumps(theirs))
    for model in (theirs, loaded):
        assert_same_facts(mine, model)
        for (x, _), (other, _) in zip(rows, others, strict=True):
            expected, *found = (
                getattr(each, QUESTIONS.get(kind, "predict_one"))(asked)
                for each, asked in ((mine, x), (model, x), (model, other), (mine, other))
            )
            assert all(answer == near(expected) for answer in found)


@pytest.mark.parametrize("kind", ["no intercept", "folds", "priors", "regressor", "several"])
def test_equal_objects_are_merged_and_unlearnt(kind):
    random = np.random.default_rng(0)
    rows = [({"temp": k / 4, ("h", 2): 1.0 / (1 + k)}, TARGETS[kind](random)) for k in range(12)]
    others, merged = [(twin(x, random), twin(y, random)) for x, y in rows], []
    for second, removed in ((rows, others), (others, rows)):
        parts = models.MODELS[kind](), models.MODELS[kind]()
        for part, each in zip(parts, (rows[:6], second[6:]), strict=True):
            laws.fitted_by_row(part, *zip(*each, strict=True))
        merged.append(onlinels.merge(*parts))
        merged[-1].unlearn_one(*removed[0])
    assert_same_facts(*merged)
    mine, theirs = (feature_effects(each, rows[-1][0]) for each in merged)
    assert all(effects == near(theirs[name]) for name, effects in mine.items())


@dataclass(frozen=True)
class Tag:
    name: str


class Casual(str):
    """A text that equals texts in other cases."""

    __slots__ = ()

    def __eq__(self, other):
        return self.lower() == str.lower(other)

    def __hash__(self):
        return hash(self.lower())


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


def test_labels_stay_as_given_and_leave_in_plain_types():
    model = LeastSquaresClassifier(0.1)
    model.learn_many([{"a": 0.0}, {"a": 1.0}, {"a": 2.0}], [Sensor.TEMP, Level.HIGH, (Level.LOW,)])
    assert model.predict_one({"a": 0.0}) is Sensor.TEMP
    for each in (model, answers_only(model)):
        loaded = onlinels.loads(onlinels.dumps(each))
        assert loaded.classes == model.classes
        assert list(map(type, loaded.classes)) == [str, int, tuple]
    estimator = IncrementalRidgeClassifier().fit(np.eye(4), [Sensor.TEMP, Sensor.HUMID] * 2)
    for each in (estimator, to_sklearn(estimator.to_river())):
        assert each.predict(np.eye(4)).tolist() == ["temp", "humid"] * 2


@pytest.mark.parametrize("make", [LeastSquaresClassifier, StreamClassifier])
def test_frames_name_columns_by_any_equal_object(make):
    """And classes; the order of columns does not matter either, to the last bit."""
    rows, known = np.random.default_rng(0).normal(size=(20, 9)), []
    names = ["temp", 1, "humid", *"abcdef"]
    equal = [Sensor.TEMP, True, np.str_("humid"), *"abcdef"]
    for columns, order, labels in (
        (names, slice(None), ["temp", 1]),
        (equal, [3, 8, 1, 0, 4, 2, 7, 6, 5], [Sensor.TEMP, Level.HIGH]),
    ):
        frame = pd.DataFrame(rows, columns=pd.Index(columns, dtype=object)).iloc[:, order]
        model = laws.fitted(make(), frame, labels * 10)
        known.append((model.feature_names, model.predict_proba_many(frame)))
    assert known[0][0] == known[1][0]
    pd.testing.assert_frame_equal(known[0][1], known[1][1], check_exact=True)


@pytest.mark.parametrize("labels", [[Sensor.TEMP, "humid"], [Level.HIGH, Level.LOW]])
@pytest.mark.parametrize("make", [LeastSquaresClassifier, StreamClassifier])
def test_polars_names_classes_by_their_plain_labels(make, labels):
    frame, answers = pl.DataFrame({"a": [0.0, 1.0]}), []
    for given_labels in (labels, [*map(plain_value, labels)]):
        model = laws.fitted(make(), frame, given_labels)
        answers.append((model.predict_proba_many(frame), model.predict_many(frame).to_frame()))
    assert all(map(pl.DataFrame.equals, *answers))


def test_settings_and_the_signs_of_zeros_are_any_equal_object():
    kind = enum.Enum("Kind", {"ONE": "gaussian"}, type=str).ONE
    plain = HiddenLayer(3).transform_one({"a": 1.0})
    assert HiddenLayer(3, kind).transform_one({"a": 1.0}) == plain
    for zero in (-0.0, 0, False, np.float32(-0.0), Decimal("-0")):
        assert sample_key({"a": zero, "b": "c"}) == sample_key({"a": 0.0, "b": "c"})
    arrays = ({"a": np.array([zero, 1.0])} for zero in (0.0, -0.0))
    assert len({*map(sample_key, arrays)}) == 1


# -- others are not --------------------------------------------------------------------------------

ALIKE = [3, "h3", ("h", 3), "3", ("h", "3"), "h03", 3.5]
"""Names that look as if they named one output, and are none of them equal."""

REGRESSORS = {
    "gram": lambda: LeastSquaresRegressor(1e-6),
    "folds": lambda: LeastSquaresRegressor(KFold(2)),
    "recursive": lambda: LeastSquaresRegressor(1e-6, "recursive"),
    "stream": StreamRegressor,
}


@pytest.mark.parametrize("kind", REGRESSORS)
def test_names_that_look_alike_are_features_of_their_own(kind):
    model = REGRESSORS[kind]()
    rows, y = [{name: 1.0} for name in ALIKE] * 30, [10.0 * k for k in range(len(ALIKE))] * 30
    laws.fitted_by_row(model, rows, y)
    model.learn_many(rows, y)
    assert set(model.feature_names) == set(ALIKE)
    for each in (model, onlinels.loads(onlinels.dumps(model))):
        for x, expected in zip(rows[: len(ALIKE)], y, strict=False):
            assert each.predict_one(x) == pytest.approx(expected, abs=3.0)
            assert each.predict_many([x])[0] == pytest.approx(expected, abs=3.0)
    names = [*ALIKE, "H3", "h3a", "h-3", ("g", 3), ("h",)]
    outputs = [HiddenLayer(4, bias=False).transform_one({name: 1.0}) for name in names]
    assert len({*map(str, outputs)}) == len({sample_key({name: 1.0}) for name in names}) == 12


def test_ids_beside_hours_give_the_right_sums():
    """In merges, removals, effects and exports too."""
    rows = [({k % 5: 1.0, f"h{k % 7}": 1.0}, k % 5 + 10.0 * (k % 7)) for k in range(105)]
    model, other = (LeastSquaresRegressor(1e-9, fit_intercept=False) for _ in range(2))
    for part, half in ((rows[::2], model), (rows[1::2], other)):
        laws.fitted_by_row(half, *zip(*part, strict=True))
    model = onlinels.merge(model, other)
    # What only removed rows had, goes: hours one by one.
    model.learn_one({"h9": 1.0, 9: 1.0}, 1.0)
    model.unlearn_one({"h9": 1.0, 9: 1.0}, 1.0)
    assert set(model.feature_names) == {*range(5), *(f"h{k}" for k in range(7))}
    for each in (model, answers_only(model)):
        assert each.predict_one({2: 1.0, "h6": 1.0}) == pytest.approx(62.0)
        assert each.predict_many([{4: 1.0, "h1": 1.0}]) == [pytest.approx(14.0)]
    effects = feature_effects(model, {2: 1.0, "h2": 1.0})["prediction"]
    assert sum(effects.values()) == pytest.approx(22.0)
    assert effects[3] == effects["h3"] == 0.0


# -- outputs of transformers -----------------------------------------------------------------------

WINDOWS = np.random.default_rng(0).normal(size=(30, 16))
LABELS = np.arange(30) % 3


def test_outputs_leave_together_and_parts_of_an_array_keep_their_names():
    layer, model = HiddenLayer(6), LeastSquaresClassifier(1.0)
    outputs = layer.transform_many(WINDOWS)
    model.learn_many(outputs[:20], LABELS[:20])
    model.learn_many(outputs[20:], LABELS[20:])
    assert model.feature_names == tuple(f"h{k}" for k in range(6))
    model.unlearn_many(outputs[1:], LABELS[1:])
    assert len(model.feature_names) == 6
    assert model.predict_one(layer.transform_one(dict(enumerate(WINDOWS[0])))) == LABELS[0]


def without_rule(node):
    """Return what an earlier version wrote, of which positions are names."""
    if isinstance(node, dict):
        return {k: without_rule(v) for k, v in node.items() if k not in ("stems", "is_numbered")}
    return [without_rule(each) for each in node] if isinstance(node, list) else node


def test_models_of_earlier_files_go_on(tmp_path):
    """In them, "h3", ("h", 3) and 3 are one feature."""
    layer = HiddenLayer(5)
    old, new, expected = (LeastSquaresClassifier(1.0) for _ in range(3))
    old.learn_many(np.asarray(layer.transform_many(WINDOWS[:15])), LABELS[:15])
    (layer | new).learn_many(WINDOWS[:15], LABELS[:15])
    (layer | expected).learn_many(WINDOWS, LABELS)
    old.save(tmp_path / "old.npz")
    untrusted_files.rewritten(tmp_path / "old.npz", without_rule)
    model = onlinels.load(tmp_path / "old.npz")
    (layer | model).learn_many(WINDOWS[15:20], LABELS[15:20])
    for x, label in zip(WINDOWS[20:].tolist(), LABELS[20:].tolist(), strict=True):
        (layer | model).learn_one(dict(enumerate(x)), label)
    for each in (model, onlinels.loads(onlinels.dumps(model))):
        found = (layer | each).predict_proba_many(WINDOWS)
        np.testing.assert_allclose(found, (layer | expected).predict_proba_many(WINDOWS), atol=1e-9)
    # Merged with models of this version, in any order.
    for merged in (onlinels.merge(model, new), onlinels.merge(new, model)):
        assert (len(merged.feature_names), merged.count) == (5, 45)
