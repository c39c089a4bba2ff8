"""Predictors: the predictions of the full model, in a small file, and nothing else."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import HiddenLayer, LeastSquaresClassifier
from onlinels.export import answers_only
from onlinels.features import hidden, input_weights
from onlinels.saving import description
from support import savable_models
from support.digits_network import IMAGES, LABELS, learn
from support.digits_network import small as small_network
from support.laws import assert_refused
from support.strategies import cases, examples, kinds


def saved(model):
    return onlinels.loads(onlinels.dumps(model))


WAYS = [lambda model: model, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), saved]


def answers(model, X):
    """Return what a model predicts for rows: scores of a classifier and probabilities, or numbers.

    Of single rows first: the third sample of the same names has a fast reader.
    """
    questions = [name for name in ("scores", "predict_proba") if hasattr(model, f"{name}_one")]
    found = []
    for question in questions or ["predict"]:
        one, many = (getattr(model, f"{question}_{rows}") for rows in ("one", "many"))
        singly = [one(dict(enumerate(row))) for row in X.tolist()]
        singly = [[*each.values()] if isinstance(each, dict) else [each] for each in singly]
        batch = np.asarray(many(X), dtype=float).reshape(len(X), -1)
        np.testing.assert_allclose(singly, batch, rtol=1e-6, atol=1e-6)
        found.append(batch)
    return np.hstack(found)


@kinds
@examples(20)
@given(st.data())
def test_answers_are_those_of_the_full_model(kind, data):
    rows, make = data.draw(cases(kind, max_rows=40))
    model = make(**data.draw(st.sampled_from([{}, {"forgetting_factor": 0.9}, {"half_life": 3.0}])))
    n_learnt = data.draw(st.integers(1, len(rows)))
    model.learn_many(rows.X[:n_learnt], rows.y[:n_learnt], rows.w[:n_learnt])
    small, X = data.draw(st.sampled_from(WAYS))(answers_only(model)), rows.X.astype(float)
    expected = answers(model, X)
    for name in ("feature_names", "output_weights", "intercept"):
        np.testing.assert_array_equal(getattr(small, name), getattr(model, name))
    # The small model is not changed by learning.
    model.learn_many(X, rows.y)
    allowed = 1e-9 * (1.0 + np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    np.testing.assert_allclose(answers(small, X), expected, rtol=0.0, atol=allowed)


def learnt():
    return savable_models.learnt("gram, {}")


def test_a_predictor_does_not_learn():
    X, y = savable_models.rows(np.random.default_rng(0), 30)
    small = answers_only(learnt())
    for call in (
        partial(small.learn_one, dict(enumerate(X[0])), y[0]),
        partial(small.learn_many, X, y),
        partial((HiddenLayer(3) | answers_only(learnt())).learn_one, {0: 1.0}, y[0]),
    ):
        refused = r"A ClassPredictor only predicts.* Keep the full"
        assert_refused(call, small, refused, dump=onlinels.dumps)
    with pytest.raises(TypeError):
        learnt().merge(small)
    # Besides the weights there are labels, names and checksums.
    assert len(onlinels.dumps(small)) < small.output_weights.nbytes + 2000


SAMPLES = [
    {0: 1.0, 1: -0.5, 2: 0.2, 3: 2.0},
    {"a": 1.0, "b": -0.5, "c": 0.2, "d": 2.0},
    {"colour": "red", "other": "blue", "number": 1},
    {"x": 0.5, "y": -1.0, "t": 9.0},
]
IMAGE = [{"image": np.arange(64.0).reshape(8, 8) / 64}]
OF_A_LINEAR_MODEL = "LeastSquares", "Windowed", "Calibrated", "DriftAware", "ShallowConv"
REFUSED = {
    "network that waits": r"Features are not fixed yet.*fix_features",
    "unlabelled": "has learnt nothing",  # No window has a label.
}


@pytest.mark.parametrize("name", savable_models.MODELS)
def test_every_model_has_a_predictor_or_is_refused_by_name(name):
    model = savable_models.learnt(name)
    last = type(onlinels.pipelines.last_step(model)).__name__
    if name in REFUSED or not last.startswith(OF_A_LINEAR_MODEL):
        message = REFUSED.get(name, f"of type {last}, expected a linear model")
        with pytest.raises(ValueError, match=message):
            answers_only(model)
        return
    small = saved(answers_only(model))
    assert len(onlinels.dumps(small)) <= len(onlinels.dumps(model))
    for sample in IMAGE if hasattr(model, "image_shape") else SAMPLES:
        try:
            expected = model.predict_one(sample)
        except (ValueError, TypeError, KeyError):  # A sample of another model.
            continue
        assert small.predict_one(sample) == pytest.approx(expected)
        if hasattr(model, "predict_proba_one"):
            probabilities = model.predict_proba_one(sample)
            assert small.predict_proba_one(sample) == pytest.approx(probabilities)


def test_what_is_no_trained_model_is_refused():
    for model, message in (
        (LeastSquaresClassifier, r"^model is of type \w+, expected a linear model"),
        (LeastSquaresClassifier(), "has learnt nothing, expected a trained model"),
        ([LeastSquaresClassifier()], "^model is of type list, expected a linear model"),
        (answers_only(learnt()), "^model is of type ClassPredictor, expected"),
    ):
        with pytest.raises(ValueError, match=message):
            answers_only(model)


# -- networks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("input_weights", ["difference", "centred-difference"])
@pytest.mark.parametrize(
    ("n_hidden", "images", "kept"),
    [(30, IMAGES, "u1"), (400, IMAGES.astype("u1"), "u1"), (30, IMAGES / 16.0, "f8")],
)
def test_a_file_holds_images_in_place_of_their_features(n_hidden, images, kept, input_weights):
    """As bytes if all pixels are bytes, or with their fractions."""
    model = small_network(60, n_hidden, input_weights, stride=1)
    model.learn_many(images[:80], LABELS[:80])
    predictor, loaded = saved(answers_only(model)), saved(model)
    landmarks = model._stage.hidden.input_weights.origin.images
    assert landmarks.dtype == kept
    assert len(onlinels.dumps(predictor)) < landmarks.nbytes + 100 * n_hidden + 30_000
    asked = images[:200]
    np.testing.assert_array_equal(loaded.scores_many(asked), model.scores_many(asked))
    own = model.predict_proba_many(asked)
    np.testing.assert_allclose(predictor.predict_proba_many(asked), own, atol=1e-9)
    for each in (model, loaded):
        each.learn_many(images[80:200], LABELS[80:200])
    assert onlinels.dumps(loaded) == onlinels.dumps(model)


def test_a_predictor_of_the_warm_up_predicts_as_the_network_does_now():
    model = small_network(warm_up=1000, n_hidden=300, learnt=150)
    predictor, own = answers_only(model), model.predict_proba_many(IMAGES)
    np.testing.assert_allclose(predictor.predict_proba_many(IMAGES), own, atol=1e-9)
    learn(model, 150, 500)
    assert np.abs(model.predict_proba_many(IMAGES) - own).max() > 0.1


# -- input weights that a seed draws --------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"dtype": "float32"}])
@pytest.mark.parametrize("distribution", sorted(input_weights.DISTRIBUTIONS))
def test_drawn_input_weights_are_not_in_the_file(tmp_path, monkeypatch, distribution, settings):
    monkeypatch.setattr(hidden, "MIN_OMITTED_BYTES", 1 << 12)
    layer, X = HiddenLayer(300, distribution, seed=5, **settings), np.eye(9)
    expected = layer.transform_many(X)
    layer.save(tmp_path / "layer.npz")
    assert (tmp_path / "layer.npz").stat().st_size < 1500 + 8 * 300
    loaded = onlinels.load(tmp_path / "layer.npz")
    np.testing.assert_array_equal(loaded.transform_many(X), expected)
    assert onlinels.dumps(loaded) == onlinels.dumps(layer)
    # Later features are drawn as ever.
    later, drawn_here = [{10: 1.0}], input_weights.DISTRIBUTIONS[distribution]
    np.testing.assert_array_equal(loaded.transform_many(later), layer.transform_many(later))

    # A numpy that draws other numbers, of which one differs.
    def other(random, size):
        drawn = drawn_here(random, size)
        drawn[-1] *= 1.0 + 1e-6
        return drawn

    monkeypatch.setitem(input_weights.DISTRIBUTIONS, distribution, other)
    message = rf"draws otherwise than numpy {np.__version__}, with which it was saved. Load it with"
    with pytest.raises(ValueError, match=message):
        onlinels.load(tmp_path / "layer.npz")


def test_small_files_draw_no_more_than_they_may(tmp_path, monkeypatch):
    layers = [HiddenLayer(20_000, seed=seed) for seed in range(3)]
    for layer in layers:
        layer.transform_many(np.eye(9))
    path = tmp_path / "layers.npz"
    # The first two may be drawn again, and the third is written.
    monkeypatch.setattr(description, "MAX_COMPUTED_BYTES", 3_000_000)
    onlinels.save(layers, path)
    assert 3 * 160_000 + 1_440_000 < path.stat().st_size < 3 * 160_000 + 1_450_000
    assert onlinels.dumps(onlinels.load(path)) == path.read_bytes()
    monkeypatch.setattr(description, "MAX_COMPUTED_BYTES", 2_000_000)
    with pytest.raises(ValueError, match="leaves out more numbers than may be computed"):
        onlinels.load(path)
