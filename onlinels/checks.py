"""Checks of input and settings: values, shapes, weights and memory, with their messages."""

from __future__ import annotations

import numbers
import os
import reprlib
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import is_dataclass
from functools import cache, wraps
from inspect import Parameter, isabstract, signature
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Literal, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from river.base import Base
from scipy import sparse

Matrix = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


# What is reported

Params = ParamSpec("Params")
Result = TypeVar("Result")


def ignoring(
    *errors: Literal["divide", "over", "invalid"],
) -> Callable[[Callable[Params, Result]], Callable[Params, Result]]:
    """Return a decorator that lets numpy ignore errors of floating point within a function.

    The function runs in a copy of the context, where numpy's settings stand, and the copy is
    dropped. `np.errstate` sets them and resets them by Python code: an interrupt between the two
    would leave them set for all code of the thread, for good.

    Examples
    --------
    >>> ignoring("over")(np.exp)(np.array([1e3]))
    array([inf])
    """
    settings: dict[str, Any] = dict.fromkeys(errors, "ignore")

    def decorator(function: Callable[Params, Result]) -> Callable[Params, Result]:
        @wraps(function)
        def ignoring_errors(*args: Params.args, **kwargs: Params.kwargs) -> Result:
            context = copy_context()
            context.run(np.seterr, **settings)
            return context.run(function, *args, **kwargs)

        return ignoring_errors

    return decorator


def refusal(argument: str, found: str, expected: str, remedy: str) -> ValueError:
    """Return an error that says what an argument is, what was expected, and what to do.

    Examples
    --------
    >>> refusal("w", "holds -1.0", "weights of at least 0", "Leave the row out.")
    ValueError('w holds -1.0, expected weights of at least 0. Leave the row out.')
    """
    return ValueError(f"{argument} {found}, expected {expected}. {remedy}")


def wrong_type(argument: str, value: Any, expected: str, remedy: str) -> TypeError:
    """Return an error that says of which type an argument is, what was expected, and what to do."""
    return TypeError(f"{argument} is of type {type(value).__name__}, expected {expected}. {remedy}")


# Values

MAX_VALUE = 1e150
"""Largest magnitude that is learnt: the sum of its squares over a stream still fits float64."""

MAX_COUNT = 1 << 53
"""Number of rows up to which float64 holds every whole number, so that each further row counts."""

LEARNABLE = f"of magnitude at most {MAX_VALUE:g}"
"""The numbers that are learnt."""

VALUE_REMEDY = (
    "Leave missing values or their rows out, or fill them, for example with fillna or with river's "
    "preprocessing.StatImputer, which fills None; rescale large values, for example to other units."
)

NUMBER_REMEDY = (
    "Convert the values to real numbers: times with timestamp() or total_seconds(), or to features "
    "such as the hour; bytes with decode(); and text, for example, with river's "
    "preprocessing.OneHotEncoder."
)


Place = Callable[[tuple[int, ...]], str]
"""A function that describes the place of an entry, given its indices, for messages."""


def at_position(where: tuple[int, ...]) -> str:
    """Return a description of the place of an entry of an array."""
    return f"at position {where}"


def check_values(
    name: str, values: Matrix, place: Place = at_position, remedy: str = VALUE_REMEDY
) -> None:
    """Raise unless every value of an array is a real number between -1e150 and 1e150.

    `place` describes the place of a value in the message, given its indices, and `remedy` says what
    to do about NaN and infinity.

    Examples
    --------
    >>> check_values("X", np.array([[1.0, np.nan]]))
    Traceback (most recent call last):
        ...
    ValueError: X holds nan at position (0, 1), expected finite numbers of magnitude at most ...
    """
    if plain_array(name, values).dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {values.dtype}, expected real numbers. {NUMBER_REMEDY}")
    if values.dtype.kind == "f" and not within_bounds(values):
        where = tuple(np.argwhere(_are_outside(values))[0].tolist())
        raise refusal(
            name,
            f"holds {float(values[where])} {place(where)}",
            f"finite numbers {LEARNABLE}",
            remedy,
        )


@ignoring("over", "invalid")  # Casts warn about signalling NaNs too.
def _are_outside(values: Matrix) -> NDArray[np.bool_]:
    """Return which values are not numbers between -1e150 and 1e150."""
    are_outside: NDArray[np.bool_] = ~(np.abs(values.astype(np.float64)) <= MAX_VALUE)
    return are_outside


