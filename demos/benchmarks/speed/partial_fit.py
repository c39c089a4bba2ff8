"""Compare learning by chunks through scikit-learn's interface with Ridge.fit, SGD and intelex.

python demos/benchmarks/speed/partial_fit.py
python demos/benchmarks/speed/partial_fit.py --quick

Rows have 200 correlated Gaussian columns of different scales, and noisy linear targets or 2 or 10
classes (the largest of noisy linear scores). They are learnt in chunks of 10,000, except by
Ridge.fit and RidgeClassifier.fit, which get all rows at once. Every competitor runs in its own
process with one thread, and generates the same rows there. Times include fitting and the final
weights, but not generating rows; errors are measured on 20,000 other rows. Memory is the peak
beyond the memory before the first chunk and one chunk. A second table compares one sparse chunk of
1% density with the same rows as a dense array.
`pip install scikit-learn-intelex` adds another incremental ridge, which is left out otherwise.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = os.environ["VECLIB_MAXIMUM_THREADS"] = "1"

import numpy as np
import scipy.sparse
from sklearn.linear_model import Ridge, RidgeClassifier, SGDClassifier, SGDRegressor
from sklearn.preprocessing import StandardScaler

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import (
    Array,
    Floats,
    bar,
    call_alone,
    forget_peak,
    machine,
    make_parser,
    memory,
    positive,
    print_table,
    row_slices,
    table_of,
)

from onlinels.sklearn import IncrementalRidge, IncrementalRidgeClassifier

N_FEATURES, CHUNK, BLOCK, HELD_OUT = 200, 10_000, 1000, 20_000
MEBIBYTE = 2**20
NUMBERS = 0
"""Number of classes that means numeric targets."""

TASKS = {NUMBERS: "numbers", 2: "2 classes", 10: "10 classes"}
AT_ONCE, INTEL = "Ridge.fit", "scikit-learn-intelex"
COMPETITORS = (AT_ONCE, "onlinels", 'onlinels, "auto"', "SGD", "SGD, standardised", INTEL)


class Run(NamedTuple):
    """Seconds of fitting, bytes held beyond one chunk, and the error on other rows."""

    seconds: float
    held: float
    error: float


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--rows", type=positive, default=1_000_000, help="rows to learn (%(default)s)")
    add("--repeats", type=positive, default=3, help="turns (%(default)s)")
    add("--quick", action="store_true", help="20,000 rows, one turn, a small sparse chunk")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rows, arguments.repeats = 20_000, 1
    print(f"{machine()}; one thread, medians of {arguments.repeats} turns")
    for n_classes in TASKS:
        dense_rows(n_classes, arguments.rows, arguments.repeats)
    if not find_spec("sklearnex"):
        print(f"{INTEL} is left out: it is not installed.\n")
    sparse_chunk(*((2000, 800) if arguments.quick else (10_000, 4000)), arguments.repeats)


# -- competitors ----------------------------------------------------------------------------------


def label_of(name: str, n_classes: int) -> str:
    """Return the names of an estimator and its method."""
    kind, ridge = ("Classifier", "RidgeClassifier") if n_classes else ("Regressor", "Ridge")
    return {
        AT_ONCE: f"{ridge}.fit",
        "onlinels": f"Incremental{ridge}(alpha=1.0).partial_fit",
        'onlinels, "auto"': f'Incremental{ridge}(alpha="auto").partial_fit',
        "SGD": f"SGD{kind}.partial_fit",
        "SGD, standardised": f"SGD{kind}.partial_fit after StandardScaler.partial_fit",
        INTEL: f"{INTEL}: IncrementalRidge.partial_fit",
    }[name]


class Standardised:
    """A StandardScaler and an estimator that both learn chunk by chunk."""

    def __init__(self, model: Any) -> None:
        self.scaler, self.model = StandardScaler(), model

    def partial_fit(self, X: Floats, y: Array, **options: Any) -> None:
        """Learn the scales, then the rows."""
        self.model.partial_fit(self.scaler.partial_fit(X).transform(X), y, **options)

    @property
    def coef_(self) -> Floats:
        """Weights of standardised columns."""
        weights: Floats = self.model.coef_
        return weights

    def score(self, X: Floats, y: Array) -> float:
        """Return R^2, or the share of correct labels."""
        return float(self.model.score(self.scaler.transform(X), y))


def estimator(name: str, n_classes: int) -> Any:
    """Return an estimator that has learnt nothing."""
    if name == INTEL:
        from sklearnex.linear_model import IncrementalRidge as Peer

        return Peer(alpha=1.0, n_jobs=1)
    if name == AT_ONCE:
        return RidgeClassifier(alpha=1.0) if n_classes else Ridge(alpha=1.0)
    if name.startswith("SGD"):
        descent = (SGDClassifier if n_classes else SGDRegressor)(random_state=0)
        return descent if name == "SGD" else Standardised(descent)
    alpha: Any = 1.0 if name == "onlinels" else "auto"
    return (IncrementalRidgeClassifier if n_classes else IncrementalRidge)(alpha=alpha)


# -- rows -----------------------------------------------------------------------------------------


class Maker:
    """Generate numbered chunks of rows in existing memory, with only small blocks in addition."""

    def __init__(self, n_classes: int) -> None:
        random = np.random.default_rng(0)
        self.n_classes = n_classes
        self.scales = np.exp(random.uniform(-1.5, 1.5, N_FEATURES))
        self.weights = random.standard_normal((N_FEATURES, max(n_classes, 1)))

    def fill(self, X: Floats, number: int) -> Array:
        """Write the rows of the chunk with this number to X, and return their targets."""
        random = np.random.default_rng((1, number))
        return np.concatenate([self._block(X[rows], random) for rows in row_slices(len(X), BLOCK)])

    def _block(self, X: Floats, random: Any) -> Array:
        random.standard_normal(out=X)
        X[:, 1:] += 0.7 * X[:, :-1]
        scores: Floats = X @ self.weights
        scores += 0.5 * N_FEATURES**0.5 * random.standard_normal(scores.shape)
        X *= self.scales
        labels: Array = scores.argmax(axis=1)
        return labels if self.n_classes else scores[:, 0]


# -- what a process measures ----------------------------------------------------------------------


class Meter:
    """Add up the time of steps, and record their peak memory."""

    def __init__(self) -> None:
        self.before = forget_peak()
        self.seconds, self.peak = 0.0, 0

    def __call__(self, step: Any, *arguments: Any, **options: Any) -> None:
        """Run and measure a step."""
        forget_peak()
        begin = time.perf_counter()
        step(*arguments, **options)
        self.seconds += time.perf_counter() - begin
        self.peak = max(self.peak, memory("VmHWM"))

    def held(self, rows: int) -> float:
        """Return the peak bytes beyond those held before and those of the rows, or NaN."""
        return float(self.peak - self.before - rows) if self.peak else float("nan")


def measured(name: str, n_classes: int, n_rows: int) -> Run:
    """Measure one competitor learning all rows in this process."""
    maker, model = Maker(n_classes), estimator(name, n_classes)
    # A first small fit loads the libraries, which must not count.
    X = np.empty((BLOCK, N_FEATURES))
    learner = estimator(name, n_classes)
    learn_all(learner, X, maker.fill(X, 0), n_classes)
    del X, learner
    meter, size = Meter(), n_rows if name == AT_ONCE else min(CHUNK, n_rows)
    X = np.empty((size, N_FEATURES))
    if name == AT_ONCE:
        parts = enumerate(row_slices(n_rows, CHUNK), start=1)
        y = np.concatenate([maker.fill(X[rows], number) for number, rows in parts])
        meter(learn_all, model, X, y, n_classes)
    else:
        for rows, y in chunks(maker, X, n_rows):
            meter(learn_all, model, rows, y, n_classes, rows_follow=True)
        meter(weights_of, model)
    held = meter.held(8 * N_FEATURES * min(CHUNK, n_rows))
    # Chunk 0 is not among the training rows.
    X = np.empty((HELD_OUT, N_FEATURES))
    y = maker.fill(X, 0)
    return Run(meter.seconds, held, 1.0 - model.score(X, y))


def chunks(maker: Maker, X: Floats, n_rows: int) -> Iterator[tuple[Floats, Array]]:
    """Yield chunks, each in the memory of the previous one."""
    for number, rows in enumerate(row_slices(n_rows, CHUNK), start=1):
        part = X[: min(rows.stop, n_rows) - rows.start]
        yield part, maker.fill(part, number)


def learn_all(
    model: Any, X: Floats, y: Array, n_classes: int, *, rows_follow: bool = False
) -> None:
    """Learn rows, and solve for the weights unless more rows follow."""
    if not hasattr(model, "partial_fit"):
        model.fit(X, y)
    elif n_classes:
        model.partial_fit(X, y, classes=np.arange(n_classes))
    else:
        model.partial_fit(X, y)
    if not rows_follow:
        weights_of(model)


def weights_of(model: Any) -> Floats:
    """Return the weights, which some estimators solve for only now."""
    weights: Floats = model.coef_
    return weights


def sparse_or_dense(n_rows: int, n_features: int, is_sparse: bool) -> tuple[Run, Floats]:
    """Measure a model learning one chunk in this process; return its weights too."""
    random = np.random.default_rng(0)
    made: Any = scipy.sparse.random_array((n_rows, n_features), density=0.01, rng=random)
    X = made.tocsr()
    y = X @ random.standard_normal(n_features) + random.standard_normal(n_rows)
    IncrementalRidge(alpha=1.0).partial_fit(X[:, :50] if is_sparse else X[:, :50].toarray(), y)
    rows = X if is_sparse else X.toarray()
    model, meter = IncrementalRidge(alpha=1.0), Meter()
    meter(model.partial_fit, rows, y)
    return Run(meter.seconds, meter.held(0), 0.0), weights_of(model)


# -- tables ---------------------------------------------------------------------------------------


def dense_rows(n_classes: int, n_rows: int, repeats: int) -> None:
    """Print the figures of all competitors on one task, measured in turns."""
    present = [name for name in COMPETITORS if name != INTEL or (not n_classes and has_intel())]
    runs: dict[str, list[Run]] = {name: [] for name in present}
    for name in bar(present * repeats, TASKS[n_classes]):
        runs[name].append(call_alone(measured, name, n_classes, n_rows))
    floor = median(run.seconds for run in runs[AT_ONCE])
    error = "error" if n_classes else "1 - R^2"
    columns = "seconds", "ratio", "held beyond a chunk, MiB", error
    title = f"{n_rows:,} rows of {N_FEATURES} columns, {TASKS[n_classes]}"
    table = table_of("", *columns, title=title)
    for name, several in runs.items():
        seconds, held, wrong = (median(values) for values in zip(*several, strict=True))
        cells = f"{seconds:.2f}", f"{seconds / floor:.2f}", mebibytes(held), f"{wrong:.4g}"
        table.add_row(label_of(name, n_classes), *cells)
    print_table(table)


def has_intel() -> bool:
    return find_spec("sklearnex") is not None


def mebibytes(held: float) -> str:
    return "not known" if np.isnan(held) else f"{held / MEBIBYTE:.1f}"


def sparse_chunk(n_rows: int, n_features: int, repeats: int) -> None:
    """Print the figures of one chunk as a sparse matrix and as a dense array."""
    forms = {"dense array": False, "CSR matrix": True}
    runs: dict[str, list[tuple[Run, Floats]]] = {name: [] for name in forms}
    for name in bar(list(forms) * repeats, "one sparse chunk"):
        runs[name].append(call_alone(sparse_or_dense, n_rows, n_features, forms[name]))
    title = f"IncrementalRidge.partial_fit, {n_rows:,} rows of {n_features:,} columns, 1% not zero"
    table = table_of("", "seconds", "ratio", "held beyond the chunk, MiB", title=title)
    floor = median(run.seconds for run, _ in runs["dense array"])
    for name, several in runs.items():
        seconds = median(run.seconds for run, _ in several)
        held = median(run.held for run, _ in several)
        table.add_row(name, f"{seconds:.3f}", f"{seconds / floor:.2f}", mebibytes(held))
    print_table(table)
    dense, from_sparse = (several[0][1] for several in runs.values())
    difference = np.abs(from_sparse - dense).max() / np.abs(dense).max()
    print(f"largest difference of weights, relative: {difference:.0e}")


if __name__ == "__main__":
    main()
