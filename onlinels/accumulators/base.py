"""What all accumulators share: rows counted and weighed, changes that come whole or not at all."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsbmv

from onlinels.checks import (
    LEAST_ROWS,
    SMALLEST_SQUARES,
    TOO_MANY_FEATURES,
    Floats,
    Integers,
    Matrix,
    check_mass,
    check_matrix,
    check_places,
    check_room,
    check_weights,
    row_blocks,
)
from onlinels.linalg.packed import spread
from onlinels.linalg.recursion import FOLLOWED, Recursion
from onlinels.linalg.selection import Sums
from onlinels.numerics import (
    Calls,
    State,
    Update,
    apply,
    apply_in_blocks,
    becoming,
    enlarged,
    shallow_copy,
)
from onlinels.rows import Name
from onlinels.saving import FLAG, SHARE, VECTOR, WHOLE, locked_copy, save_method

MOST_ROWS = int(np.iinfo(np.int64).max)
"""Rows that can be counted."""

RESIDUE = 1e-13
"""Sum of squares, relative to what was taken out of it, up to which nothing is left."""

SMALLEST_DEVIATION = 1e-150
"""Deviation of a feature below which it counts as constant."""

SLACK = 1e-9
"""Relative excess that rounding errors and decayed weights may cause."""

SQUARES = "The weight", "The sum of squares of feature {!r}", "The sum of squares of target {!r}"
"""What is compared before rows are taken out."""

Names = tuple[Sequence[Name], Sequence[Name]]
"""Names of the features and targets, which errors speak of; otherwise of their columns."""

LEDGER = {
    "_n_features": WHOLE,
    "_n_targets": WHOLE,
    "_count": WHOLE,
    "_weight": SHARE,
    "_taken": VECTOR,
    "_targets_taken": VECTOR,
    "_gave_back": FLAG,
}
"""Fields of every accumulator in a saved model."""


def has_sound_sizes(accumulator: Any, *shapes: tuple[int, ...]) -> bool:
    """Tell whether shapes, and what is counted by feature and by target, are those of the sums."""
    size = accumulator.n_features, accumulator.n_targets
    names = accumulator.by_feature, accumulator.by_target, accumulator.by_column
    counted = zip(names, (*size, sum(size)), strict=True)
    lengths = all(len(getattr(accumulator, each)) == n for names, n in counted for each in names)
    return lengths and all(shape == size for shape in shapes)


def answer_of(path: str) -> Any:
    """Return an attribute, or a method, that is the one of a part: "part.name"."""
    return property(attrgetter(path))


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
    last : ndarray (n_targets,), optional
        Targets of one more row of values, at their end; `w` is its weight, too.
    target_squares : ndarray (n_targets,), optional
        Weighted sums of squares that count instead of those of the targets, which are not about
        their mean.
    followed : Recursion, optional
        What takes the place of the recursion inside: it has decayed and learnt the rows already.
    """

    values: Matrix
    targets: Matrix
    w: float | Floats = 1.0
    sign: float = 1.0
    last: Floats | None = None
    target_squares: Floats | None = None
    followed: Recursion | None = None

    def dense_targets(self, columns: slice) -> Floats:
        """Return the targets of all rows in some columns, (n, n_columns)."""
        dense = np.zeros((len(self.values), columns.stop - columns.start), order="F")
        n_rows = len(self.targets)
        if self.targets.ndim == 1:
            here = (self.targets >= columns.start) & (self.targets < columns.stop)
            dense[np.flatnonzero(here), self.targets[here] - columns.start] = 1.0
        else:
            part = self.targets[:, columns]
            dense[:n_rows, : part.shape[1]] = part
        if self.last is not None:
            dense[-1] = self.last[columns]
        return dense

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

    def squares(self) -> Floats:
        """Return every feature's weighted sum of squares, (n_features,)."""
        squares: Floats = self.weights() @ np.square(self.values, dtype=np.float64)
        return squares

    def added_target_squares(self, sums: Floats) -> Floats:
        """Return sums to which every target's sum of squares is added, or from which it is taken.

        The sums may change, too.
        """
        if self.target_squares is not None:
            return sums + self.sign * self.target_squares
        return self.with_target_squares(sums, self.sign)

    def with_target_squares(self, sums: Floats, sign: float = 1.0) -> Floats:
        """Return sums to which every target's sum of squares is added; of labels, their weights."""
        each = self.targets if self.targets.ndim == 1 else self.targets**2
        return with_target_sums(sums, each, sign * self.weights())


