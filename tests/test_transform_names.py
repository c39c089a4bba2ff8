"""Features are one if their names are equal; outputs have one name in every form."""

import json
import zipfile
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from river import compose

import onlinels
from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    Embedding,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    MiniRocketFeatures,
    StreamClassifier,
    StreamRegressor,
)
from onlinels.explain import feature_effects
from onlinels.export import answers_only
from onlinels.stream.waiting import sample_key

ALIKE = [3, "h3", ("h", 3), "3", ("h", "3"), "h03", 3.5]
"""Names that look as if they named one output, and are none of them equal."""

REGRESSORS = {
    "gram": lambda: LeastSquaresRegressor(1e-6),
    "auto": LeastSquaresRegressor,
    "folds": lambda: LeastSquaresRegressor(KFold(2)),
    "recursive": lambda: LeastSquaresRegressor(1e-6, "recursive"),
    "stream": StreamRegressor,
}


def sums_of(names):
    """Return rows that each have one name, and a target for every name."""
    return [({name: 1.0}, 10.0 * place) for place, name in enumerate(names)] * 60


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("in_batch", [False, True])
def test_names_that_look_alike_are_features_of_their_own(kind, in_batch):
    model, rows = REGRESSORS[kind](), sums_of(ALIKE)
    if in_batch:
        model.learn_many([x for x, _ in rows], [y for _, y in rows])
    else:
        for x, y in rows:
            model.predict_one(x)
            model.learn_one(x, y)
    assert set(model.feature_names) == set(ALIKE)
    loaded = onlinels.loads(onlinels.dumps(model))
    for place, name in enumerate(ALIKE):
        for each in (model, loaded):
            expected = pytest.approx(10.0 * place, abs=3.0)
            assert each.predict_one({name: 1.0}) == expected
            assert each.predict_many([{name: 1.0}])[0] == expected


def test_ids_beside_hours_give_the_right_sums():
    """In merges, removals, effects and exports too."""
    rows = [({k % 5: 1.0, f"h{k % 7}": 1.0}, k % 5 + 10.0 * (k % 7)) for k in range(105)]
    halves = [LeastSquaresRegressor(1e-9, fit_intercept=False) for _ in range(2)]
    for number, (x, y) in enumerate(rows):
        halves[number % 2].learn_one(x, y)
    for model in (onlinels.merge(*halves), halves[1] + halves[0]):
        assert len(model.feature_names) == 12
        for each in (model, answers_only(model)):
            assert each.predict_one({2: 1.0, "h6": 1.0}) == pytest.approx(62.0)
            assert each.predict_many([{4: 1.0, "h1": 1.0}]) == [pytest.approx(14.0)]
        effects = feature_effects(model, {2: 1.0, "h2": 1.0})["prediction"]
        assert sum(effects.values()) == pytest.approx(22.0)
        assert effects[3] == effects["h3"] == 0.0
    # What only removed rows had, goes: hours one by one.
    model.learn_one({"h9": 1.0, 9: 1.0}, 1.0)
    model.unlearn_one({"h9": 1.0, 9: 1.0}, 1.0)
    assert {9, "h9"}.isdisjoint(model.feature_names)
    assert len(model.feature_names) == 12


@pytest.mark.parametrize("others", [[("h", 3)], ["h3"], [3.5]])
def test_hidden_units_draw_weights_for_each_name(others):
    layer, *rest = HiddenLayer(4, bias=False), *others
    first = layer.transform_one({3: 1.0})
    for name in rest:
        assert layer.transform_one({name: 1.0}) != first
        assert sample_key({name: 1.0}) != sample_key({3: 1.0})
    both = StreamClassifier()
    for k in range(60):
        both.learn_one({3: float(k % 2), rest[0]: float(k % 3)}, k % 2)
    assert set(both.feature_names) == {3, rest[0]}
    assert both.predict_one({3: 1.0, rest[0]: 0.0}) == 1


