"""Save a model in a file, and load it again: no pickle, nothing is run, nothing is half-written."""

from __future__ import annotations

import copy
import errno
import hashlib
import importlib
import json
import os
import secrets
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar

from onlinels.numerics import Lock, all_held
from onlinels.saving.arrays import UNREADABLE, ArrayArchive, as_file, write_array
from onlinels.saving.description import Builder, Writer
from onlinels.saving.fields import KINDS

FORMAT = 3
"""What the description looks like; another number, if it ever looks otherwise."""

DESCRIPTION = "model.json"
CHECKSUM = "model.sha256"
"""Members beside the arrays: what these mean, and the SHA-256 of that, in hexadecimal digits.

The description holds the SHA-256 of every array, so one checksum covers all the content.
"""

LARGEST_COMPRESSED = 1 << 16
"""Bytes up to which a description is compressed.

What a file may take in memory follows from its size: so a longer description is written as it is.
"""

try:
    LOCKS: Any = importlib.import_module("fcntl")
except ImportError:
    LOCKS = None
"""Locks of files, where the system has them: Windows has others."""

MAX_SAVES_AT_ONCE = 8
"""Saves to one path at once up to which the next save removes all that killed ones have left."""

PathLike = str | os.PathLike[str]
File = PathLike | IO[bytes]
"""Where a model lies: the path of a file, or an open binary file."""
Model = TypeVar("Model")


def save(model: Any, file: File) -> None:
    """Write a model, or a river pipeline of models, to a file; see the `save` of every model.

    Parameters
    ----------
    model : estimator, transformer or accumulator of onlinels, or pipeline or union of these
        And of river's transformers that can be saved. Or a dict, list or tuple of such models and
        of plain values: what must be on the disk together, such as how far a stream was learnt.
        Plain are str, int, bool, float, None, bytes, dates, numbers and arrays of numpy, and
        tuples, lists, dicts, sets and deques of plain values.
    file : str, PathLike or open binary file

    Raises
    ------
    TypeError, ValueError, OSError
        As the method.

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
    if hasattr(file, "write"):
        _check_open(file, "writable", "wb")
        _write(model, partial(nullcontext, InOrder(file)))
    else:
        _write(model, partial(_replacing, _read_path(file, "wb")))


def dumps(model: Any) -> bytes:
    """Return a model as bytes, of which `loads` makes it again: what other engines carry.

    Parameters
    ----------
    model : as `save` takes it

    Returns
    -------
    bytes
        What `save` writes to a path, to the last byte.

    Raises
    ------
    TypeError
        As `save`.

    Notes
    -----
    As safe as a file, which a pickle is not. Costs a copy of what the model remembers in memory,
    and the time to hash it.

    Examples
    --------
    >>> import onlinels
    >>> model = onlinels.LeastSquaresClassifier()
    >>> model.learn_one({"size": 3.0}, "apple")
    >>> onlinels.loads(onlinels.dumps(model)).predict_one({"size": 2.0})
    'apple'
    """
    file = BytesIO()
    _write(model, partial(nullcontext, file))
    return file.getvalue()


def _write(model: Any, opened: Callable[[], AbstractContextManager[Any]]) -> None:
    """Write a model to a file, which is opened once it is known that the model can be saved."""
    if type(model) not in KINDS and type(model) not in (dict, list, tuple):
        expected = "a model of onlinels (no subclass), a pipeline of these or a dict of models"
        # Of scikit-learn's face, which is above this module.
        remedy = "model.to_river()" if hasattr(type(model), "to_river") else "one of these"
        raise TypeError(
            f"model is of type {type(model).__name__}, expected {expected}. Save {remedy}."
        )
    try:
        with all_held(*locks_of(model)):
            writer = Writer()
            described = writer.node(model, type(model).__name__)
            with opened() as file, zipfile.ZipFile(file, "w") as archive:
                sums = {name: write_array(archive, name, a) for name, a in writer.arrays.items()}
                # No import: the package is above this module, and there by now.
                version = sys.modules["onlinels"].__version__
                said = {"onlinels": version, "format": FORMAT, "model": described, "arrays": sums}
                text = json.dumps(said, separators=(",", ":")).encode()
                short = len(text) <= LARGEST_COMPRESSED
                method = zipfile.ZIP_DEFLATED if short else zipfile.ZIP_STORED
                archive.writestr(zipfile.ZipInfo(DESCRIPTION), text, method)
                archive.writestr(zipfile.ZipInfo(CHECKSUM), hashlib.sha256(text).hexdigest())
    except RecursionError as error:
        raise TypeError("model holds itself, or values that are nested too deeply.") from error


def save_method(self: Any, file: File) -> None:
    """Write the model to a file, from which `onlinels.load` makes it again.

    A file at a path is written whole or not at all: beside the old one first, brought to the disk,
    and then put in its place. A process that dies, or a full disk, leaves the old file as it was.
    An open file is the caller's: it is written in order from where it stands, flushed, and left
    open; what it holds after an error is no model.

    Parameters
    ----------
    file : str, PathLike or open binary file
        A path, whatever its ending; ".npz" tells others what it is. Or what has `write`, such as a
        pipe, a compressed file or a member of an archive: no place in it is sought.

    Raises
    ------
    TypeError
        If a label, a name or a setting is not of str, int, bool, float, None or tuples of
        these, or a step of a pipeline is not one that can be saved; if a file is open in text mode.
        Nothing is written then.
    ValueError
        If an open file is closed, or is not open for writing.
    OSError
        If there is no such folder, it cannot be written to, or the disk is full.

    Notes
    -----
    The loaded model answers and goes on bit for bit as this one does, and saving changes no bit of
    this one. (With more than 320 features, what it learns row by row afterwards is the same to
    rounding: columns that were gathered from single rows are taken into the inverse in the file.)
    Output weights that have been solved for are in the file, so that a model that has answered
    answers at once when it is loaded. The file is written at the speed of the disk. It holds no
    rows but those that wait for others: a window that is not full, images before features are
    fixed. `onlinels.answers_only` makes a small model that only predicts.

    Random input weights of a HiddenLayer of 1 MiB or more, up to 256 MiB a file, are not in the
    file: its seed draws them again, and a checksum verifies them. numpy does not promise that its
    distributions stay the same across versions. Should they change, `load` refuses the file and
    names the numpy version that reads it.

    Threads that learn wait meanwhile; where an open file is slow, write `onlinels.dumps` of the
    model to it. If two processes or threads save to one path at once, neither waits for the other
    nor fails, and the file of the last one stays. A process that is killed while it saves may leave
    a hidden file beside, of a name that ends in ".saving". Nothing reads this file, it may be
    deleted, and the next save to the path removes it (and those of up to eight saves at once): any
    number of kills leaves at most one hidden file for each process that was saving at the same
    time. (Where files cannot be locked, as on
    Windows, every kill may leave one more.)

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
    save(self, file)


