"""Recursive least squares: weights that are current after every row.

A sketch of the sums of products shows how many digits of their inverse are correct.
"""

from __future__ import annotations

from sys import maxsize
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.linalg.blas import dgemv, dger, dsbmv, dscal

from onlinels.accumulators.gram import GramSums, products_fit
from onlinels.accumulators.sums import Rows, SumsOfProducts
from onlinels.checks import Floats, Integers
from onlinels.linalg.packed import gathered, growth, stacked
from onlinels.linalg.recursion import EPS, MIN_WEIGHT_FACTOR, Recursion
from onlinels.linalg.removals import MAX_ROUNDING
from onlinels.linalg.selection import check_ridge
from onlinels.linalg.solve import ridge_and_units
from onlinels.numerics import Calls, State, are_columns, enlarged, product, shallow_copy
from onlinels.saving import savable

N_VECTORS = 16
"""Number of vectors of a sketch. With at most 16 features, the sketch shows every direction."""

MAX_SKETCH_DEVIATION = 5e-7
"""Largest deviation of an inverse and its weights from a sketch that is accepted after a removal.

Measured in 15,000 removals of hostile rows (outliers, weights to 1e4, features of any scale, ridges
from 1e-8 to 1e3): with up to 16 features no accepted removal leaves an error of the fit above 1e-6;
with up to 40 features one removal in 1,000 does.
"""

GOLDEN_RATIO = (1.0 + 5.0**0.5) / 2.0


def _is_sound(sketch: GramSketch) -> bool:
    fits = sketch.vectors.shape[1:] == sketch.products.shape[1:] == (N_VECTORS,)
    return fits and sketch.n_targets >= 0 and are_columns(sketch.vectors, sketch.products)


