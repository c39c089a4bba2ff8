"""Compare the memory and time of IncrementalRidgeClassifier with those of RidgeClassifierCV.

python demos/benchmarks/speed/ridge_cv_memory.py
python demos/benchmarks/speed/ridge_cv_memory.py --rows 5000 6000 7000
python demos/benchmarks/speed/ridge_cv_memory.py --quick

Rows have 2,016 features, as many as MiniRocket of 2,000 kernels computes: random shares between 0
and 1 in float32, with 2 classes. RidgeClassifierCV selects one of ten alphas, as in aeon, and gets
all rows at once; IncrementalRidgeClassifier learns them in chunks of 1,000. Every fit runs in a
process of its own with one thread. Memory is the peak beyond the memory before the first row, and
contains the rows. Times include the weights, but not generating rows, and are medians of three.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = os.environ["VECLIB_MAXIMUM_THREADS"] = "1"

import numpy as np
from sklearn.linear_model import RidgeClassifierCV

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import (
    Array,
    bar,
    call_alone,
    forget_peak,
    machine,
    make_parser,
    memory,
    positive,
    print_table,
    table_of,
)

from onlinels.sklearn import IncrementalRidgeClassifier

N_FEATURES, CHUNK, N_RUNS = 2016, 1000, 3
MEBIBYTE = 2**20
ALPHAS = np.logspace(-3.0, 3.0, 10)


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--rows", type=positive, nargs="+", default=[2000, 5000, 6000, 7000, 8000, 10_000])
    add("--quick", action="store_true", help="1,000 rows, one run")
    arguments = parser.parse_args()
    sizes, n_runs = ([CHUNK], 1) if arguments.quick else (arguments.rows, N_RUNS)
    print(f"{machine()}, {N_FEATURES:,} features")
    names = RidgeClassifierCV.__name__, IncrementalRidgeClassifier.__name__
    table = table_of("rows", *(f"memory, {name}" for name in names), "ratio", *names, "ratio")
    for n_rows in bar(sizes, "rows"):
        runs = [
            (call_alone(fit_at_once, n_rows), call_alone(fit_in_chunks, n_rows))
            for _ in range(n_runs)
        ]
        peaks, seconds = np.median(runs, axis=0).T
        table.add_row(
            f"{n_rows:,}",
            *(f"{peak / MEBIBYTE:.0f} MiB" for peak in peaks),
            f"{peaks[0] / peaks[1]:.2f}",
            *(f"{duration:.1f} s" for duration in seconds),
            f"{seconds[0] / seconds[1]:.2f}",
        )
    print_table(table)


def drawn(random: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Return random features and classes."""
    X = random.random((n_rows, N_FEATURES), dtype=np.float32)
    return X, (X[:, :20].sum(axis=1) + random.normal(size=n_rows) > 10.0).astype(int)


def fit_at_once(n_rows: int) -> tuple[float, float]:
    """Return the peak of memory in bytes and the seconds of RidgeClassifierCV."""
    random = np.random.default_rng(0)
    before = forget_peak()
    X, y = drawn(random, n_rows)
    start = time.perf_counter()
    RidgeClassifierCV(alphas=ALPHAS).fit(X, y)
    return memory("VmHWM") - before, time.perf_counter() - start


def fit_in_chunks(n_rows: int) -> tuple[float, float]:
    """Return the peak of memory in bytes and the seconds of IncrementalRidgeClassifier."""
    random, seconds = np.random.default_rng(0), 0.0
    before = forget_peak()
    model = IncrementalRidgeClassifier()
    for first in range(0, n_rows, CHUNK):
        X, y = drawn(random, min(CHUNK, n_rows - first))
        start = time.perf_counter()
        model.partial_fit(X, y)
        seconds += time.perf_counter() - start
    start = time.perf_counter()
    assert model.coef_.shape == (1, N_FEATURES)
    return memory("VmHWM") - before, seconds + time.perf_counter() - start


if __name__ == "__main__":
    main()
