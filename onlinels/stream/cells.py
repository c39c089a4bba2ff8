"""Shares of the classes among the latest rows, in cells of a few features and of single texts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple, Self

import numpy as np

from onlinels.checks import Floats, Integers
from onlinels.features.input_weights import generator_of
from onlinels.numerics import Calls, shallow_copy
from onlinels.rows.batch import Name, feature_key, key_text
from onlinels.saving import savable

N_PARTITIONS = 40
"""Number of partitions of the feature space, alternately by two and by three features."""

N_CELLS = 64
"""Number of cells of a partition."""

BINS = np.tile([[8.0, 4.0], [8.0, 4.0], [1.0, 4.0]], N_PARTITIONS // 2)
"""Number of bins of every feature of a partition, (3, 40)."""

LAST_BINS = BINS - 1.0

BINS_PER_DEVIATION = BINS / 4.0
"""Number of bins in a standard deviation: bins cover four standard deviations about the mean."""

STRIDES = np.tile([[1, 1], [8, 4], [64, 16]], N_PARTITIONS // 2)
PARTITION_STARTS = N_CELLS * np.arange(N_PARTITIONS)
FIRST_TEXT = N_CELLS * N_PARTITIONS
"""Positions of bins, partitions and texts among all cells."""

ALL, ONES = slice(None), np.ones(N_PARTITIONS)
"""Constants that every row needs, made once."""

CELL_DECAY = np.tile([0.8, 0.8, 0.98, 0.98], N_PARTITIONS // 4)
"""Factor on the rows of a cell with each further row there: the last 5, or 50, rows count.

