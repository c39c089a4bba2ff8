"""A symmetric matrix with recent columns apart is the dense matrix, whatever is done to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels.accumulators.corrected import N_RECENT, SMALL, CorrectedMatrix


class Both:
    """A corrected matrix, and the dense one that it stands for."""

    def __init__(self, n, seed):
        self.random = np.random.default_rng(seed)
        diagonal = self.random.uniform(1.0, 2.0, n)
        self.matrix, self.dense = CorrectedMatrix(diagonal), np.diag(diagonal)

    def columns(self, n_columns):
        columns = np.zeros((len(self.matrix), n_columns), order="F")
        columns[: len(self.dense)] = self.random.normal(size=(len(self.dense), n_columns))
        return columns

    def subtract(self, n_columns):
        columns, sign = self.columns(n_columns), self.random.choice([1.0, -1.0])
        self.matrix.subtract(columns, sign)
        used = columns[: len(self.dense)]
        self.dense = self.dense - sign * used @ used.T

    def subtract_one(self):
        column, sign = self.columns(1)[:, 0], self.random.choice([1.0, -1.0])
        self.matrix.subtract_one(column, 0.5, sign)
        used = 0.5 * column[: len(self.dense)]
        self.dense = self.dense - sign * np.outer(used, used)

    def set_corner(self):
        half = self.random.normal(size=(len(self.dense), 3))
        self.dense = half @ half.T
        self.matrix.set_corner(np.triu(self.dense))

    def grow(self):
        n_used = len(self.dense)
        n_needed = n_used + 2
        self.matrix.grow(n_used, n_needed, 0.25)
        dense = 0.25 * np.eye(n_needed)
        dense[:n_used, :n_used] = self.dense
        self.dense = dense

    def divide(self):
        self.matrix.divide(2.0)
        self.dense = self.dense / 2.0

    def copy(self):
        left, self.matrix = self.matrix, self.matrix.copied()
        # What happens to the one is nothing to the other.
        left.divide(7.0)

    def check(self):
        n = len(self.dense)
        columns, places = self.columns(2), np.array([n - 1, 0])
        tolerance = {"rtol": 1e-9, "atol": 1e-9 * np.abs(self.dense).max()}
        expected = self.dense @ columns[:n]
        np.testing.assert_allclose(self.matrix.times(columns)[:n], expected, **tolerance)
        found = self.matrix.times_one(columns[:, 0].copy())
        np.testing.assert_allclose(found[:n], expected[:, 0], **tolerance)
        found = self.matrix.picked(places)[:n]
        np.testing.assert_allclose(found, self.dense[:, places], **tolerance)
        found = np.triu(self.matrix.corner(n))
        np.testing.assert_allclose(found, np.triu(self.dense), **tolerance)


STEPS = {
    "columns": lambda both: both.subtract(3),
    "many columns": lambda both: both.subtract(N_RECENT + 1),
    "column": Both.subtract_one,
    "divide": Both.divide,
    "set corner": Both.set_corner,
    "grow": Both.grow,
    "settle": lambda both: both.matrix.settle(),
    "copy": Both.copy,
}


@given(
    st.integers(1, 5), st.lists(st.sampled_from([*STEPS]), max_size=50), st.integers(0, 2**32 - 1)
)
def test_it_is_the_dense_matrix(n, steps, seed):
    both = Both(n, seed)
    for step in steps:
        STEPS[step](both)
    both.check()


@pytest.mark.parametrize("last", STEPS)
@pytest.mark.parametrize("n_gathered", [1, N_RECENT - 1, N_RECENT, N_RECENT + 1])
def test_single_columns_of_a_large_one_are_gathered(n_gathered, last):
    both = Both(SMALL + 1, 0)
    for _ in range(n_gathered):
        both.subtract_one()
    both.check()
    for step in (last, "column", "columns"):
        STEPS[step](both)
        both.check()


def test_what_is_settled_tells_of_no_single_row():
    one, other = Both(SMALL + 1, 0), Both(SMALL + 1, 0)
    columns = one.columns(4)
    one.matrix.subtract(columns, 1.0)
    one.matrix.settle()
    other.matrix.subtract(np.asfortranarray(columns[:, :2]), 1.0)
    other.matrix.settle()
    other.matrix.subtract(np.asfortranarray(columns[:, 2:]), 1.0)
    other.matrix.settle()
    assert not one.matrix._recent.any()
    assert one.matrix._n_recent == other.matrix._n_recent == 0
    np.testing.assert_allclose(one.matrix.corner(5), other.matrix.corner(5))
