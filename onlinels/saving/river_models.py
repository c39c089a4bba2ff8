"""Of what river's pipelines, transformers and drift detectors consist, as far as they can be saved.

Those are left out that hold functions, random generators or compiled state.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from river import compose, drift, feature_extraction, feature_selection, preprocessing, stats
from river.preprocessing import impute

from onlinels.saving.fields import (
    FACTORIES,
    FLAG,
    KINDS,
    SHARE,
    TEXT,
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


def _fields_of(new: Any) -> dict[str, Field]:
    return {name: _field_of(value) for name, value in vars(new).items()}


def _field_of(value: Any) -> Field:
    if isinstance(value, defaultdict):
        factory: Any = value.default_factory
        return table(NAME, _field_of(factory()), defaultdict)
    return LIKE.get(type(value)) or made_of(type(value))


def _saved_as_new(*classes: Any, **others: Field) -> None:
    """Say that objects consist of what new ones do, but for some attributes."""
    for made in classes:
        saved(made, _fields_of(made()) | others)


for _factory in (float, int, set, dict, stats.Min, stats.Max, stats.AbsMax, stats.Mean, stats.Var):
    FACTORIES[_factory.__name__] = _factory

STATISTICS: tuple[type, ...] = (
    *(stats.Mean, stats.Var, stats.Min, stats.Max, stats.AbsMax),
    *(stats.Sum, stats.Count, stats.Mode),
)
_saved_as_new(*STATISTICS)
saved(impute.Constant, {"value": NAME})
STATISTIC = made_of(impute.Constant, *STATISTICS)
IMPUTER = Field(
    "a name, and a statistic or a value",
    lambda pair: NAME.fits(pair[0]) and (NAME.fits(pair[1]) or STATISTIC.fits(pair[1])),
)

_saved_as_new(preprocessing.StandardScaler, preprocessing.MinMaxScaler, preprocessing.MaxAbsScaler)
_saved_as_new(preprocessing.Normalizer, preprocessing.PreviousImputer, preprocessing.FeatureHasher)
_saved_as_new(feature_extraction.PolynomialExtender, feature_selection.VarianceThreshold)
_saved_as_new(compose.Select, compose.Discard, drift.NoDrift, drift.binary.EDDM, drift.binary.HDDMA)
saved(compose.Prefixer, {"prefix": TEXT})
saved(compose.Suffixer, {"suffix": TEXT})
saved(compose.Renamer, {"mapping": table(NAME, NAME)})
_saved_as_new(preprocessing.OneHotEncoder, categories=CATEGORIES)
_saved_as_new(
    preprocessing.OrdinalEncoder, categories=CATEGORIES, unknown_value=OPTIONAL, none_value=OPTIONAL
)
_saved_as_new(preprocessing.StatImputer, imputers=row(IMPUTER), stats=table(NAME, STATISTIC))

_saved_as_new(drift.binary.DDM, _ps_min=OPTIONAL)

MODE = Field("up, down or both", lambda value: value in ("up", "down", "both"))
PAGE_HINKLEY = _fields_of(drift.PageHinkley()) | {"mode": MODE}
# A method, which the mode picks.
PAGE_HINKLEY.pop("_test_drift", None)


def _taken(names: Iterable[str], value: Any) -> State:
    return {name: getattr(value, name) for name in names}


def _page_hinkley(state: State) -> Any:
    detector = drift.PageHinkley(mode=state["mode"])
    vars(detector).update(state)
    return detector


saved(drift.PageHinkley, PAGE_HINKLEY, take=partial(_taken, PAGE_HINKLEY), make=_page_hinkley)

ADWIN = ("delta", "clock", "max_buckets", "min_window_length", "grace_period")


def _adwin(state: State) -> Any:
    # River does not say what types these take.
    make: Any = drift.ADWIN
    detector = make(**{name: state[name] for name in ADWIN})
    detector._drift_detected = state["_drift_detected"]
    try:
        detector._helper.__setstate__(state["window"])
        probed = copy.deepcopy(detector)
        for count in range(PROBES):
            probed.update(count % 2)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # What river's compiled code raises is no Exception.
        raise ValueError("the state of its ADWIN is none") from error
    return detector


PROBES = 64
"""Values that an ADWIN out of a file is tried with, on a copy."""

saved(
    drift.ADWIN,
    # Its compiled code takes as much memory as it is told to.
    dict.fromkeys(ADWIN, SMALL) | {"delta": SHARE, "_drift_detected": FLAG, "window": BYTES},
    take=lambda detector: {
        **_taken((*ADWIN, "_drift_detected"), detector),
        "window": bytes(detector._helper.__getstate__()),
    },
    make=_adwin,
)

# Pipelines.

STEPS = Field("steps by name", lambda steps: all(type(name) is str for name in steps))


def _saved_by_steps(made: Any, attribute: str) -> None:
    def _make(state: State) -> Any:
        for name, step in state[attribute].items():
            # River would make one of a class, or of a list, that stands for a step.
            if type(step) not in KINDS:
                raise ValueError(f"its step {name!r} is no step of a pipeline")
        whole = made(*state[attribute].items())
        if hasattr(whole, "_build_plan"):
            # Else the first call does so, and threads that ask at once find half of it.
            whole._build_plan()
        return whole

    fields = {attribute: STEPS}
    saved(made, fields, take=lambda whole: {attribute: dict(getattr(whole, attribute))}, make=_make)


_saved_by_steps(compose.Pipeline, "steps")
_saved_by_steps(compose.TransformerUnion, "transformers")
