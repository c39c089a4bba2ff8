"""Images with their labels, weights and times, as they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from onlinels.arrays import Floats, Matrix
from onlinels.decay import Clock
from onlinels.labels import Label, read_labels
from onlinels.row_weights import check_weights


@dataclass(frozen=True)
class Examples:
    """A mini-batch of checked images and all that is known of them.

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels)
    labels : list of n labels
    weights : float for all, or ndarray (n,)
    times : list of n times, or None
    """

    images: Matrix
    labels: list[Label]
    weights: float | Floats
    times: list[Any] | None

    @classmethod
    def read(cls, images: Matrix, y: Any, w: Any, t: Any, clock: Clock) -> Examples:
        """Read what belongs to images (n, height, width, n_channels).

        Raises
        ------
        TypeError, ValueError
            If labels, weights or times cannot be read or do not fit.
        """
        n_rows = len(images)
        labels = read_labels(y, n_rows)
        weights = check_weights(w, n_rows)
        clock.read(t, n_rows)
        if t is not None:
            t = [t] * n_rows if np.ndim(t) == 0 else list(t)
        return cls(images, labels, weights, t)

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, rows: slice) -> Examples:
        """Return some of the rows."""
        times = None if self.times is None else self.times[rows]
        weights = self.weights if isinstance(self.weights, float) else self.weights[rows]
        return Examples(self.images[rows], self.labels[rows], weights, times)

    def blocks(self, size: int) -> Iterator[Examples]:
        """Cut into blocks of at most so many rows."""
        for start in range(0, len(self), size):
            yield self.part(slice(start, start + size))

    def copied(self) -> Examples:
        """Return examples that share no image with what was passed in."""
        return Examples(self.images.copy(), self.labels, self.weights, self.times)


def split(batches: Sequence[Examples], n_first: int) -> tuple[list[Examples], list[Examples]]:
    """Cut a sequence of batches in two, the first of so many rows.

    Examples
    --------
    >>> batches = [Examples(np.ones((2, 4, 4, 1)), ["a", "b"], 1.0, None)] * 2
    >>> [[len(batch) for batch in part] for part in split(batches, 3)]
    [[2, 1], [1]]
    """
    first: list[Examples] = []
    rest: list[Examples] = []
    for batch in batches:
        n_taken = min(n_first, len(batch))
        if n_taken:
            first.append(batch.part(slice(n_taken)))
        if n_taken < len(batch):
            rest.append(batch.part(slice(n_taken, None)))
        n_first -= n_taken
    return first, rest


def joined(batches: Sequence[Examples]) -> list[Examples]:
    """Return as few batches as there can be: neighbours are one if both have times or neither.

    Images that were held one by one are so worked through many at a time.

    Examples
    --------
    >>> batch = Examples(np.ones((2, 4, 4, 1)), ["a", "b"], 1.0, None)
    >>> [len(batch) for batch in joined([batch, batch])]
    [4]
    """
    groups = groupby(batches, key=lambda batch: batch.times is None)
    return [_join(list(group)) for _, group in groups]


def _join(batches: list[Examples]) -> Examples:
    if len(batches) == 1:
        return batches[0]
    timed = batches[0].times is not None
    return Examples(
        np.concatenate([batch.images for batch in batches]),
        [label for batch in batches for label in batch.labels],
        np.concatenate([np.broadcast_to(batch.weights, len(batch)) for batch in batches]),
        [time for batch in batches for time in batch.times or ()] if timed else None,
    )