save_method.__name__ = save_method.__qualname__ = "save"


def locked_copy(model: Model) -> Model:
    """Return an independent copy: state that two models share would serve neither."""
    with all_held(*locks_of(model)):
        return copy.deepcopy(model)


def locked_state(model: Any) -> dict[str, Any]:
    """Return the state for copies and pickles, of no moment amid a call."""
    with model._lock:
        return dict(vars(model))


def locks_of(model: Any) -> list[Lock]:
    """Return what keeps other threads from changing models, those within others too."""
    if hasattr(model, "_lock"):
        # What a model wraps may be taught without it.
        return [model._lock, *locks_of(getattr(model, "classifier", None))]
    parts = getattr(model, "steps", getattr(model, "transformers", model))
    parts = list(parts.values()) if isinstance(parts, dict) else parts
    each = parts if isinstance(parts, (list, tuple)) else ()
    return [lock for part in each for lock in locks_of(part)]


REMEDIES = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space, or save elsewhere")
REMEDIES[errno.ENOENT] = "make the folder first"


@contextmanager
def folder_held(folder: Path) -> Iterator[None]:
    """Let one process or thread at a time work in a folder, where the system can lock folders."""
    with ExitStack() as stack:
        if LOCKS is not None:
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            # A folder of another machine may have no locks.
            with suppress(OSError):
                LOCKS.flock(descriptor, LOCKS.LOCK_EX)
                # Said at the end: a process that was forked meanwhile has the descriptor, too.
                stack.callback(LOCKS.flock, descriptor, LOCKS.LOCK_UN)
        yield


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file beside the one at a path, which it replaces; an OSError says what to do."""
    try:
        with written_aside(path) as file:
            yield file
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "save where files can be written")
        said = f"{error.strerror or error} (what was at the path is as it was; {remedy})"
        raise OSError(error.errno or errno.EIO, said, str(path)) from error


@contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """Open a file beside the one at a path, then bring it to the disk and put it in its place."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "There is a folder, a device or a pipe")
    # Nobody but its owner can read it while there is an old one, whose mode it gets just before it
    # takes its place. A new file has the mode that the system gives to new files.
    with _hidden_file(path, 0o600 if path.exists() else 0o666) as (beside, file):
        yield file
        file.flush()
        os.fsync(file.fileno())
        if LOCKS is None:
            # Windows moves no file that is open.
            file.close()
        # Some files have no mode of their own: theirs cannot be set.
        with suppress(OSError):
            shutil.copymode(path, beside)
        os.replace(beside, path)
    # Where folders can be opened, their entries are brought to the disk too.
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        with suppress(OSError):
            os.fsync(folder)
        os.close(folder)


