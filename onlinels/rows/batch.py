"""Rows: dicts, arrays and frames as matrices of named columns."""

from __future__ import annotations

import re
import reprlib
import struct
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps
from inspect import signature
from itertools import compress, count
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onlinels.checks import (
    NUMBER_REMEDY,
    SPARSE_TYPES,
    WIDE_INTEGERS,
    Floats,
    Integers,
    Matrix,
    Place,
    at_position,
    by_row,
    check_two_dimensional,
    check_unstructured,
    check_values,
    dense,
    equals_itself,
    plain_value,
    read_number,
    refusal,
    warn_caller,
    within_bounds,
    wrong_type,
)
from onlinels.core import Reader
from onlinels.numerics import is_count
from onlinels.saving import is_plain, savable

if TYPE_CHECKING:
    from onlinels.rows.frames import nw

Row = Mapping[Any, Any]
Name = Hashable

OUTPUT_NAME = "h"
"""Name of the outputs of transformers: "h0", "h1", … for numbers, "h" for an array."""


OF_OUTPUT = re.compile(OUTPUT_NAME + r"\d")
"""What is found in texts with a name of an output among them."""


# Names of features


PLAIN_NAME_TYPES = frozenset({str, int})
"""Types of names that are already plain."""


def plain_names(names: Iterable[Name]) -> tuple[Name, ...]:
    """Return names as plain Python values, which can be compared with each other.

    A numpy scalar compares with every entry of a tuple, and pandas.NA equals nothing.

    Raises
    ------
    ValueError
        If a name does not equal itself.

    Examples
    --------
    >>> plain_names(["a", np.int64(5), ("h", np.int64(0)), 1.5])
    ('a', 5, ('h', 0), 1.5)
    """
    known = tuple(names)
    if PLAIN_NAME_TYPES.issuperset(map(type, known)):
        return known
    plain = tuple(map(plain_value, known))
    for name in plain:
        if not equals_itself(name):
            found, expected = f"is NaN ({name!r})", "a name that equals itself"
            raise refusal("A feature's name", found, expected, "Rename the feature.")
    return plain


def numbered(name: Name) -> Name:
    """Return 3 for the names "h3", ("h", 3) and 3; return any other name as a plain value.

    In files of earlier versions, and in parts of an image network, these three are one feature
    (`Columns.is_numbered`).

    Examples
    --------
    >>> numbered("h3"), numbered(("h", 3)), numbered(3), numbered("3")
    (3, 3, 3, '3')
    """
    name = plain_value(name)
    if type(name) is str and (match := re.fullmatch(OUTPUT_NAME + r"(0|[1-9]\d*)", name)):
        return int(match[1])
    if isinstance(name, tuple) and len(name) == 2 and name[0] == OUTPUT_NAME:
        return name[1] if isinstance(name[1], int) else name
    return name


def check_distinct(
    names: Iterable[Name], key_of: Callable[[Name], Name] | None = None
) -> list[Name]:
    """Return the names of one row; raise ValueError if two of them are equal, or have one key."""
    plain = plain_names(names)
    keys = plain if key_of is None else tuple(map(key_of, plain))
    if len(set(keys)) < len(keys):
        twice = next(key for key, n_names in Counter(keys).items() if n_names > 1)
        names = [name for name, key in zip(plain, keys, strict=True) if key == twice]
        fault, expected = "stand for one feature", "different features"
        remedy = "Pass prefix to a transformer, or rename a feature with river's compose.Prefixer."
        raise refusal(f"The names {names[0]!r} and {names[1]!r}", fault, expected, remedy)
    return list(keys)


def name_text(name: Name) -> str:
    """Return a text for the name of a feature, the same in every process and for equal names.

    Raises
    ------
    TypeError
        If the name is, or contains, anything but a text, a number or None.
    """
    plain = plain_value(name)
    if not is_plain(plain):
        fault = f"Feature name {name!r} of type {type(name).__name__} has no fixed spelling"
        raise TypeError(f"{fault}, expected text or a number. Rename the feature.")
    return f"{type(plain).__name__}:{plain!r}"


def sorted_names(names: Iterable[Name]) -> list[Name]:
    """Sort names of any hashable types: numbered names by number, others by type and text.

    Examples
    --------
    >>> sorted_names(["b", "h10", "h9", "a"])
    ['h9', 'h10', 'a', 'b']
    """
    found: list[Any] = list(names)
    if set(map(type, found)) == {str} and not OF_OUTPUT.search("\0".join(found)):
        return sorted(found, key=repr)  # As below, in a tenth of the time.
    return sorted(found, key=_sorting_key)


def _sorting_key(name: Name) -> tuple[Any, ...]:
    key = numbered(name)
    if isinstance(key, int):
        return (0, key, type(name).__name__)
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], int):
        return (1, repr(key[0]), key[1])
    if isinstance(key, str) and (match := re.fullmatch(rf"(.+{OUTPUT_NAME})(0|[1-9]\d*)", key)):
        return (2, "str", repr(match[1]), int(match[2]))  # Outputs with a prefix.
    return (2, type(key).__name__, repr(key), -1)


