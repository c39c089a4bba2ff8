"""A ridge from the statistics alone: a number, the paper's, GCV and REML, or held-out folds."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, svd

from onlinels.checks import Floats, as_number, check_count, shown
from onlinels.numerics import product
from onlinels.saving import savable_settings


@dataclass(frozen=True)
class Spectrum:
    """Sufficient statistics rotated so that A'A is diagonal.

    With A'A = V diag(s) V', the output weights at ridge c are V diag(1 / (s + c)) V'A'Y, and the
    residual sum of squares, the effective number of parameters and the held-out error follow
    from what is kept here, for any ridge, without another look at a row.

    Parameters
    ----------
    eigenvalues : ndarray (n_features,)
        s, at least 0, ascending.
    rotated_cross : ndarray (n_features, n_targets)
        V'A'Y.
    target_squares : ndarray (n_targets,)
        Weighted sum of squares of every target, about its mean where there is an intercept.
    weight : float
        Total weight of the rows, n if every weight is 1.
    n_free : int
        Parameters that carry no ridge: 1 with an intercept, else 0.
    """

    eigenvalues: Floats
    rotated_cross: Floats
    target_squares: Floats
    weight: float
    n_free: int = 0


@dataclass(frozen=True)
class Sums:
    """Plain sums of products of rows: enough for the squared error of any output weights.

    The rows' sum of squared errors under output weights W is
    target_squares - 2 diag(W'cross) + diag(W' gram W).

    Parameters
    ----------
    gram : ndarray (n_features, n_features)
        A'A, of which only the upper triangle is filled.
    cross : ndarray (n_features, n_targets)
        A'Y.
    target_squares : ndarray (n_targets,)
        Every target's weighted sum of squares.
    """

    gram: Floats
    cross: Floats
    target_squares: Floats


def gram_spectrum(gram: Floats, cross: Floats, target_squares: Floats, weight: float) -> Spectrum:
    """Return the spectrum of A'A, of which only the upper triangle is read, by one `eigh`.

    Notes
    -----
    About 10 M^3 operations and three copies of the Gram.

    Examples
    --------
    >>> gram, cross = np.diag([1.0, 4.0]), np.array([[3.0], [2.0]])
    >>> spectrum = gram_spectrum(gram, cross, np.array([9.0]), weight=5.0)
    >>> spectrum.eigenvalues, np.abs(spectrum.rotated_cross.ravel())
    (array([1., 4.]), array([3., 2.]))
    """
    if not len(gram):
        return Spectrum(np.zeros(0), np.zeros(cross.shape), target_squares, weight)
    # Measured: of 2,500 features and 512 rows LAPACK's other driver takes five times as long.
    eigenvalues, eigenvectors = eigh(gram, lower=False, driver="evd")
    return Spectrum(
        np.maximum(eigenvalues, 0.0), product(eigenvectors.T, cross), target_squares, weight
    )


def factor_spectrum(
    factor: Floats, rotated: Floats, target_squares: Floats, weight: float
) -> Spectrum:
    """Return the spectrum of A'A = R'R by one SVD of R, which keeps the digits of small values.

    Notes
    -----
    About 20 M^3 operations and three copies of the factor.

    Examples
    --------
    >>> factor, rotated = np.diag([1.0, 2.0]), np.array([[3.0], [1.0]])
    >>> spectrum = factor_spectrum(factor, rotated, np.array([10.0]), weight=5.0)
    >>> spectrum.eigenvalues, np.abs(spectrum.rotated_cross.ravel())
    (array([1., 4.]), array([3., 2.]))
    """
    if not len(factor):
        return Spectrum(np.zeros(0), np.zeros(rotated.shape), target_squares, weight)
    left, singular, _ = svd(factor)
    cross = (singular[:, None] * product(left.T, rotated))[::-1]
    return Spectrum(singular[::-1] ** 2, cross, target_squares, weight)


PER_DECADE = 8
"""Candidates in a decade of ridges."""

SMALLEST_RIDGE = 1e-13
"""Smallest candidate relative to the largest eigenvalue: below it float64 sums hold noise."""

LARGEST_RIDGE = 1e3
"""Largest candidate relative to the largest eigenvalue: weights are 0.1% of what they could be."""

DECADES = 280
"""Candidates lie within 1e-280 and 1e280, so that no sum overflows."""

TIE = 1e-9
"""Relative difference from the minimum up to which a larger ridge is as good."""

NOTHING_LEFT = 1e-14
"""Squared error relative to the squares of the targets that is no more than rounding."""

INFLATION = 1.2
"""What an effective parameter costs in cross-validation; see `gcv_ridge`."""

ANY_RIDGE = 1.0
"""The answer where all features are constant: whatever the ridge is, their weights are 0."""


def gcv_ridge(spectrum: Spectrum) -> float:
    """Return the ridge of generalised cross-validation, and at least that of maximum likelihood.

    Generalised cross-validation takes the smallest n RSS(c) / (n - g p(c))^2 of the ridges c, for
    the residual sum of squares RSS(c), summed over targets, and the effective number of parameters
    p(c) = n_free + sum_i s_i / (s_i + c), of which each counts g = 1.2. Restricted maximum
    likelihood takes the smallest (n - n_free) log(RSS(c) + c |W(c)|^2) + sum_i log(1 + s_i / c).
    The larger of the two ridges is the answer.

    Parameters
    ----------
    spectrum : Spectrum
        Weights of rows count as repetitions: n is the total weight.

    Returns
    -------
    float
        Over 0 and finite: one of `candidate_ridges`; of equally good ones, the largest. 1.0 if
        every feature is constant.

    Notes
    -----
    ``130 (M + N)`` operations after the eigendecomposition, for M features and N targets.

    With g = 1 and alone, cross-validation undersmooths where features are many, as is well known,
    and sometimes grossly: over 90 pairings of real data and features its held-out squared error
    was up to 2,104 times that of the best ridge, this answer's up to 17 times, and within 5% in 61
    pairings against 72 (demos/benchmarks/README.md). Too small a ridge can cost far more than too
    large a one; hence g > 1, and the larger of two ridges.

    Neither criterion sees single rows. Where a few rows lie far outside the others (heavy tails,
    squared features) the squared error is theirs, and both trust such rows too much; folds trust
    them less. The share of rows classified wrongly suffered from neither.

    References
    ----------
    G. H. Golub, M. Heath and G. Wahba, "Generalized cross-validation as a method for choosing a
    good ridge parameter", Technometrics 21 (1979). Y.-J. Kim and C. Gu, "Smoothing spline Gaussian
    regression: more scalable computation via efficient approximation", Journal of the Royal
    Statistical Society B 66 (2004), for g from 1.2 to 1.4. S. N. Wood, "Fast stable restricted
    maximum likelihood and marginal likelihood estimation of semiparametric generalized linear
    models", Journal of the Royal Statistical Society B 73 (2011).

    Examples
    --------
    >>> A = np.array([[-3.0], [-1.0], [1.0], [3.0]])
    >>> noise = np.array([[0.1], [-0.3], [0.3], [-0.1]])
    >>> cross, squares = A.T @ (A + noise), ((A + noise) ** 2).sum(axis=0)
    >>> round(gcv_ridge(Spectrum(np.array([20.0]), cross, squares, weight=4.0)), 3)
    0.075
    """
    ridges = candidate_ridges(float(spectrum.eigenvalues.max(initial=0.0)))
    if not spectrum.target_squares.sum() > 0.0:
        return float(ridges[-1])
    likelihood = best_ridge(ridges, likelihood_criterion(spectrum, ridges))
    return max(likelihood, best_ridge(ridges, gcv_criterion(spectrum, ridges, INFLATION)))


def candidate_ridges(largest: float) -> Floats:
    """Return the ridges to choose from for Grams with the given largest eigenvalue, ascending.

    They are powers of 10^(1/8), the same whatever the data: so rounding errors, which depend on
    how the stream was cut, hardly ever change the choice.

    Examples
    --------
    >>> ridges = candidate_ridges(2.0)
    >>> ridges.size, f"{ridges[0]:.3g} to {ridges[-1]:.3g}"
    (128, '2.37e-13 to 1.78e+03')
    """
    if largest < 10.0**-DECADES:
        return np.array([ANY_RIDGE])
    bounds = PER_DECADE * np.log10([SMALLEST_RIDGE, LARGEST_RIDGE]) + PER_DECADE * np.log10(largest)
    first, last = np.clip(bounds, -PER_DECADE * DECADES, PER_DECADE * DECADES)
    exponents = np.arange(np.ceil(first), np.floor(last) + 1.0) / PER_DECADE
    ridges: Floats = 10.0**exponents
    return ridges


def best_ridge(ridges: Floats, criterion: Floats) -> float:
    """Return the largest ridge whose logarithmic criterion is within 1e-9 of the minimum.

    If the criterion is infinite at every ridge, that is the largest of all.

    Examples
    --------
    >>> best_ridge(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.5, 0.6]))
    2.0
    """
    within = np.flatnonzero(criterion <= criterion.min(initial=np.inf) + TIE)
    if not len(within):
        raise ValueError(
            "no ridge can be chosen from statistics that are not finite numbers, as a file may "
            "hold that was made by hand. Load another one."
        )
    return float(ridges[within[-1]])


def present_directions(eigenvalues: Floats) -> NDArray[np.bool_]:
    """Tell which eigenvalues are more than rounding errors: over 1e-14 of the largest.

    Examples
    --------
    >>> present_directions(np.array([1e-16, 1e-3, 1.0]))
    array([False,  True,  True])
    """
    rounding = max(NOTHING_LEFT, np.finfo(np.float64).eps * len(eigenvalues))
    present: NDArray[np.bool_] = eigenvalues > rounding * eigenvalues.max(initial=0.0)
    return present


def gcv_criterion(spectrum: Spectrum, ridges: Floats, inflation: float) -> Floats:
    """Return log RSS(c) - 2 log(n - inflation p(c)) of every ridge; see `gcv_ridge`.

    It is infinite where there are more effective parameters than rows.
    """
    squares, left = _fitted_squares(spectrum)
    # What each direction leaves unfitted, (n_features, n_ridges).
    shrunk = ridges / (spectrum.eigenvalues[:, None] + ridges)
    parameters = spectrum.n_free + (1.0 - shrunk).sum(axis=0)
    freedom = spectrum.weight - inflation * parameters
    possible = freedom > NOTHING_LEFT * spectrum.weight
    error = left + squares @ shrunk**2
    criterion = np.full(ridges.shape, np.inf)
    criterion[possible] = np.log(error[possible]) - 2.0 * np.log(freedom[possible])
    return criterion


def likelihood_criterion(spectrum: Spectrum, ridges: Floats) -> Floats:
    """Return -2/(n - n_free) times the restricted log-likelihood; see `gcv_ridge`.

    One noise variance is shared by all targets, as the ridge is. Where at most n_free rows are
    left, the largest ridge is the best.
    """
    squares, left = _fitted_squares(spectrum)
    # What each direction leaves unfitted, (n_features, n_ridges).
    shrunk = ridges / (spectrum.eigenvalues[:, None] + ridges)
    freedom = spectrum.weight - spectrum.n_free
    if freedom <= 0.0:
        return -ridges
    complexity = -np.log(shrunk).sum(axis=0) / freedom
    criterion: Floats = np.log(left + squares @ shrunk) + complexity
    return criterion


def _fitted_squares(spectrum: Spectrum) -> tuple[Floats, float]:
    """Return the targets' squares in every direction, and what no weights at all can fit.

    Sums of what is left, all terms positive, keep their digits where differences would not.
    """
    eigenvalues = spectrum.eigenvalues
    total = float(spectrum.target_squares.sum())
    present = present_directions(eigenvalues)
    fitted = np.zeros(spectrum.rotated_cross.shape)
    fitted[present] = spectrum.rotated_cross[present] / np.sqrt(eigenvalues[present, None])
    squares = (fitted**2).sum(axis=1)
    return squares, max(total - float(squares.sum()), NOTHING_LEFT * total)


FLOOR = 10.0 * float(np.finfo(np.float64).eps)
"""Smallest ridge that "paper" answers with, relative to the median feature's sum of squares."""


