"""Save models to files and load them: no pickle, no code is run, no file is half-written."""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import os
import secrets
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from onlinels.checks import Matrix, check_path
from onlinels.locks import Lock, all_held
from onlinels.numerics import owned, restore
from onlinels.saving.description import (
    ALIGNMENT,
    Builder,
    FileBlock,
    SavedState,
    Writer,
    is_by_column,
    kind_of,
    read_npy,
    state_of,
)

FORMAT_VERSION, READ_VERSIONS = 5, (3, 4, 5)
"""Version of the file format, which changes with the description, and the versions that are read.

Models of version 3 have other attributes: see `onlinels.linear.former`. Before version 5, every
array was a member of its own.
"""

DESCRIPTION_NAME, BLOCK_NAME = "model.json", "arrays.npy"
"""The members: a description, and the bytes of all arrays, one after the other, as an array.

Nothing is compressed, so that what a file may take in memory follows from its size.
"""

MAX_SHARED_BYTES = 1 << 16
"""Bytes of a block up to which the arrays that are read from it share memory."""

JSON = json.JSONEncoder(separators=(",", ":"))

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
        with holding(model):
            writer = Writer()
            described = writer.node(model, type(model).__name__)
            # This module must not import the package, which is loaded by now.
            version = sys.modules["onlinels"].__version__
            said = {"onlinels": version, "format": FORMAT_VERSION, "model": described}
            text = JSON.encode(said)
            with opened() as file, zipfile.ZipFile(file, "w") as archive:
                # Dates of their own, so that equal models are saved as equal bytes.
                with archive.open(zipfile.ZipInfo(BLOCK_NAME), "w", force_zip64=True) as member:
                    _write_block(member, writer.arrays)
                archive.writestr(zipfile.ZipInfo(DESCRIPTION_NAME), text)
    except RecursionError as error:
        problem = "model holds itself, or values that are nested too deeply"
        raise TypeError(f"{problem}, expected a tree of few levels. Save its parts.") from error


def _write_block(member: Any, arrays: list[Matrix]) -> None:
    """Write the bytes of arrays as an array of bytes in numpy's format."""
    gaps = [-each.nbytes % ALIGNMENT for each in arrays]
    size = sum(each.nbytes for each in arrays) + sum(gaps)
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size},), }}".encode()
    text += b" " * (-(HEADER_START + len(text) + 1) % 64) + b"\n"
    parts = [HEADER_MAGIC, len(text).to_bytes(2, "little"), text]
    for array, gap in zip(arrays, gaps, strict=True):
        little = array if array.dtype.str[0] != ">" else array.astype(array.dtype.newbyteorder("<"))
        if array.nbytes > MAX_SHARED_BYTES and array.flags.forc:
            # Without a copy.
            member.write(b"".join(parts))
            member.write(little.ravel("K").data)
            parts = []
        else:
            parts.append(little.tobytes("F" if is_by_column(array) else "C"))
        parts.append(bytes(gap))
    member.write(b"".join(parts))


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


def locked_deepcopy(self: Model, memo: dict[int, Any]) -> Model:
    """Return an independent copy of a model between two calls: the `__deepcopy__` of all models."""
    with holding(self):
        new = object.__new__(type(self))
        memo[id(self)] = new
        new.__setstate__(copy.deepcopy(state_of(self), memo))  # type: ignore[attr-defined]
        return new


