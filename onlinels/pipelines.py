"""Pipelines of river that end in a model of this package: steps, merging, answers, unlearning."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from river import base, compose, feature_extraction, preprocessing
from river.preprocessing import impute

from onlinels.checks import same
from onlinels.features.embedding import Embedding
from onlinels.features.hidden import HiddenLayer
from onlinels.features.minirocket import MiniRocketFeatures
from onlinels.features.preprocessing import ImagePreprocessing
from onlinels.features.transformers import FilteringTransformer

Model = TypeVar("Model")

FIXED = (FilteringTransformer, MiniRocketFeatures, HiddenLayer, ImagePreprocessing, Embedding)
"""Steps of this package that learn nothing."""


def is_pipeline(model: Any) -> bool:
    """Tell whether a model is a pipeline of river's."""
    return isinstance(model, compose.Pipeline)


def steps_of(model: Any) -> list[Any]:
    """Return the steps of a pipeline; any other model is its own."""
    return list(model.steps.values()) if is_pipeline(model) else [model]


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline; any other model is its own."""
    return steps_of(model)[-1]


def emptied(model: Any) -> Any:
    """Return a model of the same settings and fixed features that has learnt nothing."""
    if is_pipeline(model):
        return compose.Pipeline(*((name, emptied(step)) for name, step in model.steps.items()))
    return model.empty() if hasattr(model, "empty") else model.clone()


def copied(model: Model) -> Model:
    """Return an independent copy, of no moment amid a call of another thread."""
    if isinstance(model, compose.Pipeline):
        steps = ((name, copied(step)) for name, step in model.steps.items())
        return type(model)(*steps)
    return copy.copy(model) if hasattr(model, "_lock") else copy.deepcopy(model)


def _parts(steps: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield steps by name; in the place of pipelines and unions what these consist of."""
    for name, step in steps.items():
        inner = getattr(step, "steps", None) or getattr(step, "transformers", None)
        if isinstance(step, (compose.Pipeline, compose.TransformerUnion)) and inner:
            yield from _parts(inner, f"{within}{name}.")
        else:
            yield within + name, step


LEARNING = {"learn_one": base.Transformer, "learn_many": base.MiniBatchTransformer}
"""Methods that do nothing in these classes: a step that learns has its own."""


def learns(step: Any) -> bool:
    """Tell whether a step before the last one changes with the rows.

    Examples
    --------
    >>> from river import preprocessing
    >>> learns(preprocessing.StandardScaler()), learns(preprocessing.Normalizer())
    (True, False)
    """
    kind = type(step)
    if isinstance(step, preprocessing.OneHotEncoder) and step.drop_zeros and not step.drop_first:
        return False
    if isinstance(step, preprocessing.StatImputer):
        return not all(isinstance(each, impute.Constant) for each in step.stats.values())
    if kind is feature_extraction.BagOfWords:
        return False
    return any(
        getattr(kind, name, None) not in (None, getattr(of, name)) for name, of in LEARNING.items()
    )


def steps_before(model: Any) -> list[tuple[str, Any]]:
    """Return names and parts of all steps of a pipeline but the last."""
    return list(_parts(dict(list(model.steps.items())[:-1]))) if is_pipeline(model) else []


def learning_step(model: Any) -> str | None:
    """Return the name of the first step of a pipeline before its last one that learns, if any."""
    return next((name for name, step in steps_before(model) if learns(step)), None)


def check_steps_learn_nothing(model: Any, reason: str) -> None:
    """Raise ValueError, for a reason, if a step of a pipeline before its last one learns."""
    name = learning_step(model)
    if name is not None:
        raise ValueError(
            f"The step {name!r} learns, expected steps before the last one that learn nothing: "
            f"{reason}. Leave a scaler out: linear models need none, and "
            "HiddenLayer.from_examples(X) fixes scales for hidden units. "
            "OneHotEncoder(drop_zeros=True) learns nothing."
        )


NOT_EXACT = "its output depends on the rows it had seen, so no rows can be added or removed exactly"
"""Why pipelines with a step that learns neither merge nor unlearn."""


