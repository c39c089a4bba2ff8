"""The input of the experts of a stream: samples as rows, scaled features, cells, random units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count, groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Floats, Integers, check_room, is_unknown, plain_value
from onlinels.features.input_weights import generator_of
from onlinels.numerics import Calls, enlarged, shallow_copy
from onlinels.rows.batch import (
    ARRAY_TYPES,
    Columns,
    Layout,
    Name,
    as_frame,
    check_distinct,
    check_mapping,
    feature_key,
    holds_sparse,
    key_text,
    read_batch,
    read_row,
    samples_of,
)
from onlinels.saving import savable

MAX_FEATURES = 4096
"""Maximum number of features: four inverses of this size take half a gigabyte."""

MAX_CATEGORIES = 64
"""Number of texts of one name that get a column each; later texts are identified by a hash."""

N_TEXT_HASHES = 1 << 16
"""Number of hashes for the texts of a name: of 10,000 texts, one in seven shares its hash."""


Sample = tuple[Layout, Floats, list[tuple[Name, str]], list[Name]]
"""The content of a sample: a layout, its numbers, pairs (name, text), and names of gaps."""


class StreamRow(NamedTuple):
    """A sample in the columns of a stream."""

    values: Floats
    # Names of its gaps, also of names without a value so far.
    gaps: Sequence[Name] = ()
    # Numbers of its texts without a column.
    texts: Sequence[int] = ()


def read_stream_row(x: Any, argument: str = "x") -> Sample:
    """Read one river sample of numbers, arrays and texts; None, NaN and pandas.NA are gaps.

    `argument` is the name of the sample in messages.

    Examples
    --------
    >>> read_stream_row({"size": 3, "colour": "red", "age": None})
    (('size',), array([3.]), [('colour', 'red')], ['age'])
    """
    check_mapping(x, argument)
    numbers, texts, gaps = {}, [], []
    for name, value in x.items():
        if isinstance(value, str):
            # Not `str`, which returns another text for some subclasses, such as enumerations.
            texts.append((plain_value(name), str.__str__(value)))
        elif is_gap(value):
            gaps.append(plain_value(name))
        else:
            numbers[name] = value
    if texts or gaps:
        check_distinct(x)
    return *read_row(numbers, argument), texts, gaps


def read_stream_batch(X: Any) -> list[Sample]:
    """Read a mini-batch as `read_stream_row` reads rows, but numbers without gaps all at once."""
    try:
        batch = read_batch(X)
        if len(batch.layouts) == 1:
            layout = tuple(batch.layouts[0])
            return [(layout, row, [], []) for row in batch.values.astype(np.float64)]
    except (TypeError, ValueError):
        pass  # Texts or gaps, or an error that reading row by row explains.
    return [read_stream_row(x, f"X[{row}]") for row, x in enumerate(samples_of(X))]


def is_gap(value: Any) -> bool:
    """Tell whether a value is missing."""
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    return value is None or is_unknown(value)


@savable()
class StreamColumns:
    """The columns of a stream of samples: numbers, entries of arrays, and texts.

    A text is a column of its own, named (name, text): 1 in samples with this text, else 0. A name
    with more than 64 texts is crowded: its later texts have a hash instead of a column. An absent
    feature is 0, as in river's linear models; a gap is NaN.

    Examples
    --------
    >>> columns, _ = StreamColumns().extended_and_read({"a": 2.0, "b": "x", "c": 1.0})
    >>> columns.names, columns.row({"a": None, "b": "y"}).values
    (('a', 'c', ('b', 'x')), array([nan,  0.,  0.]))
    """

    def __init__(self) -> None:
        self._columns = Columns()
        self._texts: dict[Name, dict[str, int]] = {}
        # Names with more texts than columns, in the order in which they became crowded.
        self._crowded: dict[Name, int] = {}

    @property
    def names(self) -> tuple[Name, ...]:
        """Names of the columns."""
        return self._columns.names

    @property
    def n_crowded(self) -> int:
        """Number of names with texts that have no column."""
        return len(self._crowded)

    def row(self, x: Any) -> StreamRow:
        """Return a sample as a row (n_columns,); features without a column are ignored."""
        known = self._columns.row(x)
        return self._placed(read_stream_row(x)) if known is None else StreamRow(known)

    def _placed(self, sample: Sample) -> StreamRow:
        layout, _, texts, gaps = sample
        if not texts and not gaps:
            self._columns.note(layout)
        return self.placed([sample])[0]

    def columns_of(self, name: Name) -> list[int]:
        """Return the columns of a name: of its number, its array and its texts."""
        return [*self._columns.columns_of(name).tolist(), *self._texts.get(name, {}).values()]

    def differences(self, X: Any) -> tuple[int, list[Name], list[Name]]:
        """Return the number of names, the names that a frame or array lacks, and its other names.

        Dicts lack no names, and neither do frames with pandas' Sparse columns
        (`onlinels.rows.batch.Columns.differences`).
        """
        if isinstance(X, ARRAY_TYPES):
            given: Sequence[Any] = range(X.shape[1])
        elif isinstance(X, (list, tuple)) or holds_sparse(as_frame(X)):
            return 0, [], []
        else:
            given = as_frame(X).columns
        texts = {(name, text) for name, columns in self._texts.items() for text in columns}
        named = (*(name for name in self.names if name not in texts), *self._texts)
        known = {feature_key(name): name for name in named}
        keys = {feature_key(name): name for name in given}
        absent = [name for key, name in known.items() if key not in keys]
        return len(known), absent, [name for key, name in keys.items() if key not in known]

    def extended_and_read(self, x: Any) -> tuple[StreamColumns, StreamRow]:
        """Return columns extended by the features of a river sample, and the sample as a row."""
        known = self._columns.row(x)
        if known is not None:
            return self, StreamRow(known)
        sample = read_stream_row(x)
        columns = self.extended([sample])
        return columns, columns._placed(sample)

    def extended(self, samples: Iterable[Sample]) -> StreamColumns:
        """Return columns with all features of the samples: this object if it has them already."""
        columns, texts, crowded = self._columns, self._texts, self._crowded
        known: Layout | None = None
        for layout, _, named, _ in samples:
            if layout == known and not named:
                continue
            known = layout
            new = [(name, text) for name, text in named if text not in texts.get(name, {})]
            full = {name for name, _ in new if len(texts.get(name, {})) == MAX_CATEGORIES}
            new = [(name, text) for name, text in new if name not in full]
            for name in sorted(full - crowded.keys(), key=repr):
                crowded = crowded | {name: len(crowded)}
            # Together and sorted, so that the order of a dict's keys does not matter.
            columns = columns.extended([(*layout, *new)])
            for name, text in sorted(new, key=repr):
                (column,) = columns.columns_of((name, text))
                texts = texts | {name: texts.get(name, {}) | {text: int(column)}}
        if columns is self._columns and crowded is self._crowded:
            return self
        if len(columns) > MAX_FEATURES:
            fault = f"x raises the number of features to {len(columns)}"
            remedy = "Hash them with river's FeatureHasher(n_features=1024)."
            raise ValueError(f"{fault}, expected at most {MAX_FEATURES}. {remedy}")
        made = StreamColumns()
        made._columns, made._texts, made._crowded = columns, texts, crowded
        return made

    def placed(self, samples: Sequence[Sample]) -> list[StreamRow]:
        """Return samples as rows (n_columns,); features without a column are ignored."""
        rows: list[StreamRow] = []
        # Rows of one layout are placed together.
        for layout, group in groupby(samples, itemgetter(0)):
            alike = list(group)
            placed = self._columns.place((layout,), np.array([each[1] for each in alike]))
            rows += map(self._completed, placed, alike)
        return rows

    def _completed(self, row: Floats, sample: Sample) -> StreamRow:
        """Return a row of numbers with the texts and gaps of its sample."""
        _, _, texts, gaps = sample
        if not texts and not gaps:
            return StreamRow(row)
        hashed = []
        for name, text in texts:
            column = self._texts.get(name, {}).get(text)
            if column is not None:
                row[column] = 1.0
            elif name in self._crowded:
                of_text = crc32(text.encode("utf-8", "surrogatepass")) % N_TEXT_HASHES
                hashed.append(N_TEXT_HASHES * self._crowded[name] + of_text)
        for name in gaps:
            row[self.columns_of(name)] = np.nan
        # Sorted, so that the order of a dict's keys does not matter.
        return StreamRow(row, sorted(gaps, key=repr), sorted(hashed))


MAX_DEVIATIONS = 6.0
"""Limit of a value in standard deviations, so that an outlier affects a single row."""

MIN_DEVIATION = 1e-155
"""Standard deviation below which values count as equal: dividing by less would overflow."""

MIN_RELATIVE_DEVIATION = 1e-9
"""Standard deviation, relative to the mean, below which differences are rounding errors."""

SCALE_DECAY = 0.9995
"""Factor on a row's weight with each further row: about 2,000 rows determine the scale.

