"""States from files and pickles of format 3, in which a model held what its state holds now."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinels.linear.following import Following, former_registers, registers_are_sound
from onlinels.linear.state import State
from onlinels.rows.times import from_seconds
from onlinels.sums.folds import name_hashes
from onlinels.sums.statistics import Statistics
from onlinels.sums.subsets import Subsets, subsets_are_sound


def former_state(parts: dict[str, Any], outputs: Any) -> State:
    """Return the state of a model, given its attributes, and outputs that all its models have."""
    columns, counts = parts["_columns"], parts.get("_class_counts")
    # Earlier, there was one register less among the first, and a 0 in its place.
    following = Following.restored(
        former_registers(parts["_marks"]), parts["_recursion"], parts["_solution"]
    )
    penalty, clock = parts["_penalty"], parts["_clock"]
    # Earlier, times of dates were seconds.
    until = from_seconds(penalty.until_time, clock.counts_dates)
    subsets = _subsets_of(parts["_statistics"], columns.names)
    if not (subsets_are_sound(subsets) and registers_are_sound(following)):
        raise ValueError("its sums do not fit each other")
    return State(
        parts["_settings"],
        columns,
        outputs or parts["_target_names" if counts is None else "_classes"],
        None if counts is None else np.asarray(counts, dtype=np.float64),
        subsets,
        clock,
        penalty.changed(until_time=until),
        following,
    )


def _subsets_of(former: Any, names: Any) -> Subsets:
    """Return statistics of all rows with those that they held: without outliers, and of folds."""
    parts = dict(vars(former))
    inliers, folds = parts.pop("_beside", None), parts.pop("_folds", ())
    for name in ("_hashes", "_n_named"):
        parts.pop(name, None)
    within = tuple(_subsets_of(fold, names) for fold in folds)
    hashes = name_hashes(names if folds else ())
    return Subsets(Statistics(**parts), inliers, within, hashes)