def plain_array(name: str, values: Any) -> Matrix:
    """Return `values` as an array, or raise TypeError if they are masked or have fields."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, expected numbers. Fill it by {name}.filled().")
    array = np.asarray(readable(values))
    check_unstructured(name, array)
    return array


def check_unstructured(name: str, values: Any) -> None:
    """Raise TypeError if an array has named fields, as of numpy.genfromtxt(names=True)."""
    fields = values.dtype.names if isinstance(values, np.ndarray) else None
    if fields:
        raise TypeError(
            f"{name} is a structured array with the fields {reprlib.repr(list(fields))}, expected "
            f"plain values. Pass {name}[{fields[0]!r}], pandas.DataFrame({name}) or "
            f"numpy.lib.recfunctions.structured_to_unstructured({name})."
        )


def readable(values: Any) -> Any:
    """Return values that numpy can read: 128-bit integers, as polars has them, as a list.

    Sums of integers in a database are such integers.
    """
    if str(getattr(values, "dtype", "")) in WIDE_INTEGERS:
        return values.to_list()
    # Of the libraries' frames only those of polars have rows().
    if hasattr(type(values), "rows") and not WIDE_INTEGERS.isdisjoint(map(str, values.dtypes)):
        return values.rows()
    return values


WIDE_INTEGERS = frozenset({"Int128", "UInt128"})
"""Types of integers that numpy lacks."""


def within_bounds(values: Matrix) -> bool:
    """Return whether all values are finite and of magnitude at most 1e150."""
    # Minimum and maximum propagate NaN, and comparisons with NaN are false.
    lowest, highest = (values.min(), values.max()) if values.size else (0.0, 0.0)
    return float(lowest) >= -MAX_VALUE and float(highest) <= MAX_VALUE


SPARSE_TYPES: tuple[Any, ...] = sparse.sparray, sparse.spmatrix
"""Classes of sparse matrices."""


def dense(values: Any) -> Any:
    """Return a sparse matrix as an array; return anything else unchanged."""
    return values.toarray() if isinstance(values, SPARSE_TYPES) else values


def check_two_dimensional(name: str, array: Matrix) -> None:
    """Raise ValueError unless an array has rows and columns."""
    if array.ndim != 2:
        remedy = f"Pass {name}.reshape(n_rows, n_columns)."
        raise refusal(name, f"has shape {array.shape}", "(n_rows, n_columns)", remedy)


def check_one_per_row(name: str, shape: tuple[int, ...], n_rows: int, each: str = "value") -> None:
    """Raise ValueError unless there is one value for each row, or one for all; `each` names it."""
    if shape not in ((), (n_rows,)):
        remedy = f"Pass one {each} per row, or one {each} for all rows."
        raise refusal(name, f"has shape {shape}", f"({n_rows},) or one {each}", remedy)


def check_not_empty(name: str, n_rows: int) -> None:
    """Raise ValueError if there are no rows."""
    if not n_rows:
        raise ValueError(f"{name} has 0 rows, expected at least one. Skip empty batches.")


def as_array(name: str, values: Any) -> Matrix:
    """Return numbers in lists, or an array, as an array of numbers."""
    try:
        array = plain_array(name, values)
    except ValueError as error:
        fault = "holds lists of different lengths"
        raise refusal(name, fault, "equal lengths", "Pad the lists.") from error
    check_values(name, array)
    return array


def unwrapped(value: Any) -> Any:
    """Return the value of a scalar of pyarrow, or of an array without dimensions."""
    if hasattr(type(value), "as_py"):
        return value.as_py()
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def as_number(value: Any) -> float | None:
    """Return a value as a float: infinity if it is too large, None if it is not a number.

    Examples
    --------
    >>> as_number(True), as_number(10**400), as_number("3")
    (1.0, inf, None)
    """
    value = unwrapped(value)
    kind = value.dtype.kind if isinstance(value, (np.generic, np.ndarray)) else "O"
    is_scalar = not getattr(value, "ndim", 0) and value is not np.ma.masked
    if not (hasattr(value, "__float__") and kind in "biufO" and is_scalar):
        return None
    try:
        return float(value)
    except OverflowError:
        return -np.inf if value < 0 else np.inf
    except ValueError:
        return np.nan  # A signalling NaN.
    except TypeError:
        return None  # An expression of sympy, for example, with unknowns.


def read_number(
    name: str, value: Any, remedy: str = NUMBER_REMEDY, missing: str = VALUE_REMEDY
) -> float:
    """Return a value as a float between -1e150 and 1e150.

    `remedy` is the last sentence of the message for a value that is not a number, and `missing`
    that for any other value.

    Raises
    ------
    TypeError
        If the value is not a number.
    ValueError
        If the value is None, NaN, infinite, or of larger magnitude.

    Examples
    --------
    >>> read_number("y", np.int64(3)), read_number("y", True)
    (3.0, 1.0)
    """
    if type(value) is float and abs(value) <= MAX_VALUE:
        return value
    number = as_number(value)
    if number is None and not is_missing(value):
        found = f"{name} is {reprlib.repr(value)} of type {type(value).__name__}"
        raise TypeError(f"{found}, expected a number. {remedy}")
    if number is None or not abs(number) <= MAX_VALUE:
        found = f"is {number_text(value, number)}"
        raise refusal(name, found, f"a number {LEARNABLE}", missing)
    return number


def number_text(value: Any, number: float | None) -> str:
    """Return a text for a value that is refused, given what `as_number` returns for it."""
    # An int may have too many digits to print.
    if number is not None and np.isinf(number) and value != number:
        return f"a number beyond float64 (of type {type(value).__name__})"
    return repr(value if number is None else number)


def is_missing(value: Any) -> bool:
    """Return whether a value or a label is missing: the same kinds for both.

    These are None, NaN of any type, NaT, pandas.NA, a masked entry, a null of pyarrow, and an
    array of no dimension with one of these. Arrays with dimensions and texts are not missing.

    Examples
    --------
    >>> list(map(is_missing, (None, np.nan, np.datetime64("NaT", "s"), np.ma.masked, 0.0, "nan")))
    [True, True, True, True, False, False]
    """
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    value = unwrapped(value)
    # By the name of its type: pandas, whose NA equals nothing, need not be installed.
    if value is None or value is np.ma.masked or type(value).__name__ == "NAType":
        return True
    if isinstance(value, str) or getattr(value, "ndim", False):
        return False
    try:
        return bool(value != value)
    except ArithmeticError:
        return True  # A signalling NaN.
    except (TypeError, ValueError):
        return False  # Containers are compared entry by entry.


QUIET = set[CodeType]()
"""The code of functions below which no warning is given."""


def quiet(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Mark a function below which no warning is given: it calls a model inside another.

    `warn_caller` finds it among the running calls. Nothing is set before the call and reset after
    it, which an interrupt between the two would leave set.
    """
    QUIET.add(cast(FunctionType, function).__code__)
    return function


