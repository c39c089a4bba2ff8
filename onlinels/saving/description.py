"""Convert objects of savable classes to a JSON description with separate arrays, and back.

The classes are those of the package that say so, and some of river's.
"""

from __future__ import annotations

import copy
import inspect
import math
import numbers
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from functools import cache, lru_cache, partial
from importlib import import_module
from io import BytesIO
from itertools import count
from operator import index
from typing import Any, TypeVar

import numpy as np

from onlinels.checks import Matrix, plain_value, replaced
from onlinels.locks import Lock
from onlinels.numerics import Block, owned, restore

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
    # Returns what is saved in its place if that is too much.
    whole: Callable[[Any], Any] | None = None
    # Whether it makes no difference that two objects are one, because they never change.
    is_value: bool = False


MAX_COMPUTED_BYTES = 1 << 28
"""Bytes of arrays, of a whole file, that may be computed when it is read: 256 MiB.

So a small file cannot take much memory. Arrays beyond are written.
"""


def is_small(*sides: Any) -> bool:
    """Return whether sizes that no array of a file bears out may be obeyed later, when it is used.

    An array of float64 with these sides must not take more than `MAX_COMPUTED_BYTES`.

    Examples
    --------
    >>> is_small(40_000), is_small(4096, 4096), is_small(10**9), is_small(2**62, 4)
    (True, True, False, False)
    """
    return 8 * math.prod(map(int, sides)) <= MAX_COMPUTED_BYTES


KINDS_BY_NAME: dict[str, SavableClass] = {}
"""The classes of the package, and those of river's that were needed so far."""

Declared = TypeVar("Declared", bound=type)


def state_of(value: Any) -> SavedState:
    """Return the state of an object, which shares its arrays; of a model, the locks are held.

    Other objects are taken as they are pickled.
    """
    if hasattr(value, "_lock"):
        return dict(getattr(value, "_own_state", vars(value).copy)())
    return dict(getattr(value, "_asdict", value.__getstate__)() or {})


@lru_cache(1024)
def _hiding(made: Any, names: tuple[str, ...]) -> list[str]:
    """Return names of attributes by which an object would hide methods of its class."""
    return [name for name in names if callable(getattr(made, name, None))]


def _remade(made: Any, state: SavedState) -> Any:
    if issubclass(made, tuple):
        return made(**state)
    hidden = _hiding(made, tuple(state))
    if hidden:
        raise ValueError(f"{made.__name__} has a method {hidden[0]}, which cannot be stored")
    value = made.__new__(made)
    # The arrays of a file are read into memory of their own.
    take = vars(value).update if made.__setstate__ is restore else value.__setstate__
    take(state)
    return value


def savable(
    check: Callable[[Any], Any] = SavableClass.check,
    *,
    take: Callable[[Any], SavedState] = state_of,
    make: Callable[[SavedState], Any] | None = None,
    computed: Callable[[SavedState], int] = SavableClass.computed,
    whole: Callable[[Any], Any] | None = None,
    is_value: bool = False,
) -> Callable[[Declared], Declared]:
    """Return a decorator by which objects of a class can be saved and loaded.

    Parameters are those of `SavableClass`. By default, the state is the one used for pickling.
    However objects are restored, their arrays are their own (`onlinels.numerics.restore`).
    """

    def declared(made: Declared) -> Declared:
        if not (issubclass(made, tuple) or hasattr(made, "__setstate__")):
            made.__setstate__ = restore  # type: ignore[attr-defined]
        name, maker = made.__name__, make or partial(_remade, made)
        kind = SavableClass(made, name, take, maker, check, computed, whole, is_value)
        # If a module is executed again, its first classes stay, because other modules hold them.
        known = KINDS_BY_NAME.setdefault(name, kind).made
        if known.__module__ != made.__module__:
            raise TypeError(
                f"{made.__module__}.{name} has the name of a class of {known.__module__} in files, "
                "expected a name of its own. Rename the class."
            )
        return made

    return declared