def _check_same_steps(model: Any, other: Any) -> None:
    """Raise unless two pipelines differ in their last step alone."""
    if not (is_pipeline(model) and is_pipeline(other)):
        kinds = f"{type(model).__name__} and {type(other).__name__}"
        raise TypeError(f"Models are of types {kinds}, expected all of one type.")
    for each in (model, other):
        check_steps_learn_nothing(each, NOT_EXACT)
    mine, theirs = dict(steps_before(model)), dict(steps_before(other))
    if list(mine) != list(theirs):
        names = f"{list(mine)} and {list(theirs)} before their last one"
        raise ValueError(f"Pipelines have the steps {names}, expected the same in all.")
    for name, step in mine.items():
        difference = _difference(step, theirs[name])
        if difference:
            came = f"The steps {name!r} differ in {difference}, expected the same in all"
            raise ValueError(f"{came} pipelines. Start all from one's clone().")


def _difference(step: Any, other: Any) -> str:
    """Return in words in what two steps differ that have learnt nothing; "" if they do not."""
    if type(step) is not type(other):
        return f"type: {type(step).__name__} and {type(other).__name__}"
    mine, theirs = step._get_params(), other._get_params()
    for name, value in mine.items():
        if not same(value, theirs[name]):
            return f"{name}: {value!r} and {theirs[name]!r}"
    # Layers of this package draw weights by name, in any order.
    alike = isinstance(step, FIXED) or same(step, other)
    return "" if alike else "what they drew at random (pass a seed, if there is one)"


def join(model: Any, other: Any) -> None:
    """Add what another model or pipeline has learnt, in place; errors are those of `merge`."""
    if is_pipeline(model) or is_pipeline(other):
        _check_same_steps(model, other)
        join(last_step(model), last_step(other))
    else:
        _method(model, "merge")(other)


def _method(model: Any, name: str) -> Any:
    """Return a method of a model, or raise TypeError if it has none."""
    if not hasattr(model, name):
        expected = f"one that has {name}, such as LeastSquaresClassifier, or a pipeline of one"
        raise TypeError(f"The model is of type {type(model).__name__}, expected {expected}.")
    return getattr(model, name)


def merge(model: Model, *others: Model) -> Model:
    """Return a new model or pipeline that has learnt what all have; they stay as they are.

    Parameters
    ----------
    model, *others : models that merge, or river pipelines that end in one
        Of the same settings. Steps of pipelines before the last one learn nothing, and are the same
        in all: ``pipeline.clone()`` makes sites that merge.

    Returns
    -------
    model or pipeline
        As if it had learnt the rows of all, in any order.

    Raises
    ------
    TypeError
        If the models are of several kinds, or do not merge.
    ValueError
        If a step learns, as river's scalers do, or steps or settings differ.

    Notes
    -----
    Costs a copy of the first model, and what the models' own `merge` costs.

    Examples
    --------
    >>> from onlinels import HiddenLayer, LeastSquaresClassifier
    >>> north, south = (HiddenLayer(5) | LeastSquaresClassifier() for _ in range(2))
    >>> north.learn_one({"wind": 3.0}, "calm")
    >>> south.learn_one({"wind": 9.0}, "storm")
    >>> merge(north, south)["LeastSquaresClassifier"].classes
    ('calm', 'storm')
    """
    _method(last_step(model), "merge")
    merged = copied(model)
    for other in others:
        join(merged, other)
    return merged


