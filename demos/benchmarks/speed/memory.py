"""Peak memory of learning, solving and learning on, beside the square of the hidden units.

python demos/benchmarks/speed/memory.py
python demos/benchmarks/speed/memory.py --n-hidden 40000 --rows 2000

A classifier of ten classes learns random rows in batches of 1,000, is asked for its weights, and
learns on. The process begins with Python and its libraries, which are counted too.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from onlinels import LeastSquaresClassifier

sys.path.append(str(Path(__file__).resolve().parents[1]))

from command_line import positive
from own_process import call_alone, peak_memory

BATCH = 1000
N_CLASSES = 10


def main() -> None:
    arguments = parse_arguments()
    n_hidden = 1000 if arguments.quick else arguments.n_hidden
    square = 8 * n_hidden**2 / 2**30
    print(f"{os.cpu_count()} cores; {n_hidden} hidden units: 8 M^2 bytes are {square:.3g} GiB")
    table = Table("so far", "peak memory", "times 8 M^2", box=SIMPLE)
    for stage, peak in call_alone(peaks, n_hidden, arguments.rows).items():
        table.add_row(stage, f"{peak:.2f} GiB", f"{peak / square:.2f}")
    Console().print(table)


def peaks(n_hidden: int, n_rows: int) -> dict[str, float]:
    """Return the peak memory in GiB after each stage."""
    random = np.random.default_rng(0)
    model = LeastSquaresClassifier(ridge="paper", fit_intercept=False)
    peak = {"imported": peak_memory()}

    def learn() -> None:
        for _ in range(0, n_rows, BATCH):
            rows = random.random((BATCH, n_hidden), dtype=np.float32)
            model.learn_many(rows, (np.arange(BATCH) % N_CLASSES).tolist())

    learn()
    peak["learning"] = peak_memory()
    _ = model.output_weights
    peak["solving"] = peak_memory()
    learn()
    peak["learning on"] = peak_memory()
    return peak


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n-hidden", type=positive, default=20_000, help="(%(default)s)")
    parser.add_argument(
        "--rows",
        type=positive,
        default=3000,
        help="before and after, in thousands begun (%(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="1,000 hidden units")
    return parser.parse_args()


if __name__ == "__main__":
    main()
