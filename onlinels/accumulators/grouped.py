"""Statistics kept apart by groups of rows, and solved together: by classes, or in folds."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onlinels.accumulators.base import LEDGER, Accumulator, Names, Rows, answer_of
from onlinels.checks import (
    TOO_MANY_FEATURES,
    Floats,
    Integers,
    Matrix,
    check_count,
    check_matrix,
)
from onlinels.linalg.recursion import Recursion
from onlinels.linalg.selection import (
    AS_ACCURATE,
    NOTHING_LEFT,
    Choice,
    Sums,
    best_of,
    exponents,
    held_out_errors,
    in_units,
    no_choice,
    reciprocal,
)
from onlinels.numerics import Calls, State, Update, joined, shallow_copy
from onlinels.rows import Name, feature_key, key_text
from onlinels.saving import WHOLE, array, is_instance, listed, maybe, savable

LIGHTEST = 1e-200
"""Share of all weight up to which a class has none: its sums have lost their digits."""

Hashes = NDArray[np.uint64]

BLOCK_VALUES = 1 << 16
"""Values hashed at once: they stay in the cache."""

MULTIPLIERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
SHIFTS = np.array([30, 27, 31], dtype=np.uint64)
"""Both of the finaliser of SplitMix64."""

DROPPED = np.uint64(29)
"""Binary digits of a float64 that a float32 lacks."""

HALF = np.uint64(1 << 28)
"""Half of the last digit that is kept."""

GROUPED = {
    **LEDGER,
    "_prototype": is_instance(Accumulator),
    "_members": listed(is_instance(Accumulator)),
    "_sum": maybe(is_instance(Accumulator)),
}


def _is_sound(acc: Any) -> bool:
    members = [acc._prototype, *acc._members]
    same = len({type(member) for member in members}) == 1
    return same and all(member.n_features == acc.n_features for member in members)


class GroupedAccumulator(Accumulator):
    """Learn every row into the accumulator of its group; what is solved is made of all of them.

    Parameters
    ----------
    make : callable
        Returns empty statistics.
    n_groups : int
    """

    _group_name = "class"

    def __init__(self, make: Callable[[], Accumulator], n_groups: int) -> None:
        self._prototype = make()
        self._members = [copy.deepcopy(self._prototype) for _ in range(n_groups)]
        # What is solved, until something changes.
        self._sum: Accumulator | None = None
        super().__init__(self._prototype.n_features, self._prototype.n_targets)

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes that it takes to learn and to solve so many features and targets."""
        return (len(self._members) + 1) * self._prototype.bytes_for(n_features, n_targets)

    @abstractmethod
    def _groups(self, rows: Rows) -> Integers:
        """Return the group of every row, (n,)."""

    @abstractmethod
    def _summed(self) -> Accumulator:
        """Return a new accumulator of what is solved."""

    @property
    def total(self) -> Accumulator:
        """What is solved. It is kept until something changes; do not change it."""
        if self._sum is None:
            self._sum = self._summed()
        return self._sum

    @property
    def weight(self) -> float:
        """Total weight of the rows learnt, as it counts now."""
        return sum(member.weight for member in self._members)

    target_squares = answer_of("total.target_squares")
    diagonal = answer_of("total.diagonal")
    intercept = answer_of("total.intercept")
    is_centred = answer_of("_prototype.is_centred")
    deviations = answer_of("total.deviations")
    feature_mean = answer_of("total.feature_mean")
    sums = answer_of("total.sums")
    solve = answer_of("total.solve")
    covariance = answer_of("total.covariance")
    explained_squares = answer_of("total.explained_squares")
    _check_subtracts = answer_of("_prototype._check_subtracts")

    def _raw_squares(self) -> tuple[Floats, Floats]:
        return self._added("_raw_squares")

    def _squares_taken(self) -> tuple[Floats, Floats]:
        return self._added("_squares_taken")

    def _added(self, name: str) -> tuple[Floats, Floats]:
        """Return the sums over all groups of what a method tells of features and of targets."""
        told = [getattr(each, name)() for each in (self._prototype, *self._members)]
        features, targets = (np.sum(each, axis=0) for each in zip(*told, strict=True))
        return features, targets

    def plan_row(
        self,
        sample: Floats,
        w: float = 1.0,
        decay: float = 1.0,
        solution: Recursion | None = None,
    ) -> tuple[Calls, State]:
        """Plan to let all groups decay and to learn one row in its group."""
        (group,) = self._groups(self._row_of(sample, w)).tolist()
        changes = [self._members[group].plan_row(sample, w, decay)]
        if decay != 1.0:
            changes += self._plan_decay({group}, decay)
        total = self.total if solution is not None else None
        if total is not None:
            # What a solution of the sum follows has to be in the sum, too.
            changes.append(total.plan_row(sample, w, decay, solution))
        calls, state = joined(*changes)
        return calls, (*state, (self, "_count", self._count + 1), (self, "_sum", total))

    def _plan_many(self, rows: Rows, decay: float) -> tuple[Calls, State]:
        groups = self._groups(rows) if len(rows.targets) else np.zeros(0, dtype=np.intp)
        present = set(np.unique(groups).tolist())
        changes = [self._members[k].plan(rows.some(groups == k), decay) for k in present]
        calls, state = joined(*changes, *self._plan_decay(present, decay))
        count = self._count + int(rows.sign) * len(rows.targets)
        return calls, (*state, (self, "_count", count), (self, "_sum", None))

    def _plan_decay(self, others: set[int], decay: float) -> list[tuple[Calls, State]]:
        """Plan to let all groups decay but some."""
        fading = [each for k, each in enumerate(self._members) if k not in others]
        return [each.fading(decay) for each in fading if decay != 1.0]

    def clearing(self) -> tuple[Calls, State]:
        """Return the update by which nothing is left in any group."""
        nothing = joined(*(member.clearing() for member in self._members))
        return joined(nothing, Update(state=((self, "_count", 0), (self, "_sum", None))))

    def _plan_sums(self, rows: Rows, decay: float) -> tuple[Calls, State]:
        return self._plan_many(rows, decay)

    def check_holds(self, other: Self) -> None:
        """Raise if statistics to be taken out are not in, group by group."""
        for number, theirs in enumerate(other._members):
            mine = self._members[number] if number < len(self._members) else self._prototype
            mine.check_holds(theirs)

    def _check_kind(self, other: Any) -> None:
        super()._check_kind(other)
        self._prototype._check_kind(other._prototype)

    def removal(
        self, rows: Rows, n_targets: int, names: Names = ((), ())
    ) -> tuple[Self, tuple[Calls, State]]:
        """Return statistics, and the update by which every group is without its rows."""
        self._check_subtracts()
        size = rows.values.shape[1], max(n_targets, self._n_targets)
        grown = shallow_copy(self.grown(*size))
        grown._members = grown._members.copy()
        groups, updates = grown._groups(rows), []
        for number in np.unique(groups).tolist():
            chosen = rows.some(groups == number)
            try:
                member, update = grown._members[number].removal(chosen, n_targets, names)
            except ValueError as error:
                raise ValueError(f"In {self._group_name} {number} {error}") from error
            grown._members[number] = member
            updates.append(update)
        count = grown._count - len(rows.targets)
        new: State = ((grown, "_count", count), (grown, "_sum", None))
        return grown, joined(*updates, Update(state=new))

    def absorb(self, other: Self, w: float) -> None:
        """Add checked statistics, or take them away, group by group, in place."""
        for mine, theirs in zip(self._members, other._members, strict=False):
            mine.absorb(theirs, w)
        self._count += other._count if w > 0.0 else -other._count
        self._sum = None

    def _absorb_sums(self, other: Self, w: float) -> None:
        self.absorb(other, w)

    def _rearrange_sums(self, features: Integers, targets: Integers) -> None:
        places = features, targets, self._n_features, self._n_targets
        self._prototype, *self._members = [
            each.rearranged(*places) for each in (self._prototype, *self._members)
        ]
        self._sum = None

    def _keep_sums(self, columns: Integers) -> None:
        self._prototype, *self._members = [
            each.with_targets(columns) for each in (self._prototype, *self._members)
        ]
        self._sum = None

    def sums_about(self, centre: Self) -> Sums:
        """Return the sums of products of what is solved; see `Accumulator.sums_about`."""
        return self.total.sums_about(centre.total)