def settings_hold(made: Any) -> bool:
    """Return True if the class of an object accepts its settings; otherwise it raises."""
    names = inspect.signature(type(made)).parameters
    type(made)(**{name: getattr(made, name) for name in names})
    return True


savable()(Lock)

RIVER = "river."
"""What the names of river's classes begin with."""


def kind_of(made: type) -> SavableClass | None:
    """Return how objects of a class are saved, or None if they cannot be."""
    known = KINDS_BY_NAME.get(made.__name__)
    if known is not None and known.made is made:
        return known
    kind = kind_named((RIVER if made.__module__.startswith(RIVER) else "") + made.__name__)
    return kind if kind is not None and kind.made is made else None


def kind_named(name: str) -> SavableClass | None:
    """Return how objects of the class of a name are saved, or None if there is no such class."""
    if name in LATE_CLASSES and name not in KINDS_BY_NAME:
        # Classes of the package declare themselves when their module is imported.
        made = getattr(import_module(LATE_CLASSES[name]), name.removeprefix(RIVER))
        if name.startswith(RIVER):
            make = partial(_river_object, made)
            KINDS_BY_NAME[name] = SavableClass(made, name, _river_state, make)
    return KINDS_BY_NAME.get(name)


# River's pipelines, transformers and drift detectors. Other classes hold functions or random
# generators.

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
"""Names of classes, by module of river."""

LATE_CLASSES = {
    **dict.fromkeys(("ClassPredictor", "NumberPredictor"), "onlinels.export.predictor"),
    "DirectForecaster": "onlinels.forecasting",
    "LessonBook": "onlinels.lessons",
    **{RIVER + name: RIVER + module for module, of in RIVER_CLASSES.items() for name in of.split()},
}
"""Modules of classes that few models have, which are imported when one of the classes is needed."""

NUMBER_TYPES = numbers.Number, numbers.Real, numbers.Integral, np.number, np.integer, np.floating
TYPES = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in (bool, int, float, str, *NUMBER_TYPES, np.bool_, np.str_)
}
"""Types by which features are selected or converted."""

LARGEST_PARAMETERS = {
    **dict.fromkeys(("clock", "max_buckets", "min_window_length", "grace_period"), 10_000),
    **dict.fromkeys(("q_inf", "q_sup", "fading_factor"), 1),
    "degree": 10,
    "ngram_range": 10,
}
"""Largest values of parameters that decide how much memory or time a call takes; the smallest: 0.

Compiled code is told most of them, a `PolynomialExtender` its degree, and `BagOfWords` its range.
"""

TOKENIZER_PATTERN = r"(?u)\b\w[\w\-]+\b"
"""The pattern of words of river's text transformers: other patterns may take forever."""

DERIVED = "processing_steps"
"""An attribute that holds functions, and follows from the parameters."""

N_PROBES = 64
"""Number of values with which a copy of compiled state from a file is tested."""


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
    _check_parameters(state)
    # A method that is held as an attribute follows from the parameters, too.
    held = {name: part for name, part in state.items() if not inspect.ismethod(part)}
    return {name: _data(part) for name, part in held.items() if name != DERIVED}


def _data(part: Any) -> Any:
    if _is_compiled(part):
        return bytes(part.__getstate__())
    # A new object has the default factory.
    return dict(part) if isinstance(part, dict) else part


def _is_compiled(part: Any) -> bool:
    return type(part).__module__.startswith("river._river_rust")


def _check_parameters(state: SavedState) -> None:
    """Raise ValueError for parameters by which a call could take forever, all memory, or panic."""
    for name in LARGEST_PARAMETERS.keys() & state.keys():
        value, largest = state[name], LARGEST_PARAMETERS[name]
        values = value if type(value) is tuple else (value,)
        if not all(isinstance(each, (int, float)) and 0 <= each <= largest for each in values):
            raise ValueError(f"{name}={value!r}, which is not from 0 to {largest}")
    n_features = state.get("n_features", 1)
    # Compiled code divides by it. It may be a number of numpy.
    if not (isinstance(n_features, numbers.Integral) and int(n_features) > 0):
        raise ValueError(f"n_features={n_features!r}, which is not a number above 0")
    if state.get("tokenizer_pattern", TOKENIZER_PATTERN) != TOKENIZER_PATTERN:
        raise ValueError(f"a tokenizer_pattern that is not {TOKENIZER_PATTERN}, river's own")


