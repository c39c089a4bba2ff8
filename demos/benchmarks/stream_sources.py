"""The streams of the benchmark of streams: of river, made by river with fixed seeds, and of files.

A folder of files holds `elec2.npz`, `gas_drift_b1-6_8_9.npz` and `wisdm_transformed.npz`. Further
files have rows in time order: numbers x (n, m), where NaN is a missing value, optional texts t
(n, k), where "" is a missing value, and targets y (n,), floats for numeric targets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from river import datasets
from river.datasets import synth
from sklearn.datasets import load_diabetes

from onlinels.core.constants import MAX_CATEGORIES

Row = tuple[dict[str, Any], Hashable]
Source = Callable[[], Iterable[Any]]

# -- labels ---------------------------------------------------------------------------------------

CONCEPTS: dict[str, Callable[[int], Any]] = {
    "SEA": lambda k: synth.SEA(k, seed=1 + k, noise=0.1),
    "Agrawal": lambda k: synth.Agrawal(k, seed=1 + k),
    "Sine": lambda k: synth.Sine(k, seed=1 + k),
    "Mixed": lambda k: synth.Mixed(k % 2, 1 + k, False),
    "STAGGER": lambda k: synth.STAGGER(k, seed=1 + k),
}
"""Streams of three concepts."""


def three_concepts(name: str, n_rows: int) -> Iterator[Row]:
    """Yield a third of the rows of concept 0, then of concept 1, then of concept 2."""
    return chain.from_iterable(islice(CONCEPTS[name](k), n_rows // 3) for k in range(3))


def random_rbf() -> Any:
    settings = {"seed_model": 1, "seed_sample": 2, "n_classes": 4, "n_features": 10}
    moving = {"n_centroids": 30, "change_speed": 0.001, "n_drift_centroids": 15}
    return synth.RandomRBFDrift(**settings, **moving)  # type: ignore[arg-type]


def random_tree() -> Any:
    settings = {"seed_tree": 1, "seed_sample": 2, "n_classes": 3, "n_num_features": 5}
    size = {"n_cat_features": 3, "max_tree_depth": 6, "first_leaf_level": 3}
    return synth.RandomTree(**settings, **size)


def led() -> Any:
    return synth.LEDDrift(1, noise_percentage=0.1, irrelevant_features=True, n_drift_features=4)


def hyperplane() -> Any:
    drift = {"n_drift_features": 5, "mag_change": 0.001, "noise_percentage": 0.05}
    return synth.Hyperplane(seed=1, n_features=10, **drift)  # type: ignore[arg-type]


def rows_of(path: Path, start: int = 0, stop: int | None = None) -> list[Row]:
    """Return rows of a file as dicts without missing values, with their targets."""
    with np.load(path) as arrays:
        x, y = arrays["x"][start:stop].astype(float), arrays["y"][start:stop].tolist()
        texts = arrays["t"][start:stop].tolist() if "t" in arrays.files else [()] * len(y)
    return [
        (
            {f"f{column}": value for column, value in enumerate(numbers) if value == value}
            | {f"t{column}": text for column, text in enumerate(words) if text},
            target,
        )
        for numbers, words, target in zip(x.tolist(), texts, y, strict=True)
    ]


FILES = {"elec2": "elec2.npz", "gas": "gas_drift_b1-6_8_9.npz", "wisdm": "wisdm_transformed.npz"}
"""Electricity, Gas Sensor Array Drift and WISDM."""
MADE: dict[str, Source] = {
    "LED": lambda: islice(led(), 10_000),
    "RBFDrift": lambda: islice(random_rbf(), 15_000),
    "Hyperplane": lambda: islice(hyperplane(), 15_000),
    "RandomTree": lambda: islice(random_tree(), 10_000),
    "Waveform": lambda: islice(synth.Waveform(seed=1, has_noise=True), 8_000),
}


def of_labels(folder: Path | None) -> dict[str, Source]:
    """Return the streams with labels, those of the folder if it has their files."""
    found: dict[str, Source] = {
        name: partial(bundled, name) for name in ("Phishing", "Bananas", "ImageSegments")
    }
    found["Shuttle"] = lambda: islice(bundled("Shuttle"), 20_000)
    for name in CONCEPTS:
        found[name] = partial(three_concepts, name, 15_000 if name in ("SEA", "Agrawal") else 9_000)
    return found | MADE | {name: partial(rows_of, path) for name, path in in_folder(folder).items()}


def in_folder(folder: Path | None) -> dict[str, Path]:
    paths = {name: folder / file for name, file in FILES.items()} if folder else {}
    return {name: path for name, path in paths.items() if path.is_file()}


def of_late_labels(folder: Path | None, n_rows: int) -> dict[str, Source]:
    """Return streams of at most some rows; three parts of Electricity, and two made of numbers."""
    found = {name: of_labels(folder)[name] for name in ("Phishing", "ImageSegments", "Bananas")}
    found |= {name: MADE[name] for name in ("Hyperplane", "RBFDrift")}
    for name in ("SEA", "Agrawal", "STAGGER"):
        found[name] = partial(three_concepts, name, n_rows - 1)
    found["TrumpApproval"] = lambda: above_median(list(bundled("TrumpApproval")))
    found["WaterFlow"] = lambda: above_median(list(water_flow()))
    for name, path in in_folder(folder).items():
        for start in (0, 16_000, 32_000) if name == "elec2" else (0,):
            title = f"{name}, from row {start:,}" if start else name
            found[title] = partial(rows_of, path, start)
    return {name: partial(first_rows, each, n_rows) for name, each in found.items()}


def first_rows(source: Source, n_rows: int) -> Iterator[Row]:
    return islice(source(), n_rows)


def above_median(rows: list[tuple[dict[str, Any], float]]) -> list[Row]:
    """Return rows labelled by whether the target is above the median of all targets."""
    middle = median(y for _, y in rows)
    return [(x, y > middle) for x, y in rows]


def as_numbers(rows: Iterable[Row]) -> list[Row]:
    """Return rows in which each of the first texts of a name is a feature of value 1."""
    known: dict[str, dict[str, str]] = defaultdict(dict)
    made: list[Row] = []
    for x, label in rows:
        numbers = {}
        for name, value in x.items():
            if not isinstance(value, str):
                numbers[name] = value
            elif value in known[name] or len(known[name]) < MAX_CATEGORIES:
                numbers[known[name].setdefault(value, f"{name}={value}")] = 1.0
        made.append((numbers, label))
    return made


# -- numbers --------------------------------------------------------------------------------------


def bundled(name: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the rows of a stream that is part of river."""
    made: Any = getattr(datasets, name)
    yield from made()


