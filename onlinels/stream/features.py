"""What the experts of a stream see of a row: it is scaled, spread over random units, laid out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, count, islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Floats, Integers, check_room
from onlinels.features.input_weights import generator_of
from onlinels.numerics import enlarged, shallow_copy
from onlinels.rows import Name, feature_key, key_text
from onlinels.saving import LABEL, MATRIX, PLACES, SHARE, VECTOR, WHOLE, listed, savable, table
from onlinels.stream.cells import MOST_LABELS

FARTHEST = 6.0
"""Standard deviations beyond which a value is taken as this far: an outlier is one row."""

LEAST_DEVIATION = 1e-155
"""Standard deviation below which values count as equal: others over it would overflow."""

RESOLUTION = 1e-9
"""Standard deviation, relative to the mean, below which differences are rounding errors."""

FADING = 0.9995
"""What is left of a row's weight after each further row: some 2,000 rows tell the scale.

From 0.999 to 1 the mean accuracy on sixteen streams stayed within 0.1 points.
"""

FEWEST = 4.0
"""Rows, by weight, on which a scale must rest: of fewer it is not believed."""

ANEW = 5
"""Values in a row that are too far off, after which a feature begins anew."""

SHORTEST = 4
"""Rows from which it costs less to learn them together."""

TINY = 1e-300
"""In place of the weight 0 of features that were never known."""

MOST_GAPS = 4096
"""Names of which gaps are remembered, those that came first."""


@savable(
    {
        "_n_rows": WHOLE,
        "counts": VECTOR,
        "_n_far": PLACES,
        "means": VECTOR,
        "variances": VECTOR,
        "_known": table(LABEL, listed(SHARE)),
    },
    lambda made: (
        len({len(a) for a in (made.counts, made._n_far, made.means, made.variances)}) == 1
        and all(len(each) == 2 and each[0] <= made._n_rows for each in made._known.values())
    ),
)
class RunningScaler:
    """Standardise rows by the mean and variance of the rows learnt before them.

    What is unknown (NaN) is 0, the mean, and so is all of the first row. A feature that comes late
    was 0 before, but in rows in which its name had a gap: these weigh nothing. While all values of
    a feature were equal, another one is -1 or 1. So the units of a feature do not matter, and of
    one that was there from the first row the origin neither.

    The scale follows the stream: the weight of rows fades, and from the fifth row on a value more
    than 6 standard deviations off is learnt as being 6 off. So one outlier changes little; after
    five in a row, as when a sensor is replaced, the feature begins anew. A scale that falls, or was
    spoilt by an outlier among the first rows, is followed more slowly: by a factor of 10 in some
    thousands of rows. It cannot be told from a signal that moves slowly.

    A scaler never changes: what has learnt a row is a new one, by Welford's recursion (B. P.
    Welford, "Note on a method for calculating corrected sums of squares and products",
    Technometrics 4, 1962) with weights that fade.

    Examples
    --------
    >>> scaler = RunningScaler().grown(1).learnt(np.array([10.0])).learnt(np.array([30.0]))
    >>> scaler.transform(np.array([40.0])).round(2), scaler.transform(np.array([np.nan]))
    (array([2.]), array([0.]))
    """

    def __init__(self) -> None:
        self._n_rows = 0
        self.counts = self.means = self.variances = np.zeros(0)
        self._n_far: Integers = np.zeros(0, dtype=np.intp)
        # Of names that had gaps: rows until the last of them, and the weight then of rows without.
        self._known: dict[Name, list[float]] = {}

    @property
    def n_rows(self) -> int:
        """Number of rows learnt."""
        return self._n_rows

    def grown(
        self, n_features: int, columns_of: Callable[[Name], Sequence[int]] = lambda _: ()
    ) -> Self:
        """Return a scaler with room for features that were 0 in every row without a gap so far.

        `columns_of` tells the columns of a name; without it there were no gaps.
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
        """Return the weight of the rows so far in which a name had no gap."""
        n_rows, weight = known
        left: float = FADING ** (self._n_rows - n_rows)
        return weight * left + (1.0 - left) / (1.0 - FADING)

    def transform(self, rows: Floats) -> Floats:
        """Return rows (..., n_features), NaN if unknown, in standard deviations from the mean."""
        gaps = rows - self.means
        deviations = np.sqrt(self.variances)
        # Measured, here and below: a fifth of the time of numpy's all and any.
        if deviations.size and not deviations.item(deviations.argmin()) > LEAST_DEVIATION:
            signs = np.where(gaps, abs(gaps), 1.0)
            deviations = np.where(deviations > LEAST_DEVIATION, deviations, signs)
            gaps[np.broadcast_to(self.counts == 0.0, gaps.shape)] = 0.0
        gaps /= deviations
        # Measured: half the time of numpy's clip.
        np.minimum(gaps, FARTHEST, out=gaps)
        np.maximum(gaps, -FARTHEST, out=gaps)
        # Of the sum of squares, as it is NaN where one of them is.
        flat = gaps.ravel()
        if not flat.dot(flat) >= 0.0:
            gaps[gaps != gaps] = 0.0
        return gaps

    def along(self, rows: Floats, gaps: Sequence[Sequence[Name]]) -> tuple[Self, Self]:
        """Return the scaler after rows (n, n_features), and the one before each of them, stacked.

        The second one has a row of counts, means and variances for every row, and transforms row by
        row. Rows come with the names of their gaps.
        """
        states = [np.empty(rows.shape) for _ in range(3)]
        scaler, start, size = self, 0, len(rows)
        while start < len(rows):
            # The variances are looked at after every 1,024 rows.
            stop = min(len(rows), start + size, start + 1023 - scaler._n_rows % 1024)
            if stop - start >= SHORTEST:
                part = slice(start, stop)
                later, before = scaler._learnt_together(rows[part], gaps[part])
            else:
                later, before = scaler._learnt_alone(rows[start], gaps[start])
            n_learnt = len(before[0])
            for state, each in zip(states, before, strict=True):
                state[start : start + n_learnt] = each
            # Where one row is far off, others often are.
            size = 2 * size if start + n_learnt == stop else SHORTEST
            scaler, start = later, start + n_learnt
        stacked = shallow_copy(self)
        for name, state in zip(("counts", "means", "variances"), states, strict=True):
            setattr(stacked, name, state)
        return scaler, stacked

    def _learnt_together(
        self, rows: Floats, gaps: Sequence[Sequence[Name]]
    ) -> tuple[Self, tuple[Floats, ...]]:
        """Return a scaler that has learnt rows, and counts, means and variances before each.

        They are the rows up to the first one with a value far off, and at least that one. With the
        counts n_0, means m_0 and variances v_0 before them, k_i = 1 where row i is known, else 0,
        and f_i = k_i / F^i for weights that fade by F, N_i = n_0 + f_1 + ... + f_i; then n_i =
        F^i N_i, m_i = m_0 + sum_j f_j (x_j - m_0) / N_i and v_i = v_0 + sum_j f_j ((1 - f_j / N_j)
        (x_j - m_(j-1))^2 - v_0) / N_i: Welford's recursion, summed up.
        """
        known, n_rows = ~np.isnan(rows), len(rows)
        faded = FADING ** np.arange(n_rows + 1.0)[:, None]
        new_weights = known / faded[1:]

        def summed(first: Any, terms: Floats) -> Floats:
            sums = np.empty((n_rows + 1, rows.shape[1]))
            sums[0], sums[1:] = first, terms
            return np.add.accumulate(sums, axis=0, out=sums)

        weights = summed(self.counts, new_weights)
        least = np.maximum(weights, TINY)
        from_first = np.where(known, rows - self.means, 0.0)
        means = self.means + summed(0.0, new_weights * from_first) / least
        squares = np.where(known, rows - means[:-1], 0.0) ** 2
        terms = new_weights * ((1.0 - new_weights / least[1:]) * squares - self.variances)
        variances = self.variances + summed(0.0, terms) / least
        counts = faded * weights
        deviations = np.sqrt(variances[:-1])
        far = (squares > FARTHEST**2 * variances[:-1]) & (deviations > LEAST_DEVIATION)
        of_rows = (far & (counts[:-1] >= FEWEST)).any(axis=1)
        n_learnt = int(of_rows.argmax()) if of_rows.any() else n_rows
        if not n_learnt:
            return self._learnt_alone(rows[0], gaps[0])
        new = shallow_copy(self)
        for unknown in gaps[:n_learnt]:
            new._known = new._noted(unknown)
            new._n_rows += 1
        new._n_far = np.zeros_like(self._n_far)
        states = counts, means, variances
        new.counts, new.means, new.variances = (each[n_learnt] for each in states)
        return new, tuple(each[:n_learnt] for each in states)

    def _learnt_alone(self, row: Floats, gaps: Sequence[Name]) -> tuple[Self, tuple[Floats, ...]]:
        """Return the scaler after a row, and its state before."""
        return self.learnt(row, gaps), (self.counts[None], self.means[None], self.variances[None])

    def _noted(self, unknown: Sequence[Name]) -> dict[Name, list[float]]:
        """Return what is known of names with gaps after another row, whose gaps are given."""
        if not unknown:
            return self._known
        noted = self._known.copy()
        for name in unknown:
            if name in noted or len(noted) < MOST_GAPS:
                weight = FADING * self._weight(self._known.get(name, (0.0, 0.0)))
                noted[name] = [float(self._n_rows + 1), weight]
        return noted

    def learnt(self, row: Floats, unknown: Sequence[Name] = ()) -> Self:
        """Return a scaler that has taken a row into account, too, and the names of its gaps."""
        new = shallow_copy(self)
        new._n_rows += 1
        if unknown:
            new._known = self._noted(unknown)
        if new._n_rows % 1024 == 0:
            # A mean never quite comes to rest at a value that does not change any more.
            least = (RESOLUTION * self.means) ** 2
            new.variances = np.where(self.variances > 0.0, np.maximum(self.variances, least), 0.0)
        known: Any = 1.0
        if not row.dot(row) >= 0.0:
            # NaN: a value at the mean, without weight.
            known = row == row
            row = np.where(known, row, self.means)
        gaps = row - self.means
        squares = gaps * gaps
        far = squares > FARTHEST**2 * new.variances
        if len(row) and (far[far.argmax()] or self._n_far[self._n_far.argmax()]):
            new._meet_outliers(far, row, gaps)
            squares = gaps * gaps
        new.counts = FADING * new.counts + known
        shares = known / np.maximum(new.counts, 1.0)
        new.means = new.means + shares * gaps
        squares -= shares * squares
        new.variances = new.variances + shares * (squares - new.variances)
        return new

    def _meet_outliers(self, far: NDArray[np.bool_], row: Floats, gaps: Floats) -> None:
        """Let values far off count as less far, and features begin anew after too many of them."""
        deviations = np.sqrt(self.variances)
        far &= (deviations > LEAST_DEVIATION) & (self.counts >= FEWEST)
        limit = FARTHEST * deviations[far]
        gaps[far] = np.minimum(np.maximum(gaps[far], -limit), limit)
        self._n_far = np.where(far, self._n_far + 1, 0)
        anew = self._n_far == ANEW
        self.counts = np.where(anew, 0.0, self.counts)
        self.variances = np.where(anew, 0.0, self.variances)
        self.means = np.where(anew, row, self.means)
        gaps[anew], self._n_far[anew] = 0.0, 0


