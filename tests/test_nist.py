"""Correct digits on NIST's reference regressions, however the rows are streamed and merged."""

import functools
import tomllib
from pathlib import Path

import numpy as np
import pytest

from onlinels import LeastSquaresRegressor

DATA_SETS = tomllib.loads(Path(__file__).with_name("nist.toml").read_text())
"""Published problems: rows, certified coefficients, and digits that the worst of these should have.

The model's columns are the powers of x from `lowest` to `highest`, or a column of ones and all x
where there are several.
"""


def columns_and_targets(n_rows, table, lowest=0, highest=1, **_):
    """Return the columns of the model (n, n_coefficients), by plain powers, and y (n,)."""
    y, *x = np.array(table.split(), dtype=np.float64).reshape(n_rows, -1).T
    if len(x) > 1:
        return np.column_stack([np.ones(n_rows), *x]), y
    return x[0][:, None] ** np.arange(lowest, highest + 1), y


def in_batches(empty, X, y, n_rows):
    model = empty()
    for start in range(0, len(X), n_rows):
        model.learn_many(X[start : start + n_rows], y[start : start + n_rows])
    return model


def quarters(empty, X, y, n_rows):
    cuts = [len(X) * k // 4 for k in (1, 2, 3)]
    pieces = zip(np.split(X, cuts), np.split(y, cuts), strict=True)
    return [in_batches(empty, *piece, n_rows) for piece in pieces]


def tree(one, two, three, four):
    return one.merge(two).merge(three.merge(four))


PATHS = {
    "one by one": lambda empty, X, y: in_batches(empty, X, y, 1),
    "blocks of 5": lambda empty, X, y: in_batches(empty, X, y, 5),
    "at once": lambda empty, X, y: in_batches(empty, X, y, len(X)),
    "backwards": lambda empty, X, y: in_batches(empty, X[::-1], y[::-1], 1),
    "chain of 4": lambda *rows: functools.reduce(
        LeastSquaresRegressor.merge, quarters(*rows, n_rows=99)
    ),
    "tree of 4, one by one": lambda *rows: tree(*quarters(*rows, n_rows=1)),
}


@pytest.mark.parametrize("data_set", DATA_SETS)
@pytest.mark.parametrize("path", PATHS)
def test_correct_digits(data_set, path):
    known = DATA_SETS[data_set]
    certified, (X, y) = np.array(known["certified"].split(), float), columns_and_targets(**known)
    model = PATHS[path](lambda: LeastSquaresRegressor(0.0, "orthogonal", False), X, y)
    assert model.count == len(X)
    solutions = [model.output_weights.ravel()]
    if not known.get("lowest"):
        # The same where the column of ones is an intercept, by means and centred rows.
        model = PATHS[path](lambda: LeastSquaresRegressor(0.0, "orthogonal"), X[:, 1:], y)
        solutions.append(np.append(model.intercept, model.output_weights))
    for weights in solutions:
        error = np.abs(weights / certified - 1.0).max()
        assert error <= 10.0 ** -known["wanted"]
