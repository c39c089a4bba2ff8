"""The Gram form: A'A and A'Y in float64, mergeable and subtractable."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.tracker import Tracker
from onlinels.accumulators.uncertainty import Covariance
from onlinels.checks import Floats, Integers, Matrix, check_places, uncast
from onlinels.commit import Commit, add_to_columns, picked_columns
from onlinels.linalg.packed import PANEL, SymmetricPanels
from onlinels.linalg.selection import Spectrum, Sums, check_ridge, gram_spectrum
from onlinels.numerics import capacity, enlarged, padded, product
from onlinels.solve import invert_gram

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
    Weights enter linearly, so statistics of whole numbers are exact. Solving squares the condition
    number of A: about 8 of 16 digits are left for features that are nearly collinear.

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

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes of the sums and of a factor: see `SymmetricPanels`."""
        return 8 * n_features * (n_features + min(n_features, PANEL) + 2 * n_targets)

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

    def accumulate(self, block: Matrix, targets: Matrix, w: float | Floats, commit: Commit) -> None:
        """Add checked float rows with weights of any one sign, without counting them."""
        if not self._n_features:
            return
        tracker = self._tracker.having_learnt(block, targets, self._n_targets, w)
        commit.assign(self, _tracker=tracker)
        lines = self._gram.as_lines(block, commit)
        self._gram.add_products(lines, w, commit)
        if targets.ndim == 1:
            self._add_labels(block, lines, targets, w, commit)
        else:
            sums = product(lines.T, targets * (w if isinstance(w, float) else w[:, None]))
            here = self._cross[:, : sums.shape[1]]
            commit.then(np.add, here, sums, here)

    def _cast(self, rows: Matrix) -> Matrix:
        # Of several panels rows are cast as they are turned, in one pass instead of two.
        return uncast(rows) if min(len(rows), len(self._gram.panels)) > 1 else super()._cast(rows)

    def _add_labels(
        self, block: Matrix, lines: Floats, labels: Matrix, w: float | Floats, commit: Commit
    ) -> None:
        """Add the rows of every class present to its column, without a wide one-hot matrix."""
        if len(block) == 1:
            here = self._cross[:, labels[0]]
            commit.then(np.add, here, lines[0] * w, here)
            return
        present, which = np.unique(labels, return_inverse=True)
        weights, rows = np.broadcast_to(np.float64(w), len(block)), np.arange(len(block))
        if len(present) <= FEW_CLASSES:
            one_hot = np.zeros((len(block), len(present)))
            one_hot[rows, which] = weights
            sums: Any = product(lines.T, one_hot).T
        else:
            of_classes = csr_array((weights, (which, rows)), shape=(len(present), len(block)))
            sums = padded(of_classes @ block, len(self._cross))
        add_to_columns(self._cross, present, sums, commit)

    def _combine(self, other: Self, sign: int, commit: Commit) -> None:
        self._tracker = Tracker.lost()
        n_features, n_targets = other.n_features, other.n_targets
        self._gram.add(other._gram, sign, commit)
        here, there = (cross[:n_features, :n_targets] for cross in (self._cross, other._cross))
        commit.then(np.add if sign > 0 else np.subtract, here, there, out=here)

    def _scale(self, factor: float, commit: Commit) -> None:
        self._tracker = self._tracker.decayed(factor)
        self._gram.scale(factor, commit)
        commit.then(np.multiply, self._cross, factor, out=self._cross)

    def plan_growth(self, n_features: int, n_targets: int) -> None:
        """Make room in a draft for features and targets that were 0 in every row so far.

        Notes
        -----
        The first size is taken as it is; later ones reserve half as much again within a panel of
        1,024 columns, so a stream whose features arrive one by one copies little.
        """
        n_features = max(n_features, self._n_features)
        n_targets = max(n_targets, self._n_targets)
        if n_features > self._n_features:
            self._tracker = Tracker.lost()
        self._gram = self._gram.grown(n_features)
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

    def _keep_targets(self, columns: Integers, commit: Commit) -> None:
        self._tracker = Tracker.lost()
        self._cross = picked_columns(self._cross, columns, commit)

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
        cross = self._cross[: self._n_features, : self._n_targets]
        diagonal = self.diagonal if diagonal is None else diagonal
        return self._tracker.solve(self._gram, cross, ridge, diagonal)

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
