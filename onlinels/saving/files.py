"""Save models to files and load them: no pickle, no code is run, no file is half-written.

A file holds a JSON description of a model, and its arrays beside it.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import math
import os
import secrets
import shutil
import sys
import time
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import date, datetime, timedelta, timezone
from functools import cache, partial
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from onlinels.checks import Matrix, check_path
from onlinels.numerics import Lock, all_held, owned
from onlinels.saving.classes import (
    MAX_COMPUTED_BYTES,
    PLAIN_TYPES,
    TYPES,
    SavableClass,
    in_plain_types,
    is_plain,
    kind_named,
    kind_of,
    state_of,
)

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
"""Most bytes of an array's header, which numpy reads as a Python literal. It writes some 100."""

SAVING_REMEDY = (
    "It cannot be saved. Labels, names and settings must be of type str, int, bool, float, None or "
    "tuple, and steps must be among those on the guide's page on saving: pass str(label) or "
    "str(name), and leave out other steps."
)


class Writer:
    """Describe a value and collect its arrays; an object that occurs twice is described once.

    Examples
    --------
    >>> writer = Writer()
    >>> writer.node(("a", np.ones(2)), "model")
    {'tuple': ['a', {'array': 'model.1'}]}
    >>> writer.arrays
    {'model.1': array([1., 1.])}
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Matrix] = {}
        # By identity. The objects are kept alive, so that no other object gets the same id.
        self._described: dict[int, tuple[Any, Node]] = {}
        self._numbers = count()
        self._most_computed = MAX_COMPUTED_BYTES

    def node(self, value: Any, path: str) -> Node:
        """Return the description of a value; its path appears in errors and names its array."""
        if id(value) in self._described:
            return self._described[id(value)][1]
        if type(value) in PLAIN_TYPES:
            return value
        if type(value) is list:
            return [self.node(each, f"{path}.{place}") for place, each in enumerate(value)]
        try:
            kind = kind_of(type(value))
            return self._other(value, path) if kind is None else self._object(kind, value, path)
        except ValueError as error:
            # Names of private attributes mean nothing to readers of the error.
            place = path.rpartition("._")[0] or path
            raise TypeError(f"{place} holds {error}. {SAVING_REMEDY}") from error

    def _other(self, value: Any, path: str) -> Node:
        # All numbers of numpy are of one kind, and so are all types.
        several = (kind for kind in (np.generic, type) if isinstance(value, kind))
        made = next(several, type(value))
        if made is np.ndarray:
            # Paths are unique, because keys are.
            self.arrays[path] = value.astype(_known_dtype(value), copy=False)
            self._described[id(value)] = value, {"array": path}
            return {"array": path}
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
            n_computed, state = 0, state_of(value)
        self._most_computed -= n_computed
        # In the order of the names, because the order of attributes depends on the past.
        nodes = {name: self.node(state[name], f"{path}.{name}") for name in sorted(state)}
        # Parts are numbered before the whole, here and when they are loaded.
        self._described[id(value)] = value, {"same": next(self._numbers)}
        return {"object": kind.name, "state": nodes}


def _known_dtype(value: Any) -> str:
    little = value.dtype.newbyteorder("<").str
    if little not in NUMPY_TYPES:
        raise ValueError(_typed(value))
    return str(little)


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


class Builder:
    """Make values from descriptions: only those of known classes, and each object once."""

    def __init__(self, read_array: Callable[[str], Matrix], n_described: int) -> None:
        # Owned at once: otherwise all arrays would be in memory twice, until the last is read.
        self._read_array = cache(lambda name: owned(read_array(name)))
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
        match node:
            case None | bool() | int() | float() | str():
                return node
            case list():
                return [self.value(each) for each in node]
            case {"object": str() as name, "state": dict() as state}:
                return self._object(name, state)
            case {"same": int() as number} if 0 <= number < len(self._made):
                value, n_values = self._made[number]
                self._n_values += n_values
                return value
            case {"array": str() as name}:
                return self._read_array(name)
            case dict() if len(node) == 1:
                ((name, said),) = node.items()
                return CONTAINERS[name][2](self.value(said))
        raise ValueError(f"it describes an unknown value {str(node)[:80]}")

    def _object(self, name: str, nodes: dict[str, Node]) -> Any:
        kind = kind_named(name)
        if kind is None:
            raise ValueError(f"it describes an object of an unknown class {name[:80]}")
        before = self._n_values
        state = {name: self.value(node) for name, node in nodes.items()}
        self._most_computed -= kind.computed(state)
        if self._most_computed < 0:
            raise ValueError("it leaves out more numbers than may be computed")
        value = kind.make(state)
        if not kind.check(value):
            raise ValueError(f"the parts of its {kind.name} contradict each other")
        self._made.append((value, self._n_values - before))
        return value


def read_npy(content: bytes) -> Matrix:
    """Read an array of numbers in numpy's format, in the memory of its content.

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