NAMES = ("paper", "auto")
"""Settings of the ridge that are names."""

REMEDY = 'Pass a float >= 0, "paper", "auto" or KFold(n_folds).'


@savable_settings()
@dataclass(frozen=True)
class KFold:
    """Choose the ridge by exact K-fold cross-validation, from statistics kept in K folds.

    Rows are dealt into folds by their content, so folds merge, and rows can be unlearnt.

    Parameters
    ----------
    n_folds : int
        K, at least 2.

    Raises
    ------
    TypeError, ValueError
        If it is not.

    Notes
    -----
    K times the memory of "auto", and ten to twenty-five times its time for a choice. Take it where
    the squared error itself counts and a few rows lie far outside the others: what these would
    spoil shows on held-out rows, which "auto" has none of. In its share of wrong labels "auto" was
    as good or better on average (demos/benchmarks/README.md).

    Examples
    --------
    >>> KFold()
    KFold(n_folds=5)
    """

    n_folds: int = 5

    def __post_init__(self) -> None:
        check_count("n_folds", self.n_folds, 2)


Ridge = float | str | KFold
"""A setting: a number, "paper", "auto" or KFold."""


def check_ridge(ridge: Any) -> None:
    """Raise unless `ridge` is a finite number of at least 0, "paper", "auto" or a KFold.

    Raises
    ------
    TypeError
        If it is none of a number, a string and a KFold.
    ValueError
        If it is a negative, infinite or NaN number, or an unknown name.

    Examples
    --------
    >>> check_ridge("best")
    Traceback (most recent call last):
        ...
    ValueError: ridge='best' is not known. Pass a float >= 0, "paper", "auto" or KFold(n_folds).
    """
    if isinstance(ridge, str):
        if ridge not in NAMES:
            raise ValueError(f"ridge={ridge!r} is not known. {REMEDY}")
    elif not isinstance(ridge, KFold):
        is_real = isinstance(ridge, numbers.Real) and not isinstance(ridge, bool)
        number = as_number(ridge) if is_real else None
        if number is None:
            raise TypeError(f"ridge={ridge!r} must be a number, a name or a KFold. {REMEDY}")
        if not 0.0 <= number < np.inf:
            what = shown(ridge, number)
            raise ValueError(f"ridge={what} must be at least 0 and finite. {REMEDY}")