def _river_object(kind: Any, state: SavedState) -> Any:
    """Return an object of a class of river that is made of its parameters and filled."""
    _check_parameters(state)
    several, names = _parameters(kind)
    first = () if several is None else state[several]
    # Pipelines hold their steps by name.
    first = first.items() if isinstance(first, dict) else first
    value = kind(*first, **{name: state[name] for name in names})
    # Otherwise the first call builds the plan, and concurrent threads may find half of it.
    getattr(value, "_build_plan", list)()
    held = vars(value)
    for name in state.keys() - {several, *names}:
        if _is_compiled(held[name]):
            _take_state(held[name], state[name])
        elif isinstance(held[name], dict):
            dict.update(held[name], state[name])
        else:
            held[name] = state[name]
    return value


def _take_state(part: Any, state: bytes) -> None:
    """Let a compiled part of an object take its state, if the compiled code goes on with it."""
    try:
        part.__setstate__(state)
        if bytes(part.__getstate__()) != state:
            raise ValueError("it has superfluous bytes")
        probed = copy.deepcopy(part)
        for number in range(N_PROBES):
            getattr(probed, "get", list)()
            probed.update(number % 2)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # Errors of river's compiled code are no Exception.
        raise ValueError(f"the state of its {type(part).__name__} is invalid") from error


Node = Any
"""A JSON value: plain values and lists stand for themselves, other values are {"kind": …}."""

DTYPE_CODES = {np.dtype(code).newbyteorder("<").str for code in "?bBhHiIlLqQefd"}
NUMPY_TYPES = {code: np.dtype(code).type for code in DTYPE_CODES}
"""Types of numbers that can be saved, by their codes."""

MAX_VALUES_PER_BYTE = 8
"""Most values per byte of a description; a value that occurs twice counts twice."""

MAX_NAMES_PER_HASH = 100
"""Most names in a dict with the same hash.

The hashes of text are random, but numbers with the same hash can be chosen to slow a dict down.
"""

MAX_HEADER_BYTES = 1_000
"""Most bytes of an array's header in files of format 4 and earlier, a Python literal of some 100.
"""

SAVING_REMEDY = (
    "It cannot be saved. Labels, names and settings must be of type str, int, bool, float, None or "
    "tuple: pass str(label) or str(name). Of river, only the steps and detectors on the guide's "
    "page on saving can be saved: leave out other parts, or use pickle."
)


