"""One file holds the whole state; after a kill or a power cut it is the old one or the new one.

The state is written to a file beside it, which is forced to disk and then takes the other's name;
then the folder is forced to disk too. Nothing is ever written over. A lock, which the system
releases when its process ends, keeps a second learner from the same file (on POSIX systems).

The format is Python's pickle, for now. A pickle can run any program when it is read, so read only
a file that you wrote yourself, from a folder in which nobody else may write; the file is made
readable by its owner alone. Only `save_state` and `load_state` know the format.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqtt_learner import Learner


def save_state(path: Path, learner: Learner) -> None:
    """Replace the state on disk; when this returns, it would outlive a power cut.

    Raises
    ------
    OSError
        If it cannot be written; the old state is untouched.
    """
    new = beside(path, ".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        pickle.dump(learner, file, protocol=pickle.HIGHEST_PROTOCOL)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    force_names(path.parent)


def load_state(path: Path) -> Learner | None:
    """Return the state that was saved last, or None if there is none yet.

    Raises
    ------
    ValueError
        If the file holds something else.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        learner = pickle.loads(content)  # noqa: S301, its owner wrote it: see above
    except Exception as error:
        raise ValueError(f"{path} cannot be read as a state: {error!r}. Move it away.") from error
    if not isinstance(learner, Learner):
        raise ValueError(f"{path} holds {type(learner).__name__}, expected Learner. Move it away.")
    return learner


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the state for this process alone.

    Raises
    ------
    BlockingIOError
        If another process holds it.
    """
    with open(beside(path, ".lock"), "w") as file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def force_names(folder: Path) -> None:
    """Force a folder's names to disk, where folders can be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
