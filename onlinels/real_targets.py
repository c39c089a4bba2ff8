"""Targets that are numbers: one per row, or several by name."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onlinels.checks import LARGEST_VALUE, Floats, as_number, check_matrix, check_values, shown
from onlinels.labels import as_list
from onlinels.rows import Name, plain_name, read_frame

REMEDY = "Leave rows without a target out."


def read_target(y: Any, argument: str = "y") -> float:
    """Return a target as a float.

    Raises
    ------
    TypeError
        If it is no number.
    ValueError
        If it is None, NaN, infinite, or of magnitude over 1e150.

    Examples
    --------
    >>> read_target(np.int64(3)), read_target(True)
    (3.0, 1.0)
    """
    if y is None:
        raise ValueError(f"{argument} is None, expected a number. {REMEDY}")
    number = as_number(y)
    if number is None:
        raise TypeError(
            f"{argument} is {reprlib.repr(y)} of type {type(y).__name__}, expected a number. "
            "Labels are for a classifier, several targets for LeastSquaresMultiTargetRegressor."
        )
    if not abs(number) <= LARGEST_VALUE:
        raise ValueError(
            f"{argument} is {shown(y, number)}, expected a finite number of magnitude at most "
            f"{LARGEST_VALUE:g}. {REMEDY} Rescale large targets."
        )
    return number


def read_targets(y: Any, n_rows: int) -> Floats:
    """Return the targets of a batch as a column (n_rows, 1).

    Parameters
    ----------
    y : array, series (pandas, polars, pyarrow …) or list of n_rows numbers
    n_rows : int

    Raises
    ------
    TypeError, ValueError
        If it is none of these, a target is no finite number, or their number is not `n_rows`.

    Examples
    --------
    >>> read_targets([1, 2.5], n_rows=2)
    array([[1. ],
           [2.5]])
    """
    if getattr(y, "ndim", 1) != 1 or (hasattr(y, "columns") and hasattr(y, "shape")):
        raise ValueError(
            f"y has shape {y.shape}, expected (n_rows,). Pass one target per row; several targets "
            "are for LeastSquaresMultiTargetRegressor."
        )
    values = y
    if not isinstance(y, np.ndarray) or y.dtype.kind not in "biuf" or np.ma.isMaskedArray(y):
        entries = enumerate(as_list(y, each="target"))
        values = np.array([read_target(value, f"y[{number}]") for number, value in entries])
    if len(values) != n_rows:
        raise ValueError(f"y has {len(values)} targets, expected {n_rows}. Pass one per row.")
    check_values("y", values)
    column: Floats = values.astype(np.float64)[:, None]
    return column


def read_named_targets(y: Any, argument: str = "y") -> dict[Name, float]:
    """Return the targets of one row by name.

    Raises
    ------
    TypeError, ValueError
        If `y` is no mapping of names to finite numbers, or has no entry.

    Examples
    --------
    >>> read_named_targets({"height": 3})
    {'height': 3.0}
    """
    if not isinstance(y, Mapping):
        raise TypeError(
            f"{argument} is of type {type(y).__name__}, expected a dict of targets. "
            "Pass {name: number}; a single target is for LeastSquaresRegressor."
        )
    if not y:
        raise ValueError(f"{argument} holds no target, expected at least one. {REMEDY}")
    return {
        plain_name(name): read_target(value, f"{argument}[{name!r}]") for name, value in y.items()
    }


def read_target_table(y: Any, n_rows: int) -> tuple[tuple[Name, ...], Floats]:
    """Return the names of the targets of a batch, and their values (n_rows, n_targets).

    Parameters
    ----------
    y : array (n_rows, n_targets), frame (pandas, polars, pyarrow …), or list of n_rows dicts
        Columns of an array are named 0, 1, …
    n_rows : int

    Raises
    ------
    TypeError, ValueError
        If it is none of these, a target is no finite number, rows have different targets, or
        their number is not `n_rows`.

    Examples
    --------
    >>> read_target_table([{"a": 1, "b": 2}, {"b": 4, "a": 3}], n_rows=2)
    (('a', 'b'), array([[1., 2.],
           [3., 4.]]))
    """
    if isinstance(y, np.ndarray):
        values = check_matrix("y", y)
        names: tuple[Name, ...] = tuple(range(values.shape[1]))
    elif isinstance(y, (list, tuple)):
        rows = [read_named_targets(row, f"y[{number}]") for number, row in enumerate(y)]
        names = tuple(rows[0]) if rows else ()
        parts = [arranged(tuple(row), np.array([list(row.values())]), names) for row in rows]
        values = np.concatenate(parts) if parts else np.zeros((0, 0))
    else:
        batch = read_frame(y, "y")
        values, names = batch.values, tuple(map(plain_name, batch.source.columns))
    if len(values) != n_rows or not names:
        raise ValueError(
            f"y has {len(values)} rows of {len(names)} targets, expected {n_rows} rows of at least "
            "one. Pass a dict or a row of targets for every row."
        )
    return names, values.astype(np.float64)


def arranged(names: Sequence[Name], values: Floats, known: Sequence[Name]) -> Floats:
    """Return the columns of values in the order of the known targets.

    Raises
    ------
    ValueError
        If a known target is missing, or one is not known.

    Examples
    --------
    >>> arranged(("b", "a"), np.array([[2.0, 1.0]]), known=("a", "b"))
    array([[1., 2.]])
    """
    places = {name: column for column, name in enumerate(names)}
    for name in known:
        if name not in places:
            raise ValueError(
                f"y lacks the target {name!r}, expected {_shown(known)} in every row. Fill it in, "
                "leave the row out, or learn every target with a model of its own."
            )
    if len(places) > len(known):
        new = next(name for name in places if name not in set(known))
        raise ValueError(
            f"y holds the new target {new!r}, expected {_shown(known)} as in the first row. "
            "Earlier rows lack it: learn it with a model of its own."
        )
    return values[:, [places[name] for name in known]]


def _shown(names: Sequence[Name]) -> str:
    return reprlib.repr(list(names))