From 0.999 to 1 the mean accuracy on sixteen streams stayed within 0.1 points.
"""

MIN_SCALE_WEIGHT = 4.0
"""Minimum weight of rows for a scale that can identify outliers."""

OUTLIERS_BEFORE_RESET = 5
"""Number of successive outliers after which the scale of a feature is reset."""

MAX_GAP_NAMES = 4096
"""Maximum number of names whose gaps are counted: the first ones."""


@savable()
class RunningScaler:
    """Standardise rows by the mean and variance of the rows learnt before them.

    An unknown value (NaN) becomes 0, the mean; so does every value of the first row. A late feature
    counts as 0 in earlier rows, except in rows in which its name had a gap: these have no weight.
    If all earlier values of a feature are equal, a different value becomes -1 or 1. The units of a
    feature therefore do not matter, nor does the origin of a feature present from the first row on.

    The scale follows the stream: the weight of rows decays, and from the sixth row on a value more
    than 6 standard deviations from the mean is learnt as 6 standard deviations from it. A single
    outlier therefore changes little. After five successive outliers, as when a sensor is replaced,
    the scale of the feature is reset. A scale that shrinks, or that an outlier among the first rows
    has enlarged, adapts more slowly, by a factor of 10 in some thousands of rows, because it looks
    like a signal that changes slowly.

    A scaler never changes: learning a row returns a new scaler, by Welford's recursion (B. P.
    Welford, "Note on a method for calculating corrected sums of squares and products",
    Technometrics 4, 1962) with decaying weights.

    Examples
    --------
    >>> scaler = RunningScaler().grown(1).learnt(np.array([10.0])).learnt(np.array([30.0]))
    >>> scaler.transform(np.array([40.0])).round(2), scaler.transform(np.array([np.nan]))
    (array([2.]), array([0.]))
    """

    def __init__(self) -> None:
        # Number of rows learnt.
        self.n_rows = 0
        self.counts = self.means = self.variances = np.zeros(0)
        self._n_far: Integers = np.zeros(0, dtype=np.intp)
        # For names with gaps: the number of rows up to the last gap, and the weight then of rows
        # without a gap.
        self._known: dict[Name, list[float]] = {}

    def grown(
        self, n_features: int, columns_of: Callable[[Name], Sequence[int]] = lambda _: ()
    ) -> Self:
        """Return a scaler with room for features that were 0 in every earlier row without a gap.

        `columns_of` returns the columns of a name; without it, there were no gaps.
        """
        new = shallow_copy(self)
        for attribute in ("counts", "_n_far", "means", "variances"):
            setattr(new, attribute, enlarged(getattr(self, attribute), n_features))
        new.counts[len(self.counts) :] = self._weight()
        for name, known in self._known.items():
            late = [column for column in columns_of(name) if column >= len(self.counts)]
            new.counts[late] = self._weight(known)
        return new

    def _weight(self, known: Sequence[float] = (0.0, 0.0)) -> float:
        """Return the weight of all rows in which a name had no gap."""
        n_rows, weight = known
        left: float = SCALE_DECAY ** (self.n_rows - n_rows)
        return weight * left + (1.0 - left) / (1.0 - SCALE_DECAY)

    def transform(self, rows: Floats) -> Floats:
        """Return rows (..., n_features), NaN if unknown, in standard deviations from the mean."""
        scaled = rows - self.means
        deviations = np.sqrt(self.variances)
        # Here and below: a fifth of the time of numpy's all and any, as measured.
        if deviations.size and not deviations.item(deviations.argmin()) > MIN_DEVIATION:
            signs = np.where(scaled, abs(scaled), 1.0)
            deviations = np.where(deviations > MIN_DEVIATION, deviations, signs)
            scaled[np.broadcast_to(self.counts == 0.0, scaled.shape)] = 0.0
        scaled /= deviations
        # Half the time of numpy's clip, as measured.
        np.minimum(scaled, MAX_DEVIATIONS, out=scaled)
        np.maximum(scaled, -MAX_DEVIATIONS, out=scaled)
        # The sum of squares is NaN if a value is NaN.
        flat = scaled.ravel()
        if not flat.dot(flat) >= 0.0:
            scaled[scaled != scaled] = 0.0
        return scaled

    def learnt(self, row: Floats, unknown: Sequence[Name] = ()) -> Self:
        """Return a scaler that has learnt another row, with the names of its gaps."""
        new = shallow_copy(self)
        new.n_rows += 1
        if unknown:
            new._known = self._known.copy()
        for name in unknown:
            if name in new._known or len(new._known) < MAX_GAP_NAMES:
                weight = SCALE_DECAY * self._weight(self._known.get(name, (0.0, 0.0)))
                new._known[name] = [float(new.n_rows), weight]
        if new.n_rows % 1024 == 0:
            # The mean of a value that has become constant never converges exactly.
            least = (MIN_RELATIVE_DEVIATION * self.means) ** 2
            new.variances = np.where(self.variances > 0.0, np.maximum(self.variances, least), 0.0)
        known: Any = 1.0
        if not row.dot(row) >= 0.0:
            # NaN: a value at the mean, without weight.
            known = row == row
            row = np.where(known, row, self.means)
        differences = row - self.means
        squares = differences * differences
        far = squares > MAX_DEVIATIONS**2 * new.variances
        if len(row) and (far[far.argmax()] or self._n_far[self._n_far.argmax()]):
            new._limit_outliers(far, row, differences)
            squares = differences * differences
        new.counts = SCALE_DECAY * new.counts + known
        shares = known / np.maximum(new.counts, 1.0)
        new.means = new.means + shares * differences
        squares -= shares * squares
        new.variances = new.variances + shares * (squares - new.variances)
        return new

    def _limit_outliers(self, far: NDArray[np.bool_], row: Floats, differences: Floats) -> None:
        """Limit the differences of outliers, and reset features with too many of them, in place."""
        deviations = np.sqrt(self.variances)
        far &= (deviations > MIN_DEVIATION) & (self.counts >= MIN_SCALE_WEIGHT)
        limit = MAX_DEVIATIONS * deviations[far]
        differences[far] = np.minimum(np.maximum(differences[far], -limit), limit)
        self._n_far = np.where(far, self._n_far + 1, 0)
        is_reset = self._n_far == OUTLIERS_BEFORE_RESET
        self.counts = np.where(is_reset, 0.0, self.counts)
        self.variances = np.where(is_reset, 0.0, self.variances)
        self.means = np.where(is_reset, row, self.means)
        differences[is_reset], self._n_far[is_reset] = 0.0, 0


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
    >>> from onlinels.core.reference import apply
    >>> cells, row = Cells(seed=0).grown(["a"], n_classes=2, n_names=0), np.array([0.5])
    >>> for _ in range(9):
    ...     calls, cells = cells.plan(cells.lookup(cells.of(row)), column=1)
    ...     apply(calls)
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
        random = generators_of(self._seed, "cell", names[len(self._ranks) :])
        if random:
            ranks = [each.random(N_PARTITIONS) for each in random]
            new._ranks = np.concatenate((self._ranks, ranks))
            # If there are fewer features, some are cut twice, at different shifts.
            order = new._ranks.argsort(axis=0, kind="stable")
            new._seen = np.resize(order[: len(BINS)], BINS.shape)
            is_reset = ((new._seen != self._seen) & (BINS > 1.0)).any(axis=0)
            new._sums = new._sums.copy()
            new._sums[:, :FIRST_TEXT].reshape(-1, N_PARTITIONS, N_CELLS)[:, is_reset] = 0.0
        return new

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
        shares = found.shares[..., :N_PARTITIONS]
        # Rows first, so that many rows are mixed bit for bit as a single row.
        mixture = np.ascontiguousarray(shares.swapaxes(0, -2)) @ self._weights
        mixture -= 1.0 / max(1, len(shares))
        return mixture

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
        of_texts = dict(zip(texts, cells[N_PARTITIONS:].tolist(), strict=True))
        # With room for the texts of the next row.
        n_texts = len(self._texts) + len(texts) + self._n_names
        new._sums = self._enlarged_sums(len(sums), n_texts)
        return ((new._sums.__setitem__, (ALL, cells), sums), (self._texts.update, of_texts)), new

    def _enlarged_sums(self, n_rows: int, n_texts: int) -> Floats:
        """Return sums with room for rows and texts: the present sums if they are large enough."""
        sums = self._sums
        if len(sums) == n_rows and sums.shape[1] >= FIRST_TEXT + n_texts:
            return sums
        n_cells = FIRST_TEXT + TEXT_CELL_GROWTH * -(-n_texts // TEXT_CELL_GROWTH)
        return np.pad(sums, ((0, n_rows - len(sums)), (0, n_cells - sums.shape[1])))


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


N_DENSE, N_SPARSE = 80, 80
"""Numbers of units with all features as input, and of units with one or two.

