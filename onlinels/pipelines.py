"""River pipelines that end in a model of this package: merge, compare and unlearn."""

from __future__ import annotations

import copy
import numbers
import sys
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import reduce
from typing import Any, TypeVar

from river import base

from onlinels.checks import check_kind, differing_settings, refusal, same, wrong_type
from onlinels.features.transformer import FixedTransformer
from onlinels.rows.batch import (
    Batch,
    layout_of,
    matched_by_position,
    part_of,
    samples_of,
    source_of,
)

Model = TypeVar("Model")

FIXED_STEPS = (FixedTransformer,)
"""Steps of this package that learn nothing."""


def is_pipeline(model: Any) -> bool:
    """Return whether a model is a river pipeline."""
    # Not imported here, because river.compose imports narwhals; who has a pipeline has imported it.
    return isinstance(model, getattr(sys.modules.get("river.compose"), "Pipeline", ()))


def steps_of(model: Any) -> list[Any]:
    """Return the steps of a pipeline, or a list of the model itself."""
    return list(model.steps.values()) if is_pipeline(model) else [model]


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline, or the model itself."""
    return steps_of(model)[-1]


def end_of(model: Any) -> tuple[list[Any], Any]:
    """Return the steps before the model at the end of pipelines and wrappers, and this model."""
    *steps, last = steps_of(model)
    if not hasattr(last, "_wrapped_model"):
        return steps, last
    inner, end = end_of(last._wrapped_model)
    return [*steps, *inner], end


def columns_of_rows(model: Any, X: Any) -> Batch:
    """Return the columns in which rows that are learnt one by one reach the end of a model.

    They are those of a frame or an array if the steps before the end keep names; otherwise nothing
    is known of them, as of a list of dicts. The batch has no values.
    """
    source, (steps, _) = source_of(X), end_of(model)
    n_rows = source.shape[0] if hasattr(source, "shape") else len(source)
    layout = layout_of(source) if n_rows else ()
    if layout and steps:
        row = next(iter(samples_of(part_of(source, slice(0, 1)))))
        names = {*row}
        with suppress(Exception):  # Some steps transform no row before they have learnt one.
            for step in steps:
                row = step.transform_one(row)
        layout = layout if {*row} == names else ()
    return Batch(n_rows, dict, (layout,), source if layout else [])


def emptied(model: Any) -> Any:
    """Return a model with the same settings and fixed features that has learnt nothing."""
    if is_pipeline(model):
        return type(model)(*((name, emptied(step)) for name, step in model.steps.items()))
    return model.empty() if hasattr(model, "empty") else model.clone()


def copied(model: Model) -> Model:
    """Return an independent copy, never of a state in the middle of another thread's call."""
    if is_pipeline(model):
        pipeline: Any = model
        return type(model)(*((name, copied(step)) for name, step in pipeline.steps.items()))
    return copy.copy(model) if hasattr(model, "_lock") else copy.deepcopy(model)


def _parts(name: str, step: Any) -> list[tuple[str, Any]]:
    """Return a step with its name, or the parts of a pipeline or union."""
    from river.compose import TransformerUnion

    inner = getattr(step, "steps", None) or getattr(step, "transformers", None)
    if not (inner and (is_pipeline(step) or isinstance(step, TransformerUnion))):
        return [(name, step)]
    return [part for own, each in inner.items() for part in _parts(f"{name}.{own}", each)]


LEARNING_METHODS = {"learn_one": base.Transformer, "learn_many": base.MiniBatchTransformer}
"""Methods that do nothing in these classes; a step that learns overrides them."""


