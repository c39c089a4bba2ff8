"""Measure every setting of the public models, row by row, as multiples of a plain ridge.

    OPENBLAS_NUM_THREADS=1 python demos/benchmarks/speed/settings.py [--features 5 10 20 40 64]
    python demos/benchmarks/speed/settings.py --only beside --repeats 20 --features 5 64
    python demos/benchmarks/speed/settings.py --quick --only priors forgetting

Every row is a dict that is predicted and then learnt. A cell contains microseconds a row, and in
brackets a multiple of a reference that took turns with the model. After 600 rows, the reference is
LeastSquaresRegressor(1.0) on independent features; that of a batch is the loop over its rows. The
reference of the first 20 rows of fresh models, and of the rows beside river, which follow 4,000
others, is river's LogisticRegression. That of whole streams, from the first row on, is
LeastSquaresRegressor(1.0) on the same rows.

"correlated" features are 30 + 10 (3 common factors + noise of 0.05), "times ten" are 10 (3 common
factors + noise of 0.5). Figures are medians of CPU times of one thread. The script refuses to run
if a setting of a public model, a value of it or a question has no line in the table.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import signature
from itertools import pairwise
from statistics import median
from time import thread_time
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import sys
import warnings
from pathlib import Path

import numpy as np
from river import drift, linear_model, naive_bayes

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import (
    bar,
    machine,
    make_parser,
    positive,
    print_table,
    table_of,
)

import onlinels
from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    StreamClassifier,
    StreamRegressor,
)
from onlinels.core import IN_USE
from onlinels.linear.ridge import RIDGE_NAMES, SCALINGS
from onlinels.linear.settings import SUMS_BY_ACCUMULATOR

WIDTHS = (5, 10, 20, 40, 64)
WARM, WARM_BESIDE, PIECE, BATCH_ROWS, N_FRESH, N_LONG = 600, 4000, 200, 1000, 20, 20_000

R, C, M = LeastSquaresRegressor, LeastSquaresClassifier, LeastSquaresMultiTargetRegressor
WITH_DIST = "predict_one(with_dist=True)"
MANY, MANY_PROBA = "predict_learn_many", "predict_proba_learn_many"
MANY_DIST = "predict_learn_many(with_dist=True)"

LOOPS = {MANY: "predict_one", MANY_PROBA: "predict_proba_one", MANY_DIST: "predict_interval_one"}
"""The question of the loop over rows that is the reference of a batch."""


class Case(NamedTuple):
    """A model, its rows and the question that is asked before every row."""

    model: Any
    settings: Mapping[str, Any] = {}
    ask: str = "predict_one"
    data: str = "independent"
    """Independent, correlated, times ten, or absent: half of the names are absent from a row."""
    n_classes: int = 2
    times: str = ""
    """What `t` of a row is, "numbers" or "dates"; empty for rows without times."""
    weights: bool = False

    def make(self) -> Any:
        """Return a new model; settings that are cases are models, too."""
        made = {
            name: each.make() if isinstance(each, Case) else copy.deepcopy(each)
            for name, each in self.settings.items()
        }
        return self.model(**made)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        parts = [" ".join(f"{self.model.__name__}({settings})".split())]
        parts += [self.data] * (self.data != "independent")
        parts += [f"{self.n_classes} classes"] * (self.n_classes != 2)
        parts += [f"t: {self.times}"] * bool(self.times)
        parts += ["w=0.5"] * self.weights
        parts += [self.ask] * (self.ask != "predict_one")
        return ", ".join(parts)


REFERENCE = Case(R, {"ridge": 1.0})
ONE, FORGETS = {"ridge": 1.0}, {"ridge": 1.0, "forgetting_factor": 0.999}
HALF, TIMED = {"ridge": 1.0, "half_life": 500}, {"ridge": 1.0, "half_life": timedelta(seconds=500)}
FOLLOWS = {"ridge": 1.0, "accumulator": "recursive", "forgetting_factor": 0.999}
STANDARD = {"ridge": 1.0, "scaling": "standard"}
PRIORS: tuple[Any, ...] = ("learnt", "equal", {True: 0.2, False: 0.8})
OF_CLASSES = ("predict_one", "predict_proba_one")
NAMED = {"labels": [False, True, "never"]}
AROUND = {"classifier": Case(C, ONE)}
AROUND_EQUAL = {"classifier": Case(C, ONE | {"priors": "equal"})}
DETECTS: dict[str, Any] = {"detector": drift.binary.DDM(), "keep": 0.1}
LOGISTIC = linear_model.LogisticRegression
OF_LABELS = (LOGISTIC, linear_model.SoftmaxRegression, naive_bayes.GaussianNB)

COMMON: tuple[Any, ...] = ({}, ONE, ONE | {"fit_intercept": False}, ONE | {"max_features": 100})
COMMON += (FORGETS, HALF, {"half_life": 500}, STANDARD)
"""Settings of all three linear models."""
ASKED: list[Any] = [ONE, {}, FORGETS, HALF, {"half_life": 500}, STANDARD, {"ridge": "paper"}]
"""Settings of regressors that are asked for intervals."""
ACCUMULATORS = ("gram", "recursive", "orthogonal")

CASES: tuple[Case, ...] = (
    *(Case(model, settings) for model in (R, C, M) for settings in COMMON),
    *(Case(model, FOLLOWS, data="correlated") for model in (R, C, M)),
    # Which ridge, and which features it acts on.
    Case(R, {"ridge": "auto"}, data="correlated"),
    *(Case(R, {"ridge": ridge}) for ridge in ("paper", 0.0, KFold(5))),
    Case(R, STANDARD, data="correlated"),
    *(Case(R, {"scaling": scaling}) for scaling in ("standard", None)),
    Case(R, ONE | {"scaling": "auto"}),
    # Which rows, and which accumulator.
    *(Case(R, ONE, data=data) for data in ("correlated", "times ten", "absent")),
    Case(R, ONE, weights=True),
    *(Case(R, ONE | {"accumulator": each}, data="correlated") for each in ACCUMULATORS),
    *(Case(model, ONE | {"accumulator": "orthogonal"}) for model in (R, C)),
    # Rows that are forgotten.
    Case(R, FORGETS, data="correlated"),
    *(Case(R, FOLLOWS | each) for each in ({}, {"forgetting_factor": 0.99})),
    Case(R, HALF, data="times ten"),
    Case(R, TIMED, times="dates"),
    *(Case(R, HALF | each, times="numbers") for each in ({}, {"accumulator": "recursive"})),
    Case(R, {"half_life": 500}, times="numbers"),
    Case(R, {"forgetting_factor": 0.999}),
    Case(R, {"forgetting_factor": 0.999, "accumulator": "recursive"}),
    Case(R, STANDARD | {"half_life": 500}),
    # Intervals and distributions.
    *(Case(R, settings, "predict_interval_one") for settings in ASKED),
    Case(R, ONE, "predict_interval_one", "times ten"),
    Case(R, FOLLOWS, "predict_interval_one", "correlated"),
    Case(M, ONE, "predict_interval_one"),
    *(Case(model, ONE, WITH_DIST) for model in (R, M)),
    # Batches.
    *(Case(R, settings, ask) for settings in (ONE, {}, HALF) for ask in (MANY, MANY_DIST)),
    *(Case(C, ONE, ask) for ask in (MANY, MANY_PROBA)),
    Case(C, ONE | {"priors": "equal"}, MANY_PROBA),
    Case(M, ONE, MANY_DIST),
    # Labels and probabilities.
    Case(C, ONE, n_classes=10),
    *(Case(C, ONE, ask) for ask in ("scores_one", "margin_one", "variance_one")),
    *(Case(C, settings, "predict_proba_one") for settings in (ONE, {}, {"priors": "equal"})),
    Case(C, ONE, "predict_proba_one", n_classes=10),
    *(Case(C, ONE | {"priors": priors}, ask) for priors in PRIORS for ask in OF_CLASSES),
    Case(C, ONE | {"priors": "equal"}, "predict_proba_one", n_classes=10),
    Case(C, FORGETS | {"priors": "equal"}, "predict_proba_one"),
    # Wrappers and stream models.
    *(Case(CalibratedClassifier, each, "predict_proba_one") for each in (AROUND, AROUND_EQUAL)),
    Case(CalibratedClassifier, AROUND | NAMED, "predict_proba_one"),
    *(Case(DriftAwareClassifier, AROUND | each) for each in ({}, DETECTS)),
    *(Case(StreamClassifier, {}, ask) for ask in OF_CLASSES),
    Case(StreamClassifier, NAMED, "predict_proba_one"),
    *(Case(StreamRegressor, {}, ask) for ask in ("predict_one", "predict_interval_one")),
    # Peers.
    *(Case(LOGISTIC, {}, ask) for ask in OF_CLASSES),
    Case(linear_model.BayesianLinearRegression),
)

ELSEWHERE = {
    ("ShallowConvClassifier", ""): "network.py: images",
    ("WindowedClassifier", ""): "the cost is that of the features of windows",
    ("StreamClassifier", "seed"): "no influence",
    ("StreamRegressor", "seed"): "no influence",
    ("StreamClassifier", "max_features"): "only rows with new names are checked",
    ("StreamRegressor", "max_features"): "only rows with new names are checked",
    ("StreamClassifier", "max_waiting"): "only a limit of how many forecasts wait",
    ("StreamRegressor", "max_waiting"): "only a limit of how many forecasts wait",
}
"""Models, or settings of models, that have no line, and why."""

STREAMS: tuple[Case, ...] = (
    Case(R),
    Case(C),
    Case(C, n_classes=10),
    Case(C, {}, "predict_proba_one"),
    Case(R, {"half_life": 500}),
    *(Case(LOGISTIC, {}, ask) for ask in OF_CLASSES),
    Case(linear_model.BayesianLinearRegression),
)
"""Models on the first rows of a stream."""
RECURSIVE = ONE | {"accumulator": "recursive"}
BESIDE: tuple[Case, ...] = (
    *(Case(model, settings) for model in (C, R) for settings in ({}, RECURSIVE)),
    Case(R, ONE, "predict_interval_one"),
    *map(Case, (StreamClassifier, linear_model.LinearRegression, *OF_LABELS)),
)
"""Models beside river's LogisticRegression."""

