"""Images and their labels from where they lie: whole or in mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Batch = tuple[NDArray[Any], NDArray[Any]]
CHUNK = 1024
"""Images that are read at a time when all are wanted."""


@dataclass(frozen=True)
class ImageSource:
    """Images with labels that can be read in order, from the first on, as often as wanted.

    Parameters
    ----------
    n_images : int
    image_shape : tuple of int
        (height, width[, n_channels]).
    label_type : dtype
    chunks : callable
        Of a number of rows: an iterator over (images, labels) of at most so many rows each.
    """

    n_images: int
    image_shape: tuple[int, ...]
    label_type: np.dtype[Any]
    chunks: Callable[[int], Iterator[Batch]]


@dataclass(frozen=True)
class Format:
    """How a data set is published.

    Parameters
    ----------
    title : str
    names : tuple of str
        Of its files.
    where : str
        Where to get them, for messages.
    open_part : callable
        Of a folder and "train" or "test": the sources of its images.
    """

    title: str
    names: tuple[str, ...]
    where: str
    open_part: Callable[[Path, str], tuple[ImageSource, ...]]


def with_labels(images: Iterator[NDArray[Any]], labels: NDArray[Any]) -> Iterator[Batch]:
    """Yield batches of images together with their labels, the next ones of all labels."""
    at = 0
    for batch in images:
        yield batch, labels[at : at + len(batch)]
        at += len(batch)


def read_all(sources: tuple[ImageSource, ...]) -> Batch:
    """Read all images and labels of sources with images of one shape.

    Parameters
    ----------
    sources : tuple of ImageSource

    Returns
    -------
    images : ndarray of uint8 (n, height, width[, n_channels])
    labels : ndarray (n,)

    Notes
    -----
    The arrays are filled a chunk at a time: hardly more memory than they need themselves.
    """
    n_images = sum(source.n_images for source in sources)
    images = np.empty((n_images, *sources[0].image_shape), np.uint8)
    labels = np.empty(n_images, sources[0].label_type)
    at = 0
    for source in sources:
        for some_images, some_labels in source.chunks(CHUNK):
            rows = slice(at, at + len(some_labels))
            images[rows], labels[rows] = some_images, some_labels
            at = rows.stop
    return images, labels


def batches_of(sources: tuple[ImageSource, ...], batch_size: int) -> Iterator[Batch]:
    """Read sources one after the other in mini-batches of one size; the last may be smaller.

    Parameters
    ----------
    sources : tuple of ImageSource
    batch_size : int

    Yields
    ------
    images : ndarray (batch_size, height, width[, n_channels])
    labels : ndarray (batch_size,)

    Notes
    -----
    A batch may begin in one source and end in the next. At most two batches are held.
    """
    chunks = (chunk for source in sources for chunk in source.chunks(batch_size))
    held: list[Batch] = []
    for chunk in chunks:
        held.append(chunk)
        n_over = sum(len(labels) for _, labels in held) - batch_size
        if n_over >= 0:
            images, labels = _joined(held)
            yield images[:batch_size], labels[:batch_size]
            held = [(images[batch_size:], labels[batch_size:])] if n_over else []
    if held:
        yield _joined(held)


def slices_of(images: NDArray[Any], labels: NDArray[Any], n_rows: int) -> Iterator[Batch]:
    """Cut arrays into chunks of `n_rows` rows."""
    for at in range(0, len(labels), n_rows):
        yield images[at : at + n_rows], labels[at : at + n_rows]


def _joined(batches: Iterable[Batch]) -> Batch:
    all_images, all_labels = zip(*batches, strict=True)
    if len(all_labels) == 1:
        return all_images[0], all_labels[0]
    return np.concatenate(all_images), np.concatenate(all_labels)