def paper_ridge(diagonal: Floats, n_targets: int) -> float:
    """Return the paper's heuristic, c = (N/M)^2 min(diag(A'A)).

    Parameters
    ----------
    diagonal : ndarray (n_features,)
        Diagonal of the Gram A'A. Features whose sum of squares is 0 (hidden units that were never
        active) are left out of the minimum: they would make the ridge 0, and whatever the ridge
        is, their own weights are 0.
    n_targets : int
        Number of classes N; M is the number of features.

    Returns
    -------
    float
        At least ``10 * eps * M`` times the median sum of squares (eps = 2.2e-16): for hidden
        units of one kind a smaller ridge drowns in the rounding errors of the Gram. 0.0 if all
        features are always 0.

    Notes
    -----
    The ridge grows with the number of rows as the Gram does, so its strength relative to the data
    settles. It is a function of the statistics alone: no cutting of the stream changes it.

    References
    ----------
    M. D. McDonnell and T. Vladusich, "Enhanced Image Classification With a Fast-Learning Shallow
    Convolutional Neural Network", IJCNN 2015, section II-C.

    Examples
    --------
    >>> paper_ridge(np.array([4.0, 0.0, 16.0, 4.0]), n_targets=2)
    1.0
    """
    active = diagonal[diagonal > 0.0]
    if not active.size:
        return 0.0
    heuristic = (n_targets / diagonal.size) ** 2 * active.min()
    return float(max(heuristic, FLOOR * active.size * np.median(active)))


