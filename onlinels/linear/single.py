"""What `onlinels.core` is handed to read, predict and learn single rows of a state."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onlinels.checks import Floats, uncast
from onlinels.core import SingleRows
from onlinels.core.constants import (
    AS_THEY_ARE,
    DEVIATIONS,
    EQUAL_PRIORS,
    FOLLOW,
    GIVEN,
    GIVEN_PRIORS,
    HAND_BACK,
    LEARNT_PRIORS,
    MAX_FEATURES_SOLVED,
    MAX_ROUNDING,
    OTHER_PRIORS,
    SOLVE,
)
from onlinels.core.reference import is_one_of
from onlinels.core.rows import SingleRows as InNumpy
from onlinels.linear.following import MIN_SHARE, Following, patience_of
from onlinels.linear.ridge import is_selected, set_checkpoints
from onlinels.linear.scoring import normalized, unseen_classes
from onlinels.numerics import Calls
from onlinels.rows.batch import PLAIN_NUMBER_TYPES, reader_of
from onlinels.rows.labels import Classes, Label
from onlinels.sums.recursion import MAX_RUNNING_LEVERAGE
from onlinels.sums.rows import Rows
from onlinels.sums.subsets import Subsets

if TYPE_CHECKING:
    from onlinels.linear.state import State

LABEL_TYPES = PLAIN_NUMBER_TYPES | {str, np.str_, bytes}
"""Types of labels that are compared without Python code."""

MAX_CLASSES_RULED = 128
"""Number of classes up to which the core finds the discriminants of every row."""

ONE_TARGET = "y"
"""Outputs of a model whose target is one number: not a tuple of names, but this name."""


class CorePriors(NamedTuple):
    """The priors of classes as `onlinels.core` takes them.

    Attributes
    ----------
    kind : int
        `LEARNT_PRIORS`, `EQUAL_PRIORS`, `GIVEN_PRIORS`, or `OTHER_PRIORS`, which other code knows.
    given : ndarray (n_classes,)
        Weights of the priors, unless these are learnt.
    fixed : ndarray (n_labels,)
        Probability of every label where its class has no weight. The last labels are those that no
        row has had.
    hidden : ndarray (n_classes + 1,)
        Weight of a class that rounding hides after removals: that of every class, and the factor
        on the square of its share; see `onlinels.sums.audit.held_targets`.
    """

    kind: int
    given: Floats
    fixed: Floats
    hidden: Floats


def rows_of(state: State) -> Any:
    """Return what reads, predicts and learns single rows in the arrays of a state, or None.

    `onlinels.core` takes these arrays from statistics and recursion by the names of attributes.
    """
    following, statistics, solution = state.following, state.statistics, state.following.solution
    shape = statistics.shape
    if following.rows is not None or not min(shape):
        return following.rows
    constants = None
    state.clock.set_until(None)
    if is_selected(state.settings.ridge):
        set_checkpoints(following, state.penalty, state.subsets.n_folds, state.clock)
        known = state.penalty.constants
        if known is not None and state.penalty.n_varying < len(known):
            constants = known  # If a feature begins to vary, other code learns a row.
    clock, (ridge, scaling), mode = state.clock, ridge_of(state), mode_of(state)
    if mode == FOLLOW and is_solved_in_core(state):
        following.room_for(*shape, statistics.count, ridge)
    targets, labels = _targets_of(state)
    priors, unseen = _priors_of(state, targets)
    rows: Any = SingleRows(
        features=reader_of(state.columns.places, shape[0]),
        targets=targets,
        labels=(*labels, *unseen),
        label_types=LABEL_TYPES,
        whole=statistics,
        inliers=state.subsets.inliers,
        recursion=following.recursion,
        registers=following.registers,
        counts=state.counts,
        constants=constants,
        units=state.penalty.units,
        hands=clock.hands,
        priors=priors,
        ridge=ridge,
        scaling=scaling,
        decay=clock.forgetting_factor,
        most=MAX_RUNNING_LEVERAGE,
        least_share=MIN_SHARE if state.settings.is_recursive and clock.forgets else 0.0,
        patience=patience_of(shape[0]),
        mode=mode,
        learns=learns_rows(state),
        forgets=clock.forgets,
        counts_dates=clock.counts_dates,
        warns=bool(is_selected(state.settings.ridge) and statistics.rounding.squares.any()),
    )
    if solution is not None and solution.n_rows == state.count:
        rows.hold(solution.output_weights)
    return following.hold(rows)


def learns_rows(state: State) -> bool:
    """Return whether the core learns rows of a state, as long as these are plain."""
    return not (state.subsets.folds or (state.clock.forgets and state.statistics.rounding.weight))


def is_solved_in_core(state: State) -> bool:
    """Return whether `onlinels.core` solves the sums of a state, unless it meets few digits."""
    return (
        not issubclass(SingleRows, InNumpy)
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


def _priors_of(state: State, targets: Any) -> tuple[CorePriors | None, Iterable[Label]]:
    """Return the priors of classes, and the labels with a prior that no row has had."""
    priors, rounding = state.settings.priors, state.statistics.rounding
    labels: tuple[Label, ...] = () if priors is None else state.outputs.labels
    n_classes, unseen = len(labels), dict[Label, float]()
    if priors is None:
        return None, unseen
    kind, fixed = LEARNT_PRIORS if priors == "learnt" else EQUAL_PRIORS, np.zeros(n_classes)
    given = np.ones(n_classes)
    if isinstance(priors, Mapping):
        kind = GIVEN_PRIORS
        # Labels that may be compared by Python code are not compared here.
        are_plain = len(targets) == n_classes and all(is_one_of(LABEL_TYPES, k) for k in priors)
        if are_plain:
            unseen = unseen_classes(priors, labels)
            shares = normalized(priors, (*labels, *unseen))
            given, is_named = shares[:n_classes], [k in priors for k in (*labels, *unseen)]
            fixed = np.where(is_named, shares, 0.0)
        else:
            kind = OTHER_PRIORS
    if n_classes > MAX_CLASSES_RULED:
        kind = OTHER_PRIORS
    hidden = MAX_ROUNDING * np.append(rounding.squares[-n_classes:], rounding.weight)
    return CorePriors(kind, given, fixed, hidden), unseen
