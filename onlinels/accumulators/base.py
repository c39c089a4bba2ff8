"""The methods of public accumulators, which check their input and change statistics in place."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from onlinels.accumulators.statistics import Statistics
from onlinels.accumulators.sums import Rows, SumsOfProducts
from onlinels.checks import (
    MIN_BLOCK_ROWS,
    Floats,
    Integers,
    Matrix,
    check_count,
    check_mass,
    check_matrix,
    check_not_negative,
    check_places,
    check_weights,
    row_blocks,
)
from onlinels.linalg.packed import origins
from onlinels.numerics import Calls, State, Update, apply, apply_in_blocks, becoming
from onlinels.saving import locked_copy, save_method

KIND_REMEDY = "Combine only accumulators of the same kind."


class Accumulator(Statistics):
    """Statistics of a stream that change in place: completely, or not at all.

    Parameters
    ----------
    sums : SumsOfProducts
        Empty sums, which no other object uses.
    n_features : int
        Number of columns of the activations known beforehand. More can be added at any time.
    n_targets : int
        Number of targets (classes) known beforehand. More can be added at any time.
    is_centred : bool
        Whether rows are learnt about their mean, so that an intercept is exact and has no penalty.
    """

    save = save_method
    __copy__ = locked_copy

    def __init__(
        self,
        sums: SumsOfProducts,
        n_features: int = 0,
        n_targets: int = 0,
        is_centred: bool = False,
        /,
    ) -> None:
        super().__init__(sums, is_centred)
        self.grow(n_features, n_targets)

    def update(self, activations: Matrix, targets: Matrix, w: Any = None) -> None:
        """Add rows to the statistics, in place.

        Parameters
        ----------
        activations : ndarray (n, n_features), any real dtype
            Rows to learn. Columns beyond the known features are new features, which were 0 in every
            row so far.
        targets : ndarray (n,) of int, or (n, n_targets) of float
            Column of the label of every row, or a matrix of targets. Columns beyond the known
            targets are new targets, which were 0 in every row so far.
        w : float or ndarray (n,), optional
            Weights of the rows, at least 0; 1 by default.

        Raises
        ------
        TypeError, ValueError
            If shapes do not fit or a value is not finite. The statistics are then unchanged.
        """
        rows, n_targets = self._read(activations, targets, w)
        size = rows.values.shape[1], n_targets
        self.check_room(*size)
        grown = self.grown(*size)
        blocks = list(row_blocks(len(rows.values), size[0], MIN_BLOCK_ROWS))
        if len(blocks) == 1 or self.recursion is not None:
            self._become(grown, grown.plan(rows))
        else:
            self._become(grown)
            apply_in_blocks(blocks, lambda block: self.plan(rows.some(block)))

    def downdate(self, activations: Matrix, targets: Matrix, w: Any = None) -> None:
        """Remove rows from the statistics, in place: the inverse of `update`.

        The parameters are those of `update`; `w` are the current weights of the rows.

        Raises
        ------
        TypeError, ValueError
            As `update`, and if the count, the weight or the sums of squares of the rows exceed
            those learnt. The statistics are then unchanged.

        Notes
        -----
        The digits that are left depend on the ridge, which is not known here. They are counted when
        a model unlearns rows, and in the recursive form.
        """
        self._become(*self.removal(*self._read(activations, targets, w)))

    @property
    def fixed_ridge(self) -> float | None:
        """The ridge inside the statistics; None if it enters only when weights are computed."""
        return None if self.recursion is None else self.recursion.ridge

    def ridge_diagonal(self, ridge: float) -> Floats:
        """Return the ridge in force on each feature; a ridge inside lies between c/2 and c."""
        inside = self.recursion
        if inside is not None and ridge == inside.ridge:
            return inside.penalties
        return np.full(self.n_features, ridge)

    def grow(self, n_features: int, n_targets: int) -> None:
        """Make room for features and targets that were 0 in every row so far, in place."""
        size = check_count("n_features", n_features, 0), check_count("n_targets", n_targets, 0)
        self.check_room(*size)
        self._become(self.grown(*size))

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy with more columns, and the columns of this object at the given places.

        Parameters
        ----------
        feature_columns : ndarray (self.n_features,) of int
            New column of every feature.
        target_columns : ndarray (self.n_targets,) of int
            New column of every target.
        n_features, n_targets : int
            Numbers of features and of targets of the copy.

        Raises
        ------
        ValueError
            If two columns get the same place, or a place is not below the number of columns.
        """
        self.check_room(n_features, n_targets)
        check_places("feature_columns", feature_columns, self.n_features, n_features)
        check_places("target_columns", target_columns, self.n_targets, n_targets)
        places = (np.asarray(each, dtype=np.intp) for each in (feature_columns, target_columns))
        sizes = n_features, n_targets
        return self.copied().reindexed(*map(origins, places, sizes))

    def with_targets(self, columns: Integers) -> Self:
        """Return a copy with only the targets at the given columns, in the given order.

        Raises
        ------
        ValueError
            If a column does not exist, or is given twice.
        """
        kept = np.asarray(columns)
        check_places("columns", kept, len(kept), self.n_targets)
        return self.copied().reindexed(np.arange(self.n_features), kept.astype(np.intp))

    def merge(self, other: Self) -> None:
        """Add the statistics of `other`, in place; columns that `other` lacks count as zeros.

        Raises
        ------
        TypeError
            If `other` is another kind of accumulator.
        """
        self._check_kind(other)
        self.check_joins(other, other.n_features, other.n_targets)
        self._become(self._combined(other, 1.0))

    def subtract(self, other: Self) -> None:
        """Subtract the statistics of `other`, in place: the inverse of `merge`.

        Raises
        ------
        TypeError
            If `other` is another kind of accumulator.
        ValueError
            If `other` has learnt more rows, or has larger sums of squares.
        """
        self._check_kind(other)
        self.check_holds("other", other.count, other.weight, other.raw_squares())
        self._become(self._combined(other, -1.0))

    def _combined(self, other: Self, sign: float) -> Self:
        """Return new statistics: these plus (sign 1) or minus (-1) the other."""
        new = self.copied().grown(other.n_features, other.n_targets)
        new.absorb(other, sign)
        return new

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row learnt so far by a factor, in place.

        Parameters
        ----------
        factor : float
            The factor, at least 0 and finite.

        Raises
        ------
        TypeError, ValueError
            If `factor` is not a finite number of at least 0.
        """
        check_not_negative("factor", factor)
        apply(self.plan(Rows.none(self.n_features), float(factor)))

    def fix_ridge(self, ridge: float) -> None:
        """Set the ridge inside the statistics; has no effect except in the recursive form.

        Parameters
        ----------
        ridge : float
            The ridge c > 0.

        Raises
        ------
        TypeError, ValueError
            In the recursive form, if `ridge` is not a finite number above 0.

        Notes
        -----
        The recursive form, which holds the ridge inside, needs a few ``M^3`` operations.

        Examples
        --------
        >>> from onlinels import RecursiveAccumulator
        >>> acc = RecursiveAccumulator(1, 1)
        >>> acc.update(np.array([[2.0]]), np.array([[10.0]]))
        >>> acc.fix_ridge(1.0)
        >>> acc.solve(1.0)
        array([[4.]])
        """
        self._become(self.with_ridge(ridge))

    def _become(self, other: Self, update: tuple[Calls, State] = Update()) -> None:
        """Apply an update that was planned for other statistics, and adopt their state."""
        calls, changes = update
        state = tuple((self if each[0] is other else each[0], *each[1:]) for each in changes)
        mine = () if other is self else becoming(self, other)
        apply((calls, (*mine, *state)))

    def _check_kind(self, other: Any) -> None:
        if type(other) is not type(self):
            name, expected = type(other).__name__, type(self).__name__
            raise TypeError(f"other is of type {name}, expected {expected}. {KIND_REMEDY}")
        forms = other.products.form, self.products.form
        if forms[0] != forms[1]:
            raise TypeError(f"other is in the {forms[0]} form, expected {forms[1]}. {KIND_REMEDY}")

    def _read(self, activations: Matrix, targets: Matrix, w: Any) -> tuple[Rows, int]:
        """Return rows and the number of targets, all checked."""
        activations = check_matrix("activations", activations)
        if activations.shape[1] < self.n_features:
            raise ValueError(
                f"activations has {activations.shape[1]} columns, expected at least "
                f"{self.n_features}. Pass columns of 0 for absent features."
            )
        targets, n_targets = check_targets(targets, len(activations))
        weights = check_weights(w, len(activations))
        check_mass(activations, weights)
        if activations.dtype != np.float32:
            activations = activations.astype(np.float64, copy=False)
        return Rows(activations, targets, weights), max(n_targets, self.n_targets)


def check_targets(targets: Any, n_rows: int) -> tuple[Matrix, int]:
    """Return the targets as an array, and the number of target columns that they need."""
    array = np.asarray(targets)
    if array.ndim == 1:
        if array.dtype.kind not in "iu":
            raise TypeError(
                f"targets has dtype {array.dtype}, expected integers, the columns of the labels. "
                "Pass real-valued targets as a matrix (n_rows, n_targets)."
            )
        if array.size and array.min() < 0:
            raise ValueError(
                f"targets holds {array.min()}, expected label columns of at least 0. "
                "Number the labels from 0."
            )
        n_targets = int(array.max()) + 1 if array.size else 0
    else:
        array = check_matrix("targets", array).astype(np.float64, copy=False)
        n_targets = array.shape[1]
    if len(array) != n_rows:
        raise ValueError(
            f"targets has {len(array)} rows, expected {n_rows}. Pass one target per row."
        )
    return array, n_targets
