"""Criteria for the ridge from the statistics alone: restricted likelihood, and held-out errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, floor, log10
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dgeqrf, dormqr, dpstrf, dpttrf, dpttrs, dsyevd, dsytrd, dtrtrs

from onlinels.checks import Floats, Integers, ignoring
from onlinels.core.constants import (
    COARSE,
    FINE,
    LIKELIHOOD_TOLERANCE,
    MAX_PARAMETERS_PER_ROW,
    MAX_RELATIVE_RIDGE,
    MAX_RIDGE_EXPONENT,
    MAX_ROUNDING_ERROR,
    MIN_COMBINED_SHARE,
    MIN_INDEPENDENT_SHARE,
    MIN_INFORMATION,
    MIN_NOISE,
    MIN_RELATIVE_RIDGE,
    RIDGES_PER_DECADE,
    SQUARED_ERROR_TOLERANCE,
    TIE_TOLERANCE,
)
from onlinels.numerics import product


@dataclass(frozen=True)
class Sums:
    """Sums of products of rows, which determine the squared error of any output weights.

    The sum of squared errors of output weights W is
    target_squares - 2 diag(W'cross) + diag(W' gram W).

    Parameters
    ----------
    gram : ndarray (n_features, n_features)
        A'A, of which only the upper triangle is read.
    cross : ndarray (n_features, n_targets)
        A'Y.
    target_squares : ndarray (n_targets,)
        Weighted sum of squares of every target, about its mean with an intercept.
    weight : float
        Total weight of the rows, which counts as their number; less if rows are forgotten.
    n_free : int
        Number of parameters without a penalty: 1 with an intercept, else 0.
    """

    gram: Floats
    cross: Floats
    target_squares: Floats
    weight: float
    n_free: int = 0


def in_units(sums: Sums, deviations: Floats | None) -> Sums:
    """Return sums of features divided by deviations (n_features,), in the memory of the sums.

    Features with a deviation of 0 are left out. None: features as they are.

    Examples
    --------
    >>> sums = Sums(np.array([[4.0]]), np.array([[6.0]]), np.array([9.0]), 1.0)
    >>> in_units(sums, np.array([2.0])).gram
    array([[1.]])
    """
    if deviations is None:
        return sums
    factors, gram = reciprocal(deviations), sums.gram
    gram *= factors
    gram *= factors[:, None]
    return replace(sums, gram=gram, cross=sums.cross * factors[:, None])


def varying_only(sums: Sums, diagonal: Floats) -> Sums:
    """Set features with a diagonal of 0 to 0 in sums, in place, and return the sums.

    Removed rows leave rounding errors in the sums, which may be negative.

    Examples
    --------
    >>> sums = Sums(np.array([[-1e-16]]), np.array([[1e-17]]), np.array([9.0]), 1.0)
    >>> varying_only(sums, np.zeros(1)).gram
    array([[0.]])
    """
    unused = diagonal == 0.0
    if unused.any():
        for each in (sums.gram, sums.gram.T, sums.cross):
            each[unused] = 0.0
    return sums


def reciprocal(deviations: Floats) -> Floats:
    """Return the factors that scale features to unit variance; 0 for constant features.

    Examples
    --------
    >>> reciprocal(np.array([2.0, 0.0]))
    array([0.5, 0. ])
    """
    return np.divide(1.0, deviations, out=np.zeros(len(deviations)), where=deviations > 0.0)


class Choice(NamedTuple):
    """The selected ridge, and its criterion for comparing choices.

    Attributes
    ----------
    ridge : float
        The selected ridge.
    criterion : float
        The smallest value of the criterion over the ridges searched; infinite if no ridge fits
        better than another.
    tie : float
        Difference of the criterion up to which two choices are tied.
    """

    ridge: float
    criterion: float
    tie: float


def first_best(choices: Sequence[Choice]) -> int:
    """Return the index of the choice with the smallest criterion; the first of tied choices.

    A few rows are often fitted equally well in all units of features. Rounding errors, which depend
    on the size of the batches, must not select the units.

    Examples
    --------
    >>> raw, standardised = (Choice(1.0, each, 1e-3) for each in (0.5 + 1e-9, 0.5))
    >>> first_best([raw, standardised]), first_best([raw, standardised._replace(criterion=0.4)])
    (0, 1)
    """
    least = min(choice.criterion for choice in choices)
    return next(n for n, each in enumerate(choices) if each.criterion <= least + each.tie)


MAX_FEATURES_DECOMPOSED = 512
"""Number of features up to which the Gram of rows that can be fitted exactly is decomposed.

