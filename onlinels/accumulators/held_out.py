"""Exact K-fold cross-validation from the statistics of the folds."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.linalg import eigh

from onlinels.accumulators.base import Accumulator
from onlinels.checks import Floats
from onlinels.linalg.selection import (
    NOTHING_LEFT,
    Sums,
    best_ridge,
    candidate_ridges,
    present_directions,
)

BLOCK_COLUMNS = 2048
"""Columns of output weights, of several ridges together, whose errors are told at once."""


def added(parts: Sequence[Accumulator]) -> Accumulator:
    """Return a new accumulator that has learnt the rows of all parts."""
    total = copy.deepcopy(parts[0])
    for part in parts[1:]:
        total.merge(part)
    return total


def select_by_folds(folds: Sequence[Accumulator]) -> float:
    """Return the candidate with the smallest cross-validation error, 1.0 if there is no feature.

    All errors being within rounding of each other, it is the largest candidate.
    """
    total = added(folds)
    gram = total.sums_about(total).gram
    # Between the largest eigenvalue and its sqrt(M)-fold, without a decomposition.
    with np.errstate(over="ignore"):  # Of squares beyond float64; candidates end before.
        ridges = candidate_ridges(float(np.linalg.norm(gram + np.triu(gram, 1).T)))
    squares = float(total.target_squares.sum())
    if ridges.size == 1 or squares <= 0.0:
        return float(ridges[-1])
    errors = cross_validation_errors(folds, ridges)
    return best_ridge(ridges, np.log(np.maximum(errors, NOTHING_LEFT * squares)))


def cross_validation_errors(folds: Sequence[Accumulator], ridges: Floats) -> Floats:
    """Return every ridge's sum of squared errors on folds held out in turn, (n_ridges,).

    For each fold, weights come from the rows of all others, and the weighted squared errors on the
    rows of the fold are summed, over all targets: e = |y|^2 - 2 w'A'y + w'A'A w needs no row.

    Parameters
    ----------
    folds : sequence of Accumulator
        Of one kind, and of one size.
    ridges : ndarray (n_ridges,)
        Over 0.

    Notes
    -----
    For every fold one eigendecomposition and two products of M x M matrices, about 14 M^3
    operations, and 2 M^2 N for every ridge.

    References
    ----------
    M. Stone, "Cross-validatory choice and assessment of statistical predictions", Journal of the
    Royal Statistical Society B 36 (1974).

    Examples
    --------
    >>> from onlinels.accumulators.gram import GramAccumulator
    >>> folds = [GramAccumulator(), GramAccumulator()]
    >>> folds[0].update(np.array([[1.0]]), np.array([[2.0]]))
    >>> folds[1].update(np.array([[1.0]]), np.array([[4.0]]))
    >>> cross_validation_errors(folds, np.array([1.0]))
    array([9.])
    """
    errors = np.zeros(len(ridges))
    for number, held_out in enumerate(folds):
        if held_out.weight > 0.0:
            train = added([*folds[:number], *folds[number + 1 :]])
            sums = train.sums_about(train), held_out.sums_about(train)
            with np.errstate(over="ignore", invalid="ignore"):  # Beyond float64 is too much.
                errors += held_out_errors(*sums, ridges)
    errors[np.isnan(errors)] = np.inf
    return errors


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
    for block in _ridge_blocks(len(ridges), cross.shape[1]):
        weights = cross[:, None, :] / (eigenvalues[:, None] + ridges[block])[:, :, None]
        flat = weights.reshape(len(cross), weights.shape[1] * weights.shape[2])
        fitted = (flat * (half @ flat)).sum(axis=0).reshape(weights.shape[1:])
        errors[block] += 2.0 * (fitted - (weights * seen[:, None, :]).sum(axis=0)).sum(axis=1)
    return errors


def _ridge_blocks(n_ridges: int, n_targets: int) -> Iterator[slice]:
    step = max(1, BLOCK_COLUMNS // n_targets)
    for start in range(0, n_ridges, step):
        yield slice(start, start + step)