class DataWarning(UserWarning):
    """A warning about data: what was passed, or what of it was lost.

    Its text begins with a sentence that is the same for all warnings of its kind; names and numbers
    follow. Python's filters compare this sentence alone: by default, one line of a program shows a
    kind of warning once, with the names and numbers of the first.

    Examples
    --------
    Show each warning, or none of a kind:

    >>> import warnings
    >>> from onlinels import DataWarning
    >>> warnings.simplefilter("always", DataWarning)
    >>> warnings.filterwarnings("ignore", "A few rows dwarf all others", DataWarning)
    """

    def __init__(self, text: str) -> None:
        super().__init__(str(text))


class _Text(str):
    """The text of a warning; it equals every text with the same first sentence.

    `warnings.warn` looks it up among the texts that a line has already shown, and stores it there,
    so models by the thousand show, and store, one text. `DataWarning` holds a plain str.
    """

    __slots__ = ("kind",)
    kind: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Text) and self.kind == other.kind

    def __hash__(self) -> int:
        return hash(self.kind)


SHOWN = dict[tuple[str, int, str], tuple[Any, list[Any]]]()
"""The list of Python's filters, and its entries, when a line showed a kind of warning."""


def warn_caller(kind: str, details: str) -> None:
    """Warn at the line that called this package, unless a `quiet` function did.

    Python forgets what a line has shown whenever a filter changes, even if the filters are as
    before again: after any call of pandas that uses `warnings.catch_warnings`. Lines that show a
    kind once are therefore noted here as well, until the filters differ.

    Parameters
    ----------
    kind : str
        First sentence of the text, a literal that no other call has; see `DataWarning`.
    details : str
        Further sentences: names, numbers and the remedy.
    """
    frame, level = sys._getframe(), 1
    package = str(Path(__file__).parent)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        if frame.f_code in QUIET:
            return
        frame, level = frame.f_back, level + 1
    place, filters = (frame.f_code.co_filename, frame.f_lineno, kind), warnings.filters
    before, entries = SHOWN.get(place, (None, []))
    # Within `catch_warnings` the list is another; after it, the same one.
    if before is filters and entries == [*filters]:
        return
    text = _Text(f"{kind} {details}")
    text.kind = kind
    warnings.warn(text, DataWarning, stacklevel=level)
    # Python notes the line only if the filters show a warning once.
    if (text, DataWarning, frame.f_lineno) in frame.f_globals.get("__warningregistry__", ()):
        SHOWN[place] = filters, [*filters]