class Writer:
    """Describe a value and collect its arrays; an object that occurs twice is described once.

    Examples
    --------
    >>> writer = Writer()
    >>> writer.node(("a", np.ones(2)), "model")
    {'tuple': ['a', {'array': 'f8,2'}]}
    >>> writer.arrays
    [array([1., 1.])]
    """

    def __init__(self) -> None:
        self.arrays: list[Matrix] = []
        # By identity. The objects are kept alive, so that no other object gets the same id.
        self._described: dict[int, tuple[Any, Node]] = {}
        self._numbers = count()
        self._most_computed = MAX_COMPUTED_BYTES

    def node(self, value: Any, path: str) -> Node:
        """Return the description of a value; its path appears in errors."""
        if type(value) in PLAIN_TYPES:
            return value
        if id(value) in self._described:
            return self._described[id(value)][1]
        if type(value) is list:
            return [self.node(each, f"{path}.{place}") for place, each in enumerate(value)]
        try:
            if type(value) is np.ndarray:
                return self._array(value)
            kind = kind_of(type(value))
            return self._other(value, path) if kind is None else self._object(kind, value, path)
        except ValueError as error:
            # Names of private attributes mean nothing to readers of the error.
            place = path.rpartition("._")[0] or path
            raise TypeError(f"{place} holds {error}. {SAVING_REMEDY}") from error

    def _array(self, value: Matrix) -> Node:
        word = word_of(_known_dtype(value), value.shape, is_by_column(value))
        self.arrays.append(value)
        self._described[id(value)] = value, {"same": next(self._numbers)}
        return {"array": word}

    def _other(self, value: Any, path: str) -> Node:
        # All numbers of numpy are of one kind, and so are all durations and all types.
        kinds = np.timedelta64, np.generic, type
        several = (kind for kind in kinds if isinstance(value, kind))
        made = next(several, type(value))
        if made in CONTAINERS_BY_TYPE:
            name, take = CONTAINERS_BY_TYPE[made]
            return {name: self.node(take(value), path)}
        # For example a member of a StrEnum, whose class may not exist where the file is read.
        plain = in_plain_types(value)
        if plain is value or not is_plain(plain):
            raise ValueError(_typed(value))
        return self.node(plain, path)

    def _object(self, kind: SavableClass, value: Any, path: str) -> Node:
        state = kind.take(value)
        n_computed = kind.computed(state)
        if n_computed > self._most_computed:
            if kind.whole is not None:
                return self.node(kind.whole(value), path)
            n_computed, state = 0, state_of(value)
        self._most_computed -= n_computed
        # In the order of the names, because the order of attributes depends on the past.
        nodes = {}
        for name in sorted(state):
            part = state[name]
            # Measured: half of the parts are plain, and a call costs as much as all this.
            is_known = type(part) in PLAIN_TYPES
            nodes[name] = part if is_known else self.node(part, f"{path}.{name}")
        # Parts are numbered before the whole, here and when they are loaded.
        number = next(self._numbers)
        if not kind.is_value:
            self._described[id(value)] = value, {"same": number}
        return {"object": kind.name, "state": nodes}


def is_by_column(array: Matrix) -> bool:
    """Return whether an array is stored column by column, and not row by row."""
    return array.ndim > 1 and bool(array.flags.f_contiguous)


@lru_cache(1024)
def word_of(dtype: str, shape: tuple[int, ...], by_column: bool) -> str:
    """Return the description of an array: its dtype, its shape, and F if it is stored by columns.

    Examples
    --------
    >>> word_of("<f8", (2, 3), True)
    'f8,2,3F'
    """
    return ",".join((dtype[1:], *map(str, shape))) + "F" * by_column


def _known_dtype(value: Any) -> str:
    little = _little(value.dtype)
    if little not in NUMPY_TYPES:
        raise ValueError(_typed(value))
    return little


@lru_cache
def _little(dtype: np.dtype[Any]) -> str:
    """Return the code of a dtype with the lowest byte first."""
    return str(dtype.newbyteorder("<").str)


def _typed(value: Any) -> str:
    # In one line: river's models have several.
    return f"{' '.join(repr(value).split())[:80]} of type {type(value).__name__}"


def _type_name(value: type) -> str:
    name = f"{value.__module__}.{value.__qualname__}"
    if TYPES.get(name) is not value:
        raise ValueError(f"the type {name}, expected one of {', '.join(TYPES)}")
    return name


def _moment(value: datetime) -> str:
    if type(value.tzinfo) not in (type(None), timezone) or value.fold:
        # For a time zone with rules, isoformat keeps only the offset at this moment.
        raise ValueError(f"{value!r}, expected UTC, a fixed offset or no time zone")
    return value.isoformat()


def _number_and_unit(value: np.timedelta64) -> list[Any]:
    unit, n_units = np.datetime_data(value.dtype)
    return [int(value.astype(np.int64)) * n_units, unit]


