"""The input of the experts of a stream: samples as rows, scaled features, cells, random units."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import count, islice
from typing import Any, NamedTuple, Self

import numpy as np

from onlinels.checks import Floats, Integers, check_room, is_missing, plain_value, unwrapped
from onlinels.core.constants import CELLS_OF_PARTITION, MAX_CATEGORIES, SCALE_DECAY
from onlinels.core.reference import scale, scale_after
from onlinels.features.input_weights import generator_of
from onlinels.numerics import enlarged, is_array, is_count, restore, shallow_copy
from onlinels.rows.batch import (
    ARRAY_TYPES,
    PLAIN_NAME_TYPES,
    Columns,
    Layout,
    Name,
    as_frame,
    check_distinct,
    check_mapping,
    holds_sparse,
    layout_of,
    name_text,
    names_of,
    read_batch,
    read_row,
    samples_of,
)
from onlinels.saving import savable

MAX_FEATURES = 4096
"""Maximum number of features: five inverses of this size take two thirds of a gigabyte."""

Sample = tuple[Layout, Floats, list[tuple[Name, str]], list[Name]]
"""The content of a sample: a layout, its numbers, pairs (name, text), and names of gaps."""


class StreamRow(NamedTuple):
    """A sample in the columns of a stream."""

    values: Floats
    # Names of its gaps, also of names without a value so far.
    gaps: Sequence[Name] = ()
    # Those of them whose value is a text, where earlier values are numbers.
    texts: Sequence[Name] = ()
    # Whether all values are numbers, which the row then has.
    is_numeric: bool = True


def read_stream_row(x: Any, argument: str = "x") -> Sample:
    """Read one river sample of numbers, arrays, texts and gaps (`onlinels.checks.is_missing`).

    `argument` is the name of the sample in messages.

    Examples
    --------
    >>> read_stream_row({"size": 3, "colour": "red", "age": None})
    (('size',), array([3.]), [('colour', 'red')], ['age'])
    """
    check_mapping(x, argument)
    numbers, texts, gaps = {}, [], []
    for name, given in x.items():
        value = plain_content(given)
        if isinstance(value, str):
            texts.append((plain_value(name), value))
        elif value is None:
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
            # The form of an array counts where rows are learnt (`StreamColumns.in_form`).
            layout = tuple(batch.layouts[0])
            return [(layout, row, [], []) for row in batch.values.astype(np.float64)]
    except (TypeError, ValueError):
        pass  # Texts or gaps, or an error that reading row by row explains.
    return [read_stream_row(x, f"X[{row}]") for row, x in enumerate(samples_of(X))]


def plain_content(value: Any) -> Any:
    """Return a text as a plain str, None for a gap, and any other value of a sample as it is."""
    value = unwrapped(value)
    if isinstance(value, str):
        # Not `str`, which returns another text for some subclasses, such as enumerations.
        return str.__str__(value)
    return None if is_missing(value) else value


NUMBER_TEXT = re.compile(r"\s*[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?\s*", re.IGNORECASE)
"""A number as text; the decimal separator may be a comma."""

WHOLE_NUMBER_TEXT = re.compile(r"\s*[+-]?\d+\s*")
"""A number as text that may be the code of a category as well."""

IDENTIFIER_TEXT = re.compile(r"\s*0\d+\s*")
"""A text that would lose its zeros as a number, such as "007"."""


def are_numbers(texts: Iterable[str], whole: bool) -> bool:
    """Return whether the texts of a feature are numbers, but for marks of missing values.

    At least three texts, and more than three quarters of all, must be numbers, and none an
    identifier with leading zeros. Of two texts, a number says no more than a category. `whole`
    tells whether whole numbers alone count, which may be codes.

    Examples
    --------
    >>> are_numbers(["1.5", "n/a", "2", "3", "4"], whole=False), are_numbers(["7", "007"], True)
    (True, False)
    """
    texts = list(texts)
    numbers = [*filter(NUMBER_TEXT.fullmatch, texts)]
    if len(numbers) < 3 or 4 * len(numbers) <= 3 * len(texts):
        return False
    is_whole = all(map(WHOLE_NUMBER_TEXT.fullmatch, numbers))
    return (whole or not is_whole) and not any(map(IDENTIFIER_TEXT.fullmatch, numbers))


def _texts_fit(columns: Any) -> bool:
    pairs = [(name, each) for name, texts in columns._texts.items() for each in texts.items()]
    located = [columns._columns.columns_of((name, text)).tolist() for name, (text, _) in pairs]
    return located == [[column] for _, (_, column) in pairs]


@savable(_texts_fit)
class StreamColumns:
    """The columns of a stream of samples: numbers, entries of arrays, and texts.

    A text is a column of its own, named (name, text): 1 in samples with this text, else 0. The
    first 64 texts of a name have a column, later texts have none. An absent feature is 0, as in
    river's linear models; a gap is NaN. From the first number of a name on, its texts are gaps:
    they are marks of missing values, such as "n/a", or numbers that nobody converted.

    Examples
    --------
    >>> columns, _ = StreamColumns().extended_and_read({"a": 2.0, "b": "x", "c": 1.0})
    >>> columns.names, columns.row({"a": None, "b": "y"}).values
    (('a', 'c', ('b', 'x')), array([nan,  0.,  0.]))
    """

    def __init__(self) -> None:
        self._columns = Columns()
        self._texts: dict[Name, dict[str, int]] = {}
        # The places of names, and of how many names of numbers they were made.
        self._places: tuple[int, dict[Name, Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in vars(self).items() if name != "_places"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore(self, state | {"_places": None})

    @property
    def names(self) -> tuple[Name, ...]:
        """Names of the columns."""
        return self._columns.names

    @property
    def places(self) -> dict[Name, Any]:
        """The place of every name that dicts had, for `onlinels.core.StreamRows`.

        A place is the column of the name's numbers, or -1, the columns of its texts, or None, and
        all its columns.
        """
        of_numbers = self._columns.places
        if self._places is None or self._places[0] != len(of_numbers):
            known = {name: each for name, each in of_numbers.items() if type(each) is int}
            for name in self._texts:
                if type(name) in PLAIN_NAME_TYPES and not self._columns.has(name):
                    known[name] = -1
            made = {
                name: (column, self._texts.get(name), tuple(self.columns_of(name)))
                for name, column in known.items()
            }
            self._places = len(of_numbers), made
        return self._places[1]

    def row(self, x: Any) -> StreamRow:
        """Return a sample as a row (n_columns,); features without a column are ignored."""
        known = self._columns.row(x)
        return self._placed(read_stream_row(x)) if known is None else StreamRow(known)

    def _placed(self, sample: Sample) -> StreamRow:
        """Return the content of a sample as a row; features without a column are ignored."""
        layout, numbers, texts, gaps = sample
        (row,) = self._columns.place((layout,), numbers[None])
        self._columns.note(layout)
        if not texts and not gaps:
            return StreamRow(row)
        among_numbers = [name for name, _ in texts if self._columns.has(name)]
        for name, text in texts:
            column = self._texts.get(name, {}).get(text)
            if column is not None:
                row[column] = 1.0
        gaps = [*gaps, *among_numbers]
        for name in gaps:
            row[self.columns_of(name)] = np.nan
        # Sorted, so that the order of a dict's keys does not matter.
        return StreamRow(row, sorted(gaps, key=repr), sorted(among_numbers, key=repr), False)

    def columns_of(self, name: Name) -> list[int]:
        """Return the columns of a name: of its number, its array and its texts."""
        return [*self._columns.columns_of(name).tolist(), *self._texts.get(name, {}).values()]

    def differences(self, X: Any) -> tuple[int, list[Name], list[Name]]:
        """Return the number of names, the names that a frame or array lacks, and its other names.

        Dicts lack no names, and neither do frames with pandas' Sparse columns
        (`onlinels.rows.batch.Columns.differences`).
        """
        if isinstance(X, ARRAY_TYPES):
            given: Iterable[Any] = names_of(layout_of(X))
        elif isinstance(X, (list, tuple)) or holds_sparse(as_frame(X)):
            return 0, [], []
        else:
            given = as_frame(X).columns
        texts = {(name, text) for name, columns in self._texts.items() for text in columns}
        named = (*(name for name in self.names if name not in texts), *self._texts)
        known = {self._columns.key_of(name): name for name in named}
        keys = {self._columns.key_of(name): name for name in given}
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
        columns, texts = self._columns, self._texts
        known: Layout | None = None
        for layout, _, named, _ in samples:
            if layout == known and not named:
                continue
            known = layout
            new = [(name, text) for name, text in named if text not in texts.get(name, {})]
            new = [each for each in new if len(texts.get(each[0], {})) < MAX_CATEGORIES]
            new = [each for each in new if not columns.has(each[0])]
            # Together and sorted, so that the order of a dict's keys does not matter.
            columns = columns.extended([(*layout, *new)])
            for name, text in sorted(new, key=repr):
                (column,) = columns.columns_of((name, text))
                texts = texts | {name: texts.get(name, {}) | {text: int(column)}}
        if columns is self._columns:
            return self
        if len(columns) > MAX_FEATURES:
            fault = f"x raises the number of features to {len(columns)}"
            remedy = "Hash them with river's FeatureHasher(n_features=1024)."
            raise ValueError(f"{fault}, expected at most {MAX_FEATURES}. {remedy}")
        return self._with(columns, texts)

    def _with(self, columns: Columns, texts: dict[Name, dict[str, int]]) -> StreamColumns:
        made = StreamColumns()
        made._columns, made._texts = columns, texts
        return made

    def in_form(self, form: Layout) -> StreamColumns:
        """Return these columns as those of a plain array if a form is that of one.

        Raises ValueError if they have other names (`onlinels.rows.batch.Columns.in_form`).
        """
        columns = self._columns.in_form(form)
        return self if columns is self._columns else self._with(columns, self._texts)

    def numbers_as_text(self, whole: bool) -> list[Name]:
        """Return the names of which all values are texts, and these are numbers (`are_numbers`)."""
        names = [name for name, texts in self._texts.items() if are_numbers(texts, whole)]
        return [name for name in names if not self._columns.has(name)]


MAX_GAP_NAMES = 4096
"""Maximum number of names whose gaps are counted: the first ones."""


def _scale_fits(scaler: Any) -> bool:
    array, n_rows, known = scaler.arrays
    fits = is_array(array, 4, len(scaler.means)) and is_array(known, len(known), 2)
    return fits and bool(((known[:, 0] >= 0.0) & (known[:, 0] <= n_rows)).all())


@savable(_scale_fits)
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

    Learning a row returns a new scaler, by Welford's recursion (B. P. Welford, "Note on a method
    for calculating corrected sums of squares and products", Technometrics 4, 1962) with decaying
    weights. `onlinels.core.StreamRows` learns rows into the arrays of a scaler.

    Examples
    --------
    >>> scaler = RunningScaler().grown(1).learnt(np.array([10.0])).learnt(np.array([30.0]))
    >>> scaler.transform(np.array([40.0])).round(2), scaler.transform(np.array([np.nan]))
    (array([2.]), array([0.]))
    """

    def __init__(self) -> None:
        # Weights, means and variances of features, and numbers of latest outliers: see
        # `onlinels.core.reference.scale`.
        self._state = np.zeros((4, 0))
        # Number of rows learnt.
        self._n_rows = np.zeros(1)
        # For names with gaps, in the order of the first ones: the number of rows up to the last
        # gap, and the weight then of rows without a gap.
        self.gap_rows: dict[Name, int] = {}
        self._known = np.zeros((0, 2))

    def __getstate__(self) -> dict[str, Any]:
        known = dict(zip(self.gap_rows, self._known.tolist(), strict=True))
        return {"n_rows": self.n_rows, "_state": self._state, "_known": known}

    def __setstate__(self, state: dict[str, Any]) -> None:
        n_rows, known = state["n_rows"], state["_known"]
        if not is_count(n_rows):
            raise ValueError("the number of rows of a scale is not a count")
        gap_rows = {name: row for row, name in enumerate(known)}
        parts = {"_state": state["_state"], "_n_rows": np.array([float(n_rows)])}
        gaps = np.array([*known.values()], dtype=np.float64).reshape(len(known), 2)
        restore(self, parts | {"gap_rows": gap_rows, "_known": gaps})

    def grown(
        self, n_features: int, columns_of: Callable[[Name], Sequence[int]] = lambda _: ()
    ) -> Self:
        """Return a scaler with room for features that were 0 in every earlier row without a gap.

        `columns_of` returns the columns of a name; without it, there were no gaps.
        """
        new, n_known = shallow_copy(self), len(self.means)
        new._state = np.array(enlarged(self._state, 4, n_features), order="C")
        new._state[0, n_known:] = weight_of(self.n_rows)
        for name, row in self.gap_rows.items():
            late = [column for column in columns_of(name) if column >= n_known]
            new._state[0, late] = weight_of(self.n_rows, *self._known[row].tolist())
        return new

    def with_gaps(self, names: Iterable[Name]) -> Self:
        """Return a scaler that counts the gaps of further names; this one if it does so already."""
        late = [name for name in names if name not in self.gap_rows]
        late = late[: MAX_GAP_NAMES - len(self.gap_rows)]
        if not late:
            return self
        new = shallow_copy(self)
        new.gap_rows = {name: row for row, name in enumerate((*self.gap_rows, *late))}
        new._known = np.concatenate((self._known, np.zeros((len(late), 2))))
        return new

    def places_of(self, gaps: Iterable[Name]) -> tuple[int, ...]:
        """Return the places of what is known of the gaps of names, if they are counted."""
        return tuple(self.gap_rows[name] for name in gaps if name in self.gap_rows)

    @property
    def n_rows(self) -> int:
        """Number of rows learnt."""
        return int(self._n_rows[0])

    @property
    def means(self) -> Floats:
        """The mean of every feature."""
        means: Floats = self._state[1]
        return means

    @property
    def variances(self) -> Floats:
        """The variance of every feature."""
        variances: Floats = self._state[2]
        return variances

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """The scale, the number of its rows, and what is known of gaps."""
        return self._state, self._n_rows, self._known

    def __deepcopy__(self, memo: Any = None) -> Self:
        new = shallow_copy(self)
        new._state, new._n_rows, new._known = (each.copy() for each in self.arrays)
        return new

    def transform(self, row: Floats) -> Floats:
        """Return a row (n_features,), NaN if unknown, in standard deviations from the mean."""
        scaled = np.empty(len(row))
        scale(self._state, row, scaled)
        return scaled

    def learnt(self, row: Floats, unknown: Sequence[Name] = ()) -> Self:
        """Return a scaler that has learnt another row, with the names of its gaps."""
        new = copy.deepcopy(self.with_gaps(unknown))
        new._n_rows += 1.0
        scale_after(self._state, row, new._state, float(new.n_rows))
        new._known = gaps_after(new._known, new.places_of(unknown), float(new.n_rows))
        return new