def unlearn_one(model: Any, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
    """Take one sample out of a model or pipeline again; see `unlearn_many`.

    Examples
    --------
    >>> from onlinels import HiddenLayer, LeastSquaresClassifier
    >>> model = HiddenLayer(5) | LeastSquaresClassifier()
    >>> model.learn_one({"wind": 3.0}, "calm")
    >>> unlearn_one(model, {"wind": 3.0}, "calm")
    >>> model["LeastSquaresClassifier"].count
    0
    """
    unlearn = _method(last_step(model), "unlearn_one")
    if is_pipeline(model):
        check_steps_learn_nothing(model, NOT_EXACT)
        x = model.transform_one(x)
    unlearn(x, y, w)


def unlearn_many(model: Any, X: Any, y: Any, w: Any = None) -> None:
    """Take rows out of a model or pipeline again: it is then as if it had never seen them.

    Parameters
    ----------
    model : model that unlearns, or river pipeline that ends in one
        Steps of a pipeline before the last one learn nothing.
    X, y, w
        As the last step's `unlearn_many` takes them, before the other steps.

    Raises
    ------
    TypeError
        If the model does not unlearn.
    ValueError
        If a step learns, as river's scalers do, or as the last step's `unlearn_many`. Nothing has
        changed then.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinels import HiddenLayer, LeastSquaresRegressor
    >>> model = HiddenLayer(5) | LeastSquaresRegressor()
    >>> model.learn_many(np.eye(3), [1.0, 2.0, 3.0])
    >>> unlearn_many(model, np.eye(3)[:2], [1.0, 2.0])
    >>> model["LeastSquaresRegressor"].count
    1
    """
    unlearn = _method(last_step(model), "unlearn_many")
    if is_pipeline(model):
        check_steps_learn_nothing(model, NOT_EXACT)
        X = model.transform_many(X)
    unlearn(X, y, w)


def predict_learn_many(
    model: Any, X: Any, y: Any, w: Any = None, t: Any = None, **kwargs: Any
) -> Any:
    """Predict every row of a mini-batch before it is learnt, then learn it: model or pipeline.

    This is progressive validation, also called prequential evaluation or test-then-train: the
    result is that of `predict_one` and `learn_one` for one row after the other, at the speed of a
    batch. In a pipeline the steps before the last one transform the whole mini-batch at once, and
    the last one answers and learns.

    Parameters
    ----------
    model : model that has `predict_learn_many`, or river pipeline that ends in one
        No step of a pipeline before the last one learns, and all have `transform_many`.
    X, y, w, t
        As the last step's `learn_many` takes them, before the other steps.
    **kwargs
        Passed on, such as ``with_dist=True`` for regressors.

    Returns
    -------
    array, series or list of n_rows answers
        As the `predict_learn_many` of the last step returns them.

    Raises
    ------
    TypeError
        If the model has no `predict_learn_many`, or a step has no `transform_many`.
    ValueError
        If a step learns, as river's scalers do, or as the last step's `predict_learn_many`. Nothing
        has changed then.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinels import HiddenLayer, LeastSquaresRegressor
    >>> model = HiddenLayer(5) | LeastSquaresRegressor(ridge=1.0)
    >>> predict_learn_many(model, np.ones((3, 2)), [4.0, 4.0, 4.0]).round(3)
    array([0., 4., 4.])
    """
    return _answer_and_learn("predict_learn_many", model, X, y, w, t, kwargs)


def predict_proba_learn_many(
    model: Any, X: Any, y: Any, w: Any = None, t: Any = None, **kwargs: Any
) -> Any:
    """Return the probabilities of every row before it is learnt, then learn it.

    See `predict_learn_many`. The result is that of `predict_proba_one` and `learn_one` for one row
    after the other.

    Returns
    -------
    table (n_rows, n_classes)
        As the `predict_proba_learn_many` of the last step returns it.

    Examples
    --------
    >>> from onlinels import HiddenLayer, LeastSquaresClassifier
    >>> model = HiddenLayer(5) | LeastSquaresClassifier(ridge=1.0)
    >>> predict_proba_learn_many(model, [{"a": 0.0}, {"a": 3.0}, {"a": 4.0}], list("xyy"))[:2]
    [{}, {'x': 1.0}]
    """
    return _answer_and_learn("predict_proba_learn_many", model, X, y, w, t, kwargs)


def answers_at_once(model: Any, name: str) -> bool:
    """Tell whether a pipeline answers batches of any kind by a method of its last step."""
    steps = steps_of(model)
    return hasattr(steps[-1], name) and all(isinstance(step, FIXED) for step in steps[:-1])


def _answer_and_learn(
    name: str, model: Any, X: Any, y: Any, w: Any, t: Any, others: dict[str, Any]
) -> Any:
    """Let a model, or the last step of a pipeline, answer and learn by a method of this name."""
    answer = _method(last_step(model), name)
    if is_pipeline(model):
        one_by_one = "Score row by row: predict_one, then learn_one"
        reason = f"every row is transformed by what the step knows then. {one_by_one}"
        check_steps_learn_nothing(model, reason)
        for step_name, step in steps_before(model):
            if not hasattr(step, "transform_many"):
                came = f"The step {step_name!r} has no transform_many, expected one in every step"
                raise TypeError(f"{came} before the last one. {one_by_one}.")
        X = model.transform_many(X)
    given = {key: value for key, value in (("w", w), ("t", t)) if value is not None}
    return answer(X, y, **given, **others)