PEER = Case(LOGISTIC)
LABELS = (C, CalibratedClassifier, DriftAwareClassifier, StreamClassifier, *OF_LABELS)
QUESTIONS = ("predict", "scores", "margin", "variance")

# -- completeness ---------------------------------------------------------------------------------


def unmeasured(module: Any = onlinels) -> list[str]:
    """Return the settings, values of settings and questions of public models without a line."""
    models = {name: getattr(module, name) for name in module.__all__}
    models = {name: model for name, model in models.items() if hasattr(model, "predict_one")}
    seen = {(case.model, name) for case in CASES for name in case.settings}
    asked = {case.ask for case in CASES}
    missing: list[str] = []
    for name, model in models.items():
        if (name, "") in ELSEWHERE:
            continue
        settings = signature(model).parameters
        lacking = [each for each in settings if (model, each) not in seen]
        missing += [f"{name}({each}=)" for each in lacking if (name, each) not in ELSEWHERE]
        missing += [f"{name}.{each}" for each in questions_of(model) if each not in asked]
    known: dict[str, set[Any]] = {"accumulator": set(SUMS_BY_ACCUMULATOR)}
    known |= {"ridge": set(RIDGE_NAMES), "scaling": set(SCALINGS)}
    for setting, values in known.items():
        found = [case.settings[setting] for case in CASES if setting in case.settings]
        missing += [f"{setting}={each!r}" for each in values if each not in found]
    return missing


