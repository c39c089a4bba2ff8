"""Answers-only models: they predict as the full model does, and their files hold no sums."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from onlinels.checks import check_flag
from onlinels.linear.answers import MODELS, answers_of, model_of
from onlinels.network import ShallowConvClassifier
from onlinels.numerics import all_held
from onlinels.pipelines import last_step
from onlinels.saving import files
from onlinels.saving.description import Writer
from onlinels.wrappers import MetaClassifier

Model = TypeVar("Model")

SUMS = re.compile(r"\._(statistics|penalty|running)\.")
WEIGHTS = re.compile(r"\.(_solution|output_weights|rule)\b")
"""Parts of the paths of arrays in a file."""


def answers_only(model: Model, float32: bool = False) -> Model:
    """Return a copy of a model that predicts, and holds no sums: a small file to deploy.

    The copy holds settings, fixed features, output weights and labels. It cannot learn, merge,
    unlearn, change its ridge or priors, or compute variances: these raise ValueError. Keep the full
    model, or its file, to learn on. The copy is saved, loaded and pickled like any model.

    Parameters
    ----------
    model : linear model, ShallowConvClassifier, wrapper of these, or pipeline that ends in one
        It stays as it is. A wrapper is a CalibratedClassifier, DriftAwareClassifier or
        WindowedClassifier.
    float32 : bool
        Whether output weights are rounded to float32, which halves their bytes in the file.
        Predictions are still computed in float64. A least-squares score changes by at most
        ``2^-24 sum_j |x_j - m_j| |W_jk|``, where m is the mean of the rows learnt (0 without an
        intercept), plus the rounding errors of float64. Weights below 1e-38 lose more digits.

    Returns
    -------
    model
        Of the same class. Without float32, scores and probabilities are those of the model to the
        last bit where it predicts by solved weights, and equal to rounding where a running or
        recursive solution predicts single rows.

    Raises
    ------
    TypeError
        If the model is of another class. StreamClassifier and StreamRegressor adapt with every row:
        they have no answers-only form.
    ValueError
        If the features of a network are not fixed yet, or a weight exceeds float32. If float32 is
        asked of a model that is answers-only already: the means are not in it.

    Notes
    -----
    What the file still tells of the rows learnt: labels, their counts and the number of rows;
    output weights, which few rows in many features may determine; and, of features that were made
    by `from_examples` or in a warm-up, the examples or functions of them. Landmarks and differences
    of a HiddenLayer are features of examples, and its scales come from them; filters from patches
    are pieces of images, or averages of these; ZCA holds their mean and covariance; MiniRocket's
    biases are convolution values of examples. A river scaler holds means and variances. A
    WindowedClassifier holds the readings of its last window; `restart` drops them.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinels import LeastSquaresClassifier, dumps
    >>> X, y = np.random.default_rng(0).normal(size=(500, 64)), ["a", "b"] * 250
    >>> model = LeastSquaresClassifier()
    >>> model.learn_many(X, y)
    >>> small = answers_only(model)
    >>> len(dumps(model)) // 1000, len(dumps(small)) // 1000, small.predict_one({0: 0.5})
    (43, 1, 'b')
    """
    check_flag("float32", float32)
    with all_held(*files.locks_of(model)):
        linear = list(_linear_models(model))
        # Whatever holds them: a deep copy holds these in their place, and copies no sums.
        memo = {id(each): model_of(answers_of(each, float32)) for each in linear}
        return copy.deepcopy(model, memo)


def saved_bytes(model: Any) -> dict[str, int]:
    """Return the bytes that arrays take in a save: sums, output weights, fixed features.

    Parameters
    ----------
    model : as `answers_only` takes it

    Returns
    -------
    dict
        "sums" holds what only learning needs. "weights" is 0 before weights are solved for, such as
        by a prediction. "features" includes all other arrays: input weights, filters, windows.

    Raises
    ------
    TypeError
        As `answers_only`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinels import HiddenLayer, LeastSquaresRegressor
    >>> model = HiddenLayer(100) | LeastSquaresRegressor()
    >>> model.learn_many(np.eye(3), [1.0, 2.0, 3.0])
    >>> saved_bytes(model)
    {'sums': 84032, 'weights': 0, 'features': 3200}
    >>> saved_bytes(answers_only(model))
    {'sums': 0, 'weights': 800, 'features': 3200}
    """
    with all_held(*files.locks_of(model)):
        list(_linear_models(model, is_fixed=False))
        writer = Writer()
        writer.node(model, type(model).__name__)
    sizes = {"sums": 0, "weights": 0, "features": 0}
    for path, array in writer.arrays.items():
        kind = "sums" if SUMS.search(path) else "weights" if WEIGHTS.search(path) else "features"
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
        # scikit-learn's face, and a stream's model.
        remedy = "Pass model.to_river()" if hasattr(last, "to_river") else "Save the model as it is"
        raise TypeError(
            f"model is of type {type(last).__name__}, expected a linear model, "
            "ShallowConvClassifier, wrapper of these or pipeline that ends in one: others have no "
            f"answers-only form. {remedy}."
        )
