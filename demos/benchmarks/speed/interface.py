"""River's interface: what learn_one and predict_one cost beyond the arithmetic and the dict.

python demos/benchmarks/speed/interface.py
python demos/benchmarks/speed/interface.py --quick

The recursive form, ten classes, no intercept. "arithmetic" is the same recursion written down in
bare calls of BLAS (scores, product with the inverse, two updates of rank one); "the dict" is
reading its names and values into an array, twice, as both calls must. What is left is overhead.
The last column learns without predicting in between: rows are gathered and learnt in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from operator import itemgetter
from struct import pack
from typing import Any

import numpy as np
from measure import Comparison, Piece, arguments_of, compare, in_words
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from scipy.linalg.blas import dger, dsymv, dsyr

from onlinels import LeastSquaresClassifier

N_CLASSES = 10
N_SAMPLES = 100
Sample = tuple[dict[str, float], int]


def main() -> None:
    arguments = arguments_of(__doc__, repeats=25)
    sizes = (8, 64) if arguments.quick else (8, 16, 64, 256, 1000)
    table = Table("features", "predict, learn", "arithmetic", "the dict", "overhead", box=SIMPLE)
    table.add_column("learn only")
    for n_features in sizes:
        seconds = measure(n_features, arguments.repeats).seconds
        both, bare, read = (seconds[name] / N_SAMPLES for name in ("both", "bare", "read"))
        shown = (both, bare, read, max(0.0, both - bare - read), seconds["learn"] / N_SAMPLES)
        table.add_row(str(n_features), *map(in_words, shown))
    Console().print(table)


def measure(n_features: int, repeats: int) -> Comparison:
    samples = list(draw(n_features))
    pieces = {
        "both": with_model(samples, predict=True),
        "bare": with_blas(samples),
        "read": reading(samples),
        "learn": with_model(samples, predict=False),
    }
    return compare("", pieces, repeats, N_SAMPLES)


def draw(n_features: int) -> Iterator[Sample]:
    random = np.random.default_rng(0)
    names = [f"feature {number}" for number in range(n_features)]
    for number, row in enumerate(random.standard_normal((N_SAMPLES, n_features)).tolist()):
        yield dict(zip(names, row, strict=True)), number % N_CLASSES


def with_model(samples: list[Sample], predict: bool) -> Piece:
    model = LeastSquaresClassifier(ridge=1.0, accumulator="recursive", fit_intercept=False)

    def run() -> None:
        for x, label in samples:
            if predict:
                model.predict_one(x)
            model.learn_one(x, label)
        _ = model.count

    return run


def with_blas(samples: list[Sample]) -> Piece:
    rows = cycle([(np.array(list(x.values())), label) for x, label in samples])
    n_features = len(samples[0][0])
    state: list[Any] = [
        np.eye(n_features, order="F"),
        np.zeros((n_features, N_CLASSES), order="F"),
    ]

    def run() -> None:
        for _ in range(N_SAMPLES):
            row, label = next(rows)
            inverse, weights = state
            scores = row @ weights
            scores.argmax()
            product = dsymv(1.0, inverse, row)
            pivot = 1.0 + row @ product
            errors = -scores
            errors[label] += 1.0
            state[0] = dsyr(-1.0 / pivot, product, a=inverse, overwrite_a=1)
            state[1] = dger(1.0 / pivot, product, errors, a=weights, overwrite_a=1)

    return run


def reading(samples: list[Sample]) -> Piece:
    values_of = itemgetter(*samples[0][0])
    layout = f"{len(samples[0][0])}d"

    def run() -> None:
        for x, _ in samples:
            for _call in range(2):
                np.frombuffer(pack(layout, *values_of(x)))

    return run


if __name__ == "__main__":
    main()