def learns(step: Any) -> bool:
    """Return whether a step before the last one learns from the rows.

    Examples
    --------
    >>> from river import preprocessing
    >>> learns(preprocessing.StandardScaler()), learns(preprocessing.Normalizer())
    (True, False)
    """
    # Imported here, because it takes as long as all of this package.
    from river.feature_extraction import BagOfWords
    from river.preprocessing import OneHotEncoder, StatImputer, impute

    kind = type(step)
    is_plain = isinstance(step, OneHotEncoder) and step.drop_zeros and not step.drop_first
    if is_plain or kind is BagOfWords:
        return False
    if isinstance(step, StatImputer):
        return not all(isinstance(each, impute.Constant) for each in step.stats.values())
    return any(
        getattr(kind, name, None) not in (None, getattr(of, name))
        for name, of in LEARNING_METHODS.items()
    )


def steps_before(model: Any) -> list[tuple[str, Any]]:
    """Return the names and parts of all steps of a pipeline except the last one."""
    steps = list(model.steps.items())[:-1] if is_pipeline(model) else []
    return [part for name, step in steps for part in _parts(name, step)]


def learning_step(model: Any) -> str | None:
    """Return the name of the first step before the last one that learns, or None."""
    return next((name for name, step in steps_before(model) if learns(step)), None)


def check_steps_learn_nothing(model: Any, reason: str) -> None:
    """Raise ValueError, giving the reason, if a step before the last one learns."""
    name = learning_step(model)
    if name is not None:
        remedy = (
            "Leave a scaler out: linear models do not need it, and HiddenLayer.from_examples(X) "
            "fixes scales for hidden units. OneHotEncoder(drop_zeros=True) learns nothing."
        )
        expected = f"only the last step to learn: {reason}"
        raise refusal(f"The step {name!r}", "learns", expected, remedy)


NOT_EXACT_REASON = "its output depends on earlier rows, so rows cannot be added or removed exactly"
"""The reason why pipelines with a step that learns neither merge nor unlearn."""


def _check_same_steps(model: Any, other: Any) -> None:
    """Raise unless two pipelines have the same steps before the last one."""
    if not (is_pipeline(model) and is_pipeline(other)):
        raise wrong_type("other", other, type(model).__name__, "Pass models or pipelines alike.")
    for each in (model, other):
        check_steps_learn_nothing(each, NOT_EXACT_REASON)
    mine, theirs = dict(steps_before(model)), dict(steps_before(other))
    remedy = "Start all from the clone() of one, with a seed if there is one."
    if list(mine) != list(theirs):
        fault = f"have the steps {list(mine)} and {list(theirs)} before the last one"
        raise refusal("Pipelines", fault, "the same", remedy)
    for name, step in mine.items():
        other_step = theirs[name]
        differing = ", ".join(differing_settings(step, other_step))
        # Layers of this package draw weights by name, in any order.
        alike = isinstance(step, FIXED_STEPS) or same(step, other_step)
        if type(step) is not type(other_step) or differing or not alike:
            fault = f"differ in {differing or 'their type or random numbers'}"
            raise refusal(f"The steps {name!r}", fault, "the same in all pipelines", remedy)


def join(model: Model, other: Any) -> Model:
    """Merge another model or pipeline into this one, which is returned; see `merge` for errors."""
    if is_pipeline(model) or is_pipeline(other):
        _check_same_steps(model, other)
        join(last_step(model), last_step(other))
    else:
        _method(model, "merge")(other)
    return model


def _method(model: Any, name: str) -> Any:
    """Return a method of a model, or raise TypeError if it has none."""
    if not hasattr(model, name):
        expected = f"a model with {name} or a pipeline that ends in one"
        remedy = f"Pass models one by one, as in {name}(*models)."
        raise wrong_type("The model", model, expected, remedy)
    return getattr(model, name)


