"""Recursive least squares: weights that are current after every row."""

from __future__ import annotations

from sys import maxsize
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.linalg.blas import dsbmv

from onlinels.accumulators.gram import GramSums, products_fit
from onlinels.accumulators.sums import Rows, SumsOfProducts
from onlinels.checks import Floats, Integers
from onlinels.linalg.packed import gathered, growth
from onlinels.linalg.recursion import EPS, MIN_WEIGHT_FACTOR, Recursion
from onlinels.linalg.rounding import MAX_ROUNDING
from onlinels.linalg.selection import check_ridge
from onlinels.linalg.sketch import GramSketch
from onlinels.linalg.solve import ridge_and_units
from onlinels.numerics import Calls, State, enlarged, product, shallow_copy
from onlinels.saving import savable


@savable(products_fit)
class GramBeforeRidge(GramSums):
    """Sums of rows before a ridge is known; `with_ridge` turns them into an inverse."""

    form = "recursive"
    # The inverse will learn rows itself.
    allows_running_solution = False
    allows_folds = False
    holds_ridge = True

    def with_ridge(
        self,
        ridge: float,
        units: Floats | None,
        diagonal: Floats,
        rounding: Floats,
        target_squares: Floats,
    ) -> InverseSums:
        """Return an inverse that holds a ridge on features in units."""
        new = InverseSums(*self.shape, ridge)
        new.feature_squares = self.squares()
        new.recursion = _recursion_of(self, diagonal, ridge, _penalties(ridge, units, diagonal))
        new.sketch = new.sketch.with_sums(self.gram.full(), self.cross)
        return new