@contextmanager
def _hidden_file(path: Path, mode: int) -> Iterator[tuple[Path, BinaryIO]]:
    """Make a hidden file beside a path, for this save alone; remove it unless it has moved."""
    # The name follows from the path, so that the next save finds what a killed one has left. The
    # save that writes the file holds a lock on it, which ends with its process: a file without a
    # lock is left over and is removed. A second save at the same time takes the next number; nobody
    # waits, and there are never more files than there were saves at once. The file is always made
    # anew, never written over: a file or a link that somebody else has put there gets no content.
    # Without locks (Windows) names are drawn at random, and what a killed save has left stays.
    digest = hashlib.blake2b(os.fsencode(path.name), digest_size=8).hexdigest()
    numbers: Iterator[Any] = count() if LOCKS else iter(partial(secrets.token_hex, 8), None)

    def beside_of(number: Any) -> Path:
        # As short as any folder allows.
        return path.with_name(f".{path.name[:24]}.{digest}.{number}.saving")

    for number in range(MAX_SAVES_AT_ONCE):
        _remove_left_over(beside_of(number))
    for number in numbers:
        beside = beside_of(number)
        try:
            # A file that is there is one thing, an error in what follows another.
            file = open(beside, "x+b", opener=partial(os.open, mode=mode))  # noqa: SIM115
        except FileExistsError:
            continue
        with file:
            if not _is_locked(file, beside):
                continue
            try:
                yield beside, file
            finally:
                if LOCKS is None:
                    file.close()
                # Once it has moved, another save may have made a file of this name.
                if LOCKS is None or _is_at(beside, file.fileno()):
                    with suppress(OSError):
                        os.unlink(beside)
            return


def _remove_left_over(beside: Path) -> None:
    """Remove a hidden file, unless the save that writes it is still running."""
    if LOCKS is None:
        return
    # What cannot be opened, locked or removed is left to its owner.
    with suppress(OSError), ExitStack() as stack:
        # Special files are neither followed nor waited for.
        flags = os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            # Over NFS only a file that is open for writing can be locked.
            descriptor = os.open(beside, os.O_RDWR | flags)
        except PermissionError:
            descriptor = os.open(beside, os.O_RDONLY | flags)
        stack.callback(os.close, descriptor)
        LOCKS.flock(descriptor, LOCKS.LOCK_EX | LOCKS.LOCK_NB)
        # The save may have moved its file meanwhile, and another one may have made its own.
        if _is_at(beside, descriptor):
            os.unlink(beside)


