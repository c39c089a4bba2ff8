"""Samples as rows of a matrix whose columns come as features do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from onlinels.arrays import Floats, Integers
from onlinels.batch import Layout, names_of
from onlinels.columns import Columns
from onlinels.names import Name, check_distinct, feature_key, key_text, plain_name
from onlinels.stream.samples import Sample

MOST_FEATURES = 4096
"""Features at most: four inverses of that many rows and columns take half a gigabyte."""

MOST_CATEGORIES = 64
"""Different texts of one name that get a column each; later ones count as none of these."""


Texts = dict[Name, list[str]]
"""By name, the texts that have a column, in their order."""


class RowReader:
    """Place samples in the columns of a model, which come as features do.

    A text is a column of its own, named (name, text): 1 where that is the text of the name, else
    0. What a sample leaves out is 0, as in river's linear models; its gaps are NaN.

    Examples
    --------
    >>> from onlinels.stream.samples import read_stream_sample
    >>> reader = RowReader().knowing([read_stream_sample({"a": 2.0, "b": "x", "c": 1.0})])
    >>> reader.names, reader.row(read_stream_sample({"a": None, "b": "y"}))
    (('a', 'c', ('b', 'x')), array([nan,  0.,  0.]))
    """

    def __init__(self, columns: Columns | None = None, texts: Texts | None = None) -> None:
        self._columns = Columns() if columns is None else columns
        self._texts: Texts = {} if texts is None else texts
        self._places = {
            name: self._columns.locate(_columns_of(name, known))
            for name, known in self._texts.items()
        }
        # For speed: the last layout, and one that fills all columns, with its order.
        self._last: Layout | None = None
        self._complete: tuple[Layout, Integers] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_last": None, "_complete": None}

    @property
    def names(self) -> tuple[Name, ...]:
        """Names of the columns."""
        return self._columns.names

    def knowing(self, samples: Sequence[Sample]) -> RowReader:
        """Return a reader that knows all features of the samples too: this one, if it does.

        Raises
        ------
        ValueError
            If an array has another length than before, two names are one feature, or there are
            more than 4,096.
        TypeError
            If a name has no spelling of its own.
        """
        columns, texts, last = self._columns, self._texts, self._last
        for sample in samples:
            if sample.layout != last or sample.texts or sample.gaps:
                columns, texts = _extended(columns, texts, sample)
            last = sample.layout
        reader = self
        if columns is not self._columns or texts is not self._texts:
            _check_new_names(columns.names, len(self._columns))
            reader = RowReader(columns, texts)
        reader._last = last
        return reader

    def row(self, sample: Sample) -> Floats:
        """Return a sample as a row (n_columns,); features that no column is for are left out."""
        layout, numbers, texts, gaps = sample
        complete = self._complete
        if complete is not None and layout == complete[0] and not (texts or gaps):
            return numbers[complete[1]]
        places = self._columns.locate(layout)
        known = places >= 0
        row = np.zeros(len(self._columns))
        row[places[known]] = numbers[known]
        if len(places) == len(row) and known.all():
            self._complete = layout, places.argsort()
        for name in texts.keys() & self._texts.keys():
            row[self._places[name]] = [texts[name] == text for text in self._texts[name]]
        for name in gaps:
            row[self._columns_of_gap(name)] = np.nan
        return row

    def _columns_of_gap(self, name: Name) -> Integers:
        """Return the columns that a gap leaves unknown: of its texts, numbers and arrays."""
        own = self._columns.columns_of(name)
        return np.concatenate((own, self._places[name])) if name in self._places else own


def _check_new_names(names: Sequence[Name], n_known: int) -> None:
    """Refuse features before anything changes: too many, or without a spelling to draw units by."""
    if len(names) > MOST_FEATURES:
        raise ValueError(
            f"x brings the features to {len(names)}, expected at most {MOST_FEATURES}. Hash them "
            "into fewer with river's FeatureHasher(n_features=1024) before this model."
        )
    for name in names[n_known:]:
        key_text(feature_key(name))


def _extended(columns: Columns, texts: Texts, sample: Sample) -> tuple[Columns, Texts]:
    """Return columns and texts that know a sample too: the same objects, if they do already."""
    new = {
        name: [*texts.get(name, []), text]
        for name, text in sample.texts.items()
        if text not in texts.get(name, []) and len(texts.get(name, [])) < MOST_CATEGORIES
    }
    if sample.texts or sample.gaps:
        check_distinct((*names_of(sample.layout), *sample.texts, *sample.gaps))
    columns = columns.extended([sample.layout])
    if not new:
        return columns, texts
    # Together, so that the order of a dict's keys is no matter.
    added = chain(*(_columns_of(name, known[-1:]) for name, known in new.items()))
    return columns.extended([tuple(added)]), texts | new


def _columns_of(name: Name, texts: Iterable[str]) -> tuple[Name, ...]:
    return tuple((plain_name(name), text) for text in texts)
