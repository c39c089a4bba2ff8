"""Long streams against the definition in sixty digits.

Started by hand: ``ONLINELS_LONG=10000000 pytest -m slow -s tests/test_long_streams.py``.

A stream goes round and round a table of rows. What any row weighs, however many came, is a sum of
a geometric series, so that the definition needs no pass over the stream and knows no rounding.
"""

import os
from decimal import Decimal, localcontext

import numpy as np
import pytest

from onlinels import LeastSquaresClassifier

pytestmark = pytest.mark.slow

N_ROWS = int(os.environ.get("ONLINELS_LONG", "20000"))
"""Of each stream; a tenth is learnt row by row."""
N_FEATURES, N_CLASSES = 8, 3
PERIOD = 4999
"""Rows in one round of the table; a prime, so that batches are cut elsewhere in every round."""
BATCH = 5000
SIGNS = np.array([1.0, -1.0] * (N_FEATURES // 2))
"""A direction that is rare in some streams."""
FORGETTING = {1.0: {}, 0.999: {"forgetting_factor": 0.999}, 0.99: {"forgetting_factor": 0.99}}

# Of the weights, relative to the largest, up to ten million rows. Where rows tell all directions,
# 13 digits are left. A direction that no row tells has the ridge alone, beside sums of squares that
# grow: a Gram loses digits of their ratio, and with forgetting, which bounds it, none more.
LARGEST_ERRORS = {
    "independent": 1e-12,
    "far from 0": 1e-12,
    "constant": 1e-12,
    "one direction rare": 1e-9,
    "one direction never": 1e-5,
    "nearly collinear": 1e-6,
    "nearly collinear, ridge 1e-6": 3e-2,
}


def make_table(kind):
    """Return different rows, their labels, and which of them come in a round, in their order."""
    random = np.random.default_rng(0)
    rows = random.integers(-8, 9, (400, N_FEATURES)).astype(float)
    scores = rows @ random.normal(size=(N_FEATURES, N_CLASSES))
    labels = (scores + 10.0 * random.normal(size=scores.shape)).argmax(axis=1)
    order = random.integers(0, len(rows), PERIOD)
    if kind == "independent" or "collinear" in kind:
        # No whole numbers, so that every sum of products is rounded.
        rows /= 7.0
    if kind == "far from 0":
        rows += 1e6 * np.arange(1, N_FEATURES + 1)
    if kind.startswith("one direction"):
        # Eight times the part across the signs: of whole numbers.
        rows = N_FEATURES * rows - np.outer(rows @ SIGNS, SIGNS)
    if kind == "one direction rare":
        rows[-1] += 8.0 * SIGNS
        order[order == len(rows) - 1] = 0
        order[500::1000] = len(rows) - 1
    if kind == "constant":
        rows[:, 0], rows[:, 1] = 3.0, 0.0
    if "collinear" in kind:
        rows[:, 0] = rows[:, 1] + 1e-6 * rows[:, 0]
    return rows, labels, order


def row_weights(order, n_rows, decay):
    """Return what every different row weighs after some rows of the endless stream."""
    ages = np.arange(min(n_rows, PERIOD))
    which, n_rounds = order[(n_rows - 1 - ages) % PERIOD], (n_rows - 1 - ages) // PERIOD + 1
    n_rounds, of_round = n_rounds.astype(object), decay**PERIOD
    series = n_rounds if decay == 1 else (1 - of_round**n_rounds) / (1 - of_round)
    weights = np.full(order.max() + 1, Decimal(0))
    np.add.at(weights, which, decay ** ages.astype(object) * series)
    return weights


def solved(system, targets):
    """Return the solution of linear equations, by elimination with pivots."""
    lines, size = np.hstack([system, targets]), len(system)
    for k in range(size):
        pivot = k + np.argmax(np.abs(lines[k:, k]))
        lines[[k, pivot]] = lines[[pivot, k]]
        lines[k] /= lines[k, k]
        others = np.arange(size) != k
        lines[others] -= np.outer(lines[others, k], lines[k])
    return lines[:, size:]


exact = np.frompyfunc(Decimal, 1, 1)


def definition(table, n_rows, decay, ridges):
    """Return weights of the definition (A'A + c I) W = A'Y, and the intercept below them."""
    rows, labels, order = table
    with localcontext(prec=60):
        weights = row_weights(order, n_rows, Decimal(decay))
        A = exact(np.column_stack([rows, np.ones(len(rows))])[: len(weights)])
        Y = exact(np.eye(N_CLASSES)[labels[: len(weights)]])
        weighted = A.T * weights
        return solved(weighted @ A + np.diag(exact(np.append(ridges, 0.0))), weighted @ Y)


def error_of(model, table, decay):
    """Return the largest error of the weights, relative to the largest weight."""
    found = np.zeros((N_FEATURES + 1, N_CLASSES))
    found[:, list(model.classes)] = np.vstack([model.output_weights, model.intercept])
    expected = definition(table, model.count, decay, model.ridge_diagonal).astype(float)
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("decay", FORGETTING)
@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
@pytest.mark.parametrize(
    ("kind", "singly"),
    [*((kind, False) for kind in LARGEST_ERRORS), ("one direction rare", True)],
)
def test_weights_stay_those_of_the_definition(kind, singly, accumulator, decay):
    table = rows, labels, order = make_table(kind)
    ridge = 1e-6 if kind.endswith("1e-6") else 1.0
    model = LeastSquaresClassifier(ridge, accumulator, **FORGETTING[decay])
    start, errors = 0, []
    for stop in np.geomspace(100, N_ROWS // 10 if singly else N_ROWS, 10).astype(int).tolist():
        for first in range(start, stop, BATCH):
            which = order[np.arange(first, min(first + BATCH, stop)) % PERIOD]
            if not singly:
                model.learn_many(rows[which], labels[which])
            for row in which.tolist() if singly else ():
                model.learn_one(dict(enumerate(rows[row].tolist())), int(labels[row]))
        start = stop
        errors.append(error_of(model, table, decay))
    print(f"\n{kind}, {accumulator}, factor {decay}: largest error {max(errors):.0e}")
    assert max(errors) < LARGEST_ERRORS[kind]