def plain_scalar(value: Any) -> Any:
    """Return a numpy scalar as a Python value; return anything else unchanged.

    Examples
    --------
    >>> plain_scalar(np.str_("a")), plain_scalar(np.uint64(2**64 - 1)), plain_scalar("b")
    ('a', 18446744073709551615, 'b')
    """
    if not isinstance(value, np.generic):
        return value
    # The item of a long double is a long double.
    return float(value) if isinstance(value, np.longdouble) else value.item()


def plain_value(value: Any) -> Any:
    """Return the plain Python value that stands for all names or labels equal to this one.

    Equal values of different types differ in their text and bytes, as 1, 1.0 and True do, or a
    text and a member of a `StrEnum`. Whatever is made of the text or the bytes of a name starts
    from its plain value: a str, an int, else a float, or a tuple of these. If none has the same
    hash and is equal, `value` is returned.

    Examples
    --------
    >>> plain_value(np.str_("a")), plain_value(True), plain_value(np.float32(0.5))
    ('a', 1, 0.5)
    >>> plain_value(("h", np.int64(0))), plain_value("a")
    (('h', 0), 'a')
    """
    return value if type(value) is str or type(value) is int else replaced(value, _plain)


def _plain(value: Any) -> Any:
    plain = plain_scalar(value)
    if isinstance(plain, str):
        return str.__str__(plain)
    if isinstance(plain, tuple):
        return tuple(map(plain_value, plain))
    if isinstance(plain, numbers.Number):
        number: Any = plain
        # The part of a complex number that is real equals it if the other part is 0.
        whole = int(number.real)
        return whole if whole == number else float(number.real)
    return plain


