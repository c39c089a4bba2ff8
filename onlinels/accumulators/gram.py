"""The Gram form: A'A and A'Y in float64, mergeable and subtractable."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.tracker import Tracker
from onlinels.accumulators.uncertainty import Covariance
from onlinels.arrays import Floats, Integers, Matrix, check_places, uncast
from onlinels.capacity import capacity, enlarged
from onlinels.panels import SymmetricPanels
from onlinels.products import product
from onlinels.ridge import check_ridge
from onlinels.solve import invert_gram
from onlinels.spectrum import Spectrum, Sums, gram_spectrum

FEW_CLASSES = 64
"""Classes up to which a batch's labels are added by a product; of more each row for itself.

Measured at 6,400 columns: of 10 classes in half the time.
"""


class GramAccumulator(Accumulator):
    """Accumulate A'A and A'Y, the sufficient statistics of least squares without an intercept.

    For rows a_k with targets y_k and weights w_k: gram = sum_k w_k a_k a_k' and
    cross = sum_k w_k a_k y_k' (A A^T and Y A^T of the paper, whose samples are columns).

    Parameters
    ----------
    n_features : int
        Columns of the activations known beforehand. More may come at any time.
    n_targets : int
        Targets (classes) known beforehand. More may come at any time.

    Notes
    -----
    Memory: ``4 M (M + 1024) + 8 M N`` bytes for M features (``8 M^2`` up to 1,024 of them) and N
    targets, whatever the length of the stream; beyond 1,024 features every thread that learns also
    holds up to 64 MiB, for all models together, while it lives. An update of n rows costs
    ``n M^2`` operations, half of a plain product, by symmetric rank-k updates in place; label
    columns cost ``n M`` more, however many classes there are. All sums are float64: with float32
    sums the Gram of the paper's network cannot be factored at any ridge that classifies well.
    Weights enter linearly, so statistics of whole numbers are exact.

    Solving squares the condition number of A: about 8 of 16 digits are left for features that are
    nearly collinear.

    Examples
    --------
    >>> acc = GramAccumulator()
    >>> acc.update(np.array([[1.0, 2.0], [0.0, 1.0]]), targets=np.array([0, 1]))
    >>> acc.gram
    array([[1., 2.],
           [2., 5.]])
    >>> acc.cross
    array([[1., 0.],
           [2., 1.]])
    >>> other = GramAccumulator()
    >>> other.update(np.array([[1.0, 1.0]]), targets=np.array([2]))
    >>> acc.merge(other)
    >>> acc.cross
    array([[1., 0., 1.],
           [2., 1., 1.]])
    """

    def __init__(self, n_features: int = 0, n_targets: int = 0) -> None:
        super().__init__(n_features, n_targets)
        self._gram = SymmetricPanels(n_features)
        # Fortran order: BLAS would silently work on a copy of anything else.
        self._cross = np.zeros((n_features, n_targets), order="F")
        self._tracker = Tracker()

    @classmethod
    def of(cls, gram: Floats, cross: Floats) -> Self:
        """Return the accumulator of given sums A'A and A'Y, whose rows it does not count.

        Parameters
        ----------
        gram : ndarray (n_features, n_features)
            Only its upper triangle is read.
        cross : ndarray (n_features, n_targets)
        """
        new = cls(0, 0)
        new._n_features, new._n_targets = cross.shape
        new._gram, new._cross = SymmetricPanels.of(gram), np.array(cross, order="F")
        return new

    @property
    def gram(self) -> Floats:
        """A'A, (n_features, n_features), as a new array."""
        return self._gram.full()

    @property
    def cross(self) -> Floats:
        """A'Y, (n_features, n_targets), as a new array."""
        return self._cross[: self._n_features, : self._n_targets].copy()

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares, (n_features,), as a new array."""
        return self._without_residue(self._gram.diagonal())

    def _raw_squares(self) -> tuple[Floats, Floats]:
        return self._gram.diagonal(), self.target_squares

    def accumulate(self, block: Matrix, targets: Matrix, w: float | Floats) -> None:
        """Add checked float rows with weights of any one sign, without counting them."""
        if not self._n_features:
            return
        self._tracker.learn(block, targets, self._n_targets, w)
        lines = self._gram.as_lines(block)
        self._gram.add_products(lines, w)
        if targets.ndim == 1:
            self._add_labels(block, lines, targets, w)
        else:
            weighted_targets = targets * (w if isinstance(w, float) else w[:, None])
            self._cross[:, : targets.shape[1]] += product(lines.T, weighted_targets)

    def _cast(self, rows: Matrix) -> Matrix:
        # Of several panels rows are cast as they are turned, in one pass instead of two.
        several = len(rows) > 1 and len(self._gram.panels) > 1
        return uncast(rows) if several else super()._cast(rows)

    def _add_labels(self, block: Matrix, lines: Floats, labels: Matrix, w: float | Floats) -> None:
        """Add the rows of every class present to its column, without a wide one-hot matrix."""
        if len(block) == 1:
            self._cross[:, labels[0]] += lines[0] * w
            return
        present, which = np.unique(labels, return_inverse=True)
        weights = np.broadcast_to(np.asarray(w, dtype=np.float64), len(block))
        rows = np.arange(len(block))
        if len(present) <= FEW_CLASSES:
            one_hot = np.zeros((len(block), len(present)))
            one_hot[rows, which] = weights
            self._cross[:, present] += product(lines.T, one_hot)
        else:
            of_classes = csr_array((weights, (which, rows)), shape=(len(present), len(block)))
            sums: Any = of_classes @ block
            self._cross[: block.shape[1], present] += sums.T

    def _combine(self, other: Self, sign: int) -> None:
        self._tracker.drop()
        n_features, n_targets = other.n_features, other.n_targets
        self._gram.add(other._gram, float(sign))
        self._cross[:n_features, :n_targets] += sign * other._cross[:n_features, :n_targets]

    def _scale(self, factor: float) -> None:
        self._tracker.decay(factor)
        self._gram.scale(factor)
        self._cross *= factor

    def grow(self, n_features: int, n_targets: int) -> None:
        """Make room for features and targets that were 0 in every row so far, in place.

        Notes
        -----
        The first size is taken as it is; later ones reserve half as much again within a panel of
        1,024 columns, so a stream whose features arrive one by one copies little.
        """
        n_features = max(n_features, self._n_features)
        n_targets = max(n_targets, self._n_targets)
        if n_features > self._n_features:
            self._tracker.drop()
        self._gram.grow(n_features)
        columns = capacity(self._cross.shape[1], n_targets)
        self._cross = enlarged(self._cross, self._gram.reserved, columns)
        self._n_features, self._n_targets = n_features, n_targets

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places; see `Accumulator.placed`."""
        check_places("feature_columns", feature_columns, self._n_features, n_features)
        check_places("target_columns", target_columns, self._n_targets, n_targets)
        copy = type(self)(n_features, n_targets)
        copy._gram = self._gram.placed(feature_columns, n_features)
        copy._cross[np.ix_(feature_columns, target_columns)] = self.cross
        copy._weigh_like(self, feature_columns, target_columns)
        return copy

    def _keep_targets(self, columns: Integers) -> None:
        self._tracker.drop()
        self._cross = np.asfortranarray(self._cross[:, columns])

    def solve(self, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return the output weights W of (A'A + c I) W = A'Y.

        Parameters
        ----------
        ridge : float
            The ridge c; 0.0 gives the pseudo-inverse solution of minimum norm.
        diagonal : ndarray (n_features,), optional
            Instead of `self.diagonal`: with 0 for features that hold only rounding errors.

        Returns
        -------
        ndarray (n_features, n_targets), float64

        Notes
        -----
        ``M^3 / 3`` operations, see `onlinels.solve.solve_gram` for these and the rank tolerance.
        Asked for after every few rows, O(M^2) for each of them and ``8 M^2`` bytes more: see
        `onlinels.accumulators.tracker.Tracker`.

        Examples
        --------
        >>> acc = GramAccumulator()
        >>> acc.update(np.array([[1.0], [1.0]]), np.array([[3.0], [5.0]]))
        >>> acc.solve(ridge=0.0)
        array([[4.]])
        """
        check_ridge(ridge)
        features, targets = self._n_features, self._n_targets
        return self._tracker.solve(
            self._gram,
            self._cross[:features, :targets],
            ridge,
            self.diagonal if diagonal is None else diagonal,
        )

    def covariance(self, ridge: float, diagonal: Floats | None = None) -> Covariance:
        """Return (A'A + c I)^-1; see `Uncertainty.covariance`."""
        diagonal = self.diagonal if diagonal is None else diagonal
        return Covariance(*invert_gram(self._gram, ridge, diagonal))

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, (n_targets,)."""
        shortfall = 2.0 * self.cross
        if shortfall.size:
            shortfall -= self._gram.times(output_weights)
        explained: Floats = (output_weights * shortfall).sum(axis=0)
        return explained

    def spectrum(self) -> Spectrum:
        """Return the statistics in the eigenbasis of the Gram, by one `eigh`."""
        return gram_spectrum(self._gram.upper(), self.cross, self.target_squares, self.weight)

    def sums_about(self, centre: Self) -> Sums:
        """Return the sums themselves: raw sums are about 0 whatever the centre."""
        return Sums(np.triu(self._gram.upper()), self.cross, self.target_squares)
