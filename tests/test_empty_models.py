"""Models that have learnt nothing answer before they read values."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import evaluate, metrics, preprocessing

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
    WindowedClassifier,
)
from onlinels.linear.state import chosen
from support.laws import saved, unasked
from support.strategies import examples


def unlearnt():
    model = LeastSquaresClassifier()
    model.learn_one({"a": 1.0}, "x")
    model.unlearn_one({"a": 1.0}, "x")
    return model


def scaled(model):
    return preprocessing.MinMaxScaler() | model


CLASSIFIERS = {
    "linear": LeastSquaresClassifier,
    "folds": lambda: LeastSquaresClassifier(ridge=KFold(3)),
    "recursive": lambda: LeastSquaresClassifier(1.0, "recursive", half_life=3.0),
    "priors": lambda: LeastSquaresClassifier(priors="learnt"),
    "unlearnt": unlearnt,
    "stream": StreamClassifier,
    "images": lambda: ShallowConvClassifier.from_preset("digits"),
    "drift": lambda: DriftAwareClassifier(LeastSquaresClassifier()),
    "calibrated": lambda: CalibratedClassifier(ShallowConvClassifier()),
    "windows": lambda: WindowedClassifier(LeastSquaresClassifier(), window=1),
    "windows behind a scaler": lambda: scaled(WindowedClassifier(LeastSquaresClassifier(), 3)),
    "behind a scaler": lambda: scaled(LeastSquaresClassifier()),
    "drift around a scaler": lambda: DriftAwareClassifier(
        scaled(HiddenLayer(5) | LeastSquaresClassifier())
    ),
}
NUMBERS = {
    "regressor": (LeastSquaresRegressor, 0.0),
    "targets": (LeastSquaresMultiTargetRegressor, {}),
}
NOT_READ = [np.nan, np.inf, None, 1e200, "red", 1j, np.array([np.nan, 1.0]), [1, 2], object()]
samples = st.dictionaries(st.sampled_from("abc"), st.sampled_from([*NOT_READ, 1.0]))


@pytest.mark.parametrize("kind", CLASSIFIERS)
@examples(10)
@given(samples)
def test_blank_classifiers_answer_whatever_the_values_are(kind, x):
    model = CLASSIFIERS[kind]()
    if "scaler" in kind and "around" not in kind:
        x = dict.fromkeys(x, 1.0)  # The scaler itself reads them, and gives NaN.
    # What a stream's model was asked waits for its label; nothing else changes.
    before = pickle.dumps(unasked(model))
    assert model.predict_one(x) is None
    assert model.predict_proba_one(x) == {}
    for answer in ("scores_one", "variance_one"):
        assert getattr(model, answer, lambda x: {})(x) == {}
    assert "scaler" in kind or pickle.dumps(unasked(model)) == before


@pytest.mark.parametrize("kind", NUMBERS)
@examples(10)
@given(samples)
def test_blank_regressors_answer_whatever_the_values_are(kind, x):
    make, nothing = NUMBERS[kind]
    assert make().predict_one(x) == nothing
    if kind == "regressor":
        fresh = make().predict_one(x, with_dist=True)
        assert (fresh.mu, fresh.sigma) == (0.0, np.inf)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("make", "nothing", "n_outputs"),
    [
        (LeastSquaresClassifier, None, 0),
        (LeastSquaresRegressor, 0.0, 1),
        (LeastSquaresMultiTargetRegressor, {}, 0),
    ],
)
def test_blank_linear_models_answer_batches(make, nothing, n_outputs, fit_intercept):
    model, X = make(fit_intercept=fit_intercept), np.ones((4, 2))
    assert model.predict_many([{}, {"a": 1.0}]) == [nothing] * 2
    assert model.predict_many(X).tolist() == [[] if nothing == {} else nothing] * 4
    for name in ("predict_proba_many", "scores_many", "variance_many"):
        if hasattr(model, name):
            assert getattr(model, name)(X).shape == (4, 0)
            assert len(getattr(model, name)(pd.DataFrame(X))) == 4
    assert len(model.predict_many(pd.DataFrame(X))) == 4
    assert (model.feature_names, model.count, model.ridge_) == ((), 0, 0.0)
    assert model.output_weights.shape == (0, n_outputs)
    assert model.intercept.tolist() == [0.0] * n_outputs


@pytest.mark.parametrize("make", [*CLASSIFIERS.values(), *(make for make, _ in NUMBERS.values())])
@pytest.mark.parametrize("x", [None, [1.0], np.array(3.0), "a"])
def test_what_is_no_mapping_is_refused_all_the_same(make, x):
    model = make()
    takes_images = "ShallowConvClassifier" in repr(model)
    if takes_images and isinstance(x, np.ndarray):
        assert model.predict_one(x) is None
    elif not hasattr(model, "steps"):
        with pytest.raises(TypeError, match=r"x is of type .*, expected (a dict|an array)"):
            model.predict_one(x)


@pytest.mark.parametrize("wrap", [DriftAwareClassifier, CalibratedClassifier])
@pytest.mark.parametrize("layers", [[], [HiddenLayer(3)]])
def test_wrappers_learn_behind_scalers_that_start_with_nan(wrap, layers):
    model = preprocessing.MinMaxScaler()
    for each in (*layers, LeastSquaresClassifier()):
        model |= each
    model = wrap(model)
    for bad in ({"a": "red"}, {"a": np.nan}, {"a": None}):
        before = saved(model)
        with pytest.raises((TypeError, ValueError)):
            model.learn_one(bad, 0)
        assert saved(model) == before
    data = [({"a": float(i % 7)}, i % 7 > 3) for i in range(100)]
    accuracy = evaluate.progressive_val_score(data, model, metrics.Accuracy())
    assert accuracy.get() > 0.8
    assert model.count == 100


@pytest.mark.parametrize("kind", [LeastSquaresClassifier, LeastSquaresMultiTargetRegressor])
@pytest.mark.parametrize(
    "settings",
    [
        *({}, {"ridge": 1.0}, {"ridge": "paper"}, {"ridge": KFold(3)}, {"scaling": "standard"}),
        *({"half_life": 3.0}, {"forgetting_factor": 0.9}, {"accumulator": "orthogonal"}),
        {"fit_intercept": False, "scaling": None},
    ],
)
def test_the_first_choice_is_that_of_no_rows(kind, settings):
    state = kind(**settings)._state
    expected = chosen(state.with_sums(state.subsets))
    np.testing.assert_array_equal(state.penalty.numbers, expected.penalty.numbers)
    np.testing.assert_array_equal(state.following.registers, expected.following.registers)
