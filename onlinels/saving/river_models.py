"""River's pipelines, transformers and drift detectors that can be saved.

Classes that hold functions or random generators are left out.
"""

from __future__ import annotations

import copy
import inspect
import numbers
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

CLASSES = {
    "compose": "Pipeline TransformerUnion TransformerProduct Grouper Select Discard SelectType "
    "Prefixer Suffixer Renamer",
    "drift": "ADWIN PageHinkley NoDrift",
    "drift.binary": "DDM EDDM HDDMA",
    "feature_extraction": "Agg TargetAgg BagOfWords TFIDF PolynomialExtender",
    "feature_selection": "SelectKBest VarianceThreshold",
    "preprocessing": "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler AdaptiveStandardScaler "
    "Normalizer Binarizer OneHotEncoder OrdinalEncoder StatImputer PreviousImputer FeatureHasher",
    "preprocessing.impute": "Constant",
    "stats": "Mean Var Min Max AbsMax Sum Count Mode Quantile IQR EWMean EWVar Cov PearsonCorr "
    "RollingMin RollingMax RollingAbsMax",
    "utils": "SortedWindow",
}
"""Names of classes, by module of river. A module is imported when one of its classes is needed."""

MODULES = {name: f"river.{module}" for module, names in CLASSES.items() for name in names.split()}

TYPES = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in (
        *(bool, int, float, str),
        *(numbers.Number, numbers.Real, numbers.Integral),
        *(np.number, np.integer, np.floating, np.bool_, np.str_),
    )
}
"""Types by which features are selected or converted."""

DERIVED = {"processing_steps", "_test_drift"}
"""Attributes that hold functions, and follow from the parameters."""

MAX_SIZE = 10_000
SIZES = {"clock", "max_buckets", "min_window_length", "grace_period", "ngram_range"}
"""Parameters that decide how much memory compiled code allocates, or how long a sample takes."""

N_PROBES = 64
"""Number of values with which a copy of compiled state from a file is tested."""

SavedState = dict[str, Any]


def class_named(name: str) -> Any:
    """Return the class of river with a name, or None if it cannot be saved."""
    return getattr(import_module(MODULES[name]), name) if name in MODULES else None


@cache
def _parameters(kind: Any) -> tuple[str | None, tuple[str, ...]]:
    """Return the name of *parameters, if there are any, and the names of other parameters."""
    found = inspect.signature(kind).parameters.values()
    several = [each.name for each in found if each.kind is each.VAR_POSITIONAL]
    return (*several, None)[0], tuple(each.name for each in found if each.name not in several)


def taken(value: Any) -> SavedState:
    """Return the parameters and attributes of an object of river."""
    several, names = _parameters(value.__class__)
    if several is not None and isinstance(getattr(value, several), dict):
        # The other attributes of a pipeline follow from its steps.
        return {several: dict(getattr(value, several))}
    state = vars(value) | {name: getattr(value, name) for name in names}
    state = {name: _data(part) for name, part in state.items() if name not in DERIVED}
    _check(state)
    return state


def _data(part: Any) -> Any:
    if _is_compiled(part):
        return bytes(part.__getstate__())
    # A new object has the default factory.
    return dict(part) if isinstance(part, dict) else part


def _is_compiled(part: Any) -> bool:
    return type(part).__module__.startswith("river._river_rust")


def _check(state: SavedState) -> None:
    """Raise ValueError for parameters by which a call could take forever, or all memory."""
    for name in SIZES & state.keys():
        sizes = state[name] if type(state[name]) is tuple else (state[name],)
        if not all(type(size) is int and 0 <= size <= MAX_SIZE for size in sizes):
            raise ValueError(f"{name}={state[name]!r}, which is not at most {MAX_SIZE}")
    if "tokenizer_pattern" in state:
        own = class_named("BagOfWords")().tokenizer_pattern
        if state["tokenizer_pattern"] != own:
            raise ValueError(f"a tokenizer_pattern that is not {own}, river's own")


def made(kind: Any, state: SavedState) -> Any:
    """Return an object of a class of river that is made of its parameters and filled."""
    _check(state)
    several, names = _parameters(kind)
    first = () if several is None else state[several]
    # Pipelines hold their steps by name.
    first = first.items() if isinstance(first, dict) else first
    value = kind(*first, **{name: state[name] for name in names})
    # Otherwise the first call builds the plan, and concurrent threads may find half of it.
    getattr(value, "_build_plan", list)()
    held = vars(value)
    others = state.keys() - {several, *names}
    for name in sorted(others, key=lambda name: _is_compiled(held[name])):
        if _is_compiled(held[name]):
            _take_state(value, held[name], state[name])
        elif isinstance(held[name], dict):
            dict.update(held[name], state[name])
        else:
            held[name] = state[name]
    return value


def _take_state(value: Any, part: Any, state: bytes) -> None:
    """Let a compiled part of an object take its state, if the compiled code goes on with it."""
    try:
        part.__setstate__(state)
        fits = bytes(part.__getstate__()) == state
        probed = copy.deepcopy(part)
        for count in range(N_PROBES):
            probed.update(count % 2)
        getattr(value, "get", list)()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # Errors of river's compiled code are no Exception.
        raise ValueError(f"the state of its {type(value).__name__} is invalid") from error
    if not fits:
        raise ValueError(f"the state of its {type(value).__name__} has superfluous bytes")