def passengers() -> Iterator[Row]:
    """Yield airline passengers by year and month; the month is text."""
    for x, y in bundled("AirlinePassengers"):
        month = x["month"]
        yield {"year": month.year + (month.month - 1) / 12, "month": f"{month:%b}"}, float(y)


def water_flow() -> Iterator[tuple[dict[str, Any], float]]:
    """Yield the flow of water by hour and day of the week."""
    for x, y in bundled("WaterFlow"):
        yield {"hour": x["Time"].hour, "weekday": x["Time"].weekday()}, float(y)


def diabetes() -> Iterator[Row]:
    found = load_diabetes()
    for row, y in zip(found.data.tolist(), found.target.tolist(), strict=True):
        yield dict(zip(found.feature_names, row, strict=True)), y


ELEC2 = ("date", "day", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")


def elec2(path: Path, target: str, *left_out: str) -> Iterator[Row]:
    """Yield the rows of elec2 with one column as the target."""
    for values, _ in rows_of(path):
        x = dict(zip(ELEC2, values.values(), strict=True))
        y = x[target]
        yield {name: value for name, value in x.items() if name not in (target, *left_out)}, y


def gas(path: Path) -> Iterator[Row]:
    """Yield features of sixteen sensors, with the concentration of a gas as the target."""
    with np.load(path) as arrays:
        targets = arrays["concentration"].tolist()
    for (x, _), y in zip(rows_of(path), targets, strict=True):
        yield x, y


def wisdm(path: Path) -> Iterator[Row]:
    """Yield all features but the last one, the mean acceleration, which is the target."""
    for x, _ in rows_of(path):
        *others, last = x
        yield {name: x[name] for name in others}, x[last]


def of_numbers(folder: Path | None) -> dict[str, Source]:
    """Return the streams with numeric targets, those of the folder if it has their files."""
    found: dict[str, Source] = {
        "TrumpApproval": lambda: bundled("TrumpApproval"),
        "ChickWeights": lambda: ((x, float(y)) for x, y in bundled("ChickWeights")),
        "AirlinePassengers": passengers,
        "WaterFlow": water_flow,
        "SP500Stocks": lambda: bundled("SP500Stocks"),
        "SolarFlare": lambda: ((x, float(y["c-class-flares"])) for x, y in bundled("SolarFlare")),
        "Diabetes": diabetes,
        "Friedman": lambda: islice(synth.Friedman(seed=1), 10_000),
        "FriedmanDrift": lambda: islice(
            synth.FriedmanDrift("gra", (3000, 6000), transition_window=1000, seed=1), 10_000
        ),
        "Planes2D": lambda: islice(synth.Planes2D(seed=1), 10_000),
        "Mv": lambda: islice(synth.Mv(seed=1), 10_000),
    }
    paths = in_folder(folder)
    if "elec2" in paths:
        found["elec2 price"] = partial(elec2, paths["elec2"], "nswprice")
        # Without the demand of the other state, which is almost the same.
        found["elec2 demand"] = partial(elec2, paths["elec2"], "nswdemand", "vicdemand")
    if "gas" in paths:
        found["gas concentration"] = partial(gas, paths["gas"])
    if "wisdm" in paths:
        found["wisdm resultant"] = partial(wisdm, paths["wisdm"])
    return found


def of_folder(folder: Path | None, n_rows: int, are_numbers: bool) -> dict[str, Source]:
    """Return the streams of one kind in the files of a folder, at most some rows of each."""
    paths = sorted(folder.glob("*.npz")) if folder else []
    found = {path.stem: rows_of(path, 0, n_rows) for path in paths}
    return {
        name: partial(iter, rows)
        for name, rows in found.items()
        if isinstance(rows[0][1], float) == are_numbers
    }