def questions_of(model: Any) -> list[str]:
    """Return the public methods that answer a question about a row, or about a batch of rows."""
    names = [name for name in dir(model) if name.startswith(QUESTIONS)]
    return [name for name in names if name.endswith(("_one", "_learn_many"))]


# -- rows -----------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """Rows of a stream, as dicts and as an array, with targets for every kind of model."""

    X: Any
    samples: list[dict[str, float]]
    numbers: list[float]

    def targets(self, case: Case) -> list[Any]:
        """Return numbers, labels of about equally many rows, or dicts of two numbers."""
        if case.model in LABELS:
            shares = np.linspace(0.0, 1.0, case.n_classes + 1)[1:-1]
            labels = np.digitize(self.numbers, np.quantile(self.numbers, shares)).tolist()
            return [bool(label) for label in labels] if case.n_classes == 2 else labels
        if case.model is M:
            return [{"a": number, "b": 1.0 - number} for number in self.numbers]
        return self.numbers

    def extras(self, case: Case) -> list[dict[str, Any]]:
        """Return what else `learn_one` is given with every row."""
        start, extra = datetime(2026, 1, 1, tzinfo=UTC), {"w": 0.5} if case.weights else {}
        if case.times == "dates":
            seconds = range(len(self.samples))
            return [extra | {"t": start + timedelta(seconds=each)} for each in seconds]
        return [extra | {"t": float(row)} for row in range(len(self.samples))]


