"""Classify the activity of a smart watch at each reading, while the stream goes on.

There are 80 recordings of ten seconds (three axes of an accelerometer and three of a gyroscope, ten
readings per second; BasicMotions of the package sktime). The demo makes one pass over the
recordings in shuffled order, one reading at a time. At each reading, the model predicts the
activity from the last 1.6 seconds. A recording is learnt when it is over, and only statistics are
stored. The first four recordings are learnt without predictions, because MiniRocket computes its
biases from their readings (not from their labels).

python demos/sensor_stream.py                   # under half a minute
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from show import (
    BLUE,
    DASHED,
    GREY,
    INK,
    SHADE,
    figure,
    label_ends,
    make_parser,
    mark_shares,
    moving_accuracy,
    not_negative,
    note,
    progress_bar,
    table_of,
)

import onlinels
from onlinels import (
    HiddenLayer,
    LeastSquaresClassifier,
    MiniRocketFeatures,
    WindowedClassifier,
)
from onlinels.windowed import windows_of

Array = NDArray[Any]

QUICK_RECORDINGS = 20


def main(argv: list[str] | None = None) -> None:
    parser = make_parser(__doc__, "sensor_stream.png")
    parser.add_argument("--seed", type=not_negative, default=0, help="for the order")
    quick = f"only {QUICK_RECORDINGS} recordings"
    parser.add_argument("--quick", action="store_true", help=quick)
    arguments = parser.parse_args(argv)
    try:
        recordings = read_watch(arguments)
    except (ImportError, OSError) as error:
        parser.error(str(error))
    console = Console()
    with progress_bar(console) as progress:
        results = {
            name: follow(name, model, recordings, progress)
            for name, model in make_models(recordings).items()
        }
    console.print(
        f"{len(recordings.labels)} recordings, predicted at every reading from the {WINDOW}th on. "
        f"The first {WARM_UP} recordings are only learnt."
    )
    console.print(watch_summary(results))
    heading = "Activities, predicted at every reading of a smart watch"
    with figure(arguments.output, 10.5, 4.8, heading) as made:
        draw_answers(made.subplots(), recordings, results)
    console.print(f"Picture: {arguments.output}")


CHANNELS = ("ax", "ay", "az", "gx", "gy", "gz")
"""Three axes of the accelerometer and three of the gyroscope, in the order of the files."""
SAMPLE_RATE = 10
"""Readings of the watch per second."""
WINDOW, HOP = 16, 4
"""Readings of a window, and readings from one learnt window to the next."""
WARM_UP = 4
"""Recordings that determine MiniRocket's biases, without their labels."""
N_FEATURES = 504
WATCH_RIDGE = 1.0
RECENT_RECORDINGS = 12
WATCH_COLOURS = {"MiniRocket": BLUE, "single readings": GREY}
NO_WATCH = (
    "the recordings of the watch are part of the package sktime, which is not installed. "
    "Install it with pip install 'sktime>=0.38'"
)


@dataclass(frozen=True)
class Recordings:
    """Recordings (n, n_readings, n_channels), each of one activity."""

    readings: Array
    labels: Array

    def rows(self, number: int) -> list[dict[str, float]]:
        """Return the readings of a recording in order."""
        values = self.readings[number].tolist()
        return [dict(zip(CHANNELS, row, strict=True)) for row in values]

    @property
    def first(self) -> dict[str, int]:
        """The number of the first recording of each activity."""
        names, places = np.unique(self.labels, return_index=True)
        ordered = sorted(zip(places.tolist(), names.tolist(), strict=True))
        return {name: place for place, name in ordered}


@dataclass(frozen=True)
class Followed:
    """Results of one model.

    Parameters
    ----------
    hits : ndarray (n_recordings, n_answers) of bool
        Whether the predictions within each recording after the warm-up were correct.
    early, late : float
        Size of the saved model after a quarter of the recordings and after all, in MiB.
    """

    hits: NDArray[np.bool_]
    early: float
    late: float


def read_watch(arguments: argparse.Namespace) -> Recordings:
    """Return the recordings of BasicMotions in an order drawn from the seed."""
    try:
        from sktime.datasets import load_basic_motions  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(NO_WATCH) from error
    values, labels = load_basic_motions(return_type="numpy3D")
    n_recordings = QUICK_RECORDINGS if arguments.quick else None
    order = np.random.default_rng(arguments.seed).permutation(len(labels))[:n_recordings]
    return Recordings(values[order].transpose(0, 2, 1), labels[order])


