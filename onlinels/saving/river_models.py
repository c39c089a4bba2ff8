"""Of what river's pipelines, transformers and drift detectors consist, as far as they can be saved.

Those are left out that hold functions, random generators or compiled state.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
from river import compose, drift, feature_extraction, feature_selection, preprocessing, stats
from river.preprocessing import impute

from onlinels.saving.fields import (
    FACTORIES,
    FLAG,
    KINDS,
    SHARE,
    Field,
    State,
    is_plain,
    made_of,
    maybe,
    row,
    saved,
    table,
)

NUMBER = Field("a number", lambda n: isinstance(n, (int, float, np.number)) and type(n) is not bool)
# Rows' own values are names of categories, numpy's scalars among them.
NAME = Field("a name", lambda value: is_plain(value) or isinstance(value, np.generic))
NAMES = Field("names", lambda value: type(value) is set and all(map(NAME.fits, value)))

BYTES = Field("bytes", lambda value: type(value) is bytes)
SMALL = Field("an int up to 10,000", lambda value: type(value) is int and 0 <= value <= 10_000)
OPTIONAL = maybe(NUMBER)
CATEGORIES = maybe(table(NAME, NAMES))

LIKE = {
    type(None): OPTIONAL,
    bool: FLAG,
    int: NUMBER,
    float: NUMBER,
    str: NAME,
    set: NAMES,
    tuple: row(OPTIONAL),
    dict: table(NAME, NAME),
    Counter: table(NAME, NUMBER, Counter),
}
"""What an attribute may be, by the type that it has in a new object."""


def _fields_of(state: State) -> dict[str, Field]:
    return {name: _field_of(value) for name, value in state.items()}


def _field_of(value: Any) -> Field:
    if isinstance(value, defaultdict):
        factory: Any = value.default_factory
        return table(NAME, _field_of(factory()), defaultdict)
    return LIKE.get(type(value)) or made_of(type(value))


def _saved_as_new(*makers: Callable[[], Any], **others: Field) -> None:
    """Say that objects consist of what new ones do, but for some attributes."""
    for new in (make() for make in makers):
        saved(type(new), _fields_of(vars(new)) | others)


# Some statistics make missing values too.
MAKERS = (stats.Mean, stats.Var, stats.Min, stats.Max, stats.AbsMax)
FACTORIES.update({made.__name__: made for made in (float, int, set, dict, *MAKERS)})
STATISTICS: tuple[type, ...] = (*MAKERS, stats.Sum, stats.Count, stats.Mode)
STATISTIC = made_of(impute.Constant, *STATISTICS)
IMPUTER = Field("a name or statistic", lambda value: NAME.fits(value) or STATISTIC.fits(value))

_saved_as_new(*STATISTICS, partial(impute.Constant, ""))
_saved_as_new(preprocessing.StandardScaler, preprocessing.MinMaxScaler, preprocessing.MaxAbsScaler)
_saved_as_new(preprocessing.Normalizer, preprocessing.PreviousImputer, preprocessing.FeatureHasher)
_saved_as_new(feature_extraction.PolynomialExtender, feature_selection.VarianceThreshold)
_saved_as_new(compose.Select, compose.Discard, partial(compose.Renamer, {}))
_saved_as_new(partial(compose.Prefixer, ""), partial(compose.Suffixer, ""))
_saved_as_new(preprocessing.OneHotEncoder, categories=CATEGORIES)
_saved_as_new(
    preprocessing.OrdinalEncoder, categories=CATEGORIES, unknown_value=OPTIONAL, none_value=OPTIONAL
)
_saved_as_new(preprocessing.StatImputer, imputers=row(row(IMPUTER)), stats=table(NAME, STATISTIC))

# Drift detectors.

_saved_as_new(drift.NoDrift, drift.binary.EDDM, drift.binary.HDDMA)
_saved_as_new(drift.binary.DDM, _ps_min=OPTIONAL)


def _page_hinkley_state(detector: Any) -> State:
    # Without a method, which the mode picks.
    return {name: value for name, value in vars(detector).items() if name != "_test_drift"}


def _page_hinkley(state: State) -> Any:
    detector = drift.PageHinkley(mode=state["mode"])
    vars(detector).update(state)
    return detector


PAGE_HINKLEY = _fields_of(_page_hinkley_state(drift.PageHinkley()))
saved(drift.PageHinkley, PAGE_HINKLEY, take=_page_hinkley_state, make=_page_hinkley)

PROBES = 64
"""Values that the window of an ADWIN out of a file is tried with, on a copy."""

SIZES = dict.fromkeys(("clock", "max_buckets", "min_window_length", "grace_period"), SMALL)
"""Compiled code takes as much memory as these tell it to."""

_saved_as_new(drift.ADWIN, **SIZES, delta=SHARE)
WINDOW = type(cast(Any, drift.ADWIN)()._helper)


def _window(state: State) -> Any:
    window = WINDOW()
    try:
        window.__setstate__(state["state"])
        probed = copy.deepcopy(window)
        for count in range(PROBES):
            probed.update(count % 2)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # What river's compiled code raises is no Exception.
        raise ValueError("the state of its ADWIN is none") from error
    return window


saved(WINDOW, {"state": BYTES}, take=lambda w: {"state": bytes(w.__getstate__())}, make=_window)

# Pipelines.

STEPS = Field("steps by name", lambda steps: all(type(name) is str for name in steps))


def _saved_by_steps(made: Any, attribute: str) -> None:
    def _make(state: State) -> Any:
        for name, step in state[attribute].items():
            # River would make one of a class, or of a list, that stands for a step.
            if type(step) not in KINDS:
                raise ValueError(f"its step {name!r} is no step of a pipeline")
        whole = made(*state[attribute].items())
        # Else the first call of a pipeline does so, and threads that ask at once find half of it.
        getattr(whole, "_build_plan", list)()
        return whole

    fields = {attribute: STEPS}
    saved(made, fields, take=lambda whole: {attribute: dict(getattr(whole, attribute))}, make=_make)


_saved_by_steps(compose.Pipeline, "steps")
_saved_by_steps(compose.TransformerUnion, "transformers")
