"""Sums of products: what is remembered of rows, in one of several forms with the same methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Floats, Integers, Matrix
from onlinels.linalg.recursion import Recursion
from onlinels.numerics import Calls, State, product


class Rows(NamedTuple):
    """Checked rows with weights of one sign.

    Attributes
    ----------
    values : ndarray (n, n_features)
        Float32 or float64.
    targets : ndarray (n,) of int, or (n, n_targets) of float
        The column of every row's label, or its targets.
    w : float or ndarray (n,)
        Weights, at least 0.
    sign : float
        1 where the rows are learnt, -1 where they are taken out.
    target_origin : ndarray (n_targets,), optional
        What is subtracted from targets that labels stand for, which are 0 and 1.
    followed : Recursion, optional
        Replaces the recursion inside: a copy of it that has decayed and learnt these rows.
    """

    values: Matrix
    targets: Matrix
    w: float | Floats = 1.0
    sign: float = 1.0
    target_origin: Floats | None = None
    followed: Recursion | None = None

    @classmethod
    def none(cls, n_features: int) -> Rows:
        """Return rows of which there are none."""
        return cls(np.zeros((0, n_features)), np.zeros(0, dtype=np.intp))

    def weights(self) -> Floats:
        """Return the weights as a vector (n,)."""
        return np.broadcast_to(np.asarray(self.w, dtype=np.float64), len(self.values))

    def some(self, which: slice | NDArray[np.bool_]) -> Rows:
        """Return some of the rows."""
        w = self.w if isinstance(self.w, float) else self.w[which]
        return Rows(self.values[which], self.targets[which], w, self.sign)

    def sample(self, n_targets: int) -> tuple[Floats, float]:
        """Return the one row as a sample (n_features + n_targets,), and its weight."""
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
        """Return every feature's weighted sum of squares, (n_features,)."""
        squares: Floats = self.weights() @ np.square(self.values, dtype=np.float64)
        return squares

    def with_target_squares(self, sums: Floats, sign: float = 1.0) -> Floats:
        """Return sums to which every target's sum of squares is added; of labels, their weights."""
        each = self.targets if self.targets.ndim == 1 else self.targets**2
        return with_target_sums(sums, each, sign * self.weights())


class SumsOfProducts(ABC):
    """A'A and A'Y of rows A with targets Y, in one form: raw, factored or inverted.

    Neither a mean nor a count of rows is in them, and a ridge only where `holds_ridge` is true. So
    sums of two streams add up, those of an inverse by way of A'A. Planning changes nothing; `add`
    works in place, on sums that nobody else holds yet.
    """

    form: ClassVar[str]
    """What the setting `accumulator` calls the form. Sums of one form add up."""

    recursion: Recursion | None = None
    """The solution that follows every row, where the sums are one."""

    allows_running_solution: ClassVar[bool] = False
    """Whether `recursion_of` gives a solution that follows rows beside the sums."""

    holds_ridge: bool = False
    """Whether the sums hold a ridge inside, or will, so that it cannot change cheaply."""

    removal_error: str = ""
    """Why rows cannot be taken out; empty where they can."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Numbers of features and of targets."""

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes that it takes to learn and to solve so many features and targets."""
        return 16 * n_features * (n_features + n_targets)

    @abstractmethod
    def squares(self) -> Floats:
        """Return every feature's weighted sum of squares, (n_features,), as a new array."""

    def plan_row(self, sample: Floats, w: float, decay: float) -> tuple[Calls, State]:
        """Plan to let all rows decay and to add one row, followed by its targets."""
        size = self.shape[0]
        return self.plan_rows(Rows(sample[None, :size], sample[None, size:], w), decay)

    @abstractmethod
    def plan_rows(self, rows: Rows, decay: float) -> tuple[Calls, State]:
        """Plan to let all rows decay and to add rows, or take them out.

        Before a removal is applied `check_removal` is called on sums with the planned state, so
        sums that are checked plan new objects, not calls.
        """

    @abstractmethod
    def add(self, other: Any, w: float) -> None:
        """Add w times sums of at most as many columns, in place; with w < 0 they are taken out."""

    @abstractmethod
    def reindexed(self, features: Integers, targets: Integers) -> Self:
        """Return the sums of the given features and targets, new ones for -1.

        Both may share memory: let one of the two learn.
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

    # A solution that follows rows beside the sums: none, unless a form says otherwise.

    def recursion_of(
        self, output_weights: Floats, ridge: float, penalties: Floats
    ) -> tuple[Recursion, float] | None:
        """Return a solution that may follow rows, and its trust: below 1 it needs refining."""
        return None

    def refine(self, solution: Recursion) -> float:
        """Bring a solution that followed rows nearer to that of the sums, in place.

        Returns how far it can be trusted; 0 where it cannot go on.
        """
        return 1.0

    # A ridge inside: nothing to do, unless a form holds one.

    def with_ridge(
        self, ridge: float, units: Floats | None, diagonal: Floats, target_squares: Floats
    ) -> Any:
        """Return sums that hold a ridge on features in units inside; themselves, if they do not."""
        return self

    def with_units(self, features: Integers, units: Floats) -> Self:
        """Return the sums with other units of features that are constant so far."""
        return self

    def restored(self) -> Self:
        """Return the sums with a ridge inside that has not decayed."""
        return self

    def without(self, features: NDArray[np.bool_]) -> Self:
        """Return the sums without what rounding has left of features, given as a mask."""
        return self

    def is_definite(self, taken: Floats) -> bool:
        """Tell whether A'A may be that of rows: whether no eigenvalue is far below 0.

        `taken` (n_features,) are the squares of rows that were taken out, whose errors stay.
        """
        return True

    def check_has_sums(self) -> None:
        """Raise ValueError if the sums can neither learn nor be solved."""
        return

    def check_can_remove(self) -> None:
        """Raise ValueError if rows cannot be taken out of this form."""
        if self.removal_error:
            raise ValueError(
                f"{self.removal_error}. Keep the Gram form, GramAccumulator or "
                'accumulator="gram", to unlearn.'
            )

    def check_removal(self, before: Floats, target_squares: Floats) -> None:
        """Raise ValueError if rows that were taken out have left too few digits.

        `before` (n_features + n_targets,) are the sums of squares before the removal.
        """
        return


def with_target_sums(sums: Floats, targets: Matrix, w: Floats) -> Floats:
    """Return sums (n_targets,) to which those of targets are added in place; of labels, weights."""
    if targets.ndim == 1:
        np.add.at(sums, targets, w)
    else:
        sums[: targets.shape[1]] += w @ targets
    return sums