def merge(model: Model, *others: Model) -> Model:
    """Return a new model or pipeline that has learnt the rows of all given ones.

    Parameters
    ----------
    model, *others : models with a `merge` method, or river pipelines that end in one
        Models with the same settings; they stay unchanged. In pipelines, no step before the last
        one may learn, and these steps must be equal: clones of one pipeline
        (``pipeline.clone()``) can be merged.

    Returns
    -------
    model or pipeline
        A model as if it had learnt all rows, in any order.

    Raises
    ------
    TypeError
        If the models are of different types, or have no `merge` method.
    ValueError
        If a step before the last one learns, like river's scalers, or steps or settings differ.

    Notes
    -----
    Cost: a copy of the first model, and the models' own `merge`.

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
    return reduce(join, others, copied(model))


def difference(model: Any, other: Any) -> float:
    """Return the largest relative difference between the sums and the weights of two models.

    Features, and classes or targets, are matched by name; a name that one model lacks counts as 0.
    Two models that have learnt the same rows, in any way, differ by rounding, about 1e-14, and more
    if features are nearly collinear. If one has learnt a row that the other has not, they differ by
    about the share of this row.

    Parameters
    ----------
    model, other : linear models or networks, or river pipelines that end in one
        Models that can be merged: of one class, with the same settings and the same fixed features.

    Returns
    -------
    float
        The largest of these ratios, 0.0 for equal models:

        - differences of sums of products, relative to the roots of both sums of squares
        - differences of means, relative to the root of the mean square
        - the difference of the total weights, relative to the larger one
        - differences of weights times the deviation of the feature, relative to the largest of the
          same class or target

    Raises
    ------
    TypeError, ValueError
        If the models are of different classes, or their settings or features differ.

    Notes
    -----
    With ridge="auto", call `select_ridge` of both models before, so that both select the ridge from
    the same rows. Cost: two copies of the sums, and the solutions if they are not up to date.

    Examples
    --------
    >>> from onlinels import LeastSquaresRegressor
    >>> model, never = LeastSquaresRegressor(ridge=1.0), LeastSquaresRegressor(ridge=1.0)
    >>> model.learn_many([{"a": 1.0}, {"a": 3.0}, {"a": 4.0}], [2.0, 7.0, 1.0])
    >>> never.learn_many([{"a": 1.0}, {"a": 3.0}], [2.0, 7.0])
    >>> difference(model, never) > 0.1
    True
    >>> model.unlearn_one({"a": 4.0}, 1.0)
    >>> difference(model, never) < 1e-13
    True
    """
    if is_pipeline(model) or is_pipeline(other):
        _check_same_steps(model, other)
    return float(_method(last_step(model), "difference")(last_step(other)))


def unlearn_one(model: Any, x: Mapping[Any, Any], y: Any, w: float = 1.0, **when: Any) -> None:
    """Unlearn one sample in a model or pipeline; see `unlearn_many`.

    Examples
    --------
    >>> from onlinels import HiddenLayer, LeastSquaresClassifier
    >>> model = HiddenLayer(5) | LeastSquaresClassifier()
    >>> model.learn_one({"wind": 3.0}, "calm")
    >>> unlearn_one(model, {"wind": 3.0}, "calm")
    >>> model["LeastSquaresClassifier"].count
    0
    """
    _unlearn(model, "one", x, y, w, when)


@matched_by_position
def unlearn_many(model: Any, X: Any, y: Any, w: Any = None, **when: Any) -> None:
    """Unlearn rows in a model or pipeline, as if it had never learnt them.

    Parameters
    ----------
    model : model with an `unlearn_many` method, or river pipeline that ends in one
        Model to change, in place. In a pipeline, no step before the last one may learn.
    X, y, w
        Rows, targets and weights, as for the last step's `unlearn_many`; the other steps transform
        `X` first.
    **when
        `t` or `age`, as for the last step's `unlearn_many`.

    Raises
    ------
    TypeError
        If the model has no such method.
    ValueError
        If a step before the last one learns, like river's scalers, or the last step's
        `unlearn_many` raises. The model is unchanged then.

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
    _unlearn(model, "many", X, y, w, when)


NOT_ASKED = "_", "learn", "unlearn"
"""Beginnings of the names of what `ask` does not ask."""

CHANGES = frozenset(
    {"drop", "fade", "fix_features", "merge", "mutate", "observe_one", "restart", "select_ridge"}
)
"""Methods that change a model, beside those with "learn" in their names."""


