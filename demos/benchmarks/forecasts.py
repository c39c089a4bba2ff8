"""Measure forecasts 1 to 24 steps ahead, and their intervals, beside river's forecasters.

python demos/benchmarks/forecasts.py
python demos/benchmarks/forecasts.py --data folder    (etth1 and elec2 too: .npz)
python demos/benchmarks/forecasts.py --quick

Every value is learnt when it arrives, and the next 24 values are forecast. The script prints mean
absolute errors 1 and 24 steps ahead from row 500 on, the shares of values inside the 90% intervals
of direct forecasts, and the CPU time of a value in milliseconds. The models get the hour of the
step (elec2: the half hour), except for the two that repeat values.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import Floats, bar, folder_of_arrays, make_parser, positive, print_table, table_of
from river import datasets, linear_model, optim, preprocessing
from river.time_series import SNARIMAX
from river.time_series.base import Forecaster

from onlinels import LeastSquaresMultiTargetRegressor, LeastSquaresRegressor, StreamRegressor
from onlinels.forecasting import DirectForecaster

HORIZON = 24
SKIPPED, ROWS, QUICK_ROWS = 500, 2000, 600
NAIVE, SEASONAL = "last value", "last day"
OURS, STREAM = "direct, least squares", "direct, StreamRegressor"


class Series(NamedTuple):
    """Values, and the number of values a day."""

    values: list[float]
    day: int


class Repeating(Forecaster):
    """Repeat the last values of a season."""

    def __init__(self, season: int) -> None:
        self.season = season
        self._last: deque[float] = deque([0.0] * season, season)

    def learn_one(self, y: float, x: Any = None) -> None:
        """Store the value."""
        self._last.append(y)

    def forecast(self, horizon: int, xs: Any = None) -> list[float]:
        """Return the stored values in turn."""
        return [self._last[step % self.season] for step in range(horizon)]


def scaled() -> Any:
    """Return river's linear regression of scaled features and targets, with a smaller step."""
    linear: Any = linear_model.LinearRegression(optim.SGD(0.001))
    return preprocessing.TargetStandardScaler(preprocessing.StandardScaler() | linear)


MODELS: dict[str, Callable[[int], Any]] = {
    NAIVE: lambda day: Repeating(1),
    SEASONAL: Repeating,
    "SNARIMAX": lambda day: SNARIMAX(day, 0, 0),
    "SNARIMAX, scaled": lambda day: SNARIMAX(day, 0, 0, regressor=scaled()),
    "SNARIMAX, least squares": lambda day: SNARIMAX(day, 0, 0, regressor=LeastSquaresRegressor()),
    OURS: lambda day: DirectForecaster(LeastSquaresMultiTargetRegressor(), HORIZON, day),
    STREAM: lambda day: DirectForecaster(StreamRegressor(), HORIZON, [1, 2, 3, day]),
}


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=folder_of_arrays, help="folder of .npz (default: none)")
    limit = "most values of a series (%(default)s)"
    parser.add_argument("--rows", type=positive, default=ROWS, help=limit)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} values of a series")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rows = QUICK_ROWS
    table = table_of("errors at 1, 24 steps; inside; ms", *MODELS)
    for name, series in bar(series_of(arguments.data).items(), "series"):
        table.add_row(name, *(measured(kind, series, arguments.rows) for kind in MODELS))
    print_table(table)
    return 0


def series_of(folder: Path | None) -> dict[str, Series]:
    """Return the series: one of river, and those in the folder."""
    stream: Any = datasets.WaterFlow
    found = {"WaterFlow": Series([y for _, y in stream()], 24)}
    for path in sorted(folder.rglob("*.npz")) if folder else ():
        if path.stem in ("etth1", "elec2"):
            with np.load(path) as arrays:
                x = arrays["x"].astype(float)
                if path.stem == "etth1":
                    found |= {"ETTh1, load": Series(x[:, 0].tolist(), 24)}
                    found |= {"ETTh1, oil temperature": Series(arrays["y"].tolist(), 24)}
                else:
                    found |= {"elec2, demand": Series(x[:, 4].tolist(), 48)}
    return found


def measured(kind: str, series: Series, n_rows: int) -> str:
    """Return the mean absolute errors of a model, the coverage of its intervals, and its time."""
    values, day = series.values[:n_rows], series.day
    model, errors, inside = MODELS[kind](day), [], []

    def features(step: int) -> dict[str, Any]:
        if kind == STREAM:
            return {"hour": f"hour {step % day}"}
        return {f"hour {hour}": float(step % day == hour) for hour in range(day)}

    started = time.process_time()
    for now, y in enumerate(values[:-HORIZON]):
        model.learn_one(y=y, x=features(now))
        arrived = values[now + 1 : now + 1 + HORIZON]
        ahead = [features(now + 1 + step) for step in range(HORIZON)]
        forecasts = model.forecast(HORIZON, ahead)
        if now < SKIPPED:
            continue
        errors.append(np.abs(np.subtract(arrived, forecasts)))
        if kind in (OURS, STREAM):
            low, high = np.transpose(model.forecast_interval(HORIZON, ahead, level=0.9))
            inside.append((low <= arrived) & (arrived <= high))
    milliseconds = 1e3 * (time.process_time() - started) / len(values)
    shares = np.mean(inside, axis=0) if inside else None
    return described(np.mean(errors, axis=0), shares, milliseconds)


def described(errors: Floats, inside: Floats | None, milliseconds: float) -> str:
    """Return figures of the first and the last step as text."""
    told = [", ".join(f"{error:.3g}" for error in errors[[0, -1]])]
    if inside is not None:
        told.append(", ".join(f"{share:.0%}" for share in inside[[0, -1]]))
    return "; ".join([*told, f"{milliseconds:.2g}"])


if __name__ == "__main__":
    sys.exit(main())