def make_models(recordings: Recordings) -> dict[str, WindowedClassifier]:
    """Return two kinds of features, each with the same linear layer."""
    first = [
        [(x, recordings.labels[number]) for x in recordings.rows(number)]
        for number in range(WARM_UP)
    ]
    windows = np.concatenate([windows_of(each, window=WINDOW, hop=HOP)[0] for each in first])
    looks: dict[str, Any] = {
        "MiniRocket": MiniRocketFeatures.from_examples(windows, n_features=N_FEATURES),
        "single readings": HiddenLayer(N_FEATURES),
    }
    return {
        name: WindowedClassifier(
            look | LeastSquaresClassifier(ridge=WATCH_RIDGE),
            window=1 if name == "single readings" else WINDOW,
            hop=HOP,
        )
        for name, look in looks.items()
    }


def follow(
    name: str, model: WindowedClassifier, recordings: Recordings, progress: Progress
) -> Followed:
    """Predict at every reading of a recording, and learn the recording when it is over."""
    hits, sizes = [], []
    n_recordings = len(recordings.labels)
    for number, label in progress.track(
        enumerate(recordings.labels.tolist()), total=n_recordings, description=f"{name:<18}"
    ):
        rows = recordings.rows(number)
        if number >= WARM_UP:
            hits.append([answer == label for answer in answers(model, rows)])
        for row in rows:
            model.learn_one(row, label)
        model.restart()
        if number in (n_recordings // 4, n_recordings - 1):
            sizes.append(len(onlinels.dumps(model)) / 2**20)
    early, late = sizes
    return Followed(np.array(hits), early, late)


def answers(model: WindowedClassifier, rows: list[dict[str, float]]) -> list[Any]:
    """Return the predictions at single readings, from the first full window on.

    All models predict at the same readings, including the model without a window.
    """
    found = []
    for row in rows:
        found.append(model.predict_one(row))
        model.observe_one(row)
    model.restart()
    return found[WINDOW - 1 :]


def watch_summary(results: dict[str, Followed]) -> Table:
    table = table_of("features", "accuracy", "last half", "recordings", "MiB early, late")
    for name, followed in results.items():
        hits = followed.hits
        shares = hits.mean(), hits[len(hits) // 2 :].mean(), np.mean(hits.mean(axis=1) > 0.5)
        sizes = f"{followed.early:.1f}, {followed.late:.1f}"
        table.add_row(name, *(f"{share:.1%}" for share in shares), sizes)
    return table


def draw_answers(axes: Axes, recordings: Recordings, results: dict[str, Followed]) -> None:
    """Draw the accuracy of the models."""
    title = f"accuracy over the last {RECENT_RECORDINGS} recordings, each predicted and then learnt"
    axes.set_title(title, loc="left", size=11)
    ends = []
    for name, followed in results.items():
        n_answers = followed.hits.shape[1]
        recent = moving_accuracy(followed.hits.ravel(), RECENT_RECORDINGS * n_answers)
        learnt = WARM_UP + np.arange(1, recent.size + 1) / n_answers
        # The share of a few predictions means nothing yet.
        shown = slice(n_answers - 1, None)
        axes.plot(learnt[shown], recent[shown], color=WATCH_COLOURS[name], linewidth=2.2)
        seen = "" if name == "single readings" else f", {WINDOW / SAMPLE_RATE:g} s"
        text = f"{name}{seen}: {followed.hits.mean():.1%} of all"
        ends.append((float(recent[-1]), text, WATCH_COLOURS[name]))
    axes.set_xlim(0, len(recordings.labels))
    # Room for notes at the bottom.
    axes.set_ylim(axes.get_ylim()[0] - 0.05, 1.005)
    axes.axvspan(0, WARM_UP, color=SHADE, linewidth=0)
    foot = axes.get_xaxis_transform()
    axes.text(WARM_UP / 2, 0.03, "warm-up", rotation=90, color=GREY, ha="center", transform=foot)
    for activity, number in recordings.first.items():
        if number >= WARM_UP:
            axes.axvline(number, color=INK, linewidth=1.2, linestyle=DASHED)
            note(axes, number, f"the first {activity}", INK)
    mark_shares(axes, "recordings of ten seconds")
    label_ends(axes, ends, gap=0.055)


if __name__ == "__main__":
    main()
