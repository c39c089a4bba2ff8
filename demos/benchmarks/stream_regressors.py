"""Compare regressors on streams: each row is predicted and then learnt.

python demos/benchmarks/stream_regressors.py
python demos/benchmarks/stream_regressors.py --data folder    (elec2, gas and wisdm too: .npz)
python demos/benchmarks/stream_regressors.py --quick          (seconds)

The script writes tables (tables.md) to the folder of --out: mean absolute error, coverage of the
central 90% intervals of models with a distribution, and microseconds per row in this process. Every
run is a line of results.jsonl there; an interrupted command continues where it stopped.
"""

from __future__ import annotations

import os

# Before numpy is imported.
os.environ.update({"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})

# isort: split
import argparse
import gc
import math
import numbers
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    Line,
    Measured,
    ResultsFile,
    bar,
    folder_of_arrays,
    in_times,
    machine,
    make_parser,
    markdown,
    measure_and_report,
    positive,
    print_sheet,
    shared_streams,
    values_of,
    versions,
)
from river import (
    compose,
    datasets,
    dummy,
    forest,
    linear_model,
    neighbors,
    preprocessing,
    rules,
    stats,
    tree,
)
from river.datasets import synth
from scipy.stats import rankdata
from sklearn.datasets import load_diabetes

from onlinels import LeastSquaresRegressor, StreamRegressor

Row = tuple[dict[str, Any], float]
Source = Callable[[], Iterable[Row]]

# -- streams --------------------------------------------------------------------------------------


def bundled(name: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the rows of a stream that river brings along."""
    made: Any = getattr(datasets, name)
    yield from made()


def passengers() -> Iterator[Row]:
    """Yield airline passengers by year and month; the month is text."""
    for x, y in bundled("AirlinePassengers"):
        month = x["month"]
        yield {"year": month.year + (month.month - 1) / 12, "month": f"{month:%b}"}, float(y)


def water_flow() -> Iterator[Row]:
    """Yield the flow of water by hour and day of the week."""
    for x, y in bundled("WaterFlow"):
        yield {"hour": x["Time"].hour, "weekday": x["Time"].weekday()}, float(y)


def diabetes() -> Iterator[Row]:
    found = load_diabetes()
    for row, y in zip(found.data.tolist(), found.target.tolist(), strict=True):
        yield dict(zip(found.feature_names, row, strict=True)), y


ELEC2 = ("date", "day", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")


def elec2(path: Path, target: str, *left_out: str) -> Iterator[Row]:
    """Yield a column of elec2 by the others of the same half hour."""
    with np.load(path) as arrays:
        rows = arrays["x"].astype(float).tolist()
    for values in rows:
        x = dict(zip(ELEC2, values, strict=True))
        y = x[target]
        yield {name: value for name, value in x.items() if name not in (target, *left_out)}, y


def gas(path: Path) -> Iterator[Row]:
    """Yield the concentration of a gas by the features of sixteen sensors."""
    with np.load(path) as arrays:
        rows, targets = arrays["x"].tolist(), arrays["concentration"].tolist()
    for values, y in zip(rows, targets, strict=True):
        yield {f"f{column}": value for column, value in enumerate(values)}, y


def wisdm(path: Path) -> Iterator[Row]:
    """Yield the last feature, the mean size of the acceleration, by the others; NaN is left out."""
    with np.load(path) as arrays:
        rows = arrays["x"].tolist()
    for *values, y in rows:
        yield {f"f{column}": v for column, v in enumerate(values) if v == v}, y


BUNDLED: dict[str, Source] = {
    "TrumpApproval": lambda: bundled("TrumpApproval"),
    "ChickWeights": lambda: ((x, float(y)) for x, y in bundled("ChickWeights")),
    "AirlinePassengers": passengers,
    "WaterFlow": water_flow,
    "SP500Stocks": lambda: bundled("SP500Stocks"),
    "SolarFlare": lambda: ((x, float(y["c-class-flares"])) for x, y in bundled("SolarFlare")),
    "Diabetes": diabetes,
}
"""All that river brings along with numbers as targets, and a shuffled table of scikit-learn's."""
MADE: dict[str, Source] = {
    "Friedman": lambda: islice(synth.Friedman(seed=1), 10_000),
    "FriedmanDrift": lambda: islice(
        synth.FriedmanDrift("gra", position=(3000, 6000), transition_window=1000, seed=1), 10_000
    ),
    "Planes2D": lambda: islice(synth.Planes2D(seed=1), 10_000),
    "Mv": lambda: islice(synth.Mv(seed=1), 10_000),
}
"""Made by river, rows independent; the second drifts."""
FILES: dict[str, tuple[str, Callable[[Path], Iterable[Row]]]] = {
    "elec2 price": ("elec2.npz", partial(elec2, target="nswprice")),
    # Without the other state's demand, which is all but the same.
    "elec2 demand": ("elec2.npz", lambda path: elec2(path, "nswdemand", "vicdemand")),
    "gas concentration": ("gas_drift_b1-6_8_9.npz", gas),
    "wisdm resultant": ("wisdm_transformed.npz", wisdm),
}
NAMES = (*BUNDLED, *FILES, *MADE)


def sources_of(arguments: argparse.Namespace) -> dict[str, Source]:
    """Return the streams that were asked for and are there, and say why others are not."""
    found: dict[str, Source] = {}
    for name in arguments.streams:
        if name not in FILES:
            found[name] = (BUNDLED | MADE)[name]
            continue
        file, read = FILES[name]
        if arguments.data is not None and (arguments.data / file).is_file():
            found[name] = partial(read, arguments.data / file)
        else:
            print(f"{name} left out: no folder --data with {file}", file=sys.stderr)
    return found


# -- models ---------------------------------------------------------------------------------------

OURS, PEER = "StreamRegressor", "ARF"
"""The two that the summary sets side by side."""


class LastTarget:
    """Predicts the last target."""

    def __init__(self) -> None:
        self._last = 0.0

    def predict_one(self, _x: Any) -> float:
        """Return the last target, 0 at first."""
        return self._last

    def learn_one(self, _x: Any, y: float) -> None:
        """Remember a target."""
        self._last = y


def encoded(model: Any) -> Any:
    """Return a model behind an encoder of texts and a scaler of numbers."""
    texts = compose.SelectType(str) | preprocessing.OneHotEncoder()
    values = compose.SelectType(numbers.Number) | preprocessing.StandardScaler()
    return (texts + values) | model


def least_squares() -> Any:
    last = LeastSquaresRegressor(1.0, accumulator="recursive", forgetting_factor=0.999)
    return encoded(last)


MODELS: dict[str, Callable[[], Any]] = {
    OURS: StreamRegressor,
    "least squares": least_squares,
    PEER: lambda: encoded(forest.ARFRegressor(n_models=10, seed=1)),
    "HAT": lambda: encoded(tree.HoeffdingAdaptiveTreeRegressor(seed=1)),
    "AMRules": lambda: encoded(rules.AMRules()),
    "KNN": lambda: encoded(neighbors.KNNRegressor()),
    "Bayesian": lambda: encoded(linear_model.BayesianLinearRegression(smoothing=0.99)),
    "SGD": lambda: encoded(linear_model.LinearRegression()),
    "last target": LastTarget,
    "mean": lambda: dummy.StatisticRegressor(stats.Mean()),
}
QUICK_MODELS = [OURS, "least squares", "SGD", "last target", "mean"]
QUICK_STREAMS, QUICK_ROWS = ["TrumpApproval", "ChickWeights", "Friedman"], 300

# -- measuring ------------------------------------------------------------------------------------

NORMAL_90 = 1.6448536269514722
"""Standard deviations on each side within which 90% of a normal distribution lie."""


def main() -> int:
    arguments = parse_arguments()
    return measure_and_report(arguments, sources_of(arguments), measure_missing, report)


def conditions(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what must be the same for results to stand in one table."""
    known = {"at_most": arguments.rows, "machine": machine()}
    return known | {"versions": versions("river", "numpy", "scipy")}


def measure_missing(
    sources: Mapping[str, Source], results: ResultsFile, arguments: argparse.Namespace
) -> dict[str, str]:
    """Measure what is not in the results yet; return what went wrong, by model and stream."""
    failed, known = {}, conditions(arguments)
    for stream, model in bar([(s, m) for s in sources for m in arguments.models], "runs"):
        key = known | {"stream": stream, "model": model}
        if results.find(key) is not None:
            continue
        try:
            rows = list(islice(sources[stream](), arguments.rows))
            gc.collect()
            results.add(key, test_then_train(MODELS[model](), rows))
        except Exception as error:
            failed[f"{model} on {stream}"] = f"{type(error).__name__}: {error}"
    return failed


def interval_of(model: Any, x: dict[str, Any]) -> tuple[float, float] | None:
    """Return the ends of the central interval of 90%; None of a model without a distribution."""
    last = model[-1] if isinstance(model, compose.Pipeline) else model
    if not isinstance(
        last, (StreamRegressor, LeastSquaresRegressor, linear_model.BayesianLinearRegression)
    ):
        return None
    if isinstance(last, LeastSquaresRegressor):
        for step in list(model.steps.values())[:-1]:
            x = step.transform_one(x)
        return last.predict_interval_one(x, level=0.9)
    fresh = model.predict_one(x, with_dist=True)
    return fresh.mu - NORMAL_90 * fresh.sigma, fresh.mu + NORMAL_90 * fresh.sigma


def test_then_train(model: Any, rows: list[Row]) -> dict[str, float]:
    """Return the mean absolute error, the coverage and microseconds a row.

    Only `predict_one` and `learn_one` are timed, in time of this process. The first row, which
    nobody can predict, counts nowhere else.
    """
    errors, inside, seconds = [], [], 0.0
    for x, y in rows:
        started = time.process_time()
        predicted = model.predict_one(x)
        seconds += time.process_time() - started
        ends = interval_of(model, x)
        started = time.process_time()
        model.learn_one(x, y)
        seconds += time.process_time() - started
        errors.append(abs(predicted - y))
        if ends is not None:
            inside.append(ends[0] <= y <= ends[1])
    return {
        "error": float(np.mean(errors[1:])),
        "coverage": float(np.mean(inside[1:])) if inside else math.nan,
        "microseconds": seconds / len(rows) * 1e6,
    }


# -- tables ---------------------------------------------------------------------------------------


def report(streams: list[str], results: ResultsFile, arguments: argparse.Namespace) -> None:
    """Print the tables and the summary, and write them as markdown."""
    known, measured = conditions(arguments), Measured()
    for stream in streams:
        found = {m: results.find(known | {"stream": stream, "model": m}) for m in arguments.models}
        measured[stream] = {model: result for model, result in found.items() if result is not None}
    models = [m for m in arguments.models if any(m in found for found in measured.values())]
    tables = []
    for title, lines in sheets(measured, models):
        print_sheet(title, models, lines)
        tables.append(markdown(title, models, lines))
    used = ", ".join(f"{name} {number}" for name, number in known["versions"].items())
    rows = f"Rows of a stream at most: {arguments.rows or 'all'}."
    notes = [*summary(measured), f"{machine()}, one thread. {rows} {used}."]
    print(*notes, sep="\n")
    text = "\n".join([*tables, *(f"- {line}" for line in notes), ""])
    (arguments.out / "tables.md").write_text(text, "utf-8")


def sheets(measured: Measured, models: list[str]) -> Iterator[tuple[str, list[Line]]]:
    """Yield tables of every figure by stream, and of their means."""
    values = partial(values_of, measured, models)
    kinds: dict[str, tuple[str, str, Any]] = {
        "Mean absolute error": ("error", ".4g", min),
        "Coverage of 90% intervals": ("coverage", ".1%", None),
        "Microseconds a row": ("microseconds", ",.0f", None),
    }
    for title, (name, form, best) in kinds.items():
        yield title, [(stream, values(stream, name), form, best) for stream in measured]
    if measured and models:
        errors = np.array([values(stream, "error") for stream in measured])
        # Where a model fails it is the last.
        errors[np.isnan(errors)] = np.inf
        ranks = rankdata(errors, axis=1).mean(axis=0).tolist()
        ratios = np.median(errors / errors.min(axis=1, keepdims=True), axis=0).tolist()
        times = np.array([values(stream, "microseconds") for stream in measured]).T
        yield (
            f"Over the {len(measured)} streams",
            [
                ("mean rank by error", ranks, ".2f", min),
                ("error by that of the best, median", ratios, ".2f", min),
                ("microseconds, median", np.nanmedian(times, axis=1).tolist(), ",.0f", None),
            ],
        )


def summary(measured: Measured) -> list[str]:
    """Say where our model is at least as good as its peer, and how much faster it is."""
    shared = shared_streams(measured, [OURS, PEER])
    if not shared:
        return []
    pairs = [(measured[stream][OURS], measured[stream][PEER]) for stream in shared]
    n_as_good = sum(one["error"] <= other["error"] for one, other in pairs)
    return [
        f"{OURS} has at most the error of {PEER} on {n_as_good} of {len(shared)} streams.",
        in_times(measured, OURS, PEER),
    ]


def parse_arguments() -> argparse.Namespace:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--models", nargs="+", choices=MODELS, metavar="MODEL", help=f"of {', '.join(MODELS)}")
    add("--streams", nargs="+", choices=NAMES, metavar="STREAM", help=f"of {', '.join(NAMES)}")
    add("--rows", type=positive, help="of each stream at most, the first ones (default: all)")
    folder = "folder of elec2, gas_drift and wisdm (default: none)"
    add("--data", type=folder_of_arrays, help=folder)
    out = Path("stream_regressors")
    add("--out", type=Path, default=out, help="folder of results (%(default)s)")
    add("--quick", action="store_true", help="few rows of few streams, the quick models")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.models = arguments.models or QUICK_MODELS
        arguments.streams = arguments.streams or QUICK_STREAMS
        arguments.rows = arguments.rows or QUICK_ROWS
    arguments.models = arguments.models or list(MODELS)
    arguments.streams = arguments.streams or list(NAMES)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
