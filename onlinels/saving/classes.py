"""The classes whose objects can be saved: those of the package that say so, and some of river's."""

from __future__ import annotations

import copy
import inspect
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from onlinels.checks import plain_value, replaced
from onlinels.numerics import Lock, restore

PLAIN_TYPES = (str, int, bool, float, type(None))
"""Types of labels and names, besides tuples of them."""


def is_plain(value: Any) -> bool:
    """Return whether a value is a label or name, whose type is preserved in a file.

    Examples
    --------
    >>> is_plain(("a", (1, None))), is_plain({"a"})
    (True, False)
    """
    return all(map(is_plain, value)) if type(value) is tuple else type(value) in PLAIN_TYPES


def in_plain_types(value: Any) -> Any:
    """Return a label or name of any type as an equal value of plain types, if there is one.

    Examples
    --------
    >>> import numpy as np
    >>> in_plain_types(np.str_("a")), in_plain_types((True, np.float32(0.5)))
    ('a', (True, 0.5))
    """
    if type(value) in PLAIN_TYPES:
        return value
    if isinstance(value, tuple):
        return replaced(value, lambda entries: tuple(map(in_plain_types, entries)))
    return replaced(value, plain_value)


SavedState = dict[str, Any]


@dataclass(frozen=True)
class SavableClass:
    """A class whose objects are converted to a state and made from a state.

    A file comes from anyone. Whatever a state says, an object may answer wrongly or raise an error
    of Python, but it must not crash the process, loop, or take more memory than the file: `check`
    looks at what could.
    """

    made: type
    # Name of the class in files.
    name: str
    # Returns the state of an object.
    take: Callable[[Any], SavedState]
    # Returns the object of a state.
    make: Callable[[SavedState], Any]
    # Returns whether an object is sound, or raises.
    check: Callable[[Any], Any] = lambda value: True
    # Returns the bytes of arrays that `make` computes and `take` leaves out, see
    # `MAX_COMPUTED_BYTES`.
    computed: Callable[[SavedState], int] = lambda state: 0


MAX_COMPUTED_BYTES = 1 << 28
"""Bytes of arrays, of a whole file, that may be computed when it is read: 256 MiB.

So a small file cannot take much memory. Arrays beyond are written.
"""

KINDS_BY_NAME: dict[str, SavableClass] = {}
"""The classes of the package, and those of river's that were needed so far."""

Declared = TypeVar("Declared", bound=type)


def state_of(value: Any) -> SavedState:
    """Return the state of an object, as it is pickled."""
    return dict(getattr(value, "_asdict", value.__getstate__)() or {})


def _remade(made: Any, state: SavedState) -> Any:
    if issubclass(made, tuple):
        return made(**state)
    hidden = [name for name in state if callable(getattr(made, name, None))]
    if hidden:
        raise ValueError(f"{made.__name__} has a method {hidden[0]}, which cannot be stored")
    value = made.__new__(made)
    getattr(value, "__setstate__", vars(value).update)(state)
    return value


def savable(
    check: Callable[[Any], Any] = SavableClass.check,
    *,
    take: Callable[[Any], SavedState] = state_of,
    make: Callable[[SavedState], Any] | None = None,
    computed: Callable[[SavedState], int] = SavableClass.computed,
) -> Callable[[Declared], Declared]:
    """Return a decorator by which objects of a class can be saved and loaded.

    Parameters are those of `SavableClass`. By default, the state is the one used for pickling.
    However objects are restored, from files, pickles or as copies, their arrays are their own
    (`onlinels.numerics.restore`).
    """

    def declared(made: Declared) -> Declared:
        if not (issubclass(made, tuple) or hasattr(made, "__setstate__")):
            made.__setstate__ = restore  # type: ignore[attr-defined]
        name, maker = made.__name__, make or partial(_remade, made)
        kind = SavableClass(made, name, take, maker, check, computed)
        # If a module is executed again, its first classes stay, because other modules hold them.
        KINDS_BY_NAME.setdefault(name, kind)
        return made

    return declared


def settings_hold(made: Any) -> bool:
    """Return True if the class of an object accepts its settings; otherwise it raises."""
    names = inspect.signature(type(made)).parameters
    type(made)(**{name: getattr(made, name) for name in names})
    return True


savable()(Lock)

LATE_CLASSES = dict.fromkeys(("ClassPredictor", "NumberPredictor"), "onlinels.export.predictor")
"""Modules of classes that few use, which are imported when a file holds one."""

RIVER = "river."
"""What the names of river's classes begin with."""


def kind_of(made: type) -> SavableClass | None:
    """Return how objects of a class are saved, or None if they cannot be."""
    kind = kind_named((RIVER if made.__module__.startswith(RIVER) else "") + made.__name__)
    return kind if kind is not None and kind.made is made else None


def kind_named(name: str) -> SavableClass | None:
    """Return how objects of the class of a name are saved, or None if there is no such class."""
    if name in LATE_CLASSES:
        import_module(LATE_CLASSES[name])
    if name not in KINDS_BY_NAME and name.startswith(RIVER):
        made: Any = river_class(name.removeprefix(RIVER))
        if made is not None:
            make = partial(_river_object, made)
            KINDS_BY_NAME[name] = SavableClass(made, name, _river_state, make)
    return KINDS_BY_NAME.get(name)


# River's pipelines, transformers and drift detectors; classes that hold functions or random
# generators are left out.

RIVER_CLASSES = {
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

MODULES = {
    name: f"river.{module}" for module, names in RIVER_CLASSES.items() for name in names.split()
}

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

SHARES = {"q_inf", "q_sup", "fading_factor"}
"""Parameters that compiled code takes for a number from 0 to 1."""

N_PROBES = 64
"""Number of values with which a copy of compiled state from a file is tested."""


def river_class(name: str) -> Any:
    """Return the class of river with a name, or None if it cannot be saved."""
    return getattr(import_module(MODULES[name]), name) if name in MODULES else None


@cache
def _parameters(kind: Any) -> tuple[str | None, tuple[str, ...]]:
    """Return the name of *parameters, if there are any, and the names of other parameters."""
    found = inspect.signature(kind).parameters.values()
    several = [each.name for each in found if each.kind is each.VAR_POSITIONAL]
    return (*several, None)[0], tuple(each.name for each in found if each.name not in several)


def _river_state(value: Any) -> SavedState:
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
    for name in SHARES & state.keys():
        if not (isinstance(state[name], (int, float)) and 0 <= state[name] <= 1):
            raise ValueError(f"{name}={state[name]!r}, which is not from 0 to 1")
    if "tokenizer_pattern" in state:
        own = river_class("BagOfWords")().tokenizer_pattern
        if state["tokenizer_pattern"] != own:
            raise ValueError(f"a tokenizer_pattern that is not {own}, river's own")


def _river_object(kind: Any, state: SavedState) -> Any:
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