@savable(
    lambda sums: (
        (sums.sketch.n_features, sums.sketch.n_targets) == sums.shape
        and len(sums.feature_squares) == sums.shape[0]
    )
)
class InverseSums(SumsOfProducts):
    """P = (A'A + D)^-1 and W = P A'Y, with a sketch that counts their correct digits.

    A row x with target y and weight w gives the gain g = P x / (1/w + x'P x), the inverse
    P - g x'P and the weights W + g (y - x'W). Single rows are learnt in place, batches in new
    objects.

    **Digits.** A direction in which A'A has grown to s keeps about ``16 - log10(s / c)`` digits.
    Removing rows loses as many digits again. Removing rows, adding sums and a new ridge raise if
    fewer than six digits of the weights would be correct: P and W are compared with a `GramSketch`,
    which learns every row beside them, so the digits lost by all earlier rows count too.

    **Forgetting.** The rows and the ridge D = d I decay together. When d falls below c/2, it is set
    to c again, for all features at once. This costs about ``3 M^3`` operations, once in
    log(1/2) / log(lambda) rows with a decay of lambda per row. With a factor below 1e-6 or above 1,
    A'A is computed, and the ridge is c afterwards. A new feature has the ridge of all other
    features, as if it had been known from the start.

    References
    ----------
    A. Bjorck, "Numerical Methods for Least Squares Problems" (1996), section 3.2.

    Examples
    --------
    >>> from onlinels.numerics import apply
    >>> sums = InverseSums(1, 1, ridge=1.0)
    >>> apply(sums.plan_rows(Rows(np.array([[2.0]]), np.array([[5.0]])), decay=1.0))
    >>> sums.recursion.weights
    array([[2.]])
    """

    form = "recursive"
    recursion: Recursion
    holds_ridge = True

    def __init__(self, n_features: int, n_targets: int, ridge: float) -> None:
        check_fixable(ridge)
        self.recursion = Recursion(n_features, n_targets, ridge)
        self.feature_squares = np.zeros(n_features)
        self.sketch = GramSketch(n_features, n_targets)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and of targets."""
        return self.recursion.n_features, self.recursion.n_targets

    def squares(self) -> Floats:
        """Return the weighted sum of squares of every feature, (n_features,), as a new array."""
        return self.feature_squares.copy()

    def plan_row(self, sample: Floats, w: float, decay: float) -> tuple[Calls, State]:
        """Plan to decay all rows and to add one row, a sample of features and targets."""
        recursion = self.recursion
        if decay < MIN_WEIGHT_FACTOR:
            return super().plan_row(sample, w, decay)
        calls, state = recursion.plan(sample, recursion.errors(sample), w, decay)
        squares = self.feature_squares
        x = sample[None, : len(squares)]
        squaring = (dsbmv, 0, w, x, sample, 1, 0, decay, squares, 1, 0, 0, 1)
        return calls + self.sketch.plan_row(sample, w, decay) + (squaring,), state

    def plan_rows(self, rows: Rows, decay: float) -> tuple[Calls, State]:
        """Plan to decay all rows and to add or remove rows, in new objects."""
        values, w = np.asarray(rows.values, dtype=np.float64), rows.weights()
        recursion = rows.followed or _decayed(self.recursion, decay)
        sketch = self.sketch.scaled(decay)
        if w.any() and values.size:
            # A full slice makes no copy.
            used = slice(None) if w.all() else np.flatnonzero(w)
            targets = rows.dense_targets(slice(0, self.shape[1]))[used]
            values, w = values[used], rows.sign * w[used]
            if rows.followed is None:
                recursion = recursion.learnt(values, targets, w)
            sketch.learn(values, targets, w)
        squares = decay * self.feature_squares + rows.sign * rows.squares()
        return (), (
            (self, "recursion", recursion),
            (self, "sketch", sketch),
            (self, "feature_squares", squares),
        )

    def check_removal(self, rounding: Floats, target_squares: Floats) -> None:
        """Raise ValueError if a removal of rows has left too few digits."""
        self._check("Removing these rows leaves", rounding, target_squares)

    def check_addition(self, rounding: Floats, target_squares: Floats) -> None:
        """Raise ValueError if sums that were added, by way of A'A, have left too few digits."""
        self._check("Merging these rows leaves", rounding, target_squares)

    def _check(self, cause: str, rounding: Floats, target_squares: Floats) -> None:
        # Features that contain only rounding errors have weights of 0 in every solution.
        recursion, squares = shallow_copy(self.recursion), self.feature_squares
        held = squares > MAX_ROUNDING * rounding[: len(squares)]
        recursion.weights = np.where(held[:, None], recursion.weights, 0.0)
        self.sketch.check(cause, recursion, rounding, target_squares)

    def as_gram(self) -> GramSums:
        """Return A'A and A'Y, computed in ``M^3`` operations."""
        gram, weights = self.recursion.information(), self.recursion.weights
        cross = gram @ weights + self.recursion.penalties[:, None] * weights
        never = self.feature_squares == 0.0
        gram[never], gram[:, never], cross[never] = 0.0, 0.0, 0.0
        return GramSums.of(gram, cross)

    def add(self, other: Any) -> None:
        """Add sums of at most as many columns, in place, by way of A'A."""
        sums, theirs, size = self.as_gram(), other.as_gram(), self.shape
        sums.add(theirs)
        places = [*map(growth, theirs.shape, size)]
        theirs, sketch = theirs.reindexed(*places), self.sketch.copied()
        gram = theirs.gram.full()
        learnt = sketch.with_sums(gram, theirs.cross)
        if other.recursion is not None:
            # The error of the other inverse: its vectors have moved with its features.
            grown = other.sketch.reindexed(*places)
            error = grown.with_sums(gram, theirs.cross)
            error.absorb(grown, -1.0)
            learnt.absorb(error.along(sketch.vectors), -1.0)
        sketch.absorb(learnt, 1.0)
        self.sketch = sketch
        self.feature_squares = self.feature_squares + enlarged(other.squares(), size[0])
        ridge, penalties = self.recursion.ridge, self.recursion.full_penalties
        self.recursion = _recursion_of(sums, self.feature_squares, ridge, penalties)

    def with_ridge(
        self,
        ridge: float,
        units: Floats | None,
        diagonal: Floats,
        rounding: Floats,
        target_squares: Floats,
    ) -> Self:
        """Return an inverse that holds another ridge on features in units."""
        check_fixable(ridge)
        inside, penalties = self.recursion, _penalties(ridge, units, diagonal)
        if units is None and inside.ridge == ridge and (inside.full_penalties == ridge).all():
            return self
        new = shallow_copy(self)
        new.recursion = _recursion_of(self.as_gram(), diagonal, ridge, penalties)
        # The sums come from an inverse, which has few digits where its ridge, or rows that were
        # removed, outweigh the rows, and where rows are nearly dependent.
        cause = f"ridge={ridge:g} in place of {inside.ridge:g} leaves"
        new._check(cause, rounding, target_squares)
        return new

    def with_units(self, features: Integers, units: Floats) -> Self:
        """Return the sums with units of features that were constant so far."""
        new, inside = shallow_copy(self), self.recursion
        new.recursion = inside.with_penalties(features, inside.ridge * units**2)
        return new

    def restored(self) -> Self:
        """Return the sums with the ridge inside set to c again."""
        new = shallow_copy(self)
        new.recursion = self.recursion.restored()
        return new

    def without(self, features: NDArray[np.bool_]) -> Self:
        """Return the sums with the rounding errors of features, given as a mask, removed."""
        new = shallow_copy(self)
        new.recursion, new.sketch = self.recursion.without(features), self.sketch.without(features)
        return new

    def reindexed(self, features: Integers, targets: Integers) -> Self:
        """Return the sums of the given features and targets; -1 stands for a new column."""
        new = shallow_copy(self)
        new.recursion = self.recursion.reindexed(features, targets)
        new.sketch = self.sketch.reindexed(features, targets)
        new.feature_squares = gathered(self.feature_squares, features)
        return new

    def gram_and_cross(self) -> tuple[Floats, Floats]:
        """Return A'A, of which the upper triangle is read, and A'Y, in 2 M^3 operations."""
        return self.as_gram().gram_and_cross()

    def solve(self, penalties: float | Floats, diagonal: Floats, n_rows: int) -> Floats:
        """Return W for the ridge inside."""
        if not np.all(penalties):
            raise ValueError(
                "ridge=0.0 must be greater than 0 for the recursive form. Pass a positive ridge, "
                'or use accumulator="gram" or "orthogonal".'
            )
        weights = self.recursion.weights.copy(order="F")
        weights[diagonal <= 0.0] = 0.0
        return weights

    def covariance(self, penalties: float | Floats, diagonal: Floats) -> tuple[Floats, float]:
        """Return (A'A + D)^-1, for the ridge inside, and the trace of its product with A'A."""
        matrix, inside = self.recursion.inverse(), self.recursion.penalties
        return matrix, len(inside) - float(inside @ matrix.diagonal())

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, (n_targets,), computed from A'A."""
        return self.as_gram().explained_squares(output_weights)

    def explained_products(self, output_weights: Floats) -> Floats:
        """Return W'A'Y, (n_targets, n_targets), in ``M^3 / 3`` operations: A'Y is P^-1 W.

        Keeping A'Y beside P would make every row a tenth slower, and few models need it.
        """
        factor = cho_factor(self.recursion.inverse(), overwrite_a=True)
        return product(output_weights.T, cho_solve(factor, self.recursion.weights))


