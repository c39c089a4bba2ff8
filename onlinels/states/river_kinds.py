"""Kinds of values that parts of river's hold: numbers, names, and mappings from names."""

from __future__ import annotations

from typing import Any

import numpy as np
from river import stats
from river.preprocessing import impute

from onlinels.saving.fields import Field, is_plain, made_of, table

NUMBER = Field(
    "a number",
    lambda value: isinstance(value, (int, float, np.number)) and not isinstance(value, bool),
)
# Rows' own values are names of categories, numpy's scalars among them.
NAME = Field("a name", lambda value: is_plain(value) or isinstance(value, np.generic))
NAMES = Field("names", lambda value: type(value) is set and all(map(NAME.fits, value)))


def held(of: type[dict[Any, Any]], value: Field) -> Field:
    """Return the kind of a mapping of one type, from names to values of one kind."""
    return table(NAME, value, of)


STATISTICS = (
    stats.Mean,
    stats.Var,
    stats.Min,
    stats.Max,
    stats.AbsMax,
    stats.Sum,
    stats.Count,
    stats.Mode,
    impute.Constant,
)
STATISTIC = made_of(*STATISTICS)
MEAN = made_of(stats.Mean)