def weight_of(n_rows: float, n_known: float = 0.0, weight: float = 0.0) -> float:
    """Return the weight of the rows without a gap, given that of the first `n_known` rows."""
    left: float = SCALE_DECAY ** (n_rows - n_known)
    return weight * left + (1.0 - left) / (1.0 - SCALE_DECAY)


def gaps_after(known: Floats, gaps: Sequence[int], n_rows: float) -> Floats:
    """Return what is known of gaps after the row of this number, which has gaps at some places."""
    after = known.copy()
    for place in gaps:
        after[place] = n_rows, SCALE_DECAY * weight_of(n_rows - 1.0, *known[place].tolist())
    return after


N_PARTITIONS = 40
"""Number of partitions of the feature space, alternately by two and by three features."""

BINS = np.tile([[8.0, 4.0], [8.0, 4.0], [1.0, 4.0]], N_PARTITIONS // 2)
"""Number of bins of every feature of a partition, (3, 40)."""

CELL_DECAYS = np.append(np.tile([0.8, 0.8, 0.98, 0.98], N_PARTITIONS // 4), 0.99)
"""Factor on the rows of a cell with each further row there: the last 5, or 50, rows count.

With 0.9 in all cells, accuracy on elec2 was 0.3 points lower, on STAGGER and Sine 0.1. The last
factor is that of the cells of last labels.
"""

MAX_REMEMBERED_LABELS = 32
"""Number of classes, the first ones, whose shares and last labels are stored separately."""


def _cells_fit(cells: Any) -> bool:
    n_labels, n_features, seen = cells.n_labels, cells.n_features, cells._seen
    size = CELLS_OF_PARTITION * N_PARTITIONS + 1 + n_labels
    fits = is_array(cells.sums, size, 1 + n_labels) and is_array(cells.weights, N_PARTITIONS)
    fits = fits and is_array(cells._ranks, n_features, N_PARTITIONS)
    fits = fits and is_array(seen, *BINS.shape, dtype=np.int64)
    fits = fits and is_array(cells._shifts, *BINS.shape) and n_labels <= MAX_REMEMBERED_LABELS
    return fits and bool(seen.min() >= -1 and seen.max() < n_features)


@savable(_cells_fit)
class Cells:
    """The shares of the classes among the latest rows in every cell of a stream.

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

    Each last label also has a cell, which is not part of the mixture. `onlinels.core` learns rows.

    Attributes
    ----------
    sums : ndarray (n_cells, 1 + n_labels)
        The weight of the rows in every cell, in all and of each class.
    weights : ndarray (40,)
        exp(-L) of every partition, normalised to sum 1.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        random = generator_of(seed, "cells")
        self._shifts = BINS / 2.0 + random.random(BINS.shape) - 0.5
        # The ranks of features in every partition, and the features that it uses.
        self._ranks = np.zeros((0, N_PARTITIONS))
        self._seen: Integers = np.full(BINS.shape, -1, dtype=np.int64)
        self.sums = np.zeros((CELLS_OF_PARTITION * N_PARTITIONS + 1, 1))
        self.weights = np.full(N_PARTITIONS, 1.0 / N_PARTITIONS)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self._ranks)

    @property
    def n_labels(self) -> int:
        """Number of classes whose shares are stored."""
        return self.sums.shape[1] - 1

    @property
    def arrays(self) -> tuple[Floats | Integers, ...]:
        """The arrays that `onlinels.core.Experts` needs, in its order."""
        return self._seen, BINS, self._shifts, CELL_DECAYS, self.sums, self.weights

    def grown(self, names: Sequence[Name], n_classes: int) -> Self:
        """Return cells with room for new features and classes."""
        new, n_labels = shallow_copy(self), min(n_classes, MAX_REMEMBERED_LABELS)
        # With a cell for each last label.
        size = CELLS_OF_PARTITION * N_PARTITIONS + 1 + n_labels
        new.sums = np.array(enlarged(self.sums, size, 1 + n_labels), order="C")
        new.weights = self.weights.copy()
        random = generators_of(self._seed, "cell", names[len(self._ranks) :])
        if random:
            ranks = [each.random(N_PARTITIONS) for each in random]
            new._ranks = np.concatenate((self._ranks, ranks))
            # If there are fewer features, some are cut twice, at different shifts.
            order = new._ranks.argsort(axis=0, kind="stable")
            new._seen = np.resize(order[: len(BINS)], BINS.shape)
            is_reset = ((new._seen != self._seen) & (BINS > 1.0)).any(axis=0)
            of_partitions = new.sums[: CELLS_OF_PARTITION * N_PARTITIONS]
            of_partitions.reshape(N_PARTITIONS, CELLS_OF_PARTITION, -1)[is_reset] = 0.0
        return new


N_DENSE, N_SPARSE = 80, 80
"""Numbers of units with all features as input, and of units with one or two.

Beside the cells, 120 sparse units are no better: 90.1% instead of 90.2% over seventeen streams.
"""

N_UNITS = N_DENSE + N_SPARSE

DENSE_UNIT_DEVIATION = 1.5
"""Standard deviation of a dense unit's weighted sum of standardised features."""

MAX_SPARSE_INPUTS = 2
"""Maximum number of features of a sparse unit; the unit is as steep in them as a rule."""


def _activations_fit(made: Any) -> bool:
    n_features, n_labels = made.n_features, made.n_labels
    (features, labels, mixture), narrow = made.places, made.narrow
    fits = is_array(made._biases, N_UNITS) and is_array(made._weights, n_features, N_UNITS)
    fits = fits and is_array(made._drawn, n_features, N_UNITS + N_SPARSE)
    fits = fits and is_array(made._n_seen, N_SPARSE, dtype=np.int64) and len(mixture) == n_labels
    columns = *made.places, narrow
    fits = fits and all(is_array(each, len(each), dtype=np.int64) for each in columns)
    # Every activation is that of one unit, feature or label.
    known = [N_UNITS, *features.tolist(), *labels.tolist()]
    of_all = sorted((*known, *mixture.tolist())) == [*range(N_UNITS, made.n_wide)]
    return fits and of_all and narrow.tolist() == sorted(known)


@savable(_activations_fit)
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
    >>> activations = Activations(seed=0).grown(["a"], n_classes=0)
    >>> activations.n_wide, activations.narrow
    (162, array([160, 161]))
    """

    def __init__(self, seed: int) -> None:
        random = generator_of(seed, "units")
        self._seed = seed
        self._n_seen = random.integers(1, MAX_SPARSE_INPUTS + 1, N_SPARSE)
        self._biases = random.standard_normal(N_UNITS)
        # Weights of dense units, drawn weights of sparse units, and their ranks of features.
        self._drawn = np.zeros((0, N_UNITS + N_SPARSE))
        self._weights = np.zeros((0, N_UNITS))
        # Columns of the features, of the last labels and of the mixture of the cells.
        self._features: Integers = np.zeros(0, dtype=np.int64)
        self._labels = self._mixture = self._features
        self._narrow: Integers = np.array([N_UNITS], dtype=np.int64)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self._features)

    @property
    def n_labels(self) -> int:
        """Number of last labels."""
        return len(self._labels)

    @property
    def n_wide(self) -> int:
        """Number of activations."""
        return N_UNITS + 1 + len(self._features) + len(self._labels) + len(self._mixture)

    @property
    def narrow(self) -> Integers:
        """The columns of the narrow view: of the constant, features and last labels."""
        return self._narrow

    @property
    def arrays(self) -> tuple[Floats | Integers, ...]:
        """The input weights and biases of units, for `onlinels.core.Experts`."""
        return self._weights, self._biases

    @property
    def places(self) -> tuple[Integers, ...]:
        """The columns of features, of last labels and of the mixture."""
        return self._features, self._labels, self._mixture

    def grown(self, names: Sequence[Name], n_classes: int) -> Self:
        """Return activations with room for new features and classes.

        `names` are all features, the latest last. Raises ValueError if five inverses and sets of
        weights of this size exceed the memory.
        """
        new, free = shallow_copy(self), count(self.n_wide)
        n_features, n_labels = len(names), min(n_classes, MAX_REMEMBERED_LABELS)
        pairs = (self._features, n_features), (self._labels, n_labels), (self._mixture, n_labels)
        filled = [[*old, *islice(free, size - len(old))] for old, size in pairs]
        new._features, new._labels, new._mixture = (np.array(each, np.int64) for each in filled)
        new._narrow = np.sort(np.array([N_UNITS, *filled[0], *filled[1]], dtype=np.int64))
        what = "A stream of {:,} classes with {:,} features and labels"
        n_numbers = new.n_wide * (new.n_wide + n_classes)
        check_room(40 * n_numbers, what, n_classes, len(new.narrow))
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
        sparse = DENSE_UNIT_DEVIATION**2 * sparse * share
        self._weights = np.ascontiguousarray(np.concatenate((dense, sparse), axis=1))


def generators_of(seed: int, what: str, names: Sequence[Name]) -> list[np.random.Generator]:
    """Return the random generator of every name."""
    return [generator_of(seed, f"{what} {name_text(name)}") for name in names]
