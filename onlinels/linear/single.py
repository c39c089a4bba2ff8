"""What `onlinels.core` is handed to read, predict and learn single rows of a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onlinels.checks import Floats
from onlinels.core import SingleRows
from onlinels.core.reference import is_one_of
from onlinels.linear.following import MIN_SHARE, patience_of
from onlinels.linear.ridge import is_selected, set_checkpoints
from onlinels.rows.batch import PLAIN_NUMBER_TYPES, reader_of
from onlinels.rows.labels import Classes
from onlinels.sums.recursion import MAX_RUNNING_LEVERAGE
from onlinels.sums.statistics import Statistics

if TYPE_CHECKING:
    from onlinels.linear.state import State

LABEL_TYPES = PLAIN_NUMBER_TYPES | {str, np.str_, bytes}
"""Types of labels that are compared without Python code."""

ONE_TARGET = "y"
"""Outputs of a model whose target is one number: not a tuple of names, but this name."""


def rows_of(state: State) -> SingleRows | None:
    """Return what reads, predicts and learns single rows in the arrays of a state, or None."""
    following = state.following
    if following.rows is not None or SingleRows is None:
        return following.rows
    statistics, clock, settings = state.statistics, state.clock, state.settings
    if not (statistics.weight and statistics.n_features and statistics.n_targets):
        return None
    constants = None
    if is_selected(settings.ridge):
        set_checkpoints(following, state.penalty, state.subsets.n_folds, clock)
        known = state.penalty.constants
        if known is not None and state.penalty.n_varying < len(known):
            constants = known  # If a feature begins to vary, other code learns a row.
    decay = clock.forgetting_factor
    decays_errors = decay != 1.0 and statistics.rounding.weight
    is_other = clock.half_life is not None or decays_errors or state.subsets.folds
    least = MIN_SHARE if settings.is_recursive and decay != 1.0 else 0.0
    following.rows = single_rows(state, decay, constants, least, learns=not is_other)
    return following.rows


def single_rows(
    state: State,
    decay: float,
    constants: Floats | None = None,
    least: float = 0.0,
    values: Floats | None = None,
    learns: bool = True,
) -> SingleRows:
    """Return what learns single rows in the arrays of a state; see `onlinels.core.reference`.

    With `values`, it is for one row that is read already, and reads none.
    """
    statistics, following = state.statistics, state.following
    recursion, solution = following.recursion, following.solution
    shape = statistics.n_features, statistics.n_targets
    weights = None
    if solution is not None and solution.n_rows == state.count:
        weights = solution.output_weights
    values = np.zeros(sum(shape)) if values is None else values
    inliers = state.subsets.inliers if learns else None
    of_weights = recursion.arrays if recursion else (None, None, weights, None, None, None)
    cross, *panels = statistics.products.row_arrays() or (None,)
    arrays = values, *_row_arrays(statistics, cross if learns else None)
    options = patience_of(shape[0]), recursion is not None and recursion.trust < 1.0
    return SingleRows(
        reader_of(state.columns.met, shape[0]),
        *_targets_of(state),
        LABEL_TYPES,
        (*arrays, *of_weights, following.marks, state.counts, constants, *panels),
        decay,
        MAX_RUNNING_LEVERAGE,
        least,
        *options,
        state.clock.forgets,
        *(() if inliers is None else (_rows_of_inliers(inliers, decay, values),)),
    )


def _row_arrays(statistics: Statistics, cross: Any) -> tuple[Any, ...]:
    mean = statistics.mean or (None, None)  # Origin and offset.
    return statistics.tally, *mean, cross, statistics.squares_of_targets, statistics.prints


def _rows_of_inliers(statistics: Statistics, decay: float, values: Floats) -> SingleRows:
    """Return what learns the rows that a model reads into the statistics of its inliers."""
    cross, *panels = statistics.products.row_arrays()
    arrays = (values, *_row_arrays(statistics, cross), *[None] * 9, *panels)
    reader = reader_of({}, statistics.n_features)
    return SingleRows(
        reader, None, (), LABEL_TYPES, arrays, decay, MAX_RUNNING_LEVERAGE, 0.0, 0.0, False, False
    )


def _targets_of(state: State) -> tuple[Any, Any]:
    """Return how targets of single rows are read, and the labels."""
    outputs = state.outputs
    if isinstance(outputs, Classes):
        # If the names may be compared by Python code, no row is known.
        are_plain = all(is_one_of(LABEL_TYPES, name) for name in outputs.index)
        return outputs.index if are_plain else {}, outputs.labels
    if isinstance(outputs, str):
        return None, ()
    places: dict[Any, Any] = {name: column for column, name in enumerate(outputs)}
    if not all(is_one_of(LABEL_TYPES, name) for name in places):
        places = {}
    return reader_of(places, len(outputs)), ()
