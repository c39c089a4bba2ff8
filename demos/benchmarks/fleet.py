"""Measure what a fleet costs that has one model for each device.

    OPENBLAS_NUM_THREADS=1 python demos/benchmarks/fleet.py
    python demos/benchmarks/fleet.py --quick

A consumer takes events with Zipf keys: it finds the model of the key, predicts and learns. The
latest models are in memory, all are in SQLite, in a temporary folder. After every 5,000 events, the
changed models are saved in one transaction, and those that were not used for longest leave memory.
Consumers take turns, 5,000 events each. The second table has the costs of a single model.

Times are CPU times of one thread.
"""

from __future__ import annotations

import os
import pickle
import sqlite3
import sys
import tempfile
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time, thread_time
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from common import (
    bar,
    call_alone,
    forget_peak,
    in_words,
    machine,
    make_parser,
    memory,
    positive,
    print_table,
    row_slices,
    table_of,
)
from river.linear_model import BayesianLinearRegression

import onlinels
from onlinels import LeastSquaresClassifier, LeastSquaresRegressor
from onlinels.core import IN_USE

N_KEYS, EXPONENT, SAVE_EVERY, N_IN_MEMORY = 50_000, 1.1, 5000, 1000
WIDTHS = 8, 20, 60
N_LEARNT = 200
N_FEATURES = 8

MODELS: dict[str, Callable[[], Any]] = {
    "LeastSquaresRegressor(1.0)": lambda: LeastSquaresRegressor(1.0),
    "LeastSquaresRegressor()": LeastSquaresRegressor,
    "LeastSquaresClassifier()": LeastSquaresClassifier,
    "river BayesianLinearRegression": BayesianLinearRegression,
}
STORES: dict[str, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "pickle": (pickle.dumps, pickle.loads),
    "dumps": (onlinels.dumps, onlinels.loads),
}
CONSUMERS = (
    ("LeastSquaresRegressor(1.0)", "pickle"),
    ("LeastSquaresRegressor(1.0)", "dumps"),
    ("LeastSquaresRegressor()", "pickle"),
    ("LeastSquaresClassifier()", "pickle"),
    ("river BayesianLinearRegression", "pickle"),
)

Row = tuple[dict[str, float], Any]


def main() -> int:
    parser = make_parser(__doc__)
    limit = "events for each consumer (%(default)s)"
    parser.add_argument("--events", type=positive, default=50_000, help=limit)
    parser.add_argument("--quick", action="store_true", help="small sizes, a few seconds in total")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.events = 1000
    warnings.simplefilter("ignore")  # Costs are compared here, not data.
    print(f"{machine()}; core: {IN_USE}; one thread, CPU time")
    print_table(table_of_consumers(arguments.events))
    print_table(table_of_costs(WIDTHS[:1] if arguments.quick else WIDTHS, arguments.quick))
    return 0


