"""`onlinels.export.to_sklearn`: plain linear models of scikit-learn with the same answers."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skl2onnx import to_onnx
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge, RidgeClassifier

from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    ShallowConvClassifier,
)
from onlinels.export import to_sklearn
from onlinels.sklearn import IncrementalRidge
from support.laws import fitted
from support.strategies import examples, kinds, trained_models

ESTIMATORS = {
    "labels": RidgeClassifier,
    "labels with priors": LinearDiscriminantAnalysis,
    "numbers": Ridge,
    "several numbers": Ridge,
}


@kinds
@examples(20)
@given(st.data())
def test_answers_are_those_of_the_model(kind, data):
    trained = data.draw(trained_models(kind))
    model, X = trained.model, trained.others.astype(np.float64)
    if kind.startswith("labels") and len(model.classes) < 2:
        with pytest.raises(ValueError, match=r"knows only the class .* Learn rows of another"):
            to_sklearn(model)
        return
    estimator, own = to_sklearn(model), model.predict_many(X)
    assert type(estimator) is ESTIMATORS[kind]
    answers, constants = estimator.predict(X), np.abs(np.nan_to_num(model.intercept, neginf=0.0))
    sizes = np.abs(X) @ np.abs(model.output_weights)
    if kind == "labels with priors":
        # The model maps least-squares scores to discriminants, the estimator has one matrix.
        sizes += np.abs(X) @ np.abs(model._solved().output_weights) @ np.abs(model._rule().matrix)
    bound = 1e-13 * (sizes + constants)
    if not kind.startswith("labels"):
        assert answers.shape == own.shape
        assert (np.abs(answers - own).reshape(bound.shape) <= bound).all()
        return
    assert list(estimator.classes_) == sorted(model.classes)
    largest, scores = bound.max(axis=1), model.scores_many(X)
    clear = model.margin_many(X) > 4.0 * largest
    assert (answers[clear] == own[clear]).all()
    decisions = estimator.decision_function(X)
    of_sorted = [model.classes.index(label) for label in estimator.classes_]
    if len(of_sorted) == 2:
        differences = scores[:, of_sorted[1]] - scores[:, of_sorted[0]]
        finite = np.isfinite(differences)
        assert (np.abs(decisions - differences)[finite] <= 4.0 * largest[finite]).all()
    if kind == "labels with priors":
        expected, atol = model.predict_proba_many(X)[:, of_sorted], 1e-12 + 4.0 * largest
        assert (np.abs(estimator.predict_proba(X) - expected) <= atol[:, None]).all()


def test_names_of_frames_are_those_of_the_model():
    frame = pd.DataFrame({"size": [1.0, 2.0, 4.0], "age": [5.0, 3.0, 2.0]})
    model = fitted(LeastSquaresRegressor(1.0), frame, [1.0, 2.0, 3.0])
    estimator = to_sklearn(model)
    assert list(estimator.feature_names_in_) == ["age", "size"]
    ordered = frame[list(model.feature_names)]
    np.testing.assert_allclose(estimator.predict(ordered), model.predict_many(frame))


@pytest.mark.parametrize("y", ["abcabc", "ababab", [2, 0, 2, 0, 1, 1]])
@pytest.mark.parametrize("priors", [None, "learnt"])
def test_skl2onnx_converts_classifiers(y, priors):
    X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    model = fitted(LeastSquaresClassifier(0.1, priors=priors), X, list(y))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # Shapes that skl2onnx writes for two classes are others.
    content = to_onnx(to_sklearn(model), X[:1]).SerializeToString()
    answers = onnxruntime.InferenceSession(content, options).run(None, {"X": X})
    assert answers[0].tolist() == model.predict_many(X).tolist()


CALIBRATED = CalibratedClassifier(LeastSquaresClassifier())
REFUSED = [
    (LeastSquaresClassifier(), [], "The LeastSquaresClassifier has learnt nothing"),
    (LeastSquaresClassifier(), [(1, 2), "b"], r"The labels \(\(1, 2\), 'b'\) do not fit"),
    (LeastSquaresClassifier(), ["a\0", "b"], "The labels .* do not fit scikit-learn.* NUL"),
    (LeastSquaresClassifier(), [1, 2**64], "The labels .*18446744073709551616.* do not fit"),
    (HiddenLayer(5) | LeastSquaresClassifier(), ["a", "b"], "type Pipeline.*export.onnx"),
    (CALIBRATED, ["a", "b"], "of type CalibratedClassifier.*export.onnx"),
    (ShallowConvClassifier(), [], "model is of type ShallowConvClassifier.*export.onnx"),
    (LeastSquaresClassifier, [], r"model is of type \w+, expected"),
    (IncrementalRidge(), [], "of type IncrementalRidge, .* has to_river"),
    (None, [], "model is of type NoneType, expected .* has to_river"),
]


@pytest.mark.parametrize(("model", "y", "said"), REFUSED)
def test_other_models_are_refused_by_name(model, y, said):
    if y:
        model.learn_many(np.eye(2), y)
    with pytest.raises(ValueError, match=said):
        to_sklearn(model)
