"""Mini-batches as they were read: a matrix, and the names of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from onlinels.arrays import Matrix
from onlinels.memory import OF_ROWS, check_room
from onlinels.names import Name, check_distinct


@dataclass(frozen=True)
class ArrayFeature:
    """An array value of a sample: `length` features named (name, 0) to (name, length - 1)."""

    name: Name
    length: int


Layout = range | tuple[Name | ArrayFeature, ...]
"""The columns of a batch: a range for a plain array, else names and array features in order."""


@dataclass(frozen=True)
class Batch:
    """A mini-batch as read.

    Parameters
    ----------
    values : ndarray (n, n_columns)
        Checked numbers of any real dtype.
    layouts : tuple of Layout
        The layouts of the rows, in order of their first one; the last describes `values`.
    source : narwhals DataFrame, list or ndarray
        What was read, for answers in kind.
    """

    values: Matrix
    layouts: tuple[Layout, ...]
    source: Any

    def __len__(self) -> int:
        return len(self.values)


class MixedBatch(Batch):
    """Samples of different features, whose matrix is made when it is asked for.

    A model that has no room for so many features refuses them before.

    Parameters
    ----------
    samples : sequence of tuple of Layout and ndarray
        The samples as read.
    source : list
    """

    _samples: list[tuple[list[int], Matrix]]

    def __init__(self, samples: Sequence[tuple[Layout, Matrix]], source: Any) -> None:
        layouts = dict.fromkeys(layout for layout, _ in samples)
        _check_one_length([entry for layout in layouts for entry in layout])
        keys = {layout: check_distinct(names_of(layout)) for layout in layouts}
        columns = {key: column for column, key in enumerate(dict.fromkeys(chain(*keys.values())))}
        places = {layout: [columns[key] for key in keys[layout]] for layout in layouts}
        read = [(places[layout], values) for layout, values in samples]
        described = (*layouts, tuple(columns))
        vars(self).update(_samples=read, layouts=described, source=source)

    def __len__(self) -> int:
        return len(self._samples)

    @cached_property
    def values(self) -> Matrix:
        """Checked numbers, (n, n_columns); absent ones are 0."""
        size = len(self), len(self.layouts[-1])
        what = "X with {:,} rows of {:,} features"
        check_room(8 * size[0] * size[1], what, *size, remedy=OF_ROWS)
        matrix = np.zeros(size)
        for row, (places, values) in zip(matrix, self._samples, strict=True):
            row[places] = values
        return matrix


def names_of(layout: Layout) -> Iterator[Name]:
    """Iterate over the feature names of a layout, array features spelt out.

    Examples
    --------
    >>> list(names_of(("age", ArrayFeature("h", 2))))
    ['age', ('h', 0), ('h', 1)]
    """
    for entry in layout:
        if isinstance(entry, ArrayFeature):
            yield from ((entry.name, index) for index in range(entry.length))
        else:
            yield entry


def _check_one_length(entries: Sequence[Name | ArrayFeature]) -> None:
    features = [entry for entry in entries if isinstance(entry, ArrayFeature)]
    lengths = {feature.name: feature.length for feature in features}
    for feature in features:
        if feature.length != lengths[feature.name]:
            raise ValueError(
                f"X[...][{feature.name!r}] has {feature.length} values in one row and "
                f"{lengths[feature.name]} in another, expected one. Bring arrays to one size."
            )
