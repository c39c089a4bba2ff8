"""Merging and unlearning: pipelines whose first steps learn nothing, and sums of models."""

import functools
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, feature_extraction, linear_model, preprocessing, stats

import onlinels
from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    StreamClassifier,
)
from support import laws, strategies

LINEAR = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
EXAMPLES = np.random.default_rng(0).normal(size=(9, 5))
PLAIN = {"a": 1.0, "b": 2.0}
FIRST = {
    "random layer": lambda: HiddenLayer(7, seed=3),
    "layer from examples": lambda: HiddenLayer.from_examples(EXAMPLES, list("abcabcabc"), 7),
    "union": lambda: (compose.Discard(0) | compose.Prefixer("raw_")) + HiddenLayer(7),
    "two layers": lambda: HiddenLayer(7) + HiddenLayer(5, seed=1, prefix="u_"),
    "projection": lambda: preprocessing.Normalizer() + HiddenLayer(7, prefix="n_"),
    "hashes": lambda: HiddenLayer(7, prefix="u_") + preprocessing.FeatureHasher(8, seed=1),
}


def pipeline_of(name):
    return compose.Pipeline(("first", FIRST[name]()), ("last", LINEAR.clone()))


def learn(model, rows):
    """Learn rows of weights one by one, as dicts."""
    for x, y, w in zip(rows.dicts(), rows.y, rows.w, strict=True):
        model.learn_one(x, y, w=float(w))
    return model


@given(strategies.rows(), st.sampled_from(sorted(FIRST)), st.integers(1, 4), st.data())
def test_merged_pipelines_have_seen_all_rows_and_unlearn_them_again(rows, name, n_sites, data):
    # River's Normalizer divides by the length of a row.
    rows.X[~rows.X.any(axis=1)] = 1
    sites = data.draw(st.lists(st.integers(0, n_sites - 1), min_size=len(rows), max_size=len(rows)))
    parts = [[k for k, at in enumerate(sites) if at == site] for site in range(n_sites)]
    models = [learn(pipeline_of(name), rows.take(part)) for part in parts]
    before = [pickle.dumps(model["last"]) for model in models]
    merged, whole = onlinels.merge(*models), learn(pipeline_of(name), rows)
    for last in (merged["last"], sum(model["last"] for model in models)):
        laws.assert_same_model(last, whole["last"])
    assert onlinels.difference(merged, whole) < 1e-6
    assert [pickle.dumps(model["last"]) for model in models] == before
    for k in parts[-1]:
        onlinels.pipelines.unlearn_one(merged, rows.dicts()[k], rows.y[k], float(rows.w[k]))
    kept = learn(pipeline_of(name), rows.take([k for k in range(len(rows)) if k not in parts[-1]]))
    assert merged["last"].count == kept["last"].count
    assert set(merged["last"].classes) == set(kept["last"].classes)
    with pytest.raises(TypeError, match="unsupported operand"):
        1 + merged["last"]


def test_wrapped_models_merge():
    for make in (
        lambda: CalibratedClassifier(HiddenLayer(9) | LeastSquaresClassifier(1.0)),
        lambda: HiddenLayer(9) | CalibratedClassifier(LeastSquaresClassifier(1.0)),
    ):
        whole, *sites = (make() for _ in range(3))
        for k in range(40):
            for model in (whole, sites[k % 2]):
                model.learn_one({"a": float(k % 5), "b": float(k % 3)}, k % 3 == 1)
        merged = onlinels.merge(*sites)
        assert onlinels.pipelines.last_step(merged).count == 40
        for x in (PLAIN, {"a": 4.0}):
            assert merged.predict_one(x) == whole.predict_one(x)


WORDS = {"tier": "gold", "place": "north"}
LEARN = [
    (preprocessing.StandardScaler(), PLAIN),
    (preprocessing.OneHotEncoder(), WORDS),
    (preprocessing.StatImputer(("a", stats.Mean())), PLAIN),
    (HiddenLayer(3) + preprocessing.StandardScaler(), PLAIN),
    (compose.Select("a") | preprocessing.StandardScaler(), PLAIN),
    (compose.Grouper(preprocessing.StandardScaler(), by="b"), PLAIN),
]
LEARN_NOTHING = [
    (preprocessing.OneHotEncoder(drop_zeros=True), WORDS),
    (preprocessing.FeatureHasher(8, seed=1), WORDS),
    (preprocessing.StatImputer(("a", 0.0)), {"a": None, "b": 1.0}),
    (feature_extraction.BagOfWords(on="t"), {"t": "two words"}),
    (compose.FuncTransformer(lambda x: {**x, "c": 1.0}), PLAIN),
    (compose.SelectType(float) + HiddenLayer(4), PLAIN),
]


@pytest.mark.parametrize(("step", "x"), LEARN, ids=lambda each: type(each).__name__)
def test_a_step_that_learns_is_named(step, x):
    one = compose.Pipeline(("own", step.clone()), ("last", LINEAR.clone()))
    other = one.clone()
    one.learn_one(dict(x), "yes")
    for call in (
        lambda: onlinels.merge(one, other),
        lambda: onlinels.merge(other, one),
        lambda: onlinels.pipelines.unlearn_one(one, dict(x), "yes"),
        lambda: onlinels.pipelines.unlearn_many(one, [dict(x)], ["yes"]),
    ):
        with pytest.raises(ValueError, match=r"The step 'own.* learns, .*Leave a scaler out"):
            call()
    assert (one["last"].count, other["last"].count) == (1, 0)


