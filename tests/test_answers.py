"""Answers-only models: the predictions of the full model, in a small file, and nothing else."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import onlinels
from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    answers_only,
    saved_bytes,
)
from onlinels.features import hidden, input_weights
from onlinels.saving import description
from onlinels.sklearn import IncrementalRidge
from support import savable_models
from support.strategies import cases, examples, kinds
from support.untrusted_files import rewritten


def same(model):
    return model


def pickled(model):
    return pickle.loads(pickle.dumps(model))


def saved(model):
    return onlinels.loads(onlinels.dumps(model))


WAYS = st.sampled_from([same, copy.copy, copy.deepcopy, pickled, saved])


def answers(model, X):
    """Return what a model predicts for rows: scores of a classifier, and probabilities."""
    if hasattr(model, "scores_many"):
        return np.hstack([model.scores_many(X), model.predict_proba_many(X)])
    return np.asarray(model.predict_many(X), dtype=float).reshape(len(X), -1)


@kinds
@examples(20)
@given(st.data())
def test_answers_are_those_of_the_full_model(kind, data):
    rows, make = data.draw(cases(kind, max_rows=40))
    model = make(**data.draw(st.sampled_from([{}, {"forgetting_factor": 0.9}, {"half_life": 3.0}])))
    n_learnt = data.draw(st.integers(0, len(rows)))
    if n_learnt:
        model.learn_many(rows.X[:n_learnt], rows.y[:n_learnt], rows.w[:n_learnt])
    small = data.draw(WAYS)(answers_only(model))
    X, x = rows.X.astype(float), rows.dicts()[-1]
    np.testing.assert_array_equal(answers(small, X), answers(model, X))
    assert small.predict_many(X[:3]).tolist() == model.predict_many(X[:3]).tolist()
    # Single rows may be predicted by a solution that follows rows.
    one = np.asarray(list(small._row_scores(x)))
    allowed = 1e-6 * (1.0 + np.abs(one[np.isfinite(one)]).max(initial=0.0))
    np.testing.assert_allclose(one, model._row_scores(x), rtol=0.0, atol=allowed)
    assert (small.count, small.feature_names) == (model.count, model.feature_names)
    assert small.ridge_ == model._solved().ridge
    np.testing.assert_array_equal(small.output_weights, model.output_weights)
    np.testing.assert_array_equal(small.intercept, model.intercept)


def learnt(**settings):
    model = LeastSquaresClassifier(**settings)
    model.learn_many(*savable_models.rows(np.random.default_rng(0), 30))
    return model


ROW = dict.fromkeys(range(4), 1.0)
X, Y = savable_models.rows(np.random.default_rng(0), 30)
REFUSED = {
    "learn_one": lambda model: model.learn_one(ROW, 1),
    "learn_one after predictions": lambda model: [
        model.predict_one(ROW),
        model.predict_one(ROW),
        model.learn_one(ROW, 1),
    ],
    "learn_one of a new feature": lambda model: model.learn_one(ROW | {7: 1.0}, 1),
    "learn_many": lambda model: model.learn_many(X, Y),
    "rows without weight": lambda model: model.learn_many(X, Y, np.zeros(len(X))),
    "unlearn_one": lambda model: model.unlearn_one(dict(enumerate(X[0])), Y[0]),
    "unlearn_many": lambda model: model.unlearn_many(X, Y),
    "predict_learn_many": lambda model: model.predict_learn_many(X, Y),
    "merge": lambda model: model.merge(learnt()),
    "merge of nothing": lambda model: model.merge(LeastSquaresClassifier()),
    "sum": lambda model: onlinels.merge(learnt(), model),
    "merge into nothing": lambda model: LeastSquaresClassifier().merge(model),
    "fade": lambda model: model.fade(0.5),
    "ridge": lambda model: setattr(model, "ridge", 3.0),
    "priors": lambda model: setattr(model, "priors", "equal"),
    "variances": lambda model: model.variance_many(X),
    "ridge_diagonal": lambda model: model.ridge_diagonal,
}


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_sums_is_refused_and_changes_nothing(name, accumulator):
    full = learnt(accumulator=accumulator)
    small = answers_only(full)
    before = onlinels.dumps(small)
    if accumulator != "gram" and ("merge" in name or name == "sum"):
        pytest.skip("settings differ")
    with pytest.raises(ValueError, match=r"made by answers_only.*Keep the full model, or the file"):
        REFUSED[name](small)
    assert onlinels.dumps(small) == before
    if name == "learn_many":
        full.learn_many(X, Y)
        assert full.count == 60
        # The settings make a model that learns.
        new = small.empty()
        new.learn_many(X, Y)
        assert new.count == 30
        assert new.merge(full).count == 90


@examples(30)
@given(
    st.sampled_from([0.0, 1e3, 1e6]), st.booleans(), st.sampled_from([3, 64]), st.integers(0, 999)
)
def test_float32_errs_within_its_bound(offset, fit_intercept, n_features, seed):
    random = np.random.default_rng(seed)
    X = offset + random.normal(size=(90, n_features)) * 10.0 ** random.integers(-2, 3, n_features)
    model = LeastSquaresClassifier(1.0, fit_intercept=fit_intercept)
    model.learn_many(X, random.integers(0, 3, 90))
    small = saved(answers_only(model, float32=True))
    away = np.abs(X - (X.mean(axis=0) if fit_intercept else 0.0)) @ np.abs(model.output_weights)
    rounding = 1e-15 * n_features * (1.0 + np.abs(X) @ np.abs(model.output_weights))
    errors = np.abs(small.scores_many(X) - model.scores_many(X))
    assert (errors <= 2.0**-24 * away + rounding).all()


def test_weights_beyond_float32_are_refused():
    model = LeastSquaresRegressor(0.0)
    model.learn_many(np.array([[0.0], [1e-60]]), [0.0, 1.0])
    with pytest.raises(ValueError, match="float32=True, but output weights are as large as 1e"):
        answers_only(model, float32=True)
    assert answers_only(model).predict_one({0: 2e-60}) == pytest.approx(2.0)


def test_answers_only_of_answers_only():
    for priors in (None, {}, {"a": 0.2}):
        full = learnt(priors=priors)
        small = answers_only(full)
        assert onlinels.dumps(answers_only(small)) == onlinels.dumps(small)
        np.testing.assert_array_equal(answers(saved(small), X), answers(full, X))
        with pytest.raises(ValueError, match="made by answers_only"):
            answers_only(small, float32=True)
        small32 = answers_only(full, float32=True)
        assert onlinels.dumps(answers_only(small32, float32=True)) == onlinels.dumps(small32)


def test_sizes():
    random = np.random.default_rng(0)
    for n_classes in (10, 3):
        model = LeastSquaresClassifier()
        model.learn_many(random.normal(size=(500, 64)), random.integers(0, n_classes, 500))
        small = answers_only(model)
        # Besides the weights there are labels, names and checksums.
        assert len(onlinels.dumps(small)) < 8 * 64 * n_classes + 2000
        assert len(onlinels.dumps(answers_only(model, float32=True))) < 4 * 64 * n_classes + 2000
        assert saved_bytes(small) == {"sums": 0, "weights": 8 * 64 * n_classes, "features": 0}
        assert saved_bytes(model)["sums"] > 8 * 64 * 65 / 2


SAMPLES = [
    {0: 1.0, 1: -0.5, 2: 0.2, 3: 2.0},
    {"a": 1.0, "b": -0.5, "c": 0.2, "d": 2.0},
    {"colour": "red", "other": "blue", "number": 1},
    {"x": 0.5, "y": -1.0, "t": 9.0},
    {"image": np.arange(64.0).reshape(8, 8) / 64},
]

HAVE_NONE = "stream", "delayed", "late", "stream of numbers", "numbers that wait", "numbers delayed"


@pytest.mark.parametrize("name", savable_models.MODELS)
def test_every_model_has_answers_only_or_is_refused_by_name(name):
    make, learn = savable_models.MODELS[name]
    random = np.random.default_rng(0)
    model = make(random)
    learn(model, random)
    last = onlinels.pipelines.last_step(model)
    if not hasattr(last, "predict_one") or name in HAVE_NONE:
        for refuses in (answers_only, saved_bytes):
            with pytest.raises(TypeError, match=f"of type {type(last).__name__}, expected"):
                refuses(model)
    elif name == "network that waits":
        with pytest.raises(ValueError, match=r"Features are not fixed yet.*fix_features"):
            answers_only(model)
    else:
        small = saved(answers_only(model))
        assert type(small) is type(model)
        assert len(onlinels.dumps(small)) <= len(onlinels.dumps(model))
        for sample in SAMPLES[4:] if "network" in name else SAMPLES[:4]:
            try:
                answer = model.predict_one(sample)
            except (ValueError, TypeError, KeyError):  # A sample of another model.
                continue
            assert small.predict_one(sample) == pytest.approx(answer)
            if hasattr(model, "predict_proba_one"):
                probabilities = model.predict_proba_one(sample)
                assert small.predict_proba_one(sample) == pytest.approx(probabilities)
        # Not all of them learn: some wait for windows whose labels agree.
        if name not in ("answers only", "unlabelled"):
            with pytest.raises(ValueError, match="made by answers_only"):
                learn(small, random)


def test_networks():
    digits = load_digits()
    model = ShallowConvClassifier.from_preset("digits", n_hidden=50)
    model.learn_many(digits.images[:1000], digits.target[:1000])
    images, labels = digits.images[1000:1100], digits.target[1000:1100]
    for full in (model, CalibratedClassifier(model)):
        small = saved(answers_only(full))
        assert (small.predict_many(images) == full.predict_many(images)).all()
        answers = small.predict_proba_many(images), full.predict_proba_many(images)
        np.testing.assert_array_equal(*answers)
    small = answers_only(model)
    for refused in (
        lambda: small.learn_many(images, labels),
        lambda: small.unlearn_many(images, labels),
        lambda: small.merge(model),
        lambda: model.merge(small),
        lambda: model.empty().merge(small),
        lambda: ShallowConvClassifier.from_preset("digits", n_hidden=50).merge(small),
        lambda: setattr(small, "ridge", 2.0),
        lambda: setattr(small, "priors", None),
    ):
        with pytest.raises(ValueError, match="made by answers_only"):
            refused()
    np.testing.assert_array_equal(small.scores_many(images), model.scores_many(images))
    new = small.empty()
    new.learn_many(digits.images[:1000], digits.target[:1000])
    np.testing.assert_array_equal(new.scores_many(images), model.scores_many(images))


def test_an_estimator_of_scikit_learn_names_the_remedy():
    with pytest.raises(TypeError, match=r"model is of type IncrementalRidge.*model\.to_river"):
        answers_only(IncrementalRidge())


def test_classes_subclasses_and_what_is_no_model_are_told_apart():
    class Own(LeastSquaresClassifier):
        pass

    for model, message in [
        (LeastSquaresClassifier, "^model is the class LeastSquaresClassifier, expected an object"),
        (Own(), "^model is of type Own, .* Train a LeastSquaresClassifier itself: its subclasses"),
        ([LeastSquaresClassifier()], "^model is of type list, .* Pass such a model"),
    ]:
        with pytest.raises(TypeError, match=message):
            answers_only(model)


def odd(part, value):
    def change(said):
        said["model"]["state"][part] = value
        return said

    return change


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("model", "HiddenLayer"),
        ("names", {"tuple": ["a", "b", "c"]}),
        ("names", {"tuple": ["a", "b", "c", "a"]}),
        ("outputs", {"tuple": [0, 1]}),
        ("outputs", {"tuple": [0, 1, 1]}),
        ("class_counts", {"tuple": [1]}),
        ("intercept", {"tuple": [1.0]}),
        ("output_weights", None),
        ("rule", None),
        ("settings", None),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, part, value):
    path = tmp_path / "model.npz"
    answers_only(learnt(priors="learnt")).save(path)
    assert onlinels.load(path).classes == learnt().classes
    rewritten(path, odd(part, value))
    with pytest.raises(ValueError, match="cannot be read as a saved model"):
        onlinels.load(path)


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
    np.testing.assert_array_equal(
        loaded.transform_many([{10: 1.0}]), layer.transform_many([{10: 1.0}])
    )

    # A numpy that draws other numbers, of which one differs.
    def other(random, size):
        drawn = input_weights_of[distribution](random, size)
        drawn[-1] *= 1.0 + 1e-6
        return drawn

    input_weights_of = dict(input_weights.DISTRIBUTIONS)
    monkeypatch.setitem(input_weights.DISTRIBUTIONS, distribution, other)
    message = rf"draws otherwise than numpy {np.__version__}, with which it was saved. Load it with"
    with pytest.raises(ValueError, match=message):
        onlinels.load(tmp_path / "layer.npz")


def test_small_files_draw_no_more_than_they_may(tmp_path, monkeypatch):
    layers = []
    for seed in range(3):
        layer = HiddenLayer(20_000, seed=seed)
        layer.transform_many(np.eye(9))
        layers.append(layer)
    path = tmp_path / "layers.npz"
    # The first two may be drawn again, and the third is written.
    monkeypatch.setattr(description, "MAX_COMPUTED_BYTES", 3_000_000)
    onlinels.save(layers, path)
    assert 3 * 160_000 + 1_440_000 < path.stat().st_size < 3 * 160_000 + 1_450_000
    loaded = onlinels.load(path)
    assert onlinels.dumps(loaded) == path.read_bytes()
    monkeypatch.setattr(description, "MAX_COMPUTED_BYTES", 2_000_000)
    with pytest.raises(ValueError, match="leaves out more numbers than may be computed"):
        onlinels.load(path)
    onlinels.save(layers[0], path)
    for n_hidden in (10**9, -5, 2e4, None):

        def change(said, n_hidden=n_hidden):
            said["model"]["state"]["n_hidden"] = n_hidden
            return said

        rewritten(path, change)
        with pytest.raises(ValueError, match="cannot be read as a saved model"):
            onlinels.load(path)
