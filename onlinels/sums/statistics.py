"""Statistics of a stream: counts, weights, the mean of its rows, and sums about the mean."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onlinels.checks import (
    FEATURE_COUNT_REMEDY,
    MIN_SUM_OF_SQUARES,
    SPARSE_TYPES,
    Floats,
    Integers,
    Matrix,
    check_room,
    dense,
    ignoring,
)
from onlinels.core import SingleRows
from onlinels.core.apply import apply
from onlinels.core.constants import EPS, MIN_ROWS_DWARFED, MUCH_HEAVIER, MUCH_LARGER
from onlinels.core.reference import is_one_of, numbers_of
from onlinels.numerics import Calls, are_counts, is_array, product, shallow_copy
from onlinels.rows.batch import PLAIN_NUMBER_TYPES, Name, reader_of
from onlinels.saving import savable
from onlinels.sums.forms import FactorSums, GramSums
from onlinels.sums.packed import gathered, growth, stacked
from onlinels.sums.recursion import MAX_RUNNING_LEVERAGE, Following
from onlinels.sums.removals import MAX_ROUNDING, Prints, Rounding, are_constant
from onlinels.sums.rows import (
    Mean,
    Rows,
    beyond,
    centred,
    of_rounding,
    spread_of_first,
    target_prints,
)
from onlinels.sums.selection import Sums
from onlinels.sums.solve import Covariance

MIN_DEVIATION = 1e-150
"""Standard deviation of a feature below which the feature counts as constant."""

REMOVAL_TOLERANCE = 1e-9
"""Relative excess that rounding errors and decayed weights may cause."""

EMPTY_TOLERANCE = 1e-14
"""Total weight, relative to the weights added and removed, up to which nothing is left."""

GONE_TOLERANCE = 1e-12
"""Raw sum of squares, relative to that before removals, up to which no part of a row is left."""

MAX_ROWS_BETWEEN_PREDICTIONS, FEATURES_PER_ROW_BETWEEN = 4, 16
"""A recursion learns rows only while every 4 rows, or features / 16, have a prediction."""


def patience_of(n_features: int) -> float:
    """Return the number of rows without a prediction that a recursion follows."""
    return float(max(MAX_ROWS_BETWEEN_PREDICTIONS, n_features // FEATURES_PER_ROW_BETWEEN))


LABEL_TYPES = PLAIN_NUMBER_TYPES | {str, np.str_, bytes}
"""Types of labels that are compared without Python code."""

LEARN_AGAIN = "Learn the rows that are to stay again, in a new model."
"""Remedy for removals that would leave too few digits."""

SumsOfProducts = GramSums | FactorSums
"""A'A and A'Y of rows A with targets Y, as they are or factored, behind the same methods.