class Outputs(np.ndarray[Any, Any]):
    """An array that a transformer returns: column k is the feature "h<k>", as in its dicts.

    The columns of any other array are the features 0, 1, …, and the entries of an array in a dict
    are ("h", 0), ("h", 1), …. By this class, outputs of a transformer have one name in every form,
    and pipelines can learn from arrays and predict from dicts. Arrays that are computed from
    outputs are outputs too; `numpy.asarray` returns a plain array.

    Attributes
    ----------
    stem : str
        What the names of columns begin with: the prefix of the transformer and "h".

    Examples
    --------
    >>> as_outputs(np.eye(2), "u_h")[:1].stem
    'u_h'
    """

    stem = OUTPUT_NAME

    def __array_finalize__(self, made_of: Any) -> None:
        stem = getattr(made_of, "stem", OUTPUT_NAME)
        if stem is not OUTPUT_NAME:
            self.stem = stem

    def __reduce__(self) -> Any:
        return as_outputs, (np.asarray(self), self.stem)

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def as_outputs(values: Matrix, stem: str = OUTPUT_NAME) -> Outputs:
    """Return an array as the outputs of a transformer; the two share memory."""
    outputs = values.view(Outputs)
    if stem != OUTPUT_NAME:
        outputs.stem = stem
    return outputs


@dataclass(frozen=True)
class ArrayFeature:
    """An array value of a sample: `length` features named (name, 0), (name, 1), ….

    The outputs of a transformer are named as in its dicts of numbers: name + "0", name + "1", ….
    """

    name: Name
    length: int
    are_outputs: bool = False

    def names(self) -> Iterator[Name]:
        """Yield the name of every entry."""
        if self.are_outputs:
            return (f"{self.name}{index}" for index in range(self.length))
        return ((self.name, index) for index in range(self.length))


Layout = range | tuple[Name | ArrayFeature, ...]
"""The columns of a batch: a range for a plain array, else names and array features in order.

`layout[:0]` has no columns, and says whether they are those of a plain array.
"""


def names_of(layout: Layout) -> Iterator[Name]:
    """Yield the feature names of a layout, with a name for each entry of an array feature."""
    for entry in layout:
        if isinstance(entry, ArrayFeature):
            yield from entry.names()
        else:
            yield entry


def layout_of(source: Any) -> Layout:
    """Return the layout of an array (n_rows, n_columns), a sparse matrix or a narwhals frame.

    Anything else has no columns.
    """
    if isinstance(source, Outputs) and source.ndim == 2:
        return (ArrayFeature(source.stem, source.shape[1], True),)
    if isinstance(source, ARRAY_TYPES):
        return range(source.shape[1]) if source.ndim == 2 else ()
    return plain_names(source.columns) if is_frame(source) else ()


def _arrays_of(layout: Layout) -> list[ArrayFeature]:
    # The columns of a plain array are a range, which may be long.
    entries = () if isinstance(layout, range) else layout
    return [entry for entry in entries if isinstance(entry, ArrayFeature)]


def holds_array(layout: Layout) -> bool:
    """Return whether a sample has an array value, so that a transformer returns an array too."""
    return bool(_arrays_of(layout))


# Reading


@dataclass(frozen=True)
class Batch:
    """A mini-batch that was read; its matrix is made later, when a model has room for it."""

    n_rows: int
    # Returns checked numbers of any real dtype, (n_rows, n_columns); absent values are 0.
    make_matrix: Callable[[], Any]
    # Layouts of the rows, in the order in which they occur; the last describes the matrix.
    layouts: tuple[Layout, ...]
    # The input, for results in the same kind: narwhals DataFrame, list, ndarray or sparse matrix.
    source: Any

    def __len__(self) -> int:
        return self.n_rows

    @cached_property
    def matrix(self) -> Any:
        """The matrix: an array, or a csr_array for a sparse matrix."""
        return self.make_matrix()

    @cached_property
    def values(self) -> Matrix:
        """The matrix as an array."""
        array: Matrix = dense(self.matrix)
        return array


ARRAY_TYPES = np.ndarray, *SPARSE_TYPES
"""Types of batches with arrays as results."""

PLAIN_NUMBER_TYPES = frozenset(
    {float, int, bool, np.bool_, np.float32, np.float64, np.int32, np.int64, np.uint8}
)
"""Types of values that are read without further checks of their type."""


