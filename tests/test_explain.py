"""What features add to a prediction: exact shares of linear maps, and the model as it was."""

import copy
import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, datasets, preprocessing

import onlinels
from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    StreamClassifier,
    StreamRegressor,
)
from onlinels.explain import feature_effects, mean_scores, named_scores
from support import laws, strategies

PHISHING = list(datasets.Phishing().take(60))


def taught(model, rows):
    for x, y in rows:
        model.predict_one(x)
        model.learn_one(x, y)
    return model


@strategies.kinds
@given(st.data())
def test_effects_are_shares_of_a_linear_model(kind, data):
    """They are weights times differences from the mean, of all features, and add up."""
    rows, make = data.draw(strategies.cases(kind, min_rows=2))
    as_x = data.draw(st.sampled_from([lambda x: {"h": x}, lambda x: dict(enumerate(x.tolist()))]))
    model = laws.fitted_by_row(make(), map(as_x, rows.X), rows.y, rows.w)
    # What the sample lacks counts as 0.
    x = {name: value for name, value in as_x(rows.X[-1]).items() if np.any(value)}
    effects, scores, means = feature_effects(model, x), named_scores(model, x), mean_scores(model)
    assert list(effects) == list(scores) == list(means)
    mean = rows.w @ rows.X / rows.w.sum() * model.fit_intercept
    places = [name[1] if isinstance(name, tuple) else name for name in model.feature_names]
    shares = (rows.X[-1] - mean)[places] * model.output_weights.T
    sizes = 1.0 + np.abs(rows.X).max(axis=0)[places] @ np.abs(model.output_weights)
    for output, own, size in zip(effects, shares, sizes.tolist(), strict=True):
        assert [*effects[output]] == [*model.feature_names]
        np.testing.assert_allclose([*effects[output].values()], own, atol=1e-9 * size)
        score = means[output] + own.sum()
        assert scores[output] == pytest.approx(score, rel=1e-9, abs=1e-9 * size)


@given(strategies.rows(min_rows=2), strategies.classifier_settings())
def test_after_a_scaler_effects_are_shares_of_scaled_values(rows, settings):
    model = LeastSquaresClassifier(**settings)
    whole = laws.fitted_by_row(preprocessing.StandardScaler() | model, rows.dicts(), rows.y)
    x = rows.dicts()[-1]
    effects, values = feature_effects(whole, x), whole["StandardScaler"].transform_one(x)
    scores, empty = model.scores_one(values), model.scores_one({})
    assert effects.keys() == scores.keys()
    for label, weights in zip(model.classes, model.output_weights.T.tolist(), strict=True):
        known = dict(zip(model.feature_names, weights, strict=True))
        shares = {name: value * known.get(name, 0.0) for name, value in values.items()}
        near = {"abs": 1e-9 * (1.0 + abs(empty[label]) + sum(map(abs, shares.values())))}
        assert effects[label] == pytest.approx(shares, **near)
        assert empty[label] + sum(shares.values()) == pytest.approx(scores[label], **near)


MODELS = {
    "stream classifier": (StreamClassifier(), PHISHING),
    "stream regressor": (StreamRegressor(), list(datasets.TrumpApproval().take(60))),
    "hidden": (
        HiddenLayer.from_examples([x for x, _ in PHISHING], n_hidden=5) | LeastSquaresClassifier(),
        PHISHING,
    ),
    "selected": (
        compose.Select("https") + (compose.Select("long_url") | preprocessing.OneHotEncoder())
        | LeastSquaresClassifier(1.0),
        PHISHING,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_model_is_as_it_was(name):
    model, rows = MODELS[name]
    model = taught(copy.deepcopy(model), rows)
    x, before = rows[-1][0], onlinels.dumps(model)
    effects = feature_effects(model, x)
    assert all(each.keys() == x.keys() for each in effects.values())
    assert onlinels.dumps(model) == before


def test_a_feature_without_effect_has_none_in_a_stream_model():
    """Whatever its origin: it is compared with its mean, not with 0. It is told last."""
    random, model = np.random.default_rng(1), StreamRegressor()
    for _ in range(300):
        x = {"kelvin": 300.0 + random.normal(), "vibration": random.normal()}
        model.learn_one(x, 5.0 + 2.0 * x["vibration"] + 0.1 * random.normal())
    x = {"kelvin": 300.0, "vibration": 1.0}
    effects, lines = feature_effects(model, x)["prediction"], model.debug_one(x).splitlines()
    assert abs(effects["kelvin"]) < 0.3 < effects["vibration"]
    assert [line.split(":")[0].strip() for line in lines] == ["prediction", "vibration", "kelvin"]
    assert feature_effects(model, {"kelvin": None, "vibration": 1.0})["prediction"]["kelvin"] == 0.0


LABELS = {"labels": ["ok", "fault"]}
UNSEEN = [
    StreamClassifier(**LABELS),
    preprocessing.StandardScaler() | StreamClassifier(**LABELS),
    CalibratedClassifier(LeastSquaresClassifier(), **LABELS),
]


@pytest.mark.parametrize("model", UNSEEN)
def test_labels_without_rows_have_no_effects(model):
    model, x, nothing = copy.deepcopy(model), {"a": 1.0, "b": 2.0}, {"a": 0.0, "b": 0.0}
    assert feature_effects(model, x) == {"ok": nothing, "fault": nothing}
    for number in range(9):
        model.learn_one({"a": 1.0 * number, "b": -1.0}, ["ok", "other"][number > 3])
    effects = feature_effects(model, x)
    assert [*effects] == ["ok", "other", "fault"]
    assert effects["fault"] == nothing != effects["ok"]


def test_pixels_have_effects():
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 17, (40, 8, 8)), np.arange(40) % 2
    model = ShallowConvClassifier.from_preset("digits", n_hidden=20, warm_up=20)
    model.learn_many(images, labels)
    effects = feature_effects(model, {"image": images[0]})
    assert feature_effects(model, images[0]) == effects
    assert list(effects) == [0, 1]
    assert len(effects[0]) == 64


def test_bad_calls_are_refused_by_name():
    model = taught(LeastSquaresRegressor(), [({"a": 1.0}, 1.0)])
    for other, x, match in (
        (model, [1.0], "expected a dict"),
        (model, {"a": "red"}, r"x\['a'\] is 'red'"),
        (preprocessing.StandardScaler(), {"a": 1.0}, "model is of type StandardScaler"),
    ):
        call = functools.partial(feature_effects, other, x)
        laws.assert_refused(call, other, match, TypeError)
