"""The gas sensors in sensor_stream.py: which gas, while the sensors age over three years."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.progress import Progress
from rich.table import Table
from sensor_stream_data import GasRows

from onlinels import HiddenLayer, LeastSquaresClassifier, StreamClassifier

N_HIDDEN = 200
RIDGE = 100.0
"""In favour of the model that is trained once: with 1 and with "auto" it does worse."""
FORGETTING = 0.998
"""A row weighs half as much 346 rows later."""
ONCE, EXACT, FADING, STREAM = (
    "trained once",
    "online",
    "forgetting",
    "StreamClassifier",
)
MONTHS = {
    1: "1-2",
    2: "3-10",
    3: "11-13",
    4: "14-15",
    5: "16",
    6: "17-20",
    7: "21",
    8: "22-23",
    9: "24, 30",
    10: "36",
}
"""In which months each batch was measured, by the description of the data."""


@dataclass(frozen=True)
class Contender:
    """A model, whether it sees the values scaled, and whether it learns after the first batch."""

    model: Any
    sees_scaled: bool = True
    goes_on: bool = True


def make_contenders(seed: int) -> dict[str, Contender]:
    return {
        ONCE: Contender(network(seed), goes_on=False),
        EXACT: Contender(network(seed)),
        FADING: Contender(network(seed, forgetting_factor=FORGETTING)),
        STREAM: Contender(StreamClassifier(seed), sees_scaled=False),
    }


def network(seed: int, **settings: Any) -> Any:
    """Return the same fixed features for all, and a linear layer."""
    hidden = HiddenLayer(N_HIDDEN, activation="relu", seed=seed)
    return hidden | LeastSquaresClassifier(ridge=RIDGE, **settings)


def test_then_train(
    name: str, contender: Contender, rows: GasRows, progress: Progress
) -> NDArray[np.bool_]:
    """Return whether each row was predicted right before it was learnt, if it was learnt."""
    model = contender.model
    values = rows.scaled().values if contender.sees_scaled else rows.values
    learns = rows.is_first | contender.goes_on
    hits = np.zeros(len(rows), dtype=bool)
    task = progress.add_task(name, total=len(rows))
    for number, label in enumerate(rows.labels.tolist()):
        x = {"sensors": values[number]}
        hits[number] = model.predict_one(x) == label
        if learns[number]:
            model.learn_one(x, label)
        progress.advance(task)
    return hits


def months(batch: int) -> str:
    """Return in which months a batch was measured, or what it is called."""
    return MONTHS.get(int(batch), f"batch {batch}")


def by_batch(hits: NDArray[np.bool_], rows: GasRows) -> dict[int, float]:
    """Return the accuracy in every batch."""
    return {
        number: float(hits[rows.batches == number].mean())
        for number in np.unique(rows.batches).tolist()
    }


def summary(results: dict[str, NDArray[np.bool_]], rows: GasRows) -> Table:
    table = Table("months", "rows", *results, box=SIMPLE)
    tables = [by_batch(hits, rows) for hits in results.values()]
    for number, n_rows in zip(*np.unique(rows.batches, return_counts=True), strict=True):
        cells = [f"{accuracies[number]:.1%}" for accuracies in tables]
        table.add_row(months(number), f"{n_rows:,}", *cells)
    later = ~rows.is_first
    if later.any():
        cells = [f"{hits[later].mean():.1%}" for hits in results.values()]
        table.add_row(f"after {months(rows.batches[0])}", f"{later.sum():,}", *cells)
    return table