def test_arrays_of_users_are_no_outputs():
    model = LeastSquaresRegressor(1.0)
    model.learn_one({"h": np.ones(3)}, 1.0)
    model.learn_one({"h0": 2.0}, 1.0)
    assert set(model.feature_names) == {("h", 0), ("h", 1), ("h", 2), "h0"}
    with pytest.raises(ValueError, match="Learn and predict in one form"):
        model.learn_many(np.eye(3), [1.0, 2.0, 3.0])


# -- outputs of transformers -----------------------------------------------------------------------

WINDOWS = np.random.default_rng(0).normal(size=(30, 16))
IMAGES = WINDOWS.reshape(30, 4, 4)
TABLE = pd.DataFrame(WINDOWS)
LABELS = np.arange(30) % 3


def embed(items):
    return [[np.asarray(item).sum(), np.asarray(item).max()] for item in items]


FORMS = {
    "array": lambda rows, name: rows,
    "frame": lambda rows, name: pd.DataFrame(rows.reshape(len(rows), -1)),
    "numbers": lambda rows, name: [dict(enumerate(row.ravel().tolist())) for row in rows],
    "arrays in dicts": lambda rows, name: [{name: row} for row in rows],
}
FEATURES = {
    "hidden": (lambda: HiddenLayer(5), WINDOWS, [*FORMS][:3]),
    "hidden, prefix": (lambda: HiddenLayer(5, prefix="u_"), WINDOWS, [*FORMS][:3]),
    "two hidden": (lambda: HiddenLayer(4) | HiddenLayer(5), WINDOWS, [*FORMS][:3]),
    "hidden of examples": (
        lambda: HiddenLayer.from_examples(TABLE, n_hidden=5),
        WINDOWS,
        ["frame", "numbers"],
    ),
    "hidden of arrays": (lambda: HiddenLayer(5), WINDOWS, ["arrays in dicts"]),
    "images": (
        lambda: ConvolutionalFeatures(np.ones((2, 3, 3)), image_shape=(4, 4), prefix="c_"),
        IMAGES,
        [*FORMS],
    ),
    "images, hidden": (
        lambda: ConvolutionalFeatures(np.ones((2, 3, 3)), image_shape=(4, 4)) | HiddenLayer(5),
        IMAGES,
        [*FORMS],
    ),
    "windows": (
        lambda: MiniRocketFeatures.from_examples(WINDOWS, n_features=84, window_shape=(16,)),
        WINDOWS,
        [*FORMS],
    ),
    "embedding": (
        lambda: Embedding(embed, probes=(4, 4)),
        IMAGES,
        ["array", "arrays in dicts"],
    ),
}
ENDS = {
    "linear": lambda: LeastSquaresClassifier(1.0),
    "calibrated": lambda: CalibratedClassifier(LeastSquaresClassifier(1.0)),
    "drift": lambda: DriftAwareClassifier(LeastSquaresClassifier(1.0)),
    "stream": StreamClassifier,
}
CASES = [
    (kind, end)
    for kind in FEATURES
    for end in (ENDS if kind in ("hidden", "images") else ["linear"])
]