FORMAT_VERSION = 3
"""Version of the file format; it changes whenever the description changes."""

DESCRIPTION_NAME = "model.json"
"""The member besides the arrays.

Nothing is compressed, so that what a file may take in memory follows from its size.
"""

LEFT_OVER_SECONDS = 600.0
"""Seconds after its last change from which a hidden file counts as left over by a killed save."""

PathLike = str | os.PathLike[str]
Embed = Callable[[list[Any]], Any]
"""A function of a list of items that returns an array (n_items, n_dimensions)."""
Model = TypeVar("Model")


def save(model: Any, path: PathLike) -> None:
    """Write a model, or a river pipeline of models, to a file.

    See the `save` method of any model for details and limits.

    Parameters
    ----------
    model : estimator, transformer or accumulator of onlinels, pipeline, union, dict, list or tuple
        Model to save. A pipeline or union may also contain those of river's transformers that can
        be saved. A dict, list or tuple of models and plain values is saved as one unit, for
        instance a model together with its position in a stream. Plain values are str, int, bool,
        float, None, bytes, dates, numbers and arrays of numpy, and tuples, lists, dicts, sets and
        deques of plain values.
    path : str or PathLike
        Path of the file.

    Raises
    ------
    TypeError, ValueError, OSError
        As for the `save` method.

    Examples
    --------
    >>> import tempfile, pathlib, onlinels
    >>> from river import preprocessing
    >>> model = preprocessing.StandardScaler() | onlinels.LeastSquaresClassifier()
    >>> model.learn_one({"size": 3.0}, "apple")
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "fruit.npz"
    >>> onlinels.save(model, path)
    >>> onlinels.load(path).predict_one({"size": 2.0})
    'apple'
    """
    write(model, partial(replacing, check_path("path", path)))


def dumps(model: Any) -> bytes:
    """Return a model as bytes, from which `loads` restores it.

    Use it to pass models through other engines.

    Parameters
    ----------
    model
        Model to save, as for `save`.

    Returns
    -------
    bytes
        Exactly the bytes that `save` writes to a path.

    Raises
    ------
    TypeError
        As for `save`.

    Notes
    -----
    Unlike a pickle, the bytes are as safe as a file, and can be written to any open file. Cost: a
    copy of the model's state in memory.

    Examples
    --------
    >>> import onlinels
    >>> model = onlinels.LeastSquaresClassifier()
    >>> model.learn_one({"size": 3.0}, "apple")
    >>> onlinels.loads(onlinels.dumps(model)).predict_one({"size": 2.0})
    'apple'
    """
    file = BytesIO()
    write(model, partial(nullcontext, file))
    return file.getvalue()


