"""Output weights and their covariance from a Gram or a triangular factor."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, eigvalsh, qr, svd
from scipy.linalg.lapack import dtpmqrt, dtpqrt, dtrcon, dtrtrs

from onlinels.checks import Floats, Integers
from onlinels.core.constants import EPS, MAX_NULL_ENTRY
from onlinels.numerics import product
from onlinels.sums.packed import (
    MAX_COLUMNS_INVERTED_WHOLE,
    PackedSymmetric,
    factor_in_place,
    inverse_of_factored,
    smallest_eigenvalue,
    solve_factored,
    symmetric,
)
from onlinels.sums.selection import reciprocal

MIN_EIGENVALUE = 1e-14
"""Smallest eigenvalue of the system scaled to unit diagonal; below it Cholesky returns noise."""

MIN_EIGENVALUE_FOR_UPDATES = 1e-11
"""Smallest eigenvalue of the scaled system from which an inverse may learn single rows."""

RANK_TOLERANCE = 1e-12
"""Largest eigenvalue of the scaled Gram, or singular value of the scaled factor, that counts as 0.

The value is relative to the largest one. For a factor it is 10 eps M if that is more: rounding
errors move M unit columns by a few eps each, so the singular values by a few eps M at most.
Measured for dependent columns: 8e-15 after 20,000 single rows, 3e-14 with means a thousand
deviations away.
Columns of a polynomial of degree 10 (NIST's Filip) are not dependent: 2e-10.
"""

MIN_FEATURES_PER_ROW = 16
"""Number of features per row from which systems are solved by rank.

Measured with 2,000 features: 100 rows take a tenth of the time of the factor of the Gram.
"""

MIN_FEATURES_BY_RANK = 256
"""Number of features from which solving by rank is tried."""

MIN_RIDGE_BY_RANK = 1e-7
"""Ridge, relative to every sum of squares, from which solving by rank keeps the digits."""

MAX_DEPENDENT_PIVOT = 1e-13
"""Share of the sum of squares of a feature up to which it is a rounding error."""

MIN_WELL_CONDITIONED = 1e-4
"""Reciprocal condition number of the scaled factor with its ridge, above which none is tested.

Rounding errors of dependent features reach the weights divided by its square: 1e-8 at most.
"""

BLOCK_REFLECTIONS = 16
"""Number of columns whose reflections are applied at once.

Measured for 64 to 1024 features: within 25% of the best width, for one row and for 2048 rows.
"""


def are_few(n_rows: int, n_features: int) -> bool:
    """Return whether rows are so few that systems are solved by rank.

    Examples
    --------
    >>> are_few(20, 400), are_few(30, 400), are_few(2, 40)
    (True, False, False)
    """
    return n_features >= MIN_FEATURES_BY_RANK and n_rows * MIN_FEATURES_PER_ROW <= n_features


def solve_gram(
    gram: PackedSymmetric, cross: Floats, ridge: float | Floats, diagonal: Floats, n_rows: int
) -> Floats:
    """Solve (A'A + D) W = A'Y for the output weights W, with D = c I or any diagonal.

    Parameters
    ----------
    gram : PackedSymmetric
        A'A.
    cross : ndarray (n_features, n_targets), float64
        A'Y.
    ridge : float or ndarray (n_features,)
        The ridge c >= 0, or the penalty of every feature. With 0.0 the result is the minimum-norm
        solution, the pseudo-inverse of A times Y, as in the paper's W_out = Y A^+.
    diagonal : ndarray (n_features,), float64
        Diagonal of the Gram, with 0 for features that contain only rounding errors; their weights
        are 0.
    n_rows : int
        Number of rows of A, an upper bound of the rank of the Gram.

    Returns
    -------
    ndarray (n_features, n_targets), float64

    Notes
    -----
    The system is scaled to unit diagonal, so the units of features do not matter.

    ===============================================  ====================================
    case                                             operations
    ===============================================  ====================================
    Cholesky factor (the usual case)                 ``M^3 / 3``, and a copy of the Gram
    n rows, at most a sixteenth of the features,     ``n^2 M``
    and a ridge that is not tiny (`_solve_by_rank`)
    a smallest eigenvalue of the scaled system that  about ``10 M^3`` more, an
    is estimated below 1e-14, or M 1e-12 at ridge 0  eigendecomposition
    ===============================================  ====================================

    In the last case, directions with an eigenvalue of at most 1e-12 of the largest count as
    linearly dependent, and their weights are determined by the ridge (or the minimum norm).

    Examples
    --------
    >>> gram, cross = PackedSymmetric.of(np.diag([3.0, 1.0])), np.array([[4.0], [2.0]])
    >>> solve_gram(gram, cross, 1.0, np.array([3.0, 1.0]), n_rows=2).ravel()
    array([1., 1.])
    """
    weights = np.zeros(cross.shape, order="F")
    active = np.flatnonzero(diagonal > 0.0)
    if not (active.size and cross.any()):
        return weights
    penalties = np.broadcast_to(ridge, diagonal.shape)
    scale = reciprocal(np.sqrt(np.where(diagonal > 0.0, diagonal + penalties, 0.0)))
    if are_few(n_rows, active.size) and (penalties * scale**2)[active].min() > MIN_RIDGE_BY_RANK:
        solved = _solve_by_rank(gram, cross, penalties, scale, n_rows)
        if solved is not None:
            return solved
    factor = _cholesky_factor(gram, scale, _least_eigenvalue(penalties))[0]
    if factor is not None:
        return solve_factored(factor, cross * scale[:, None]) * scale[:, None]
    square = gram.upper()[np.ix_(active, active)]
    weights[active] = _solve_in_eigenbasis(square, cross[active], penalties[active], scale[active])
    return weights


def _solve_by_rank(
    gram: PackedSymmetric, cross: Floats, penalties: Floats, scale: Floats, n_rows: int
) -> Floats | None:
    """Solve by Woodbury's identity and a factor; return None if the rank exceeds `n_rows`.

    The scaled system is L L' + D, with L (M, r) from a pivoted Cholesky factorisation that stops at
    the rank r. A second step on the residual corrects the remaining error.
    """
    columns = np.zeros((len(scale), n_rows), order="F")
    left, rank = gram.diagonal() * scale**2, 0
    while (pivot := int(left.argmax())) >= 0 and left[pivot] > MAX_DEPENDENT_PIVOT:
        if rank == n_rows:
            return None
        column = gram.column(pivot) * (scale * scale[pivot])
        column -= columns[:, :rank].dot(columns[pivot, :rank])
        column /= left[pivot] ** 0.5
        columns[:, rank], rank = column, rank + 1
        left -= column**2
        left[pivot] = 0.0
    columns, penalty = columns[:, :rank], np.where(scale > 0.0, penalties * scale**2, np.inf)
    divided = columns / penalty[:, None]
    system = product(columns.T, divided)
    system.flat[:: rank + 1] += 1.0
    factor = cho_factor(system)

    def solve(targets: Floats) -> Floats:
        scaled = targets * scale[:, None]
        inside = product(columns, cho_solve(factor, product(divided.T, scaled)))
        solved: Floats = (scaled - inside) * (scale / penalty)[:, None]
        return solved

    weights = solve(cross)
    weights += solve(cross - gram.times(weights) - penalties[:, None] * weights)
    return np.asfortranarray(weights)


def invert_gram(
    gram: PackedSymmetric, ridge: float | Floats, diagonal: Floats
) -> tuple[Floats, float]:
    """Return (A'A + D)^-1 and its trace with A'A, the effective number of parameters.

    Parameters are those of `solve_gram`. The diagonal entry of a feature with a diagonal of 0 is
    one over its penalty, or 0 without a penalty; directions that count as linearly dependent have
    0.

    Notes
    -----
    About M^3 operations and three arrays of the size of the Gram; more in the last case of the
    table of `solve_gram`.

    Examples
    --------
    >>> invert_gram(PackedSymmetric.of(np.diag([3.0, 0.0])), 1.0, np.array([3.0, 0.0]))
    (array([[0.25, 0.  ],
           [0.  , 1.  ]]), 0.75)
    """
    penalties = np.broadcast_to(ridge, diagonal.shape)
    inverse = np.diag(reciprocal(penalties))
    active = np.flatnonzero(diagonal > 0.0)
    if not active.size:
        return inverse, 0.0
    chosen, rank, own = np.ix_(active, active), float(active.size), penalties[active]
    scale = reciprocal(np.sqrt(np.where(diagonal > 0.0, diagonal + penalties, 0.0)))
    factor = _cholesky_factor(gram, scale, _least_eigenvalue(penalties))[0]
    if factor is None:
        square = gram.upper()[chosen]
        solved = _solve_in_eigenbasis(square, np.eye(active.size), own, scale[active])
        # The trace of a projection is its rank, up to rounding.
        rank = float(np.rint(np.sum(solved.T * symmetric(square)) + own @ solved.diagonal()))
    else:
        solved = _scaled(symmetric(inverse_of_factored(factor)), scale)[chosen]
    inverse[chosen] = solved
    return inverse, float(rank - own @ solved.diagonal())


def smallest_present_eigenvalue(
    gram: PackedSymmetric, ridge: float | Floats, diagonal: Floats
) -> tuple[float, float]:
    """Return the smallest eigenvalue of A'A + D, and the largest that counts as 0, if any does.

    The system is scaled to unit diagonal. Directions with eigenvalues that count as 0, those of
    linearly dependent features, are left out; without any, the second result is infinite.
    Parameters are those of `solve_gram`. The first result may be up to M times too small.

    Examples
    --------
    >>> gram, squares = PackedSymmetric.of(np.array([[3.0, 3.0], [3.0, 3.0]])), np.full(2, 3.0)
    >>> smallest, largest_zero = smallest_present_eigenvalue(gram, 1.0, squares)
    >>> round(smallest, 9), largest_zero
    (0.25, inf)
    >>> smallest, largest_zero = smallest_present_eigenvalue(gram, 0.0, squares)
    >>> round(smallest, 9), f"{largest_zero:.0e}"
    (2.0, '2e-12')
    """
    active = np.flatnonzero(diagonal > 0.0)
    if not active.size:
        return 1.0, np.inf
    penalties = np.broadcast_to(ridge, diagonal.shape)
    scale = reciprocal(np.sqrt(np.where(diagonal > 0.0, diagonal + penalties, 0.0)))
    factor, smallest = _cholesky_factor(gram, scale, _least_eigenvalue(penalties))
    if factor is not None:
        return smallest, np.inf
    square = _scaled(gram.upper()[np.ix_(active, active)], scale[active])
    eigenvalues = eigvalsh(square, lower=False, overwrite_a=True)
    largest_zero = RANK_TOLERANCE * float(eigenvalues[-1])
    present = eigenvalues[eigenvalues > largest_zero]
    return float(present[0]), largest_zero if len(present) < len(eigenvalues) else np.inf


def inverse_of_gram(gram: PackedSymmetric, ridge: float | Floats) -> tuple[Floats, float] | None:
    """Return the upper triangle of (A'A + D)^-1 and the smallest eigenvalue; None if singular.

    The eigenvalue is that of the system scaled to unit diagonal.
    """
    if not 0 < gram.size <= MAX_COLUMNS_INVERTED_WHOLE:
        return None
    scale = 1.0 / np.sqrt(gram.diagonal() + ridge)
    factor, smallest = _cholesky_factor(gram, scale, MIN_EIGENVALUE_FOR_UPDATES)
    return None if factor is None else (_scaled(inverse_of_factored(factor), scale), smallest)


def _scaled(gram: Floats, scale: Floats) -> Floats:
    system = np.array(gram, order="F")
    system *= scale
    system *= scale[:, None]
    return system


def _least_eigenvalue(penalties: Floats) -> float:
    """Return the smallest eigenvalue of the scaled system at which no direction counts as 0.

    The estimate may be up to M times too small.
    """
    return MIN_EIGENVALUE if penalties.any() else len(penalties) * RANK_TOLERANCE


def _cholesky_factor(
    gram: PackedSymmetric, scale: Floats, least: float
) -> tuple[PackedSymmetric | None, float]:
    """Return the Cholesky factor of the scaled system, and its smallest eigenvalue.

    None, in place of the factor, if the eigenvalue is below the least. Features without weight have
    a 1 on the diagonal, and 0 elsewhere.
    """
    system = gram.scaled(scale)
    # The diagonal of the scaled system, including the ridge, is 1.
    for panel in system.panels:
        np.fill_diagonal(panel.corner, 1.0)
    smallest = smallest_eigenvalue(system) if factor_in_place(system) else 0.0
    return (None if smallest < least else system), smallest


def _solve_in_eigenbasis(gram: Floats, cross: Floats, penalties: Floats, scale: Floats) -> Floats:
    """Solve in the directions that are present, kept orthogonal to the null space."""
    ridge, units = ridge_and_units(penalties)
    eigenvalues, eigenvectors = eigh(_scaled(gram, scale), lower=False, overwrite_a=True)
    present = eigenvalues > RANK_TOLERANCE * eigenvalues[-1]
    scale = (scale * units)[:, None]
    basis = eigenvectors[:, present] * scale
    projected = basis.T @ (cross / units[:, None])
    if not present.all():
        absent = eigenvectors[:, ~present]
        absent[np.abs(absent) < MAX_NULL_ENTRY] = 0.0
        null_space = qr(absent * scale, mode="economic")[0]
        basis -= null_space @ (null_space.T @ basis)
    # Scaled by the diagonal and the penalties, no entry is above 1, and the system stays definite.
    shrunk = np.sqrt(ridge) * basis
    system = shrunk.T @ shrunk
    system.flat[:: len(system) + 1] += eigenvalues[present]
    weights: Floats = basis @ cho_solve(cho_factor(system), projected)
    weights /= units[:, None]
    return weights


def ridge_and_units(penalties: Floats) -> tuple[float, Floats]:
    """Return the ridge c and the units u of features with the penalties c u^2.

    In directions without rows, the weights have the minimum norm for features in these units.
    Features without a penalty have the unit 1.

    Examples
    --------
    >>> ridge_and_units(np.array([4.0, 1.0]))
    (4.0, array([1. , 0.5]))
    """
    ridge = float(penalties.max(initial=0.0))
    units = np.ones(len(penalties))
    # The quotient of the roots: that of the penalties may be smaller than any float.
    roots = np.sqrt(penalties)
    return ridge, np.divide(roots, np.sqrt(ridge or 1.0), out=units, where=penalties > 0.0)


def solve_factor(
    factor: Floats, rotated: Floats, ridge: float | Floats, diagonal: Floats
) -> Floats:
    """Solve the least-squares problem min |R W - Z|^2 + |sqrt(D) W|^2 for the output weights W.

    With A = Q R and Z = Q'Y, this is (A'A + D) W = A'Y.

    Parameters
    ----------
    factor : ndarray (n_features, n_features), float64
        Upper triangular R.
    rotated : ndarray (n_features, n_targets), float64
        Z.
    ridge : float or ndarray (n_features,)
        The ridge c >= 0, or the penalty of every feature. With 0.0 the result is the minimum-norm
        solution, the pseudo-inverse of A times Y.
    diagonal : ndarray (n_features,), float64
        Sums of squares of the columns of R, with 0 for features that contain only rounding errors;
        their weights are 0.

    Returns
    -------
    ndarray (n_features, n_targets), float64

    Notes
    -----
    The penalties are M more rows, sqrt(D), in a copy of the factor, for ``2/3 M^3`` operations. A
    triangular solve follows.

    Linearly dependent features cost an SVD of about ``20 M^3`` operations more. Features count as
    dependent if the columns of the factor, scaled to unit length (so that units do not matter),
    have a singular value of at most max(1e-12, 10 eps M) of the largest, and the penalties are too
    small to hide it. The SVD finds the dependent directions, and more rows with targets of 0 keep
    the weights out of them: the weights that the penalties, or the minimum norm, determine.

    Examples
    --------
    >>> factor, rotated = np.diag([2.0, 1.0]), np.array([[4.0], [2.0]])
    >>> solve_factor(factor, rotated, 0.0, np.array([4.0, 1.0])).ravel()
    array([2., 2.])
    """
    weights = np.zeros(rotated.shape, order="F")
    active = np.flatnonzero(diagonal > 0.0)
    if active.size and rotated.size:
        penalties = np.broadcast_to(ridge, diagonal.shape)
        triangle, turned, _ = _system(factor, rotated, penalties, diagonal, active)
        weights[active] = dtrtrs(triangle, turned)[0]
    return weights


def invert_factor(factor: Floats, ridge: float | Floats, diagonal: Floats) -> tuple[Floats, float]:
    """Return (R'R + D)^-1 and its trace with R'R, the effective number of parameters.

    Parameters are those of `solve_factor`. The diagonal entry of a feature with a diagonal of 0 is
    one over its penalty, or 0 without a penalty; directions that count as linearly dependent have
    0.

    Notes
    -----
    About 3 M^3 operations; more for linearly dependent features, as in `solve_factor`.

    Examples
    --------
    >>> inverse, n_parameters = invert_factor(np.diag([2.0, 0.0]), 1.0, np.array([4.0, 0.0]))
    >>> inverse.round(3), round(n_parameters, 3)
    (array([[0.2, 0. ],
           [0. , 1. ]]), 0.8)
    """
    penalties = np.broadcast_to(ridge, diagonal.shape)
    inverse = np.diag(reciprocal(penalties))
    active = np.flatnonzero(diagonal > 0.0)
    if not active.size:
        return inverse, 0.0
    nothing = np.zeros((len(factor), 0), order="F")
    triangle, _, of_rows = _system(factor, nothing, penalties, diagonal, active)
    # S with S'S = (A'A + D)^-1.
    root = dtrtrs(triangle, np.eye(len(triangle), order="F"), trans=1)[0]
    if of_rows is not None:
        root = of_rows @ dtrtrs(triangle, root)[0]
    inverse[np.ix_(active, active)] = root.T @ root
    return inverse, float(np.sum((factor[:, active] @ root.T) ** 2))


def _system(
    factor: Floats, rotated: Floats, penalties: Floats, diagonal: Floats, active: Integers
) -> tuple[Floats, Floats, Floats | None]:
    """Return T and Z of T W = Z for the output weights W of the active features.

    If T contains rows of the null space, the third value is the triangle without them, else None.
    """
    system = np.asfortranarray(factor), np.asfortranarray(rotated)
    if active.size < len(factor):
        system = triangular(factor[:, active], rotated)
    squares, rows, penalties = diagonal[active], system[0], penalties[active]
    if penalties.any():
        more = np.zeros(rows.shape, order="F")
        np.fill_diagonal(more, np.sqrt(penalties))
        # Penalties on top: below a small row, rotated targets lose the digits of large ones.
        system = with_rows(more, np.zeros(system[1].shape, order="F"), *system, len(more))
    # The estimate, in the 1-norm, may be wrong by a factor of a little more than M.
    full_rank = 10.0 * len(rows) * _rank_tolerance(len(rows))
    if (
        _reciprocal_condition(rows, squares) > full_rank
        or _reciprocal_condition(system[0], squares + penalties) > MIN_WELL_CONDITIONED
    ):
        return *system, None
    units = ridge_and_units(penalties)[1]
    dependent = _null_rows(rows / units, np.sqrt(squares) / units)
    if dependent is None:
        return *system, None
    nothing = np.zeros((len(dependent), rotated.shape[1]))
    return *with_rows(*system, dependent * units, nothing), system[0]


def _reciprocal_condition(triangle: Floats, squares: Floats) -> float:
    """Estimate the reciprocal condition number with columns scaled to unit length."""
    return float(dtrcon(triangle / np.sqrt(squares))[0])


def _rank_tolerance(n_features: int) -> float:
    """Return the largest relative singular value that counts as 0: max(1e-12, 10 eps M).

    Examples
    --------
    >>> _rank_tolerance(100)
    1e-12
    """
    return max(RANK_TOLERANCE, 10.0 * EPS * n_features)


def _null_rows(factor: Floats, sizes: Floats) -> Floats | None:
    """Return rows that span the null space of a factor, or None if it has full rank.

    A solution W with n W = 0 for all these rows n has the minimum norm. So the rows, with targets
    of 0, make the solution unique without changing its fit.

    Parameters
    ----------
    factor : ndarray (n_features, n_features), float64
        R.
    sizes : ndarray (n_features,)
        Lengths of the columns of R, none of them 0.

    Returns
    -------
    ndarray (n_dependent, n_features), float64, Fortran order
        The rows, scaled so that no entry exceeds the length of its column of the factor.

    Notes
    -----
    The rank is that of the columns scaled to unit length, so the units of features do not matter.
    About 20 M^3 operations.

    Examples
    --------
    >>> rows = _null_rows(np.array([[2.0, 2.0], [0.0, 0.0]]), np.array([2.0, 2.0]))
    >>> np.abs(rows), np.abs(rows.sum(axis=1)).round(12)
    (array([[2., 2.]]), array([0.]))
    """
    _, singular, right = svd(factor / sizes)
    present = singular > _rank_tolerance(len(factor)) * singular[0]
    if present.all():
        return None
    # Errors of singular vectors grow as the gap between the singular values shrinks.
    rounding = 10.0 * EPS * np.sqrt(len(sizes)) * singular[0] / singular[present][-1]
    smallest_first = np.argsort(sizes)
    rows = np.empty((int((~present).sum()), len(sizes)), order="F")
    rows[:, smallest_first] = _staircase(right[np.ix_(~present, smallest_first)], rounding)
    # Back to the units of the features, then scaled to the columns of the factor.
    rows /= sizes
    rows /= np.abs(rows).max(axis=1)[:, None]
    rows /= np.abs(rows / sizes).max(axis=1)[:, None]
    return rows


def _staircase(rows: Floats, rounding: float) -> Floats:
    """Rotate rows to echelon form, and set rounding errors to 0.

    So a direction among large features has no part in small features, in whose units even a
    rounding error would be a large weight.
    """
    done = 0
    for column in range(rows.shape[1]):
        below = rows[done:, column]
        length = np.linalg.norm(below)
        if length <= rounding:
            below[:] = 0.0
            continue
        mirror = below.copy()
        mirror[0] += np.copysign(length, mirror[0])
        mirror /= np.linalg.norm(mirror)
        rows[done:] -= 2.0 * np.outer(mirror, mirror @ rows[done:])
        rows[done + 1 :, column] = 0.0
        done += 1
        if done == len(rows):
            break
    return rows


def with_rows(
    factor: Floats, rotated: Floats, rows: Floats, targets: Floats, n_triangular: int = 0
) -> tuple[Floats, Floats]:
    """Return a triangular factor and its targets after rotating rows in: [R; A] = Q [R'; 0].

    The last `n_triangular` rows are upper triangular.

    Examples
    --------
    >>> y = np.array([[1.0], [2.0]])
    >>> empty = np.zeros((1, 1)), np.zeros((1, 1))
    >>> factor, rotated = with_rows(*empty, np.array([[3.0], [4.0]]), y)
    >>> abs(factor.item()), round((factor * rotated).item(), 9)
    (5.0, 11.0)
    """
    if not len(factor):
        return factor, rotated
    new, reflectors, blocks, _ = dtpqrt(
        n_triangular, min(BLOCK_REFLECTIONS, len(factor)), factor, rows
    )
    if rotated.size:
        rotated = dtpmqrt(n_triangular, reflectors, blocks, rotated, targets, trans="T")[0]
    return new, rotated


def triangular(rows: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """Return the triangular factor of rows (n, n_features), and their rotated targets."""
    size = rows.shape[1]
    return with_rows(np.zeros((size, size)), np.zeros((size, targets.shape[1])), rows, targets)


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
        The mean of the features with an intercept; None without an intercept.
    intercept_share : float
        Variance of the mean of the targets with an intercept: 1 / n.

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

    def times(self, factor: float) -> Covariance:
        """Return a multiple of the covariance."""
        if factor == 1.0:
            return self
        own, share = factor * self.matrix, factor * self.intercept_share
        return replace(self, matrix=own, intercept_share=share)

    def leverages(self, rows: Floats) -> Floats:
        """Return x'(A'A + D)^-1 x of every row x (about the mean), plus the intercept's share."""
        about = rows if self.origin is None else rows - self.origin
        shares = np.einsum("ij,ij->i", about @ self.matrix, about)
        leverages: Floats = np.maximum(shares, 0.0) + self.intercept_share
        return leverages
