"""Streams that never end, of rows that repeat, and their ridge regression to sixty digits.

A stream goes round and round a table of rows. What any row weighs, however many came, is a sum of
a geometric series, so that the definition needs no pass over the stream and knows no rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Floats, Integers

N_FEATURES, N_CLASSES = 8, 3

PERIOD = 4999
"""Rows in one round of the table; a prime, so that batches are cut elsewhere in every round."""

DIGITS = 60
"""Of the definition: whatever a system's condition, thirty are left."""

SIGNS = np.array([1.0, -1.0] * (N_FEATURES // 2))
"""A direction that is rare in some streams."""

Matrix = list[list[Decimal]]


@dataclass(frozen=True, eq=False)
class Table:
    """A round of a stream.

    Parameters
    ----------
    rows : ndarray (n_different, n_features)
    labels : ndarray (n_different,)
        Of every different row, from 0.
    order : ndarray (PERIOD,)
        Which of them come, in this order.
    """

    rows: Floats
    labels: Integers
    order: Integers

    def between(self, start: int, stop: int) -> tuple[Floats, Integers]:
        """Return rows `start` to `stop` of the endless stream, and their labels."""
        which = self.order[np.arange(start, stop) % len(self.order)]
        return self.rows[which], self.labels[which]


def make_table(kind: str, seed: int = 0) -> Table:
    """Return the rows of a kind of stream: whole numbers, or such as float64 holds exactly."""
    random = np.random.default_rng(seed)
    rows = random.integers(-8, 9, (400, N_FEATURES)).astype(np.float64)
    scores = rows @ random.normal(size=(N_FEATURES, N_CLASSES))
    labels = (scores + 10.0 * random.normal(size=scores.shape)).argmax(axis=1)
    order = random.integers(0, len(rows), PERIOD)
    KINDS[kind](rows, order)
    return Table(rows, labels, order)


def _independent(rows: Floats, order: Integers) -> None:
    """Be no whole numbers, so that every sum of products is rounded."""
    rows /= 7.0


def _far(rows: Floats, order: Integers) -> None:
    """Lie far from 0 beside the deviation."""
    rows += 1e6 * np.arange(1, N_FEATURES + 1)


def _rare(rows: Floats, order: Integers) -> None:
    """Say something about one direction, a mix of all features, in one row of a thousand."""
    _never(rows, order)
    rows[-1] += 8.0 * SIGNS
    order[order == len(rows) - 1] = 0
    order[500::1000] = len(rows) - 1


def _never(rows: Floats, order: Integers) -> None:
    """Say nothing about one direction, a mix of all features."""
    # Eight times the part across the signs: of whole numbers.
    rows[:] = N_FEATURES * rows - np.outer(rows @ SIGNS, SIGNS)


def _constant(rows: Floats, order: Integers) -> None:
    """Have a feature that never changes, and one that is always 0."""
    rows[:, 0], rows[:, 1] = 3.0, 0.0


def _collinear(rows: Floats, order: Integers) -> None:
    """Have a feature that is another one but for a millionth."""
    rows /= 7.0
    rows[:, 0] = rows[:, 1] + 1e-6 * rows[:, 0]


KINDS = {
    "independent": _independent,
    "far from 0": _far,
    "one direction rare": _rare,
    "one direction never": _never,
    "constant": _constant,
    "nearly collinear": _collinear,
}
"""What streams are like."""


@dataclass(frozen=True)
class Definition:
    """The equations that define weights: (A'A + c I) W = A'Y, an intercept without c included.

    Parameters
    ----------
    system : list of lists of Decimal
    targets : list of lists of Decimal
    """

    system: Matrix
    targets: Matrix

    def solution(self) -> NDArray[np.float64]:
        """Return the weights, and the intercept below them, rounded to float64."""
        with localcontext(prec=DIGITS):
            return np.array(solved(self.system, self.targets), dtype=np.float64)

    def residual(self, weights: Floats) -> float:
        """Return the largest residual of weights, relative to the size of its terms."""
        with localcontext(prec=DIGITS):
            exact = [[Decimal(float(entry)) for entry in row] for row in weights]
            worst = Decimal(0)
            for k in range(len(exact[0])):
                terms = [
                    [a * row[k] for a, row in zip(line, exact, strict=True)] for line in self.system
                ]
                size = max(
                    sum(map(abs, term), abs(target[k]))
                    for term, target in zip(terms, self.targets, strict=True)
                )
                residuals = (
                    abs(sum(term) - target[k])
                    for term, target in zip(terms, self.targets, strict=True)
                )
                worst = max(worst, max(residuals) / (size or 1))
            return float(worst)


def define(
    table: Table, n_rows: int, decay: Decimal, ridges: Floats, fit_intercept: bool
) -> Definition:
    """Return the equations for the first rows of a stream, each older one weighing `decay` less.

    Parameters
    ----------
    ridges : ndarray (N_FEATURES,)
        On every feature.
    """
    with localcontext(prec=DIGITS):
        weights = row_weights(table.order, n_rows, decay)
        n_columns = N_FEATURES + fit_intercept
        system = [[Decimal(0)] * n_columns for _ in range(n_columns)]
        targets = [[Decimal(0)] * N_CLASSES for _ in range(n_columns)]
        for which, weight in weights.items():
            row = [*map(Decimal, table.rows[which].tolist()), *[Decimal(1)] * fit_intercept]
            for i, left in enumerate(row):
                share = weight * left
                targets[i][table.labels[which]] += share
                for j, right in enumerate(row):
                    system[i][j] += share * right
        for feature in range(N_FEATURES):
            system[feature][feature] += Decimal(float(ridges[feature]))
        return Definition(system, targets)


def row_weights(order: Integers, n_rows: int, decay: Decimal) -> dict[int, Decimal]:
    """Return what every different row of a round weighs after some rows of the endless stream."""
    period = len(order)
    weights: dict[int, Decimal] = {}
    power, of_round = Decimal(1), decay**period
    for age in range(min(n_rows, period)):
        which = int(order[(n_rows - 1 - age) % period])
        n_rounds = (n_rows - 1 - age) // period + 1
        series = n_rounds if decay == 1 else (1 - of_round**n_rounds) / (1 - of_round)
        weights[which] = weights.get(which, Decimal(0)) + power * series
        power *= decay
    return weights


def solved(system: Matrix, targets: Matrix) -> Matrix:
    """Return the solution of linear equations, by elimination with pivots."""
    lines = [[*left, *right] for left, right in zip(system, targets, strict=True)]
    size = len(lines)
    for k in range(size):
        pivot = max(range(k, size), key=lambda i: abs(lines[i][k]))
        lines[k], lines[pivot] = lines[pivot], lines[k]
        for i in range(size):
            if i != k:
                factor = lines[i][k] / lines[k][k]
                lines[i] = [a - factor * b for a, b in zip(lines[i], lines[k], strict=True)]
    return [[entry / line[k] for entry in line[size:]] for k, line in enumerate(lines)]


def moments(n_rows: int, n_moments: int = 30) -> list[int]:
    """Return numbers of rows up to all of them, logarithmically apart, from ten on."""
    spaced = np.geomspace(min(10, n_rows), n_rows, n_moments).round().astype(int)
    return sorted(set(spaced.tolist()))