def rows_of(n_rows: int, n_features: int, is_label: bool) -> list[Row]:
    """Return rows of random numbers as dicts, with their targets."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, n_features))
    y = X.sum(axis=1) + random.normal(size=n_rows)
    names, targets = [f"x{column}" for column in range(n_features)], y > 0.0 if is_label else y
    dicts = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    return list(zip(dicts, targets.tolist(), strict=True))


def takes_labels(model: Any) -> bool:
    return isinstance(model, LeastSquaresClassifier)


# -- a consumer -----------------------------------------------------------------------------------


class Fleet:
    """Models by key: the latest in memory, all of them in SQLite."""

    def __init__(self, path: Path, make: Callable[[], Any], store: str) -> None:
        self.make, (self.dump, self.load) = make, STORES[store]
        self.models: OrderedDict[int, Any] = OrderedDict()
        self.changed: set[int] = set()
        self.n_loaded = self.n_new = self.n_saved = 0
        self.loading = self.saving = 0.0
        self.database = sqlite3.connect(path)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("CREATE TABLE models (key PRIMARY KEY, value)")

    def __getitem__(self, key: int) -> Any:
        model = self.models.pop(key, None)
        if model is None:
            began = process_time()
            query = "SELECT value FROM models WHERE key = ?"
            found = self.database.execute(query, (key,)).fetchone()
            model = self.load(found[0]) if found else self.make()
            if found:
                self.loading += process_time() - began
            self.n_loaded += found is not None
            self.n_new += found is None
        self.models[key] = model
        self.changed.add(key)
        return model

    def save(self) -> None:
        """Save the changed models; forget those that were not used for longest."""
        began = process_time()
        values = [(key, self.dump(self.models[key])) for key in self.changed]
        with self.database:
            self.database.executemany("REPLACE INTO models VALUES (?, ?)", values)
        self.saving += process_time() - began
        self.n_saved += len(values)
        self.changed.clear()
        while len(self.models) > N_IN_MEMORY:
            self.models.popitem(last=False)


class Consumer:
    """A fleet that takes events, and its seconds."""

    def __init__(self, folder: str, name: str, store: str) -> None:
        self.name, self.store, self.seconds = name, store, 0.0
        self.fleet = Fleet(Path(folder) / f"{name} {store}.db", MODELS[name], store)
        self.rows = rows_of(5000, N_FEATURES, takes_labels(MODELS[name]()))

    def take(self, keys: list[int], first: int) -> None:
        """Take events, the first of which has this number, and save."""
        fleet, rows, n_rows = self.fleet, self.rows, len(self.rows)
        began = process_time()
        for number, key in enumerate(keys, first):
            predict_and_learn(fleet[key], *rows[number % n_rows])
        fleet.save()
        self.seconds += process_time() - began


def table_of_consumers(n_events: int) -> Any:
    drawn = np.random.default_rng(0).zipf(EXPONENT, size=5 * n_events)
    keys = drawn[drawn <= N_KEYS][:n_events].tolist()
    title = f"{len(keys):,} events of {len(set(keys)):,} keys, {N_IN_MEMORY:,} models in memory"
    columns = "events a second", "load a model", "save a model", "events that load", "new keys"
    table = table_of("model, store", *columns, title=title)
    with tempfile.TemporaryDirectory() as folder:
        consumers = [Consumer(folder, *each) for each in CONSUMERS]
        for piece in bar(row_slices(len(keys), SAVE_EVERY), "events"):
            for each in consumers:
                each.take(keys[piece], piece.start)
        for each in consumers:
            fleet = each.fleet
            table.add_row(
                f"{each.name}, {each.store}",
                f"{len(keys) / each.seconds:,.0f}",
                in_words(fleet.loading / max(1, fleet.n_loaded)),
                in_words(fleet.saving / fleet.n_saved),
                f"{fleet.n_loaded / len(keys):.0%}",
                f"{fleet.n_new / len(keys):.0%}",
            )
            fleet.database.close()
    return table


# -- costs of a model -----------------------------------------------------------------------------


def table_of_costs(widths: tuple[int, ...], is_quick: bool) -> Any:
    names = [name for name in MODELS if not takes_labels(MODELS[name]())]
    lines = [(name, width) for width in widths for name in names]
    n_times = 10 if is_quick else 100
    found = [dict(costs_of(name, width, n_times)) for name, width in bar(lines, "costs")]
    table = table_of("model, features", *found[0], title=f"a model after {N_LEARNT} rows")
    for (name, width), costs in zip(lines, found, strict=True):
        cells = [in_unit(column, costs[column]) if column in costs else "-" for column in found[0]]
        table.add_row(f"{name}, {width}", *cells)
    return table


def in_unit(name: str, value: float) -> str:
    return f"{value / 1024:.1f} KiB" if name.startswith("bytes") else in_words(value)


def costs_of(name: str, width: int, n_times: int) -> Iterator[tuple[str, float]]:
    """Yield the bytes and the seconds of a model that has learnt some rows, by what they are."""
    model, rows = MODELS[name](), rows_of(N_LEARNT + n_times, width, is_label=False)
    for x, y in rows[:N_LEARNT]:
        predict_and_learn(model, x, y)
    rest = iter(rows[N_LEARNT:])
    yield "predict, learn", seconds_of(lambda: predict_and_learn(model, *next(rest)), n_times)
    yield "bytes in memory", call_alone(bytes_of_a_model, name, width, n_times)
    for store, (dump, load) in STORES.items():
        if store == "pickle" or not name.startswith("river"):
            saved = dump(model)
            yield f"save, {store}", seconds_of(partial(dump, model), n_times)
            yield f"load, {store}", seconds_of(partial(load, saved), n_times)
            yield f"bytes, {store}", len(saved)


def predict_and_learn(model: Any, x: dict[str, float], y: Any) -> None:
    model.predict_one(x)
    model.learn_one(x, y)


def seconds_of(work: Callable[[], Any], n_times: int) -> float:
    """Return the median of the seconds that calls take."""

    def once() -> float:
        began = thread_time()
        work()
        return thread_time() - began

    return median(once() for _ in range(n_times))


def bytes_of_a_model(name: str, width: int, n_models: int) -> float:
    """Return the memory of a process by models that have learnt rows, over their number."""
    rows, kept = rows_of(N_LEARNT, width, is_label=False), []
    before = forget_peak()
    for _ in range(n_models):
        model = MODELS[name]()
        for x, y in rows:
            predict_and_learn(model, x, y)
        kept.append(model)
    return (memory("VmRSS") - before) / n_models


if __name__ == "__main__":
    sys.exit(main())
