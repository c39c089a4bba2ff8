"""A sketch of sums of products, which shows how many digits of their inverse are correct."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemv, dger, dscal

from onlinels.checks import Floats, Integers
from onlinels.linalg.packed import gathered, stacked
from onlinels.linalg.recursion import EPS, Recursion
from onlinels.linalg.rounding import MAX_ROUNDING
from onlinels.numerics import Calls, product
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
    return fits and sketch.n_targets >= 0


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