def write(model: Any, opened: Callable[[], AbstractContextManager[Any]]) -> None:
    """Write a model to a file, which is opened only if the model can be saved."""
    if kind_of(type(model)) is None and type(model) not in (dict, list, tuple):
        expected = "a model of onlinels (no subclass), a pipeline of these or a dict of models"
        # Models of onlinels.sklearn have `to_river`; that module cannot be imported here.
        remedy = "model.to_river()" if hasattr(type(model), "to_river") else "one of these"
        raise TypeError(
            f"model is of type {type(model).__name__}, expected {expected}. Save {remedy}."
        )
    try:
        with all_held(*locks_of(model)):
            writer = Writer()
            described = writer.node(model, type(model).__name__)
            with opened() as file, zipfile.ZipFile(file, "w") as archive:
                for name, array in writer.arrays.items():
                    # A date of its own, so that equal models are saved as equal bytes.
                    info = zipfile.ZipInfo(f"{name}.npy")
                    with archive.open(info, "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
                # This module must not import the package, which is loaded by now.
                version = sys.modules["onlinels"].__version__
                said = {"onlinels": version, "format": FORMAT_VERSION, "model": described}
                text = json.dumps(said, separators=(",", ":"))
                archive.writestr(zipfile.ZipInfo(DESCRIPTION_NAME), text)
    except RecursionError as error:
        problem = "model holds itself, or values that are nested too deeply"
        raise TypeError(f"{problem}, expected a tree of few levels. Save its parts.") from error


def save_method(self: Any, path: PathLike) -> None:
    """Write the model to a file, from which `onlinels.load` restores it.

    The file is written completely or not at all: a new file is written next to the old one, flushed
    to the disk, and then renamed to the path. If the process dies or the disk is full, the old file
    stays unchanged. For an open file, write the bytes of `onlinels.dumps`.

    Parameters
    ----------
    path : str or PathLike
        Path with any extension (".npz" shows the format).

    Raises
    ------
    TypeError
        If a label, name or setting is not a str, int, bool, float, None or a tuple of these, or if
        a step of a pipeline cannot be saved. Nothing is written then.
    OSError
        If the folder does not exist or is not writable, or the disk is full.

    Notes
    -----
    The loaded model predicts and learns exactly like this one, bit for bit, and saving does not
    change this model. (With more than 320 features, learning row by row after loading agrees up to
    rounding, because columns collected from single rows are folded into the inverse in the file.)
    Solved output weights are saved, so a model that has predicted predicts immediately after
    loading. The file is written at the speed of the disk. It contains no rows, except those that
    wait for others (a window that is not full, or images before features are fixed), and the images
    that the input weights of a network are made of. On another machine, these weights agree up to
    rounding.
    `onlinels.export.answers_only` returns a smaller model that only predicts.

    Threads that learn wait while the file is written. If two processes or threads save to one path
    at once, neither waits or fails, and the last file stays.

    A process killed during a save may leave a hidden file next to the path, whose name ends in
    ".saving". Nothing reads this file, and you may delete it. A later save to the path removes it
    once it has not changed for ten minutes.

    Examples
    --------
    >>> import tempfile, pathlib, onlinels
    >>> model = onlinels.LeastSquaresClassifier()
    >>> model.learn_one({"size": 3.0}, "apple")
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "fruit.npz"
    >>> model.save(path)
    >>> onlinels.load(path).predict_one({"size": 2.0})
    'apple'
    """
    save(self, path)


save_method.__name__ = save_method.__qualname__ = "save"


def locked_copy(model: Model) -> Model:
    """Return an independent deep copy, made under the model's locks."""
    with all_held(*locks_of(model)):
        return copy.deepcopy(model)


def locked_state(model: Any) -> dict[str, Any]:
    """Return the state for copies and pickles, never in the middle of a call."""
    with model._lock:
        return dict(vars(model))


def locks_of(model: Any) -> list[Lock]:
    """Return the locks of models, including those of models inside others."""
    if hasattr(model, "_lock"):
        # A wrapped model may learn without its wrapper.
        return [model._lock, *locks_of(getattr(model, "classifier", None))]
    parts = getattr(model, "steps", getattr(model, "transformers", model))
    parts = list(parts.values()) if isinstance(parts, dict) else parts
    each = parts if isinstance(parts, (list, tuple)) else ()
    return [lock for part in each for lock in locks_of(part)]


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that then replaces the one at a path; add a remedy to any OSError."""
    try:
        with written_aside(path) as file:
            yield file
    except OSError as error:
        remedy = "pass a folder that exists, can be written and has space"
        said = f"{error.strerror or error} (nothing at the path has changed; {remedy})"
        raise OSError(error.errno or errno.EIO, said, str(path)) from error


@contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """Open a file next to the one at a path, then flush it to the disk and rename it."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "The path is a folder, a device or a pipe, expected a file")
    # The name ends as the path decides, and is short enough for any file system. The file is always
    # newly created: a file or link that somebody else has put there is never written.
    digest = hashlib.blake2b(os.fsencode(path.name), digest_size=8).hexdigest()
    ending = f".{digest}.saving"
    beside = path.with_name(f".{path.name[:24]}.{secrets.token_hex(8)}{ending}")
    # If there is an old file, only the owner can read the new one, which gets the mode of the old
    # file just before it replaces it. Otherwise it has the system's mode for new files.
    mode = 0o600 if path.exists() else 0o666
    _remove_left_over(path.parent, ending)
    try:
        with open(beside, "x+b", opener=partial(os.open, mode=mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # Some file systems do not support modes.
        with suppress(OSError):
            shutil.copymode(path, beside)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
    # Where folders can be opened, their entries are flushed to the disk too.
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        with suppress(OSError):
            os.fsync(folder)
        os.close(folder)


def _remove_left_over(folder: Path, ending: str) -> None:
    """Remove the hidden files of killed saves to one path, which nobody writes any more."""
    # A running save changes its file again and again.
    oldest = time.time() - LEFT_OVER_SECONDS
    # What cannot be listed or removed is left alone.
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.endswith(ending) and (folder / name).lstat().st_mtime < oldest:
                os.unlink(folder / name)


def load(path: PathLike, embed: Embed | None = None) -> Any:
    """Return the model in a file, as it was when it was saved.

    No code from the file is run: the file contains names of known classes of onlinels and river,
    and their numbers and text. A malicious file can make a model predict anything or raise errors,
    but cannot make this process do anything else.

    Parameters
    ----------
    path : str or PathLike
        Path of the file. For an open file, pass what it reads to `onlinels.loads`.
    embed : callable, optional
        The function of the model's `Embedding`, as files hold no functions. It must return the
        same embeddings for the probes as when the model was saved.

    Returns
    -------
    model
        Model of the class that was saved.

    Raises
    ------
    TypeError
        If `path` is not a path.
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file was not written by `save`, is damaged, or has another format (the error names
        the version that wrote it). Memory is bounded by the size of the file, and by 50 times the
        size of names and labels.

    Notes
    -----
    The whole file is read, and its checksums are verified. This takes about the time of reading the
    arrays with numpy. The file is closed afterwards, so you can replace or delete it.

    Examples
    --------
    >>> import tempfile, pathlib, onlinels
    >>> model = onlinels.LeastSquaresRegressor(ridge=0.0)
    >>> model.learn_many([{"size": 1.0}, {"size": 2.0}], [10.0, 20.0])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "prices.npz"
    >>> model.save(path)
    >>> round(onlinels.load(path).predict_one({"size": 3.0}), 9)
    30.0
    """
    path = check_path("path", path)
    if not path.exists():
        problem = f"There is no file {path}, expected an existing file"
        raise FileNotFoundError(f"{problem}. Pass its path, or save a model there first.")
    if not path.is_file():
        # Reading a device or a pipe could block or never end.
        problem = f"{path} is a folder, a device or a pipe, expected a file"
        raise ValueError(f"{problem}. Pass the path of a file, or save a model there first.")
    return _read(lambda: path.open("rb"), str(path), embed)


def loads(content: bytes | bytearray | memoryview, embed: Embed | None = None) -> Any:
    """Return the model in the bytes made by `dumps`; as in `load`, no code is run.

    Parameters
    ----------
    content : bytes, bytearray or memoryview
        Bytes of a model.
    embed : callable, optional
        As for `load`.

    Returns
    -------
    model
        Model of the class that was saved.

    Raises
    ------
    TypeError
        If `content` is of another type.
    ValueError
        If `content` was not made by `dumps`, is damaged, or has another format; see `load`.

    Examples
    --------
    >>> import onlinels
    >>> model = onlinels.LeastSquaresRegressor()
    >>> model.learn_one({"size": 3.0}, 7.0)
    >>> onlinels.loads(onlinels.dumps(model)).count
    1
    """
    if not isinstance(content, (bytes, bytearray, memoryview)):
        told = f"content is of type {type(content).__name__}, expected bytes"
        raise TypeError(f"{told}. Pass the result of dumps, or call load(path) for a file.")
    return _read(partial(BytesIO, content), "<bytes>", embed)


def _read(opened: Callable[[], BinaryIO], name: str, embed: Embed | None) -> Any:
    """Return the model that a file holds, with its function; errors begin with the file's name."""
    try:
        with opened() as file, zipfile.ZipFile(file) as archive:
            _check_archive(archive, file)
            text = archive.read(DESCRIPTION_NAME)
            said = json.loads(text)
            found, version = said["format"], str(said["onlinels"])[:80]
            builder = Builder(lambda name: read_npy(archive.read(f"{name}.npy")), len(text))
            model = builder.value(said["model"]) if found == FORMAT_VERSION else None
    except MemoryError:
        # Nothing is larger than the file, so the memory is really exhausted.
        raise
    except Exception as error:
        # Damaged and forged files raise errors of any class.
        remedy = "It was not written by save or is damaged: load a copy, or save the model again."
        raise ValueError(f"{name} cannot be read as a saved model: {error}. {remedy}") from error
    if found != FORMAT_VERSION:
        problem = f"{name} is of format {str(found)[:80]}, expected {FORMAT_VERSION}"
        raise ValueError(f"{problem}. Load it with onlinels {version}, the version that wrote it.")
    functions = [part for part in builder.parts if hasattr(part, "attach")]
    if embed is not None:
        if not functions:
            told = f"embed={embed!r} was passed, but {name} holds no Embedding"
            raise ValueError(f"{told}. Load it without embed.")
        for function in functions:
            function.attach(embed)
    return model


def _check_archive(archive: zipfile.ZipFile, file: BinaryIO) -> None:
    """Raise unless an archive is one save, and memory is bounded by the size of its file."""
    members = archive.infolist()
    start = min((member.header_offset for member in members), default=0)
    if start:
        raise ValueError(f"its save begins at byte {start}, expected byte 0")
    for member in members:
        if member.compress_type or member.compress_size != member.file_size:
            raise ValueError("it is compressed, expected a file as save writes it")
    if sum(member.file_size for member in members) > file.seek(0, os.SEEK_END):
        raise ValueError("its arrays overlap: together they are larger than the file")
