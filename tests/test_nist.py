"""Correct digits on NIST's reference regressions, however the rows are streamed and merged."""

import functools
from fractions import Fraction

import numpy as np
import pytest

from onlinels import LeastSquaresRegressor
from support import nist

WANTED = {
    nist.NORRIS: 11.0,
    nist.PONTIUS: 11.0,
    nist.NOINT1: 13.0,
    nist.NOINT2: 13.0,
    nist.FILIP: 6.5,
    nist.LONGLEY: 10.0,
    nist.WAMPLER1: 9.0,
    nist.WAMPLER2: 11.0,
    nist.WAMPLER3: 8.5,
    nist.WAMPLER4: 7.5,
    nist.WAMPLER5: 5.5,
}


def exact_solution(rows, y):
    """Solve the normal equations in rational arithmetic, without any rounding."""
    columns = list(zip(*rows, strict=True))
    system = [
        [sum(a * b for a, b in zip(left, right, strict=True)) for right in (*columns, y)]
        for left in columns
    ]
    size = len(system)
    for pivot in range(size):
        system[pivot] = [value / system[pivot][pivot] for value in system[pivot]]
        for row in range(size):
            if row != pivot:
                factor = system[row][pivot]
                pairs = zip(system[row], system[pivot], strict=True)
                system[row] = [value - factor * other for value, other in pairs]
    return [row[-1] for row in system]


@pytest.mark.parametrize("data", WANTED, ids=lambda data: data.name)
def test_data_and_certified_values_belong_together(data):
    """One wrong digit anywhere in the data would show: 15 digits are published."""
    solution = exact_solution(*data.exact())
    certified = data.coefficients()
    assert len(solution) == len(certified)
    for value, expected in zip(solution, certified, strict=True):
        assert abs(value - expected) <= Fraction(1, 10**14) * abs(expected)


def test_wamplers_data_are_their_polynomials_and_fixed_deltas():
    powers = np.arange(21)[:, None] ** np.arange(6)
    half = [759, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048]
    deltas = np.array([*half, 2048, *half[::-1]])
    names = nist.WAMPLER1, nist.WAMPLER3, nist.WAMPLER4, nist.WAMPLER5
    for data, scale in zip(names, (0, 1, 100, 10000), strict=True):
        columns, y = data.floats()
        assert (columns == powers).all()
        assert (y.ravel() == powers.sum(axis=1) + scale * deltas).all()
    rows, y = nist.WAMPLER2.exact()
    assert y == [sum(x / 10**k for k, x in enumerate(row)) for row in rows]


def in_batches(empty, X, y, n_rows):
    model = empty()
    for start in range(0, len(X), n_rows):
        model.learn_many(X[start : start + n_rows], y[start : start + n_rows, 0])
    return model


def parts(empty, X, y, n_rows):
    cuts = [len(X) * k // 4 for k in (1, 2, 3)]
    pieces = zip(np.split(X, cuts), np.split(y, cuts), strict=True)
    return [in_batches(empty, *piece, n_rows) for piece in pieces if len(piece[0])]


def chain(models):
    return functools.reduce(lambda left, right: left.merge(right), models)


def tree(models):
    half = len(models) // 2
    if not half:
        return models[0]
    return chain([tree(models[:half]), tree(models[half:])])


PATHS = {
    "one by one": lambda empty, X, y: in_batches(empty, X, y, 1),
    "blocks of 5": lambda empty, X, y: in_batches(empty, X, y, 5),
    "blocks of 16": lambda empty, X, y: in_batches(empty, X, y, 16),
    "at once": lambda empty, X, y: in_batches(empty, X, y, len(X)),
    "backwards": lambda empty, X, y: in_batches(empty, X[::-1], y[::-1], 1),
    "chain of 4": lambda empty, X, y: chain(parts(empty, X, y, len(X))),
    "chain of 4, backwards": lambda empty, X, y: chain(parts(empty, X, y, len(X))[::-1]),
    "tree of 4": lambda empty, X, y: tree(parts(empty, X, y, len(X))),
    "tree of 4, one by one": lambda empty, X, y: tree(parts(empty, X, y, 1)),
}


def correct_digits(weights, data):
    """Return the least number of correct significant digits of any coefficient, at most 15."""
    certified = np.array([float(value) for value in data.coefficients()])
    errors = np.abs(weights.ravel() - certified) / np.abs(certified)
    return float(-np.log10(np.maximum(errors.max(), 1e-15)))


@pytest.mark.parametrize("data", WANTED, ids=lambda data: data.name)
@pytest.mark.parametrize("path", PATHS)
def test_correct_digits(data, path):
    X, y = data.floats()
    model = PATHS[path](lambda: LeastSquaresRegressor(0.0, "orthogonal", False), X, y)
    assert model.count == data.n_rows
    assert correct_digits(model.output_weights, data) >= WANTED[data]
    if not data.lowest:
        # The same where the column of ones is an intercept, by means and centred rows.
        model = PATHS[path](lambda: LeastSquaresRegressor(0.0, "orthogonal"), X[:, 1:], y)
        both = np.concatenate([model.intercept[None], model.output_weights])
        assert correct_digits(both, data) >= WANTED[data]
