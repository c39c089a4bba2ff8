"""Compare Dask's workers with plain processes, and measure the cost of merges.

python demos/benchmarks/speed/workers.py
python demos/benchmarks/speed/workers.py --quick

Batches of random rows, which each task generates, are learnt by one and by two workers of a
LocalCluster with one thread each, and by one and by two plain processes, which share the batches
and return their statistics for merging. The aim is that two workers reach 0.85 of the speed-up of
two processes. The data moved and held by workers is given in units of statistics (4 M (M + 1024)
bytes for M features) and blocks of M rows (8 M^2 bytes). A second table compares the cost of a
merge and a copy with learning M rows.
`pip install '.[dask,bench]'`.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import dask
import numpy as np
from dask.distributed import Client, LocalCluster
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import forget_peak, machine, make_parser, memory, positive, table_of
from rich.console import Console

from onlinels import LeastSquaresRegressor, distributed, merge

CONSOLE = Console()
Floats = NDArray[np.float64]


def batch(number: int, n_rows: int, n_features: int) -> tuple[Floats, Floats]:
    """Generate the rows and targets of the batch with this number."""
    X = np.random.default_rng(number).standard_normal((n_rows, n_features))
    return X, X[:, 0]


def plain(numbers: list[int], n_rows: int, n_features: int) -> LeastSquaresRegressor:
    """Return a model that has learnt these batches in this process."""
    model = LeastSquaresRegressor(1.0)
    for number in numbers:
        model.learn_many(*batch(number, n_rows, n_features))
    return model


class Run(NamedTuple):
    """Seconds, most bytes received by a worker, and most bytes held beyond those held before."""

    seconds: float
    moved: float = 0.0
    held: float = 0.0


def by_processes(n_workers: int, n_batches: int, n_rows: int, n_features: int) -> Run:
    """Learn in plain processes that are already running, and merge."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(n_workers) as pool:
        pool.starmap(plain, [([0], 8, 8)] * n_workers)
        begin = time.perf_counter()
        numbers = [list(range(at, n_batches, n_workers)) for at in range(n_workers)]
        models = pool.starmap(plain, [(each, n_rows, n_features) for each in numbers])
        merge(*models)
        return Run(time.perf_counter() - begin)


def received(dask_worker: Any) -> int:
    """Return the bytes that a worker has received from other workers."""
    return sum(each["total"] for each in dask_worker.transfer_incoming_log)


def by_workers(n_workers: int, n_batches: int, n_rows: int, n_features: int) -> Run:
    """Learn in Dask workers that are already running."""
    size = {"n_workers": n_workers, "threads_per_worker": 1}
    with (
        LocalCluster(**size, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        client.run(plain, [0], 8, 8)
        before = client.run(forget_peak)
        make = dask.delayed(batch, pure=False)
        parts = [make(number, n_rows, n_features) for number in range(n_batches)]
        begin = time.perf_counter()
        distributed.fit(LeastSquaresRegressor(1.0), parts)
        seconds = time.perf_counter() - begin
        peaks = client.run(memory, "VmHWM")
        moved = max(client.run(received).values())
        return Run(seconds, moved, max(peaks[each] - before[each] for each in peaks))


def timed(work: object) -> float:
    """Return the median seconds of five calls."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        work()  # type: ignore[operator]
        times.append(time.perf_counter() - begin)
    return median(times)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--repeats", type=positive, default=3, help="turns (%(default)s)")
    parser.add_argument("--features", type=positive, help="features M (3,000; quick: 300)")
    parser.add_argument("--batches", type=positive, help="batches of M rows (32; quick: 8)")
    arguments = parser.parse_args()
    n_features = arguments.features or (300 if arguments.quick else 3000)
    n_batches, n_rows = arguments.batches or (8 if arguments.quick else 32), n_features
    CONSOLE.print(machine())
    sizes = n_batches, n_rows, n_features
    runs = [
        (by_processes, "plain processes", 1),
        (by_processes, "plain processes", 2),
        (by_workers, "workers of Dask", 1),
        (by_workers, "workers of Dask", 2),
    ]
    made: dict[tuple[str, int], list[Run]] = {(name, n): [] for _, name, n in runs}
    for _ in range(1 if arguments.quick else arguments.repeats):
        for work, name, n_workers in runs:
            made[name, n_workers].append(work(n_workers, *sizes))
    statistic = 4 * n_features * (n_features + 1024)
    title = f"{n_batches} batches of {n_rows:,} rows of {n_features:,} features"
    columns = "1, s", "2, s", "speed-up", "moved per worker, statistics", "held, MiB"
    table = table_of("", *columns, title=title)
    gains = []
    for name in ("plain processes", "workers of Dask"):
        one, two = (median(run.seconds for run in made[name, n]) for n in (1, 2))
        gains.append(one / two)
        moved, held = (median(column) for column in list(zip(*made[name, 2], strict=True))[1:])
        row = f"{one:.2f}", f"{two:.2f}", f"{gains[-1]:.2f}", f"{moved / statistic:.1f}"
        table.add_row(name, *row, f"{held / 2**20:.0f}" if held else "")
    CONSOLE.print(table)
    CONSOLE.print(f"workers / processes: {gains[1] / gains[0]:.2f}")
    most = 4 * statistic + 3 * 8 * n_features**2
    CONSOLE.print(f"four statistics and three blocks: {most / 2**20:.0f} MiB\n")
    table = table_of("features", "learn M rows, s", "merge, s", "copy, s", "statistics, MiB")
    for size in [n_features // 4, n_features // 2, n_features]:
        a, b = (plain([number], size, size) for number in (0, 1))
        X, y = batch(2, size, size)
        learn = timed(lambda a=a, X=X, y=y: a.learn_many(X, y))
        join, copied = timed(lambda a=a, b=b: merge(a, b)), timed(lambda a=a: a + a.empty())
        row = f"{size:,}", f"{learn:.3f}", f"{join:.3f}", f"{copied:.3f}"
        table.add_row(*row, f"{4 * size**2 / 2**20:.0f}")
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
