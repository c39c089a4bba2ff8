"""What `onlinels.core` is handed to read, predict and learn single rows of a state."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
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
    IS_SCALED,
    LEARNT_PRIORS,
    MAX_FEATURES_SOLVED,
    MAX_ROUNDING,
    OTHER_PRIORS,
    RIDGE,
    SOLVE,
)
from onlinels.core.reference import is_one_of
from onlinels.linear.following import MIN_SHARE, Following
from onlinels.linear.ridge import KINDS_OF_UNITS, core_choice, is_selected
from onlinels.linear.scoring import normalized, unseen_classes
from onlinels.linear.settings import Settings
from onlinels.numerics import Calls
from onlinels.rows.batch import PLAIN_NUMBER_TYPES, reader_of
from onlinels.rows.labels import Classes, Label
from onlinels.rows.times import DATES_OF_CORE
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


class Known(NamedTuple):
    """What follows from the settings of a model alone, as `onlinels.core` takes it.

    Attributes
    ----------
    ridge : float
        The ridge before one is selected, -1.0 for the paper's.
    is_selected, follows, is_standard, forgets : bool
        Whether a ridge is selected at checkpoints; whether a recursion can follow rows; whether the
        ridge acts on the deviations of features as they are now; whether weights decay.
    least_share : float
        Share of the ridge below which it is restored; 0.0 if it does not decay.
    kinds : int
        The units that a selected ridge may act on.
    """

    ridge: float
    is_selected: bool
    follows: bool
    is_standard: bool
    forgets: bool
    least_share: float
    kinds: int


def known_of(settings: Settings) -> Known:
    """Return what follows from settings; a stream of texts asks for it with nearly every row."""
    ridge, accumulator, _, forgetting_factor, half_life, _, scaling, _ = settings
    return _known_of(ridge, accumulator, forgetting_factor, half_life, scaling)


@lru_cache(maxsize=64)
def _known_of(ridge: Any, accumulator: Any, factor: Any, half_life: Any, scaling: Any) -> Known:
    settings = Settings(ridge, accumulator, True, factor, half_life, None, scaling)
    forgets, own = factor != 1.0 or half_life is not None, settings.own_scaling
    return Known(
        ridge=float(ridge) if isinstance(ridge, numbers.Real) else -1.0,
        is_selected=is_selected(ridge),
        follows=settings.follows_rows,
        is_standard=own == "standard",
        forgets=forgets,
        least_share=MIN_SHARE if settings.is_recursive and forgets else 0.0,
        kinds=KINDS_OF_UNITS[own],
    )


def rows_of(state: State) -> Any:
    """Return what reads, predicts and learns single rows in the arrays of a state, or None.

    `onlinels.core` takes these arrays from statistics and recursion by the names of attributes.
    """
    following, statistics, clock = state.following, state.subsets.whole, state.clock
    if following.rows is not None:
        return following.rows
    n_features, n_targets = statistics.products.shape
    if SingleRows is None or not (n_features and n_targets):
        return None
    known, choice = known_of(state.settings), state.penalty.numbers
    chosen, count = float(choice[RIDGE]), float(statistics.numbers[0])
    ridge = known.ridge if chosen != chosen else chosen
    kind = GIVEN if choice[IS_SCALED] else AS_THEY_ARE
    is_solved, mode = is_solved_in_core(state), FOLLOW if known.follows else SOLVE
    if not is_solved:
        recursion = following.recursion
        mode = HAND_BACK if recursion is None or recursion.trust < 1.0 else FOLLOW
    elif known.follows:
        following.room_for(n_features, n_targets, count, ridge if ridge > 0.0 else 1.0)
    if clock.hands is not None:
        clock.set_until(state.penalty.until_time)
    targets, names = _targets_of(state)
    priors, unseen = (None, ()) if state.settings.priors is None else _priors_of(state, targets)
    solution = following.solution
    rows: Any = SingleRows(
        features=state.columns.reader,
        targets=targets,
        names=(*names, *unseen) if unseen else names,
        label_types=LABEL_TYPES,
        whole=statistics,
        inliers=state.subsets.inliers,
        recursion=following.recursion,
        registers=following.registers,
        counts=state.counts,
        choice=core_choice(state, known.kinds) if known.is_selected else None,
        hands=clock.hands,
        priors=priors,
        ridge=ridge,
        scaling=DEVIATIONS if known.is_standard else kind,
        decay=clock.forgetting_factor,
        least_share=known.least_share,
        mode=mode,
        dates=DATES_OF_CORE if clock.counts_dates else None,
        learns=takes_rows(state),
        warns=known.is_selected and np.count_nonzero(statistics.rounding.squares) > 0,
    )
    if solution is not None and solution.n_rows == count:
        rows.hold(solution.output_weights)
    return following.hold(rows)


def is_learnt_in_core(state: State, row: Rows) -> bool:
    """Return whether the core can learn a row, with its weight, into the sums of a state."""
    is_there = SingleRows is not None and bool(state.statistics.products.row_arrays())
    return is_there and min(row.shape) > 0 and bool(np.max(row.w) > 0.0)


def takes_rows(state: State) -> bool:
    """Return whether the core learns rows of a state, as long as these are plain."""
    clock, subsets = state.clock, state.subsets
    decays_errors = subsets.whole.rounding.weight and clock.forgets
    can = SingleRows is not None and not (decays_errors or subsets.folds)
    return can and clock.is_told


def is_solved_in_core(state: State) -> bool:
    """Return whether `onlinels.core` solves the sums of a state, unless it meets few digits."""
    subsets, products = state.subsets, state.subsets.whole.products
    can = SingleRows is not None and bool(products.allows_recursion)
    return can and products.shape[0] <= MAX_FEATURES_SOLVED and not subsets.folds


def follows_rows(state: State) -> bool:
    """Return whether a recursion can follow the rows of a state.

    Before a ridge is selected, the paper's ridge is in force, which changes with every row.
    """
    is_paper = state.penalty.ridge is None and not isinstance(state.settings.ridge, numbers.Real)
    return state.settings.follows_rows and not is_paper


def row_calls(state: State, fold: Subsets | None, rows: Rows, decay: float) -> Calls:
    """Return the calls that learn a row, after a decay, into the arrays of a state and a fold."""
    row, w = row_of(rows), float(np.max(rows.w))
    calls: Calls = ((rows_of(state).learn_checked, row, w, decay),)
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
    """Return how targets of single rows are read, and the names of classes or targets."""
    outputs = state.outputs
    if isinstance(outputs, Classes):
        # If the names may be compared by Python code, no row is known.
        are_plain = outputs.are_plain or all(is_one_of(LABEL_TYPES, k) for k in outputs.index)
        return outputs.index if are_plain else {}, outputs.labels
    if isinstance(outputs, str):
        return None, ()
    places: dict[Any, Any] = {name: column for column, name in enumerate(outputs)}
    if not all(is_one_of(LABEL_TYPES, name) for name in places):
        places = {}
    return reader_of(places, len(outputs)), outputs


def _priors_of(state: State, targets: Any) -> tuple[CorePriors, Iterable[Label]]:
    """Return the priors of classes, and the labels with a prior that no row has had."""
    priors, rounding = state.settings.priors, state.subsets.whole.rounding
    labels: tuple[Label, ...] = state.outputs.labels
    n_classes, unseen = len(labels), dict[Label, float]()
    kind = LEARNT_PRIORS if priors == "learnt" else EQUAL_PRIORS
    # A fresh model asks for these with its first rows: np.ones and np.full take ten times as long.
    given, fixed, hidden = np.zeros(n_classes), np.zeros(n_classes), np.zeros(n_classes + 1)
    given += 1.0
    if isinstance(priors, dict):
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
    if not rounding.is_none:
        hidden[:-1], hidden[-1] = rounding.squares[-n_classes:], rounding.weight
        hidden *= MAX_ROUNDING
    return CorePriors(kind, given, fixed, hidden), unseen