@pytest.mark.filterwarnings("ignore:X lacks")
@pytest.mark.parametrize(("kind", "end"), CASES)
def test_outputs_have_one_name_in_every_form(kind, end):
    make, rows, forms = FEATURES[kind]
    features = make()
    name = "window" if kind == "windows" else "image"
    scores, names = [], set()
    for place, first in enumerate(forms):
        for second in (first, forms[place - 1]):
            model = features.clone() | ENDS[end]()
            model.learn_many(FORMS[first](rows[:15], name), LABELS[:15])
            for x, y in zip(FORMS[second](rows[15:], name), LABELS[15:], strict=False):
                if second in ("array", "frame"):
                    model.learn_many(FORMS[second](rows[15:], name), LABELS[15:])
                    break
                model.learn_one(x, int(y))
            copied = onlinels.loads(onlinels.dumps(model)) if kind != "embedding" else model
            for each in (model, copied):
                found = each.predict_proba_many(FORMS[first](rows[:4], name))
                one = each.predict_proba_one(
                    {name: rows[0]} if "arrays in dicts" in forms else dict(enumerate(rows[0]))
                )
                table = found.to_dict("records") if hasattr(found, "to_dict") else list(found)
                if isinstance(table[0], np.ndarray):
                    table = [dict(zip(range(3), row, strict=True)) for row in table]
                assert table[0] == pytest.approx(one, abs=1e-9)
                scores.append([table[1][label] for label in range(3)])
            end_of = onlinels.pipelines.end_of(model)[1]
            names.add(frozenset(end_of.feature_names))
    np.testing.assert_allclose(scores, [scores[0]] * len(scores), atol=1e-7)
    assert len(names) == 1
    (known,) = names
    assert all(isinstance(each, str) for each in known)


def test_outputs_leave_together_and_parts_of_an_array_keep_their_names():
    layer, model = HiddenLayer(6), LeastSquaresClassifier(1.0)
    outputs = layer.transform_many(WINDOWS)
    model.learn_many(outputs[:20], LABELS[:20])
    model.learn_many(outputs[20:], LABELS[20:])
    assert model.feature_names == tuple(f"h{k}" for k in range(6))
    model.unlearn_many(outputs[1:], LABELS[1:])
    assert len(model.feature_names) == 6
    assert model.predict_one(layer.transform_one(dict(enumerate(WINDOWS[0])))) == LABELS[0]


# -- files of earlier versions ---------------------------------------------------------------------


def as_earlier(model):
    """Return the bytes of a model as earlier versions wrote it, with positions as names."""
    old, new = BytesIO(), zipfile.ZipFile(BytesIO(onlinels.dumps(model)))
    with zipfile.ZipFile(old, "w") as archive:
        for name in new.namelist():
            content = new.read(name)
            if name == "model.json":
                content = json.dumps(without_rule(json.loads(content))).encode()
            archive.writestr(name, content)
    return old.getvalue()


def without_rule(node):
    if isinstance(node, dict):
        return {k: without_rule(v) for k, v in node.items() if k not in ("stems", "is_numbered")}
    return [without_rule(each) for each in node] if isinstance(node, list) else node


@pytest.mark.parametrize("form", ["array", "numbers", "arrays in dicts"])
def test_models_of_earlier_files_go_on(form):
    """In them, "h3", ("h", 3) and 3 are one feature."""
    layer = HiddenLayer(5)
    old = LeastSquaresClassifier(1.0)
    old.learn_many(np.asarray(layer.transform_many(WINDOWS[:15])), LABELS[:15])
    new = layer.clone() | LeastSquaresClassifier(1.0)
    expected = layer.clone() | LeastSquaresClassifier(1.0)
    expected.learn_many(WINDOWS, LABELS)
    model = onlinels.loads(as_earlier(old))
    model = compose.Pipeline(layer, model)
    rows = FORMS[form](WINDOWS, "x") if form != "arrays in dicts" else WINDOWS
    for each in (model, new):
        part = slice(15, None) if each is model else slice(0, 15)
        if form == "numbers":
            for x, y in zip(rows[part], LABELS[part], strict=True):
                each.learn_one(x, int(y))
        else:
            each.learn_many(rows[part], LABELS[part])
    again = onlinels.loads(onlinels.dumps(model))
    for each in (model, again):
        np.testing.assert_allclose(
            each.predict_proba_many(WINDOWS), expected.predict_proba_many(WINDOWS), atol=1e-9
        )
    # Merged with models of this version, in any order.
    last = list(model.steps)[-1]
    for pair in ((model[last], new[last]), (new[last], model[last])):
        merged = onlinels.merge(*pair)
        assert len(merged.feature_names) == 5
        assert merged.count == 45