class FileBlock:
    """The block of a file, whose arrays are read one after the other.

    Parameters
    ----------
    stream : file-like
        The block, which begins here.
    size : int
        Number of bytes that are left in it.
    is_small : bool
        Whether all arrays share one piece of memory, which then stays as long as one of them.
    """

    def __init__(self, stream: Any, size: int, is_small: bool) -> None:
        self._stream, self._left = stream, size
        self._memory = Block(stream.read(size)) if is_small else None
        self._size = size

    def array(self, word: Any) -> Matrix:
        """Return the next array, given its description; raise if the block does not hold it."""
        dtype, shape, by_column = _read_word(word)
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes > self._left:
            raise ValueError(f"it states an array {word!r}, and holds {self._left} bytes")
        start, padded = self._size - self._left, n_bytes + -n_bytes % ALIGNMENT
        self._left -= padded
        order: Any = "F" if by_column else "C"
        if self._memory is not None:
            shared: Matrix = np.ndarray(shape, dtype, self._memory, start, None, order)
            return shared
        content = self._stream.read(padded)
        array: Matrix = owned(np.ndarray(shape, dtype, content, 0, None, order))
        return array

    def check_end(self) -> None:
        """Raise ValueError unless all arrays were read."""
        if self._left:
            raise ValueError(f"its block has {self._left} bytes more than its arrays")


ALIGNMENT = 8
"""Every array of a block begins at a multiple of so many bytes."""