def _is_locked(file: BinaryIO, beside: Path) -> bool:
    """Lock a new hidden file; False if another save has taken it for one that is left over."""
    if LOCKS is None:
        return True
    try:
        LOCKS.flock(file, LOCKS.LOCK_EX | LOCKS.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # In a folder without locks nothing is removed, and a file stays with its maker.
        return True
    return _is_at(beside, file.fileno())


def _is_at(path: Path, descriptor: int) -> bool:
    """Tell whether an open file lies at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


class InOrder:
    """What an archive may ask of an open file: to take bytes, one after the other."""

    # Places are counted from the first byte, wherever the file stands, and nothing is sought.

    def __init__(self, file: Any) -> None:
        self._file, self.flush = file, getattr(file, "flush", lambda: None)

    def write(self, content: bytes) -> int:
        """Write all of some bytes, or raise OSError."""
        written = self._file.write(content)
        if written != len(content):
            told = f"write took {written} of {len(content)} bytes, expected all"
            raise OSError(errno.EIO, f"{told}: pass a buffered file, as open(path, 'wb') gives it")
        return len(content)


def load(file: File) -> Any:
    """Return the model that a file holds, as it was when it was saved.

    Nothing is run: the file names classes of onlinels and river that are known here, and holds
    numbers and text for them. Whoever made the file can make a model answer anything, but not make
    this process do anything else.

    Parameters
    ----------
    file : str, PathLike or open binary file
        A path, or what has `read`. An open file is read from where it stands to its end, where it
        is left, open; it holds one save and no more.

    Returns
    -------
    model
        Of the class that was saved.

    Raises
    ------
    TypeError
        If the file is neither, or is open in text mode.
    FileNotFoundError
        If there is no such file.
    ValueError
        If it was not written by `save`, is damaged, or was written by a version whose format is
        another one, which the error names. Nothing is allocated before that is found out but as
        many bytes as the file has, for names and labels 50 times theirs, and up to 256 MiB for
        input weights that a seed draws. Or if numpy draws these weights differently than the numpy
        that saved them; the error names its version. Or if an open file is closed, or is not open
        for reading.

    Notes
    -----
    All is read, and checked against its checksum, at once: a model of 1 GiB takes about the time
    that numpy takes to read the arrays, and SHA-256 to check them. A file at a path is closed
    afterwards, and may be replaced or deleted. An open file takes its own size in memory meanwhile.

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
    if not hasattr(file, "read"):
        place = as_file(_read_path(file, "rb"), "save a model there first.")
        return _read(lambda: place.open("rb"), str(place))
    _check_open(file, "readable", "rb")
    name = getattr(file, "name", None)
    return _read(partial(BytesIO, file.read()), name if isinstance(name, str) else "<file>")


def loads(content: bytes | bytearray | memoryview) -> Any:
    """Return the model that `dumps` made bytes of; nothing is run, as in `load`.

    Parameters
    ----------
    content : bytes, bytearray or memoryview

    Returns
    -------
    model
        Of the class that was saved.

    Raises
    ------
    TypeError
        If `content` is of another type.
    ValueError
        As `load`: if it was not made by `dumps`, is damaged, or is of another format.

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
        raise TypeError(f"{told}. Pass what dumps returned, or call load(path) with a file.")
    return _read(partial(BytesIO, content), "<bytes>")


def _read(opened: Callable[[], BinaryIO], name: str) -> Any:
    """Return the model that a file holds, which is closed then; errors begin with its name."""
    try:
        with opened() as file:
            archive = ArrayArchive(file, largest_ratio=1)
            if archive.start:
                raise ValueError(f"its last save begins at byte {archive.start}, expected at 0")
            text = archive.read_bytes(DESCRIPTION, LARGEST_COMPRESSED)
            if hashlib.sha256(text).hexdigest().encode() != archive.read_bytes(CHECKSUM):
                raise ValueError("its description does not match its checksum")
            said = json.loads(text)
            found, version = said["format"], str(said["onlinels"])[:80]
            if found == FORMAT:
                sums = said["arrays"]
                if {*sums, DESCRIPTION, CHECKSUM} != archive.names:
                    raise ValueError("it has other members than it describes")
                builder = Builder(lambda name: archive.read_hashed(name, sums[name]), len(text))
                return builder.value(said["model"])
    except MemoryError:
        # Nothing is larger than the file: there is truly no room.
        raise
    except (*UNREADABLE, RecursionError, OverflowError, LookupError, AttributeError) as error:
        why = f"{error} is missing or unknown" if isinstance(error, KeyError) else error
        remedy = "It was not written by save, or is damaged: load a copy, or save the model again."
        raise ValueError(f"{name} cannot be read as a saved model: {why}. {remedy}") from error
    remedy = f"Load it with onlinels {version}, the version that wrote it."
    raise ValueError(f"{name} is of format {str(found)[:80]}, expected {FORMAT}. {remedy}")


def _read_path(file: Any, mode: str) -> Path:
    if not isinstance(file, (str, os.PathLike)) or not os.fspath(file):
        expected = "the path of a file or an open binary file"
        raise TypeError(
            f"file is {file!r}, expected {expected}. Pass text, a Path or open(path, {mode!r})."
        )
    return Path(file)


def _check_open(file: Any, able: str, mode: str) -> None:
    """Raise unless an open file is binary, and can be read or written."""
    # Files of text have an encoding, whatever their class.
    remedy = f"Pass open(path, {mode!r}), or a path."
    if hasattr(file, "encoding"):
        raise TypeError(f"file={file!r} is open in text mode, expected binary. {remedy}")
    if getattr(file, "closed", False):
        raise ValueError(f"file={file!r} is closed, expected an open file. {remedy}")
    if not getattr(file, able, lambda: True)():
        raise ValueError(f"file={file!r} is not {able}, expected one that is. {remedy}")
