"""Answers-only models: they predict like the full model, and their files contain no sums."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from onlinels.checks import check_flag, check_made
from onlinels.linear.answers import MODELS, answers_of, model_of
from onlinels.network import ShallowConvClassifier
from onlinels.numerics import all_held
from onlinels.pipelines import last_step
from onlinels.saving import files
from onlinels.saving.description import Writer
from onlinels.wrappers import MetaClassifier

Model = TypeVar("Model")

SUM_PATHS = re.compile(r"\._(statistics|penalty|running)\.")
WEIGHT_PATHS = re.compile(r"\.(_solution|output_weights|rule)\b")
"""Patterns in the paths of arrays in a file."""


def answers_only(model: Model, float32: bool = False) -> Model:
    """Return a copy of a model that can predict but contains no sums: a small file to deploy.

    The copy contains settings, fixed features, output weights and labels. It cannot learn, merge,
    unlearn, change its ridge or priors, or compute variances: these raise a ValueError. Keep the
    full model, or its file, to continue learning. The copy is saved, loaded and pickled like any
    model. If a model has learnt rows, ``saved_bytes(model)["sums"] == 0`` tells that it is such a
    copy. A river scaler before the copy still learns each row that the copy refuses, which changes
    predictions.

    Parameters
    ----------
    model : linear model, ShallowConvClassifier, wrapper of these, or pipeline that ends in one
        The model to copy, which does not change. A wrapper is a CalibratedClassifier,
        DriftAwareClassifier or WindowedClassifier.
    float32 : bool
        Whether to round output weights to float32, which halves their bytes in the file.
        Predictions are still computed in float64. A least-squares score changes by at most
        ``2^-24 sum_j |x_j - m_j| |W_jk|``, where m is the mean of the rows learnt (0 without an
        intercept), plus the rounding errors of float64. Weights of magnitude below 1e-38 lose more
        digits.

    Returns
    -------
    model
        A model of the same class. Without float32, its scores and probabilities equal those of the
        model to the last bit if the model predicts with newly computed weights. They are equal to
        rounding if an updated or recursive solution predicts single rows.

    Raises
    ------
    TypeError
        If the model is of another class. StreamClassifier and StreamRegressor adapt with every row:
        they have no answers-only form.
    ValueError
        If the features of a network are not fixed yet, if a weight exceeds the range of float32, or
        if float32=True and the model is already answers-only, because it does not contain the
        means.

    Notes
    -----
    **Privacy.** The file still contains information on the rows learnt:

    - labels, the number of rows of each label, and the number of all rows;
    - output weights, which may be determined by few rows if there are many features;
    - the examples of `from_examples` or of a warm-up, or functions of them. Landmarks and
      differences of a HiddenLayer are features of examples, and its scales are computed from
      examples. Filters from patches are pieces of images, or averages of such pieces. A whitening
      stores the mean and covariance of the examples. MiniRocket's biases are convolution values of
      examples;
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
    check_flag("float32", float32)
    with all_held(*files.locks_of(model)):
        linear = list(_linear_models(model))
        # The memo puts the small models in place of the full ones, so that no sums are copied.
        memo = {id(each): model_of(answers_of(each, float32)) for each in linear}
        return copy.deepcopy(model, memo)


def saved_bytes(model: Any) -> dict[str, int]:
    """Return the bytes of the arrays in a saved model: sums, output weights and fixed features.

    Parameters
    ----------
    model : linear model, ShallowConvClassifier, wrapper of these, or pipeline that ends in one
        A model that `answers_only` accepts, or whose features are not fixed yet.

    Returns
    -------
    dict
        "sums" are the bytes that only learning needs. "weights" is 0 before the weights are
        computed, for example by a prediction. "features" includes all other arrays: input weights,
        filters, windows, and the means that an answers-only model keeps if they are far from 0.

    Raises
    ------
    TypeError
        If the model is of another class.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinels import HiddenLayer, LeastSquaresRegressor
    >>> model = HiddenLayer(100) | LeastSquaresRegressor()
    >>> model.learn_many(np.eye(3), [1.0, 2.0, 3.0])
    >>> saved_bytes(model)
    {'sums': 86..., 'weights': 0, 'features': 3200}
    >>> saved_bytes(answers_only(model))
    {'sums': 0, 'weights': 800, 'features': 3600}
    """
    with all_held(*files.locks_of(model)):
        list(_linear_models(model, is_fixed=False))
        writer = Writer()
        writer.node(model, type(model).__name__)
    sizes = {"sums": 0, "weights": 0, "features": 0}
    for path, array in writer.arrays.items():
        is_weight = WEIGHT_PATHS.search(path)
        kind = "sums" if SUM_PATHS.search(path) else "weights" if is_weight else "features"
        sizes[kind] += array.nbytes
    return sizes


def _linear_models(model: Any, is_fixed: bool = True) -> Iterator[Any]:
    """Yield the linear models of which a model consists; raise if it is of another class."""
    last = last_step(model)
    if type(last) in MODELS.values():
        yield last
    elif isinstance(last, MetaClassifier):
        yield from _linear_models(last.classifier, is_fixed)
        if is_fixed and isinstance(last, ShallowConvClassifier):
            yield last._network.classifier
    else:
        # A scikit-learn estimator, a StreamClassifier or StreamRegressor, or no model.
        check_made(last)
        remedy = "Pass such a model"
        base_class = next((kind for kind in MODELS.values() if isinstance(last, kind)), None)
        if hasattr(last, "to_river"):
            remedy = "Pass model.to_river()"
        elif base_class is not None:
            remedy = f"Train a {base_class.__name__} itself: its subclasses cannot be saved"
        elif hasattr(last, "save"):
            remedy = "Save the model as it is"
        raise TypeError(
            f"model is of type {type(last).__name__}, expected a linear model, "
            "ShallowConvClassifier, wrapper of these or pipeline that ends in one: others have no "
            f"answers-only form. {remedy}."
        )