@pytest.mark.parametrize(("step", "x"), LEARN_NOTHING, ids=lambda each: type(each).__name__)
def test_steps_that_learn_nothing_merge_and_unlearn(step, x):
    one = step.clone() | LINEAR.clone()
    other = one.clone()
    for model in (one, other):
        model.learn_one(dict(x), "yes")
        model.learn_one(dict(x), "no")
    merged = onlinels.merge(one, other)
    last = merged["LeastSquaresClassifier"]
    assert last.count == 4
    for _ in range(2):
        onlinels.pipelines.unlearn_one(merged, dict(x), "yes")
    assert (last.classes, last.count) == (("no",), 2)


def layered(name="layer", **settings):
    layer = HiddenLayer(**{"n_hidden": 5} | settings)
    return compose.Pipeline((name, layer), ("last", LINEAR.clone()))


def projected(name):
    model = preprocessing.GaussianRandomProjector(3, seed=1) | LINEAR.clone()
    model.learn_one({name: 1.0}, "yes")
    return model


HASHED = preprocessing.FeatureHasher(8) | LINEAR.clone()
NOT_MERGED = [
    (layered(), layered(seed=1), ValueError, "'layer' differ in seed,.*clone"),
    (layered(), layered("other"), ValueError, r"\['layer'\] and \['other'\] before"),
    (layered(), LINEAR, TypeError, "type LeastSquaresClassifier, expected Pipeline"),
    (HASHED, HASHED.clone(), ValueError, "'FeatureHasher' differ in their type or random num"),
    (projected("a"), projected("b"), ValueError, "Projector' differ in their type or random"),
    (LINEAR, LeastSquaresRegressor(), TypeError, "other is of type LeastSquaresRegressor"),
    (LINEAR, LeastSquaresClassifier(2.0), ValueError, "other has different settings"),
    (StreamClassifier(), StreamClassifier(), TypeError, "StreamClassifier, expected a model"),
    ([LINEAR, LINEAR], LINEAR, TypeError, r"type list, expected .* Pass .* merge\(\*models\)"),
    (linear_model.LogisticRegression(), LINEAR, TypeError, "LogisticRegression, expected a"),
]


@pytest.mark.parametrize(("one", "other", "error", "message"), NOT_MERGED)
def test_what_does_not_merge_is_refused_by_name(one, other, error, message):
    laws.assert_refused(lambda: onlinels.merge(one, other), one, message, error)


def test_what_is_not_unlearnt():
    for unlearn in (onlinels.pipelines.unlearn_one, onlinels.pipelines.unlearn_many):
        with pytest.raises(TypeError, match="StreamClassifier, expected a model with unlearn_"):
            unlearn(StreamClassifier(), {}, "yes")
    model = layered()
    model.learn_one(PLAIN, "yes")
    unlearn = functools.partial(onlinels.pipelines.unlearn_one, model, PLAIN, "no")
    laws.assert_refused(unlearn, model["last"], "no")
    onlinels.merge(model).learn_one(PLAIN, "no")
    assert model["last"].classes == ("yes",)


def test_the_model_at_the_end_of_a_pipeline_answers():
    """The steps transform what it is asked about, also within a wrapper."""
    model, x = LeastSquaresRegressor(1.0), {"a": 2.0, "b": 9.0}
    pipeline = preprocessing.StandardScaler() | model
    frame = pd.DataFrame({"a": np.arange(30.0) % 7, "b": np.arange(30.0) % 5})
    samples, labels = frame.to_dict("records"), [k % 3 for k in range(30)]
    laws.fitted_by_row(pipeline, samples, labels)
    ask, z = functools.partial(onlinels.pipelines.ask, pipeline), pipeline.transform_one(x)
    assert ask("predict_interval_one", x, level=0.5) == model.predict_interval_one(z, level=0.5)
    assert (ask("statistics").gram == model.statistics().gram).all()
    expected = model.predict_interval_many(pipeline.transform_many(frame))
    pd.testing.assert_frame_equal(ask("predict_interval_many", frame), expected)
    assert ask("half_life") is None
    wrapped = CalibratedClassifier(HiddenLayer(4) | LeastSquaresClassifier(1.0))
    steps = laws.fitted_by_row(wrapped, samples, labels).classifier
    margin = steps[-1].margin_one(steps.transform_one(x))
    assert onlinels.pipelines.ask(wrapped, "margin_one", x) == margin
    changes = "learn_one", "unlearn_one", "fade", "merge", "select_ridge", "predict_learn_many"
    for question in ("predict_intervals", "_state", *changes):
        refused = functools.partial(ask, question, x)
        laws.assert_refused(refused, model, "expected a method or attr")
    for question, asked, error, message in (
        ("predict_interval", x, ValueError, "such as 'predict_interval_one' or"),
        ("predict_one", 24, TypeError, r"X is of type int, .* Ask the last step, model\[-1\]"),
        (5, x, TypeError, r"question=.* must be a text, such as 'predict_interva"),
    ):
        laws.assert_refused(functools.partial(ask, question, asked), model, message, error)
