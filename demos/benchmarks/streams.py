"""Compare stream models with other models on streams: labels and numbers, at once and late.

python demos/benchmarks/streams.py --data folder --others folder
python demos/benchmarks/streams.py --only labels --streams SEA LED --rows 2000
python demos/benchmarks/streams.py --quick

Every row is predicted and then learnt: `--only labels` measures accuracy, log-loss (of
probabilities clipped to [1e-15, 1]) and microseconds a row; `numbers` the mean absolute error, the
coverage of 90% intervals and microseconds. `late_labels` and `late_numbers` learn a row when a
number of further rows has been predicted, "random" numbers (150 on average), or 100 for a random
"fifth" of the rows and the others never; rows count from the first label on. With "keys", every row
has its number as key. The width of intervals is that relative to the narrowest constant band around
the same forecasts with the same coverage.

`stream_sources.py` describes the streams and the files of the folders --data and --others. Every
finished run is a line of --results, so the same command continues after an interruption.
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
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import (
    Floats,
    ResultsFile,
    bar,
    folder_of_arrays,
    machine,
    make_parser,
    positive,
    print_table,
    table_of,
)
from river import (
    compose,
    dummy,
    ensemble,
    forest,
    linear_model,
    naive_bayes,
    neighbors,
    preprocessing,
    rules,
    stats,
    tree,
)
from scipy.stats import rankdata
from stream_sources import (
    Row,
    Source,
    as_numbers,
    first_rows,
    of_folder,
    of_labels,
    of_late_labels,
    of_numbers,
)

from onlinels import (
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    StreamClassifier,
    StreamRegressor,
    __version__,
)

WITH_DISTRIBUTION = StreamRegressor, LeastSquaresRegressor, linear_model.BayesianLinearRegression
FLOOR = 1e-15
"""Smallest probability in the log-loss; the largest is 1."""
NORMAL_90 = 1.6448536269514722
"""Half the width of the central 90% interval of a normal distribution, in standard deviations."""
OTHERS_ROWS, LATE_ROWS, QUICK_ROWS = 2000, 4000, 300

Figures = dict[str, float]
Table = dict[tuple[str, str, str], Figures]
"""Figures by stream, delay and model."""
Models = dict[str, Callable[[], Any]]

# -- models ---------------------------------------------------------------------------------------


def scaled(model: Any) -> Any:
    return preprocessing.StandardScaler() | model


def encoded(model: Any) -> Any:
    """Return a pipeline of an encoder of text, a scaler of numbers, and a model."""
    texts = compose.SelectType(str) | preprocessing.OneHotEncoder()
    values = compose.SelectType(numbers.Number) | preprocessing.StandardScaler()
    return (texts + values) | model


FORGETS: dict[str, Any] = {"accumulator": "recursive", "forgetting_factor": 0.999}
CLASSIFIERS: Models = {
    "StreamClassifier": StreamClassifier,
    "dict pipeline": lambda: scaled(
        HiddenLayer(300, activation="relu", bias=True) | LeastSquaresClassifier(1.0, **FORGETS)
    ),
    "ARF": lambda: forest.ARFClassifier(n_models=10, seed=1),
    "SRP": lambda: ensemble.SRPClassifier(n_models=10, seed=1),
    "HAT": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
    "KNN": lambda: scaled(neighbors.KNNClassifier()),
    "Softmax": lambda: scaled(linear_model.SoftmaxRegression()),
    "GaussianNB": naive_bayes.GaussianNB,
    "NoChange": dummy.NoChangeClassifier,
}
LATE_CLASSIFIERS: Models = {
    "StreamClassifier": StreamClassifier,
    "keys": StreamClassifier,
    "least squares": LeastSquaresClassifier,
    "logistic": lambda: scaled(linear_model.LogisticRegression()),
    "Softmax": lambda: scaled(linear_model.SoftmaxRegression()),
    "Prior": dummy.PriorClassifier,
    "NoChange": dummy.NoChangeClassifier,
}
REGRESSORS: Models = {
    "StreamRegressor": StreamRegressor,
    "least squares": lambda: encoded(LeastSquaresRegressor(1.0, **FORGETS)),
    "ARF": lambda: encoded(forest.ARFRegressor(n_models=10, seed=1)),
    "HAT": lambda: encoded(tree.HoeffdingAdaptiveTreeRegressor(seed=1)),
    "AMRules": lambda: encoded(rules.AMRules()),
    "KNN": lambda: encoded(neighbors.KNNRegressor()),
    "Bayesian": lambda: encoded(linear_model.BayesianLinearRegression(smoothing=0.99)),
    "SGD": lambda: encoded(linear_model.LinearRegression()),
    "last target": lambda: dummy.StatisticRegressor(stats.EWMean(1.0)),
    "mean": lambda: dummy.StatisticRegressor(stats.Mean()),
}
LATE_REGRESSORS: Models = {
    "StreamRegressor": StreamRegressor,
    "keys": StreamRegressor,
    "LeastSquaresRegressor": lambda: encoded(LeastSquaresRegressor()),
    **{name: REGRESSORS[name] for name in ("SGD", "ARF", "last target", "mean")},
}

# -- measuring ------------------------------------------------------------------------------------


def rows_due(n_rows: int, late: str) -> list[list[int]]:
    """Return, for each row and for the end, the rows that are learnt just before it."""
    random = np.random.default_rng(7)
    delays, labelled = np.full(n_rows, 100), np.ones(n_rows, dtype=bool)
    if late == "random":
        delays = random.exponential(150, n_rows).astype(int)
    elif late == "a fifth":
        labelled = random.random(n_rows) < 0.2
    else:
        delays[:] = int(late)
    due: list[list[int]] = [[] for _ in range(n_rows + 1)]
    for row in np.flatnonzero(labelled).tolist():
        due[min(n_rows, row + int(delays[row]) + 1)].append(row)
    return due


def answers_of(
    model: Any, rows: Sequence[Row], ask: str, late: str, has_keys: bool = False
) -> tuple[list[Any], list[Any], int, float]:
    """Return answers, intervals of numbers, the first row that counts, and microseconds a row."""
    due, answers, intervals, seconds = rows_due(len(rows), late), [], [], 0.0
    first = next(number for number, learnt in enumerate(due) if learnt)
    question = getattr(model, ask)

    def keyed(number: int) -> dict[str, int]:
        return {"key": number} if has_keys else {}

    for number, (x, _) in enumerate(rows):
        began = time.perf_counter()
        for row in due[number]:
            model.learn_one(*rows[row], **keyed(row))
        answers.append(question(x, **keyed(number)))
        seconds += time.perf_counter() - began
        if ask == "predict_one" and not has_keys:
            intervals.append(interval_of(model, x))
    return answers, intervals, first, seconds / len(rows) * 1e6


def with_labels(model: Any, rows: Sequence[Row], late: str, has_keys: bool) -> Figures:
    """Return accuracy and log-loss; the predicted label is the most probable one."""
    answers, _, first, taken = answers_of(model, rows, "predict_proba_one", late, has_keys)
    first = 0 if late == "0" else first
    right, losses = [], []
    for shares, (_, label) in zip(answers[first:], rows[first:], strict=True):
        right.append(bool(shares) and max(shares, key=shares.__getitem__) == label)
        # In this order NaN counts as the floor.
        losses.append(-math.log(min(max(FLOOR, shares.get(label, 0.0)), 1.0)))
    figures = {"accuracy": np.mean(right), "log-loss": np.mean(losses), "microseconds": taken}
    return {name: float(figure) for name, figure in figures.items()}


def number_figures(model: Any, rows: Sequence[Any], late: str, has_keys: bool) -> Figures:
    """Return the mean absolute error, and the coverage and width of 90% intervals."""
    answers, intervals, first, taken = answers_of(model, rows, "predict_one", late, has_keys)
    errors = np.array([y - answer for answer, (_, y) in zip(answers, rows, strict=True)])[first:]
    figures = {"error": float(np.abs(errors).mean()), "microseconds": taken}
    known = [ends for ends in intervals if ends is not None]
    if len(known) == len(rows):
        reach = np.array([(upper - lower) / 2.0 for lower, upper in known])[first:]
        figures |= band_of(errors[np.isfinite(reach)], reach[np.isfinite(reach)])
    return figures


def interval_of(model: Any, x: dict[str, Any]) -> tuple[float, float] | None:
    """Return the ends of the central 90% interval, or None for a model without a distribution."""
    last = model[-1] if isinstance(model, compose.Pipeline) else model
    if not isinstance(last, WITH_DISTRIBUTION):
        return None
    found = model.predict_one(x, with_dist=True)
    return found.mu - NORMAL_90 * found.sigma, found.mu + NORMAL_90 * found.sigma


def band_of(errors: Floats, reach: Floats) -> Figures:
    """Return coverage, and width relative to the narrowest even band of the same coverage."""
    if not len(errors):
        return {}
    n_within = max(1, int((abs(errors) <= reach).sum()))
    even = float(np.sort(abs(errors))[n_within - 1])
    width = float(reach.mean()) / even if even > 0.0 else math.inf
    return {"coverage": n_within / len(errors), "width": width}


# -- what is compared -----------------------------------------------------------------------------


class Part(NamedTuple):
    """Models, how they are measured, the best value of the first figure, and delays in rows."""

    models: Models
    measure: Callable[[Any, Sequence[Any], str, bool], Figures]
    forms: dict[str, str]
    best: Callable[..., float]
    delays: tuple[str, ...] = ("0",)


OF_LABELS = {"accuracy": ".2%", "log-loss": ".3f", "microseconds": ",.0f"}
OF_NUMBERS = {"error": ".4g", "coverage": ".1%", "width": ".2f", "microseconds": ",.0f"}
LATE = ("0", "48", "200", "1000", "random", "a fifth")
PARTS = {
    "labels": Part(CLASSIFIERS, with_labels, OF_LABELS, max),
    "numbers": Part(REGRESSORS, number_figures, OF_NUMBERS, min),
    "late_labels": Part(LATE_CLASSIFIERS, with_labels, OF_LABELS, max, LATE),
    "late_numbers": Part(
        LATE_REGRESSORS, number_figures, OF_NUMBERS, min, ("0", "1", "12", "100", "1000")
    ),
}


def main() -> int:
    arguments = parse_arguments()
    failed: dict[str, str] = {}
    for name in arguments.only:
        table = measure_part(name, arguments, failed)
        (report_late if name.startswith("late") else report)(name, table)
    print(f"{machine()}, one thread. Most rows of a stream: {arguments.rows or 'all'}.")
    for name, message in failed.items():
        print(f"Not measured: {name}. {message}", file=sys.stderr)
    return 1 if failed else 0


def measure_part(name: str, arguments: argparse.Namespace, failed: dict[str, str]) -> Table:
    """Return all stored figures of a part, after measuring those that are not stored."""
    results, table = ResultsFile(arguments.results), Table()
    known = {"part": name, "machine": machine(), "at_most": arguments.rows}
    others = {library: version(library) for library in ("river", "numpy", "scipy")}
    known["versions"] = {"onlinels": __version__} | others
    sources = sources_of(name, arguments)
    for stream in bar([each for each in sources if wanted(each, arguments)], name):
        rows = list(islice(sources[stream](), arguments.rows))
        for model, late in runs_of(name, rows, arguments.quick):
            key = known | {"stream": stream, "model": model, "late": late}
            if results.find(key) is None:
                try:
                    results.add(key, measure(name, model, rows, late))
                except Exception as error:
                    failed[f"{model} on {stream}"] = f"{type(error).__name__}: {error}"
            if (found := results.find(key)) is not None:
                table[stream, late, model] = found
    return table


def sources_of(name: str, arguments: argparse.Namespace) -> dict[str, Source]:
    """Return the streams of a part; those of --others are marked by a star."""
    n_rows = LATE_ROWS if name.startswith("late") else OTHERS_ROWS
    others = of_folder(arguments.others, n_rows, "numbers" in name)
    if name == "late_labels":
        found = of_late_labels(arguments.data, n_rows)
    else:
        found = (of_labels if name == "labels" else of_numbers)(arguments.data)
    if name == "late_numbers":
        others, found = {}, {each: partial(first_rows, found[each], 3000) for each in found}
    return found | {f"{each}*": source for each, source in others.items()}


def wanted(stream: str, arguments: argparse.Namespace) -> bool:
    return arguments.streams is None or stream.rstrip("*") in arguments.streams


def runs_of(name: str, rows: Sequence[Row], quick: bool) -> list[tuple[str, str]]:
    """Return models and delays; half of the rows must come after the first label."""
    part = PARTS[name]
    models = list(part.models)
    if name == "late_labels":
        models.remove("Softmax" if len({label for _, label in rows}) == 2 else "logistic")
    if quick:
        models = [each for each in models if each not in ("ARF", "SRP", "KNN", "AMRules")]
    delays = [late for late in part.delays if len(rows) >= 2 * steps(late)]
    return [(model, late) for late in delays for model in models]


def steps(late: str) -> int:
    """Return the delay of most labels."""
    return int(late) if late.isdecimal() else 100


def measure(name: str, model: str, rows: Sequence[Any], late: str) -> Figures:
    """Measure a model on a stream."""
    # The garbage of the previous model must not count in the time of this one.
    gc.collect()
    make = PARTS[name].models[model]
    if name == "late_labels" and make is not StreamClassifier:
        rows = as_numbers(rows)
    return PARTS[name].measure(make(), rows, late, model == "keys")


# -- tables ---------------------------------------------------------------------------------------


def report(name: str, table: Table) -> None:
    """Print a table of each figure, and ranks, means and medians over the streams."""
    part = PARTS[name]
    models = [each for each in part.models if any(each == key[2] for key in table)]
    streams = list(dict.fromkeys(stream for stream, _, _ in table))
    sheets: dict[str, Floats] = {}
    for figure, form in part.forms.items():
        lines = np.array(
            [[table.get((s, "0", m), {}).get(figure, math.nan) for m in models] for s in streams]
        )
        sheet, best = table_of(name, *models, title=figure), part.best if not sheets else None
        for stream, values in zip(streams, lines.tolist(), strict=True):
            sheet.add_row(stream, *cells(values, form, best))
        print_table(sheet)
        sheets[figure] = lines
    for kind, is_other in (("the streams", False), ("the streams of --others", True)):
        chosen = [number for number, each in enumerate(streams) if each.endswith("*") == is_other]
        if chosen:
            summarise(kind, models, {figure: each[chosen] for figure, each in sheets.items()}, part)


def cells(values: list[float], form: str, best: Callable[..., float] | None) -> list[str]:
    """Return the values as text, with the best ones marked."""
    known = [value for value in values if not math.isnan(value)]
    chosen = best(known) if best is not None and known else None
    texts = ("" if math.isnan(value) else format(value, form) for value in values)
    return [
        f"[bold]{text}[/bold]" if value == chosen else text
        for value, text in zip(values, texts, strict=True)
    ]


def summarise(kind: str, models: list[str], sheets: dict[str, Floats], part: Part) -> None:
    """Print figures over streams; a model that failed on a stream has the last rank there."""
    first, form = next(iter(part.forms.items()))
    scores, times = sheets[first], sheets["microseconds"]
    losses = np.where(np.isnan(scores), np.inf, -scores if part.best is max else scores)
    ranks = rankdata(losses, axis=1).mean(axis=0).tolist()
    sheet = table_of(f"over {len(scores)} of {kind}", *models)
    sheet.add_row("mean rank", *cells(ranks, ".2f", min))
    if part.best is max:
        sheet.add_row(f"mean {first}", *cells(scores.mean(axis=0).tolist(), form, max))
        sheet.add_row("mean log-loss", *cells(sheets["log-loss"].mean(axis=0).tolist(), ".3f", min))
    else:
        ratios = np.median(losses / losses.min(axis=1, keepdims=True), axis=0).tolist()
        sheet.add_row(f"{first} / that of the best, median", *cells(ratios, ".2f", min))
    sheet.add_row("median microseconds", *cells(np.nanmedian(times, axis=0).tolist(), ",.0f", None))
    print_table(sheet)


def report_late(name: str, table: Table) -> None:
    """Print our score, that of the best other model, our score with keys, and our intervals."""
    part, ours = PARTS[name], next(iter(PARTS[name].models))
    figure = next(iter(part.forms))
    delays = [late for late in part.delays if any(late == key[1] for key in table)]
    sheet = table_of(f"{ours}, best other, with keys", *(f"{late} late" for late in delays))
    means: dict[str, list[list[float]]] = {late: [] for late in delays}
    for stream in dict.fromkeys(stream for stream, _, _ in table):
        texts = []
        for late in delays:
            found = {m: table.get((stream, late, m), {}) for m in part.models}
            others = [each[figure] for m, each in found.items() if each and m not in (ours, "keys")]
            if not others or not found[ours] or not found["keys"]:
                texts.append("")
                continue
            scores = found[ours][figure], part.best(others), found["keys"][figure]
            means[late].append(list(scores))
            band = found[ours].get("coverage")
            width = f"; {band:.0%}, {found[ours]['width']:.2f}" if band is not None else ""
            texts.append(", ".join(shown(each, part) for each in scores) + width)
        sheet.add_row(stream, *texts)
    if part.best is max:
        columns = [np.mean(means[late], axis=0) for late in delays]
        sheet.add_row("mean", *(", ".join(shown(each, part) for each in c) for c in columns))
    print_table(sheet)


def shown(score: float, part: Part) -> str:
    return f"{score:.1%}" if part.best is max else f"{score:.3g}"


def parse_arguments() -> argparse.Namespace:
    parser = make_parser(__doc__)
    add, parts = parser.add_argument, list(PARTS)
    add("--only", nargs="+", choices=parts, metavar="PART", help=f"any of {', '.join(parts)}")
    add("--streams", nargs="+", metavar="STREAM", help="only these streams")
    add("--rows", type=positive, help="most rows of a stream, the first ones (default: all)")
    add("--data", type=folder_of_arrays, help="folder with elec2, gas_drift and wisdm")
    add("--others", type=folder_of_arrays, help="folder with further streams")
    add("--results", type=Path, default=Path("streams.jsonl"), help="file of runs (%(default)s)")
    add("--quick", action="store_true", help=f"{QUICK_ROWS} rows of two streams, quick models")
    arguments = parser.parse_args()
    arguments.only = arguments.only or parts
    if arguments.quick:
        arguments.streams = arguments.streams or ["Phishing", "TrumpApproval"]
        arguments.rows = arguments.rows or QUICK_ROWS
    return arguments


if __name__ == "__main__":
    sys.exit(main())