class Taken:
    """What an object is made of, for a pickler: a function and its arguments."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self._made = make, arguments

    def __reduce__(self) -> Any:
        return self._made


def locked_state(self: Any) -> SavedState:
    """Return a copy of what a model has learnt between two calls: the `__getstate__` of all models.

    A pickler reads the state after this call, without the lock, while another thread may write to
    the arrays of the model. So the state takes as much memory as the model, until it is pickled.
    """
    with holding(self):
        state, memo = state_of(self), dict[int, Any]()
        del state["_lock"]
        for name, part in state.items():
            taken = getattr(part, "taken", None)
            state[name] = copy.deepcopy(part, memo) if taken is None else taken(memo)
        return state


def attributes_of(state: SavedState) -> SavedState:
    """Return the attributes of a model that was pickled, with a new lock."""
    return {"_lock": Lock()} | state


def unpacked_state(self: Any, state: SavedState) -> None:
    """Restore a model that was pickled: the `__setstate__` of most models."""
    restore(self, attributes_of(state))


locked_deepcopy.__name__ = locked_deepcopy.__qualname__ = "__deepcopy__"
locked_state.__name__ = locked_state.__qualname__ = "__getstate__"
unpacked_state.__name__ = unpacked_state.__qualname__ = "__setstate__"


def holding(model: Any) -> AbstractContextManager[Any]:
    """Return what holds the locks of a model."""
    locks = locks_of(model)
    # Measured: `all_held` takes 10 us more.
    return locks[0] if len(locks) == 1 else all_held(*locks)


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
    temporary = path.with_name(f".{path.name[:24]}.{secrets.token_hex(8)}{ending}")
    # If there is an old file, only the owner can read the new one, which gets the mode of the old
    # file just before it replaces it. Otherwise it has the system's mode for new files.
    mode = 0o600 if path.exists() else 0o666
    _remove_left_over(path.parent, ending)
    try:
        with open(temporary, "x+b", opener=partial(os.open, mode=mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # Some file systems do not support modes.
        with suppress(OSError):
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
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
        problem = f"content is of type {type(content).__name__}, expected bytes"
        raise TypeError(f"{problem}. Pass the result of dumps, or call load(path) for a file.")
    return _read(partial(BytesIO, content), "<bytes>", embed)


def _read(opened: Callable[[], BinaryIO], name: str, embed: Embed | None) -> Any:
    """Return the model that a file holds, with its function; errors begin with the file's name."""
    try:
        with opened() as file, zipfile.ZipFile(file) as archive:
            _check_archive(archive, file)
            text = archive.read(DESCRIPTION_NAME)
            said = json.loads(text)
            found, version = said["format"], str(said["onlinels"])[:80]
            if found in READ_VERSIONS:
                model, parts = _read_model(archive, said["model"], len(text), found)
    except MemoryError:
        # Nothing is larger than the file, so the memory is really exhausted.
        raise
    except Exception as error:
        # Damaged and forged files raise errors of any class.
        remedy = "It was not written by save or is damaged: load a copy, or save the model again."
        raise ValueError(f"{name} cannot be read as a saved model: {error}. {remedy}") from error
    if found not in READ_VERSIONS:
        problem = f"{name} is of format {str(found)[:80]}, expected {FORMAT_VERSION}"
        raise ValueError(f"{problem}. Load it with onlinels {version}, the version that wrote it.")
    functions = [part for part in parts if hasattr(part, "attach")]
    if embed is not None:
        if not functions:
            problem = f"embed={embed!r} was passed, but {name} holds no Embedding"
            raise ValueError(f"{problem}. Load it without embed.")
        for function in functions:
            function.attach(embed)
    return model


def _read_model(
    archive: zipfile.ZipFile, node: Any, n_described: int, version: int
) -> tuple[Any, list[Any]]:
    """Return the model that an archive of a format describes, and all its parts."""
    if version < 5:
        # Owned at once: otherwise all arrays would be in memory twice, until the last is read.
        read = cache(lambda name: owned(read_npy(archive.read(f"{name}.npy"))))
        builder = Builder(read, n_described, has_array_numbers=False)
        return builder.value(node), builder.parts
    with archive.open(BLOCK_NAME) as member:
        size = archive.getinfo(BLOCK_NAME).file_size - _skip_header(member)
        block = FileBlock(member, size, size <= MAX_SHARED_BYTES)
        builder = Builder(block.array, n_described, has_array_numbers=True)
        model = builder.value(node)
        block.check_end()
    return model, builder.parts


def _skip_header(member: Any) -> int:
    """Skip the header of an array, which says nothing new; return its length."""
    start = member.read(HEADER_START)
    if start[:8] != HEADER_MAGIC:
        raise ValueError("its arrays are in another form, expected one as save writes it")
    n_bytes = int.from_bytes(start[8:], "little")
    member.read(n_bytes)
    return HEADER_START + n_bytes


HEADER_MAGIC, HEADER_START = b"\x93NUMPY\1\0", 10
"""What an array in numpy's format begins with, and where its header begins, after its length."""


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
