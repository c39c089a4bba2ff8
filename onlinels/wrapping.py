"""What wrappers of a model need to know of it, be it alone or at the end of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from river import compose

from onlinels.arrays import check_matrix
from onlinels.frames import as_frame


def is_pipeline(model: Any) -> bool:
    """Tell whether a model is a pipeline of river's."""
    return isinstance(model, compose.Pipeline)


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline; any other model is its own."""
    return model[-1] if is_pipeline(model) else model


def emptied(model: Any) -> Any:
    """Return a model of the same settings and fixed features that has learnt nothing."""
    if is_pipeline(model):
        return compose.Pipeline(*((name, emptied(step)) for name, step in model.steps.items()))
    return model.empty() if hasattr(model, "empty") else model.clone()


def samples_of(X: Any) -> Iterator[Mapping[Any, Any]]:
    """Iterate over the rows of a mini-batch as river samples, values as they are.

    Parameters
    ----------
    X : array (n_rows, n_features), frame, or list of dicts

    Raises
    ------
    TypeError, ValueError
        If it is none of these.

    Examples
    --------
    >>> list(samples_of(np.array([[1.0, 2.0]])))
    [{0: 1.0, 1: 2.0}]
    """
    if isinstance(X, np.ndarray):
        return (dict(enumerate(row)) for row in check_matrix("X", X).tolist())
    if isinstance(X, (list, tuple)):
        return iter(X)
    rows: Iterator[Mapping[Any, Any]] = as_frame(X).iter_rows(named=True)
    return rows
