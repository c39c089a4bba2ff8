"""Fit a ridge regression to files that do not fit into memory, and unlearn a broken file.

Twenty parquet files contain a million taxi trips. The demo reads them in chunks. A
ColumnTransformer, fitted to the first chunk, computes about 430 features of each trip: splines,
polynomials, one-hot. Two models learn every chunk with partial_fit, and no chunk is stored:
IncrementalRidge and scikit-learn's SGDRegressor. The last file is the test. The third file has
distances in miles, which is discovered three files later. IncrementalRidge then unlearns the file,
and equals a model that has never seen it.

Install the extra demos first: pip install '.[demos]'

python demos/out_of_core.py                     # about 40 seconds
python demos/out_of_core.py --rows 3000000
python demos/out_of_core.py --data trips        # keeps the files for the next run
"""

from __future__ import annotations

import copy
import pickle
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, StrMethodFormatter
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from show import (
    BLUE,
    DASHED,
    GREY,
    INK,
    SHADE,
    VERMILLION,
    figure,
    label_ends,
    make_parser,
    positive,
    progress_bar,
    table_of,
)
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from onlinels.sklearn import IncrementalRidge

Array = NDArray[Any]

ROWS, CHUNK = 1_000_000, 5000
QUICK_ROWS, QUICK_CHUNK = 40_000, 500
N_FILES = 20
"""The last file is the test."""
BROKEN, FOUND = 2, 5
"""The file in miles, and the last file that is read before this is discovered."""
MOST_TESTS = 20_000
KILOMETRES = 1.609344
NOISE = 2.0
"""Standard deviation of the noise in the target, in minutes."""
TARGET = "minutes"
NUMBERS = ["distance_km", "rain_mm", "temperature_k"]


class Chunk(NamedTuple):
    """Features and targets of some rows."""

    x: Array
    y: Array


@dataclass
class Course:
    """One model, its test errors after numbers of rows, and its learning time in seconds."""

    model: Any
    rows: list[int] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def learn(self, chunk: Chunk) -> None:
        """Learn a chunk and measure the time."""
        started = time.perf_counter()
        self.model.partial_fit(chunk.x, chunk.y)
        self.seconds += time.perf_counter() - started

    def test(self, n_rows: int, tests: Chunk) -> None:
        """Record the error on test rows."""
        self.rows.append(n_rows)
        wrong = self.model.predict(tests.x) - tests.y
        self.errors.append(float(np.sqrt(np.mean(wrong**2))))


@dataclass
class Story:
    """Both courses, and the history of the broken file."""

    ridge: Course
    sgd: Course
    never: IncrementalRidge
    """Learns the same files except the broken file."""
    n_rows: int = 0
    broken: tuple[int, int] = (0, 0)
    found: int = 0
    unlearnt: float = 0.0


def main(argv: list[str] | None = None) -> None:
    parser = make_parser(__doc__, "out_of_core.png")
    add = parser.add_argument
    add("--rows", type=positive, help=f"number of trips in all files ({ROWS:,})")
    add("--data", type=Path, help="folder of the files, created if missing (a temporary folder)")
    add("--quick", action="store_true", help=f"only {QUICK_ROWS:,} trips")
    arguments = parser.parse_args(argv)
    n_rows = arguments.rows or (QUICK_ROWS if arguments.quick else ROWS)
    chunk = QUICK_CHUNK if arguments.quick else CHUNK
    if n_rows < N_FILES * chunk:
        parser.error(f"--rows {n_rows}: expected at least {N_FILES * chunk}, a chunk in every file")
    console = Console()
    with tempfile.TemporaryDirectory() as temporary:
        try:
            files = trips_in(arguments.data or Path(temporary), n_rows, console)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        transform = features().fit(next(frames_of(files[0], chunk))[0])
        story = learn(files, chunk, transform, console)
    draw(arguments.output, story)
    table = summary(story)
    table.add_row("Picture", str(arguments.output))
    console.print(table)


# -- the data -------------------------------------------------------------------------------------


