"""The ridge chosen from the sufficient statistics alone, without a second look at any row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinels.arrays import Floats
from onlinels.spectrum import Spectrum

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
    shrunk = _shrunk(spectrum, ridges)
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
    shrunk = _shrunk(spectrum, ridges)
    freedom = spectrum.weight - spectrum.n_free
    if freedom <= 0.0:
        return -ridges
    complexity = -np.log(shrunk).sum(axis=0) / freedom
    criterion: Floats = np.log(left + squares @ shrunk) + complexity
    return criterion


def _shrunk(spectrum: Spectrum, ridges: Floats) -> Floats:
    """Return c / (s + c), (n_features, n_ridges): what each direction leaves unfitted."""
    shares: Floats = ridges / (spectrum.eigenvalues[:, None] + ridges)
    return shares


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
