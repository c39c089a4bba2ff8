"""Frames of any library, seen alike."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
from narwhals.exceptions import DuplicateError


def as_frame(X: Any, argument: str = "X") -> nw.DataFrame[Any]:
    """Return a frame (pandas, polars, pyarrow …), called `argument` in errors, as narwhals' own.

    Raises
    ------
    TypeError
        If it is no frame.
    ValueError
        If two of its columns have one name.
    """
    try:
        return nw.from_native(X, eager_only=True)
    except TypeError as error:
        raise TypeError(
            f"{argument} is of type {type(X).__name__}, expected an array (n_rows, n_columns), a "
            "pandas, polars or pyarrow frame, or a list of dicts. Convert it, for instance with "
            "np.asarray."
        ) from error
    except DuplicateError as error:
        raise ValueError(
            f"{argument} has columns of one name: {error}. Rename all but one."
        ) from error
