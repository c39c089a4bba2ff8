"""Classify sensor readings as they arrive, and continue to learn while the sensors age.

Without --data, the sensors are in a smart watch: 80 recordings of ten seconds (three axes of an
accelerometer and three of a gyroscope, ten readings per second; BasicMotions of the package
sktime). The demo makes one pass over the recordings in shuffled order, one reading at a time. At
each reading, the model predicts the activity from the last 1.6 seconds. A recording is learnt when
it is over, and only statistics are stored. The first four recordings are learnt without
predictions, because MiniRocket computes its biases from their readings (not from their labels).

With --data, the sensors are 16 gas sensors that age over three years (UCI's Gas Sensor Array Drift:
a folder with batch1.dat, …, or an .npz file with x, y and batch). Every row is predicted and then
learnt with its label. Four models are compared: a model that learns only the first batch, models
that continue to learn without and with forgetting, and StreamClassifier. All but StreamClassifier
receive logarithms, standardised by the first batch, through the same fixed hidden units. The files
list one gas after the other, so that repeating the last label is nearly always correct. The demo
therefore shuffles the rows within each batch.

python demos/sensor_stream.py                   # the watch, under half a minute
python demos/sensor_stream.py --data gas/       # the gas sensors, about half a minute
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
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
    GREEN,
    GREY,
    INK,
    PALE,
    SHADE,
    VERMILLION,
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

from onlinels import (
    HiddenLayer,
    LeastSquaresClassifier,
    MiniRocketFeatures,
    StreamClassifier,
    WindowedClassifier,
)
from onlinels.windowed import windows_of

Array = NDArray[Any]

QUICK_RECORDINGS = 20
QUICK_STEP = 8
"""Step between the rows of the gas sensors that --quick uses."""


def main(argv: list[str] | None = None) -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    data = (
        "gas sensors: a folder with batch1.dat, … or gas*.npz, or an .npz file with x (n, 128), y "
        "and batch (default: the watch)"
    )
    add("--data", type=Path, help=data)
    add("--out", type=Path, default=Path(), help="folder for the picture (the current folder)")
    add("--seed", type=not_negative, default=0, help="for the order and the hidden units")
    quick = f"only {QUICK_RECORDINGS} recordings, or every {QUICK_STEP}th row"
    add("--quick", action="store_true", help=quick)
    arguments = parser.parse_args(argv)
    try:
        arguments.out.mkdir(exist_ok=True)
        rows = read_gas(arguments.data) if arguments.data else None
        recordings = None if arguments.data else read_watch(arguments)
    except (ImportError, OSError, ValueError) as error:
        parser.error(str(error))
    if recordings is not None:
        tell_activities(recordings, arguments.out / "sensor_stream_watch.png")
    elif rows is not None:
        tell_gases(rows, arguments)


# == the watch ====================================================================================

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
    "Install it with pip install 'sktime>=0.38', or pass --data"
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


def tell_activities(recordings: Recordings, path: Path) -> None:
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
    draw_watch(path, recordings, results)
    console.print(f"Picture: {path}")


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
            sizes.append(saved_size(model) / 2**20)
    early, late = sizes
    return Followed(np.array(hits), early, late)


def saved_size(model: WindowedClassifier) -> int:
    """Return the size of the saved model in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.npz")
        model.save(file)
        return file.stat().st_size


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


def draw_watch(path: Path, recordings: Recordings, results: dict[str, Followed]) -> None:
    """Draw a recording of each activity, and below it the accuracy of the models."""
    with figure(path, 10.5, 7.2, "Activities, predicted at every reading of a smart watch") as made:
        grid = made.add_gridspec(2, 1, height_ratios=(0.8, 2))
        above, below = (made.add_subfigure(grid[row, 0]) for row in range(2))
        first = recordings.first
        panels = above.subplots(1, len(first), sharey=True, squeeze=False)[0]
        for axes, (activity, number) in zip(panels, first.items(), strict=True):
            draw_recording(axes, recordings.readings[number])
            axes.set_title(activity, loc="left", size=11)
        panels[0].set_xlabel("seconds (shaded: a window)")
        panels[0].set_ylabel("acceleration")
        draw_answers(below.subplots(), recordings, results)


def draw_recording(axes: Axes, readings: Array) -> None:
    seconds = np.arange(len(readings)) / SAMPLE_RATE
    for column, colour in enumerate((BLUE, VERMILLION, GREEN)):
        axes.plot(seconds, readings[:, column], color=colour, linewidth=1.0)
    axes.axvspan(0, WINDOW / SAMPLE_RATE, color=SHADE, linewidth=0)
    axes.set_xlabel("seconds")


def draw_answers(axes: Axes, recordings: Recordings, results: dict[str, Followed]) -> None:
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


# == the gas sensors ==============================================================================