@savable(_is_sound)
class GramSketch:
    """Hold A'A V and Y'A V, which show whether an inverse and weights still fit the rows.

    V has sixteen columns. Feature j belongs to column j mod 16. So with at most 16 features, no
    feature hides another feature in other units.

    Parameters
    ----------
    n_features, n_targets : int
        Numbers of features and of targets.

    Attributes
    ----------
    vectors : ndarray (n_features, 16)
        V.
    products : ndarray (n_features + n_targets, 16)
        A'A V, followed by Y'A V.

    Notes
    -----
    A row costs ``32 (2 M + N)`` operations, a check ``32 M^2``.

    References
    ----------
    D. P. Woodruff, "Sketching as a Tool for Numerical Linear Algebra" (2014).

    Examples
    --------
    >>> sketch = GramSketch(2, 1)
    >>> sketch.learn(np.array([[1.0, 2.0]]), np.array([[3.0]]), np.ones(1))
    >>> sketch.products[:, 0]
    array([1., 2., 3.])
    """

    def __init__(self, n_features: int = 0, n_targets: int = 0) -> None:
        self.vectors = _vectors_of(np.arange(n_features), n_features)
        self.products = np.zeros((n_features + n_targets, N_VECTORS), order="F")

    @property
    def n_features(self) -> int:
        """Number of rows of the vectors."""
        return len(self.vectors)

    @property
    def n_targets(self) -> int:
        """Number of rows of the products that follow the features."""
        return len(self.products) - len(self.vectors)

    def copied(self) -> GramSketch:
        """Return a copy that learns on its own."""
        new = GramSketch()
        new.vectors = self.vectors
        new.products = self.products.copy(order="F")
        return new

    def plan_row(self, sample: Floats, w: float, decay: float) -> Calls:
        """Plan to decay all rows and then to add a row followed by its targets."""
        products, vectors = self.products, self.vectors
        image = dgemv(w, vectors, sample, 0.0, None, 0, 1, 0, 1, 1)
        adding = (dger, 1.0, sample, image, 1, 1, products, 0, 0, 1)
        if decay == 1.0:
            return (adding,)
        return (dscal, decay, products.ravel("K")), adding

    def learn(self, rows: Floats, targets: Floats, w: Floats) -> None:
        """Add rows (n, n_features) with targets (n, n_targets) and weights (n,), in place."""
        used = self.vectors.any(axis=0)
        images = w[:, None] * product(rows, self.vectors[:, used])
        n_features = len(self.vectors)
        self.products[:n_features, used] += product(rows.T, images)
        self.products[n_features:, used] += product(targets.T, images)

    def scaled(self, factor: float) -> GramSketch:
        """Return a copy with the weight of every row multiplied by a factor."""
        new = self.copied()
        new.products *= factor
        return new

    def absorb(self, other: GramSketch, w: float) -> None:
        """Add w times the products of another sketch with the same vectors, in place."""
        self.products += w * other.products

    def with_sums(self, gram: Floats, cross: Floats) -> GramSketch:
        """Return a sketch of A'A and A'Y along the same vectors."""
        new = self.copied()
        new.products = np.asfortranarray(
            np.vstack((product(gram, self.vectors), product(cross.T, self.vectors)))
        )
        return new

    def along(self, vectors: Floats) -> GramSketch:
        """Return the sketch along other vectors, of which the part in the span of V is seen.

        With at most 16 features, V spans all vectors.
        """
        new = self.copied()
        squares = np.square(self.vectors).sum(axis=0)[:, None]
        shares = product(self.vectors.T, vectors) / np.where(squares > 0.0, squares, 1.0)
        new.vectors, new.products = vectors, product(self.products, shares)
        return new

    def reindexed(self, features: Integers, targets: Integers) -> GramSketch:
        """Return a sketch of the given features and targets; -1 stands for a new column."""
        new, others = GramSketch(), np.flatnonzero(features < 0)
        new.vectors = _vectors_of(others, len(features))
        new.vectors[features >= 0] = self.vectors[features[features >= 0]]
        rows = stacked(features, targets, self.n_features)
        new.products = gathered(self.products, rows, np.arange(N_VECTORS))
        return new

    def without(self, features: NDArray[np.bool_]) -> GramSketch:
        """Return a sketch with features, given as a mask, set to 0 in every row."""
        new = self.copied()
        new.products[: len(features)][features] = 0.0
        return new

    def check(self, cause: str, recursion: Recursion, rounding: Floats, targets: Floats) -> None:
        """Raise ValueError unless six digits of an inverse and its weights are correct.

        With K = A'A + D, V'K P K V equals V'K V, and V'K W equals V'A'Y. The largest differences
        are compared with V'K V, in all combinations of the vectors: in units of the fit, for any
        units of the features.

        Parameters
        ----------
        cause : str
            Beginning of the message, with the operation that loses digits.
        recursion : Recursion
            P and W.
        rounding : ndarray (n_features + n_targets,)
            Errors that removals of rows have left in the sums of squares.
        targets : ndarray (n_targets,)
            Sums of squares of the targets, with which errors of the fit are compared.
        """
        n_features = recursion.n_features
        # If only rounding is left of a target, errors are compared with the earlier target.
        errors_of_targets = rounding[n_features:]
        is_lost = targets <= MAX_ROUNDING * errors_of_targets
        targets = np.where(is_lost, errors_of_targets / EPS, targets)
        penalties = recursion.penalties[:, None]
        images = self.products[:n_features] + penalties * self.vectors
        used = np.flatnonzero(self.vectors.any(axis=0))
        if not len(used):
            return
        # At most 0 only if rounding errors exceed the rows and the ridge.
        squares = (self.vectors * images).sum(axis=0)[used]
        are_positive = bool((squares > 0.0).all())
        sizes = np.sqrt(np.where(squares > 0.0, squares, 1.0))
        vectors = self.vectors[:, used] / sizes
        images = np.asfortranarray(images[:, used] / sizes)
        known = product(vectors.T, images)
        eigenvalues, directions = np.linalg.eigh(0.5 * (known + known.T))
        own = rounding[:n_features] + EPS * recursion.penalties
        error = float((np.square(vectors).T @ own).max())
        if not (are_positive and eigenvalues[0] > error):
            deviation = 1.0
        else:
            units = directions / np.sqrt(eigenvalues)
            # In these units V'K V is the identity. V'K P K V, whitened afterwards, would lose twice
            # as many digits: the rounding errors of its large entries reach the small directions.
            whitened = np.asfortranarray(images @ units)
            excess = product(whitened.T, recursion.times(whitened)) - np.eye(len(used))
            errors = product(images.T, recursion.weights)
            errors -= self.products[n_features:, used].T / sizes[:, None]
            fits = np.linalg.norm(units.T @ errors, axis=0)[targets > 0.0]
            deviation = max(
                float(np.linalg.norm(excess)),
                float((fits / np.sqrt(targets[targets > 0.0])).max(initial=0.0)),
                error / float(eigenvalues[0]),
            )
        # Errors in directions that the vectors do not span are equally large on average.
        deviation *= max(1.0, n_features / len(used))
        if not deviation <= MAX_SKETCH_DEVIATION:
            digits = min(5, int(-np.log10(deviation))) if deviation < 1.0 else 0
            raise ValueError(
                f"{cause} about {digits} digits of the weights, expected at least 6. The recursive "
                "form keeps few digits if features are nearly dependent, or if rows outweigh the "
                "ridge or the rows that stay. Remove only rows that were learnt, or learn all rows "
                'again with a larger ridge or accumulator="gram".'
            )