@lru_cache(1024)
def _read_word(word: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Return the dtype, the shape and the order that a word describes; raise if it is not one."""
    found = ARRAY_WORD.fullmatch(word)
    if found is None or f"{found[1]}" not in WORD_TYPES:
        raise ValueError("it holds other things than arrays of numbers")
    shape = tuple(map(int, found[2].split(",")[1:]))
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"it states an array of {len(shape)} dimensions")
    dtype = WORD_TYPES[found[1]]
    if 0 in shape and not is_small(*(side or 1 for side in shape)):
        # Code that goes through its rows would not end.
        raise ValueError(f"it states the shape {shape} without numbers to show for it")
    return dtype, shape, bool(found[3])


ARRAY_WORD = re.compile(r"([a-z]\d{1,2})((?:,\d{1,19})*)(F?)", re.ASCII)
WORD_TYPES = {code[1:]: np.dtype(code) for code in DTYPE_CODES}
MAX_DIMENSIONS = 32


class Builder:
    """Make values from descriptions: only those of known classes, and each object once.

    `read_array` returns the array of a node. Arrays have numbers, as objects do, if
    `has_array_numbers` is true.
    """

    def __init__(
        self, read_array: Callable[[Any], Matrix], n_described: int, has_array_numbers: bool
    ) -> None:
        self._read_array, self._has_array_numbers = read_array, has_array_numbers
        self._most_values = MAX_VALUES_PER_BYTE * n_described
        self._n_values = 0
        self._most_computed = MAX_COMPUTED_BYTES
        # Each object with its number of values, in which repeated values count each time.
        self._made: list[tuple[Any, int]] = []

    @property
    def parts(self) -> list[Any]:
        """All objects that were made so far."""
        return [made for made, _ in self._made]

    def value(self, node: Node) -> Any:
        """Return the value of a node, or raise if it is unknown."""
        # Objects that repeatedly hold each other would take exponential time to check.
        self._n_values += 1
        if self._n_values > self._most_values:
            raise ValueError("its objects hold each other too often")
        if type(node) in PLAIN_TYPES:
            return node
        if type(node) is list:
            return [self.value(each) for each in node]
        if type(node) is dict:
            said = [*node.items()]
            if len(said) == 1:
                return self._single(*said[0])
            if node.keys() == {"object", "state"} and type(node["state"]) is dict:
                return self._object(node["object"], node["state"])
        raise ValueError(f"it describes an unknown value {str(node)[:80]}")

    def _single(self, name: str, said: Node) -> Any:
        """Return the value of a node that says one thing."""
        if name == "array" and type(said) is str:
            array = self._read_array(said)
            if self._has_array_numbers:
                self._made.append((array, 1))
            return array
        if name == "same" and type(said) is int and 0 <= said < len(self._made):
            value, n_values = self._made[said]
            self._n_values += n_values
            return value
        if name not in CONTAINERS:
            raise ValueError(f"it describes an unknown value {name[:80]}")
        return CONTAINERS[name][2](self.value(said))

    def _object(self, name: Any, nodes: dict[str, Node]) -> Any:
        kind = kind_named(name) if type(name) is str else None
        if kind is None:
            raise ValueError(f"it describes an object of an unknown class {str(name)[:80]}")
        before = self._n_values
        # Measured: half of the parts are plain, and a call costs as much as all this.
        state = {
            name: node if type(node) in PLAIN_TYPES else self.value(node)
            for name, node in nodes.items()
        }
        self._n_values += len(nodes)
        self._most_computed -= kind.computed(state)
        if self._most_computed < 0:
            raise ValueError("it leaves out more numbers than may be computed")
        value = kind.make(state)
        if not kind.check(value):
            raise ValueError(f"the parts of its {kind.name} contradict each other")
        self._made.append((value, self._n_values - before))
        return value


def read_npy(content: bytes) -> Matrix:
    """Read an array of a file of format 4 and earlier, which is in numpy's format, in its memory.

    Examples
    --------
    >>> file = BytesIO()
    >>> np.save(file, [[1, 2], [3, 4]])
    >>> read_npy(file.getvalue())
    array([[1, 2],
           [3, 4]])
    """
    # Nothing is unpickled. `numpy.load` allocates any size that a header states.
    stream = BytesIO(content[:MAX_HEADER_BYTES])
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("numpy writes the arrays of models in version 1.0")
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream, MAX_HEADER_BYTES)
        if dtype.newbyteorder("<").str not in NUMPY_TYPES:
            raise TypeError(dtype)
    except Exception as error:
        raise ValueError("it holds other things than arrays of numbers") from error
    n_header = stream.tell()
    if math.prod(shape) * dtype.itemsize != len(content) - n_header:
        stated = f"the shape {shape} and dtype {dtype}"
        raise ValueError(f"it states {stated}, and holds {len(content) - n_header} bytes")
    if 0 in shape and not is_small(*(side or 1 for side in shape)):
        # Code that goes through its rows would not end.
        raise ValueError(f"it states the shape {shape} without numbers to show for it")
    return np.ndarray(shape, dtype, content, n_header, order="F" if by_column else "C")


def _table(pairs: list[list[Any]]) -> dict[Any, Any]:
    _keys(key for key, _ in pairs)
    return dict(map(tuple, pairs))


def _keys(found: Iterable[Any]) -> list[Any]:
    """Return the keys for a dict or set; raise if so many share a hash that it becomes slow."""
    keys = [*map(in_plain_types, found)]
    for key in keys:
        if not is_plain(key):
            raise ValueError(_typed(key))
    if keys and max(Counter(map(hash, keys)).values()) > MAX_NAMES_PER_HASH:
        raise ValueError(f"more than {MAX_NAMES_PER_HASH} names have the same hash")
    return keys


CONTAINERS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "dict": (dict, lambda value: [[key, value[key]] for key in _keys(value)], _table),
    "tuple": (tuple, list, tuple),
    "set": (set, lambda value: sorted(_keys(value), key=repr), lambda said: set(_keys(said))),
    "deque": (deque, lambda value: [list(value), value.maxlen], lambda said: deque(*said)),
    "timedelta": (timedelta, lambda t: t // timedelta.resolution, lambda n: timedelta(0, 0, n)),
    "timedelta64": (
        np.timedelta64,
        _number_and_unit,
        lambda said: np.timedelta64(index(said[0]), said[1]),
    ),
    "fraction": (
        Fraction,
        lambda value: [value.numerator, value.denominator],
        lambda said: Fraction(*map(index, said)),
    ),
    "date": (date, date.isoformat, date.fromisoformat),
    "datetime": (datetime, _moment, datetime.fromisoformat),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "scalar": (
        np.generic,
        lambda n: [_known_dtype(n), n.item()],
        lambda n: NUMPY_TYPES[n[0]](n[1]),
    ),
    "type": (type, _type_name, TYPES.__getitem__),
}
"""Other kinds of values: the type, its conversion to plain values, and the conversion back."""

CONTAINERS_BY_TYPE = {made: (name, take) for name, (made, take, _) in CONTAINERS.items()}
