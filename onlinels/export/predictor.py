"""A trained model as fixed steps and a predictor, for `answers_only`, or as an estimator.

`to_sklearn` makes a plain estimator of scikit-learn of a linear model.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from river import base, compose

from onlinels.checks import Floats, Matrix, checked_assignment, read_only, refusal
from onlinels.features.images import Shape
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.model import LinearModel
from onlinels.linear.scoring import (
    ScoringClassifier,
    posteriors,
    probabilities_of,
    unseen_classes,
)
from onlinels.locks import Lock, all_held
from onlinels.meta import CalibratedClassifier, DriftAwareClassifier
from onlinels.network import PixelNetwork, ShallowConvClassifier
from onlinels.numerics import product
from onlinels.pipelines import copied, is_pipeline, last_step
from onlinels.rows.answers import label_array, numbers_like, table_like
from onlinels.rows.batch import (
    Columns,
    Name,
    read_batch,
    read_row,
    warn_of_other_columns,
)
from onlinels.rows.labels import Label
from onlinels.saving import files, in_plain_types, savable, save_method
from onlinels.windowed import WindowedClassifier

OF_PRIORS = 1.0, 1.0, 0.0
"""The setting `softmax` of posterior probabilities: the softmax of the outputs itself."""


@dataclass(eq=False, repr=False)
class Predictor(base.Estimator):
    """The output weights W and the intercept b of a trained model: outputs are x'W + b.

    Parameters
    ----------
    columns : Columns
        The features, in the order of the rows of W.
    outputs : tuple
        Labels of the classes, or names of the targets; () if predictions are single numbers.
    weights : ndarray (n_features, n_outputs), float64
    intercept : ndarray (n_outputs,)
    softmax : (scale, share, least), optional
        Probabilities are share * softmax(scale * outputs) + least; by default the nearest ones.
    priors : dict, optional
        Priors by label, for classes without rows.
    labels : tuple, optional
        Labels that were known before their rows.
    count : int
        Number of rows learnt, if the model was a CalibratedClassifier; see
        `onlinels.linear.scoring.unseen_labels`.
    """

    save = save_method
    __setattr__ = checked_assignment

    columns: Columns
    outputs: tuple[Any, ...]
    weights: Matrix
    intercept: Floats
    softmax: tuple[float, ...] | None = None
    priors: dict[Any, float] | None = None
    labels: tuple[Any, ...] | None = None
    count: int = 0

    def __post_init__(self) -> None:
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.columns)} features, {self.outputs!r})"

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features, in the order of the rows of `output_weights`."""
        return self.columns.names

    @property
    def output_weights(self) -> Floats:
        """Output weights (n_features, n_outputs), read-only."""
        return read_only(self.weights)

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        batch = read_batch(X)
        warn_of_other_columns(self.columns, batch)
        rows = self.columns.place(batch.layouts, batch.matrix)
        return batch.source, product(rows, self.weights) + self.intercept

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        sample = self.columns.row(x)
        if sample is None:
            layout, values = read_row(x)
            sample = self.columns.place((layout,), values[None])[0]
            self.columns.note(layout)
        outputs: Floats = sample @ self.weights + self.intercept
        return outputs

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Raise ValueError: a predictor only predicts."""
        remedy = "Keep the full model, or the file that its save wrote, and learn there."
        raise refusal(f"A {type(self).__name__}", "only predicts", "a model with its sums", remedy)

    def learn_many(self, X: Any, y: Any, **kwargs: Any) -> None:
        """Raise ValueError: a predictor only predicts."""
        self.learn_one(X, y)


def _outputs_fit(model: Predictor) -> bool:
    n_features, n_outputs = model.weights.shape
    named = len(set(model.outputs)) == len(model.outputs) == n_outputs
    fits = len(model.columns) == n_features and model.intercept.shape == (n_outputs,)
    has_softmax = model.softmax is None or len(model.softmax) == 3
    return fits and has_softmax and (named or (model.outputs, n_outputs) == ((), 1))


@savable(_outputs_fit)
class ClassPredictor(Predictor, ScoringClassifier):
    """What `answers_only` makes of a classifier: labels, probabilities, scores and margins."""

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels of the classes, in the order of the columns of `output_weights`."""
        return self.outputs

    def _probabilities(self, scores: Floats) -> Floats:
        if self.softmax is None:
            return probabilities_of(scores)
        if self.softmax == OF_PRIORS:
            return posteriors(scores, self.priors, self.outputs)
        scale, share, least = self.softmax
        return share * posteriors(scale * scores) + least