def _vectors_of(features: Integers, n_features: int) -> Floats:
    """Return V (n_features, 16): for the given features from 1 to 2 in absolute value, else 0."""
    sizes = 1.0 + np.modf(GOLDEN_RATIO * features)[0]
    vectors = np.zeros((n_features, N_VECTORS), order="F")
    signs = np.where(features // N_VECTORS % 2, -1.0, 1.0)
    vectors[features, features % N_VECTORS] = signs * sizes
    return vectors


@savable(products_fit)
class GramBeforeRidge(GramSums):
    """Sums of rows before a ridge is known; `with_ridge` turns them into an inverse."""

    form = "recursive"
    # The inverse will learn rows itself.
    allows_running_solution = False
    holds_ridge = True

    def with_ridge(self, ridge: float, units: Floats | None, diagonal: Floats) -> InverseSums:
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
        recursion = rows.followed or self.recursion
        if rows.followed is None and decay == 0.0:
            recursion = Recursion(*self.shape, recursion.ridge)
        elif rows.followed is None and decay != 1.0:
            recursion = recursion.scaled(decay)
        sketch = self.sketch.scaled(decay)
        if w.any() and values.size:
            # A full slice makes no copy.
            used = slice(None) if w.all() else np.flatnonzero(w)
            targets = rows.dense_targets(self.shape[1])[used]
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

    def check(self, cause: str, rounding: Floats, target_squares: Floats) -> None:
        """Raise ValueError, which begins with the cause, if too few digits are left."""
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

    def with_ridge(self, ridge: float, units: Floats | None, diagonal: Floats) -> Self:
        """Return an inverse that holds another ridge on features in units."""
        check_fixable(ridge)
        inside, penalties = self.recursion, _penalties(ridge, units, diagonal)
        if units is None and inside.ridge == ridge and (inside.full_penalties == ridge).all():
            return self
        new = shallow_copy(self)
        new.recursion = _recursion_of(self.as_gram(), diagonal, ridge, penalties)
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
    # A'A from an inverse errs along the rows. With sums of squares from the rows as its diagonal,
    # it would err in all directions, which costs as many digits again.
    own = np.maximum(sums.gram.diagonal(), np.finfo(np.float64).tiny)
    weights = sums.solve(penalties, np.where(diagonal > 0.0, own, 0.0), maxsize)
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