def replaced(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Return the converted value if it is equal and has the same hash, else the value itself."""
    try:
        plain = convert(value)
        return plain if plain == value and hash(plain) == hash(value) else value
    except (TypeError, ValueError, ArithmeticError):
        return value


def equals_itself(value: Any) -> bool:
    """Return whether a label or name equals itself, unlike NaN and tuples with NaN."""
    if isinstance(value, tuple):
        # Python considers two tuples equal that contain the same NaN object.
        return all(map(equals_itself, value))
    try:
        return bool(value == value)
    except TypeError:
        # pandas.NA == pandas.NA is NA, which has no truth value.
        return False


# Arrays

BLOCK_BYTES = 1 << 26
"""Float64 bytes of the rows that are cast and accumulated at once (64 MiB).

Measured at 6,400 columns: with half the bytes, a row takes 7% longer.
"""

MIN_BLOCK_ROWS = 512
"""Smallest number of rows that statistics learn at once, because every time they are all read."""

PRECISIONS = {"float32": np.float32, "float64": np.float64}
"""Precisions in which features and activations may be computed."""


def frozen_copy(array: Any) -> Matrix:
    """Return a read-only copy of an array."""
    return read_only(np.array(array))


def read_only(array: Matrix) -> Matrix:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


def row_blocks(n_rows: int, n_columns: int, least: int = 1) -> Iterator[slice]:
    """Yield slices of rows whose float64 copy takes at most 64 MiB, or of `least` rows."""
    step = max(least, BLOCK_BYTES // (8 * max(1, n_columns)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def by_row(name: str, value: Any, n_rows: int) -> Sequence[Any]:
    """Return an argument by row: the entries of an array or list, or a single value repeated."""
    # A column of pyarrow iterates over scalars that are no numbers.
    entries = value.to_pylist() if hasattr(value, "to_pylist") else value
    if hasattr(value, "__array__"):
        array = np.asarray(readable(value))
        # The dates of Python lack the nanoseconds of a column of polars.
        entries = array if array.dtype.kind == "M" else entries
    values = list(entries) if np.ndim(readable(value)) else [value] * n_rows
    check_one_per_row(name, (len(values),), n_rows)
    return values


def uncast(rows: Matrix) -> Matrix:
    """Return rows as a contiguous array of float32 if they are float32, else of float64.

    A sparse matrix is converted to an array.
    """
    rows = dense(rows)
    return np.ascontiguousarray(rows, np.float32 if rows.dtype == np.float32 else np.float64)


# Settings


@cache
def settings_of(kind: type) -> tuple[str, ...]:
    """Return the settings of a class: the parameters of its constructor and of its ancestors'.

    A subclass may pass settings to the constructor of its ancestor without parameters of its own
    for them.

    Examples
    --------
    >>> class Model:
    ...     def __init__(self, ridge=1.0, seed=0): ...
    >>> settings_of(Model)
    ('ridge', 'seed')
    """
    named = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    makers = [each for each in kind.__mro__[:-1] if each is kind or not isabstract(each)]
    found = [each for maker in makers for each in signature(maker).parameters.values()]
    return tuple(dict.fromkeys(each.name for each in found if each.kind in named))


def checked_assignment(self: Any, name: str, value: Any) -> None:
    """Assign an attribute of an estimator, or raise: the `__setattr__` of all estimators.

    A public name can be assigned if it is

    - a property with a setter,
    - a setting without a value, while the estimator is being made,
    - or an attribute of this object that is not a setting.

    Private names can always be assigned. `vars(model).update` does not call this function. A
    subclass with public attributes of its own needs ``__setattr__ = object.__setattr__``.

    Raises
    ------
    AttributeError
        If the name cannot be assigned. The estimator is then unchanged.

    Examples
    --------
    >>> class Model:
    ...     __setattr__ = checked_assignment
    ...     def __init__(self, seed=0):
    ...         self.seed = seed
    >>> Model().seed = 3
    Traceback (most recent call last):
        ...
    AttributeError: seed cannot change in a Model after it is made. ...
    >>> Model().sede = 3
    Traceback (most recent call last):
        ...
    AttributeError: Model has no setting 'sede', expected one of: seed. ...
    """
    if not name.startswith("_"):
        made: Any = type(self)
        kind, settings = made.__name__, settings_of(made)
        held: Any = getattr(made, name, None)
        is_property, is_new, fault = isinstance(held, property), name not in vars(self), ""
        if name in settings and (held.fset is None if is_property else not is_new):
            remedy = f"Make a new {kind} with clone({{{name!r}: {reprlib.repr(value)}}})"
            fault = f"{name} cannot change in a {kind} after it is made. {remedy}."
        # Python itself raises for read-only properties.
        elif name not in settings and is_new and not is_property:
            remedy = "Assign settings of a part to the part, and begin other names with _."
            fault = (
                f"{kind} has no setting {name!r}, expected one of: {', '.join(settings)}. {remedy}"
            )
        if fault:
            raise AttributeError(fault, name=name, obj=self)
    object.__setattr__(self, name, value)


def check_count(name: str, value: Any, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}={value!r} must be an int. Pass an int >= {minimum}.")
    if value < minimum:
        raise ValueError(f"{name}={value!r} must be at least {minimum}. Pass an int >= {minimum}.")
    return int(value)


def check_between(name: str, value: Any, smallest: float, largest: float) -> None:
    """Raise unless `value` is a number from `smallest` to `largest`."""
    expected = f"from {smallest:g} to {largest:g}"
    check_number(name, value, lambda number: smallest <= number <= largest, expected)


def check_positive(name: str, value: Any) -> None:
    """Raise unless `value` is a finite number above 0."""
    check_number(name, value, lambda number: 0.0 < number < np.inf, "finite and above 0")


def check_number(name: str, value: Any, fits: Callable[[float], bool], expected: str) -> None:
    """Raise unless `value` is a real number for which `fits` is true; `expected` describes it."""
    number = value if type(value) is float else None
    if number is None and isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = as_number(value)
    if number is None:
        raise TypeError(f"{name}={value!r} must be a number. Pass a number that is {expected}.")
    if not fits(number):
        raise ValueError(f"{name}={value!r} must be {expected}. Pass a number in this range.")


def check_flag(name: str, value: Any) -> None:
    """Raise TypeError unless `value` is a bool."""
    check_kind(name, value, (bool, np.bool_), "a bool. Pass True or False.")


def check_path(name: str, value: Any) -> Path:
    """Return `value` as a path."""
    check_kind(name, value, (str, os.PathLike), "a path. Pass a str or a pathlib.Path.")
    return Path(value)


def check_kind(name: str, value: Any, kinds: tuple[type, ...], expected: str = "") -> None:
    """Raise TypeError unless `value` is an instance of one of `kinds`."""
    if isinstance(value, type) and issubclass(value, kinds):
        found, remedy = f"is the class {value.__name__}", f"Pass {value.__name__}(...)"
        raise TypeError(f"{name} {found}, expected an object of it. {remedy}.")
    if not isinstance(value, kinds):
        known = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name}={value!r} must be {expected or f'a {known}. Pass a {known}.'}")


def check_part(name: str, value: Any, kind: type) -> None:
    """Raise TypeError unless `value` is None or an instance of `kind`."""
    if value is not None and not isinstance(value, kind):
        expected = f"{kind.__name__} or None"
        raise wrong_type(name, value, expected, f"Pass a {expected}.")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise ValueError unless `value` is one of the names in `choices`."""
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(f'"{choice}"' for choice in choices)
        raise ValueError(f"{name}={value!r} is not known. Pass one of {known}.")


# Memory

MEMORY_LIMIT_VARIABLE = "ONLINELS_MEMORY_LIMIT"
"""Environment variable with the bytes that arrays may take, instead of the machine's memory."""

FEATURE_COUNT_REMEDY = "Select features, or hash them with river's FeatureHasher(n_features=1024)."

BYTES_PER_GIB = float(1 << 30)


def check_room(n_bytes: int, what: str, *sizes: int, remedy: str = FEATURE_COUNT_REMEDY) -> None:
    """Raise ValueError if arrays of `n_bytes` cannot fit into memory, before they are made.

    Examples
    --------
    >>> check_room(1 << 60, "A batch of {:,} rows", 9, remedy="Pass fewer rows at once.")
    Traceback (most recent call last):
        ...
    ValueError: A batch of 9 rows takes 1.07e+09 GiB of memory, expected at most the ...
    """
    # The limit is all memory, not the free memory, so that only arrays that never fit are refused.
    # Linux promises more memory than it has, and kills the process when memory runs out: no error
    # could be raised then.
    limit = memory_limit()
    if n_bytes > limit:
        raise ValueError(
            f"{what.format(*sizes)} takes {n_bytes / BYTES_PER_GIB:.3g} GiB of memory, expected "
            f"at most the available {limit / BYTES_PER_GIB:.3g} GiB. {remedy} If more memory is "
            f"available, set the environment variable {MEMORY_LIMIT_VARIABLE} to its number of "
            "bytes."
        )


@cache
def memory_limit() -> float:
    """Return the bytes of memory that a process may use; infinity if the number is unknown.

    This is the environment variable ONLINELS_MEMORY_LIMIT if it is set, else the memory of the
    machine; the limit of a container is not known. The number is read once.
    """
    given = os.environ.get(MEMORY_LIMIT_VARIABLE)
    with suppress(AttributeError, ValueError, OSError):
        limit = float(given or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        if limit > 0.0:
            return limit
    if given:
        raise ValueError(f"{MEMORY_LIMIT_VARIABLE}={given!r} must be a number of bytes above 0.")
    return np.inf


# Weights


def check_weights(
    w: Any, n_rows: int, name: str = "w", largest: float = MAX_VALUE
) -> float | Floats:
    """Return row weights as one float for all rows, or as a vector with one weight per row.

    `name` is the name of the argument in messages.

    Examples
    --------
    >>> check_weights(None, 3), check_weights([1, 2], 2)
    (1.0, array([1., 2.]))
    """
    if w is None:
        return 1.0
    if type(w) is float and 0.0 <= w <= largest:
        return w  # For speed: this takes 0.1 us, and the rest 5 us.
    weights = _weights_in(w, name)
    wrong = np.flatnonzero(~((weights >= 0.0) & (weights <= largest)))
    if wrong.size:
        given = np.asarray(readable(w), dtype=object).flat[wrong[0]]
        place = f" in row {wrong[0]}" if weights.ndim else ""
        found = f"holds {number_text(given, float(weights.flat[wrong[0]]))}{place}"
        remedy = "Pass 0 for rows that should not count, and divide large weights by one number."
        raise refusal(name, found, f"weights of at least 0 and at most {largest:g}", remedy)
    check_one_per_row(name, weights.shape, n_rows, "weight")
    return weights.copy() if weights.ndim else float(weights)


def check_weight(w: Any, largest: float = MAX_VALUE) -> float:
    """Return the weight of a single row as a float; raise TypeError unless it is one number."""
    if as_number(w) is None:
        found = f"w is {reprlib.repr(w)} of type {type(w).__name__}"
        raise TypeError(
            f"{found}, expected one number. Pass the weight of the row, or leave w out."
        )
    return float(check_weights(w, 1, largest=largest))


def _weights_in(w: Any, name: str) -> Floats:
    """Return weights as floats; numbers that are too large as infinity."""
    # Of lists of different lengths, and of lists with masked integers.
    with suppress(ValueError, np.ma.MaskError):
        weights = plain_array(name, w)
        if weights.dtype.kind == "O":
            weights = np.reshape([as_number(each) for each in weights.flat], weights.shape)
        # None, for what is no number, leaves an array of objects.
        if weights.dtype.kind in "biuf":
            return weights.astype(np.float64)
    raise TypeError(
        f"{name} is {reprlib.repr(w)}, expected numbers. Pass one number per row or for all."
    )


def check_mass(values: Matrix, w: float | Floats, names: Callable[[], Sequence[Any]]) -> None:
    """Raise ValueError if weight times squared value could overflow a sum over a stream.

    `names` returns the names of the columns for the message.
    """
    if not values.size:
        return
    heaviest = w if isinstance(w, float) else float(w.max())
    if heaviest <= 1.0:
        return
    largest = max(-float(values.min()), float(values.max()), 1.0)
    if heaviest > MAX_VALUE**2 / largest**2:
        column = int(np.abs(dense(values)).max(axis=0).argmax())
        found = f"holds {heaviest:g} for values of {names()[column]!r} as large as {largest:g}"
        expected = f"weight times squared value of at most {MAX_VALUE**2:g}"
        raise refusal("w", found, expected, "Rescale the weights or the values.")


def check_mergeable(model: Any, other: Any) -> None:
    """Raise unless `other` is a model of the same kind with the same settings."""
    if type(other) is not type(model):
        raise wrong_type("other", other, type(model).__name__, "Pass models of one class.")
    differing = [
        f"{name}: {getattr(model, name)!r} and {getattr(other, name)!r}"
        for name in differing_settings(model, other)
    ]
    if differing:
        found = f"has different settings ({', '.join(differing)})"
        raise refusal("other", found, "equal ones", "Make all models with one model's empty().")


def differing_settings(model: Any, other: Any) -> list[str]:
    """Return the names of the settings in which two models or steps differ."""
    mine, theirs = model._get_params(), other._get_params()
    return [name for name in mine if not same(mine[name], theirs.get(name))]


def same(a: Any, b: Any) -> bool:
    """Return whether two settings or states are equal, with all their contents.

    Return False if equality cannot be determined, as for functions.

    Examples
    --------
    >>> same({"filters": np.ones(2)}, {"filters": np.ones(2)}), same(1.0, "paper")
    (True, False)
    """
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if type(a) is type(b) and isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is type(b) and (is_dataclass(a) or isinstance(a, Base)) and hasattr(a, "__dict__"):
        return same(vars(a), vars(b))
    try:
        # Compared by their pickles, because getters and partial functions equal nothing.
        return bool(a == b or (type(a) is type(b) and a.__reduce_ex__(4) == b.__reduce_ex__(4)))
    except (TypeError, ValueError):
        return False