def draw(n_features: int, kind: str, n_rows: int) -> Rows:
    """Return rows with a noisy linear target."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, n_features))
    factors = random.normal(size=(n_rows, 3)) @ random.normal(size=(3, n_features))
    if kind == "correlated":
        X = 30.0 + 10.0 * (factors + 0.05 * X)
    elif kind == "times ten":
        X = 10.0 * (factors + 0.5 * X)
    y = X @ random.normal(size=n_features) + random.normal(size=n_rows)
    names = [f"x{column}" for column in range(n_features)]
    samples = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    if kind == "absent":
        kept = random.random(X.shape) < 0.5
        kept[0] = True
        samples = [
            {name: row[name] for name, is_kept in zip(names, each, strict=True) if is_kept}
            for row, each in zip(samples, kept.tolist(), strict=True)
        ]
    return Rows(X, samples, y.tolist())


class Turn:
    """A model of a case that predicts and learns pieces of a stream."""

    def __init__(self, case: Case, rows: Rows) -> None:
        self.case, self.rows, self.model = case, rows, case.make()
        self.targets, self.extras = rows.targets(case), rows.extras(case)

    def seconds(self, start: int, stop: int) -> float:
        """Return the CPU time of predicting and learning these rows."""
        part, case = slice(start, stop), self.case
        x, y, extras = self.rows.samples[part], self.targets[part], self.extras[part]
        method, _, words = case.ask.partition("(")
        ask, learn = getattr(self.model, method), self.model.learn_one
        if words:
            ask = partial(ask, with_dist=True)
        if case.ask in LOOPS:
            X, labels = self.rows.X[part], np.array(y) if not isinstance(y[0], dict) else y
            began = thread_time()
            ask(X, labels)
        elif case.times or case.weights:
            began = thread_time()
            for sample, target, extra in zip(x, y, extras, strict=True):
                ask(sample)
                learn(sample, target, **extra)
        else:
            began = thread_time()
            for sample, target in zip(x, y, strict=True):
                ask(sample)
                learn(sample, target)
        return thread_time() - began


class Figure(NamedTuple):
    """Microseconds a row, and the multiple of a reference that took turns."""

    microseconds: float
    multiple: float

    def __str__(self) -> str:
        return f"{digits(self.microseconds, 1)} ({digits(self.multiple, 2)})"


def digits(number: float, places: int) -> str:
    """Return a number with some places after the point, and with fewer if it is large."""
    return f"{number:.{places if number < 10.0 else 1 if number < 100.0 else 0}f}"


def of_turns(pairs: list[tuple[float, float]], n_rows: int) -> Figure:
    """Return the figure from the seconds of a model and of its reference in every turn."""
    multiple = median(ours / theirs for ours, theirs in pairs)
    return Figure(median(ours for ours, _ in pairs) / n_rows * 1e6, multiple)


def later(
    case: Case,
    draws: Callable[[str], Rows],
    turns: int,
    reference: Case = REFERENCE,
    warm: int = WARM,
) -> Figure:
    """Return the cost of rows after the first ones, as a multiple of a reference."""
    size = PIECE
    if case.ask in LOOPS:
        reference, size = case._replace(ask=LOOPS[case.ask]), BATCH_ROWS
    ours, theirs = Turn(case, draws(case.data)), Turn(reference, draws(reference.data))
    for start in range(0, warm, PIECE):
        ours.seconds(start, start + PIECE)
        theirs.seconds(start, start + PIECE)
    starts = range(warm, warm + turns * size, size)
    pairs = [(ours.seconds(at, at + size), theirs.seconds(at, at + size)) for at in starts]
    return of_turns(pairs, size)


def from_the_first(
    case: Case,
    draws: Callable[[str], Rows],
    turns: int,
    n_rows: int,
    reference: Case = REFERENCE,
) -> Figure:
    """Return the cost of the first rows of new models, as a multiple of a reference."""
    rows, pairs = draws(case.data), []
    starts = [at for at in (0, N_FRESH, *range(PIECE, n_rows, PIECE)) if at < n_rows]
    for turn in range(turns):
        models, sums = (Turn(case, rows), Turn(reference, rows)), [0.0, 0.0]
        for start, stop in pairwise([*starts, n_rows]):
            # Whoever comes first finds colder caches.
            for index in (0, 1) if turn % 2 else (1, 0):
                sums[index] += models[index].seconds(start, stop)
        pairs.append((sums[0], sums[1]))
    return of_turns(pairs, n_rows)


# -- the table ------------------------------------------------------------------------------------


def main() -> None:
    arguments = read_arguments()
    if missing := unmeasured():
        sys.exit(f"{', '.join(missing)}: expected a line in the table. Add cases to {__file__}.")
    warnings.simplefilter("ignore")  # Settings are compared here, not data.
    print(f"{machine()}; core: {IN_USE}; one thread, CPU time, us a row (multiple)")
    widths, turns, n_long = arguments.features, arguments.repeats, arguments.rows
    row_by_row = [case for case in CASES if case.ask not in LOOPS]
    beside = partial(later, reference=PEER, warm=WARM_BESIDE)
    fresh = partial(from_the_first, n_rows=N_FRESH, reference=PEER)
    first, long = (partial(from_the_first, n_rows=n_rows) for n_rows in (1000, n_long))
    for title, measure, cases, n_rows, n_turns in (
        (f"after {WARM} rows", later, CASES, WARM + turns * BATCH_ROWS, turns),
        (f"the first {N_FRESH} rows", fresh, row_by_row, N_FRESH, 4 * turns),
        ("the first 1,000 rows", first, STREAMS, 1000, turns),
        (f"the first {n_long:,} rows", long, STREAMS, n_long, turns),
        ("beside river", beside, BESIDE, WARM_BESIDE + turns * PIECE, turns),
    ):
        words = arguments.only or [""]
        chosen = [each for each in cases if any(word in f"{title}: {each}" for word in words)]
        if chosen:
            table = table_of("", *(f"{width} features" for width in widths), title=title)
            figures = measured(measure, chosen, widths, n_turns, n_rows)
            for case, line in zip(chosen, figures, strict=True):
                table.add_row(str(case), *map(str, line))
            print_table(table)


def read_arguments() -> Any:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--features", type=positive, nargs="+", help=f"numbers of features {WIDTHS}; quick: 5")
    add("--repeats", type=positive, default=5, help="turns of 200 rows (%(default)s)")
    add("--rows", type=positive, default=N_LONG, help="rows of the longest streams (%(default)s)")
    add("--only", nargs="+", metavar="TEXT", help="lines or tables that contain one of these")
    add("--quick", action="store_true", help="one turn, streams of 2,000 rows")
    arguments = parser.parse_args()
    arguments.features = arguments.features or ([5] if arguments.quick else list(WIDTHS))
    if arguments.quick:
        arguments.repeats, arguments.rows = 1, 2000
    return arguments


def measured(
    measure: Callable[..., Figure], cases: list[Case], widths: list[int], turns: int, n_rows: int
) -> list[list[Figure]]:
    """Return the figures of all cases at all widths."""
    figures: list[list[Figure]] = [[] for _ in cases]
    for width in widths:
        kinds = {case.data for case in cases} | {REFERENCE.data}
        drawn = {kind: draw(width, kind, n_rows) for kind in sorted(kinds)}
        lines = zip(cases, figures, strict=True)
        for case, line in bar(lines, f"{width} features", len(cases)):
            line.append(measure(case, drawn.__getitem__, turns))
    return figures


if __name__ == "__main__":
    main()