Eigenvalues keep more digits: without them, another order of the rows, or another batch size,
changed the choice in an eighth of these problems (with 200 features and 100 rows in half of them),
and in one of 5,000 other problems. All other Grams are made tridiagonal, which takes a quarter of
the time of a decomposition at 64 features.
"""

BLOCK_NUMBERS = 4096
"""Number of entries of solutions, for several ridges together, that are computed at once."""


def dependent_columns(gram: Floats) -> Integers:
    """Return the varying columns that are part of a combination that is 0 in every row.

    Only the upper triangle of the Gram is read; its memory is overwritten.

    Examples
    --------
    >>> twins_and_metres = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1e6]])
    >>> sorted(dependent_columns(twins_and_metres).tolist())
    [0, 1]
    """
    varies = gram.diagonal() > 0.0
    factors = reciprocal(np.sqrt(np.maximum(gram.diagonal(), 0.0)))
    gram *= factors
    gram *= factors[:, None]
    factor, pivots, rank, _ = dpstrf(gram, tol=MIN_INDEPENDENT_SHARE, lower=0, overwrite_a=1)
    beyond = varies[pivots[rank:] - 1]
    # The coefficients of the columns beyond the rank as combinations of the other columns.
    shares, _ = dtrtrs(factor[:rank, :rank], factor[:rank, rank:][:, beyond])
    used = np.append(np.abs(shares).max(axis=1, initial=0.0) > MIN_COMBINED_SHARE, beyond)
    columns: Integers = pivots[used] - 1
    return columns


def select_ridge(sums: Sums, n_rows: int, is_short: bool = False) -> Choice:
    """Return the ridge with the largest restricted likelihood (REML).

    This is the likelihood of the targets, orthogonal to the intercept, if the weights are normal
    with the variance s^2 / c for the noise variance s^2. After maximising over s^2, the selected
    ridge c minimises (n - n_free) log(RSS(c) + c |W(c)|^2) + sum_i log(1 + s_i / c), where RSS(c)
    is the residual sum of squares, summed over targets, and s_i are the eigenvalues of A'A.

    Parameters
    ----------
    sums : Sums
        Sums of products of the rows. Weights of rows count as repetitions: n is the total weight.
        The memory of the Gram is overwritten.
    n_rows : int
        Number of rows, an upper bound of the rank of the Gram.
    is_short : bool
        Whether rows are forgotten so fast that the error of a new row is the better criterion; see
        `new_row_criterion`.

    Returns
    -------
    Choice
        The ridge is above 0 and finite, a power of 10^(1/256); the largest of equally good ridges.
        1.0 if every feature is constant.

    Notes
    -----
    About ``4/3 M^3`` operations (four to eight times a solution), in the ``8 M^2`` bytes of the
    Gram. For r < M rows, ``r^2 M`` more, and r replaces M.

    On random problems, the held-out squared error was within 0.3% of the error of the best ridge in
    the median, and more than twice this error in 0.8% of the problems. Generalised cross-validation
    did equally well, but needs the trace of the inverse (demos/benchmarks/README.md). Neither
    criterion sees single rows. With outliers in features, the error was 1.02 times that of the
    best ridge on average, and 1.5 times at most: outliers harm the weights at any ridge.

    References
    ----------
    S. N. Wood, "Fast stable restricted maximum likelihood and marginal likelihood estimation of
    semiparametric generalized linear models", Journal of the Royal Statistical Society B 73
    (2011).

    Examples
    --------
    >>> A = np.array([[-3.0], [-1.0], [1.0], [3.0]])
    >>> noise = np.array([[0.1], [-0.3], [0.3], [-0.1]])
    >>> cross, squares = A.T @ (A + noise), ((A + noise) ** 2).sum(axis=0)
    >>> round(select_ridge(Sums(np.array([[20.0]]), cross, squares, 4.0), 4).ridge, 3)
    0.067
    """
    largest = length_of(sums.gram.diagonal())
    first, last = exponents(largest)
    if not (largest >= 10.0**-MAX_RIDGE_EXPONENT and sums.target_squares.sum() > 0.0):
        return no_choice(last)
    can_fit_all = n_rows <= len(sums.gram) + sums.n_free
    if n_rows < len(sums.gram):
        sums = reduced_to_rank(sums)
    if is_short:
        return best_of(new_row_criterion(sums), first, last, SQUARED_ERROR_TOLERANCE)
    needs_digits = can_fit_all and len(sums.gram) <= MAX_FEATURES_DECOMPOSED
    judge = (judge_by_eigenvalues if needs_digits else judge_by_tridiagonal)(sums)
    freedom = max(1.0, sums.weight - sums.n_free)
    tie = max(TIE_TOLERANCE, 2.0 * LIKELIHOOD_TOLERANCE / freedom)
    return best_of(partial(likelihood_criterion, sums, judge), first, last, tie)


def no_choice(power: int) -> Choice:
    """Return a choice for sums that favour no ridge; its criterion is infinite."""
    return Choice(10.0 ** (power / RIDGES_PER_DECADE), np.inf, TIE_TOLERANCE)


@ignoring("over")  # Squares may exceed float64; the ridges do not.
def length_of(diagonal: Floats) -> float:
    """Return the Euclidean norm of a diagonal."""
    return float(np.linalg.norm(diagonal))


def exponents(largest: float) -> tuple[int, int]:
    """Return the first and last power of 10^(1/256) searched for a Gram with a given norm.

    The grid of ridges does not depend on the data. So rounding errors, which depend on the size of
    the batches, hardly ever change the choice.

    Examples
    --------
    >>> [f"{10.0 ** (power / 256):.3g}" for power in exponents(2.0)]
    ['3.16e-13', '1e+03']
    """
    if largest < 10.0**-MAX_RIDGE_EXPONENT:
        return 0, 0
    first, last = (
        min(max(log10(each) + log10(largest), -MAX_RIDGE_EXPONENT), MAX_RIDGE_EXPONENT)
        * RIDGES_PER_DECADE
        / COARSE
        for each in (MIN_RELATIVE_RIDGE, MAX_RELATIVE_RIDGE)
    )
    return COARSE * ceil(first), COARSE * floor(last)


def best_of(
    criterion: Callable[[Floats], Floats], first: int, last: int, tie: float = TIE_TOLERANCE
) -> Choice:
    """Return the best of the ridges 10^(k / 256), for k from `first` to `last`.

    Parameters
    ----------
    criterion : callable
        Function of ridges (n,) that returns the logarithms (n,) of a loss.
    first, last : int
        The range of k.
    tie : float
        Difference from the minimum up to which a larger ridge is preferred.

    Examples
    --------
    >>> choice = best_of(lambda ridges: (np.log(ridges) - 1.0) ** 2, -256, 256)
    >>> round(choice.ridge, 2)  # e, nearly
    2.71
    """
    powers = np.arange(first, last + 1, COARSE)
    values = criterion(10.0 ** (powers / RIDGES_PER_DECADE))
    best, least = int(powers[_largest_within(values, tie)]), float(values.min())
    powers = np.arange(max(first, best - COARSE), min(last, best + COARSE) + 1, FINE)
    values = criterion(10.0 ** (powers / RIDGES_PER_DECADE))
    at, end = (best - int(powers[0])) // FINE, len(powers) - 1
    # First among every fourth ridge, then among all.
    for step in (4, 1):
        start = at - step * min(3, at // step)
        at = start + step * _largest_within(values[start : min(at + 3 * step, end) + 1 : step], tie)
    best, least = int(powers[at]), min(least, float(values.min()))
    # The vertex of the parabola through three values, if they differ by more than rounding.
    if 0 < at < end:
        before, after = (values[[at - 1, at + 1]] - values[at]).tolist()
        if np.isfinite(before + after) and before + after > tie:
            best += round(0.5 * FINE * (before - after) / (before + after))
            least = min(least, values[at] - (before - after) ** 2 / (before + after) / 8.0)
    return Choice(10.0 ** (best / RIDGES_PER_DECADE), least, tie)


def _largest_within(values: Floats, tie: float) -> int:
    """Return the last index of a value within a tie of the minimum."""
    within = np.flatnonzero(values <= values.min() + tie)
    if not len(within):
        raise ValueError(
            "The statistics hold infinite or NaN sums, expected finite numbers to choose a ridge "
            "from. A file that was changed by hand may hold them. Load another file."
        )
    return int(within[-1])


Judge = Callable[[Floats], tuple[Floats, Floats]]
"""Function of ridges c, in ascending order, that returns RSS + c |W|^2 and log det(I + A'A / c)."""


def likelihood_criterion(sums: Sums, judge: Judge, ridges: Floats) -> Floats:
    """Return -2/(n - n_free) times the restricted log-likelihood; see `select_ridge`.

    All targets share one noise variance and one ridge. With at most n_free rows, the largest ridge
    is the best.
    """
    freedom = sums.weight - sums.n_free
    if freedom <= 0.0:
        return -ridges
    left, complexity = judge(ridges)
    # Targets of weights such as 1e-320 leave nothing.
    left = np.maximum(left, np.finfo(np.float64).tiny)
    criterion: Floats = np.log(left) + complexity / freedom
    return criterion


def judge_by_eigenvalues(sums: Sums) -> Judge:
    """Return a judge of ridges in the eigenbasis of A'A, by one `eigh`: about 10 M^3 operations.

    Examples
    --------
    >>> sums = Sums(np.diag([1.0, 4.0]), np.array([[3.0], [2.0]]), np.array([12.0]), 5.0)
    >>> judge_by_eigenvalues(sums)(np.array([1.0]))[0].round(9)  # 2 + 9/2 + 1/5
    array([6.7])
    """
    eigenvalues, squares, never = spectrum(sums)

    def judge(ridges: Floats) -> tuple[Floats, Floats]:
        shrunk = ridges / (eigenvalues[:, None] + ridges)
        return never + squares @ shrunk, -np.log(shrunk).sum(axis=0)

    return judge


def accepts_ridge(sums: Sums, ridge: float) -> bool:
    """Return whether Rao's score test accepts a ridge, in the eigenbasis of A'A.

    See `onlinels.core.reference.is_accepted`. The memory of the Gram is overwritten.

    Examples
    --------
    >>> sums = Sums(np.diag([1.0, 4.0]), np.array([[3.0], [2.0]]), np.array([12.0]), 5.0)
    >>> accepts_ridge(sums, 1.0), accepts_ridge(sums, 0.01)
    (True, False)
    """
    freedom, total = sums.weight - sums.n_free, float(sums.target_squares.sum())
    if not (freedom > 0.0 and total > 0.0 and sums.gram.size):
        return False
    eigenvalues, squares, never = spectrum(sums)
    shrunk = ridge / (eigenvalues + ridge)
    kept = 1.0 - shrunk
    least, penalised = never + squares @ shrunk, squares @ (shrunk * kept)
    score, square = freedom * penalised / least - kept.sum(), kept @ kept
    information = square - kept.sum() ** 2 / freedom
    is_known = least > MIN_NOISE * total and information > MIN_INFORMATION * square
    return bool(is_known and score**2 <= 0.5 * information)


def new_row_criterion(sums: Sums) -> Callable[[Floats], Floats]:
    """Return the logarithm of the squared error of a new row, by ridges (n,), with forgetting.

    With n = sum w and p(c) effective parameters, the error is RSS(c) exp(p(c) / n) / n. It is the
    leave-one-out error if the weight of every row decays by the same factor with the next row: the
    latest row has a share 1 / n of all weight, and its own leverage.

    Examples
    --------
    >>> sums = Sums(np.diag([1.0, 4.0]), np.array([[3.0], [2.0]]), np.array([12.0]), 5.0)
    >>> np.exp(new_row_criterion(sums)(np.array([1.0]))).round(3)  # (2 + 9/4 + 1/25) exp(1.3 / 5)
    array([5.564])
    """
    eigenvalues, squares, never = spectrum(sums)

    def criterion(ridges: Floats) -> Floats:
        shrunk = ridges / (eigenvalues[:, None] + ridges)
        n_parameters = (1.0 - shrunk).sum(axis=0)
        errors: Floats = np.log(never + squares @ shrunk**2) + n_parameters / sums.weight
        errors[n_parameters > MAX_PARAMETERS_PER_ROW * sums.weight] = np.inf
        return errors

    return criterion


def spectrum(sums: Sums) -> tuple[Floats, Floats, float]:
    """Return the eigenvalues of A'A, what each direction can fit of Y'Y, and what none can."""
    # Measured: `eigh` takes twice the time for 10 features.
    eigenvalues, vectors, _ = dsyevd(sums.gram, lower=0)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    present = present_directions(eigenvalues)
    fitted = product(vectors.T, sums.cross)
    fitted[present] /= np.sqrt(eigenvalues[present, None])
    fitted[~present] = 0.0
    # What each direction can fit of the squares of the targets, summed over targets.
    squares, total = (fitted**2).sum(axis=1), float(sums.target_squares.sum())
    # Sums of positive terms keep their digits where differences would not.
    return eigenvalues, squares, max(total - float(squares.sum()), MAX_ROUNDING_ERROR * total)


def judge_by_tridiagonal(sums: Sums) -> Judge:
    """Return a judge of ridges by A'A made tridiagonal, in ``4/3 M^3`` operations.

    Every ridge then costs ``M N`` operations. The results are infinite for ridges so small that
    rounding errors make the system indefinite. The memory of the Gram is overwritten.

    Examples
    --------
    >>> A = np.random.default_rng(0).normal(size=(40, 20))
    >>> sums = Sums(A.T @ A, A.T @ A[:, :1], np.array([9.0]), 40.0)
    >>> float(np.linalg.slogdet(np.eye(20) + A.T @ A)[1].round(6))
    67.149363
    >>> judge_by_tridiagonal(sums)(np.array([1.0]))[1].round(6)
    array([67.149363])
    """
    size, n_targets = sums.cross.shape
    gram = sums.gram
    if not gram.flags.f_contiguous:
        gram = gram.T
    else:
        # LAPACK reads the lower triangle, which in C order is the upper triangle.
        for column in range(size):
            gram[column + 1 :, column] = gram[column, column + 1 :]
    packed, diagonal, below, shares, _ = dsytrd(gram, 1, 32 * size, 1)
    rotated = np.array(sums.cross, order="F")
    if size > 1:
        # The reflections lie below the diagonal, as in a QR factorisation of all rows but the
        # first: the same memory, from the second number on.
        own = packed.ravel(order="F")[1 : 1 - size].reshape(size, size - 1, order="F")
        rotated[1:] = dormqr("L", "T", own, shares, rotated[1:], 32 * n_targets)[0]

    def judge(ridges: Floats) -> tuple[Floats, Floats]:
        total = float(sums.target_squares.sum())
        left, complexity = np.full((2, len(ridges)), np.inf)
        step = max(1, BLOCK_NUMBERS // rotated.size)
        # Several systems at once, as the blocks of one system, from the largest ridge down.
        for start in range(0, len(ridges), step):
            tried = ridges[::-1, None][start : start + step]
            under = np.zeros((len(tried), size))
            under[:, :-1] = below
            pivots, factors, failed = dpttrf(
                (diagonal + tried).ravel(), under.ravel()[: max(1, under.size - 1)]
            )
            n_solved = (failed - 1) // size if failed else len(tried)
            own, end = slice(start, start + n_solved), n_solved * size
            if n_solved:
                repeated = np.empty((n_solved, size, n_targets))
                repeated[:] = rotated
                solved, _ = dpttrs(
                    pivots[:end], factors[: max(1, end - 1)], repeated.reshape(end, n_targets)
                )
                explained = solved.reshape(n_solved, -1) @ rotated.ravel()
                shares = pivots[:end].reshape(n_solved, size) / tried[:n_solved]
                left[own] = np.maximum(total - explained, MAX_ROUNDING_ERROR * total)
                complexity[own] = np.log(shares).sum(axis=1)
            if failed:
                break
        return left[::-1], complexity[::-1]

    return judge


def present_directions(eigenvalues: Floats) -> NDArray[np.bool_]:
    """Return which eigenvalues exceed rounding errors: those above 1e-14 of the largest.

    Examples
    --------
    >>> present_directions(np.array([1e-16, 1e-3, 1.0]))
    array([False,  True,  True])
    """
    rounding = max(MAX_ROUNDING_ERROR, np.finfo(np.float64).eps * len(eigenvalues))
    present: NDArray[np.bool_] = eigenvalues > rounding * eigenvalues.max(initial=0.0)
    return present


def reduced_to_rank(sums: Sums) -> Sums:
    """Return sums with the same spectrum, and one feature for every independent column.

    A pivoted Cholesky factorisation that stops at the rank r gives A'A = L L' with L (M, r). With
    L = Q R and A'Y = L Z, the new sums are R R' and R Z, in ``3 r^2 M`` operations.

    References
    ----------
    C. Lucas, "LAPACK-style codes for level 2 and 3 pivoted Cholesky factorizations", LAPACK
    working note 161 (2004).

    Examples
    --------
    >>> gram, cross = np.full((3, 3), 2.0), np.full((3, 1), 4.0)
    >>> reduced = reduced_to_rank(Sums(gram, cross, np.array([9.0]), 2.0))
    >>> reduced.gram.round(9), np.abs(reduced.cross).round(9)
    (array([[6.]]), array([[6.92820323]]))
    """
    factor, pivots, rank, _ = dpstrf(sums.gram, lower=0, overwrite_a=1)
    rows = np.triu(factor[:rank])
    solved, _ = dtrtrs(rows[:, :rank], sums.cross[pivots[:rank] - 1], trans=1)
    triangle = np.triu(dgeqrf(rows.T)[0][:rank])
    return replace(sums, gram=product(triangle, triangle.T), cross=product(triangle, solved))


BLOCK_COLUMNS = 2048
"""Number of columns of output weights, for several ridges, whose errors are computed at once."""


def held_out_errors(train: Sums, held_out: Sums) -> Callable[[Floats], Floats]:
    """Return a function that computes the squared errors of ridges on held-out rows, (n_ridges,).

    Parameters
    ----------
    train, held_out : Sums
        Sums of the training rows and the held-out rows, both about the mean of the training rows.

    Notes
    -----
    An eigendecomposition and two products of M x M matrices, about ``14 M^3`` operations, and
    ``2 M^2 N`` for every ridge.

    Examples
    --------
    >>> train = Sums(np.array([[1.0]]), np.array([[4.0]]), np.array([16.0]), 1.0)
    >>> held_out = Sums(np.array([[1.0]]), np.array([[3.0]]), np.array([9.0]), 1.0)
    >>> held_out_errors(train, held_out)(np.array([1.0, 3.0]))
    array([1., 4.])
    """
    total = float(held_out.target_squares.sum())
    eigenvalues, basis = eigh(train.gram, lower=False, driver="evd")
    # Held-out rows may lie in directions without training rows, where weights are rounding errors.
    present = present_directions(eigenvalues)
    eigenvalues, basis = eigenvalues[present], basis[:, present]
    cross, seen = basis.T @ train.cross, basis.T @ held_out.cross
    # The triangle, with half the diagonal, is half of the product with the Gram.
    half = np.triu(held_out.gram)
    half.flat[:: len(half) + 1] *= 0.5
    half = basis.T @ (half @ basis)

    def errors(ridges: Floats) -> Floats:
        """Return the sum of squared errors of every ridge."""
        result = np.full(len(ridges), total)
        step = max(1, BLOCK_COLUMNS // cross.shape[1])
        for block in (slice(start, start + step) for start in range(0, len(ridges), step)):
            weights = cross[:, None, :] / (eigenvalues[:, None] + ridges[block])[:, :, None]
            excess = np.tensordot(half, weights, 1) - seen[:, None, :]
            result[block] += 2.0 * (weights * excess).sum(axis=(0, 2))
        return result

    return errors
