"""A file that is replaced whole or not at all, whenever the process or the machine stops."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Where files are not locked so, two that save to one path at once may clash.
    fcntl = None  # type: ignore[assignment]


FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""A link that somebody else has put there is not followed; nobody waits for a pipe's other end."""

LONGEST = 143
"""Bytes that a file's name may have in folders that eCryptfs encrypts; elsewhere it is 255."""

UNLOCKABLE = {errno.EACCES, errno.EPERM, errno.EBADF}
"""Errors of opening and locking files of others, read-only ones, and these on NFS."""


def replace_file(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file beside the one at a path, bring it to the disk, and put it in its place.

    Parameters
    ----------
    path : Path
        Of a file that may be there already; of a link, what it leads to is replaced.
    write : callable
        Writes the content to a file that is open for writing and reading.

    Raises
    ------
    OSError
        If there is no such folder, it cannot be written to, or the disk is full. The file at the
        path is as it was then.

    Notes
    -----
    The file beside it is called ``.name.saving``, with a hash for the name if that is long. One
    that a killed process has left is taken away by whoever saves next, so there is never more than
    one; who saves to one path while another does, waits.

    The handler of a signal may save while the thread that it interrupts does: it waits for nothing
    that this thread holds, but writes ``.name.saving.1``, which is taken away as well if it is
    killed. Both files are whole; the one that was begun first comes to the path last.

    Nobody but its owner can read the file beside while there is an old one, whose mode it gets just
    before it takes its place. A new one has the mode that the system gives to new files.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        kind = errno.EISDIR if path.is_dir() else errno.EEXIST
        raise _explained(OSError(kind, "There is a folder, a device or a pipe"), path)
    try:
        _replace(path, _beside(path, _depth()), write)
        _sweep(path)
    except OSError as error:
        raise _explained(error, path) from error


def _replace(path: Path, beside: Path, write: Callable[[BinaryIO], None]) -> None:
    with _created(beside, path) as file:
        made = os.fstat(file.fileno())
        write(file)
        file.flush()
        os.fsync(file.fileno())
        _keep_mode(path, beside, file)
        if fcntl is None:
            file.close()  # Windows moves none that is open. There is no lock to hold either.
        if not _is_at(beside, made):
            raise OSError(errno.EBUSY, f"{beside} was taken away while it was written")
        os.replace(beside, path)
        _bring_to_disk(path.parent)


def _depth() -> int:
    """Return how many saves a save was called amid, whatever their paths, in this thread.

    Who waits for a file of one depth holds only files of lesser depths. So no two saves wait for
    each other: none for its own thread, and no two threads that were interrupted for each other.
    """
    # What is counted in a variable would be wrong for ever once a handler's error comes amid that.
    frame: FrameType | None = sys._getframe()
    depth = -1
    while frame is not None:
        here = frame.f_globals is globals()
        depth += here and frame.f_code.co_name in ("replace_file", "_sweep")
        frame = frame.f_back
    return depth


def _beside(path: Path, depth: int) -> Path:
    end = f".saving.{depth}" if depth else ".saving"
    name = os.fsencode(path.name)
    if len(name) + len(end) + 1 > LONGEST:
        return path.with_name(f".{hashlib.sha256(name).hexdigest()[:32]}{end}")
    return path.with_name(f".{path.name}{end}")


@contextmanager
def _created(beside: Path, path: Path) -> Iterator[BinaryIO]:
    """Create a file that nobody else has locked; it is gone at the end unless it was moved."""
    while True:
        # Nobody can read before a private file's mode is set. The umask is best left to the system:
        # it cannot be read without being set, for all threads.
        mode = 0o666 if _mode_of(path) is None else 0o600
        try:
            descriptor = os.open(beside, FLAGS | os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            _clear(beside)
            continue
        with os.fdopen(descriptor, "rb+") as file, _gone_at_the_end(beside, file) as made:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Another one may have locked it before, and taken it for left over.
            if _is_at(beside, made):
                yield file
                return


@contextmanager
def _gone_at_the_end(path: Path, file: BinaryIO) -> Iterator[os.stat_result]:
    made = os.fstat(file.fileno())
    try:
        yield made
    finally:
        if fcntl is None:
            with suppress(OSError):
                file.close()
        # Unless it is in its place already, and the one here is of whoever comes next.
        with suppress(OSError):
            if _is_at(path, made):
                _unlink(path)


def _clear(path: Path) -> None:
    """Wait for whoever writes the file at a path, or take away what a killed process has left."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise OSError(errno.EEXIST, f"{path} is in the way, and no file")
        # A killed process may have left a file that is read-only already.
        for access in (os.O_RDWR, os.O_RDONLY) if fcntl is not None else ():
            try:
                _unlink_unlocked(path, access, fcntl.LOCK_EX)
                return
            except OSError as error:
                if error.errno not in UNLOCKABLE:
                    raise
        # Nobody can tell whether it is being written: who does so, finds it missing and says so.
        _unlink(path)


def _sweep(path: Path) -> None:
    """Take away what the save of a signal's handler has left that was killed."""
    if fcntl is None:
        return
    # The depth is one more than that of the save, as it is for handlers from here on: else they
    # would wait for the lock that is held here.
    with suppress(OSError):
        _unlink_unlocked(_beside(path, _depth()), os.O_RDWR, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlink_unlocked(path: Path, access: int, lock: int) -> None:
    """Take a file away once nobody has locked it, unless it is in its place by then."""
    descriptor = os.open(path, FLAGS | access)
    try:
        fcntl.flock(descriptor, lock)
        if _is_at(path, os.fstat(descriptor)):
            os.unlink(path)
    finally:
        os.close(descriptor)


def _unlink(path: Path) -> None:
    if fcntl is None:
        os.chmod(path, 0o600)  # Windows takes away none that is read-only.
    os.unlink(path)


def _is_at(path: Path, made: os.stat_result) -> bool:
    try:
        return os.path.samestat(made, os.lstat(path))
    except FileNotFoundError:
        return False


def _mode_of(path: Path) -> int | None:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return None


def _keep_mode(path: Path, beside: Path, file: BinaryIO) -> None:
    """Let the new file be read and written by whom the old one was."""
    mode = _mode_of(path)
    # Where files have no modes of their own they are the same, and cannot be set.
    if mode is not None and mode != stat.S_IMODE(os.fstat(file.fileno()).st_mode):
        os.chmod(file.fileno() if os.chmod in os.supports_fd else beside, mode)


def _bring_to_disk(folder: Path) -> None:
    """Bring a folder's entries to the disk, where folders can be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


REMEDIES = {
    errno.ENOSPC: "free some space, or save elsewhere",
    errno.EDQUOT: "free some space, or save elsewhere",
    errno.ENOENT: "make the folder first",
    errno.ENOTDIR: "save into a folder",
    errno.EISDIR: "give the name of a file in that folder",
}


def _explained(error: OSError, path: Path) -> OSError:
    remedy = REMEDIES.get(error.errno or 0, "save where files can be written")
    said = f"{error.strerror or error} (what was at the path is as it was; {remedy})"
    return OSError(error.errno or errno.EIO, said, str(path))
