"""Measure errors and intervals of regressors on streams whose targets arrive late.

python demos/benchmarks/late_numbers.py
python demos/benchmarks/late_numbers.py --data folder    (elec2, gas and wisdm too: .npz)
python demos/benchmarks/late_numbers.py --quick

Every row is predicted, and learnt after a delay in rows. The script prints mean absolute errors, of
StreamRegressor also if every row has its number as key, and two figures of StreamRegressor's 90%
intervals: their coverage, and their mean width divided by that of a constant band around the same
forecasts with the same coverage. The band is the narrowest symmetric one or, in brackets, the
narrowest of all. Rows before the first learnt row do not count, and infinite intervals do not count
in the coverage.
"""

from __future__ import annotations

import math
import sys
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from common import (
    Floats,
    bar,
    folder_of_arrays,
    make_parser,
    positive,
    print_table,
    table_of,
)
from stream_regressors import MODELS as OTHERS
from stream_regressors import NAMES, OURS, Row, encoded, interval_of, sources_of

from onlinels import LeastSquaresRegressor, StreamRegressor

DELAYS = 0, 1, 12, 100, 1000
ROWS, QUICK_ROWS = 3000, 300
QUICK_STREAMS = ["TrumpApproval", "AirlinePassengers"]

MODELS = {
    OURS: StreamRegressor,
    "with keys": StreamRegressor,
    "LeastSquaresRegressor": lambda: encoded(LeastSquaresRegressor()),
    "LinearRegression": OTHERS["SGD"],
    "ARFRegressor": OTHERS["ARF"],
    "last target": OTHERS["last target"],
    "mean": OTHERS["mean"],
}


class Band(NamedTuple):
    """Share of errors within intervals, and their mean width divided by that of constant bands."""

    coverage: float
    even: float
    any: float

    def __str__(self) -> str:
        return f"{self.coverage:.1%}, {self.even:.2f} ({self.any:.2f})"


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=folder_of_arrays, help="folder of .npz (default: none)")
    limit = "most rows of a stream (%(default)s)"
    parser.add_argument("--rows", type=positive, default=ROWS, help=limit)
    parser.add_argument("--streams", nargs="+", choices=NAMES, default=NAMES, metavar="STREAM")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows of two streams")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rows, arguments.streams = QUICK_ROWS, QUICK_STREAMS
    table = table_of("rows late", *MODELS, "coverage, width over constant bands")
    for name, source in bar(sources_of(arguments).items(), "streams"):
        rows = list(islice(source(), arguments.rows))
        for delay in DELAYS:
            if len(rows) > delay + 1:
                table.add_row(f"{name}, {delay}", *measure(rows, delay))
    print_table(table)
    return 0


def measure(rows: list[Row], delay: int) -> list[str]:
    """Return the errors of all models, and the coverage of our intervals."""
    found, coverage = [], ""
    for name, make in MODELS.items():
        try:
            errors, reach = late_errors(make(), rows, delay, name == "with keys")
        except Exception as error:
            found.append(type(error).__name__)
            continue
        found.append(f"{np.abs(errors).mean():.4g}")
        if name == OURS and np.isfinite(reach).any():
            coverage = str(band_of(errors, reach))
    return [*found, coverage]


def late_errors(
    model: Any, rows: list[Row], delay: int, has_keys: bool = False
) -> tuple[Floats, Floats]:
    """Return the errors with targets `delay` rows late, and the half widths of intervals."""
    errors, reach = [], []
    for number, (x, y) in enumerate(rows):
        forecast = model.predict_one(x, **({"key": number} if has_keys else {}))
        is_ours = isinstance(model, StreamRegressor) and not has_keys
        ends = interval_of(model, x) if is_ours else None
        errors.append(y - forecast)
        reach.append(math.inf if ends is None else (ends[1] - ends[0]) / 2.0)
        if number >= delay:
            model.learn_one(*rows[number - delay], **({"key": number - delay} if has_keys else {}))
    return np.array(errors[delay + 1 :]), np.array(reach[delay + 1 :])


def band_of(errors: Floats, reach: Floats) -> Band:
    """Return the coverage of finite intervals, and their width relative to constant bands."""
    errors, reach = errors[np.isfinite(reach)], reach[np.isfinite(reach)]
    n_within = max(1, int((abs(errors) <= reach).sum()))
    ordered, width = np.sort(errors), 2.0 * float(reach.mean())
    even = 2.0 * float(np.sort(abs(errors))[n_within - 1])
    narrowest = float((ordered[n_within - 1 :] - ordered[: len(ordered) - n_within + 1]).min())
    ratios = (width / band if band > 0.0 else math.inf for band in (even, narrowest))
    return Band(n_within / len(errors), *ratios)


if __name__ == "__main__":
    sys.exit(main())