def added(parts: Sequence[Accumulator]) -> Accumulator:
    """Return a new accumulator that has learnt the rows of all parts."""
    total = copy.deepcopy(parts[0])
    for part in parts[1:]:
        total.absorb(part, 1.0)
    return total


def balancing_factors(weights: Floats) -> Floats:
    """Return n / (K n_k) of every class k, by which classes of any weight n_k count alike.

    Classes, the last axis, do not count without weight.

    Examples
    --------
    >>> balancing_factors(np.array([30.0, 10.0, 0.0]))
    array([0.66666667, 2.        , 0.        ])
    """
    totals = weights.sum(axis=-1, keepdims=True)
    present = weights > LIGHTEST * np.maximum(totals, 0.0)
    shares = present.sum(axis=-1, keepdims=True) * weights
    factors: Floats = np.divide(totals, shares, out=np.zeros(weights.shape), where=present)
    return factors


@savable(GROUPED, _is_sound)
class ClasswiseAccumulator(GroupedAccumulator):
    """Keep statistics for every class; what is solved weighs all classes alike.

    Solved is the sum over classes k of statistics S_k times n / (K n_k), for n_k the weight of
    the rows of class k, n that of all rows, and K the number of classes with weight. That is the
    batch solution on the same rows with every row's weight multiplied by n / (K n_k), whose n_k
    are those of now: no row needs to know how frequent its class is going to be.

    `weight` is that of the rows as they came; `target_squares`, `diagonal`, `sums` and
    everything that is solved are those of rows balanced in this way, whose total weight is n too.

    Parameters
    ----------
    make : callable
        Returns a new, empty accumulator of a kind whose ridge enters at solve time; rows and an
        intercept's means are balanced alike.

    Notes
    -----
    Memory: K times that of one accumulator, and once more for the balanced sum while it is in use.
    Learning costs what it costs without classes. The sum is made when something is first asked for
    after learning: ``2 K M^2`` operations for M features in the Gram form, up to ``2 K M^3`` in the
    orthogonal form.

    A class whose weight has decayed to 1e-200 of all counts as one without weight, which adds
    nothing.

    Examples
    --------
    >>> from onlinels.accumulators.gram import GramAccumulator
    >>> acc = ClasswiseAccumulator(GramAccumulator)
    >>> acc.update(np.array([[1.0], [1.0], [1.0], [2.0]]), np.array([0, 0, 0, 1]))
    >>> acc.total.gram, acc.total.cross, acc.weight
    (array([[10.]]), array([[2., 4.]]), 4.0)
    """

    room_remedy = 'Set balance="priors", which keeps statistics once. ' + TOO_MANY_FEATURES

    def __init__(self, make: Callable[[], Accumulator]) -> None:
        super().__init__(make, 0)
        self._members = [copy.deepcopy(self._prototype) for _ in range(self._n_targets)]

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes that it takes to learn and to solve so many features and targets."""
        return (n_targets + 1) * self._prototype.bytes_for(n_features, n_targets)

    def _groups(self, rows: Rows) -> Integers:
        labels = rows.targets if rows.targets.ndim == 1 else rows.targets.argmax(axis=1)
        return labels.astype(np.intp)

    def _summed(self) -> Accumulator:
        held = [member.held_targets()[column] for column, member in enumerate(self._members)]
        total, factors = copy.deepcopy(self._prototype), balancing_factors(np.array(held))
        with np.errstate(over="ignore", invalid="ignore"):
            for member, factor in zip(self._members, factors.tolist(), strict=True):
                if factor > 0.0:
                    total.absorb(member, factor)
            squares = total._raw_squares()
        if not all(np.isfinite(sums).all() for sums in squares):
            raise ValueError(
                f"balanced, a class would weigh {factors.max():.1g} times what it does, and sums "
                "of squares would exceed float64, expected less. Rescale features or weights of "
                'rows, or set balance="priors".'
            )
        return total

    def _read(self, activations: Matrix, targets: Matrix, w: Any) -> tuple[Rows, int]:
        rows, n_targets = super()._read(activations, targets, w)
        if rows.targets.ndim != 1:
            raise ValueError(
                f"targets has shape {rows.targets.shape}, expected ({len(rows.targets)},): a row "
                "belongs to one class. Pass the integer columns of the labels."
            )
        return rows, n_targets

    def _rearrange_sums(self, features: Integers, targets: Integers) -> None:
        super()._rearrange_sums(features, targets)
        known = dict(zip(targets.tolist(), self._members, strict=True))
        columns = range(self._n_targets)
        self._members = [known.get(k) or copy.deepcopy(self._prototype) for k in columns]

    def _keep_sums(self, columns: Integers) -> None:
        super()._keep_sums(columns)
        self._members = [self._members[column] for column in columns]
        self._count = sum(member.count for member in self._members)


def _are_sound_folds(acc: Any) -> bool:
    enough = len(acc._members) > 1 and acc._n_named <= len(acc._hashes) == acc.n_features
    return enough and _is_sound(acc)


@savable({**GROUPED, "_hashes": array("u8", 1), "_n_named": WHOLE}, _are_sound_folds)
class FoldedAccumulator(GroupedAccumulator):
    """Keep rows in K accumulators, chosen by their content; their sum is what is solved.

    A row's fold is a function of its features' names and values (`fold_of_rows`).
    So folds of two streams merge, and a row that is taken out leaves the fold that it went to.

    Parameters
    ----------
    make : callable
        Returns a new, empty accumulator, for every fold.
    n_folds : int
        K, at least 2.

    Notes
    -----
    K times the memory of one accumulator, and that of one more while the sum is in use. Learning
    costs what it costs without folds, and 5 to 15 ns for every value.

    Columns are named 0, 1, … until `named` says otherwise.

    Examples
    --------
    >>> from onlinels.accumulators.gram import GramAccumulator
    >>> acc = FoldedAccumulator(GramAccumulator, n_folds=3)
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(60, 2))
    >>> acc.update(X, X @ [[2.0], [3.0]] + random.normal(size=(60, 1)))
    >>> acc.select_ridge(standardised=False).ridge < 1.0, acc.count
    (True, 60)
    """

    _group_name = "fold"

    def __init__(self, make: Callable[[], Accumulator], n_folds: int) -> None:
        check_count("n_folds", n_folds, 2)
        super().__init__(make, n_folds)
        self._hashes = name_hashes(range(self._n_features))
        self._n_named = 0

    @property
    def n_folds(self) -> int:  # type: ignore[override]
        """Number K of folds."""
        return len(self._members)

    recursion_of = answer_of("total.recursion_of")
    augmented = answer_of("total.augmented")
    refine = answer_of("total.refine")
    scores_by = answer_of("total.scores_by")

    def unfolded(self) -> Accumulator:
        """Return the sum of the folds as a new accumulator."""
        return self._summed()

    def _summed(self) -> Accumulator:
        return added(self._members)

    def named(self, names: Sequence[Name]) -> Self:
        """Return it with the names of all features, in the order of their columns."""
        if len(names) != self._n_features:
            raise ValueError(
                f"names has {len(names)} names, expected {self._n_features}. "
                "Name every feature, after room was made for it."
            )
        if self._n_named >= len(names):
            return self
        new = shallow_copy(self)
        hashes = self._hashes[: self._n_named], name_hashes(names[self._n_named :])
        new._hashes, new._n_named = np.concatenate(hashes), len(names)
        return new

    def _groups(self, rows: Rows) -> Integers:
        known, needed = self._hashes, rows.values.shape[1]
        if needed > len(known):
            # Columns beyond those known count by their number.
            known = np.concatenate([known, name_hashes(range(len(known), needed))])
        return hashed_folds(known, rows.values, self.n_folds)

    def _check_kind(self, other: Any) -> None:
        super()._check_kind(other)
        if other.n_folds != self.n_folds:
            raise ValueError(
                f"other has {other.n_folds} folds, expected {self.n_folds}. "
                "Combine accumulators with as many folds."
            )

    def _rearrange_sums(self, features: Integers, targets: Integers) -> None:
        super()._rearrange_sums(features, targets)
        if not np.array_equal(features, np.arange(len(features))):
            self._n_named = 0
        hashes, others = self._hashes, np.setdiff1d(np.arange(self._n_features), features)
        self._hashes = np.empty(self._n_features, dtype=np.uint64)
        self._hashes[features], self._hashes[others] = hashes, name_hashes(others.tolist())

    def select_ridge(self, standardised: bool) -> Choice:
        """Return the ridge of the smallest squared error on held-out folds.

        1.0 if there is no feature; all errors being within rounding, the largest that is searched.

        Parameters
        ----------
        standardised : bool
            Whether the ridge is on features in units of their deviations in the training folds.
        """
        total = self.total
        diagonal = total.diagonal
        if standardised:
            diagonal = np.full(np.count_nonzero(diagonal), total.weight)
        with np.errstate(over="ignore"):  # Of squares beyond float64; ridges end before.
            first, last = exponents(float(np.linalg.norm(diagonal)))
        squares = float(total.target_squares.sum())
        if first == last or squares <= 0.0:
            return no_choice(last)
        errors = cross_validation_errors(self._members, standardised)
        return best_of(
            lambda ridges: np.log(np.maximum(errors(ridges), NOTHING_LEFT * squares)),
            first,
            last,
            AS_ACCURATE,
        )


def cross_validation_errors(
    folds: Sequence[Accumulator], standardised: bool = False
) -> Callable[[Floats], Floats]:
    """Return what gives every ridge's sum of squared errors on folds held out in turn.

    For each fold, weights come from the rows of all others, and the weighted squared errors on the
    rows of the fold are summed, over all targets: e = |y|^2 - 2 w'A'y + w'A'A w needs no row.

    Parameters
    ----------
    folds : sequence of Accumulator
        Of one kind, and of one size.
    standardised : bool
        Whether the ridge is on features in units of their deviations in the training folds.

    Returns
    -------
    callable
        Of ridges (n_ridges,) over 0; it returns an array as long.

    Notes
    -----
    For every fold one eigendecomposition and two products of M x M matrices, about 14 M^3
    operations, and 2 M^2 N for every ridge.

    References
    ----------
    M. Stone, "Cross-validatory choice and assessment of statistical predictions", Journal of the
    Royal Statistical Society B 36 (1974).

    Examples
    --------
    >>> from onlinels.accumulators.gram import GramAccumulator
    >>> folds = [GramAccumulator(), GramAccumulator()]
    >>> folds[0].update(np.array([[1.0]]), np.array([[2.0]]))
    >>> folds[1].update(np.array([[1.0]]), np.array([[4.0]]))
    >>> cross_validation_errors(folds)(np.array([1.0]))
    array([9.])
    """
    parts = []
    with np.errstate(over="ignore", invalid="ignore"):  # Beyond float64 is too much.
        for number, held_out in enumerate(folds):
            if held_out.weight > 0.0:
                train = added([*folds[:number], *folds[number + 1 :]])
                sums = train.sums_about(train), held_out.sums_about(train)
                if standardised:
                    factors = reciprocal(train.deviations)
                    sums = in_units(sums[0], factors), in_units(sums[1], factors)
                parts.append(held_out_errors(*sums))

    def errors(ridges: Floats) -> Floats:
        """Return the sums of all folds."""
        with np.errstate(over="ignore", invalid="ignore"):
            total: Floats = np.sum([part(ridges) for part in parts], axis=0) + np.zeros(len(ridges))
        total[np.isnan(total)] = np.inf
        return total

    return errors


def fold_of_rows(names: Iterable[Name], values: Matrix, n_folds: int) -> Integers:
    """Return the fold of every row: a function of its features' names and values alone.

    A row's hash is the sum over its features that are not 0 of a mixed 64-bit hash of name and
    value, modulo 2^64. So neither the order of the columns counts, nor features that are absent or
    0, nor label and weight. Values count to 24 binary digits, so neither does the dtype (float32 or
    float64), nor the last digits in which a row transformed alone differs from one in a batch.

    Parameters
    ----------
    names : iterable of n_features names
        See `onlinels.rows.feature_key` for which of them stand for one feature.
    values : ndarray (n, n_features), any real dtype
    n_folds : int

    Returns
    -------
    ndarray (n,) of int
        From 0 to below `n_folds`.

    Raises
    ------
    TypeError, ValueError
        If the values are no matrix of finite numbers, or a name has no spelling of its own.

    Notes
    -----
    Equal rows come into one fold, as a row and its repetition should: held-out rows are then not
    among those trained on. 5 to 15 ns a value.

    References
    ----------
    G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators",
    OOPSLA 2014 (the mixing function).

    Examples
    --------
    >>> rows = np.arange(12.0).reshape(6, 2)
    >>> fold_of_rows(["a", "b"], rows, n_folds=3)
    array([0, 0, 1, 2, 0, 0])
    >>> fold_of_rows(["b", "absent", "a"], rows[:2, [1, 1, 0]] * [1, 0, 1], n_folds=3)
    array([0, 0])
    """
    return hashed_folds(name_hashes(names), check_matrix("values", values), n_folds)


def name_hashes(names: Iterable[Name]) -> Hashes:
    """Return a 64-bit hash of every feature's name, the same in every process."""
    texts = (key_text(feature_key(name)) for name in names)
    digests = [blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def hashed_folds(hashes: Hashes, values: Matrix, n_folds: int) -> Integers:
    """Return the fold of every row (n,), given the hashes (n_features,) of its features' names."""
    sums = np.zeros(len(values), dtype=np.uint64)
    step = max(1, BLOCK_VALUES // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        block = np.ascontiguousarray(values[start : start + step], dtype=np.float64)
        # Bits of values rounded to the 24 digits of a float32, in a float64's range.
        rounded = (block.view(np.uint64) + HALF) >> DROPPED
        mixed = _mixed(_mixed(rounded) + hashes)
        mixed[block == 0.0] = 0
        sums[start : start + step] = mixed.sum(axis=1, dtype=np.uint64)
    folds: Integers = (_mixed(sums) % np.uint64(n_folds)).astype(np.intp)
    return folds


def _mixed(bits: Hashes) -> Hashes:
    """Return bits spread over all 64 places."""
    bits = (bits ^ (bits >> SHIFTS[0])) * MULTIPLIERS[0]
    bits = (bits ^ (bits >> SHIFTS[1])) * MULTIPLIERS[1]
    mixed: Hashes = bits ^ (bits >> SHIFTS[2])
    return mixed
