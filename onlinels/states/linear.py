"""What linear layers, and models around them, consist of."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.choice import RidgeChoice
from onlinels.classifier import LeastSquaresClassifier
from onlinels.labels import Classes
from onlinels.linalg.selection import KFold
from onlinels.linear.forgetting import Clock
from onlinels.linear_layer import LinearLeastSquares
from onlinels.multi_target import LeastSquaresMultiTargetRegressor
from onlinels.numerics import Lock
from onlinels.regressor import LeastSquaresRegressor
from onlinels.rows import Columns
from onlinels.saving.fields import (
    ANYTHING,
    FINITE,
    FLAG,
    LABEL,
    MATRIX,
    NOTHING,
    PLACES,
    REAL,
    SHARE,
    TEXT,
    VECTOR,
    WHOLE,
    Field,
    is_instance,
    made_of,
    maybe,
    row,
    table,
)
from onlinels.saving.kinds import State, saved
from onlinels.solution import Solution
from onlinels.states.settings import settings_hold, settings_of


def _solved_state(model: LinearLeastSquares) -> State:
    """Return the state with weights that are solved, if they can be: what predictions need."""
    if not model._is_blank:
        with suppress(ValueError):
            model._solution()
    return dict(model.__getstate__())


def _columns_fit(columns: Any) -> bool:
    numbered = list(columns._index.values()) == list(range(len(columns._index)))
    return numbered and columns._names.keys() == columns._index.keys()


def _classes_fit(classes: Any) -> bool:
    return list(classes._index.values()) == list(range(len(classes._index)))


def _linear_fits(model: Any, n_targets: int) -> bool:
    sums, solved = model._sums, model._solved
    shape = sums.n_features, sums.n_targets
    fits = shape == (len(model._columns), n_targets)
    if solved is not None:
        fits = fits and solved.output_weights.shape == shape
        fits = fits and solved.intercept.shape == (n_targets,)
    clock = model._clock
    fits = fits and clock.forgetting_factor == model.forgetting_factor
    return fits and clock.half_life == model.half_life and settings_hold(model)


def _classifier_fits(model: Any) -> bool:
    n_classes = len(model._classes)
    return len(model._class_counts) <= n_classes and _linear_fits(model, n_classes)


def _regressor_fits(model: Any) -> bool:
    return _linear_fits(model, model._sums.n_targets) and model._sums.n_targets <= max(
        1, len(model._target_names)
    )


SETTING = Field(
    "a number, a timedelta or None",
    lambda value: value is None or isinstance(value, (int, float, np.number, timedelta)),
)
NUMBERED = table(LABEL, WHOLE)

saved(Lock, {}, take=lambda lock: {}, make=lambda state: Lock())
saved(
    Columns,
    {
        "_names": table(LABEL, LABEL),
        "_index": NUMBERED,
        "_lengths": NUMBERED,
        "_plain": FLAG,
        "_last": NOTHING,
    },
    _columns_fit,
)
saved(Classes, {"_index": NUMBERED}, _classes_fit)
saved(KFold, settings_of(KFold), settings_hold)
saved(
    Clock,
    {
        "forgetting_factor": SETTING,
        "half_life": SETTING,
        "now": maybe(FINITE),
        "timed": FLAG,
    },
)
saved(RidgeChoice, {"_setting": ANYTHING, "_selected": maybe(SHARE), "_is_due": FLAG})
saved(
    Solution,
    {
        "setting": ANYTHING,
        "ridge": REAL,
        "output_weights": MATRIX,
        "intercept": VECTOR,
        "spread": NOTHING,
    },
)
LINEAR: dict[str, Field] = {
    "_sums": is_instance(Accumulator),
    "_gathered": NOTHING,
    "_layout": NOTHING,
    "_ridge": ANYTHING,
    "_harmless_square": REAL,
    "_reader": NOTHING,
    "_lock": made_of(Lock),
    "accumulator": TEXT,
    "fit_intercept": ANYTHING,
    "forgetting_factor": ANYTHING,
    "half_life": ANYTHING,
    "_columns": made_of(Columns),
    "_clock": made_of(Clock),
    "_choice": made_of(RidgeChoice),
    "_solved": maybe(made_of(Solution)),
}
saved(
    LeastSquaresClassifier,
    {
        **LINEAR,
        "balance": ANYTHING,
        "_classes": made_of(Classes),
        "_class_counts": PLACES,
    },
    _classifier_fits,
    take=_solved_state,
)
for _regressor in (LeastSquaresRegressor, LeastSquaresMultiTargetRegressor):
    saved(
        _regressor,
        {**LINEAR, "_target_names": row(LABEL)},
        _regressor_fits,
        take=_solved_state,
    )
