"""Explain predictions: compare the scores of a sample with and without each feature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Number
from typing import Any

import numpy as np
from river import base

from onlinels.checks import wrong_type
from onlinels.linear.model import LinearModel, about_mean
from onlinels.pipelines import copied, steps_of
from onlinels.rows.batch import array_in


def feature_effects(model: Any, x: Mapping[Any, Any]) -> dict[Any, dict[Any, float]]:
    """Return the contribution of every feature of a sample to the score of every class or target.

    In a linear model, the effect of a feature is its weight times its difference from the mean of
    all rows learnt; without an intercept, from 0. The effects of all features that the model knows
    add up to the score of the sample minus that of the mean row, which `mean_scores` returns.

    In any other model or pipeline, the effect is the score of the sample minus the score without
    the feature: without its name in the dict, or with 0 in place of an entry of an array. If a step
    of a pipeline needs every name, as river's Select does, a number becomes 0 and a text becomes
    empty. In a stream model by itself, the feature is unknown, which counts as its mean.

    Parameters
    ----------
    model : classifier or regressor of this package, or river pipeline that ends in one
        The model to explain. It does not change.
    x : mapping, or an image for a ShallowConvClassifier
        Feature names to numbers, text or arrays, as in `predict_one`.

    Returns
    -------
    dict of dicts
        Effects by output and by feature. The outputs are the classes, with the scores of
        `scores_one`, also inside a wrapper such as `CalibratedClassifier`; labels without rows that
        were given as `labels`, with effects of 0; the names of several targets; or "prediction".
        Features of an array under the name "h" are ("h", 0), ("h", 1), …

    Raises
    ------
    TypeError
        If `x` is not a mapping, or the model has neither scores nor predictions.

    Notes
    -----
    **Pipelines.** After scalers and encoders that transform features one by one, the effect of a
    feature is its weight times its transformed value; after a scaler the value is measured from the
    mean. The effects and the score of the empty sample sum to the score of the sample.

    **Other models.** After a `HiddenLayer`, and in stream models, the effects are an approximation,
    because features interact: if two features carry the same information, both effects are small.

    **Cost.** For a linear model, that of a prediction; otherwise a copy of the model, and one
    prediction more than there are features.

    Examples
    --------
    >>> from onlinels import LeastSquaresRegressor
    >>> model = LeastSquaresRegressor(ridge=0.0)
    >>> model.learn_many([{"a": 0, "b": 0}, {"a": 1, "b": 0}, {"a": 2, "b": 3}], [1.0, 3.0, 20.0])
    >>> effects = feature_effects(model, {"a": 2, "b": 1})
    >>> {name: round(effect, 9) for name, effect in effects["prediction"].items()}
    {'a': 2.0, 'b': 0.0}
    >>> round(mean_scores(model)["prediction"], 9), round(model.predict_one({"a": 2, "b": 1}), 9)
    (8.0, 10.0)
    """
    if isinstance(x, np.ndarray) and hasattr(model, "image_shape"):
        x = {"image": x}
    array_in(x)
    if is_linear(model):
        with model._lock:
            parts = about_mean(model, x)[0][:, None] * model.output_weights
            columns = zip(named_scores(model, x), parts.T.tolist(), strict=True)
            return {each: dict(zip(model.feature_names, of, strict=True)) for each, of in columns}
    # Copied, because stream models store their predictions.
    model = copied(model)
    scores = named_scores(model, x)
    # Labels that are known beforehand have no scores before their first rows.
    given = getattr(steps_of(model)[-1], "labels", None) or ()
    unseen = [label for label in given if label not in scores]
    effects: dict[Any, dict[Any, float]] = {output: {} for output in (*scores, *unseen)}
    for name, rest, blank in _without_each(x, hasattr(model, "takes_gaps")):
        try:
            others = named_scores(model, rest)
        except KeyError:  # A step needs every name.
            others = named_scores(model, blank)
        for output in unseen:
            effects[output][name] = 0.0
        for output, score in scores.items():
            # Equal scores may be infinite, and their difference NaN.
            other = others.get(output, 0.0)
            effects[output][name] = 0.0 if score == other else score - other
    return effects


def mean_scores(model: LinearModel) -> dict[Any, float]:
    """Return the scores of the mean of all rows that a linear model has learnt, by output.

    Without an intercept, they are the scores of a row of zeros. The outputs are those of
    `feature_effects`.

    Examples
    --------
    >>> from onlinels import LeastSquaresRegressor
    >>> model = LeastSquaresRegressor(ridge=1.0)
    >>> model.learn_many([{"a": 1.0}, {"a": 5.0}], [2.0, 4.0])
    >>> mean_scores(model)
    {'prediction': 3.0}
    """
    if not is_linear(model):
        raise wrong_type("model", model, "a linear model by itself", "Pass the last step.")
    scores = named_scores(model, {})
    effects = feature_effects(model, {})
    return {output: score - sum(effects[output].values()) for output, score in scores.items()}


def is_linear(model: Any) -> bool:
    """Return whether a model is a linear model, and not a pipeline that ends in one."""
    return not steps_of(model)[:-1] and isinstance(model, LinearModel)


def named_scores(model: Any, x: Any) -> dict[Any, float]:
    """Return the score of every class, or the prediction of every target, for one sample."""
    *steps, last = steps_of(model)
    for step in steps:
        x = step.transform_one(x)
    if hasattr(last, "scores_one"):
        return dict(last.scores_one(x))
    if not isinstance(last, (base.Regressor, base.MultiTargetRegressor)):
        remedy = "Of a WindowedClassifier, pass the `classifier` and a window."
        raise wrong_type("model", last, "a classifier with scores_one or a regressor", remedy)
    answer = last.predict_one(x)
    return dict(answer) if isinstance(answer, Mapping) else {"prediction": float(answer)}


def _without_each(
    x: Mapping[Any, Any], takes_gaps: bool
) -> Iterator[tuple[Any, dict[Any, Any], dict[Any, Any]]]:
    """Yield every feature, the sample without its name, and the sample with a blank value.

    If the model takes gaps, the feature is unknown in place of absent.
    """
    for name, value in x.items():
        if isinstance(value, np.ndarray) and value.ndim:
            for place in np.ndindex(value.shape):
                rest = value.copy()
                rest[place] = 0
                yield (name, *place), {**x, name: rest}, {**x, name: rest}
        else:
            blank = 0 if isinstance(value, Number) else "" if isinstance(value, str) else None
            others = dict(x)
            if takes_gaps:
                others[name] = None
            else:
                # Not a comparison of names: a numpy scalar is compared with all entries of a tuple.
                del others[name]
            yield name, others, {**x, name: blank}