def trips_in(folder: Path, n_rows: int, console: Console) -> list[Path]:
    """Return the files of a folder; create them if the folder has none."""
    files = sorted(folder.glob("trips-*.parquet"))
    if not files:
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"trips-{number:02}.parquet" for number in range(1, N_FILES + 1)]
        with progress_bar(console) as bar:
            for number, file in enumerate(bar.track(files, description="Create files")):
                pq.write_table(trips(number, n_rows // N_FILES), file)
    lengths = [pq.read_metadata(file).num_rows for file in files]
    if lengths != [n_rows // N_FILES] * N_FILES:
        raise ValueError(
            f"{folder} holds {sum(lengths):,} rows in {len(files)} files, expected {n_rows:,} in "
            f"{N_FILES}. Pass --rows with that number, or another folder."
        )
    return files


def trips(number: int, n_rows: int) -> pa.Table:
    """Return the trips of one file. Rush hours and rain slow down long trips."""
    town, random = np.random.default_rng(0), np.random.default_rng([1, number])
    # Minutes lost at 60 places, some of them rare, and minutes that 12 companies add.
    lost, seldom = town.gamma(2.0, 1.5, size=(2, 60)), 1.0 / np.arange(1, 61)
    from_place, to_place = random.choice(60, size=(2, n_rows), p=seldom / seldom.sum())
    slower, company = town.normal(0.0, 1.0, 12), random.integers(0, 12, n_rows)
    distance = random.gamma(2.0, 3.0, n_rows) + 0.5
    hour = random.triangular(0.0, 15.0, 24.0, n_rows)
    day = random.choice(["workday", "weekend"], n_rows, p=[0.7, 0.3])
    rain = random.exponential(2.0, n_rows) * (random.random(n_rows) < 0.25)
    climb, temperature = random.normal(0.0, 40.0, n_rows), random.normal(285.0, 8.0, n_rows)
    rush = np.exp(-((hour - 8.5) ** 2) / 3.0) + np.exp(-((hour - 17.5) ** 2) / 5.0)
    slow = 1.0 + np.where(day == "workday", 1.0, 0.2) * rush + 0.06 * rain
    ice = np.clip(278.0 - temperature, 0.0, None)
    minutes = 1.6 * distance * slow + lost[0, from_place] + lost[1, to_place] + slower[company]
    minutes += 0.02 * climb + 0.03 * ice * distance + random.normal(0.0, NOISE, n_rows)
    columns = {
        "distance_km": distance / KILOMETRES if number == BROKEN else distance,
        "rain_mm": rain,
        "climb_m": climb,
        "temperature_k": temperature,
        "hour": hour,
        "day": day,
        "from": np.char.mod("place %d", from_place),
        "to": np.char.mod("place %d", to_place),
        "company": np.char.mod("company %d", company),
        TARGET: minutes,
    }
    return pa.table(columns)


def frames_of(file: Path, n_rows: int) -> Iterator[tuple[Any, Array]]:
    """Yield frames of a file and their targets; one frame at a time is in memory."""
    with pq.ParquetFile(file) as reader:
        for batch in reader.iter_batches(batch_size=n_rows):
            frame = batch.to_pandas()
            yield frame, frame.pop(TARGET).to_numpy()


# -- the models -----------------------------------------------------------------------------------


def features() -> ColumnTransformer:
    """Return the transformer of frames; its scales and categories come from one chunk."""
    hours = np.linspace(0.0, 24.0, 9)[:, None]
    parts = ColumnTransformer(
        [
            ("numbers", StandardScaler(), NUMBERS),
            ("hour", SplineTransformer(knots=hours, extrapolation="periodic"), ["hour"]),
            ("day", OneHotEncoder(drop="if_binary", sparse_output=False), ["day"]),
        ]
    )
    products = PolynomialFeatures(3, interaction_only=True, include_bias=False)
    seldom = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5)
    return ColumnTransformer(
        [
            ("products", make_pipeline(parts, products), [*NUMBERS, "hour", "day"]),
            ("climb", StandardScaler(), ["climb_m"]),
            ("names", seldom, ["from", "to", "company"]),
        ],
        sparse_threshold=0.0,
    )


def chunks_of(file: Path, n_rows: int, transform: ColumnTransformer) -> Iterator[Chunk]:
    for frame, y in frames_of(file, n_rows):
        yield Chunk(np.asarray(transform.transform(frame)), y)


def learn(files: list[Path], n_rows: int, transform: ColumnTransformer, console: Console) -> Story:
    """Learn all files but the last with both models, and test on the last after each chunk."""
    *training, last = files
    tests = next(chunks_of(last, MOST_TESTS, transform))
    ridge, sgd = Course(IncrementalRidge()), Course(SGDRegressor(random_state=0))
    story = Story(ridge, sgd, IncrementalRidge())
    n_chunks = sum(-(-pq.read_metadata(file).num_rows // n_rows) for file in training)
    with progress_bar(console, "{task.fields[errors]}") as bar:
        task = bar.add_task("Learn chunks", total=n_chunks, errors="")
        for number, file in enumerate(training):
            if number == BROKEN:
                story.never = copy.deepcopy(ridge.model)
            before = story.n_rows
            for chunk in chunks_of(file, n_rows, transform):
                story.n_rows += len(chunk.y)
                for course in (ridge, sgd):
                    course.learn(chunk)
                    course.test(story.n_rows, tests)
                if number > BROKEN:
                    story.never.partial_fit(chunk.x, chunk.y)
                errors = f"errors: {ridge.errors[-1]:.2f} and {sgd.errors[-1]:.2f} minutes"
                bar.update(task, advance=1, errors=errors)
            if number == BROKEN:
                story.broken = before, story.n_rows
            elif number == FOUND:
                unlearn(story, chunks_of(training[BROKEN], n_rows, transform))
                ridge.test(story.found, tests)
    return story


def unlearn(story: Story, chunks: Iterator[Chunk]) -> None:
    """Read a file again and unlearn its rows."""
    story.found = story.n_rows
    for chunk in chunks:
        started = time.perf_counter()
        story.ridge.model.unlearn(chunk.x, chunk.y)
        story.unlearnt += time.perf_counter() - started


def difference(model: Any, other: Any) -> float:
    """Return the largest difference of weights, divided by the largest weight."""
    return float(np.abs(model.coef_ - other.coef_).max() / np.abs(other.coef_).max())


def summary(story: Story) -> Table:
    ridge, sgd = story.ridge, story.sgd
    n_features = ridge.model.n_features_in_
    held = [len(pickle.dumps(course.model)) / 1e3 for course in (ridge, sgd)]
    table = table_of("", "IncrementalRidge", "SGDRegressor")
    table.add_row("Rows learnt", f"{ridge.model.n_samples_seen_:,}", f"{story.n_rows:,}")
    table.add_row("Features", str(n_features), str(n_features))
    table.add_row("Learning time", f"{ridge.seconds:.1f} s", f"{sgd.seconds:.1f} s")
    table.add_row("Unlearning time", f"{story.unlearnt:.1f} s", "cannot")
    table.add_row("Size of the model", f"{held[0]:,.0f} kB", f"{held[1]:,.0f} kB")
    whole = f"{8e-3 * story.n_rows * n_features:,.0f} kB"
    table.add_row("  size of all rows", whole, whole)
    errors = [f"{course.errors[-1]:.3f}" for course in (ridge, sgd)]
    table.add_row("Error on test trips, minutes", *errors)
    table.add_row("  noise alone", f"{NOISE:.3f}", f"{NOISE:.3f}")
    table.add_row("Selected alpha", f"{ridge.model.alpha_:.3g}", "")
    unseen = f"{difference(ridge.model, story.never):.1e}"
    table.add_row("Difference to a model without the broken file", unseen, "")
    return table


# -- the picture ----------------------------------------------------------------------------------


def draw(path: Path, story: Story) -> None:
    """Draw the errors on test trips against the number of rows."""
    heading = f"{story.n_rows:,} trips, one file in miles"
    with figure(path, 6.5, 4.8, heading) as made:
        axes, ridge, sgd = made.subplots(), story.ridge, story.sgd
        axes.set_xscale("log")
        # The errors of SGD in the first rows and after the broken file are far above.
        top = NOISE + 1.35 * (max(ridge.errors) - NOISE) + 0.5
        axes.set(xlim=(ridge.rows[0], story.n_rows), ylim=(NOISE - 0.05, top))
        axes.axvspan(*story.broken, color=SHADE, zorder=0)
        axes.axhline(NOISE, color=GREY, linestyle=DASHED, linewidth=1.0)
        axes.axvline(story.found, color=BLUE, linestyle=DASHED, linewidth=1.0)
        axes.plot(sgd.rows, sgd.errors, color=VERMILLION, linewidth=1.5)
        axes.plot(ridge.rows, ridge.errors, color=BLUE, linewidth=2.5)
        axes.set(xlabel="rows learnt", ylabel="root mean square error on test trips, minutes")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(axis="y")
        label(axes, story)


def label(axes: Axes, story: Story) -> None:
    """Label the lines and the events."""
    ends = [
        (story.ridge.errors[-1], f"IncrementalRidge {story.ridge.errors[-1]:.2f}", BLUE),
        (story.sgd.errors[-1], f"SGDRegressor {story.sgd.errors[-1]:.2f}", VERMILLION),
        (NOISE, f"noise {NOISE:.2f}", GREY),
    ]
    label_ends(axes, ends, 0.05)
    start = story.broken[0]
    worst = max(e for n, e in zip(story.sgd.rows, story.sgd.errors, strict=True) if start < n)
    texts = [
        (start, 0.98, "right", "this file is in miles ", INK),
        (start, 0.92, "right", f"SGD: up to {worst:.1f} ", VERMILLION),
        (story.found, 0.98, "left", " error found,\n file unlearnt", BLUE),
    ]
    for x, y, side, text, colour in texts:
        style: dict[str, Any] = {"color": colour, "ha": side, "va": "top"}
        style["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.text(x, y, text, transform=axes.get_xaxis_transform(), zorder=1.5, **style)


if __name__ == "__main__":
    main()