With 0.9 in all cells, accuracy on elec2 was 0.3 points lower, on STAGGER and Sine 0.1.
"""

TEXT_CELL_DECAY = 0.98
"""The same factor for the cell of a text."""

LOG_LOSS_DECAY = 0.995
"""Factor on the log-loss of a partition with each further row: about 200 rows count."""

MIN_MIXTURE_WEIGHT = 1e-300
"""Minimum share of a partition in the mixture, so that it can grow again."""

MAX_REMEMBERED_LABELS = 32
"""Number of classes, the first ones, whose shares and last labels are stored separately."""

TEXT_CELL_GROWTH = 1024
"""Number of texts for which memory is allocated at a time."""


class Lookup(NamedTuple):
    """The contents of the cells of rows: first the cells of partitions, then those of texts."""

    cells: Integers
    # The weight of all rows in each cell and of the rows of each class,
    # (1 + n_classes, ..., n_cells).
    sums: Floats
    # The shares of the classes, (n_classes, ..., n_cells).
    shares: Floats
    texts: Sequence[int]


@savable()
class Cells:
    """Store the shares of the classes among the latest rows in every cell of a stream.

    Forty random partitions cut the space of standardised features into 64 cells each, by two or
    three features. Cells represent thresholds of several features at once, which smooth units do
    not resolve. Each feature is cut into 8 or 4 bins of equal width at a random shift, over 4
    standard deviations in all. A partition uses the features of lowest rank in a random order of
    its own. The ranks are drawn by name, so the order of features does not matter. If a late
    feature changes the features of a partition, its cells are reset.

    In a cell whose rows weigh n in all and n_k in class k, the share of class k of N is
    ``(n_k + 1/N) / (n + 1)``. The shares of the partitions are mixed by their recent log-losses,
    measured before learning each row: partition i weighs exp(-L_i), where L_i is discounted, and
    the loss of a row of weight w counts w times.

    A text without a column of its own is also a cell.

    Examples
    --------
    >>> from onlinels.numerics import apply
    >>> cells, row = Cells(seed=0).grown(["a"], n_classes=2, n_names=0), np.array([0.5])
    >>> for _ in range(9):
    ...     calls, cells = cells.plan(cells.lookup(cells.of(row)), column=1)
    ...     apply((calls, ()))
    >>> cells.mixture(cells.lookup(cells.of(row))).round(2)
    array([-0.43,  0.43])
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        random = generator_of(seed, "cells")
        self._shifts = BINS / 2.0 + random.random(BINS.shape) - 0.5
        # The ranks of features in every partition, and the features that it uses.
        self._ranks = np.zeros((0, N_PARTITIONS))
        self._seen: Integers = np.full(BINS.shape, -1, dtype=np.intp)
        # Classes by cells: a third of the time of cells by classes, as measured.
        self._sums = np.zeros((1, FIRST_TEXT))
        # exp(-L) of every partition, normalised to sum 1.
        self._weights = ONES / N_PARTITIONS
        # The cells of texts, and how many texts a sample may have.
        self._texts: dict[int, int] = {}
        self._n_names = 0

    def grown(self, names: Sequence[Name], n_classes: int, n_names: int) -> Self:
        """Return cells with room for new features and classes; `n_names` names have text cells."""
        new = shallow_copy(self)
        new._n_names = n_names
        n_rows = 1 + min(n_classes, MAX_REMEMBERED_LABELS)
        new._sums = self._enlarged_sums(n_rows, len(self._texts) + n_names)
        if len(names) > len(self._ranks):
            new._draw(names)
        return new

    def _draw(self, names: Sequence[Name]) -> None:
        keys = [key_text(feature_key(name)) for name in names[len(self._ranks) :]]
        drawn = [generator_of(self._seed, "cell " + key).random(N_PARTITIONS) for key in keys]
        self._ranks = np.concatenate((self._ranks, drawn))
        # If there are fewer features, some are cut twice, at different shifts.
        order = self._ranks.argsort(axis=0, kind="stable")
        seen = np.resize(order[: len(BINS)], BINS.shape)
        is_reset = ((seen != self._seen) & (BINS > 1.0)).any(axis=0)
        self._sums = self._sums.copy()
        self._sums[:, :FIRST_TEXT].reshape(-1, N_PARTITIONS, N_CELLS)[:, is_reset] = 0.0
        self._seen = seen

    def of(self, features: Floats) -> Integers:
        """Return the cells (..., 40) of standardised features (..., n_features)."""
        if not features.shape[-1]:
            features = np.zeros((*features.shape[:-1], 1))
        bins = features.take(self._seen, axis=-1)
        bins *= BINS_PER_DEVIATION
        bins += self._shifts
        np.maximum(bins, 0.0, out=bins)
        np.minimum(bins, LAST_BINS, out=bins)
        places = bins.astype(np.intp)
        places *= STRIDES
        cells: Integers = np.add.reduce(places, axis=-2)
        cells += PARTITION_STARTS
        return cells

    def lookup(self, cells: Integers, texts: Sequence[int] = ()) -> Lookup:
        """Look up cells (..., 40), and the cells of a row's texts by their numbers."""
        if texts:
            # New texts get the next cells.
            new = count(FIRST_TEXT + len(self._texts))
            of_texts = [self._texts[text] if text in self._texts else next(new) for text in texts]
            cells = np.append(cells, of_texts)
        sums = self._sums.take(cells, axis=1)
        shares = sums[1:] + 1.0 / max(1, len(sums) - 1)
        shares /= sums[0] + 1.0
        return Lookup(cells, sums, shares, texts)

    def mixture(self, found: Lookup) -> Floats:
        """Return the mixed shares of the classes (..., n_classes), minus equal shares."""
        weights, shares = self._weights, found.shares
        if found.texts:
            shares = shares[:, :N_PARTITIONS]
        if shares.ndim == 2:
            mixture: Floats = shares.dot(weights)
        else:
            # Bit for bit equal to a single row.
            mixture = np.matmul(np.ascontiguousarray(shares.swapaxes(0, 1)), weights)
        mixture -= 1.0 / max(1, len(shares))
        return mixture

    def of_texts(self, found: Lookup) -> Floats:
        """Return the shares of the classes in texts (n_texts, n_classes), minus equal shares."""
        shares: Floats = found.shares[:, N_PARTITIONS:].T - 1.0 / max(1, len(found.shares))
        return shares

    def plan(
        self, found: Lookup, column: int, is_new: bool = False, w: float = 1.0
    ) -> tuple[Calls, Self]:
        """Learn a row of weight w that was looked up, with the column of its class.

        Return the changes in place that are left to make, and the new cells. No partition could
        predict a new class, so its row does not change the mixture.
        """
        new, (cells, sums, shares, texts) = shallow_copy(self), found
        decay = np.append(CELL_DECAY, [TEXT_CELL_DECAY] * len(texts)) if texts else CELL_DECAY
        sums = sums * decay
        sums[0] += w
        if column < len(shares):
            sums[1 + column] += w
            if not is_new:
                new._weights = _weights_after(self._weights, shares[column, :N_PARTITIONS], w)
        of_texts = zip(texts, cells[N_PARTITIONS:].tolist(), strict=True)
        calls = [
            (self._texts.__setitem__, *each) for each in of_texts if each[0] not in self._texts
        ]
        new._sums = self._enlarged_sums(len(sums), len(self._texts) + len(calls) + self._n_names)
        return ((new._sums.__setitem__, (ALL, cells), sums), *calls), new

    def _enlarged_sums(self, n_rows: int, n_texts: int) -> Floats:
        """Return sums with room for rows and texts: the present sums if they are large enough."""
        sums = self._sums
        if len(sums) == n_rows and sums.shape[1] >= FIRST_TEXT + n_texts:
            return sums
        larger = np.zeros((n_rows, FIRST_TEXT + TEXT_CELL_GROWTH * -(-n_texts // TEXT_CELL_GROWTH)))
        larger[: len(sums), : sums.shape[1]] = sums
        return larger


def _weights_after(weights: Floats, likelihoods: Floats, w: float) -> Floats:
    """Return the weights of partitions after a row of weight w, given its likelihood in each."""
    if w != 1.0:
        # Relative to the largest: all their powers may be 0.
        likelihoods = (likelihoods / np.maximum.reduce(likelihoods)) ** w
    after: Floats = weights**LOG_LOSS_DECAY
    after *= likelihoods
    after /= after.dot(ONES)
    np.maximum(after, MIN_MIXTURE_WEIGHT, out=after)
    return after