The sums have no mean, no count of rows and no ridge. So the sums of two streams in one form add up.
"""

Names = tuple[Sequence[Name], Sequence[Name]]
"""Names of the features and targets, for messages."""


class RowSums(NamedTuple):
    """Sums over rows x with targets y and weights w, about an origin o of x and an origin p of y.

    Attributes
    ----------
    gram : ndarray (n_features, n_features)
        The sums ``w (x - o)(x - o)'``.
    cross : ndarray (n_features, n_targets)
        The sums ``w (x - o)(y - p)'``.
    sums : ndarray (n_features,)
        The sums ``w (x - o)``.
    target_sums, target_squares : ndarray (n_targets,)
        The sums ``w (y - p)`` and ``w (y - p)^2``.
    weight : float
        The sum of the weights: the number of rows, if all weigh 1.
    origin, target_origin : ndarray (n_features,) and (n_targets,)
    """

    gram: Floats
    cross: Floats
    sums: Floats
    target_sums: Floats
    target_squares: Floats
    weight: float
    origin: Floats
    target_origin: Floats


def is_sound(statistics: Any) -> bool:
    """Return whether the parts of loaded statistics fit each other."""
    shape, tally = statistics._sums.shape, statistics._tally
    mean, size = statistics._mean, sum(shape)
    fits = is_array(statistics._target_squares, shape[1]) and is_array(tally, 3)
    fits = fits and is_array(statistics._prints, 2, size, dtype=np.uint64)
    fits = fits and is_array(statistics._rounding.squares, size)
    fits = fits and are_counts(tally[:1]) and type(statistics._weightless) is int
    fits = fits and 0 <= statistics._weightless <= statistics.count
    if (beside := statistics._beside) is not None:
        kinds = [(type(one._sums), one._sums.shape, one.is_centred) for one in (statistics, beside)]
        fits = fits and type(beside) is Statistics and beside._beside is None and len({*kinds}) == 1
    return fits and (mean is None or is_array(mean.origin, size))


def _attribute(path: str, doc: str) -> Any:
    """Return a property that reads an attribute, or an attribute of a part: "part.name"."""
    return property(attrgetter(path), doc=doc)


def _check_left(squares: Floats, rounding: Floats, names: Names) -> None:
    """Raise ValueError if sums of squares that are left about the mean are negative."""
    if (squares < -rounding).any():
        column, n_features = int((squares + rounding).argmin()), len(names[0])
        kind = "feature" if column < n_features else "target"
        raise ValueError(
            f"The rows to remove would leave {squares[column]:g} as the sum of squares of {kind} "
            f"{[*names[0], *names[1]][column]!r} about its mean, expected at least 0. Remove only "
            "rows that were learnt, with their current weights."
        )


@savable(is_sound)
class Statistics:
    """Sufficient statistics of a stream of rows, which add up, subtract, grow, and yield weights.

    The statistics of two streams add up to the statistics of both. Output weights are a pure
    function of statistics and penalties. No row is kept.

    A change of many sums is planned and then applied as a whole; a rare change makes a new object.

    Parameters
    ----------
    sums : SumsOfProducts
        Empty sums, which no other object uses.
    is_centred : bool
        Whether rows are learnt about their mean, so that an intercept is exact and has no penalty.

    Examples
    --------
    >>> from onlinels.sums.forms import GramSums
    >>> statistics = Statistics(GramSums(1, 1), True)
    >>> rows = Rows(np.array([[1.0], [3.0]]), np.array([[10.0], [14.0]]))
    >>> apply(statistics.plan(rows))
    >>> weights = statistics.solve(0.0, statistics.diagonal)
    >>> weights.round(9), statistics.intercept(weights).round(9)
    (array([[2.]]), array([8.]))
    """

    n_folds = 1
    """Number of folds; 1 for statistics without folds."""

    _beside: Statistics | None = None
    """Statistics of all rows but those that dwarf these, if there are any: see `dwarfing`.

    They take over, with all their digits, when the last of the others is removed.
    """

    def __init__(self, sums: SumsOfProducts, is_centred: bool, /) -> None:
        n_features, n_targets = sums.shape
        self._sums = sums
        self._mean = Mean.zero(n_features + n_targets) if is_centred else None
        # Number of rows, their weight, and the sum of their squared weights.
        self._tally, self._weightless = np.zeros(3), 0
        # Weighted sums of squares, about the mean if there is one.
        self._target_squares = np.zeros(n_targets)
        # Of the rows that had a weight: which features and targets are 0, or constant.
        self._prints = np.zeros((2, n_features + n_targets), dtype=np.uint64)
        self._rounding = Rounding.none(n_features + n_targets)

    # Properties of the rows.

    @property
    def n_features(self) -> int:
        """Number of columns of the activations."""
        return len(self._rounding.squares) - len(self._target_squares)

    @property
    def n_targets(self) -> int:
        """Number of targets (classes)."""
        return len(self._target_squares)

    @property
    def count(self) -> int:
        """Number of rows learnt, whatever their weights."""
        return int(self._tally[0])

    @property
    def weight(self) -> float:
        """Current total weight of the rows learnt."""
        return float(self._tally[1])

    @property
    def squared_weight(self) -> float:
        """Current sum of the squared weights of the rows learnt."""
        return float(self._tally[2])

    @property
    def mean_weight(self) -> float:
        """Mean of the weights of the rows, weighted by themselves: sum w^2 / sum w; 1 without rows.

        Rows of equal weight that determine as much are sum w / mean = (sum w)^2 / sum w^2 rows.
        """
        _, weight, squared = self._tally.tolist()
        return float(squared / weight) if weight else 1.0

    products: SumsOfProducts = _attribute("_sums", "The sums of products, in one form.")
    rounding: Rounding = _attribute("_rounding", "Rounding errors that removals have left.")
    beside: Statistics | None = _attribute("_beside", "Those without rows that dwarf all others.")

    @property
    def is_centred(self) -> bool:
        """Whether rows are learnt about their mean."""
        return self._mean is not None

    @property
    def feature_mean(self) -> Floats:
        """Mean of the rows, (n_features,); 0 if rows are not centred."""
        return self._centre()[: self.n_features]

    @property
    def target_mean(self) -> Floats:
        """Mean of the targets, (n_targets,); 0 if rows are not centred."""
        return self._centre()[self.n_features :]

    @property
    def diagonal(self) -> Floats:
        """Weighted sum of squares of every feature, (n_features,), as a new array.

        With an intercept it is about the mean. It is 0 where only rounding errors can be left.
        """
        squares = self._sums.squares()
        squares[squares < MIN_SUM_OF_SQUARES] = 0.0
        return self._told(squares, slice(0, self.n_features))

    @property
    def target_squares(self) -> Floats:
        """Weighted sum of squares of every target, (n_targets,), as a new array; see `diagonal`."""
        return self._told(self._target_squares.copy(), slice(self.n_features, None))

    def _told(self, squares: Floats, columns: slice) -> Floats:
        """Return sums of squares, in place, with 0 where they cannot be told from rounding."""
        squares[squares <= MAX_ROUNDING * self._rounding.squares[columns]] = 0.0
        if self._mean is not None:
            squares[squares <= of_rounding(self._mean.value[columns], self.weight)] = 0.0
        return squares

    @property
    def dropped(self) -> Floats:
        """Sums of squares of features that count as constant, (n_features,); 0 for others."""
        return np.where(self.diagonal == 0.0, np.maximum(self._sums.squares(), 0.0), 0.0)

    @property
    def deviations(self) -> Floats:
        """Weighted standard deviation of every feature, (n_features,); about 0 if not centred.

        It is 0 where only rounding errors can be left, or where its square would leave the range of
        float64.
        """
        deviations: Floats = np.sqrt(self.diagonal / (self.weight or np.inf))
        deviations[deviations < MIN_DEVIATION] = 0.0
        return deviations

    def raw_squares(self) -> Floats:
        """Return the weighted sums of squares of features and targets, not about their means."""
        raw: Floats = self.squares() + self.weight * self._centre() ** 2
        return raw

    def largest_raw_squares(self) -> Floats:
        """Return `raw_squares` before removals.

        Up to the number of removals, and the root of the number of additions before.
        """
        largest: Floats = self._rounding.squares + self._rounding.weight * self._centre() ** 2
        return largest / EPS

    def held_targets(self, share: float = MAX_ROUNDING * EPS) -> Floats:
        """Return the raw sum of squares of every target, with 0 where little is left.

        Little is a share of the largest sum before a removal. For labels, the sums are the weights
        of the classes.
        """
        squares = self.raw_squares()
        squares[squares <= share * self.largest_raw_squares()] = 0.0
        return squares[self.n_features :]

    @property
    def are_zero(self) -> NDArray[np.bool_]:
        """Which features, then which targets, are 0 in every row that had a weight."""
        zero: NDArray[np.bool_] = self._prints[0] == 0
        return zero

    @property
    def are_gone(self) -> NDArray[np.bool_]:
        """Which features, then which targets, no row has left, nor any part of a row's weight."""
        most = GONE_TOLERANCE * self.largest_raw_squares()
        return self.are_zero & (self.raw_squares() <= most)

    @property
    def are_constant(self) -> NDArray[np.bool_]:
        """Which features, then targets, have one value in all these rows; 0 if not centred."""
        if self._mean is None:
            return self.are_zero
        n_rows = self.count - self._weightless
        return are_constant(self._prints, n_rows) | (n_rows <= 1)

    # Rows.

    def check_room(self, n_features: int, n_targets: int) -> None:
        """Raise ValueError if these numbers of features and targets can never fit into memory.

        The limit is the memory of the machine, or `ONLINELS_MEMORY_LIMIT` bytes.
        """
        if n_features > self.n_features or n_targets > self.n_targets:
            sizes = max(n_features, self.n_features), max(n_targets, self.n_targets)
            what = "Learning and solving {:,} features with {:,} targets"
            check_room(self.bytes_for(*sizes), what, *sizes, remedy=FEATURE_COUNT_REMEDY)

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes needed to learn and to solve for these numbers of columns."""
        return self._sums.bytes_for(n_features, n_targets) * (1 if self._beside is None else 2)

    def is_single(self, rows: Rows, decay: float) -> bool:
        """Return whether rows are one row that `onlinels.core` can learn.

        The first row is the mean. It is learnt as a batch; so is any row without columns or weight,
        or much heavier than the past.
        """
        if not (len(rows.targets) == 1 and rows.sign > 0.0 and self._sums.row_arrays()):
            return False
        is_plain = MUCH_HEAVIER * self.weight * decay >= float(rows.weights()[0]) > 0.0
        return bool(is_plain and self.n_features and self.n_targets)

    def plan(self, rows: Rows, decay: float = 1.0, following: Following | None = None) -> Calls:
        """Plan to decay all rows and to learn checked rows, in the statistics beside too.

        Nothing changes before the update is applied. Without new rows, the update only decays. If a
        recursion follows, it learns a single row too.
        """
        calls, beside = self._plan_rows(rows, decay, following), self._beside
        others = self if beside is None else beside
        apart = others.dwarfing(rows, decay)
        if beside is None:
            if not apart.any():
                return calls
            beside = self.without_folds().copied()
            calls = (*calls, (vars(self).update, {"_beside": beside}))
        return (*calls, *beside._plan_rows(rows.some(~apart), decay))

    def _plan_rows(self, rows: Rows, decay: float, following: Following | None = None) -> Calls:
        """Plan as `plan` does, in these sums alone."""
        if not self.is_single(rows, decay):
            return self._plan_many(rows, decay)
        sample = np.append(rows.values[0], rows.dense_targets(self.n_targets)[0])
        single = self.alone().single_rows(following=following, decay=decay, values=sample)
        calls = single.plan_sample(float(rows.weights()[0]))
        if self._rounding.weight and decay != 1.0:
            return (*calls, (vars(self).update, {"_rounding": self._rounding.scaled(decay)}))
        return calls

    def dwarfing(self, rows: Rows, decay: float) -> NDArray[np.bool_]:
        """Return which rows to learn dwarf all others, (n,): their removal would take digits.

        The square of such a row about the mean is, in some feature or target that varies,
        `MUCH_LARGER` than the sum over the other rows.
        """
        n_rows = len(rows.values)
        are_first = self.count < MIN_ROWS_DWARFED or decay < EPS
        if not are_first and self.weight < MIN_ROWS_DWARFED:  # Most of the past is forgotten.
            return np.zeros(n_rows, dtype=bool)
        if not n_rows or not self._sums.can_remove or (are_first and n_rows <= MIN_ROWS_DWARFED):
            return np.zeros(n_rows, dtype=bool)
        centre, squares = self._centre(), self._varying()
        if are_first:
            centre, squares = spread_of_first(rows, squares, self.is_centred)
        return beyond(rows, centre, np.where(squares > 0.0, MUCH_LARGER * squares, np.inf))

    def _centre(self) -> Floats:
        """Return the means of features and targets; 0 if rows are not centred."""
        return np.zeros(len(self._rounding.squares)) if self._mean is None else self._mean.value

    def _varying(self) -> Floats:
        """Return `squares`, with 0 where they cannot be told from rounding."""
        return np.concatenate((self.diagonal, self.target_squares))

    def single_rows(
        self,
        columns: dict[Any, Any] | None = None,
        outputs: tuple[Any, ...] = (None, ()),
        weights: Floats | None = None,
        following: Following | None = None,
        counts: Floats | None = None,
        constants: Floats | None = None,
        decay: float = 1.0,
        least_share: float = 0.0,
        values: Floats | None = None,
        learns: bool = True,
        forgets: bool = False,
    ) -> SingleRows:
        """Return what predicts and learns single rows, in the arrays of these statistics.

        Parameters
        ----------
        columns : dict, optional
            The columns of the names of dicts.
        outputs : tuple
            Columns of the labels and the labels, or a dict of columns of named targets and None, or
            two times None for one number.
        weights : ndarray (n_features, n_targets), optional
            Output weights for predictions if no recursion follows.
        following : Following
            The recursion that follows rows, and the marks of the model.
        counts, constants : ndarray (n_targets,), ndarray (n_features,), optional
            Numbers of rows by class; only values of features, NaN for features that vary.
        decay, least_share : float
            See `onlinels.core.reference.SingleRows`.
        values : ndarray (n_features + n_targets,), optional
            A row with its targets that is to be learnt; overwritten by rows that are read.
        learns, forgets : bool
            Whether rows may be learnt without other code; whether weights decay.
        """
        n_features, following = self.n_features, following or Following()
        recursion, (targets, labels) = following.recursion, outputs
        if targets and not all(is_one_of(LABEL_TYPES, name) for name in targets):
            targets = {}  # No row is known: the names may be compared by Python code.
        if labels is None and targets is not None:
            targets = reader_of(targets, self.n_targets)
        values = np.zeros(n_features + self.n_targets) if values is None else values
        beside = self._beside
        cross, *panels = self._sums.row_arrays() or (None,)
        return SingleRows(
            reader_of(columns or {}, n_features),
            targets,
            labels or (),
            LABEL_TYPES,
            (
                values,
                self._tally,
                *(self._mean or (None, None)),  # Origin and offset.
                cross if learns else None,
                self._target_squares,
                self._prints,
                # B, u, W, J, factors, D.
                *(recursion.arrays if recursion else (None, None, weights, None, None, None)),
                following.marks,
                counts,
                constants,
                *panels,
            ),
            decay,
            MAX_RUNNING_LEVERAGE,
            least_share,
            patience_of(n_features),
            recursion is not None and recursion.trust < 1.0,
            forgets,
            *(
                ()
                if beside is None or not learns
                else (beside.single_rows(decay=decay, values=values),)
            ),
        )

    def _plan_many(self, rows: Rows, decay: float) -> Calls:
        """Plan as `plan` does, for any number of rows."""
        w = rows.weights()
        past, added = self.weight * decay, rows.sign * float(w.sum())
        squared = decay**2 * float(self._tally[2]) + rows.sign * float(w @ w)
        mean, joining = self._mean, rows
        own = np.zeros(self.n_targets)
        if mean is None:
            own = rows.target_squares(self.n_targets)
        elif added and past + added > EMPTY_TOLERANCE * (past + abs(added)):
            # If the past has no weight, its rounding errors are dropped.
            decay = decay if past else 0.0
            share = past / (past + added)
            joining, theirs, own = centred(rows, self.n_targets, abs(added), mean, share)
            mean = mean.joined(theirs, past, added)
        else:
            # Rows without weight are only counted; a remainder without weight is dropped.
            joining = Rows.none(self.n_features)
            if added or decay == 0.0:
                past = added = decay = squared = 0.0
                mean = Mean.zero(len(mean.origin))
        squares = self._target_squares * decay + rows.sign * own
        calls = self._sums.plan_rows(joining, decay)
        n_rows, rounding = len(rows.targets), self._rounding.scaled(decay)
        had_weight = self._had_weight(rows)
        prints = rows.prints(self.n_targets, had_weight)
        n_after = self._tally[0] + rows.sign * n_rows
        if rows.sign > 0.0:
            rounding = rounding.after(n_rows)
        elif len(joining.values):
            before = decay * self.squares()
            out = np.concatenate((joining.squares(), before[self.n_features :] - squares))
            parts = before, out, past, -added, self.count, n_rows
            rounding = rounding.after_removal(*parts)
            # Rows that weigh less now than they are removed with would leave less than any rows do.
            squared = max(squared, (past + added) ** 2 / max(1.0, n_after))
        changes = {
            "_tally": np.maximum(0.0, [n_after, past + added, squared]),
            "_mean": mean,
            "_target_squares": squares,
            "_prints": self._prints + prints if rows.sign > 0.0 else self._prints - prints,
            "_weightless": self._weightless + int(rows.sign) * int((~had_weight).sum()),
            "_rounding": rounding,
        }
        return (*calls, (vars(self).update, changes))

    def _had_weight(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which rows have a weight, or had one when they were learnt."""
        had_weight = rows.weights() > 0.0
        if rows.sign < 0.0 and np.count_nonzero(~had_weight) > self._weightless:
            # Weights that have decayed to 0.
            had_weight = np.ones(len(had_weight), dtype=bool)
        return had_weight

    def squares(self) -> Floats:
        """Return the sums of squares of the features, followed by those of the targets."""
        return np.concatenate((self._sums.squares(), self._target_squares))

    def _check_holds(self, rows: Rows, weight: float, names: Names) -> None:
        """Raise ValueError if rows cannot be removed, or detectably exceed the rows learnt."""
        n_rows, (features, targets) = len(rows.targets), names
        if not self._sums.can_remove:
            raise ValueError(
                f'accumulator="{self._sums.form}" cannot remove rows: a triangular factor cannot '
                'do so stably. To unlearn rows, use accumulator="gram" from the first row on.'
            )
        if n_rows > self.count:
            raise ValueError(
                f"X has {n_rows} rows, expected at most the {self.count} learnt. "
                "Remove only rows that were learnt."
            )
        out = np.concatenate(([weight], rows.squares(), rows.target_squares(self.n_targets)))
        there = np.append(self.weight, self.raw_squares())
        earlier = np.append(self._rounding.weight / EPS, self.largest_raw_squares())
        excess = (out > there + REMOVAL_TOLERANCE * (np.abs(there) + earlier)) & (out > 0.0)
        if excess.any():
            place = int(excess.argmax())
            what, column = "weight of", place - 1
            if column >= self.n_features:
                what = f"sum of squares of target {targets[column - self.n_features]!r} in"
            elif column >= 0:
                what = f"sum of squares of feature {features[column]!r} in"
            raise ValueError(
                f"The {what} the rows to remove is {out[place]:g}, expected at most the "
                f"{max(0.0, there[place]):g} learnt. Remove only rows that were learnt, with "
                "their current weights."
            )
        left = self.weight - weight
        n_left = self.count - self._weightless - int(np.count_nonzero(self._had_weight(rows)))
        if n_left > 0 and self._rounding.hides(left, self.weight, self.count, n_rows):
            raise ValueError(
                f"The rows that would stay have the weight {left:g}, expected a weight that can be "
                f"told from the rounding of {weight:g}, the weight of the rows to remove. "
                f"{LEARN_AGAIN}"
            )

    # Rare changes, which make a new object.

    def copied(self) -> Self:
        """Return an independent copy."""
        return copy.deepcopy(self)

    def scaled(self, factor: float) -> Self:
        """Return a copy with the weight of every row multiplied by a factor."""
        new = self.copied()
        apply(new.plan(Rows.none(self.n_features), factor))
        return new

    def without(self, rows: Rows, names: Names) -> Self:
        """Return a copy without checked rows, and with features that only these had set to 0."""
        weight, rows = float(rows.weights().sum()), rows._replace(sign=-1.0)
        self._check_holds(rows, weight, names)
        new = self.copied()
        if len(rows.targets) == self.count and self.weight <= (1.0 + REMOVAL_TOLERANCE) * weight:
            # Everything, including rounding errors.
            vars(new).update(vars(Statistics(type(self._sums)(*self._sums.shape), self.is_centred)))
        else:
            apply(new._plan_many(rows, 1.0))
        rounding = REMOVAL_TOLERANCE * (np.abs(self.raw_squares()) + self.largest_raw_squares())
        _check_left(new.squares(), rounding, names)
        if new._mean is not None:
            # Exactly, whatever rounding has left.
            gone = new.are_gone
            new._mean = Mean(*(np.where(gone, 0.0, each) for each in new._mean))
        return new if new._beside is None else new._without_beside(rows, rounding, names)

    def _without_beside(self, rows: Rows, rounding: Floats, names: Names) -> Self:
        """Return these statistics, with those beside them without rows, or only those beside."""
        new, beside = self.alone(), self._beside
        assert beside is not None
        squares, centre = beside.squares(), beside._centre()
        # Any row that it holds has left as much, up to rounding of the squares and of the mean.
        limits = (1.0 + REMOVAL_TOLERANCE) * squares + of_rounding(centre, 16.0 * beside.weight)
        held = ~beyond(rows, centre, limits)
        if self.count + len(rows.values) - beside.count == 1:
            # The row apart may have been outgrown; its fingerprint is what the others lack.
            hashes = numbers_of(np.hstack((rows.values, rows.dense_targets(self.n_targets))))
            lacking = self._prints[0] + hashes.sum(axis=0) - beside._prints[0]
            (found,) = np.nonzero((hashes == lacking).all(axis=1))
            held = ~np.isin(np.arange(len(hashes)), found[:1])
        elif held.any() and self.mean_weight != 1.0 and self._is_rounded_beside(beside):
            return new  # Rows apart may have decayed, and be among these.
        try:
            beside = beside.without(rows.some(held), names) if held.any() else beside
        except ValueError:
            pass  # Some of the rows were not beside after all.
        else:
            if beside.count < self.count:
                new._beside = beside
                return new
        is_same = abs(self.weight - beside.weight) <= REMOVAL_TOLERANCE * beside.weight
        if beside.count == self.count and self._has_rows_of(beside):
            vars(new).update(vars(beside))
        elif beside.count == self.count and is_same:
            # Of the rows apart, nothing may be left.
            _check_left(-np.abs(self.squares() - beside.squares()), rounding, names)
        return new

    def alone(self) -> Self:
        """Return these statistics, without those beside."""
        new = shallow_copy(self)
        vars(new).pop("_beside", None)
        return new

    def _has_rows_of(self, beside: Statistics) -> bool:
        """Return whether fingerprints and weights of the rows are those beside."""
        same = bool((beside._prints == self._prints).all())
        return same and bool(np.isclose(beside.weight, self.weight, rtol=1e-6))

    def _is_rounded_beside(self, beside: Statistics) -> bool:
        """Return whether removed rows have left rounding that those beside do not have."""
        own = beside._varying()
        return bool((self._rounding.squares > GONE_TOLERANCE * own)[own > 0.0].any())

    @property
    def is_dwarfed(self) -> bool:
        """Whether rows that dwarf those beside are left for sure, whatever rounding hides."""
        if self._beside is None:
            return False
        own = self._beside._varying()
        return bool((self._varying() > MUCH_LARGER * own)[own > 0.0].any())

    @property
    def is_alone(self) -> bool:
        """Whether no row dwarfs the others any longer, so that these statistics may be `alone`."""
        beside = self._beside
        if beside is None or beside.weight <= EPS * self.weight:
            return True
        own = beside._varying()
        dwarf = bool((self.squares() > 2.0 * own)[own > 0.0].any())
        return not (dwarf or self._is_rounded_beside(beside))

    def grown(self, n_features: int, n_targets: int) -> Self:
        """Return statistics with room for features and targets that were 0 so far.

        `self` if it has the room; otherwise both objects share memory, and only one of them may
        learn afterwards.
        """
        size = self.n_features, self.n_targets
        if size[0] >= n_features and size[1] >= n_targets:
            return self
        return reindexed(self, Places.for_growth(size, (n_features, n_targets)))

    def named(self, names: Sequence[Name]) -> Self:
        """Return the statistics with the names of all features, by column; only folds need them."""
        return self

    def without_folds(self) -> Statistics:
        """Return the statistics of all rows; only `FoldedStatistics` have folds besides."""
        return self

    @ignoring("over")
    def check_joins(self, other: Any, n_features: int, n_targets: int) -> None:
        """Raise ValueError if the statistics of two streams cannot be added."""
        self.check_room(n_features, n_targets)
        squares = [np.split(one.raw_squares(), [one.n_features]) for one in (self, other)]
        largest = [sum(float(part.max(initial=0.0)) for part in each) for each in squares]
        if not sum(largest) < np.inf:
            raise ValueError(
                f"other has sums of squares of {largest[1]:g}, expected at most the largest "
                f"float64 together with the {largest[0]:g} here. Rescale features or weights of "
                "rows."
            )

    def absorb(self, other: Self) -> None:
        """Add checked statistics of at most as many columns, in place.

        No other object may use these statistics meanwhile, because the change is not made at once.
        """
        other = other.grown(self.n_features, self.n_targets)
        beside = self._joined_beside(other)
        self._add(other)
        if beside is not None:
            self._beside = beside

    def _joined_beside(self, other: Statistics) -> Statistics | None:
        """Return the sum of what stands beside two statistics, without what dwarfs it."""
        mine, theirs = (one if one._beside is None else one._beside for one in (self, other))
        ratios = mine._ratio_to(theirs), theirs._ratio_to(mine)
        if mine is self and theirs is other and max(ratios) <= MUCH_LARGER:
            return None
        if ratios[0] > ratios[1]:
            mine, theirs = theirs, mine
        total = mine.without_folds().alone().copied()
        if max(ratios) <= MUCH_LARGER:
            total._add(theirs)
        return total

    @ignoring("over")
    def _ratio_to(self, other: Statistics) -> float:
        """Return how much larger the squares of an average row here are than those of another part.

        0.0 if the other part has too few rows to be dwarfed.
        """
        if other.weight < MIN_ROWS_DWARFED or not self.weight or not self._sums.can_remove:
            return 0.0
        squares, others = self.squares() / self.weight, other._varying()
        squares += (self._centre() - other._centre()) ** 2
        ratios = np.divide(squares, others, out=np.zeros(len(others)), where=others > 0.0)
        return float(ratios.max(initial=0.0))

    def _add(self, other: Statistics) -> None:
        """Add statistics of as many columns, in place."""
        self._sums.add(other._sums)
        self._target_squares = self._target_squares + other._target_squares
        mean, weight, theirs = self._mean, self.weight, other.weight
        if mean is not None and other._mean is not None and theirs:
            # The sums learn the difference of both means as a row.
            difference = mean.difference(other._mean)[None]
            features, targets = np.split(difference, [self.n_features], axis=1)
            row = Rows(features, targets, weight * (theirs / (weight + theirs)))
            apply(self._sums.plan_rows(row, 1.0))
            self._target_squares += row.target_squares(self.n_targets)
            self._mean = mean.joined(other._mean, weight, theirs)
        self._rounding = self._rounding.joined(other._rounding, self.count, other.count)
        self._tally += other._tally
        self._weightless += other._weightless
        self._prints = self._prints + other._prints

    # Functions of the statistics.

    def augmented(self, rows: Rows) -> tuple[Floats, Floats, Floats]:
        """Return rows and targets for a recursion, in new arrays, and the means of the targets.

        With an intercept, rows and targets are about the mean, and a 1 follows each row.
        """
        values, targets = self.about_mean(rows.values), rows.dense_targets(self.n_targets)
        if self._mean is not None:
            for each in self._mean:
                targets -= each[self.n_features :]
            values = np.hstack((values, np.ones((len(values), 1))))
        return values, targets, self.target_mean

    def about_mean(self, rows: Matrix) -> Floats:
        """Return rows about their mean, in a new array, to the last digit."""
        about = np.array(rows, dtype=np.float64)
        for each in self._mean or ():
            about -= each[: self.n_features]
        return about

    def solve(self, ridge: float | Floats, diagonal: Floats) -> Floats:
        """Return the output weights W of (A'A + D) W = A'Y, with D = c I or any diagonal.

        Parameters
        ----------
        ridge : float, or ndarray (n_features,)
            The ridge c, or the penalty of every feature. 0.0 gives the pseudo-inverse solution of
            minimum norm.
        diagonal : ndarray (n_features,)
            Diagonal of A'A, with 0 for features that hold only rounding errors.

        Returns
        -------
        ndarray (n_features, n_targets), float64

        Raises
        ------
        TypeError, ValueError
            If `ridge` is not a number or an array of penalties.

        Notes
        -----
        For M features, ``M^3 / 3`` operations in the Gram form and ``2/3 M^3`` in the orthogonal
        form; see `onlinels.sums.solve` for these and the rank tolerance.
        `onlinels.LeastSquaresClassifier` describes when a model updates its solution instead.
        """
        weights = self._sums.solve(ridge, diagonal, self.count)
        if self._mean is not None:
            # These weights are rounding errors, which a small ridge would amplify.
            weights[:, self.target_squares == 0.0] = 0.0
        return weights

    def intercept(self, output_weights: Floats) -> Floats:
        """Return the intercept (n_targets,): the mean of the targets minus the mean of A W."""
        constant: Floats = self.target_mean - self.feature_mean @ output_weights
        return constant

    def covariance(self, ridge: float | Floats, diagonal: Floats) -> Covariance:
        """Return the covariance of the weights that `solve` returns for the same parameters.

        A feature without data, always 0 (with an intercept: constant), has the variance one over
        its penalty; without a penalty it has the variance 0. The intercept is one more parameter.
        """
        matrix, n_parameters = self._sums.covariance(ridge, diagonal)
        if self._mean is None:
            return Covariance(matrix, n_parameters)
        share = 1.0 / self.weight if self.weight else np.inf
        return Covariance(matrix, n_parameters + 1.0, self.feature_mean, share)

    def sums(self) -> Sums:
        """Return sums of products in new memory, for choosing a ridge.

        With an intercept, which is one more parameter, they are about the mean.
        """
        return Sums(
            *self._sums.gram_and_cross(), self.target_squares, self.weight, int(self.is_centred)
        )

    def row_sums(self) -> RowSums:
        """Return the sums of the rows about their means, or about 0 if they are not centred."""
        upper, cross = self._sums.gram_and_cross()
        gram = np.triu(upper) + np.triu(upper, 1).T
        none = np.zeros(self.n_features), np.zeros(self.n_targets)
        squares, means = self._target_squares.copy(), (self.feature_mean, self.target_mean)
        for each in (gram, cross, *none, squares, *means):
            each.flags.writeable = False
        return RowSums(gram, cross, *none, squares, self.weight, *means)

    def sums_about(self, centre: Self) -> Sums:
        """Return sums of products of the rows about the means of `centre`.

        They determine the squared error of any output weights. Without an intercept they are not
        centred.
        """
        sums = self.sums()
        if self._mean is None or centre._mean is None:
            return sums
        # If `centre` has no rows, its means are 0, and every prediction is 0.
        difference = centre._mean.difference(self._mean)
        features, targets = np.split(difference, [self.n_features])
        return replace(
            sums,
            gram=sums.gram + self.weight * np.outer(features, features),
            cross=sums.cross + self.weight * np.outer(features, targets),
            target_squares=sums.target_squares + self.weight * targets**2,
        )


