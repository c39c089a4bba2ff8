"""A file that is replaced whole or not at all, whenever the process or the machine stops."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Where files are not locked so, two that save to one path at once may clash.
    fcntl = None  # type: ignore[assignment]


FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""A link that somebody else has put there is not followed to a file of whomever saves."""


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
    The file beside it is called ``.name.saving``. One that a killed process has left is written
    over by whoever saves next, so there is never more than one; who saves to one path while
    another does, waits.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        kind = errno.EISDIR if path.is_dir() else errno.EEXIST
        raise _explained(OSError(kind, "There is a folder, a device or a pipe"), path)
    beside = path.with_name(f".{path.name}.saving")
    try:
        with _locked(beside) as file:
            try:
                _fill(file, write)
                _keep_mode(path, beside)
                os.replace(beside, path)
            except BaseException:
                # Unless it is in its place already, and the one here is of whoever comes next.
                if _is_at(beside, file):
                    with suppress(OSError):
                        os.unlink(beside)
                raise
            _bring_to_disk(path.parent)
    except OSError as error:
        raise _explained(error, path) from error


def _opened(path: Path) -> BinaryIO:
    descriptor = os.open(path, FLAGS, 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb+")
    os.close(descriptor)
    raise OSError(errno.EEXIST, f"{path} is in the way, and no file")


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file that nobody else has open so, and that is the one at this path."""
    while True:
        with _opened(path) as file:
            if fcntl is not None:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            # Who had it before may have put it in its place, or taken it away.
            if _is_at(path, file):
                yield file
                return


def _is_at(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _fill(file: BinaryIO, write: Callable[[BinaryIO], None]) -> None:
    file.truncate(0)
    write(file)
    file.flush()
    os.fsync(file.fileno())


def _keep_mode(path: Path, beside: Path) -> None:
    """Let the new file be read and written by whom the old one was."""
    with suppress(FileNotFoundError):
        os.chmod(beside, stat.S_IMODE(os.stat(path).st_mode))


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