N_DENSE, N_SPARSE = 80, 80
"""Units that see all features, and units that see one or two.

Beside the cells 120 sparse units gain nothing: 90.1% instead of 90.2% over seventeen streams.
"""

N_UNITS = N_DENSE + N_SPARSE

STEEPNESS = 1.5
"""Standard deviation of a dense unit's weighted sum of standardised features."""

MOST_SEEN = 2
"""Features that a sparse unit sees at most; it is as steep in them as a rule."""


def _activations_fit(made: Any) -> bool:
    n, kinds = len(made._features), (made._labels, made._mixture.tolist(), *made._texts)
    places = sorted([*made._features.tolist(), *chain(*kinds)])
    narrow = {N_UNITS, *places} - {*made._mixture}
    shapes = made._drawn.shape, made._weights.shape, made._biases.shape, made._n_seen.shape
    fits = len({len(kind) for kind in kinds}) == 1 and made._narrow.tolist() == sorted(narrow)
    fits = fits and shapes == ((n, N_UNITS + N_SPARSE), (n, N_UNITS), (N_UNITS,), (N_SPARSE,))
    return fits and places == [*range(N_UNITS + 1, N_UNITS + 1 + len(places))]


@savable(
    {
        "_seed": WHOLE,
        "_n_seen": PLACES,
        "_biases": VECTOR,
        "_drawn": MATRIX,
        "_weights": MATRIX,
        "_features": PLACES,
        "_labels": listed(WHOLE),
        "_mixture": PLACES,
        "_texts": listed(listed(WHOLE)),
        "_narrow": PLACES,
    },
    _activations_fit,
)
class Activations:
    """Lay rows out as [units, 1, and features, last labels and shares in the order they came in].

    Places never change: what is new is appended, so what was learnt stays where it is.

    Units are tanh(z'V + b) with weights drawn by name, so that the order of features is no matter.
    The first are dense: V_jk ~ N(0, 1.5^2 / d), where d features are known when feature j comes.
    The others are sparse: unit k sees the one or two (s_k) features of lowest rank in an order of
    its own, with V_jk ~ N(0, 2.25^2 / s_k): rules about few features, which dense units do not
    resolve. Biases are N(0, 1). A feature that comes late may take the place of another one in a
    sparse unit.

    Examples
    --------
    >>> activations = Activations(seed=0).grown(["a"], n_classes=2)
    >>> wide = activations.of(np.array([0.5]))
    >>> activations.add_labels(wide, last_label=1, mixture=np.array([0.2, -0.2]))
    >>> wide[N_UNITS:]
    array([ 1. ,  0.5,  0. ,  1. ,  0.2, -0.2])
    """

    def __init__(self, seed: int) -> None:
        random = generator_of(seed, "units")
        self._seed = seed
        self._n_seen = random.integers(1, MOST_SEEN + 1, N_SPARSE)
        self._biases = random.standard_normal(N_UNITS)
        # Weights of dense units; those of sparse ones as drawn; the order in which these see.
        self._drawn = np.zeros((0, N_UNITS + N_SPARSE))
        self._weights = np.zeros((0, N_UNITS))
        self._features: Integers = np.zeros(0, dtype=np.intp)
        self._labels: list[int] = []
        # Of the shares of classes: of the mixture, and of the texts of every crowded name.
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
        """Return activations with room for what is new: `names` are all features, the latest last.

        `n_crowded` names have texts without a column.

        Raises ValueError if four inverses and sets of weights of this size cannot fit into memory.
        """
        new = shallow_copy(self)
        n_features, n_labels = len(names), min(n_classes, MOST_LABELS)
        free = count(self.n_wide)
        fresh = list(islice(free, n_features - len(self._features)))
        new._features = np.append(self._features, np.array(fresh, dtype=np.intp))
        kinds = self._labels, self._mixture.tolist(), *self._texts
        kinds += ([],) * (n_crowded - len(self._texts))
        filled = [[*places, *islice(free, n_labels - len(places))] for places in kinds]
        new._labels, mixture, *new._texts = filled
        new._mixture = np.array(mixture, dtype=np.intp)
        seen = [N_UNITS, *new._features.tolist(), *new._labels, *chain(*new._texts)]
        new._narrow = np.sort(np.array(seen, dtype=np.intp))
        n_narrow = len(seen)
        sizes = [size * (size + n_classes) for size in (new.n_wide, n_narrow)]
        what = "A stream of {:,} classes with {:,} features and labels"
        check_room(32 * sum(sizes), what, n_classes, n_narrow)
        if n_features > len(self._features):
            new._draw(names)
        return new

    def _draw(self, names: Sequence[Name]) -> None:
        drawn = np.empty((len(names) - len(self._drawn), N_UNITS + N_SPARSE))
        for row, name in zip(drawn, names[len(self._drawn) :], strict=True):
            random = generator_of(self._seed, "unit " + key_text(feature_key(name)))
            row[:N_UNITS], row[N_UNITS:] = random.standard_normal(N_UNITS), random.random(N_SPARSE)
        drawn[:, :N_DENSE] = STEEPNESS * drawn[:, :N_DENSE] / np.sqrt(len(names))
        self._drawn = np.concatenate((self._drawn, drawn))
        dense, sparse, ranks = np.split(self._drawn, [N_DENSE, N_UNITS], axis=1)
        # 1 / sqrt(s_k) where unit k sees feature j, else 0.
        n_seen = np.minimum(self._n_seen, len(names))
        order = ranks.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
        share = (order < n_seen) / np.sqrt(n_seen)
        self._weights = np.concatenate((dense, STEEPNESS**2 * sparse * share), axis=1)

    def of(self, features: Floats) -> Floats:
        """Return the activations (..., n_wide) of standardised features (..., n_features)."""
        wide = np.zeros((*features.shape[:-1], self.n_wide))
        units = wide[..., :N_UNITS]
        row_products(features, self._weights, units)
        units += self._biases
        np.tanh(units, out=units)
        # Transposed: measured, of one row a fifth of the time of places after an ellipsis.
        of_activations = wide.T
        of_activations[N_UNITS] = 1.0
        of_activations[self._features] = features.T
        return wide

    def add_labels(self, wide: Floats, last_label: int | None, mixture: Floats) -> None:
        """Write the last label and shares of classes (..., n_labels) into activations."""
        of_activations = wide.T
        if last_label is not None and last_label < len(self._labels):
            of_activations[self._labels[last_label]] = 1.0
        of_activations[self._mixture] = mixture.T

    def add_labels_along(self, wide: Floats, last_labels: Integers, mixtures: Floats) -> None:
        """Write what `add_labels` does for rows with labels of their own, -1 where there is none.

        `mixtures` are (n, n_labels).
        """
        rows = np.flatnonzero((last_labels >= 0) & (last_labels < len(self._labels)))
        wide[rows, np.array(self._labels, dtype=np.intp)[last_labels[rows]]] = 1.0
        wide[:, self._mixture] = mixtures

    def add_texts(self, wide: Floats, names: Sequence[int], shares: Floats) -> None:
        """Write the shares of classes (n_names, n_labels) in texts of crowded names, by number."""
        for name, of_text in zip(names, shares, strict=True):
            wide[self._texts[name]] = of_text

    def features_in(self, wide: Floats) -> Floats:
        """Return the standardised features (..., n_features) that are in activations."""
        features: Floats = wide.take(self._features, axis=-1)
        return features

    def narrow(self, wide: Floats) -> Floats:
        """Return what is seen without units and mixture: [1, features, last labels, texts]."""
        seen: Floats = wide.take(self._narrow, axis=-1)
        return seen


def row_products(rows: Floats, weights: Floats, out: Floats) -> None:
    """Write rows (..., m) times weights (m, k) out, every row as if it were alone, bit for bit."""
    # A product of all rows at once rounds otherwise.
    if rows.ndim == 1:
        rows.dot(weights, out=out)
    else:
        np.matmul(rows[..., None, :], weights, out=out[..., None, :])