SECONDS_OF_PAIR, SECONDS_OF_ENTRY, SECONDS_OF_PRODUCT = 5e-9, 1.5e-8, 2.5e-11
"""Cost of sparse products per pair of entries of a row, and per entry of the Gram; and cost of a
dense product per multiplication. Measured for 300 to 8,000 columns.
"""

MAX_MEAN_SHARE = 0.5
"""Share of the sum of squares of a column that its mean may have: centring then loses one bit.

Columns above it, most of whose entries are not 0, are centred as an array.
"""


def takes_sparse(statistics: Any, rows: Any) -> bool:
    """Return whether statistics learn rows faster by sparse products.

    Examples
    --------
    >>> rows = sparse.random_array((2000, 1000), density=0.01, format="csr", rng=0)
    >>> empty = Statistics(GramSums(), True)
    >>> takes_sparse(empty, rows), takes_sparse(empty, rows[:5])
    (True, False)
    """
    if not isinstance(rows, SPARSE_TYPES) or type(statistics.products) is not GramSums:
        return False
    n_rows, n_columns = rows.shape
    pairs = float((np.diff(rows.indptr).astype(np.float64) ** 2).sum())
    dense = SECONDS_OF_PRODUCT * n_rows * n_columns**2
    return bool(SECONDS_OF_PAIR * pairs + SECONDS_OF_ENTRY * n_columns**2 < dense)


