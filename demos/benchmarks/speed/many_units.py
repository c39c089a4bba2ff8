"""A classifier on 10,000 random units: times of learning, of selecting the ridge, and of solving.

python demos/benchmarks/speed/many_units.py
python demos/benchmarks/speed/many_units.py --quick

The rows stand for embeddings of 768 numbers, of 100 classes. RanPAC (McDonnell and others 2023)
compares 17 ridges after every task, and solves the running sums anew for each. The script prints
the time of these 17 solutions as a ratio to that of selecting the ridge and solving here, and the
sizes of the saved model. It runs each step once: a step takes seconds to minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import make_parser, print_table, table_of

import onlinels
from onlinels import HiddenLayer, LeastSquaresClassifier
from onlinels.export import answers_only

N_RIDGES = 17


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="500 units, 1,000 rows")
    quick = parser.parse_args().quick
    n_units, n_rows, n_classes, n_inputs = (
        (500, 1000, 10, 64) if quick else (10_000, 12_000, 100, 768)
    )
    random = np.random.default_rng(0)
    centres = random.standard_normal((n_classes, n_inputs), dtype=np.float32)
    y = random.integers(0, n_classes, n_rows)
    X = centres[y] + 3.0 * random.standard_normal((n_rows, n_inputs), dtype=np.float32)
    layer = HiddenLayer(n_units, activation="relu", bias=False, dtype="float32")
    model = LeastSquaresClassifier(1.0)
    table = table_of("step", "seconds")
    transform = timed(lambda: layer.transform_many(X))
    activations = layer.transform_many(X)
    learn = timed(lambda: learn_in_blocks(model, activations, y))
    solve = timed(lambda: model.output_weights)
    model.ridge = "auto"
    select = timed(lambda: model.ridge_)
    solve_selected = timed(lambda: model.output_weights)
    gram = np.array(activations.T @ activations, dtype=np.float64)
    cross = activations.T.astype(np.float64) @ np.eye(n_classes)[y]
    peer = timed(lambda: solve_all(gram, cross))
    for name, seconds in (
        (f"hidden layer, {n_rows:,} rows", transform),
        (f"learning {n_rows:,} rows", learn),
        ("solving at a given ridge", solve),
        ("selecting the ridge", select),
        ("solving at the selected ridge", solve_selected),
        (f"{N_RIDGES} solutions, as RanPAC", peer),
    ):
        table.add_row(name, f"{seconds:.1f}")
    ratio = peer / (select + solve_selected)
    table.add_row(f"ratio of {N_RIDGES} solutions to selecting and solving", f"{ratio:.2f}")
    pipeline = layer | model
    full, small = (len(onlinels.dumps(each)) / 1e6 for each in (pipeline, answers_only(pipeline)))
    table.add_row("saved with sums, MB", f"{full:.1f}")
    table.add_row("saved by answers_only, MB", f"{small:.1f}")
    print_table(table)


def learn_in_blocks(model: LeastSquaresClassifier, X: Any, y: Any) -> None:
    """Learn rows in blocks of 1,000."""
    for start in range(0, len(y), 1000):
        model.learn_many(X[start : start + 1000], y[start : start + 1000])


def timed(call: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def solve_all(gram: Any, cross: Any) -> None:
    """Solve at every ridge of RanPAC's grid, anew each time."""
    for exponent in np.linspace(-8.0, 8.0, N_RIDGES):
        system = gram.copy()
        system.flat[:: len(gram) + 1] += 10.0**exponent
        np.linalg.solve(system, cross)


if __name__ == "__main__":
    main()