def _recursion_of(sums: GramSums, diagonal: Floats, ridge: float, penalties: Floats) -> Recursion:
    """Return the recursion of sums, of which eigenvalues below 0 by rounding become 0."""
    weights = sums.solve(penalties, _own_diagonal(sums, diagonal), maxsize)
    upper = sums.gram.upper()
    try:
        return Recursion.of_gram(upper, weights, penalties, ridge)
    except ValueError:
        units = ridge_and_units(penalties)[1]
        eigenvalues, vectors = eigh(sums.gram.full() / units / units[:, None])
        gram = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
        # Rounding may put eigenvalues near 0 below 0 again.
        gram.flat[:: len(gram) + 1] += EPS * eigenvalues.max(initial=0.0)
        gram *= units
        gram *= units[:, None]
        return Recursion.of_gram(gram, weights, penalties, ridge)


def _penalties(ridge: float, units: Floats | None, diagonal: Floats) -> Floats:
    """Return the penalty of every feature, (n_features,), for a ridge on features in units."""
    return np.full(len(diagonal), float(ridge)) if units is None else ridge * units**2


def check_fixable(ridge: Any) -> None:
    """Raise unless a ridge is a number greater than 0, as the recursive form needs."""
    check_ridge(ridge)
    if isinstance(ridge, str) or not ridge > 0.0:
        raise ValueError(
            f"ridge={ridge!r} must be a number greater than 0 for the recursive form, which holds "
            'an inverse. Pass a positive ridge, or use accumulator="gram" or "orthogonal".'
        )


def _decayed(recursion: Recursion, decay: float) -> Recursion:
    """Return a recursion with all weights multiplied by a factor; an empty recursion for 0."""
    if decay == 0.0:
        return Recursion(recursion.n_features, recursion.n_targets, recursion.ridge)
    return recursion.scaled(decay) if decay != 1.0 else recursion


def _own_diagonal(sums: GramSums, squares: Floats) -> Floats:
    """Return the diagonal of A'A; 0 if a feature contains only rounding errors, by its squares.

    A'A from an inverse errs along the rows. With sums of squares from the rows as its diagonal, it
    would err in all directions, which costs as many digits again.
    """
    tiny = np.finfo(np.float64).tiny
    return np.where(squares > 0.0, np.maximum(sums.gram.diagonal(), tiny), 0.0)
