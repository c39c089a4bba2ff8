"""The parts of a model that is exported: transformers, weights, and what gives probabilities."""

from __future__ import annotations

import reprlib
from typing import Any, NamedTuple

from onlinels.checks import Floats, Matrix
from onlinels.features.images import Shape
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.model import LinearModel
from onlinels.meta import CalibratedClassifier, DriftAwareClassifier
from onlinels.network import ShallowConvClassifier
from onlinels.pipelines import is_pipeline
from onlinels.rows.batch import Columns, Name, label_array
from onlinels.rows.labels import Label
from onlinels.saving import in_plain_types
from onlinels.windowed import WindowedClassifier


class Linear(NamedTuple):
    """A linear model at one moment: scores are x weights + intercept.

    Attributes
    ----------
    kind : type
    columns : Columns
    outputs : tuple of n_outputs labels, or names of targets
    weights : ndarray (n_features, n_outputs)
    intercept : ndarray (n_outputs,)
    centre : ndarray (n_features,)
        The mean of the features; 0 without an intercept.
    ridge : float
    fit_intercept : bool
    has_priors : bool
        Whether scores are linear discriminants.
    """

    kind: type
    columns: Columns
    outputs: tuple[Any, ...]
    weights: Floats
    intercept: Floats
    centre: Floats
    ridge: float
    fit_intercept: bool
    has_priors: bool

    @property
    def is_classifier(self) -> bool:
        """Whether the outputs are classes."""
        return issubclass(self.kind, LeastSquaresClassifier)


def linear_of(model: LinearModel) -> Linear:
    """Return the weights of a linear model; raise ValueError if it has learnt nothing."""
    # One moment: another thread may be learning.
    with model._lock:
        if model._is_blank or not model._outputs:
            problem = f"The {type(model).__name__} has learnt nothing, expected a trained model"
            raise ValueError(f"{problem}. Call learn_one or learn_many first.")
        return Linear(
            type(model),
            model._columns,
            tuple(model._outputs),
            model.output_weights,
            model.intercept,
            model._statistics.feature_mean,
            model.ridge_,
            bool(model.fit_intercept),
            model._settings.priors is not None,
        )


def labels_of(classes: tuple[Label, ...], output: str) -> Matrix:
    """Return labels as an array of one type; raise ValueError if there is no such array."""
    classes = tuple(map(in_plain_types, classes))
    labels = label_array(classes)
    if labels.dtype.kind not in "bifU":
        raise ValueError(
            f"The labels {reprlib.repr(classes)} do not fit {output}, expected all str (without a "
            "NUL at the end), all int (of 64 bits), all bool or all float. Train a model on such "
            "labels, for example on the position of each label in a list."
        )
    return labels


class Parts(NamedTuple):
    """A model in parts.

    Attributes
    ----------
    steps : tuple of (name, transformer)
        Transformers before the linear model, in order.
    linear : Linear
    softmax : (scale, share, least), or None
        Of probabilities share * softmax(scale * scores) + least. None if they are the nearest ones
        (`onlinels.linear.scoring.probabilities_of`).
    shape : shape of one image or window, or None
        Where the model settles it.
    channels : tuple of names
        The columns of the windows of a WindowedClassifier.
    """

    steps: tuple[tuple[str, Any], ...]
    linear: Linear
    softmax: tuple[float, float, float] | None = None
    shape: Shape | None = None
    channels: tuple[Name, ...] = ()


def parts_of(model: Any) -> Parts:
    """Return the parts of a model; raise ValueError if it is of another kind."""
    if is_pipeline(model):
        *steps, (_, last) = model.steps.items()
        parts = parts_of(last)
        return parts._replace(steps=(*steps, *parts.steps))
    if isinstance(model, DriftAwareClassifier):
        with model._lock:
            return parts_of(model.classifier)
    if isinstance(model, CalibratedClassifier):
        with model._lock:
            parts, count = parts_of(model.classifier), model.count
            total = float(count + len(parts.linear.outputs))
            return parts._replace(softmax=(model.scale, count / total, 1.0 / total))
    if isinstance(model, WindowedClassifier):
        with model._lock:
            parts, channels = parts_of(model.classifier), model.channels
            return parts._replace(shape=(model.window, len(channels)), channels=channels)
    if isinstance(model, ShallowConvClassifier):
        with model._lock:
            network, parts = model._network, parts_of(model._linear_layer)
            names = "preprocessing", "features", "hidden"
            steps = tuple((name, getattr(network, name)) for name in names)
            return parts._replace(steps=steps, shape=model._image_shape)
    if isinstance(model, LinearModel):
        linear = linear_of(model)
        return Parts((), linear, (1.0, 1.0, 0.0) if linear.has_priors else None)
    raise ValueError(
        f"model is of type {type(model).__name__}, expected a linear model of onlinels, a "
        "ShallowConvClassifier, a WindowedClassifier, a CalibratedClassifier, a "
        "DriftAwareClassifier, or a pipeline that ends in one. Train one of these; an estimator of "
        "onlinels.sklearn has to_river."
    )
