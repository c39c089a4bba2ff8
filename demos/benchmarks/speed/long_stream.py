"""Time and memory of a row at the end of a long stream, beside those at its beginning.

python demos/benchmarks/speed/long_stream.py
python demos/benchmarks/speed/long_stream.py --quick

Rows of 30 features and ten classes are learnt one by one, as dicts; every hundredth is predicted
first. A window is 1,000 rows, and a figure the median of ten windows.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table

from onlinels import LeastSquaresClassifier

sys.path.append(str(Path(__file__).resolve().parents[1]))

from command_line import positive
from own_process import call_alone, peak_memory

WINDOW, N_WINDOWS = 1000, 10
N_FEATURES, N_CLASSES = 30, 10
ASKED = 100
LEAST_ROWS = 30_000
FORMS = {
    "gram": {},
    "gram, half-life of 10,000 rows": {"half_life": 10_000.0},
    "orthogonal": {"accumulator": "orthogonal"},
    "recursive": {"accumulator": "recursive", "ridge": 1.0},
}


def main() -> None:
    arguments = parse_arguments()
    n_rows = 30_000 if arguments.quick else arguments.rows
    print(f"{os.cpu_count()} cores")
    columns = ("accumulator", "at row 10,000", f"at row {n_rows:,}", "ratio", "memory grew by")
    table = Table(*columns, box=SIMPLE)
    for name in FORMS:
        early, late, grown = call_alone(measure, name, n_rows)
        figures = f"{1e6 * early:.1f} us", f"{1e6 * late:.1f} us", f"{late / early:.3f}"
        table.add_row(name, *figures, f"{grown:.2%}")
    Console().print(table)


def measure(name: str, n_rows: int) -> tuple[float, float, float]:
    """Return seconds for a row at the beginning and at the end, and the growth of peak memory."""
    random = np.random.default_rng(0)
    features = [f"feature {number}" for number in range(N_FEATURES)]
    values = random.standard_normal((WINDOW, N_FEATURES)).tolist()
    samples = [dict(zip(features, row, strict=True)) for row in values]
    model = LeastSquaresClassifier(**FORMS[name])  # type: ignore[arg-type]
    seconds, peak = [], 0.0
    for number in track(range(n_rows // WINDOW), name):
        started = time.perf_counter()
        for row, x in enumerate(samples):
            if row % ASKED == 0:
                model.predict_one(x)
            model.learn_one(x, row % N_CLASSES)
        seconds.append(time.perf_counter() - started)
        if number == N_WINDOWS:
            peak = peak_memory()
    first = 10_000 // WINDOW
    early, late = seconds[first : first + N_WINDOWS], seconds[-N_WINDOWS:]
    growth = peak_memory() / peak - 1.0
    return statistics.median(early) / WINDOW, statistics.median(late) / WINDOW, growth


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=positive, default=1_000_000, help="(%(default)s)")
    parser.add_argument("--quick", action="store_true", help="30,000 rows")
    arguments = parser.parse_args()
    if arguments.rows < LEAST_ROWS:
        parser.error(f"--rows is {arguments.rows}, expected at least {LEAST_ROWS}.")
    return arguments


if __name__ == "__main__":
    main()
