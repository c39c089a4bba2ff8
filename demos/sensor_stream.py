"""Learn from sensors as they deliver, and go on while they age.

Without --data, a smart watch: 80 recordings of ten seconds (three axes of an accelerometer and of a
gyroscope, ten readings a second; BasicMotions, which comes with the package sktime) pass once, in a
shuffled order. Readings are fed one at a time. At each the activity is told from the last 1.6
seconds; a recording is learnt once it is over, and only statistics stay. The first four are learnt
without being asked about: MiniRocket has its biases from their readings, not from their labels.

With --data, 16 gas sensors over three years, in which they age (UCI's Gas Sensor Array Drift: a
folder with batch1.dat, …, or an .npz file with x, y and batch). Every row is predicted, then learnt
with its label: by a model that learns the first batch and never again, the same that goes on
without and with forgetting, and StreamClassifier. All but the last see logarithms, in the scale of
the first batch, through the same fixed hidden units. The files list one gas after the other, so
whoever repeats the last label is nearly always right; here, rows are shuffled within batches.

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
    WindowFeatures,
    windows_of,
)

Array = NDArray[Any]

QUICK_RECORDINGS = 20
QUICK_STEP = 8
"""Of the gas sensors' rows, every so many are taken."""


def main(argv: list[str] | None = None) -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    data = (
        "gas sensors: a folder with batch1.dat, … or gas*.npz, or an .npz file with x (n, 128), y "
        "and batch (default: the watch)"
    )
    add("--data", type=Path, help=data)
    add("--out", type=Path, default=Path(), help="folder for the picture (this one)")
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
"""Readings of the watch in a second."""
WINDOW, HOP = 16, 4
"""Readings of a window, and from one that is learnt to the next."""
WARM_UP = 4
"""Recordings from whose readings, without labels, MiniRocket's biases come."""
N_FEATURES = 504
WATCH_RIDGE = 1.0
RECENT_RECORDINGS = 12
WATCH_COLOURS = {"MiniRocket": BLUE, "filter responses": GREEN, "single readings": GREY}
NO_WATCH = (
    "the recordings of the watch come with the package sktime, which is not installed. "
    "Get it with pip install 'sktime>=0.38', or pass --data"
)


@dataclass(frozen=True)
class Recordings:
    """Stretches of readings (n, n_readings, n_channels), each of one activity."""

    readings: Array
    labels: Array

    def rows(self, number: int) -> list[dict[str, float]]:
        """Return the readings of a recording, one after the other."""
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
        f"{len(recordings.labels)} recordings, answers at every reading from the {WINDOW}th on. "
        f"The first {WARM_UP} are only learnt."
    )
    console.print(watch_summary(results))
    draw_watch(path, recordings, results)
    console.print(f"Picture: {path}")