def as_numpy(values: Any, argument: str = "X") -> Any:
    """Return a tensor or another array, such as torch's, as a numpy array; all else as it is.

    bfloat16, which numpy lacks, becomes float32. Memory is shared where numpy can share it.

    Raises
    ------
    TypeError
        If numpy cannot read the tensor: it needs a gradient, is on another device, or not dense. If
        an array has named fields.
    """
    if isinstance(values, np.ndarray):
        check_unstructured(argument, values)
        return values.astype(np.float32) if values.dtype.name == "bfloat16" else values
    if not hasattr(values, "__array__") and not hasattr(values, "__dlpack__"):
        return values
    from onlinels.rows.frames import get_pyarrow, is_into_dataframe, is_into_series

    pyarrow = get_pyarrow()
    if pyarrow is not None and isinstance(values, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([values])  # narwhals reads tables only.
    if isinstance(values, np.generic) or is_into_dataframe(values) or is_into_series(values):
        return values
    try:
        if str(getattr(values, "dtype", "")).endswith("bfloat16") and hasattr(values, "float"):
            values = values.float()
        array = np.asarray(values) if hasattr(values, "__array__") else np.from_dlpack(values)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        fault = f"{argument} of type {type(values).__name__} cannot be read as an array: {error}"
        remedy = f"Pass a dense numpy array, such as {argument}.detach().cpu().numpy()."
        raise TypeError(f"{fault.rstrip('.')}. {remedy}") from error
    return as_numpy(array)


ROW_REMEDY = (
    "Pass a row with names as {0}.to_dict(), {0}._asdict(), dataclasses.asdict({0}), dict({0}) or "
    "dict(zip(names, {0})), a row without names as dict(enumerate({0})), and a batch to the *_many "
    "method."
)


def check_mapping(x: Any, argument: str = "x") -> None:
    """Raise TypeError unless a sample is a mapping; do not read its values."""
    if not isinstance(x, Mapping):
        raise wrong_type(argument, x, "a dict of features", ROW_REMEDY.format(argument))


def array_in(x: Any, argument: str = "x") -> Any:
    """Return a sample that is no mapping as an array (n_features,); None if it is a mapping.

    Raises
    ------
    TypeError, ValueError
        If it is neither.
    """
    if isinstance(x, Mapping):
        return None
    array = as_numpy(x, argument)
    if not isinstance(array, np.ndarray) or not array.ndim:
        expected = "a dict of features, or an array"
        raise wrong_type(argument, x, expected, ROW_REMEDY.format(argument))
    if array.ndim > 1:
        found, remedy = f"has the shape {array.shape}", "Pass {0}[0] or {0}.ravel(), and a batch to"
        expected = "a dict of features, or an array (n_features,)"
        raise refusal(argument, found, expected, f"{remedy.format(argument)} the *_many method.")
    return array


def read_row(x: Row, argument: str = "x") -> tuple[Layout, Floats]:
    """Read one river sample: names to numbers, or to arrays of numbers; or an array (n_features,).

    `argument` is the name of the sample in messages.

    Examples
    --------
    >>> read_row({"age": 3, "height": 1.5})
    (('age', 'height'), array([3. , 1.5]))
    >>> read_row(np.array([3, 1.5]))
    (range(0, 2), array([3. , 1.5]))
    """
    array = array_in(x, argument)
    if array is not None:
        check_values(argument, array)
        return layout_of(array[None]), np.array(array, dtype=np.float64)
    if PLAIN_NUMBER_TYPES.issuperset(map(type, x.values())):
        try:
            # Measured: for 1,000 floats, a third of the time of np.array.
            values = np.frombuffer(struct.pack(f"{len(x)}d", *x.values())).copy()
            if within_bounds(values):
                return plain_names(x), values
        except struct.error:
            pass  # An integer beyond float64, which the checks below will report.
    layout: list[Name | ArrayFeature] = []
    parts = []
    for name, value in zip(plain_names(x), x.values(), strict=True):
        if getattr(value, "ndim", 0):
            value = as_numpy(value, f"{argument}[{name!r}]")
        if isinstance(value, np.ndarray) and value.ndim:
            check_values(f"{argument}[{name!r}]", value)
            are_outputs = isinstance(value, Outputs) and isinstance(name, str)
            layout.append(ArrayFeature(name, value.size, are_outputs))
            parts.append(value.astype(np.float64).ravel())
        else:
            layout.append(name)
            parts.append(np.array([read_number(f"{argument}[{name!r}]", value)]))
    return tuple(layout), np.concatenate(parts)


def read_sample(x: Row) -> Batch:
    """Read one river sample as a batch of one row."""
    layout, values = read_row(x)
    return Batch(1, lambda: values[None], (layout,), None)


def read_batch(X: Any, argument: str = "X") -> Batch:
    """Read a mini-batch: an array or tensor, a sparse matrix, a frame, or a list of samples.

    `argument` is the name of the batch in messages.

    Examples
    --------
    >>> batch = read_batch([{"a": 1}, {"b": 2}])
    >>> batch.layouts[-1], batch.values
    (('a', 'b'), array([[1., 0.],
           [0., 2.]]))
    """
    X = as_numpy(X, argument)
    if not isinstance(X, ARRAY_TYPES):
        return _read_samples(X) if isinstance(X, (list, tuple)) else _read_frame(X, argument)
    check_two_dimensional(argument, X)
    if isinstance(X, SPARSE_TYPES):
        rows = _finite_rows(X, argument, at_position)
    else:
        # The dtype of an array without values says nothing: pandas and numpy make it up.
        rows = X if len(X) else np.zeros(X.shape)
        check_values(argument, rows)
        rows = np.asarray(rows)
    return Batch(X.shape[0], lambda: rows, (layout_of(X),), X)


def _read_samples(X: Sequence[Any]) -> Batch:
    if not X:
        return Batch(0, lambda: np.zeros((0, 0)), ((),), X)
    try:
        read = [read_row(row) for row in X]
    except (TypeError, ValueError):
        for number, row in enumerate(X):
            read_row(row, f"X[{number}]")
        raise
    layouts = tuple(dict.fromkeys(layout for layout, _ in read))
    if len(layouts) == 1:
        stacked = np.stack([values for _, values in read])
        return Batch(len(read), lambda: stacked, layouts, X)
    columns = Columns().extended(layouts)
    places = {layout: columns.locate(layout) for layout in layouts}

    def lay_out() -> Matrix:
        matrix = np.zeros((len(read), len(columns)))
        for row, (layout, values) in zip(matrix, read, strict=True):
            row[places[layout]] = values
        return matrix

    return Batch(len(read), lay_out, (*layouts, columns.names), X)


def _finite_rows(X: Any, argument: str, place: Place) -> Any:
    """Return a sparse matrix as a checked csr_array of float32 or float64."""
    rows = sparse.csr_array(X)
    if not rows.has_canonical_format:
        # The csr_array may share its arrays with X.
        rows = rows.copy()
        rows.sum_duplicates()

    def place_of(entry: tuple[int, ...]) -> str:
        return place(tuple(int(index[entry]) for index in rows.tocoo().coords))

    check_values(argument, rows.data, place_of)
    return rows if rows.dtype.kind == "f" else rows.astype(np.float64)


def _read_frame(X: Any, argument: str) -> Batch:
    from onlinels.rows.frames import to_numpy

    frame = as_frame(X, argument)
    names, schema = tuple(frame.columns), frame.schema
    if not len(frame):
        # Without values, the types of columns say nothing.
        return Batch(0, lambda: np.zeros((0, len(names))), (plain_names(names),), frame)
    odd = {
        name: kind
        for name, kind in schema.items()
        if not (kind.is_numeric() or str(kind) == "Boolean" or _is_sparse(frame, name))
    }
    if odd:
        columns = ", ".join(f"a column {name!r} of type {kind}" for name, kind in odd.items())
        raise TypeError(f"{argument} has {columns}, expected numbers. {NUMBER_REMEDY}")

    def place(where: tuple[int, ...]) -> str:
        return f"in row {where[0]} of column {names[where[1]]!r}"

    kinds = set(map(str, schema.values()))
    native_kinds = set(frame.to_native().dtypes) if kinds == {"Unknown"} else set()
    if len(native_kinds) == 1 and not native_kinds.pop().fill_value:
        # Measured on 10,000 rows of 4,000 columns with 1% of the entries filled: a fifth of the
        # time, and 13 MiB instead of 305.
        matrix = _finite_rows(frame.to_native().sparse.to_coo(), argument, place)
    else:
        # Frames of float32 only stay float32: the accumulators cast them once.
        dtype = np.float32 if kinds == {"Float32"} else np.float64
        matrix = to_numpy(without_wide_integers(frame) if kinds & WIDE_INTEGERS else frame, dtype)
        check_values(argument, matrix, place)
    return Batch(len(frame), lambda: matrix, (plain_names(names),), frame)


def without_wide_integers(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return a frame whose 128-bit integers, which numpy lacks, are converted to floats."""
    from onlinels.rows.frames import nw

    wide = [name for name, kind in frame.schema.items() if str(kind) in WIDE_INTEGERS]
    return frame.with_columns(nw.col(*wide).cast(nw.Float64()))


def _is_sparse(frame: nw.DataFrame[Any], name: str) -> bool:
    """Return whether a column has pandas' Sparse numbers, which narwhals does not know."""
    dtype: Any = getattr(frame.to_native()[name], "dtype", None)
    return hasattr(dtype, "fill_value") and dtype.subtype.kind in "biuf"


def as_frame(X: Any, argument: str = "X") -> nw.DataFrame[Any]:
    """Return a frame (pandas, polars, pyarrow …) as a narwhals frame.

    `argument` is the name of the frame in messages.
    """
    from onlinels.rows.frames import DuplicateError, nw

    try:
        return nw.from_native(X, eager_only=True)
    except TypeError as error:
        expected = (
            "an array (n_rows, n_columns), a list of dicts, or a pandas, polars or pyarrow frame"
        )
        raise wrong_type(argument, X, expected, "Convert it.") from error
    except DuplicateError as error:
        fault = f"has several columns of one name ({error})"
        raise refusal(argument, fault, "one", "Rename all but one.") from error


def source_of(X: Any) -> Any:
    """Return a batch that is read elsewhere as a source for results in its kind."""
    X = as_numpy(X)
    return X if isinstance(X, (*ARRAY_TYPES, list, tuple)) else as_frame(X)


def is_frame(source: Any) -> bool:
    """Return whether the source of a batch is a frame."""
    return not (source is None or isinstance(source, (*ARRAY_TYPES, list, tuple)))


def holds_sparse(frame: nw.DataFrame[Any]) -> bool:
    """Return whether a checked frame has columns of pandas' Sparse numbers."""
    return any(str(kind) == "Unknown" for kind in frame.schema.values())


def form_of(X: Any) -> Layout:
    """Return the layout, without columns, of rows that are learnt one by one, as dicts."""
    X = as_numpy(X)
    return layout_of(X)[:0] if isinstance(X, ARRAY_TYPES) else ()


def samples_of(X: Any, timestamp: Name | None = None) -> Iterator[Row]:
    """Iterate over the rows of a mini-batch as river samples, without converting values.

    Only the dates of the column `timestamp` of a frame are those of numpy: the dates of Python, as
    polars gives them, lack the nanoseconds.

    Examples
    --------
    >>> list(samples_of(np.array([[1.0, 2.0]])))
    [{0: 1.0, 1: 2.0}]
    """
    X = dense(as_numpy(X))
    if isinstance(X, np.ndarray):
        check_two_dimensional("X", X)
        if isinstance(X, Outputs):
            return ({X.stem: row} for row in X)
        return (dict(enumerate(row)) for row in X.tolist())
    if isinstance(X, (list, tuple)):
        return iter(X)
    frame = as_frame(X)
    rows: Iterator[Row] = frame.iter_rows(named=True)
    if timestamp is None or timestamp not in frame.columns:
        return rows
    times = by_row(repr(timestamp), frame.get_column(timestamp).to_native(), len(frame))
    return ({**row, timestamp: time} for row, time in zip(rows, times, strict=True))


def part_of(X: Any, rows: slice) -> Any:
    """Return some rows of a mini-batch that is no tensor, in the same kind.

    Examples
    --------
    >>> part_of([{"a": 1.0}, {"a": 2.0}], slice(1, 2))
    [{'a': 2.0}]
    """
    if isinstance(X, SPARSE_TYPES):
        return X.tocsr()[rows]
    return X[rows] if isinstance(X, (np.ndarray, list, tuple)) else as_frame(X)[rows].to_native()


Called = TypeVar("Called", bound=Callable[..., Any])


def matched_by_position(called: Called) -> Called:
    """Decorate a method or function that takes rows `X` with targets, weights or times.

    If one of these arguments is a pandas object that has the index of the frame `X` in another
    order, a ValueError is raised. Any other index is ignored: rows are matched by position. Every
    public method with an argument `X` and one for its rows has this decorator.
    """
    names = tuple(signature(called).parameters)
    place = names.index("X")

    @wraps(called)
    def checked(*args: Any, **kwargs: Any) -> Any:
        X = args[place] if len(args) > place else kwargs.get("X")
        if is_index(getattr(X, "index", None)):
            for name, given in (*zip(names, args, strict=False), *kwargs.items()):
                check_order(name, X, given)
        return called(*args, **kwargs)

    made: Any = checked
    return cast("Called", made)


def is_index(index: Any) -> bool:
    """Return whether the attribute `index` of an object is that of a pandas object."""
    # Lists have a method of this name, and the index of Dask knows its entries only when computed.
    return hasattr(index, "equals") and hasattr(index, "tolist")


def check_order(name: str, X: Any, given: Any) -> None:
    """Raise ValueError if an argument has the index of `X` in another order."""
    ours: Any = X.index
    theirs: Any = getattr(given, "index", None)
    if given is X or not is_index(theirs) or not len(given) or ours.equals(theirs):
        return
    if _entries(ours) == _entries(theirs):
        remedy = f"Pass {name}.reindex(X.index), or {name}.to_numpy() to match rows by position."
        raise refusal(name, "has the index of X in another order", "one order for both", remedy)


def _entries(index: Any) -> Counter[Any]:
    """Return how often every entry of an index occurs; missing entries count as equal."""
    entries = index.tolist()
    if getattr(index, "hasnans", False):
        entries = [entry if equals_itself(entry) else None for entry in entries]
    return Counter(entries)


# Columns of a model


def _lengths_fit(columns: Columns) -> bool:
    # Entries are counted up to the length of their array.
    lengths = columns._lengths.values()
    return all(is_count(length) and length <= len(columns) for length in lengths)


def _columns_of_state(state: dict[str, Any]) -> Columns:
    # Files of earlier versions do not say whether columns are numbered: all were.
    said: dict[str, Any] = {"stems": (), "is_numbered": True} | state
    names, lengths, plain, stems = (said[name] for name in ("names", "lengths", "plain", "stems"))
    return _columns_of((tuple(names), tuple(lengths.items()), plain, stems, said["is_numbered"]))


MAX_SHARED_NAMES, MAX_SHARED_COLUMNS = 128, 256
"""Most names of columns that models share, and the number of these columns.

Models of a fleet learn the same names, and share these and what reads them.
"""


def _columns_of(said: tuple[Any, ...]) -> Columns:
    """Return columns made of what `Columns.said` returns: the same for all models of few names."""
    names, lengths, *others = said
    # Names of other types may be equal and yet two: 1 and True.
    if lengths or len(names) > MAX_SHARED_NAMES or not _TEXT.issuperset(map(type, names)):
        return Columns(names, dict(lengths), *others)
    return _shared_columns(names, *others)


_TEXT = frozenset((str,))


@lru_cache(MAX_SHARED_COLUMNS)
def _shared_columns(names: tuple[str, ...], *others: Any) -> Columns:
    return Columns(names, {}, *others)


@savable(
    _lengths_fit,
    take=lambda made: made.state(),
    make=_columns_of_state,
    is_value=True,
)
class Columns:
    """The columns of a model: features in the order in which they became known.

    Names that arrive together are sorted, so the order of dict keys and of frame columns changes
    nothing, not even the last bit. Names are one feature if they are equal in Python. A plain array
    has positions instead of names: its columns are the features 0, 1, …. Columns that have been
    those of a plain array reject names that are not numbers, and columns with such names reject
    plain arrays, because matching the columns would be a guess.

    Columns never change: `extended` makes new columns. The last layout is cached for speed.

    Parameters
    ----------
    names : iterable, optional
        Names in the order of the columns, which are not sorted: weights that are already fixed
        need this order.
    lengths : dict, optional
        Lengths of arrays in dicts, by name.
    plain : bool
        Whether the columns have been those of a plain array.
    stems : iterable of str
        What the names of outputs of transformers begin with; see `Outputs`.
    is_numbered : bool
        Whether "h3", ("h", 3) and 3 are one feature; see `numbered`.

    Examples
    --------
    >>> columns = Columns().extended([("b", "a")])
    >>> columns.names, columns.locate(("b", "c"))
    (('a', 'b'), array([ 1, -1]))
    """

    def __init__(
        self,
        names: Iterable[Name] = (),
        lengths: dict[Name, int] | None = None,
        plain: bool = False,
        stems: Iterable[str] = (),
        is_numbered: bool = False,
    ) -> None:
        self.names = plain_names(names)
        """First names of the features, in the order of the columns."""
        self._lengths, self._plain, self._stems = lengths or {}, plain, frozenset(stems)
        self.is_numbered = is_numbered
        """Whether "h3", ("h", 3) and 3 are one feature; see `numbered`."""
        self._index = {self.key_of(name): column for column, name in enumerate(self.names)}
        if len(self._index) < len(self.names):
            raise ValueError("two of its columns have one name")
        self._last: tuple[Layout, Integers] | None = None
        # The column of every name that dicts may have; of an array, (first column, length), and its
        # type if that is not numpy's. The index itself, if it has plain names of numbers alone.
        is_plain = PLAIN_NAME_TYPES.issuperset(map(type, self.names))
        is_plain = is_plain and not (lengths or self._stems or is_numbered)
        self.places: dict[Name, Any] = self._index if is_plain else _plain_places(self.names)
        self._reader: Reader | None = None

    def __len__(self) -> int:
        return len(self._index)

    def __reduce__(self) -> Any:
        return _columns_of, (self.said(),)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # In pickles of earlier versions.
        said = state["_lengths"], state["_plain"], state.get("_stems", ())
        made = Columns(state["names"], *said, state.get("is_numbered", True))
        vars(self).update(vars(made))

    def said(self) -> tuple[Any, ...]:
        """Return the same arguments as plain values."""
        lengths, stems = tuple(self._lengths.items()), tuple(sorted(self._stems))
        return self.names, lengths, self._plain, stems, self.is_numbered

    def state(self) -> dict[str, Any]:
        """Return the arguments that make equal columns."""
        said = {"names": self.names, "lengths": self._lengths, "plain": self._plain}
        return said | {"stems": tuple(sorted(self._stems)), "is_numbered": self.is_numbered}

    def key_of(self, name: Name) -> Name:
        """Return what identifies a feature: its plain name."""
        return numbered(name) if self.is_numbered else plain_value(name)

    @property
    def reader(self) -> Reader | None:
        """What reads dicts of these names, for all models with these columns."""
        if self._reader is None:
            self._reader = reader_of(self.places, len(self._index))
        return self._reader

    def row(self, x: Any) -> Floats | None:
        """Return a dict of numbers as a row of all columns; None for anything else."""
        reader = self.reader
        known = reader.row(x) if len(self) and reader is not None else None
        return None if known is None else np.frombuffer(known)

    def are(self, layout: Layout) -> bool:
        """Whether the columns are those of an array of this layout, in its order."""
        if isinstance(layout, range) and not self._plain:
            return False
        return _is_in_place(self.locate(layout), len(self))

    def note(self, layout: Layout) -> None:
        """Note the columns of the array, or of numbered names, of a dict for `onlinels.core`."""
        is_plain = self.places is self._index or isinstance(layout, range)
        if is_plain or len(self.places) > 2 * len(self):
            return
        arrays, located = _arrays_of(layout), self.locate(layout)
        if not arrays:
            for name, column in zip(layout, located.tolist(), strict=True):
                if column >= 0 and type(name) in PLAIN_NAME_TYPES:
                    self.places[name] = column
        # Rows of an array with another name are to be learnt by `extended`, which keeps its name.
        elif len(layout) == 1 and type(arrays[0].name) is str and self._knows(arrays[0]):
            first = int(located[0]) if len(located) else -1
            if first >= 0 and (located == np.arange(first, first + len(located))).all():
                kind = (Outputs,) if arrays[0].are_outputs else ()
                self.places[arrays[0].name] = first, arrays[0].length, *kind

    def _knows(self, feature: ArrayFeature) -> bool:
        return feature.name in (self._stems if feature.are_outputs else self._lengths)

    def layouts(self) -> tuple[Layout, ...]:
        """Return layouts with all these features, for extending other columns."""
        arrays = tuple(ArrayFeature(name, length) for name, length in self._lengths.items())
        outputs = tuple(ArrayFeature(stem, 0, True) for stem in self._stems)
        return (*((range(0),) if self._plain else ()), arrays, outputs, self.names)

    def joined(self, other: Columns) -> Columns:
        """Return columns with all features of other columns too."""
        mine = self.as_numbered() if other.is_numbered else self
        return mine.extended(other.layouts())

    def as_numbered(self) -> Columns:
        """Return these columns, with "h3", ("h", 3) and 3 as one feature.

        For columns that are known to be those of a transformer.
        """
        return self if self.is_numbered else Columns(**(self.state() | {"is_numbered": True}))

    def in_form(self, layout: Layout) -> Columns:
        """Return these columns as those of a plain array if a layout is one; no feature is added.

        For rows of an array that are learnt one by one, as dicts.
        """
        return self.extended((layout[:0],))

    def extended(self, layouts: Iterable[Layout]) -> Columns:
        """Return columns with all features of the layouts too; `self` if there are no new features.

        Arrays must be as long as before, and plain arrays cannot be mixed with names that are not
        numbers.
        """
        columns = self
        for layout in layouts:
            is_new, arrays = columns.locate(layout) < 0, _arrays_of(layout)
            lengths = {each.name: each.length for each in arrays if not each.are_outputs}
            plain = columns._plain or isinstance(layout, range)
            says_more = plain > columns._plain or not all(map(columns._knows, arrays))
            if is_new.any() or says_more:
                if isinstance(layout, range) and 0 < len(columns) < len(layout):
                    warn_caller(
                        "X has more columns than the rows learnt before.",
                        f"It has {len(layout)} columns, and the rows before had {len(columns)}: "
                        "in those rows, the others count as 0. Check the shape of X.",
                    )
                names = plain_names(sorted_names(compress(names_of(layout), is_new)))
                now = {name: lengths[name] for name in sorted_names(lengths)}
                stems = {str(each.name) for each in arrays if each.are_outputs}
                columns = columns._with(names, now, stems)
                columns._plain = plain
        return columns

    def _with(self, names: Sequence[Name], lengths: dict[Name, int], stems: set[str]) -> Columns:
        """Return columns with new plain names, and with arrays and stems of theirs."""
        size, columns = len(self._index), object.__new__(Columns)
        vars(columns).update(vars(self))
        columns.names = (*self.names, *names)
        is_plain = self.places is self._index and not (lengths or stems)
        is_plain = is_plain and PLAIN_NAME_TYPES.issuperset(map(type, names))
        keys = names if is_plain else map(self.key_of, names)
        columns._index = self._index | dict(zip(keys, count(size), strict=False))
        columns._lengths, columns._stems = self._lengths | lengths, self._stems | stems
        columns.places = columns._index
        if not is_plain:
            columns.places = self.places | _plain_places(names, size)
        columns._last = columns._reader = None
        return columns

    def met(self, x: Any) -> Columns | None:
        """Return columns with the names of a sample too.

        None if the sample is not a dict of numbers by plain names, or if these columns are not
        named by such alone: `read_row` and `extended` read it then. No code of others is run.
        """
        index = self._index
        if type(x) is not dict or self._plain or self.places is not index:
            return None
        is_named = PLAIN_NAME_TYPES.issuperset(map(type, x))
        if not (is_named and PLAIN_NUMBER_TYPES.issuperset(map(type, x.values()))):
            return None
        new = sorted_names([name for name in x if name not in index])
        if not (new and index):
            return _columns_of((tuple(new), (), False, (), False)) if new else self
        return self._with(new, {}, set())

    def staying(self, gone: NDArray[np.bool_]) -> Integers:
        """Return the columns that stay when features that no row has left are removed.

        The entries of an array are removed together, and so are outputs of a transformer that came
        as an array. The columns of a plain array stay: a position is not a name.
        """
        groups = [self._group(name) for name in self.names]
        stay = {group for group, is_gone in zip(groups, gone.tolist(), strict=True) if not is_gone}
        return np.flatnonzero([self._plain or group in stay for group in groups])

    def _group(self, name: Name) -> tuple[str, Name]:
        if isinstance(name, tuple) and len(name) == 2 and name[0] in self._lengths:
            return "array", name[0]
        stem = self._stem_of(name)
        return ("name", self.key_of(name)) if stem is None else ("outputs", stem)

    def _stem_of(self, name: Name) -> str | None:
        """Return what the name of an output begins with; None for any other name."""
        stems = (OUTPUT_NAME,) if self.is_numbered else self._stems
        if not isinstance(name, str):
            return None
        found = (stem for stem in stems if name.startswith(stem) and name[len(stem) :].isdecimal())
        return next(found, None)

    def only(self, kept: Integers) -> Columns:
        """Return columns of the features at the given places; `self` if these are all."""
        if len(kept) == len(self):
            return self
        names = [self.names[place] for place in kept.tolist()]
        arrays = {name[0] for name in names if isinstance(name, tuple) and name}
        arrays = {name for name in arrays if self._lengths.get(name, 0) <= len(names)}
        lengths = {name: length for name, length in self._lengths.items() if name in arrays}
        stems = self._stems & set(map(self._stem_of, names))
        return Columns(names, lengths, self._plain, stems, self.is_numbered)

    def columns_of(self, name: Name) -> Integers:
        """Return the columns of a name, or of all entries of an array; none if it is unknown."""
        entries = ((name, index) for index in range(self._lengths.get(name, 0)))
        keys = map(self.key_of, (name, *entries))
        return np.array([self._index[key] for key in keys if key in self._index], dtype=np.intp)

    def has(self, name: Name) -> bool:
        """Return whether a name, of a number or of an array, has a column."""
        return name in self._lengths or self.key_of(name) in self._index

    def locate(self, layout: Layout) -> Integers:
        """Return the column of every feature of a layout; -1 if the feature is unknown."""
        # Models share columns: names of other types would refer to one, or be compared by code.
        is_plain = isinstance(layout, range) or PLAIN_NAME_TYPES.issuperset(map(_type_of, layout))
        # Other threads may replace the cached layout.
        last = self._last
        if is_plain and last is not None and layout == last[0]:
            return last[1]
        located = self._located(layout)
        if is_plain:
            self._last = layout, located
        return located

    def _located(self, layout: Layout) -> Integers:
        for feature in _arrays_of(layout):
            self._check_length(feature)
        keys = check_distinct(names_of(layout), numbered if self.is_numbered else None)
        if self._plain or isinstance(layout, range):
            fault = "Columns are those of a plain array, expected names as before, such as"
            if self._plain:
                fault = "Columns have names, expected those of a plain array as before, not"
            for key in (*self._index, *keys):
                if not _is_position(key):
                    raise ValueError(f"{fault} {key!r}. Learn and predict in one form.")
        return np.array([self._index.get(key, -1) for key in keys], dtype=np.intp)

    def _check_length(self, feature: ArrayFeature) -> None:
        """Raise ValueError if an array is not as long as before."""
        name, now = feature.name, feature.length
        if not feature.are_outputs:
            before = self._lengths.get(name, now)
            if now != before:
                place, remedy = f"x[{name!r}]", "Pass arrays of one size in every row."
                raise refusal(place, f"has {now} values", f"{before} as in other rows", remedy)
        elif name in self._stems and now:
            last, beyond = (f"{name}{index}" for index in (now - 1, now))
            if not self.has(last) or self.has(beyond):
                remedy = "Images of one size have features of one number: resize the images."
                raise refusal("x", f"has {now} values {name}", "as many as in other rows", remedy)

    def differences(self, batch: Batch) -> tuple[list[Name], list[Name]]:
        """Return the names of the columns that a frame or array lacks, and of its unknown columns.

        Dicts lack no columns, because they leave out zeros; neither do frames with pandas' Sparse
        columns, which encoders make from the values that occur.
        """
        layout, is_array = batch.layouts[-1], isinstance(batch.source, np.ndarray)
        if not (len(batch) and len(self) and (is_array or is_frame(batch.source))):
            return [], []
        located = self.locate(layout)
        if _is_in_place(located, len(self)) or (not is_array and holds_sparse(batch.source)):
            return [], []
        unknown = list(compress(names_of(layout), located < 0))
        if unknown:
            self._check_renamed(layout, located)
        absent = np.setdiff1d(np.arange(len(self)), located)
        return [self.names[column] for column in absent], unknown

    def place(self, layouts: Sequence[Layout], values: Any) -> Any:
        """Arrange values in the columns of the model, with 0 for absent columns."""
        for layout in filter(holds_array, layouts[:-1]):
            # The last layout has a name for every entry, so it does not show the array lengths.
            self.locate(layout)
        located = self.locate(layouts[-1])
        if _is_in_place(located, len(self)):
            return values
        if isinstance(values, SPARSE_TYPES):
            chosen = sparse.csr_array(values[:, located >= 0])
            parts = chosen.data, located[located >= 0][chosen.indices], chosen.indptr
            return sparse.csr_array(parts, shape=(chosen.shape[0], len(self)))
        placed = np.zeros((len(values), len(self)), values.dtype)
        known = located >= 0
        if not known.all():
            self._check_renamed(layouts[-1], located)
        placed[:, located[known]] = values[:, known]
        return placed

    def _check_renamed(self, layout: Layout, located: Integers) -> None:
        """Raise ValueError if outputs lack the prefix or suffix with which they were learnt.

        For batches, river silently leaves out a Prefixer at the end of a pipeline: the outputs
        would count as 0.
        """
        texts = (name for name in compress(names_of(layout), located < 0) if isinstance(name, str))
        output = next((name for name in texts if isinstance(numbered(name), int)), None)
        if output is None:
            return
        renamed = re.compile(rf".+{output}|{output}\D.*")
        for column, name in enumerate(self.names):
            if isinstance(name, str) and renamed.fullmatch(name) and column not in located:
                prefix = name.partition(output)[0] or "u_"
                fault = f"has {output!r} and lacks {name!r}"
                remedy = f"River ignores Prefixer in batches: pass prefix={prefix!r} to the layer."
                raise refusal("X", fault, "names as they were learnt", remedy)


def warn_of_other_columns(columns: Columns, batch: Batch) -> None:
    """Warn that a frame or an array lacks columns of the model, or that an array has others."""
    absent, unknown = columns.differences(batch)
    warn_of_absent(len(columns), absent, unknown)
    if unknown and not absent and isinstance(batch.source, np.ndarray):
        warn_caller(
            "X has more columns than the model has learnt.",
            f"It has {len(columns) + len(unknown)} columns, and the model has learnt "
            f"{len(columns)}: the others do not count. Pass the columns that were learnt, in "
            "order.",
        )


def warn_of_absent(n_known: int, absent: Sequence[Name], unknown: Sequence[Name]) -> None:
    """Warn that a batch lacks some of the `n_known` columns."""
    if not absent:
        return
    others = f" (X also has {reprlib.repr(unknown)})" if unknown else ""
    warn_caller(
        "X lacks columns that the model has learnt.",
        f"{len(absent)} of {n_known} columns count as 0: {reprlib.repr(absent)}. Check the "
        f"spelling{others}; if 0 is intended, add columns of 0, or pass a list of dicts.",
    )


NO_COLUMNS = Columns()
"""The columns of models that have learnt nothing."""


def _plain_places(names: Iterable[Name], first: int = 0) -> dict[Name, Any]:
    """Return the columns of the plain names among names, of which the first has this column."""
    return {name: at for at, name in enumerate(names, first) if type(name) in PLAIN_NAME_TYPES}


def _type_of(entry: Name | ArrayFeature) -> type:
    """Return the type of a name of a layout; of an array, that of its name."""
    return type(entry.name if isinstance(entry, ArrayFeature) else entry)


def _is_position(key: Name) -> bool:
    """Return whether a name may be a column of a plain array; (column, text) is one in streams."""
    if isinstance(key, tuple) and len(key) == 2:
        return isinstance(key[0], int) and isinstance(key[1], str)
    return isinstance(key, int)


def _is_in_place(located: Integers, n_columns: int) -> bool:
    return len(located) == n_columns and bool((located == np.arange(n_columns)).all())


def reader_of(columns: dict[Name, Any], n_columns: int) -> Reader | None:
    """Return a reader of dicts, given the column of every name; None without a compiled core."""
    return Reader and Reader(columns, n_columns, PLAIN_NUMBER_TYPES, np.ndarray)
