"""Measure the memory of many hidden units, and the cost of a row at the end of a long stream.

python demos/benchmarks/speed/memory.py
python demos/benchmarks/speed/memory.py --n-hidden 40000
python demos/benchmarks/speed/memory.py --quick

First, a classifier of ten classes learns 3,000 random rows in batches of 1,000, computes its
weights, and learns more rows. The memory includes Python and its libraries. Then rows of 30
features and ten classes are learnt one by one, as dicts; every hundredth row is predicted first. A
window is 1,000 rows, and figures are medians of ten windows.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import (
    bar,
    call_alone,
    in_words,
    machine,
    make_parser,
    peak_memory,
    positive,
    print_table,
    table_of,
)

from onlinels import LeastSquaresClassifier

BATCH, N_BATCHES, N_CLASSES = 1000, 3, 10
WINDOW, N_WINDOWS, FIRST_WINDOW = 1000, 10, 10
N_FEATURES, ASKED = 30, 100
FORMS: dict[str, dict[str, Any]] = {
    "gram": {},
    "gram, half-life of 10,000 rows": {"half_life": 10_000.0},
    "orthogonal": {"accumulator": "orthogonal"},
    "recursive": {"accumulator": "recursive", "ridge": 1.0},
}


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--n-hidden", type=positive, default=20_000, help="hidden units (%(default)s)")
    add("--rows", type=positive, default=1_000_000, help="rows of the long stream (%(default)s)")
    add("--quick", action="store_true", help="1,000 hidden units, 30,000 rows")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.n_hidden, arguments.rows = 1000, 30_000
    square = 8 * arguments.n_hidden**2 / 2**30
    print(f"{machine()}; {arguments.n_hidden} hidden units: 8 M^2 bytes are {square:.3g} GiB")
    table = table_of("so far", "peak memory", "times 8 M^2")
    for stage, peak in call_alone(peaks, arguments.n_hidden).items():
        table.add_row(stage, f"{peak:.2f} GiB", f"{peak / square:.2f}")
    print_table(table)
    last = max(arguments.rows, WINDOW * (FIRST_WINDOW + 2 * N_WINDOWS))
    columns = ("accumulator", "at row 10,000", f"at row {last:,}", "ratio", "memory grew by")
    table = table_of(*columns)
    for name in FORMS:
        early, late, grown = call_alone(long_stream, name, last)
        times = in_words(early), in_words(late), f"{late / early:.3f}"
        table.add_row(name, *times, f"{grown:.2%}")
    print_table(table)


def peaks(n_hidden: int) -> dict[str, float]:
    """Return the peak memory in GiB after each stage."""
    random = np.random.default_rng(0)
    model = LeastSquaresClassifier(ridge="paper", fit_intercept=False)
    peak = {"imported": peak_memory()}

    def learn() -> None:
        for _ in range(N_BATCHES):
            rows = random.random((BATCH, n_hidden), dtype=np.float32)
            model.learn_many(rows, (np.arange(BATCH) % N_CLASSES).tolist())

    learn()
    peak["learning"] = peak_memory()
    _ = model.output_weights
    peak["solving"] = peak_memory()
    learn()
    peak["learning on"] = peak_memory()
    return peak


def long_stream(name: str, n_rows: int) -> tuple[float, float, float]:
    """Return seconds per row at the beginning and at the end, and the growth of peak memory."""
    random = np.random.default_rng(0)
    features = [f"feature {number}" for number in range(N_FEATURES)]
    values = random.standard_normal((WINDOW, N_FEATURES)).tolist()
    samples = [dict(zip(features, row, strict=True)) for row in values]
    model = LeastSquaresClassifier(**FORMS[name])
    seconds, peak = [], 0.0
    for number in bar(range(n_rows // WINDOW), name):
        started = time.perf_counter()
        for row, x in enumerate(samples):
            if row % ASKED == 0:
                model.predict_one(x)
            model.learn_one(x, row % N_CLASSES)
        seconds.append(time.perf_counter() - started)
        if number == FIRST_WINDOW:
            peak = peak_memory()
    early, late = seconds[FIRST_WINDOW:][:N_WINDOWS], seconds[-N_WINDOWS:]
    growth = peak_memory() / peak - 1.0
    return statistics.median(early) / WINDOW, statistics.median(late) / WINDOW, growth


if __name__ == "__main__":
    main()
