"""Declarations of savable classes: the attributes of their objects, and the values allowed."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any, TypeVar

import numpy as np

from onlinels.checks import equals_itself, plain_value, replaced
from onlinels.numerics import Lock, deep_copy, restore

PLAIN_TYPES = (str, int, bool, float, type(None))
"""Types of labels and names, besides tuples of them."""


@dataclass(frozen=True)
class Field:
    """A kind of value: its description in errors, and the test whether a value is of this kind."""

    said: str
    fits: Callable[[Any], bool]


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
    >>> in_plain_types(np.str_("a")), in_plain_types((True, np.float32(0.5)))
    ('a', (True, 0.5))
    """
    if type(value) in PLAIN_TYPES:
        return value
    if isinstance(value, tuple):
        return replaced(value, lambda entries: tuple(map(in_plain_types, entries)))
    return replaced(value, plain_value)


ANYTHING = Field("anything", lambda value: True)
NOTHING = Field("None", lambda value: value is None)
FLAG = Field("True or False", lambda value: type(value) is bool)
TEXT = Field("text", lambda value: type(value) is str)
WHOLE = Field("a whole number of at least 0", lambda value: type(value) is int and value >= 0)
# numpy's float64 is a float too, and NaN is not a number.
REAL = Field("a number", lambda value: isinstance(value, float) and value == value)
FINITE = Field("a finite number", lambda value: isinstance(value, float) and isfinite(value))
POSITIVE = Field("a number above 0", lambda value: isinstance(value, float) and value > 0.0)
SHARE = Field("a number of at least 0", lambda value: isinstance(value, float) and value >= 0.0)
LABEL = Field(
    "a label or name", lambda value: is_plain(in_plain_types(value)) and equals_itself(value)
)


def maybe(field: Field) -> Field:
    """Return the kind of a value that may be None."""
    return Field(f"{field.said}, or None", lambda value: value is None or field.fits(value))


def listed(field: Field, kind: Any = list) -> Field:
    """Return the kind of a list or tuple whose values are all of one kind."""
    said = f"a {kind.__name__}, each {field.said}"
    return Field(said, lambda values: type(values) is kind and all(map(field.fits, values)))


row = partial(listed, kind=tuple)
"""Return the kind of a tuple whose values are all of one kind."""


def table(key: Field, value: Field, of: type[dict[Any, Any]] = dict) -> Field:
    """Return the kind of a dict, or of one subclass of dict.

    The default factory of a defaultdict must make values of the same kind.
    """

    def _fits(found: Any) -> bool:
        fits = type(found) is of and all(map(key.fits, found))
        fits = fits and all(map(value.fits, found.values()))
        # Only the default factories in `DEFAULT_FACTORIES` are written and read.
        return fits and (of is not defaultdict or value.fits(found.default_factory()))

    return Field(f"a {of.__name__}, from {key.said} to {value.said}", _fits)


def made_of(*classes: type) -> Field:
    """Return the kind of an object of exactly one of these classes."""
    names = " or ".join(each.__name__ for each in classes)
    return Field(f"of type {names}", lambda value: type(value) in classes)


def is_instance(of: type) -> Field:
    """Return the kind of an object of a class or of any subclass."""
    return Field(f"some {of.__name__}", lambda value: isinstance(value, of))


def array(dtype: str | Iterable[str], n_dimensions: int, by_column: bool = False) -> Field:
    """Return the kind of an array with one of some dtypes; in Fortran order if `by_column`."""
    dtypes = {np.dtype(each) for each in ([dtype] if isinstance(dtype, str) else dtype)}

    def _fits(value: Any) -> bool:
        fits = type(value) is np.ndarray and value.dtype in dtypes and value.ndim == n_dimensions
        return fits and (value.flags.f_contiguous or not by_column)

    return Field(f"an array of {n_dimensions} dimensions and dtype {dtype}", _fits)


VECTOR = array("f8", 1)
COLUMNS = array("f8", 2, by_column=True)
MATRIX = array("f8", 2)
PLACES = array("i8", 1)
ANY_VECTOR = array(("f4", "f8"), 1)
ANY_MATRIX = array(("f4", "f8"), 2)


Fields = Mapping[str, Field]
"""The attributes of a state, each with the kind of its values."""

State = dict[str, Any]