def sums_of_sparse(
    rows: Any, targets: Any, w: Floats, n_targets: int, is_centred: bool
) -> Statistics:
    """Return statistics in the Gram form of some sparse rows.

    Parameters
    ----------
    rows : csr_array (n, n_features)
        The rows.
    targets : ndarray (n,) of int, or (n, n_targets)
        Column of the label, or targets, of every row.
    w : ndarray (n,)
        Weights of the rows.
    n_targets : int
        Number of targets.
    is_centred : bool
        Whether the sums are about the means.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 3.0]]))
    >>> y, w = np.array([[2.0], [4.0]]), np.ones(2)
    >>> np.triu(sums_of_sparse(rows, y, w, 1, is_centred=True).sums().gram)
    array([[ 0.5, -1.5],
           [ 0. ,  4.5]])
    """
    weight, n_features, used = float(w.sum()), rows.shape[1], w > 0.0
    sums = GramSums(n_features, n_targets)
    made = Statistics(sums, is_centred)
    made._tally[:] = len(w), weight, w @ w
    made._weightless = len(w) - int(np.count_nonzero(used))
    made._prints = np.hstack((sparse_prints(rows[used]), target_prints(targets[used], n_targets)))
    if not weight:
        return made
    rows, mean, filled = rows.astype(np.float64), np.zeros(n_features), np.empty(0, dtype=np.intp)
    if is_centred:
        mean = w @ rows / weight
        filled = np.flatnonzero(weight * mean**2 > MAX_MEAN_SHARE * (w @ rows.power(2)))
    # Filled columns and targets are centred as arrays; for the other columns the product of the
    # means is subtracted.
    beside, target_mean = Rows(rows[:, filled].toarray(), targets, w), np.zeros(n_targets)
    made._target_squares = beside.target_squares(n_targets)
    if is_centred:
        nothing = Mean.zero(len(filled) + n_targets)
        beside, centre, made._target_squares = centred(beside, n_targets, weight, nothing, 0.0)
        mean[filled], target_mean = np.split(centre.value, [len(filled)])
        made._mean = Mean(np.concatenate((mean, target_mean)), np.zeros(n_features + n_targets))
    array, targets = beside.values, beside.targets
    if targets.ndim == 1:
        shape = len(targets), n_targets
        outputs = sparse.csr_array((w, (np.arange(len(targets)), targets)), shape=shape)
    else:
        # About their mean already.
        outputs, target_mean = targets * w[:, None], np.zeros(n_targets)
    is_sparse = np.ones(n_features)
    is_sparse[filled] = 0.0
    about = (rows * is_sparse).tocsr()
    weighted, shift = (about * w[:, None]).tocsr(), mean * is_sparse
    of_filled = weighted.T @ array
    of_filled[filled] = product(array.T, array * w[:, None])
    for panel in sums.gram.panels:
        stop, own = panel.columns.stop, panel.columns
        block = (about[:, :stop].T @ weighted[:, own]).toarray()
        block -= np.outer(weight * shift[:stop], shift[own])
        here, above = filled[(filled >= own.start) & (filled < stop)], filled < stop
        block[:, here - own.start] = of_filled[:stop, np.isin(filled, here)]
        block[filled[above]] = of_filled[own, above].T
        panel.above[:], panel.corner[:] = block[: panel.start], np.triu(block[panel.start :])
    sums.cross[:] = dense(about.T @ outputs) - np.outer(weight * shift, target_mean)
    sums.cross[filled] = (outputs.T @ array).T
    return made


def sparse_prints(rows: Any) -> Prints:
    """Return the fingerprints of the columns of sparse rows."""
    numbers = numbers_of(rows.data.astype(np.float64, copy=False))
    sums = np.zeros((2, rows.shape[1]), np.uint64)
    np.add.at(sums[0], rows.indices, numbers)
    np.add.at(sums[1], rows.indices, numbers * numbers)
    return sums