BLOCK_COLUMNS = 2048
"""Columns of output weights, of several ridges together, whose errors are told at once."""


def held_out_errors(train: Sums, held_out: Sums, ridges: Floats) -> Floats:
    """Return every ridge's sum of squared errors on held-out rows, (n_ridges,).

    Parameters
    ----------
    train, held_out : Sums
        About the same centre: that of the rows that weights come from.
    ridges : ndarray (n_ridges,)
        Over 0.

    Examples
    --------
    >>> train = Sums(np.array([[1.0]]), np.array([[4.0]]), np.array([16.0]))
    >>> held_out = Sums(np.array([[1.0]]), np.array([[3.0]]), np.array([9.0]))
    >>> held_out_errors(train, held_out, np.array([1.0, 3.0]))
    array([1., 4.])
    """
    errors = np.full(len(ridges), held_out.target_squares.sum())
    if not train.cross.size:
        return errors
    eigenvalues, basis = eigh(train.gram, lower=False, driver="evd")
    # Held-out rows may lie in directions that no training row has: rounding must not weigh them.
    present = present_directions(eigenvalues)
    eigenvalues, basis = eigenvalues[present], basis[:, present]
    cross, seen = basis.T @ train.cross, basis.T @ held_out.cross
    # The triangle, with half the diagonal, is half of the product with the Gram.
    half = held_out.gram.copy()
    half.flat[:: len(half) + 1] *= 0.5
    half = basis.T @ (half @ basis)
    step = max(1, BLOCK_COLUMNS // cross.shape[1])
    for block in (slice(start, start + step) for start in range(0, len(ridges), step)):
        weights = cross[:, None, :] / (eigenvalues[:, None] + ridges[block])[:, :, None]
        flat = weights.reshape(len(cross), weights.shape[1] * weights.shape[2])
        fitted = (flat * (half @ flat)).sum(axis=0).reshape(weights.shape[1:])
        errors[block] += 2.0 * (fitted - (weights * seen[:, None, :]).sum(axis=0)).sum(axis=1)
    return errors