@savable(_outputs_fit)
class NumberPredictor(Predictor, base.MultiTargetRegressor):
    """What `answers_only` makes of a regressor: a number, or a number for each target."""

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Return the prediction for one sample: a number, or a dict of the targets."""
        with self._lock:
            numbers = self._row_scores(x).tolist()
        return dict(zip(self.outputs, numbers, strict=True)) if self.outputs else numbers[0]

    def predict_many(self, X: Any) -> Any:
        """Return the prediction for every row, a column per target, in the kind of `X`."""
        with self._lock:
            source, numbers = self._batch_scores(X)
        if self.outputs:
            return table_like(source, self.outputs, numbers)
        return numbers_like(source, numbers[:, 0])


def predictor_of(model: Any) -> Predictor:
    """Return the predictor of a linear model; raise ValueError if it has learnt nothing."""
    # One moment: another thread may be learning.
    with model._lock:
        if model._state.is_blank or not model._state.outputs:
            name, remedy = f"The {type(model).__name__}", "Call learn_one or learn_many first."
            raise refusal(name, "has learnt nothing", "a trained model", remedy)
        weights, intercept = (each.copy() for each in model._weights())
        if isinstance(model, LeastSquaresClassifier):
            priors = model.priors
            softmax = None if priors is None else OF_PRIORS
            priors = priors if isinstance(priors, dict) else None
            parts = model._state.columns, model.classes, weights, intercept, softmax, priors
            return ClassPredictor(*parts)
        return NumberPredictor(model._state.columns, model._named or (), weights, intercept)


def check_seen(predictor: Predictor, output: str) -> None:
    """Raise ValueError if a classifier has probabilities of classes without rows."""
    # Classes without weight have the score -inf.
    seen = tuple(compress(predictor.outputs, np.isfinite(predictor.intercept)))
    without_rows = {
        "priors": [*unseen_classes(predictor.priors, seen)],
        "labels": [label for label in predictor.labels or () if label not in predictor.outputs],
    }
    remedies = {
        "priors": "Learn rows of it, or assign priors without it before.",
        "labels": "Learn rows of it, or use answers_only.",
    }
    for setting, unseen in without_rows.items():
        if unseen:
            found = f"name {unseen[0]!r}, of which no row was learnt"
            expected = f"rows of every class for {output}"
            raise refusal(setting, found, expected, remedies[setting])


def labels_of(classes: tuple[Label, ...], output: str) -> Matrix:
    """Return labels as an array of one type; raise ValueError if there is no such array."""
    classes = tuple(map(in_plain_types, classes))
    labels = label_array(classes)
    if labels.dtype.kind not in "bifU":
        name, found = f"The labels {reprlib.repr(classes)}", f"do not fit {output}"
        expected = "all str (without a NUL at the end), all int (of 64 bits), all bool or all float"
        remedy = "Train a model on such labels, for example on their positions in a list."
        raise refusal(name, found, expected, remedy)
    return labels


ESTIMATOR_REMEDY = "Train one of these; an estimator of onlinels.sklearn has to_river."

WRAPPERS = CalibratedClassifier, DriftAwareClassifier, WindowedClassifier
"""Classes of models around another one, their `classifier`."""


class Parts(NamedTuple):
    """A model in parts.

    Attributes
    ----------
    steps : tuple of (name, transformer)
        Transformers before the linear model, in order.
    predictor : Predictor
        Of the linear model, with the probabilities of a wrapper.
    centre : ndarray (n_features,)
        The mean of the features; 0 without an intercept.
    shape : shape of one image or window, or None
        Where the model settles it.
    channels : tuple of names
        The columns of the windows of a WindowedClassifier.
    """

    steps: tuple[tuple[str, Any], ...]
    predictor: Any
    centre: Floats
    shape: Shape | None = None
    channels: tuple[Name, ...] = ()


def parts_of(model: Any) -> Parts:
    """Return the parts of a model at one moment; raise ValueError if it is of another kind."""
    with all_held(*files.locks_of(model)):
        if is_pipeline(model):
            *steps, (_, last) = model.steps.items()
            parts = parts_of(last)
            return parts._replace(steps=(*steps, *parts.steps))
        if isinstance(model, LinearModel):
            return Parts((), predictor_of(model), model._state.statistics.feature_mean)
        if isinstance(model, ShallowConvClassifier):
            network, shape = model._answering(), model._stage.shape
            if isinstance(network, PixelNetwork):
                network = model._network  # Raises: features are not fixed.
            # It refuses images of other shapes, also if it returns images as they are.
            first = network.preprocessing.clone({"image_shape": shape})
            steps = ("preprocessing", first), ("features", network.features)
            parts, hidden = parts_of(network.classifier), copied(network.hidden)
            # In the network, columns are numbers; in a pipeline, outputs of the step before.
            vars(parts.predictor).update(columns=parts.predictor.columns.as_numbered())
            return parts._replace(steps=(*steps, ("hidden", hidden)), shape=shape)
        if not isinstance(model, WRAPPERS):
            found = f"is of type {type(model).__name__}"
            known = ", ".join(kind.__name__ for kind in (ShallowConvClassifier, *WRAPPERS))
            expected = f"a linear model, {known}, or a pipeline that ends in one"
            raise refusal("model", found, expected, ESTIMATOR_REMEDY)
        parts = parts_of(model.classifier)
        if isinstance(model, CalibratedClassifier):
            # Laplace's rule of succession (`onlinels.linear.scoring.calibrate`).
            total = float(model.count + len(parts.predictor.outputs))
            softmax = model.scale, model.count / total, 1.0 / total
            settings = {"softmax": softmax, "labels": model.labels, "count": model.count}
            vars(parts.predictor).update(settings)
        if isinstance(model, WindowedClassifier):
            shape = model.window, len(model.channels)
            return parts._replace(shape=shape, channels=model.channels)
        return parts


def answers_only(model: Any) -> Any:
    """Return a small model that predicts like a trained model and contains no sums.

    The small model contains fixed features, output weights, intercepts and labels. It cannot learn,
    merge, unlearn, select a ridge or compute variances. Keep the full model, or its file, for
    these. It is saved, loaded, copied and pickled like any model.

    Parameters
    ----------
    model : trained model
        A linear model, a `ShallowConvClassifier`, a `CalibratedClassifier`, `DriftAwareClassifier`
        or `WindowedClassifier` around these, or a pipeline that ends in one. It does not change.

    Returns
    -------
    ClassPredictor, NumberPredictor, or a pipeline that ends in one
        With the methods `predict_one`, `predict_many` and, for classes, `predict_proba_*`,
        `scores_*` and `margin_*`. A pipeline has copies of the steps of the model: its
        transformers, or the features and the hidden layer of a network (in its warm-up, of the
        smaller network that predicts). A WindowedClassifier stays one, with the small model inside.
        Predictions equal those of the model to rounding.

    Raises
    ------
    ValueError
        If the model has learnt nothing, if a network in its warm-up still predicts from pixels, or
        if the model is of another class. StreamClassifier and StreamRegressor adapt with every row:
        save them as they are.

    Notes
    -----
    **Privacy.** The file still contains information on the rows learnt:

    - labels, and the number of all rows, in a CalibratedClassifier;
    - output weights, which may be determined by few rows if there are many features;
    - the examples of `from_examples` or of a warm-up, or functions of them. A network whose input
      weights are differences holds these images themselves. Landmarks and differences of any other
      HiddenLayer are features of examples, and its scales are computed from examples. Filters from
      patches are pieces of images, or averages of such pieces. ZCA stores the mean and covariance
      of the examples. MiniRocket's biases are convolution values of examples;
    - means and variances, in a river scaler;
    - the readings of the last window, in a WindowedClassifier. `restart` removes them.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinels import LeastSquaresClassifier, dumps
    >>> X, y = np.random.default_rng(0).normal(size=(500, 64)), ["a", "b"] * 250
    >>> model = LeastSquaresClassifier()
    >>> model.learn_many(X, y)
    >>> small = answers_only(model)
    >>> len(dumps(small)) < len(dumps(model)) / 10, small.predict_one({0: 0.5})
    (True, 'b')
    """
    with all_held(*files.locks_of(model)):
        last = last_step(model)
        if isinstance(last, WindowedClassifier):
            steps = list(model.steps.items())[:-1] if is_pipeline(model) else []
            windowed = last.clone({"classifier": answers_only(last.classifier)})
            windowed._state, last = last._state, windowed
        else:
            parts = parts_of(model)
            steps, last = list(parts.steps), parts.predictor
        kept = [(name, copied(step)) for name, step in steps]
        return compose.Pipeline(*kept, last) if kept else last


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
        found = f"is of type {type(model).__name__}"
        expected = "one linear model (onlinels.export.onnx exports pipelines and networks)"
        raise refusal("model", found, expected, ESTIMATOR_REMEDY)
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
    check_seen(predictor, "scikit-learn")
    if len(labels) < 2:
        found, remedy = f"knows only the class {labels[0].item()!r}", "Learn rows of another first."
        raise refusal("The model", found, "at least two", remedy)
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