def is_asked(question: str) -> bool:
    """Return whether a method or attribute of this name does not change a model.

    Examples
    --------
    >>> is_asked("predict_one"), is_asked("predict_learn_many"), is_asked("drop")
    (True, False, False)
    """
    changes = question in CHANGES or "_learn_" in question
    return not (changes or question.startswith(NOT_ASKED))


def ask(model: Any, question: str, X: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Ask the model at the end of a pipeline what pipelines have no method for.

    Parameters
    ----------
    model : model, or river pipeline that ends in one
        Model or pipeline, which does not change. At the end of a pipeline may also be a wrapper,
        such as a `CalibratedClassifier`, whose model is asked if the wrapper has no such method.
    question : str
        Method or attribute of the model, such as "predict_interval_one" or "weight_errors".
    X : dict, array or frame, optional
        Sample or rows that a method asks about, which the other steps transform: by their
        `transform_many` if the name of the method ends in "many", otherwise by `transform_one`.
    *args, **kwargs
        Other arguments of the method.

    Returns
    -------
    object
        What the method returns, or the attribute. Features have the names that reach the model.

    Raises
    ------
    TypeError, ValueError
        If the question is not a text, if the model has no such method or attribute, or if it is one
        that changes the model.

    Examples
    --------
    >>> from river import preprocessing
    >>> from onlinels import LeastSquaresRegressor
    >>> model = preprocessing.StandardScaler() | LeastSquaresRegressor(ridge=1.0)
    >>> for x in range(9):
    ...     model.learn_one({"x": x}, 2.0 * x + (-1) ** x)
    >>> low, high = ask(model, "predict_interval_one", {"x": 4}, level=0.8)
    >>> low < 8.0 < high, ask(model, "weight_errors").shape
    (True, (1, 1))
    """
    check_kind("question", question, (str,), "a text, such as 'predict_interval_one'.")
    last = last_step(model)
    is_inside = not hasattr(last, question) and hasattr(last, "_wrapped_model")
    if not is_asked(question) or not (is_inside or hasattr(last, question)):
        raise _not_answered(last, question)
    asked = () if X is None else (_transformed(model, question, X),)
    if is_inside:
        return ask(last._wrapped_model, question, *asked, *args, **kwargs)
    found = getattr(last, question)
    return found(*asked, *args, **kwargs) if callable(found) else found


def _not_answered(model: Any, question: str) -> ValueError:
    """Return an error that names the questions that a model answers and that are spelt alike."""
    names = [name for name in dir(model) if is_asked(name)]
    alike = get_close_matches(question, names) or ["predict_one", "classes", "count"]
    known = [repr(name) for name in alike if name in names]
    remedy = f"Pass one of its own, such as {' or '.join(known)}." if known else "Pass a model."
    expected = f"a method or attribute of a {type(model).__name__} that does not change it"
    return refusal("question", f"is {question!r}", expected, remedy)


def _transformed(model: Any, method: str, X: Any) -> Any:
    """Return a sample or rows as the steps before the last one transform them, for a method."""
    if not is_pipeline(model):
        return X
    if isinstance(X, numbers.Number):
        remedy = "Ask the last step, model[-1], itself, as in model[-1].forecast_interval(24, xs)."
        raise wrong_type("X", X, "a sample or rows, which the steps transform", remedy)
    rows = "many" if method.endswith("many") else "one"
    return getattr(model, f"transform_{rows}")(X)


def _unlearn(model: Any, rows: str, X: Any, y: Any, w: Any, when: dict[str, Any]) -> None:
    """Unlearn one or many rows, which the steps before the last one transform."""
    unlearn = _method(last_step(model), f"unlearn_{rows}")
    if is_pipeline(model):
        check_steps_learn_nothing(model, NOT_EXACT_REASON)
        X = _transformed(model, rows, X)
    unlearn(X, y, w, **when)