N_VALUES = 128
"""Values of a row: eight from each of the 16 sensors."""
ARRAYS = ("x", "y", "batch")
N_HIDDEN = 200
GAS_RIDGE = 100.0
"""Favours the model that is trained once, which is worse with 1 and with "auto"."""
FORGETTING = 0.998
"""Halves the weight of a row after 346 rows."""
ONCE = "trained once"
GAS_COLOURS = {ONCE: VERMILLION, "online": GREY, "forgetting": BLUE, "StreamClassifier": GREEN}
RECENT_ROWS = 300
LOWEST_ZOOMED = 0.8
MONTHS = dict(
    enumerate(("1-2", "3-10", "11-13", "14-15", "16", "17-20", "21", "22-23", "24, 30", "36"), 1)
)
"""Months in which each batch was measured, from the description of the data."""


@dataclass(frozen=True)
class GasRows:
    """Rows (n, 128) of the gas sensors, their gases, and their batches in ascending order."""

    values: Array
    labels: Array
    batches: Array

    def __getitem__(self, rows: Any) -> GasRows:
        return GasRows(self.values[rows], self.labels[rows], self.batches[rows])

    @property
    def is_first(self) -> Array:
        """Mask of the rows of the first batch."""
        first: Array = self.batches == self.batches[0]
        return first

    @property
    def repeated(self) -> float:
        """Share of rows with the same label as the row before."""
        return float(np.mean(self.labels[1:] == self.labels[:-1]))

    def shuffled(self, seed: int) -> GasRows:
        """Return the batches in order, with the rows of each batch shuffled."""
        ties = np.random.default_rng(seed).random(len(self.labels))
        return self[np.lexsort([ties, self.batches])]

    def scaled(self) -> Array:
        """Return logarithms of the values, standardised by the first batch.

        Values range from -24,000 to 670,000; arcsinh is a logarithm with a sign. The scale uses
        only the first batch, so every model may use it.
        """
        logarithms = np.arcsinh(self.values)
        first = logarithms[self.is_first]
        deviation = first.std(axis=0)
        scaled: Array = (logarithms - first.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        return scaled


def read_gas(path: Path) -> GasRows:
    """Read the gas sensors from UCI's files batch1.dat, batch2.dat, … or from an .npz file.

    Parameters
    ----------
    path : Path
        An .npz file with x (n, 128), y (n,) and batch (n,) in the order of time, or a folder with
        one such file whose name starts with "gas", or a folder with some or all of UCI's files.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or its arrays do not fit together.
    """
    texts = sorted(path.glob("batch*.dat"), key=batch_number) if path.is_dir() else []
    if texts:
        parts = [read_text(text) for text in texts]
        values, labels, batches = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return checked(GasRows(values, labels, batches), path)
    if path.is_dir():
        found = sorted(path.glob("gas*.npz"))
        if len(found) != 1:
            raise FileNotFoundError(
                f"{path} holds no batch1.dat, … and {len(found)} files gas*.npz, expected one"
            )
        (path,) = found
    with np.load(path) as arrays:
        missing = [name for name in ARRAYS if name not in arrays]
        if missing:
            raise ValueError(f"{path} lacks {', '.join(missing)}, expected {', '.join(ARRAYS)}")
        return checked(GasRows(*(arrays[name] for name in ARRAYS)), path)


def batch_number(path: Path) -> int:
    return int(path.stem.removeprefix("batch"))


def read_text(path: Path) -> tuple[Array, Array, Array]:
    """Read a file of UCI: lines of gas[;concentration] (gases count from 1) and number:value."""
    labels, rows = [], []
    for line in path.read_text(encoding="ascii").splitlines():
        gas, *entries = line.split()
        labels.append(int(gas.partition(";")[0]) - 1)
        rows.append([float(entry.partition(":")[2]) for entry in entries])
    return np.array(rows), np.array(labels), np.full(len(labels), batch_number(path))


def checked(rows: GasRows, path: Path) -> GasRows:
    shapes = [np.shape(array) for array in (rows.values, rows.labels, rows.batches)]
    n_rows = shapes[0][0] if shapes[0] else 0
    if shapes != [(n_rows, N_VALUES), (n_rows,), (n_rows,)] or not n_rows:
        raise ValueError(
            f"{path} holds arrays of shapes {shapes}, expected [(n, {N_VALUES}), (n,), (n,)]"
        )
    if (np.diff(rows.batches.astype(int)) < 0).any():
        raise ValueError(f"batches of {path} decrease, expected rows in the order of time")
    if not np.isfinite(rows.values).all():
        raise ValueError(f"{path} holds values that are not finite")
    return rows


def tell_gases(rows: GasRows, arguments: argparse.Namespace) -> None:
    console = Console()
    stream = rows.shuffled(arguments.seed)[:: QUICK_STEP if arguments.quick else 1]
    with progress_bar(console) as progress:
        results = {
            name: test_then_train(name, arguments.seed, stream, progress) for name in GAS_COLOURS
        }
    console.print(
        f"Repeating the last label is correct for {rows.repeated:.0%} of the rows in the order of "
        f"the files, and for {stream.repeated:.0%} here, shuffled within batches."
    )
    console.print(gas_summary(results, stream))
    path = arguments.out / "sensor_stream_gas.png"
    draw_gas(path, stream, results)
    console.print(f"Picture: {path}")


def make_model(name: str, seed: int) -> Any:
    """Return a model by name. All but StreamClassifier have the same fixed features."""
    if name == "StreamClassifier":
        return StreamClassifier(seed)
    factor = FORGETTING if name == "forgetting" else 1.0
    hidden = HiddenLayer(N_HIDDEN, seed=seed, bias=False)
    return hidden | LeastSquaresClassifier(ridge=GAS_RIDGE, forgetting_factor=factor)


def test_then_train(name: str, seed: int, rows: GasRows, progress: Progress) -> Array:
    """Return whether each row was predicted correctly, before it was learnt if it was learnt."""
    model = make_model(name, seed)
    values = rows.values if name == "StreamClassifier" else rows.scaled()
    learns = rows.is_first | (name != ONCE)
    hits = np.zeros(len(rows.labels), dtype=bool)
    labels = rows.labels.tolist()
    for number in progress.track(range(len(labels)), description=f"{name:<18}"):
        x = {"sensors": values[number]}
        hits[number] = model.predict_one(x) == labels[number]
        if learns[number]:
            model.learn_one(x, labels[number])
    return hits


def months(batch: int) -> str:
    """Return the months of a batch, or its name."""
    return MONTHS.get(int(batch), f"batch {batch}")


def gas_summary(results: dict[str, Array], rows: GasRows) -> Table:
    table = table_of("months", "rows", *results)
    parts = {months(batch): rows.batches == batch for batch in np.unique(rows.batches)}
    if not rows.is_first.all():
        parts[f"after {months(rows.batches[0])}"] = ~rows.is_first
    for name, part in parts.items():
        cells = (f"{hits[part].mean():.1%}" for hits in results.values())
        table.add_row(name, f"{part.sum():,}", *cells)
    return table


def draw_gas(path: Path, rows: GasRows, results: dict[str, Array]) -> None:
    """Draw the moving accuracy of all models, and below it an enlarged view near 100%."""
    window = min(RECENT_ROWS, max(1, len(rows.labels) // 10))
    with figure(path, 11, 7.6, "Gas sensors that age: models that continue to learn") as made:
        above, below = made.subplots(2, 1, sharex=True, height_ratios=(1.5, 1))
        above.set_ylim(0, 1.01)
        below.set_ylim(LOWEST_ZOOMED, 1.002)
        title = f"accuracy over the last {window} rows (above the plot: months)"
        above.set_title(title, loc="left", pad=32, size=11)
        below.set_title("the same, enlarged", loc="left", size=11)
        mark_batches(above, rows, named=True)
        mark_batches(below, rows, named=False)
        draw_accuracies(above, results, window, gap=0.06)
        draw_accuracies(below, results, window, gap=0.09)
        above.set_xlabel("")
        end = int(rows.is_first.sum())
        above.axvline(end, color=VERMILLION, linewidth=1.2, linestyle=DASHED)
        note(above, end, f"from here on, the model {ONCE} no longer learns", VERMILLION)


def draw_accuracies(axes: Axes, results: dict[str, Array], window: int, gap: float) -> None:
    """Draw a line for each model; its label shows the accuracy over all rows."""
    ends = []
    for name, hits in results.items():
        recent = moving_accuracy(hits, window)
        axes.plot(np.arange(1, len(hits) + 1), recent, color=GAS_COLOURS[name], linewidth=1.9)
        if recent[-1] >= axes.get_ylim()[0]:
            text = f"{name}: {hits.mean():.1%} in all"
            ends.append((float(recent[-1]), text, GAS_COLOURS[name]))
    axes.set_xlim(0, len(hits))
    label_ends(axes, ends, gap)
    mark_shares(axes, "rows, in the order of time")


def mark_batches(axes: Axes, rows: GasRows, *, named: bool) -> None:
    numbers, starts, counts = np.unique(rows.batches, return_index=True, return_counts=True)
    for place, (number, start, count) in enumerate(zip(numbers, starts, counts, strict=True)):
        if place % 2 == 0:
            axes.axvspan(start, start + count, color=PALE, linewidth=0)
        if named:
            # Every other short batch has its name one line higher.
            short = count < 0.04 * len(rows.labels)
            axes.text(
                start + count / 2,
                1.075 if short and place % 2 else 1.015,
                months(number),
                ha="center",
                size=9,
                color=GREY,
                transform=axes.get_xaxis_transform(),
            )


if __name__ == "__main__":
    main()
