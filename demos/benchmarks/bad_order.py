"""Measure the loss from selecting the ridge at fixed counts of rows if their order is unfavourable.

python demos/benchmarks/bad_order.py
python demos/benchmarks/bad_order.py --streams 3 --quick
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from common import (
    Floats,
    bar,
    in_words,
    machine,
    make_parser,
    positive,
    print_table,
    row_slices,
    seconds_of,
    table_of,
)
from rich.table import Table

from onlinels import LeastSquaresRegressor
from onlinels.sklearn import IncrementalRidge

KINDS = ("noise first", "zeros first", "sorted", "units changed", "ill-conditioned")
N_TEST = 1000
GROWTH = 1.03
"""Factor by which the number of rows grows between tests of the model."""


class Stream(NamedTuple):
    """Rows in the order of learning, and test rows for each of two phases."""

    X: Floats
    y: Floats
    n_first: int
    tests: tuple[tuple[Floats, Floats], tuple[Floats, Floats]]


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--streams", type=positive, default=10, help="random streams of each kind")
    add("--quick", action="store_true", help="few features and rows")
    arguments = parser.parse_args()
    print(f"{machine()}, {arguments.streams} random streams of each kind")
    print_table(error_table(arguments.streams, arguments.quick))
    print_table(cost_table([16, 32] if arguments.quick else [16, 64, 500], arguments.quick))


def make_stream(kind: str, seed: int, n_features: int, n_first: int, n_rows: int) -> Stream:
    """Return a stream with a noisy linear target and with bad first rows or bad features."""
    random = np.random.default_rng(seed)
    sizes = n_features, n_features
    X = random.normal(size=(n_rows + 2 * N_TEST, n_features))
    if kind == "ill-conditioned":
        spread = np.arange(1.0, n_features + 1.0) ** -random.uniform(1.0, 3.0)
        X = X * spread @ np.linalg.qr(random.normal(size=sizes))[0]
    y = X @ random.normal(size=n_features)
    y = y / y.std() + random.uniform(0.3, 2.0) * random.normal(size=len(y))
    # The first rows, and the test rows of the first phase.
    first = np.append(np.arange(n_first), np.arange(n_rows, n_rows + N_TEST))
    if kind == "noise first":
        y[first] = y.std() * random.normal(size=len(first))
    elif kind == "zeros first":
        X[first] = 0.0
    elif kind == "units changed":
        X[first] *= 10.0 ** random.uniform(-1.0, 1.0, n_features)
    elif kind == "sorted":
        order = np.argsort(y[:n_rows])
        X[:n_rows], y[:n_rows] = X[order], y[order]
    parts = [slice(n_rows), *(slice(n_rows + at, n_rows + at + N_TEST) for at in (0, N_TEST))]
    train, bad, good = ((X[part], y[part]) for part in parts)
    return Stream(*train, n_first, (bad, good))


def drawn(kind: str, seed: int, quick: bool) -> Stream:
    """Return a stream of random size."""
    random = np.random.default_rng([seed, KINDS.index(kind)])
    n_features = int(np.exp(random.uniform(*np.log([10, 20 if quick else 100]))))
    n_first, n_later = (int(np.exp(random.uniform(*np.log([300, 1500])))) for _ in range(2))
    return make_stream(kind, seed, n_features, n_first, n_first + n_later)


def named(quick: bool) -> Iterator[tuple[str, Stream]]:
    """Yield streams with noise or zeros before good rows."""
    yield "1,024 rows of noise, 1,000 good", make_stream("noise first", 0, 20, 1024, 2024)
    yield "1,024 rows of zeros, 1,000 good", make_stream("zeros first", 0, 20, 1024, 2024)
    if not quick:
        stream = make_stream("noise first", 0, 500, 2048, 4096)
        yield "500 features, 2,048 of noise, 2,048 good", stream


def ratios(stream: Stream) -> dict[int, float]:
    """Return squared errors relative to those of a newly selected ridge, by counts of rows.

    Tests use new rows of the current phase, and begin at twice as many rows as features.
    `IncrementalRidge` has the same sums and selects the ridge at every prediction.
    """
    model, fresh = LeastSquaresRegressor(), IncrementalRidge(scaling="auto")
    found, start, stop = {}, 0, 2 * stream.X.shape[1]
    while start < len(stream.X):
        X, y = stream.X[start:stop], stream.y[start:stop]
        model.learn_many(X, y)
        fresh.partial_fit(X, y)
        start, stop = min(stop, len(stream.X)), max(stop + 1, int(GROWTH * stop))
        X, y = stream.tests[start > stream.n_first]
        errors = [
            ((answers - y) ** 2).mean() for answers in (model.predict_many(X), fresh.predict(X))
        ]
        found[start] = float(errors[0] / errors[1])
    return found


def error_table(n_streams: int, quick: bool) -> Table:
    """Return a table of the worst and the mean ratio of errors, and the row of the worst."""
    columns = "rows", "worst", "after", "streams over 1.06", "mean", "largest mean of a stream"
    table = table_of(*columns, title="Squared error / that of a newly selected ridge")
    groups = [(name, [stream]) for name, stream in named(quick)]
    groups += [(k, [drawn(k, seed, quick) for seed in range(n_streams)]) for k in KINDS]
    for name, streams in bar(groups, "Learning"):
        found = [ratios(stream) for stream in streams]
        worst = [max(each, key=lambda n: each[n]) for each in found]
        most = [each[n] for each, n in zip(found, worst, strict=True)]
        means = [float(np.mean(list(each.values()))) for each in found]
        at = int(np.argmax(most))
        after = f"{worst[at]:,} of {len(streams[at].X):,}, M = {streams[at].X.shape[1]}"
        over = f"{sum(each > 1.06 for each in most)} of {len(most)}"
        table.add_row(
            name, f"{max(most):.3f}", after, over, f"{np.mean(means):.4f}", f"{max(means):.4f}"
        )
    return table


def cost_table(sizes: list[int], quick: bool) -> Table:
    """Return a table of the time of learning a stream with ridge="auto" and with a number."""
    title = "Cost: rows in batches of 64, a prediction after each"
    table = table_of("M", "rows", 'ridge="auto"', "ridge=1.0", "difference", title=title)
    for size in sizes:
        n_rows = 1024 if quick else 8192
        random = np.random.default_rng(0)
        X, y = random.normal(size=(n_rows, size)), random.normal(size=n_rows)
        y += X @ random.normal(size=size)
        chosen, given = (
            min(seconds_to_learn(ridge, X, y) for _ in range(3)) for ridge in ("auto", 1.0)
        )
        times = (in_words(each) for each in (chosen, given, chosen - given))
        table.add_row(str(size), f"{n_rows:,}", *times)
    return table


def seconds_to_learn(ridge: Any, X: Floats, y: Floats) -> float:
    """Return the seconds of learning, with the ridge read after every batch."""
    model = LeastSquaresRegressor(ridge)

    def learn() -> None:
        for part in row_slices(len(X), 64):
            model.learn_many(X[part], y[part])
            _ = model.ridge_

    return seconds_of(learn)


if __name__ == "__main__":
    main()
