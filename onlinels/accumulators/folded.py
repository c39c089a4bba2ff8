"""Statistics kept in folds, from which K-fold cross-validation is exact without any row."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.held_out import added, select_by_folds
from onlinels.arrays import Floats, Integers, Matrix, row_blocks
from onlinels.dealing import deal, name_hashes
from onlinels.names import Name
from onlinels.settings import check_count
from onlinels.spectrum import Spectrum, Sums


class FoldedAccumulator(Accumulator):
    """Deal rows into K accumulators by their content; their sum is what is solved.

    A row's fold is a function of its features' names and values (`onlinels.dealing.fold_of_rows`).
    So folds of two streams merge, and a row that is taken out leaves the fold that it went to.

    Parameters
    ----------
    make : callable
        Returns a new, empty accumulator; it is called once for every fold.
    n_folds : int
        K, at least 2.

    Notes
    -----
    K times the memory of one accumulator, and that of one more while the sum is in use. Learning
    costs what it costs without folds, and 5 to 15 ns for every value.

    Columns are named 0, 1, … until `name_features` is called.

    Examples
    --------
    >>> from onlinels.accumulators.gram import GramAccumulator
    >>> acc = FoldedAccumulator(GramAccumulator, n_folds=3)
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(60, 2))
    >>> acc.update(X, X @ [[2.0], [3.0]] + random.normal(size=(60, 1)))
    >>> round(acc.select_ridge(), 3), acc.count
    (0.562, 60)
    """

    def __init__(self, make: Callable[[], Accumulator], n_folds: int) -> None:
        check_count("n_folds", n_folds, 2)
        self._folds = [make() for _ in range(n_folds)]
        super().__init__(self._folds[0].n_features, self._folds[0].n_targets)
        self._hashes = name_hashes(range(self._n_features))
        self._n_named = 0
        self._sum: Accumulator | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_sum": None}

    @property
    def n_folds(self) -> int:
        """Number K of folds."""
        return len(self._folds)

    @property
    def total(self) -> Accumulator:
        """The sum of the folds. It is kept until something changes; do not change it."""
        if self._sum is None:
            self._sum = added(self._folds)
        return self._sum

    @property
    def weight(self) -> float:
        """Total weight of the rows learnt, as it counts now."""
        return sum(fold.weight for fold in self._folds)

    @property
    def target_squares(self) -> Floats:
        """Every target's weighted sum of squares, (n_targets,), over all folds."""
        return self.total.target_squares

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares, (n_features,), over all folds."""
        return self.total.diagonal

    def name_features(self, names: Sequence[Name]) -> None:
        """Take the names of all features, in the order of their columns.

        Names of columns do not change: only those are read that are new since the last call.

        Raises
        ------
        ValueError
            If there are not as many names as features.
        """
        if len(names) != self._n_features:
            raise ValueError(
                f"names has {len(names)} names, expected {self._n_features}. "
                "Name every feature, after room was made for it."
            )
        if self._n_named < len(names):
            self._hashes[self._n_named :] = name_hashes(names[self._n_named :])
            self._n_named = len(names)

    def _dealt(self, values: Matrix) -> Integers:
        """Return the fold of every row; columns beyond those known count by their number."""
        known, needed = len(self._hashes), values.shape[1]
        hashes = self._hashes
        if needed > known:
            hashes = np.concatenate([hashes, name_hashes(range(known, needed))])
        return deal(hashes, values, self.n_folds)

    def _add_rows(self, activations: Matrix, targets: Matrix, w: float | Floats, sign: int) -> None:
        self._sum = None
        dealt = self._dealt(activations)
        for fold in np.unique(dealt):
            rows = np.flatnonzero(dealt == fold)
            for block in row_blocks(len(rows), activations.shape[1]):
                some = rows[block]
                weights = w if isinstance(w, float) else w[some]
                self._folds[fold]._add_rows(activations[some], targets[some], weights, sign)
        self._count += np.int64(sign * len(activations))

    def accumulate(self, block: Floats, targets: Matrix, w: float | Floats) -> None:
        """Add checked float64 rows with weights of any one sign, without counting them."""
        self._sum = None
        dealt = self._dealt(block)
        for fold in np.unique(dealt):
            rows = dealt == fold
            weights = w if isinstance(w, float) else w[rows]
            self._folds[fold].accumulate(block[rows], targets[rows], weights)

    def _check_holds(self, activations: Matrix) -> None:
        super()._check_holds(activations)
        taken = np.bincount(self._dealt(activations), minlength=self.n_folds)
        for number, (fold, n_rows) in enumerate(zip(self._folds, taken, strict=True)):
            if n_rows > fold.count:
                raise ValueError(
                    f"activations has {n_rows} rows of fold {number}, expected at most the "
                    f"{fold.count} that were learnt. Take out only rows that are in."
                )

    def _check_subtracts(self) -> None:
        self._folds[0]._check_subtracts()

    def _check_kind(self, other: Any) -> None:
        super()._check_kind(other)
        if other.n_folds != self.n_folds:
            raise ValueError(
                f"other has {other.n_folds} folds, expected {self.n_folds}. "
                "Combine accumulators with as many folds."
            )
        self._folds[0]._check_kind(other._folds[0])

    def subtract(self, other: Self) -> None:
        """Take the statistics of `other` away, in place; see `Accumulator.subtract`."""
        self._check_kind(other)
        for mine, theirs in zip(self._folds, other._folds, strict=True):
            if theirs.count > mine.count:
                raise ValueError(
                    f"other has learnt {theirs.count} rows of one fold, expected at most the "
                    f"{mine.count} here. Subtract only what was merged."
                )
        super().subtract(other)

    def _combine(self, other: Self, sign: int) -> None:
        self._sum = None
        for mine, theirs in zip(self._folds, other._folds, strict=True):
            (mine.merge if sign > 0 else mine.subtract)(theirs)

    def _add_weights(self, other: Self, sign: int) -> None:
        """Do nothing: the folds count their weights."""

    def _scale(self, factor: float) -> None:
        self._sum = None
        for fold in self._folds:
            fold.scale(factor)

    def grow(self, n_features: int, n_targets: int) -> None:
        """Make room for features and targets that were 0 in every row so far, in place."""
        if n_features <= self._n_features and n_targets <= self._n_targets:
            return
        self._sum = None
        for fold in self._folds:
            fold.grow(n_features, n_targets)
        new = name_hashes(range(self._n_features, n_features))
        self._hashes = np.concatenate([self._hashes, new])
        self._n_features = max(n_features, self._n_features)
        self._n_targets = max(n_targets, self._n_targets)

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places; see `Accumulator.placed`."""
        places = (feature_columns, target_columns, n_features, n_targets)
        placed = copy.copy(self)
        placed._folds = [fold.placed(*places) for fold in self._folds]
        placed._sum, placed._n_named = None, 0
        placed._hashes = name_hashes(range(n_features))
        placed._hashes[feature_columns] = self._hashes
        placed._n_features, placed._n_targets = n_features, n_targets
        return placed

    def _keep_targets(self, columns: Integers) -> None:
        self._sum = None
        for fold in self._folds:
            fold.keep_targets(columns)

    def spectrum(self) -> Spectrum:
        """Return the spectrum of the sum of the folds."""
        return self.total.spectrum()

    def sums_about(self, centre: Self) -> Sums:
        """Return the sums of products of all folds; see `Accumulator.sums_about`."""
        return self.total.sums_about(centre.total)

    def leverages(self, rows: Floats, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return x'(A'A + c I)^-1 x of every row x; see `Accumulator.leverages`."""
        return self.total.leverages(rows, ridge, diagonal)

    def solve(self, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return the output weights (n_features, n_targets) on the rows of all folds."""
        return self.total.solve(ridge, diagonal)

    def intercept(self, output_weights: Floats) -> Floats:
        """Return the constant (n_targets,) that goes with the output weights."""
        return self.total.intercept(output_weights)

    def select_ridge(self) -> float:
        """Return the ridge of the smallest squared error on held-out folds.

        Returns
        -------
        float
            Over 0 and finite: one of `onlinels.selection.candidate_ridges`; of equally good ones,
            the largest. 1.0 if every feature is constant.

        Notes
        -----
        One eigendecomposition for every fold; see `cross_validation_errors`.
        """
        return select_by_folds(self._folds)