Beside the cells, 120 sparse units are no better: 90.1% instead of 90.2% over seventeen streams.
"""

N_UNITS = N_DENSE + N_SPARSE

DENSE_UNIT_DEVIATION = 1.5
"""Standard deviation of a dense unit's weighted sum of standardised features."""

MAX_SPARSE_INPUTS = 2
"""Maximum number of features of a sparse unit; the unit is as steep in them as a rule."""


@savable()
class Activations:
    """Arrange rows as [units, 1, then features, last labels and shares in order of arrival].

    Columns never move: new columns are appended, so learnt weights keep their places.

    Units are tanh(z'V + b). Their weights are drawn by name, so the order of features does not
    matter. The first units are dense: V_jk ~ N(0, 1.5^2 / d) if d features are known when feature
    j arrives. The others are sparse: unit k uses the one or two (s_k) features of lowest rank in an
    order of its own, with V_jk ~ N(0, 2.25^2 / s_k). Sparse units represent rules about few
    features, which dense units do not resolve. Biases are N(0, 1). A late feature may replace
    another feature in a sparse unit.

    Examples
    --------
    >>> activations = Activations(seed=0).grown(["a"], n_classes=2)
    >>> wide = activations.of(np.array([0.5]), mixture=np.array([0.2, -0.2]), last_label=1)
    >>> wide[N_UNITS:]
    array([ 1. ,  0.5,  0. ,  1. ,  0.2, -0.2])
    """

    def __init__(self, seed: int) -> None:
        random = generator_of(seed, "units")
        self._seed = seed
        self._n_seen = random.integers(1, MAX_SPARSE_INPUTS + 1, N_SPARSE)
        self._biases = random.standard_normal(N_UNITS)
        # Weights of dense units, drawn weights of sparse units, and their ranks of features.
        self._drawn = np.zeros((0, N_UNITS + N_SPARSE))
        self._weights = np.zeros((0, N_UNITS))
        self._features: Integers = np.zeros(0, dtype=np.intp)
        self._labels: list[int] = []
        # Columns of the shares of classes: of the mixture, and of the texts of every crowded name.
        self._mixture: Integers = np.zeros(0, dtype=np.intp)
        self._texts: list[list[int]] = []
        self._narrow: Integers = np.array([N_UNITS])

    @property
    def n_wide(self) -> int:
        """Number of activations."""
        return N_UNITS + 1 + len(self._features) + len(self._labels) * (2 + len(self._texts))

    @property
    def n_narrow(self) -> int:
        """Number of activations of the narrow view."""
        return len(self._narrow)

    def grown(self, names: Sequence[Name], n_classes: int, n_crowded: int = 0) -> Self:
        """Return activations with room for new features and classes.

        `names` are all features, the latest last; `n_crowded` names have texts without a column.
        Raises ValueError if four inverses and sets of weights of this size exceed the memory.
        """
        new = shallow_copy(self)
        n_features, n_labels = len(names), min(n_classes, MAX_REMEMBERED_LABELS)
        free = count(self.n_wide)
        kinds = [self._features.tolist(), self._labels, self._mixture.tolist(), *self._texts]
        kinds += [[]] * (n_crowded - len(self._texts))
        sizes = n_features, *[n_labels] * (len(kinds) - 1)
        pairs = zip(kinds, sizes, strict=True)
        filled = [[*places, *islice(free, size - len(places))] for places, size in pairs]
        features, new._labels, mixture, *new._texts = filled
        new._features, new._mixture = np.array(features, np.intp), np.array(mixture, np.intp)
        seen = [N_UNITS, *features, *new._labels, *chain(*new._texts)]
        new._narrow = np.sort(np.array(seen, dtype=np.intp))
        n_numbers = sum(size * (size + n_classes) for size in (new.n_wide, len(seen)))
        what = "A stream of {:,} classes with {:,} features and labels"
        check_room(32 * n_numbers, what, n_classes, len(seen))
        if n_features > len(self._features):
            new._draw(names)
        return new

    def _draw(self, names: Sequence[Name]) -> None:
        random = generators_of(self._seed, "unit", names[len(self._drawn) :])
        parts = [(each.standard_normal(N_UNITS), each.random(N_SPARSE)) for each in random]
        drawn = np.array([np.concatenate(each) for each in parts])
        drawn[:, :N_DENSE] = DENSE_UNIT_DEVIATION * drawn[:, :N_DENSE] / np.sqrt(len(names))
        self._drawn = np.concatenate((self._drawn, drawn))
        dense, sparse, ranks = np.split(self._drawn, [N_DENSE, N_UNITS], axis=1)
        # 1 / sqrt(s_k) if unit k uses feature j, else 0.
        n_seen = np.minimum(self._n_seen, len(names))
        order = ranks.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
        share = (order < n_seen) / np.sqrt(n_seen)
        self._weights = np.concatenate((dense, DENSE_UNIT_DEVIATION**2 * sparse * share), axis=1)

    def of(
        self, features: Floats, mixture: Floats | None = None, last_label: int | None = None
    ) -> Floats:
        """Return the activations (..., n_wide) of standardised features (..., n_features).

        In a classifier they hold the shares of classes (..., n_labels), and the last label.
        """
        wide = np.zeros((*features.shape[:-1], self.n_wide))
        units = wide[..., :N_UNITS]
        row_products(features, self._weights, units)
        units += self._biases
        np.tanh(units, out=units)
        # Transposed: for one row a fifth of the time of indices after an ellipsis, as measured.
        of_activations = wide.T
        of_activations[N_UNITS] = 1.0
        of_activations[self._features] = features.T
        if mixture is not None:
            of_activations[self._mixture] = mixture.T
        if last_label is not None and last_label < len(self._labels):
            of_activations[self._labels[last_label]] = 1.0
        return wide

    def add_texts(self, wide: Floats, found: Lookup) -> None:
        """Write the shares of classes in the cells of a row's texts, minus equal shares."""
        of_texts = found.shares[:, N_PARTITIONS:].T - 1.0 / max(1, len(found.shares))
        for text, shares in zip(found.texts, of_texts, strict=True):
            wide[self._texts[text // N_TEXT_HASHES]] = shares

    def narrow(self, wide: Floats) -> Floats:
        """Return activations without units and mixture: [1, features, last labels, texts]."""
        seen: Floats = wide.take(self._narrow, axis=-1)
        return seen


def generators_of(seed: int, what: str, names: Sequence[Name]) -> list[np.random.Generator]:
    """Return the random generator of every name."""
    return [generator_of(seed, f"{what} {key_text(feature_key(name))}") for name in names]


def row_products(rows: Floats, weights: Floats, out: Floats) -> None:
    """Write rows (..., m) times weights (m, k), bit for bit equal to products of single rows."""
    # A product of all rows at once rounds differently.
    if rows.ndim == 1:
        rows.dot(weights, out=out)
    else:
        np.matmul(rows[..., None, :], weights, out=out[..., None, :])
