"""Correct digits on NIST's reference regressions, however the rows are streamed and merged."""

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from onlinels import LeastSquaresRegressor


@dataclass(frozen=True)
class DataSet:
    """A published regression problem.

    Rows are (y, x) or (y, x1, x2, ...) as published. The model's columns are the powers of x from
    `lowest` to `highest`, or a column of ones and all x where there are several. So many digits of
    the worst coefficient are wanted.
    """

    name: str
    n_rows: int
    certified: str
    wanted: float
    table: str
    lowest: int = 0
    highest: int = 1

    def floats(self):
        """Return the columns of the model (n, n_coefficients), by plain powers, and y (n, 1)."""
        values = np.array(self.table.split(), dtype=np.float64).reshape(self.n_rows, -1)
        if values.shape[1] > 2:
            return np.hstack([np.ones((len(values), 1)), values[:, 1:]]), values[:, :1]
        return values[:, 1:] ** np.arange(self.lowest, self.highest + 1), values[:, :1]


TABLES = tomllib.loads(Path(__file__).with_name("nist.toml").read_text())
DATA_SETS = [DataSet(name, **parts) for name, parts in TABLES.items()]
each_data_set = pytest.mark.parametrize("data", DATA_SETS, ids=lambda data: data.name)


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
    "at once": lambda empty, X, y: in_batches(empty, X, y, len(X)),
    "backwards": lambda empty, X, y: in_batches(empty, X[::-1], y[::-1], 1),
    "chain of 4": lambda empty, X, y: chain(parts(empty, X, y, len(X))),
    "tree of 4, one by one": lambda empty, X, y: tree(parts(empty, X, y, 1)),
}


def correct_digits(weights, data):
    """Return the least number of correct significant digits of any coefficient, at most 15."""
    certified = np.array(data.certified.split(), dtype=np.float64)
    errors = np.abs(weights.ravel() - certified) / np.abs(certified)
    return float(-np.log10(np.maximum(errors.max(), 1e-15)))


@each_data_set
@pytest.mark.parametrize("path", PATHS)
def test_correct_digits(data, path):
    X, y = data.floats()
    model = PATHS[path](lambda: LeastSquaresRegressor(0.0, "orthogonal", False), X, y)
    assert model.count == data.n_rows
    assert correct_digits(model.output_weights, data) >= data.wanted
    if not data.lowest:
        # The same where the column of ones is an intercept, by means and centred rows.
        model = PATHS[path](lambda: LeastSquaresRegressor(0.0, "orthogonal"), X[:, 1:], y)
        both = np.concatenate([model.intercept[None], model.output_weights])
        assert correct_digits(both, data) >= data.wanted
