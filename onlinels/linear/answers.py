"""Linear models without sums: they predict like the full model, and cannot learn or merge."""

from __future__ import annotations

import inspect
from sys import maxsize
from typing import Any, NamedTuple

import numpy as np

from onlinels.accumulators.mean import Mean
from onlinels.accumulators.statistics import Statistics
from onlinels.accumulators.sums import SumsOfProducts
from onlinels.checks import Matrix
from onlinels.labels import Classes
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.discriminant import Discriminant
from onlinels.linear.model import LinearModel, Settings, Solution, linear_is_sound
from onlinels.linear.penalty import Penalty
from onlinels.linear.regressors import LeastSquaresMultiTargetRegressor, LeastSquaresRegressor
from onlinels.rows import Columns, Name
from onlinels.saving import savable
from onlinels.saving.classes import WRITTEN_FORMS

MODELS: dict[str, type[LinearModel]] = {
    kind.__name__: kind
    for kind in (LeastSquaresClassifier, LeastSquaresRegressor, LeastSquaresMultiTargetRegressor)
}

NO_SUMS = (
    "This model was made by answers_only: it holds output weights and no sums, expected a model "
    "with its sums to learn, merge, unlearn, change ridge or priors, or compute variances. Keep "
    "the full model, or the file that its save wrote, and do this there."
)


def _refuse(*args: Any) -> Any:
    """Raise ValueError, because the model has no sums."""
    raise ValueError(NO_SUMS)


refused: Any = _refuse


class NoSums(SumsOfProducts):
    """Placeholder for the sums of an answers-only model, with their shape alone."""

    form = "none"

    def __init__(self, n_features: int, n_targets: int) -> None:
        self._shape = n_features, n_targets

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and of targets."""
        return self._shape

    check_has_sums = plan_rows = add = reindexed = gram_and_cross = squares = refused
    solve = covariance = explained_squares = refused


class Answers(NamedTuple):
    """The parts of a linear model that predictions need: its state in an answers-only file.

    Attributes
    ----------
    model : str
        Name of the class.
    names : tuple, or None
        Names of the features; None if they are 0, 1, …
    output_weights : ndarray (n_features, n_targets)
        The output weights, as float32 if float32 represents all of them exactly.
    centre : ndarray (1, n_features), float32, or None
        Numbers near the means of the features, from which an export subtracts rows.
    """

    model: str
    settings: Settings
    names: tuple[Name, ...] | None
    lengths: dict[Name, int]
    plain: bool
    outputs: tuple[Any, ...]
    class_counts: tuple[int, ...]
    n_rows: int
    weight: float
    ridge: float
    output_weights: Matrix
    intercept: tuple[float, ...]
    rule: Discriminant | None
    centre: Matrix | None


MAX_UNSTORED_MEAN = 10.0
"""Largest mean, in standard deviations, without which rounded weights or rows lose one digit."""


def _centre_of(statistics: Statistics) -> Matrix | None:
    """Return the means (1, n_features) as float32, about which rows lose no digits; None if near 0.

    An answers-only model keeps the means that it has.
    """
    mean = statistics.feature_mean
    if not isinstance(statistics.products, NoSums):
        deviations = statistics.deviations
        mean = np.where(deviations > 0.0, mean, 0.0)
        if not (np.abs(mean) > MAX_UNSTORED_MEAN * deviations).any():
            return None
    largest = np.finfo(np.float32).max
    centre = np.clip(mean, -largest, largest).astype(np.float32)
    return centre[None] if centre.any() else None


def answers_of(model: LinearModel, float32: bool = False) -> Answers:
    """Return the parts of a model that predictions need, with weights rounded to float32 or not."""
    counts: tuple[int, ...] = ()
    rule = None
    if isinstance(model, LeastSquaresClassifier):
        counts = tuple(model._class_counts)
        rule = None if model.priors is None else model._rule()
    ridge, _, weights, intercept, *_ = model._solved()
    with np.errstate(over="ignore"):
        rounded = weights.astype(np.float32)
    is_rounded = bool((rounded == weights).all())
    if float32 and not is_rounded:
        model._statistics.products.check_has_sums()
        if not np.isfinite(rounded).all():
            raise ValueError(
                f"float32=True, but output weights are as large as {np.abs(weights).max():g}, "
                "expected weights that float32 holds. Pass float32=False, or rescale the features."
            )
        # With the intercept of the rounded weights, errors scale with a row's distance to the mean.
        intercept = model._statistics.intercept(rounded.astype(np.float64))
    names, columns = model.feature_names, model._columns
    return Answers(
        type(model).__name__,
        model._settings,
        None if names == tuple(range(len(names))) else names,
        columns._lengths,
        columns._plain,
        tuple(model._outputs),
        counts,
        model.count,
        model._statistics.weight,
        ridge,
        rounded if float32 or is_rounded else weights,
        tuple(intercept.tolist()),
        rule,
        _centre_of(model._statistics),
    )


def model_of(answers: Answers) -> LinearModel:
    """Return a model that predicts with the given weights; raise ValueError if parts do not fit."""
    kind, outputs = MODELS[answers.model], answers.outputs
    settings = {
        name: getattr(answers.settings, name) for name in inspect.signature(kind).parameters
    }
    model, size = kind(**settings), answers.output_weights.shape
    names = tuple(range(size[0])) if answers.names is None else answers.names
    statistics = Statistics(NoSums(*size), model.fit_intercept)
    statistics._count, statistics._weight = answers.n_rows, answers.weight
    if answers.centre is not None:
        if answers.centre.shape != (1, size[0]):
            fault = f"centre has the shape {answers.centre.shape}, expected {(1, size[0])}"
            raise ValueError(f"{fault}. Save the model again.")
        origin = np.zeros(sum(size))
        origin[: size[0]] = answers.centre[0]
        statistics._mean = Mean(origin, np.zeros(sum(size)))
    state: dict[str, Any] = {
        "_columns": Columns.known(names, answers.lengths, answers.plain),
        "_statistics": statistics,
        "_penalty": Penalty(answers.ridge, is_due=False, until=maxsize),
        "_solution": Solution(
            answers.ridge,
            None,
            answers.output_weights.astype(np.float64, order="F"),
            np.array(answers.intercept, dtype=np.float64),
            rule=answers.rule,
        ),
        model._names_outputs: outputs,
    }
    if isinstance(model, LeastSquaresClassifier):
        state |= {"_classes": Classes().extended(outputs)}
        state |= {"_class_counts": list(answers.class_counts)}
    vars(model).update(state)
    return model


def _are_sound(model: Any) -> bool:
    counts, rule = getattr(model, "_class_counts", model._outputs), model._solution.rule
    has_rule = getattr(model, "priors", None) is not None
    n_targets = len(model._outputs)
    fits = has_rule == (rule is not None) and len(counts) == n_targets
    if rule is not None:
        shapes = rule.matrix.shape, rule.constant.shape
        fits = fits and shapes == ((n_targets, n_targets), (n_targets,))
    return fits and linear_is_sound(model)


savable(_are_sound, make=lambda state: model_of(Answers(**state)))(Answers)


def _written(model: Any) -> Any:
    """Return the object to write to a file in place of a model."""
    return answers_of(model) if isinstance(model._statistics.products, NoSums) else model


WRITTEN_FORMS.update(dict.fromkeys(MODELS.values(), _written))
