"""`to_sklearn`: a linear model as a plain estimator of scikit-learn."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from onlinels.export.predictor import ClassPredictor, Predictor, labels_of, predictor_of
from onlinels.linear.model import LinearModel
from onlinels.pipelines import is_pipeline


def to_sklearn(model: Any) -> Any:
    """Return a trained linear model as a plain, fitted estimator of scikit-learn.

    Parameters
    ----------
    model : LeastSquaresRegressor, LeastSquaresMultiTargetRegressor or LeastSquaresClassifier
        It does not change.

    Returns
    -------
    Ridge, RidgeClassifier or LinearDiscriminantAnalysis
        `Ridge` for a regressor. `RidgeClassifier` for a classifier without priors: with
        `fit_intercept` its weights are those of scikit-learn's targets -1 and 1, twice the weights
        of the model. `LinearDiscriminantAnalysis` for a classifier with `priors`, whose
        `predict_proba` gives the posterior probabilities of the model. `coef_` has a row for each
        target or class, or one row for two classes, and a column for each of
        `model.feature_names`, in that order. `classes_` are sorted. `feature_names_in_` is set
        where all names are text; scikit-learn then expects frames with the columns in that order:
        ``frame[list(model.feature_names)]``.

    Raises
    ------
    ImportError
        If scikit-learn is not installed: ``pip install 'onlinels[sklearn]'``.
    ValueError
        If the model has learnt nothing, has fewer than two classes or labels of mixed types, or is
        more than one linear model. `onlinels.export.onnx` exports pipelines, hidden layers,
        calibrated probabilities and networks.

    Notes
    -----
    The estimator is independent of the model and learns nothing from it later. `alpha` is the ridge
    in force, which acts on standardised features where the model scales them: `fit` would not give
    the same weights then. RidgeClassifier has no probabilities. scikit-learn computes x W + b
    without the mean of the features: features of mean m and standard deviation s cost log10(m / s)
    digits. Tools that convert the estimator may not support all labels: skl2onnx returns wrong
    labels, without an error, if labels are fractions such as 0.5.

    The cost is that of solving for the weights, if rows were learnt since the last prediction, and
    ``8 n_features n_targets`` bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinels import LeastSquaresClassifier, export
    >>> model = LeastSquaresClassifier(ridge=1.0)
    >>> model.learn_many(np.array([[0.0], [1.0], [2.0]]), ["low", "low", "high"])
    >>> export.to_sklearn(model).predict([[-1.0], [3.0]])
    array(['low', 'high'], dtype='<U4')
    """
    if find_spec("sklearn") is None:
        raise ImportError("scikit-learn is not installed. Run: pip install 'onlinels[sklearn]'")
    # Pipelines of river count as instances of the class of their last step.
    if is_pipeline(model) or not isinstance(model, LinearModel):
        raise ValueError(
            f"model is of type {type(model).__name__}, expected one linear model: "
            "LeastSquaresRegressor, LeastSquaresMultiTargetRegressor or LeastSquaresClassifier. "
            "onlinels.export.onnx(model, path) exports pipelines and networks; an estimator of "
            "onlinels.sklearn has to_river."
        )
    with model._lock:
        predictor = predictor_of(model)
        settings = {"alpha": model.ridge_, "fit_intercept": bool(model.fit_intercept)}
    make = _classifier if isinstance(predictor, ClassPredictor) else _regressor
    estimator, names = make(predictor, settings), predictor.feature_names
    estimator.n_features_in_ = len(names)
    if all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.array(names, dtype=object)
    return estimator


def _regressor(predictor: Predictor, settings: dict[str, Any]) -> Any:
    from sklearn.linear_model import Ridge

    estimator: Any = Ridge(**settings)
    estimator.coef_, estimator.intercept_ = predictor.weights.T, predictor.intercept
    if not predictor.outputs:
        estimator.coef_, estimator.intercept_ = estimator.coef_[0], float(estimator.intercept_[0])
    return estimator


def _classifier(predictor: Predictor, settings: dict[str, Any]) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import RidgeClassifier
    from sklearn.preprocessing import LabelBinarizer

    labels = labels_of(predictor.outputs, "scikit-learn")
    if len(labels) < 2:
        problem = f"The model knows only the class {labels[0].item()!r}, expected at least two"
        raise ValueError(f"{problem}. Learn rows of another class first.")
    order = np.argsort(labels)
    coef, intercept = predictor.weights.T[order], predictor.intercept[order]
    estimator: Any
    if predictor.softmax is not None:
        estimator = LinearDiscriminantAnalysis(solver="lsqr")
    else:
        estimator = RidgeClassifier(**settings)
        # Fitted to whole numbers, since it refuses fractions as labels.
        binarizer: Any = LabelBinarizer(neg_label=-1, pos_label=1).fit(np.arange(len(labels)))
        binarizer.classes_ = labels[order]
        estimator._label_binarizer = binarizer
        if len(labels) > 2:
            # Targets -1 and 1 are 2 y - 1 for targets y of 0 and 1.
            coef, intercept = 2.0 * coef, (2.0 * intercept - 1.0) * settings["fit_intercept"]
    if len(labels) == 2:
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    estimator.coef_, estimator.intercept_ = coef, intercept
    # Until version 1.7 `classes_` of RidgeClassifier is a property of its label binarizer.
    if not hasattr(estimator, "classes_"):
        estimator.classes_ = labels[order]
    return estimator
