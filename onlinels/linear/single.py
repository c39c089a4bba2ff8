"""What `onlinels.core` is handed to read, predict and learn single rows of a state."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinels.checks import Floats, uncast
from onlinels.core import SingleRows
from onlinels.core.constants import (
    AS_THEY_ARE,
    DEVIATIONS,
    FOLLOW,
    GIVEN,
    HAND_BACK,
    MAX_FEATURES_SOLVED,
    SOLVE,
)
from onlinels.core.reference import is_one_of
from onlinels.core.rows import SingleRows as InNumpy
from onlinels.linear.following import MIN_SHARE, Following, patience_of
from onlinels.linear.ridge import is_selected, set_checkpoints
from onlinels.numerics import Calls
from onlinels.rows.batch import PLAIN_NUMBER_TYPES, reader_of
from onlinels.rows.labels import Classes
from onlinels.sums.recursion import MAX_RUNNING_LEVERAGE
from onlinels.sums.rows import Rows
from onlinels.sums.subsets import Subsets

if TYPE_CHECKING:
    from onlinels.linear.state import State

LABEL_TYPES = PLAIN_NUMBER_TYPES | {str, np.str_, bytes}
"""Types of labels that are compared without Python code."""

ONE_TARGET = "y"
"""Outputs of a model whose target is one number: not a tuple of names, but this name."""


def rows_of(state: State) -> Any:
    """Return what reads, predicts and learns single rows in the arrays of a state, or None.

    `onlinels.core` takes these arrays from statistics and recursion by the names of attributes.
    """
    following, statistics, solution = state.following, state.statistics, state.following.solution
    shape = statistics.shape
    if following.rows is not None or not min(shape):
        return following.rows
    constants = None
    if is_selected(state.settings.ridge):
        set_checkpoints(following, state.penalty, state.subsets.n_folds, state.clock)
        known = state.penalty.constants
        if known is not None and state.penalty.n_varying < len(known):
            constants = known  # If a feature begins to vary, other code learns a row.
    decay, ridge, scaling = state.clock.forgetting_factor, *ridge_of(state)
    mode = mode_of(state)
    if mode == FOLLOW and is_solved_in_core(state):
        following.room_for(*shape, statistics.count, ridge)
    decays_errors = decay != 1.0 and statistics.rounding.weight
    is_other = state.clock.half_life is not None or decays_errors or state.subsets.folds
    targets, labels = _targets_of(state)
    rows: Any = SingleRows(
        features=reader_of(state.columns.places, shape[0]),
        targets=targets,
        labels=labels,
        label_types=LABEL_TYPES,
        whole=statistics,
        inliers=state.subsets.inliers,
        recursion=following.recursion,
        registers=following.registers,
        counts=state.counts,
        constants=constants,
        units=state.penalty.units,
        ridge=ridge,
        scaling=scaling,
        decay=decay,
        most=MAX_RUNNING_LEVERAGE,
        least_share=MIN_SHARE if state.settings.is_recursive and decay != 1.0 else 0.0,
        patience=patience_of(shape[0]),
        mode=mode,
        learns=not is_other,
        forgets=state.clock.forgets,
        warns=bool(is_selected(state.settings.ridge) and statistics.rounding.squares.any()),
    )
    if solution is not None and solution.n_rows == state.count:
        rows.hold(solution.output_weights)
    return following.hold(rows)


def is_solved_in_core(state: State) -> bool:
    """Return whether `onlinels.core` solves the sums of a state, unless it meets few digits."""
    return (
        getattr(SingleRows, "solves", True)
        and state.statistics.n_features <= MAX_FEATURES_SOLVED
        and bool(state.statistics.products.row_arrays())
        and not state.subsets.folds
    )


def mode_of(state: State) -> int:
    """Return how `onlinels.core` answers questions about a state."""
    if is_solved_in_core(state):
        return FOLLOW if follows_rows(state) else SOLVE
    recursion = state.following.recursion
    return HAND_BACK if recursion is None or recursion.trust < 1.0 else FOLLOW


def follows_rows(state: State) -> bool:
    """Return whether a recursion can follow the rows of a state.

    Before a ridge is selected, the paper's ridge is in force, which changes with every row.
    """
    is_paper = state.penalty.ridge is None and not isinstance(state.settings.ridge, numbers.Real)
    return state.settings.follows_rows and not is_paper


def ridge_of(state: State) -> tuple[float, int]:
    """Return the ridge c of a state, -1.0 for the paper's, and what it acts on."""
    ridge, scaling = state.penalty.ridge, AS_THEY_ARE if state.penalty.units is None else GIVEN
    if ridge is None:
        is_number = isinstance(state.settings.ridge, numbers.Real)
        ridge = float(state.settings.ridge) if is_number else -1.0
    return ridge, DEVIATIONS if state.settings.own_scaling == "standard" else scaling


def learn_in_place(state: State, rows: Rows) -> bool:
    """Learn a row that changes numbers alone, where no compiler was; return whether it is one."""
    targets, is_known = rows.targets, rows.columns is state.columns
    if len(targets) != 1 or not is_known or rows.shape != state.statistics.products.shape:
        return False
    single = rows_of(state)
    column = int(targets[0]) if targets.ndim == 1 else 0
    return isinstance(single, InNumpy) and single.learn_read(
        row_of(rows), float(np.max(rows.w)), column
    )


def row_calls(state: State, fold: Subsets | None, rows: Rows, decay: float) -> Calls:
    """Return the calls that learn a row, after a decay, into the arrays of a state and a fold."""
    single: Any = rows_of(state)
    row, w = row_of(rows), float(np.max(rows.w))
    if isinstance(single, InNumpy):
        calls: Calls = tuple(single.learning(row, w, decay))
    else:
        calls = ((single.learn_checked, row, w, decay),)
    if fold is not None:
        of_fold = replace(state, subsets=fold, counts=None, following=Following())
        calls += row_calls(of_fold, None, rows, decay)
    return calls


def row_of(rows: Rows) -> Floats:
    """Return a row followed by its targets."""
    row, (n_features, _) = np.zeros(sum(rows.shape)), rows.shape
    row[:n_features] = uncast(rows.values)[0]
    if rows.targets.ndim == 1:
        row[n_features + rows.targets[0]] = 1.0
    else:
        row[n_features:] = rows.targets[0]
    return row


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
