"""The watch in sensor_stream.py: activities from readings that are fed one at a time."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.progress import Progress
from rich.table import Table
from sensor_stream_data import SAMPLE_RATE, Recordings

from onlinels import (
    HiddenLayer,
    LeastSquaresClassifier,
    MiniRocketFeatures,
    WindowedClassifier,
    WindowFeatures,
)

WINDOW, HOP = 16, 4
"""Readings of a window, and from one that is learnt to the next."""
WARM_UP = 4
"""Recordings from whose readings, without labels, MiniRocket's biases come."""
N_FEATURES = 504
RIDGE = 1.0
MEBIBYTE = 2.0**20


@dataclass(frozen=True)
class Followed:
    """What came of one model.

    Parameters
    ----------
    hits : ndarray (n_recordings, n_answers) of bool
        Whether the answers within each recording after the warm-up were right.
    early, late : float
        What is remembered after a quarter of the recordings and after all: MiB of the saved file.
    """

    hits: NDArray[np.bool_]
    early: float
    late: float

    @property
    def recordings_right(self) -> float:
        """Share of the recordings of which most answers were right."""
        return float(np.mean(self.hits.mean(axis=1) > 0.5))


def make_models(recordings: Recordings) -> dict[str, WindowedClassifier]:
    """Return three ways to look at the readings, each before the same linear layer."""
    windows = np.concatenate([cut(recordings.readings[number]) for number in range(WARM_UP)])
    looks: dict[str, Any] = {
        "MiniRocket": MiniRocketFeatures.from_examples(windows, n_features=N_FEATURES),
        # All positions at which a filter fits in the window are averaged to one.
        "filter responses": WindowFeatures(pool_size=8, stride=8, drop_ring=7),
        "single readings": HiddenLayer(N_FEATURES, activation="relu", bias=True),
    }
    return {
        name: WindowedClassifier(
            look | LeastSquaresClassifier(ridge=RIDGE),
            window=1 if name == "single readings" else WINDOW,
            hop=HOP,
        )
        for name, look in looks.items()
    }


def cut(readings: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the windows (n_windows, window, n_channels) that are learnt of a recording."""
    ends = range(WINDOW, len(readings) + 1, HOP)
    return np.stack([readings[end - WINDOW : end] for end in ends])


def follow(
    name: str, model: WindowedClassifier, recordings: Recordings, progress: Progress
) -> Followed:
    """Answer at every reading of a recording, and learn it once it is over and its label known.

    The recordings of the warm-up are only learnt.
    """
    hits, sizes = [], []
    weighed = len(recordings) // 4, len(recordings) - 1
    task = progress.add_task(name, total=len(recordings))
    for number, label in enumerate(recordings.labels.tolist()):
        rows = recordings.rows(number)
        if number >= WARM_UP:
            answers = listen(model, rows)
            hits.append([answer == label for answer in answers])
        for row in rows:
            model.learn_one(row, label)
        model.restart()
        if number in weighed:
            sizes.append(saved_size(model) / MEBIBYTE)
        progress.advance(task)
    early, late = sizes
    return Followed(np.array(hits), early, late)


def saved_size(model: WindowedClassifier) -> int:
    """Return the bytes of a file that holds the model."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.npz")
        model.save(file)
        return file.stat().st_size


def listen(model: WindowedClassifier, rows: list[dict[str, float]]) -> list[Any]:
    """Return the answers at readings that come one at a time, from the first full window on.

    All models answer at the same readings, also the one that needs no window.
    """
    answers = []
    for row in rows:
        answers.append(model.predict_one(row))
        model.observe_one(row)
    model.restart()
    return answers[WINDOW - 1 :]


def summary(results: dict[str, Followed]) -> Table:
    table = Table(
        "seen",
        "answers right",
        "last half",
        "recordings",
        "MiB early, late",
        box=SIMPLE,
    )
    for name, followed in results.items():
        late = followed.hits[len(followed.hits) // 2 :]
        table.add_row(
            name,
            f"{followed.hits.mean():.1%}",
            f"{late.mean():.1%}",
            f"{followed.recordings_right:.1%}",
            f"{followed.early:.1f}, {followed.late:.1f}",
        )
    return table


def seen(name: str) -> str:
    seconds = WINDOW / SAMPLE_RATE
    return name if name == "single readings" else f"{name}, {seconds:g} s"