def check_fields(name: str, fields: Fields, state: State, error: type[Exception]) -> None:
    """Raise an error unless a state has exactly these fields, with values of their kinds."""
    if fields.keys() != state.keys():
        odd = sorted(fields.keys() ^ state.keys())
        raise error(f"{name} has missing or unknown attributes: {odd}")
    for attribute, field in fields.items():
        if not field.fits(state[attribute]):
            found = str(state[attribute])[:80]
            raise error(f"{name}.{attribute} is {found}, expected {field.said}")


@dataclass(frozen=True)
class Kind:
    """How objects of one class are converted to a state and made from a state."""

    # Name of the class in files.
    name: str
    fields: Fields
    # Returns whether an object is consistent: whether the sizes of its parts fit.
    check: Callable[[Any], bool]
    # Returns the state of an object.
    take: Callable[[Any], State]
    # Returns the object of a checked state.
    make: Callable[[State], Any]
    # Returns the bytes of arrays that `make` computes and `take` leaves out, see
    # `MAX_COMPUTED_BYTES`.
    computed: Callable[[State], int]


MAX_COMPUTED_BYTES = 1 << 28
"""Bytes of arrays, of a whole file, that may be computed when it is read: 256 MiB.

So a small file cannot take much memory. Arrays beyond are written.
"""

SAVABLE_KINDS: dict[type, Kind] = {}
KINDS_BY_NAME: dict[str, Kind] = {}
"""All classes in saved models: objects of other classes are neither written nor read."""

DEFAULT_FACTORIES: dict[str, Callable[..., Any]] = {}
"""Allowed default factories of a defaultdict, by name."""

SAVABLE_INSTEAD: dict[type, str] = {}
"""Alternatives to some classes whose objects cannot be saved."""

WRITTEN_FORMS: dict[type, Callable[[Any], Any]] = {}
"""By class, a function from an object to the object that is written in its place: often itself.

The class of what is written makes the object again when it is read.
"""

Declared = TypeVar("Declared", bound=type)


def state_of(value: Any) -> State:
    """Return the state of an object, as it is pickled."""
    return dict(getattr(value, "_asdict", value.__getstate__)() or {})


def _remade(made: Any, state: State) -> Any:
    if issubclass(made, tuple):
        return made(**state)
    value = made.__new__(made)
    getattr(value, "__setstate__", vars(value).update)(state)
    return value


def saved(
    made: Declared,
    fields: Fields,
    check: Any = None,
    take: Any = state_of,
    make: Any = None,
    computed: Any = None,
) -> Declared:
    """Declare the state of a class, so that its objects can be saved and loaded.

    Parameters are those of `Kind`. By default, the state is the one used for pickling. However
    objects are restored, from files, pickles or as copies, their arrays are their own
    (`onlinels.numerics.restore`).
    """
    package = made.__module__.partition(".")[0]
    name = made.__name__ if package == "onlinels" else f"{package}.{made.__name__}"
    if package == "onlinels" and not (issubclass(made, tuple) or hasattr(made, "__setstate__")):
        made.__setstate__ = restore  # type: ignore[attr-defined]
        if not hasattr(made, "__deepcopy__"):
            made.__deepcopy__ = deep_copy  # type: ignore[attr-defined]
    check, make = check or ANYTHING.fits, make or partial(_remade, made)
    SAVABLE_KINDS[made] = Kind(name, fields, check, take, make, computed or (lambda state: 0))
    # If a module is executed again, its first classes stay, because other modules hold them.
    KINDS_BY_NAME.setdefault(name, SAVABLE_KINDS[made])
    return made


def savable(*said: Any, **how: Any) -> Callable[[Declared], Declared]:
    """Return a decorator that calls `saved` for a class."""
    return lambda made: saved(made, *said, **how)


def settings_hold(made: Any) -> bool:
    """Return True if the class of an object accepts its settings; otherwise it raises."""
    names = inspect.signature(type(made)).parameters
    type(made)(**{name: getattr(made, name) for name in names})
    return True


def savable_settings(
    check: Callable[[Any], bool] = settings_hold, /, *how: Any, **others: Field
) -> Callable[[Declared], Declared]:
    """Declare that the state of a class consists of its settings and of other attributes.

    The class itself checks its settings. Further arguments are those of `saved`.
    """
    return lambda made: saved(
        made, dict.fromkeys(inspect.signature(made).parameters, ANYTHING) | others, check, *how
    )


saved(Lock, {})
