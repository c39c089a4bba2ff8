"""Recursive least squares: weights that are up to date after every row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh

from onlinels.accumulators.base import (
    LEDGER,
    RESIDUE,
    Accumulator,
    Covariance,
    Rows,
    adding_squares,
    has_sound_sizes,
)
from onlinels.accumulators.gram import GramAccumulator
from onlinels.checks import Floats, Integers, checked_assignment
from onlinels.linalg.recursion import EPS, FAINTEST, Recursion
from onlinels.linalg.selection import Sums, check_penalties, check_ridge
from onlinels.linalg.sketch import GramSketch
from onlinels.linalg.solve import ridge_and_units
from onlinels.numerics import Calls, State, enlarged, shallow_copy
from onlinels.saving import VECTOR, made_of, savable

FAINT = 1e-9
"""Ridge, relative to the one inside, below which it is checked that the digits suffice for it."""


def _is_sound(acc: Any) -> bool:
    if (acc._gram is None) == (acc.recursion is None):
        return False
    inner = acc._gram or acc.recursion
    sketched = acc._sketch.n_features, acc._sketch.n_targets
    return has_sound_sizes(acc, (inner.n_features, inner.n_targets), sketched)


@savable(
    {
        **LEDGER,
        "_gram": made_of(GramAccumulator, type(None)),
        "recursion": made_of(Recursion, type(None)),
        "_squares": VECTOR,
        "_sketch": made_of(GramSketch),
    },
    _is_sound,
)
class RecursiveAccumulator(Accumulator):
    """Keep (A'A + D)^-1 and the output weights, for streams that predict and learn row by row.

    A row x with target y and weight w gives the gain g = P x / (1/w + x'P x), the inverse
    P - g x'P and the weights W + g (y - x'W). Nothing is solved when weights are asked for. After
    any rows,

        W = argmin sum_i w_i ||y_i - x_i'W||^2 + d ||W||^2,

    where w_i is what the row's weight has decayed to, and D = d I: d is c unless something was
    forgotten.

    Parameters
    ----------
    n_features : int
        Columns of the activations known beforehand. More may come at any time.
    n_targets : int
        Targets (classes) known beforehand. More may come at any time.
    ridge : float, optional
        The ridge c > 0. Until it is known, here or by `fix_ridge`, rows are held as a Gram.

    Notes
    -----
    Memory: ``8 * (M^2 + 64 M + M N)`` bytes for M features and N targets. A row costs about
    ``3 M^2 + 4 M N`` operations; in a batch of over M rows it is ``M^2``, and ``2 M^3`` for the
    batch. Solving for the ridge inside costs a copy. Another ridge, `merge`, `subtract`,
    `sums` and a new `fix_ridge` go by way of A'A = P^-1 - D, in a few ``M^3`` operations. So
    long as no ridge is known each solution costs ``M^3 / 3``, as in the Gram form.

    Prefer the Gram where weights are asked for once in more than about M/10 rows, where ridges are
    compared, and where features differ by many orders of magnitude: a direction in which A'A has
    grown to s keeps about ``16 - log10(s / c)`` digits, and taking rows out needs as many again; so
    does `merge`, which goes by way of A'A and is not checked. Rows that outweigh what is known in a
    direction by 1e14 raise. So do rows to be taken out after which fewer than six digits of the
    weights would be right: P and W are compared with a `GramSketch`, which learns every row beside
    them, so the digits lost by all earlier rows count, too. The comparison costs ``32 M^2``
    operations for each call that takes rows out, and 32 vectors of memory.
    The minimum-norm solution (ridge 0) is not to be had.

    Forgetting: data and ridge decay alike, and once the ridge d is below c/2 it is brought back to
    c, for all features at once; `ridge_diagonal` shows it. That costs about ``3 M^3`` operations,
    once in log(1/2) / log(lambda) rows with a decay of lambda a row: at lambda = 1 - 1/M
    ``4.3 M^2`` a row in the mean, at factors below a half ``3 M^3`` with every row, where the
    Gram form costs less. `scale` does the same at once; by a factor below 1e-6 or over 1 it goes
    by way of A'A, and the ridge is c afterwards. A feature that comes late has the ridge of all
    others: as if known from the start.

    References
    ----------
    A. Bjorck, "Numerical Methods for Least Squares Problems" (1996), section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> acc = RecursiveAccumulator(ridge=1.0)
    >>> acc.update(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[4.0], [5.0]]))
    >>> acc.solve(ridge=1.0).ravel()
    array([2., 2.])
    """

    __setattr__ = checked_assignment

    # It is inside once it is known.
    holds_ridge = True
    by_column = ("_squares",)

    def __init__(self, n_features: int = 0, n_targets: int = 0, ridge: float | None = None) -> None:
        super().__init__(n_features, n_targets)
        # Sums of squares of the features and, after them, of the targets.
        self._squares = np.zeros(n_features + n_targets)
        # Beside a recursion: it shows how many digits of the recursion are right.
        self._sketch = GramSketch(n_features, n_targets)
        # One of the two: the sums, until a ridge is known; then the recursion.
        self._gram: GramAccumulator | None = None
        vars(self)["recursion"] = None
        if ridge is None:
            self._gram = GramAccumulator(n_features, n_targets)
        else:
            check_fixable(ridge)
            self.recursion = Recursion(n_features, n_targets, float(ridge))

    @property
    def fixed_ridge(self) -> float | None:  # type: ignore[override]
        """The ridge c inside the statistics; None while they are held as a Gram."""
        return None if self.recursion is None else self.recursion.ridge

    @property
    def ridge(self) -> float | None:
        """The ridge c inside the statistics, as `fixed_ridge`; to assign another is `fix_ridge`."""
        return self.fixed_ridge

    @ridge.setter
    def ridge(self, ridge: float) -> None:
        self.fix_ridge(ridge)

    def with_ridge(self, ridge: float, units: Floats | None = None) -> Self:
        """Return it with a ridge inside, in place of one that may be there."""
        check_fixable(ridge)
        inside = self.recursion
        penalties = np.full(self._n_features, float(ridge))
        if units is not None:
            penalties *= units**2
        elif inside is not None and (inside.full_penalties == ridge).all():
            return self
        new, sums = self.copied(), self._sums()
        if inside is None:
            new._sketch = self._sketch.with_sums(sums.gram, sums.cross)
        new.recursion, new._gram = self._recursion_of(sums, float(ridge), penalties), None
        if inside is not None:
            # The sums come from an inverse, which holds few digits of what its ridge outweighs, or
            # of what rows that were taken out outweighed.
            is_faint = penalties < FAINT * inside.penalties
            if self._sketch.peaks.any() or is_faint.any():
                new._check_digits(f"ridge={ridge:g} in place of {inside.ridge:g} leaves")
        return new

    def with_units(self, features: Integers, units: Floats) -> Self:
        """Return it with other units of features that are constant so far; see `Accumulator`."""
        new = shallow_copy(self)
        inside = self.recursion
        new.recursion = inside and inside.with_penalties(features, inside.ridge * units**2)
        return new

    def _sums(self) -> GramAccumulator:
        """Return A'A and A'Y, those of a recursion in ``M^3`` operations."""
        if self.recursion is None:
            assert self._gram is not None
            return self._gram
        gram, weights = self.recursion.information(), self.recursion.weights
        cross = gram @ weights + self.ridge_diagonal(self.recursion.ridge)[:, None] * weights
        never = self._squares[: self._n_features] == 0.0
        gram[never], gram[:, never], cross[never] = 0.0, 0.0, 0.0
        return GramAccumulator.of(gram, cross)

    def ridge_diagonal(self, ridge: float) -> Floats:
        """Return the ridge on each feature: from c/2 to c in its units, if `ridge` is inside."""
        if self.recursion is not None and ridge == self.recursion.ridge:
            return self.recursion.penalties
        return np.full(self._n_features, ridge)

    @property
    def _target_squares(self) -> Floats:  # type: ignore[override]
        return self._squares[self._n_features :]

    def _raw_squares(self) -> tuple[Floats, Floats]:
        return self._squares[: self._n_features], self._target_squares

    def _plan_row(self, sample: Floats, w: float, decay: float) -> tuple[Calls, State]:
        recursion = self.recursion
        if recursion is None or decay < FAINTEST or not self._n_features:
            return super()._plan_row(sample, w, decay)
        calls, state = recursion.plan(sample, recursion.errors(sample), w, decay)
        adding = adding_squares(self._squares, sample, w, decay)
        return (*calls, adding, *self._sketch.plan_row(sample, w, decay)), state

    def _plan_sums(self, rows: Rows, decay: float) -> tuple[Calls, State]:
        features, targets = (each * decay for each in self._raw_squares())
        features += rows.sign * rows.squares()
        squares = np.concatenate((features, rows.added_target_squares(targets)))
        noted = ((self, "_squares", squares), *self._squares_noted(rows, decay))
        recursion = self.recursion
        if recursion is None:
            assert self._gram is not None
            calls, state = self._gram._plan_sums(rows, decay)
            return calls, (*state, *noted)
        recursion = rows.followed or _decayed(recursion, decay)
        weights, sketch = rows.weights(), self._sketch.scaled(decay)
        if weights.any() and self._n_features:
            # As they are, they are not copied.
            used = slice(None) if weights.all() else np.flatnonzero(weights)
            values = np.asarray(rows.values[used], dtype=np.float64)
            targets = rows.dense_targets(slice(0, self._n_targets))[used]
            w = rows.sign * weights[used]
            if rows.followed is None:
                recursion = recursion.learnt(values, targets, w)
            sketch.learn(values, targets, w)
        taken = decay * self._targets_taken
        if rows.sign < 0.0:
            taken += decay * self._target_squares - squares[self._n_features :]
            sketch.note_peaks(decay * self._squares[: self._n_features])
        inside = ("recursion", recursion), ("_sketch", sketch), ("_targets_taken", taken)
        state = (*((self, *each) for each in inside), *noted)
        if rows.sign < 0.0:
            left = shallow_copy(self)
            vars(left).update((name, value) for _, name, value in state)
            left._check_digits("rows to take out leave")
        return (), state

    def _check_digits(self, cause: str) -> None:
        """Raise ValueError if the recursion has lost the digits of what is left in it."""
        assert self.recursion is not None
        # What rounding leaves of targets that are out is no measure of errors.
        targets = np.maximum(self._target_squares, RESIDUE * self._targets_taken)
        self._sketch.check(cause, self.recursion, targets)

    def _absorb_sums(self, other: Self, w: float) -> None:
        sums, theirs = self._sums(), other._sums()
        sums._absorb_sums(theirs, w)
        size = self._n_features, self._n_targets
        sketch = self._sketch.copied()
        if w < 0.0:
            sketch.note_peaks(self._squares[: self._n_features])
        self._squares = self._squares + w * np.concatenate(
            [*map(enlarged, other._raw_squares(), size)]
        )
        if self.recursion is not None:
            theirs = theirs.grown(*size)
            learnt = sketch.with_sums(theirs.gram, theirs.cross)
            if other.recursion is not None:
                # The error of their inverse, which shows along their own vectors.
                grown = other.grown(*size)._sketch
                learnt.absorb(grown, 1.0)
                learnt.absorb(grown.with_sums(theirs.gram, theirs.cross), -1.0)
            sketch.absorb(learnt, w)
            self._sketch = sketch
            ridge, penalties = self.recursion.ridge, self.recursion.full_penalties
            if w > 0.0:
                self.recursion = self._recursion_of(sums, ridge, penalties)
            else:
                weights = sums.solve(penalties, self.diagonal)
                self.recursion = Recursion.of_gram(sums.gram, weights, penalties, ridge)
                self._check_digits("rows to take out leave")

    def _recursion_of(self, sums: GramAccumulator, ridge: float, penalties: Floats) -> Recursion:
        """Return the recursion of sums; eigenvalues that rounding put below 0 are 0."""
        weights = sums.solve(penalties, self.diagonal)
        try:
            return Recursion.of_gram(sums.gram, weights, penalties, ridge)
        except ValueError:
            units = ridge_and_units(penalties)[1]
            eigenvalues, vectors = eigh(sums.gram / units / units[:, None])
            gram = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
            # Eigenvalues next to 0 may be below it once more.
            gram.flat[:: len(gram) + 1] += EPS * eigenvalues.max(initial=0.0)
            gram *= units
            gram *= units[:, None]
            return Recursion.of_gram(gram, weights, penalties, ridge)

    def forget_unused(self) -> None:
        """Forget what is known of features of which only rounding errors are left, in place."""
        unused = (self.diagonal == 0.0) & (self._raw_squares()[0] != 0.0)
        if self.recursion is not None and unused.any():
            self.recursion = self.recursion.without(unused)
            self._sketch = self._sketch.without(unused)

    def restore_ridge(self) -> None:
        """Bring the ridge inside back to c, in place."""
        if self.recursion is not None:
            self.recursion = self.recursion.restored()

    def _rearrange_sums(self, features: Integers, targets: Integers) -> None:
        places = features, targets, self._n_features, self._n_targets
        self._sketch = self._sketch.placed(*places)
        if self.recursion is not None:
            self.recursion = self.recursion.placed(*places)
        if self._gram is not None:
            self._gram = self._gram.rearranged(*places)

    def _keep_sums(self, columns: Integers) -> None:
        self._sketch = self._sketch.with_targets(columns)
        if self.recursion is not None:
            self.recursion = self.recursion.with_targets(columns)
        if self._gram is not None:
            self._gram = self._gram.with_targets(columns)

    def sums(self) -> Sums:
        """Return A'A and A'Y in new memory, in about 2 M^3 operations from a recursion."""
        sums = self._sums().sums()
        return replace(sums, target_squares=self.target_squares, weight=self.weight)

    def covariance(self, ridge: float | Floats, diagonal: Floats | None = None) -> Covariance:
        """Return (A'A + D)^-1; see `Accumulator.covariance`."""
        if self.recursion is None or not self._is_inside(ridge):
            return self._sums().covariance(ridge, self.diagonal if diagonal is None else diagonal)
        matrix = self.recursion.inverse()
        penalties = self.recursion.penalties
        parameters = self._n_features - float(penalties @ matrix.diagonal())
        return Covariance(matrix, parameters)

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, (n_targets,), by way of the Gram."""
        return self._sums().explained_squares(output_weights)

    def _is_inside(self, ridge: float | Floats) -> bool:
        """Tell whether a ridge is the number inside."""
        return np.ndim(ridge) == 0 and ridge == self.fixed_ridge

    def solve(
        self,
        ridge: float | Floats,
        diagonal: Floats | None = None,
        n_rows: int | None = None,
    ) -> Floats:
        """Return the output weights (n_features, n_targets) as a new array."""
        check_penalties(ridge)
        if self.recursion is not None and not np.all(ridge):
            raise ValueError(
                "ridge=0.0 must be greater than 0 for the recursive form. Pass a positive ridge, "
                'or accumulator="gram" or "orthogonal".'
            )
        diagonal = self.diagonal if diagonal is None else diagonal
        if self.recursion is None or not self._is_inside(ridge):
            return self._sums().solve(ridge, diagonal, n_rows)
        weights = self.recursion.weights.copy(order="F")
        weights[diagonal <= 0.0] = 0.0
        return weights


def check_fixable(ridge: Any) -> None:
    """Raise unless a ridge can be held inside statistics: a number greater than 0."""
    check_ridge(ridge)
    if isinstance(ridge, str) or not ridge > 0.0:
        raise ValueError(
            f"ridge={ridge!r} must be a number greater than 0 for the recursive form, which holds "
            'an inverse. Pass a positive ridge, or accumulator="gram" or "orthogonal".'
        )


def _decayed(recursion: Recursion, decay: float) -> Recursion:
    """Return a recursion whose rows weigh a factor of what they did; of 0 it knows nothing."""
    if decay == 0.0:
        return Recursion(recursion.n_features, recursion.n_targets, recursion.ridge)
    return recursion.scaled(decay) if decay != 1.0 else recursion
