"""Save a model in a file, and load it again: no pickle, nothing is run, nothing is half-written."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

from onlinels.saving.building import Builder
from onlinels.saving.container import write_container
from onlinels.saving.kinds import KINDS
from onlinels.saving.reading import Container
from onlinels.saving.replacing import replace_file
from onlinels.saving.writing import Writer
from onlinels.threads import while_held
from onlinels.version import __version__

FORMAT = 1
"""What the description looks like; another number, if it ever looks otherwise."""

PathLike = str | os.PathLike[str]


class Savable:
    """What can be saved in a file and loaded again, and copied."""

    def __copy__(self) -> Self:
        """Return an independent copy: state that two models share would serve neither."""
        return while_held(_locks(self), lambda: copy.deepcopy(self))

    def save(self, path: PathLike) -> None:
        """Write the model to a file, from which `onlinels.load` makes it again.

        The file is written whole or not at all: beside the old one first, brought to the disk, and
        then put in its place. A process that dies, or a full disk, leaves the old file as it was.

        Parameters
        ----------
        path : str or PathLike
            The file, whatever its ending; ".npz" tells others what it is.

        Raises
        ------
        TypeError
            If a label, a name or a setting is not of str, int, bool, float, None or tuples of
            these, or a step of a pipeline is not one that can be saved. No file is written then.
        OSError
            If there is no such folder, it cannot be written to, or the disk is full.

        Notes
        -----
        The loaded model goes on bit for bit as this one does. Like a prediction, saving solves for
        output weights, so that the loaded model answers at once; also like a prediction, it may
        change the last bits of what is learnt later, as sums round in another order (not where
        weights were asked for after every row). Then the file is written at the speed of the
        disk. A file holds no rows but those that wait for others: a window that is not full, images
        before features are fixed.

        Threads that learn wait meanwhile.

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


def save(model: Any, path: PathLike) -> None:
    """Write a model, or a river pipeline of models, to a file; see the `save` of every model.

    Parameters
    ----------
    model : estimator, transformer or accumulator of onlinels, or pipeline or union of these
        And of river's transformers that can be saved. Or a dict, list or tuple of such models and
        of plain values: what must be on the disk together, such as how far a stream was learnt.
        Plain are str, int, bool, float, None, bytes, dates, numbers and arrays of numpy, and
        tuples, lists, dicts, sets and deques of plain values.
    path : str or PathLike

    Raises
    ------
    TypeError, OSError
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
    file = _read_path(path)
    if type(model) not in KINDS.by_class and type(model) not in (dict, list, tuple):
        raise TypeError(
            f"model is of type {type(model).__name__}, expected a model of onlinels (no subclass "
            "of one), a river pipeline of these, or a dict of models. Save the models that it "
            "holds one by one."
        )
    while_held(_locks(model), lambda: _write(model, file))


def _write(model: Any, file: Path) -> None:
    writer = Writer()
    try:
        described = writer.node(model, type(model).__name__)
    except RecursionError as error:
        raise TypeError("model holds itself, or tuples that are nested too deeply.") from error
    said = {"onlinels": __version__, "format": FORMAT, "model": described}
    replace_file(file, partial(write_container, description=said, arrays=writer.arrays))


def _locks(value: Any) -> list[Any]:
    """Return what keeps other threads from changing models."""
    try:
        return list(_locks_of(value))
    except RecursionError as error:
        raise TypeError("model holds itself, or tuples that are nested too deeply.") from error


def _locks_of(value: Any) -> Iterator[Any]:
    """Yield the locks of models, those in containers and pipelines too."""
    if hasattr(value, "_lock"):
        yield value._lock
        # What a model wraps may be taught without it.
        yield from _locks_of(getattr(value, "classifier", None))
        return
    for name in ("steps", "transformers"):
        value = getattr(value, name, value)
    if isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _locks_of(part)


def load(path: PathLike) -> Any:
    """Return the model that a file holds, as it was when it was saved.

    Nothing is run: the file names classes of onlinels and river that are known here, and holds
    numbers and text for them. Whoever made the file can make a model answer anything, but not make
    this process do anything else.

    Parameters
    ----------
    path : str or PathLike

    Returns
    -------
    model
        Of the class that was saved.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it was not written by `save`, is damaged, or was written by a later format. Nothing is
        allocated before that is found out but as many bytes as the file has, and for names and
        labels 50 times theirs.

    Notes
    -----
    What predictions need is read and checked against its checksum at once, and of the statistics
    what is below 1 MiB. Larger arrays of statistics are read, and checked, when learning goes on:
    until then the file stays open. To replace the file meanwhile is safe, to write into it is not.

    Examples
    --------
    See `onlinels.save`.
    """
    file = _read_path(path)
    if not file.exists():
        raise FileNotFoundError(
            f"There is no file {file}. Check the path, or save a model there first."
        )
    if not file.is_file():
        raise ValueError(f"{file} is a folder or device, expected a file. Name a file.")
    container = Container(os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0)), str(file))
    try:
        return _built(container)
    except BaseException:
        # Nobody is left who would read on, but the error's traceback would keep the file open.
        container.close()
        raise


def _built(container: Container) -> Any:
    said = container.description
    if said.get("format") != FORMAT:
        raise ValueError(
            f"{container.name} is of format {said.get('format')!r}, expected {FORMAT}. Load it "
            f"with the version of onlinels that wrote it: {str(said.get('onlinels'))[:80]}."
        )
    return container.checked(lambda: Builder(container).value(said["model"]))


def _read_path(path: PathLike) -> Path:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise TypeError(f"path is {path!r}, expected the path of a file. Pass text or a Path.")
    return Path(path)
