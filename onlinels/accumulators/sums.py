"""Sums of products of rows, in one of several forms with the same methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Floats, Integers, Matrix
from onlinels.linalg.fingerprints import Prints, prints_of, prints_of_counts
from onlinels.linalg.packed import PackedSymmetric
from onlinels.linalg.recursion import Recursion
from onlinels.linalg.solve import smallest_present_eigenvalue
from onlinels.numerics import Calls, State, enlarged, product


class Rows(NamedTuple):
    """Checked rows to add or remove.

    Attributes
    ----------
    values : ndarray (n, n_features)
        Values of the features, float32 or float64.
    targets : ndarray (n,) of int, or (n, n_targets) of float
        Column of the label, or targets, of every row.
    w : float or ndarray (n,)
        Weights, at least 0.
    sign : float
        1 to learn the rows, -1 to remove them.
    target_origin : ndarray (n_targets,), optional
        Origin subtracted from the one-hot targets of labels.
    followed : Recursion, optional
        Copy of the recursion inside that has decayed and learnt these rows, and replaces it.
    """

    values: Matrix
    targets: Matrix
    w: float | Floats = 1.0
    sign: float = 1.0
    target_origin: Floats | None = None
    followed: Recursion | None = None

    @classmethod
    def none(cls, n_features: int) -> Rows:
        """Return no rows, of `n_features` columns."""
        return cls(np.zeros((0, n_features)), np.zeros(0, dtype=np.intp))

    def weights(self) -> Floats:
        """Return the weights as a vector (n,)."""
        return np.broadcast_to(np.asarray(self.w, dtype=np.float64), len(self.values))

    def prints(self, n_targets: int, which: NDArray[np.bool_]) -> Prints:
        """Return the fingerprints of the features, then of the targets, of some rows."""
        rows = self if which.all() else self.some(which)
        return np.hstack((prints_of(rows.values), target_prints(rows.targets, n_targets)))

    def some(self, which: slice | NDArray[np.bool_]) -> Rows:
        """Return some of the rows."""
        w = self.w if isinstance(self.w, float) else self.w[which]
        return Rows(self.values[which], self.targets[which], w, self.sign)

    def sample(self, n_targets: int) -> tuple[Floats, float]:
        """Return the first row as a sample (n_features + n_targets,), and its weight."""
        targets = self.dense_targets(slice(0, n_targets))[0]
        return np.append(self.values[0], targets), float(self.weights()[0])

    def dense_targets(self, columns: slice) -> Floats:
        """Return the targets of all rows in some columns, (n, n_columns)."""
        dense = np.zeros((len(self.targets), columns.stop - columns.start), order="F")
        if self.targets.ndim == 1:
            here = (self.targets >= columns.start) & (self.targets < columns.stop)
            dense[np.flatnonzero(here), self.targets[here] - columns.start] = 1.0
        else:
            part = self.targets[:, columns]
            dense[:, : part.shape[1]] = part
        if self.target_origin is not None:
            dense -= self.target_origin[columns]
        return dense

    def squares(self) -> Floats:
        """Return the weighted sum of squares of every feature, (n_features,)."""
        squares: Floats = self.weights() @ np.square(self.values, dtype=np.float64)
        return squares

    def with_target_squares(self, sums: Floats, sign: float = 1.0) -> Floats:
        """Return sums plus the sum of squares of every target; for labels, plus their weights."""
        each = self.targets if self.targets.ndim == 1 else self.targets**2
        return with_target_sums(sums, each, sign * self.weights())


class SumsOfProducts(ABC):
    """A'A and A'Y of rows A with targets Y, in one form: raw, factored or inverted.

    The sums have no mean and no count of rows, and a ridge only if `holds_ridge` is true. So the
    sums of two streams add up; an inverse is added by computing A'A. Planning changes nothing;
    `add` works in place, on sums that no other object uses yet.
    """

    form: ClassVar[str]
    """Name of the form, as in the setting `accumulator`. Sums of one form add up."""

    recursion: Recursion | None = None
    """The recursion that learns every row, if the sums are a recursion."""

    allows_running_solution: ClassVar[bool] = False
    """Whether `recursion_of` returns a recursion that can learn rows beside the sums."""

    allows_folds: ClassVar[bool] = False
    """Whether ridges can be compared on the folds of a KFold."""

    holds_ridge: bool = False
    """Whether the sums hold a ridge inside, or will, so that changing the ridge is expensive."""

    can_remove: ClassVar[bool] = True
    """Whether rows can be removed."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Numbers of features and of targets."""

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes needed to learn and to solve for these numbers of columns."""
        return 16 * n_features * (n_features + n_targets)

    @abstractmethod
    def squares(self) -> Floats:
        """Return the weighted sum of squares of every feature, (n_features,), as a new array."""

    def plan_row(self, sample: Floats, w: float, decay: float) -> tuple[Calls, State]:
        """Plan to decay all rows and to add one row, a sample of features and targets."""
        size = self.shape[0]
        return self.plan_rows(Rows(sample[None, :size], sample[None, size:], w), decay)

    @abstractmethod
    def plan_rows(self, rows: Rows, decay: float) -> tuple[Calls, State]:
        """Plan to decay all rows and to add or remove rows.

        Before a removal is applied, `check_removal` is called on sums with the planned state. So
        sums that check a removal must plan new objects, not calls.
        """

    @abstractmethod
    def add(self, other: Any) -> None:
        """Add sums of at most as many columns, in place."""

    @abstractmethod
    def reindexed(self, features: Integers, targets: Integers) -> Self:
        """Return the sums of the given features and targets; -1 stands for a new column.

        Both objects may share memory, so only one of them may learn afterwards.
        """

    @abstractmethod
    def gram_and_cross(self) -> tuple[Floats, Floats]:
        """Return A'A, of which the upper triangle is read, and A'Y, in new memory."""

    @abstractmethod
    def solve(self, penalties: float | Floats, diagonal: Floats, n_rows: int) -> Floats:
        """Return the W of (A'A + D) W = A'Y, (n_features, n_targets), as a new array.

        `diagonal` (n_features,) is that of A'A, with 0 for features that hold only rounding errors.
        """

    @abstractmethod
    def covariance(self, penalties: float | Floats, diagonal: Floats) -> tuple[Floats, float]:
        """Return (A'A + D)^-1 and the trace of its product with A'A."""

    @abstractmethod
    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, (n_targets,)."""

    def explained_products(self, output_weights: Floats) -> Floats:
        """Return W'A'Y, (n_targets, n_targets)."""
        return product(output_weights.T, self.gram_and_cross()[1])

    # A recursion beside the sums. By default there is none.

    def recursion_of(
        self, output_weights: Floats, ridge: float, penalties: Floats
    ) -> tuple[Recursion, float] | None:
        """Return a recursion that can learn rows, and its trust: below 1 it needs refining."""
        return None

    def refine(self, recursion: Recursion) -> float:
        """Correct the weights of a recursion by the sums, in place; return its trust.

        A trust of 0 means that the recursion cannot be used any longer.
        """
        return 1.0

    # A ridge inside the sums. By default there is none.

    def with_ridge(
        self,
        ridge: float,
        units: Floats | None,
        diagonal: Floats,
        rounding: Floats,
        target_squares: Floats,
    ) -> Any:
        """Return sums that hold a ridge on features in units; `self` if the form holds no ridge."""
        return self

    def with_units(self, features: Integers, units: Floats) -> Self:
        """Return the sums with units of features that were constant so far."""
        return self

    def restored(self) -> Self:
        """Return the sums with the ridge inside set to c again."""
        return self

    def without(self, features: NDArray[np.bool_]) -> Self:
        """Return the sums with the rounding errors of features, given as a mask, removed."""
        return self

    def smallest_eigenvalue(
        self, penalties: float | Floats, diagonal: Floats
    ) -> tuple[float, float]:
        """Return the result of `onlinels.linalg.solve.smallest_present_eigenvalue`."""
        gram = PackedSymmetric.of(self.gram_and_cross()[0])
        return smallest_present_eigenvalue(gram, penalties, diagonal)

    def check_removal(self, rounding: Floats, target_squares: Floats) -> None:
        """Raise ValueError if a removal of rows has left too few digits.

        `rounding` (n_features + n_targets,) are the errors of the sums of squares.
        """
        return

    def check_addition(self, rounding: Floats, target_squares: Floats) -> None:
        """Raise ValueError if sums that were added have left too few digits."""
        return


def target_prints(targets: Matrix, n_targets: int) -> Prints:
    """Return the fingerprints of targets, or of one-hot targets of labels."""
    if targets.ndim == 1:
        return prints_of_counts(np.bincount(targets, minlength=n_targets))
    return enlarged(prints_of(targets), 2, n_targets)


def with_target_sums(sums: Floats, targets: Matrix, w: Floats) -> Floats:
    """Add the sums of targets to sums (n_targets,), in place; for labels, add their weights."""
    if targets.ndim == 1:
        np.add.at(sums, targets, w)
    else:
        sums[: targets.shape[1]] += w @ targets
    return sums