@dataclass(frozen=True)
class Covariance:
    """The covariance of output weights, in units of the noise variance.

    Parameters
    ----------
    matrix : ndarray (n_features, n_features)
        (A'A + D)^-1.
    n_parameters : float
        Effective number of parameters, the trace of (A'A + D)^-1 A'A; plus 1 for an intercept.
    origin : ndarray (n_features,), optional
        The mean of the features if there is an intercept, else None.
    intercept_share : float
        Variance of the mean of the targets, if there is an intercept: 1 / n.

    Examples
    --------
    >>> covariance = Covariance(np.diag([0.5, 0.1]), n_parameters=2.0)
    >>> covariance.leverages(np.array([[2.0, 1.0]]))
    array([2.1])
    """

    matrix: Floats
    n_parameters: float
    origin: Floats | None = None
    intercept_share: float = 0.0

    def leverages(self, rows: Floats) -> Floats:
        """Return x'(A'A + c I)^-1 x of every row x (about the mean), plus the intercept's share."""
        about = rows if self.origin is None else rows - self.origin
        shares = np.einsum("ij,ij->i", about @ self.matrix, about)
        leverages: Floats = np.maximum(shares, 0.0) + self.intercept_share
        return leverages


class Accumulator(ABC):
    """Sufficient statistics of a stream of rows: they add, subtract, grow, and give weights.

    The statistics of two streams add up to the statistics of both. Output weights are a pure
    function of statistics and ridge. No row is kept.

    Whatever is raised while they change, an interrupt from the keyboard included: they have changed
    as a whole, or not at all.

    Parameters
    ----------
    n_features : int
        Columns of the activations known beforehand. More may come at any time.
    n_targets : int
        Targets (classes) known beforehand. More may come at any time.
    """

    save = save_method
    __copy__ = locked_copy

    recursion: Recursion | None = None
    """The solution that follows every row, where the statistics are one."""

    holds_ridge: bool = False
    """Whether the statistics hold their ridge inside, so that it cannot change cheaply."""

    fixed_ridge: float | None = None
    """The ridge inside the statistics; None where it enters only when weights are solved."""

    is_centred: bool = False
    """Whether rows are learnt about their mean."""

    n_folds: int = 1
    """Number of folds in which rows are kept apart; 1 where they are not."""

    by_feature: ClassVar[tuple[str, ...]] = ("_taken",)
    """Attributes with a number for every feature."""

    by_target: ClassVar[tuple[str, ...]] = ("_targets_taken",)
    """Attributes with a number for every target."""

    by_column: ClassVar[tuple[str, ...]] = ()
    """Attributes with a number for every feature, then one for every target."""

    room_remedy = TOO_MANY_FEATURES
    """What to do about too many features or targets."""

    def __init__(self, n_features: int = 0, n_targets: int = 0) -> None:
        self._n_features = self._n_targets = 0
        self.check_room(n_features, n_targets)
        self._n_features, self._n_targets = n_features, n_targets
        self._count = 0
        self._weight = 0.0
        # Squares of features and targets that were taken out, whose rounding errors stay.
        self._taken = np.zeros(n_features)
        self._targets_taken = np.zeros(n_targets)
        self._gave_back = False

    # Every target's weighted sum of squares, held beside the sums of products.
    _target_squares: Floats

    # What is known of the rows.

    @property
    def n_features(self) -> int:
        """Number of columns of the activations."""
        return self._n_features

    @property
    def n_targets(self) -> int:
        """Number of targets (classes)."""
        return self._n_targets

    @property
    def count(self) -> int:
        """Number of rows learnt, whatever their weights."""
        return self._count

    @property
    def weight(self) -> float:
        """Total weight of the rows learnt, as it counts now."""
        return self._weight

    @property
    def target_squares(self) -> Floats:
        """Every target's weighted sum of squares, (n_targets,), as a new array."""
        return self._target_squares.copy()

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares, (n_features,), as a new array.

        It is 0 where only rounding errors can be left.
        """
        squares = self._raw_squares()[0]
        return np.where(
            (squares < SMALLEST_SQUARES) | (squares <= RESIDUE * self._taken), 0.0, squares
        )

    @property
    def deviations(self) -> Floats:
        """Every feature's standard deviation, (n_features,); about 0 where there is no intercept.

        It is that of the rows as they weigh, and 0 where only rounding errors can be left, or
        where its square would leave the range of float64.
        """
        deviations: Floats = np.sqrt(self.diagonal / (self.weight or np.inf))
        deviations[deviations < SMALLEST_DEVIATION] = 0.0
        return deviations

    @property
    def feature_mean(self) -> Floats:
        """Mean of the rows, (n_features,); 0 where rows are as they are."""
        return np.zeros(self._n_features)

    @abstractmethod
    def _raw_squares(self) -> tuple[Floats, Floats]:
        """Return the weighted sums of squares of features and targets, not about their means."""

    def _squares_taken(self) -> tuple[Floats, Floats]:
        """Return the squares of features and targets that were taken out, as they came."""
        return self._taken, self._targets_taken

    def held_targets(self, share: float = RESIDUE) -> Floats:
        """Return every target's sum of squares, 0 where all is out; labels': their weights."""
        squares, taken = self._raw_squares()[1], self._squares_taken()[1]
        held: Floats = np.where(squares > share * taken, squares, 0.0)
        return held

    # Memory.

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes that it takes to learn and to solve so many features and targets."""
        return 16 * n_features * (n_features + n_targets)

    def check_room(self, n_features: int, n_targets: int) -> None:
        """Raise if so many features and targets can never fit into memory.

        Raises
        ------
        ValueError
            If they are more than there are so far, and too many for the machine's memory, or for
            `ONLINELS_MEMORY_LIMIT` bytes.
        """
        if n_features > self._n_features or n_targets > self._n_targets:
            sizes = max(n_features, self._n_features), max(n_targets, self._n_targets)
            what = "To learn and to solve {:,} features with {:,} targets"
            check_room(self.bytes_for(*sizes), what, *sizes, remedy=self.room_remedy)

    # Rows.

    def plan(self, rows: Rows, decay: float = 1.0) -> tuple[Calls, State]:
        """Plan to let everything decay and to learn checked rows, or take them out.

        Nothing changes before the update is applied. Without rows everything decays.
        """
        if len(rows.targets) == 1 and rows.sign > 0.0:
            return self.plan_row(*rows.sample(self._n_targets), decay)
        return self._plan_many(rows, decay)

    def plan_row(
        self,
        sample: Floats,
        w: float = 1.0,
        decay: float = 1.0,
        solution: Recursion | None = None,
    ) -> tuple[Calls, State]:
        """Plan to let everything decay and to learn one row, at the least cost.

        A sample (n_features + n_targets,) is a row and, after it, its targets. A solution of these
        statistics that is given learns it, too.
        """
        if self._gave_back and decay != 1.0:
            return self._plan_many(self._row_of(sample, w), decay)
        calls, state = self._plan_row(sample, w, decay)
        if solution is not None:
            more = solution.plan(sample, solution.errors(sample), w, most=FOLLOWED)
            calls, state = calls + more[0], state + more[1]
        weight = (self, "_weight", self._weight * decay + w)
        return calls, (*state, (self, "_count", self._count + 1), weight)

    def _plan_row(self, sample: Floats, w: float, decay: float) -> tuple[Calls, State]:
        """Plan what `plan_row` does to the sums of products, and to nothing else."""
        return self._plan_sums(self._row_of(sample, w), decay)

    def _row_of(self, sample: Floats, w: float) -> Rows:
        """Return a sample as rows."""
        return Rows(sample[None, : self._n_features], sample[None, self._n_features :], w)

    def _plan_many(self, rows: Rows, decay: float) -> tuple[Calls, State]:
        """Plan what `plan` does, however many rows there are."""
        calls, state = self._plan_sums(rows, decay)
        weight = self._weight * decay + rows.sign * float(rows.weights().sum())
        return calls, (*state, *self._counted(rows, decay), (self, "_weight", max(0.0, weight)))

    def _counted(self, rows: Rows, decay: float) -> State:
        """Return the new state of what every accumulator counts, whatever rows are about."""
        count = (self, "_count", self._count + int(rows.sign) * len(rows.targets))
        if rows.sign > 0.0 and not self._gave_back:
            return (count,)
        taken = self._targets_taken * decay
        if rows.sign < 0.0:
            taken = rows.with_target_squares(taken)
        return (count, (self, "_targets_taken", taken))

    def _squares_noted(self, rows: Rows, decay: float) -> State:
        """Return the new state of the features' squares that were taken out."""
        if rows.sign < 0.0:
            taken = self._taken * decay + rows.squares()
            return ((self, "_taken", taken), (self, "_gave_back", True))
        if self._gave_back and decay != 1.0:
            return ((self, "_taken", self._taken * decay),)
        return ()

    def augmented(self, rows: Rows) -> tuple[Floats, Floats, Floats]:
        """Return rows, targets as a recursion takes them, in new arrays, and means of targets.

        Without an intercept they are as they come.
        """
        targets = rows.dense_targets(slice(0, self._n_targets))
        return np.array(rows.values, dtype=np.float64), targets, np.zeros(self._n_targets)

    def take_out(self, rows: Rows, names: Names) -> None:
        """Take checked rows out, in place, and forget features of which only rounding is left."""
        self._become(*self.removal(rows, self._n_targets, names))
        self.forget_unused()

    def forget_unused(self) -> None:
        """Forget what is known of features of which only rounding errors are left, in place."""
        return

    @abstractmethod
    def _plan_sums(self, rows: Rows, decay: float) -> tuple[Calls, State]:
        """Plan what `plan` does to the sums of products, and to nothing else."""

    def update(self, activations: Matrix, targets: Matrix, w: Any = None) -> None:
        """Add rows to the statistics, in place.

        Parameters
        ----------
        activations : ndarray (n, n_features), any real dtype
            Columns beyond those known are new features, 0 in every row so far.
        targets : ndarray (n,) of int, or (n, n_targets) of float
            The column of every row's label, or a matrix of targets. Columns beyond those known
            are new targets, 0 in every row so far.
        w : float or ndarray (n,), optional
            Weights of the rows, at least 0; 1 by default.

        Raises
        ------
        TypeError, ValueError
            If shapes do not fit or a value is not finite; nothing has changed then.
        """
        rows, n_targets = self._read(activations, targets, w)
        self.check_room(rows.values.shape[1], n_targets)
        grown = self.grown(rows.values.shape[1], n_targets)
        blocks = list(row_blocks(len(rows.values), rows.values.shape[1], LEAST_ROWS))
        if len(blocks) == 1 or self.holds_ridge:
            self._become(grown, grown.plan(rows))
            return
        apply(Update(((vars(self).update, vars(grown)),)))
        apply_in_blocks(blocks, lambda block: self.plan(rows.some(block)))

    def downdate(self, activations: Matrix, targets: Matrix, w: Any = None) -> None:
        """Take rows out of the statistics again, in place: the inverse of `update`.

        Parameters are those of `update`; the weights are those the rows have now.

        Raises
        ------
        TypeError, ValueError
            As `update`, and if more would be taken out than was learnt, so far as count, weight
            and sums of squares tell; nothing has changed then.
        """
        rows, n_targets = self._read(activations, targets, w)
        self._become(*self.removal(rows, n_targets))

    def removal(
        self, rows: Rows, n_targets: int, names: Names = ((), ())
    ) -> tuple[Self, tuple[Calls, State]]:
        """Return statistics, and the update by which they are without rows; raise if it cannot be.

        Nothing has changed before the update is applied and the statistics are put in place.
        """
        self._check_subtracts()
        weight = float(rows.weights().sum())
        squares = rows.squares(), rows.with_target_squares(np.zeros(n_targets))
        name = "X" if any(names) else "activations"
        self._check_holds(name, len(rows.targets), weight, squares, names)
        grown = self.grown(rows.values.shape[1], max(n_targets, self._n_targets))
        if len(rows.targets) == self._count and self.weight <= (1.0 + SLACK) * weight:
            return grown, grown.clearing()
        return grown, grown.plan(rows._replace(sign=-1.0))

    def clearing(self) -> tuple[Calls, State]:
        """Return the update by which nothing is left, not even rounding errors."""
        calls, state = self.plan(self._no_rows(), 0.0)
        zeros = (
            (self, "_count", 0),
            (self, "_taken", np.zeros(self._n_features)),
            (self, "_targets_taken", np.zeros(self._n_targets)),
        )
        return calls, (*state, *zeros)

    def _no_rows(self) -> Rows:
        return Rows(np.zeros((0, self._n_features)), np.zeros(0, dtype=np.intp))

    def _become(self, other: Self, update: tuple[Calls, State] = Update()) -> None:
        """Take the state of statistics on whose behalf an update was planned, and apply that."""
        calls, changes = update
        state = tuple((self if each[0] is other else each[0], *each[1:]) for each in changes)
        mine = () if other is self else becoming(self, other)
        apply((calls, (*mine, *state)))

    def _read(self, activations: Matrix, targets: Matrix, w: Any) -> tuple[Rows, int]:
        """Return rows and the number of targets, all checked."""
        activations = check_matrix("activations", activations)
        if activations.shape[1] < self._n_features:
            raise ValueError(
                f"activations has {activations.shape[1]} columns, expected at least "
                f"{self._n_features}. Pass 0 for features that are absent."
            )
        targets, n_targets = check_targets(targets, len(activations))
        weights = check_weights(w, len(activations))
        check_mass(activations, weights)
        if activations.dtype != np.float32:
            activations = activations.astype(np.float64, copy=False)
        return Rows(activations, targets, weights), max(n_targets, self._n_targets)

    def _check_subtracts(self) -> None:
        """Raise if rows cannot be taken out of this kind of statistics."""
        return

    def _check_holds(
        self,
        name: str,
        count: int,
        weight: float,
        squares: tuple[Floats, Floats],
        names: Names = ((), ()),
    ) -> None:
        """Raise if rows to be taken out are not in, so far as sums can tell."""
        if count > self._count:
            raise ValueError(
                f"{name} has {count} rows, expected at most the {self._count} that were learnt. "
                "Take out only rows that are in."
            )
        sums = (np.array([weight]), *squares)
        held = (np.array([self.weight]), *self._raw_squares())
        before = (np.zeros(1), *self._squares_taken())
        compared = zip(SQUARES, ((), *names), sums, held, before, strict=True)
        for what, known, out, there, earlier in compared:
            there, earlier = enlarged(there, len(out)), enlarged(earlier, len(out))
            excess = (out > there + SLACK * (np.abs(there) + earlier)) & (out > 0.0)
            if excess.any():
                column = int(excess.argmax())
                called = known[column] if known else column
                raise ValueError(
                    f"{what.format(called)} to be taken out is {out[column]:g}, expected at most "
                    f"the {there[column]:g} learnt. Take out only rows that are in, with their "
                    "weights as they count now."
                )

    # Rare changes: a new object aside.

    def copied(self) -> Self:
        """Return an independent copy."""
        return copy.deepcopy(self)

    def grown(self, n_features: int, n_targets: int) -> Self:
        """Return it with room for features and targets that were 0 so far: itself, if it has that.

        Both share memory: let one of the two learn.
        """
        n_features, n_targets = max(n_features, self._n_features), max(n_targets, self._n_targets)
        if (n_features, n_targets) == (self._n_features, self._n_targets):
            return self
        places = np.arange(self._n_features), np.arange(self._n_targets)
        return self.rearranged(*places, n_features, n_targets)

    def rearranged(
        self, features: Integers, targets: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return it with its columns at given places among more; both may share memory."""
        new = shallow_copy(self)
        new._n_features, new._n_targets = n_features, n_targets
        for names, places, size in (
            (self.by_feature, features, n_features),
            (self.by_target, targets, n_targets),
            (
                self.by_column,
                np.concatenate((features, n_features + targets)),
                n_features + n_targets,
            ),
        ):
            vars(new).update((name, spread(getattr(self, name), (size,), places)) for name in names)
        new._rearrange_sums(features, targets)
        return new

    @abstractmethod
    def _rearrange_sums(self, features: Integers, targets: Integers) -> None:
        """Put the columns of the sums at given places among more, in arrays that may be shared."""

    def grow(self, n_features: int, n_targets: int) -> None:
        """Make room for features and targets that were 0 in every row so far, in place."""
        self._become(self.grown(n_features, n_targets))

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places among more columns.

        Parameters
        ----------
        feature_columns : ndarray (self.n_features,) of int
            The new column of every feature.
        target_columns : ndarray (self.n_targets,) of int
            The new column of every target.
        n_features, n_targets : int
            The sizes of the copy.

        Raises
        ------
        ValueError
            If two columns have one place, or a place is beyond the sizes.
        """
        self.check_room(n_features, n_targets)
        check_places("feature_columns", feature_columns, self._n_features, n_features)
        check_places("target_columns", target_columns, self._n_targets, n_targets)
        places = np.asarray(feature_columns), np.asarray(target_columns)
        return self.copied().rearranged(*places, n_features, n_targets)

    def merge(self, other: Self) -> None:
        """Add the statistics of `other`, in place; columns that it lacks count as zeros there.

        Raises
        ------
        TypeError
            If `other` is another kind of accumulator.
        """
        self._check_kind(other)
        self.check_joins(other, other.n_features, other.n_targets)
        self._become(self._combined(other, 1.0))

    def subtract(self, other: Self) -> None:
        """Take the statistics of `other` away, in place: the inverse of `merge`.

        Raises
        ------
        TypeError
            If `other` is another kind of accumulator.
        ValueError
            If it has learnt more rows, or holds larger sums of squares.
        """
        self._check_kind(other)
        self._check_subtracts()
        self.check_holds(other)
        self._become(self._combined(other, -1.0))

    def _combined(self, other: Self, sign: float) -> Self:
        """Return a new sum of both, or what is left without the other."""
        new = self.copied().grown(other.n_features, other.n_targets)
        new.absorb(other, sign)
        return new

    def merged(self, placed: Self) -> Self:
        """Return the statistics of both, in the memory of `placed`, which has all columns."""
        if self.holds_ridge:
            return self._combined(placed, 1.0)
        placed.absorb(self, 1.0)
        return placed

    def absorb(self, other: Self, w: float) -> None:
        """Add w times checked statistics of at most as many columns, in place.

        With w = -1 they are taken away.

        Nothing else may look meanwhile: the half of it may be seen.
        """
        if w < 0.0 and other.count == self._count and self.weight <= (1 + SLACK) * other.weight:
            apply(self.clearing())
            return
        self._note_absorbed(other, w)
        self._absorb_sums(other, w)
        self._count += other._count if w > 0.0 else -other._count
        self._weight = max(0.0, self._weight + w * other._weight)
        self._gave_back = self._gave_back or other._gave_back or w < 0.0

    @abstractmethod
    def _absorb_sums(self, other: Self, w: float) -> None:
        """Add w times the sums of `other`."""

    def _note_absorbed(self, other: Self, w: float) -> None:
        """Add up the squares of features and targets that were taken out."""
        squares = other._squares_taken() if w > 0.0 else other._raw_squares()
        self._taken = self._taken + abs(w) * enlarged(squares[0], self._n_features)
        self._targets_taken = self._targets_taken + abs(w) * enlarged(squares[1], self._n_targets)

    def check_joins(self, other: Self, n_features: int, n_targets: int) -> None:
        """Raise if statistics of two streams can never be held together.

        Raises
        ------
        ValueError
            If features and targets take too much memory, or rows are too many to be counted in
            64 bits, or sums of squares beyond float64.
        """
        self.check_room(n_features, n_targets)
        if self.count + other.count > MOST_ROWS:
            raise ValueError(
                f"other has learnt {other.count} rows, expected at most {MOST_ROWS} together with "
                f"the {self.count} here: rows are counted in 64 bits. Leave one of them out."
            )
        with np.errstate(over="ignore"):
            squares = [self._raw_squares(), other._raw_squares()]
            largest = [sum(float(part.max(initial=0.0)) for part in each) for each in squares]
        if not sum(largest) < np.inf:
            raise ValueError(
                f"other has sums of squares of {largest[1]:g}, those here are {largest[0]:g}, "
                "expected sums that float64 holds. Rescale features or weights of rows."
            )

    def check_holds(self, other: Self) -> None:
        """Raise if statistics to be taken out are not in, so far as sums can tell."""
        sizes = max(self.n_features, other.n_features), max(self.n_targets, other.n_targets)
        features, targets = map(enlarged, other._raw_squares(), sizes)
        self._check_holds("other", other.count, other.weight, (features, targets))

    def _check_kind(self, other: Any) -> None:
        if type(other) is not type(self):
            raise TypeError(
                f"other is of type {type(other).__name__}, expected {type(self).__name__}. "
                "Combine accumulators of one kind."
            )

    def scale(self, factor: float) -> None:
        """Multiply the weight of everything learnt so far, in place.

        Parameters
        ----------
        factor : float
            At least 0 and finite.

        Raises
        ------
        ValueError
            If it is not.
        """
        if not 0.0 <= factor < np.inf:
            raise ValueError(f"factor={factor!r} must be at least 0 and finite. Pass such a float.")
        apply(self.fading(float(factor)))

    def fading(self, factor: float) -> tuple[Calls, State]:
        """Plan to multiply the weight of everything learnt so far by a checked factor."""
        return self.plan(self._no_rows(), factor)

    def restore_ridge(self) -> None:
        """Bring a ridge inside that has decayed with the rows back; does nothing without one."""
        return

    def fix_ridge(self, ridge: float) -> None:
        """Take a ridge into the statistics; does nothing where it enters only at solve time.

        Parameters
        ----------
        ridge : float
            The ridge c > 0.

        Raises
        ------
        TypeError, ValueError
            If the recursive form cannot hold it: it is no finite number above 0.

        Notes
        -----
        In the recursive form, which holds the ridge inside, a few ``M^3`` operations.

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

    def with_ridge(self, ridge: float, units: Floats | None = None) -> Self:
        """Return it with a ridge inside; itself, where it enters only at solve time.

        The ridge acts on features in units (n_features,) over 0, 1 by default.
        """
        return self

    def with_units(self, features: Integers, units: Floats) -> Self:
        """Return it with other units of features that are constant so far; itself, as `with_ridge`.

        Both share memory: let one of the two learn.
        """
        return self

    def with_targets(self, columns: Integers) -> Self:
        """Return it without all targets but those at the given columns, in the order given."""
        new = shallow_copy(self)
        new._n_targets = len(columns)
        vars(new).update((name, getattr(self, name)[columns]) for name in self.by_target)
        places = self._n_features + np.asarray(columns, dtype=np.intp)
        kept = np.concatenate((np.arange(self._n_features), places))
        vars(new).update((name, getattr(self, name)[kept]) for name in self.by_column)
        new._keep_sums(columns)
        return new

    @abstractmethod
    def _keep_sums(self, columns: Integers) -> None:
        """Drop the sums of all targets but some, in new arrays."""

    def unfolded(self) -> Accumulator:
        """Return the same statistics in one fold: these, if they are; a new sum, otherwise."""
        return self

    def named(self, names: Sequence[Name]) -> Self:
        """Return it with the names of all features, by column, which most do not need: itself."""
        return self

    # What follows from the statistics.

    def recursion_of(
        self, output_weights: Floats, ridge: float, penalties: Floats
    ) -> tuple[Recursion, float] | None:
        """Return a solution that may follow single rows beside the sums; None if it cannot.

        Beside it stands how far it can be trusted: below 1 it needs refining.
        """
        return None

    def refine(self, solution: Recursion) -> float:
        """Bring a solution that followed rows nearer to that of the sums, in place.

        Returns how far it can be trusted; 0 where it cannot go on.
        """
        return 1.0

    def scores_by(self, solution: Recursion, sample: Floats) -> Floats:
        """Return the scores (n_targets,) that a solution gives a sample, whose targets are 0."""
        return solution.scores(sample[: self._n_features])

    @abstractmethod
    def solve(
        self,
        ridge: float | Floats,
        diagonal: Floats | None = None,
        n_rows: int | None = None,
    ) -> Floats:
        """Return the output weights (n_features, n_targets).

        Parameters
        ----------
        ridge : float, or ndarray (n_features,)
            The ridge c, or the penalty of every feature; 0.0 gives the pseudo-inverse solution of
            minimum norm.
        diagonal : ndarray (n_features,), optional
            Instead of `self.diagonal`: with 0 for features that hold only rounding errors.
        n_rows : int, optional
            Instead of `self.count`: few rows for the features are solved faster.
        """

    def intercept(self, output_weights: Floats) -> Floats:
        """Return the constant (n_targets,) of output weights: 0 where rows are as they are."""
        return np.zeros(output_weights.shape[1])

    def ridge_diagonal(self, ridge: float) -> Floats:
        """Return the ridge in force on each feature, (n_features,), if `ridge` is the setting."""
        return np.full(self._n_features, ridge)

    @abstractmethod
    def sums(self) -> Sums:
        """Return sums of products in new memory, from which a ridge is chosen."""

    @abstractmethod
    def covariance(self, ridge: float | Floats, diagonal: Floats | None = None) -> Covariance:
        """Return the covariance of the weights that `solve` gives; parameters are those of it.

        A feature without data, always 0 (with an intercept: constant), has one over its penalty as
        variance; without a penalty it has none.
        """

    @abstractmethod
    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return by how much weights lower every target's sum of squares, (n_targets,).

        That is 2 W'A'Y - W'A'A W, so `target_squares` minus it is the residual sum of squares of
        any weights (n_features, n_targets).
        """

    def sums_about(self, centre: Self) -> Sums:
        """Return plain sums of products of the rows, with `centre` at the origin.

        That is about the means of `centre` where there is an intercept, whatever the means here;
        about 0 otherwise. With them the squared error of any output weights can be told.

        Raises
        ------
        TypeError
            If this kind of statistics holds no sums of products.
        """
        raise TypeError(
            f"{type(self).__name__} holds no sums of products, which folds need. "
            'Use accumulator="gram".'
        )


def adding_squares(sums: Floats, row: Floats, w: float, decay: float = 1.0) -> tuple[Any, ...]:
    """Return the call that lets sums of squares decay and adds those of a row, in place."""
    # The product with the row as a diagonal matrix. Measured: half the time of numpy's three calls.
    return (dsbmv, 0, w, row[None], row, 1, 0, decay, sums, 1, 0, 0, 1)


def check_targets(targets: Any, n_rows: int) -> tuple[Matrix, int]:
    """Return the targets as an array, and how many target columns they need."""
    array = np.asarray(targets)
    if array.ndim == 1:
        if array.dtype.kind not in "iu":
            raise TypeError(
                f"targets has dtype {array.dtype}, expected the integer columns of the labels. "
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


def with_target_sums(sums: Floats, targets: Matrix, w: Floats) -> Floats:
    """Return sums (n_targets,) to which those of targets are added in place; of labels, weights."""
    if targets.ndim == 1:
        np.add.at(sums, targets, w)
    else:
        sums[: targets.shape[1]] += w @ targets
    return sums