def make_models(recordings: Recordings) -> dict[str, WindowedClassifier]:
    """Return three ways to look at the readings, each before the same linear layer."""
    first = [
        [(x, recordings.labels[number]) for x in recordings.rows(number)]
        for number in range(WARM_UP)
    ]
    windows = np.concatenate([windows_of(each, WINDOW, HOP)[0] for each in first])
    looks: dict[str, Any] = {
        "MiniRocket": MiniRocketFeatures.from_examples(windows, n_features=N_FEATURES),
        # All positions at which a filter fits in the window are averaged to one.
        "filter responses": WindowFeatures(pool_size=8, stride=8, drop_ring=7),
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
    """Answer at every reading of a recording, and learn it once it is over and its label known."""
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
    """Return the bytes of a file that holds the model."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.npz")
        model.save(file)
        return file.stat().st_size


def answers(model: WindowedClassifier, rows: list[dict[str, float]]) -> list[Any]:
    """Return the answers at readings that come one at a time, from the first full window on.

    All models answer at the same readings, also the one that needs no window.
    """
    found = []
    for row in rows:
        found.append(model.predict_one(row))
        model.observe_one(row)
    model.restart()
    return found[WINDOW - 1 :]


def watch_summary(results: dict[str, Followed]) -> Table:
    table = table_of("seen", "answers right", "last half", "recordings", "MiB early, late")
    for name, followed in results.items():
        hits = followed.hits
        shares = hits.mean(), hits[len(hits) // 2 :].mean(), np.mean(hits.mean(axis=1) > 0.5)
        sizes = f"{followed.early:.1f}, {followed.late:.1f}"
        table.add_row(name, *(f"{share:.1%}" for share in shares), sizes)
    return table


def draw_watch(path: Path, recordings: Recordings, results: dict[str, Followed]) -> None:
    """Draw a recording of each activity, and below how many answers were right."""
    with figure(path, 10.5, 7.2, "Which activity, from a watch's readings one at a time") as made:
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
    title = f"answers right, in the last {RECENT_RECORDINGS} recordings; each is learnt afterwards"
    axes.set_title(title, loc="left", size=11)
    ends = []
    for name, followed in results.items():
        n_answers = followed.hits.shape[1]
        recent = moving_accuracy(followed.hits.ravel(), RECENT_RECORDINGS * n_answers)
        learnt = WARM_UP + np.arange(1, recent.size + 1) / n_answers
        # The share of a few answers says nothing yet.
        shown = slice(n_answers - 1, None)
        axes.plot(learnt[shown], recent[shown], color=WATCH_COLOURS[name], linewidth=2.2)
        seen = "" if name == "single readings" else f", {WINDOW / SAMPLE_RATE:g} s"
        text = f"{name}{seen}: {followed.hits.mean():.1%} of all"
        ends.append((float(recent[-1]), text, WATCH_COLOURS[name]))
    axes.set_xlim(0, len(recordings.labels))
    # Room for notes at the foot.
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


def moving_accuracy(hits: Array, window: int) -> NDArray[np.float64]:
    """Return the share of hits among the last `window` ones, fewer at the start, for every row."""
    sums = np.concatenate([[0], np.cumsum(hits)])
    ends = np.arange(1, len(hits) + 1)
    starts = np.maximum(ends - window, 0)
    shares: NDArray[np.float64] = (sums[ends] - sums[starts]) / (ends - starts)
    return shares


# == the gas sensors ==============================================================================

N_VALUES = 128
"""Of a row: eight of each of the 16 sensors."""
ARRAYS = ("x", "y", "batch")
N_HIDDEN = 200
GAS_RIDGE = 100.0
"""In favour of the model that is trained once: with 1 and with "auto" it does worse."""
FORGETTING = 0.998
"""A row weighs half as much 346 rows later."""
ONCE = "trained once"
GAS_COLOURS = {ONCE: VERMILLION, "online": GREY, "forgetting": BLUE, "StreamClassifier": GREEN}
RECENT_ROWS = 300
LOWEST_ZOOMED = 0.8
MONTHS = dict(
    enumerate(("1-2", "3-10", "11-13", "14-15", "16", "17-20", "21", "22-23", "24, 30", "36"), 1)
)
"""In which months each batch was measured, by the description of the data."""


@dataclass(frozen=True)
class GasRows:
    """Rows (n, 128) of the gas sensors, what the gas was, and the batch, which never decreases."""

    values: Array
    labels: Array
    batches: Array

    def __getitem__(self, rows: Any) -> GasRows:
        return GasRows(self.values[rows], self.labels[rows], self.batches[rows])

    @property
    def is_first(self) -> Array:
        """Which rows are of the first batch."""
        first: Array = self.batches == self.batches[0]
        return first

    @property
    def repeated(self) -> float:
        """Share of rows of the label before them."""
        return float(np.mean(self.labels[1:] == self.labels[:-1]))

    def shuffled(self, seed: int) -> GasRows:
        """Return the batches in their order, and the rows of each in any order."""
        ties = np.random.default_rng(seed).random(len(self.labels))
        return self[np.lexsort([ties, self.batches])]

    def scaled(self) -> Array:
        """Return logarithms of the values, by the mean and deviation of the first batch.

        Values range from -24,000 to 670,000: arcsinh is a logarithm with a sign. Nothing later
        than the first batch goes into the scale, so all models may have it.
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
        such a file whose name starts with "gas", or with UCI's files, of which some may be missing.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or arrays do not fit together.
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
    """Read a file of UCI: lines of gas[;concentration], counted from 1, and number:value."""
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
        f"Repeating the last label is right in {rows.repeated:.0%} in the order of the files, "
        f"and in {stream.repeated:.0%} here, shuffled within batches."
    )
    console.print(gas_summary(results, stream))
    path = arguments.out / "sensor_stream_gas.png"
    draw_gas(path, stream, results)
    console.print(f"Picture: {path}")


def make_model(name: str, seed: int) -> Any:
    """Return a model by its name: but for the last, the same fixed features and a linear layer."""
    if name == "StreamClassifier":
        return StreamClassifier(seed)
    factor = FORGETTING if name == "forgetting" else 1.0
    hidden = HiddenLayer(N_HIDDEN, seed=seed, bias=False)
    return hidden | LeastSquaresClassifier(ridge=GAS_RIDGE, forgetting_factor=factor)


def test_then_train(name: str, seed: int, rows: GasRows, progress: Progress) -> Array:
    """Return whether each row was predicted right before it was learnt, if it was learnt."""
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
    """Return in which months a batch was measured, or what it is called."""
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
    """Draw the moving accuracy of all models, and below once more what lies close to 100%."""
    window = min(RECENT_ROWS, max(1, len(rows.labels) // 10))
    with figure(path, 11, 7.6, "Sensors age: what was learnt once goes wrong") as made:
        above, below = made.subplots(2, 1, sharex=True, height_ratios=(1.5, 1))
        above.set_ylim(0, 1.01)
        below.set_ylim(LOWEST_ZOOMED, 1.002)
        title = f"gases told right, in the last {window} rows  (above the line: months)"
        above.set_title(title, loc="left", pad=32, size=11)
        below.set_title("the same, enlarged", loc="left", size=11)
        mark_batches(above, rows, named=True)
        mark_batches(below, rows, named=False)
        draw_accuracies(above, results, window, gap=0.06)
        draw_accuracies(below, results, window, gap=0.09)
        above.set_xlabel("")
        end = int(rows.is_first.sum())
        above.axvline(end, color=VERMILLION, linewidth=1.2, linestyle=DASHED)
        note(above, end, f"from here on, what is {ONCE} learns no more", VERMILLION)


def draw_accuracies(axes: Axes, results: dict[str, Array], window: int, gap: float) -> None:
    """Draw a line each; labels tell the accuracy over all rows shown."""
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
            # Short batches have their names one line higher, in turns.
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
