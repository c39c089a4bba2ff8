"""Learn parts of the data in Dask workers, and merge them into the model of one process.

The data are scikit-learn's 8x8 digits and distorted copies of them, in 32 parts, or with --data
other images in parts of 1,500. First, one process learns all parts, one after the other. Then the
Dask workers learn them, each with one thread. The demo compares the two models and draws which
worker did what and when. With --kill, one worker is killed halfway; only the time changes.

Install the extras demos and dask first: pip install '.[demos,dask]'

python demos/many_workers.py                             # a process for every core, half a minute
python demos/many_workers.py --workers 3 --kill
python demos/many_workers.py --data mnist.npz            # MNIST, about two minutes
python demos/many_workers.py --data mnist.npz --copies 5 # and four distorted copies of it
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dask.delayed import delayed
from distributed import Client, get_task_stream, get_worker
from image_data import ImageData, read_image_data
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.ndimage import affine_transform
from show import (
    BLUE,
    GREEN,
    GREY,
    INK,
    VERMILLION,
    figure,
    make_parser,
    mark_shares,
    positive,
    progress_bar,
    table_of,
)

from onlinels import ShallowConvClassifier
from onlinels.distributed import fit

Array = NDArray[Any]

MAX_ANGLE, MAX_SCALE, MAX_SLANT, MAX_SHIFT = np.deg2rad(20.0), 0.2, 0.2, 1.0
"""Largest distortions of an image: radians, relative change of size, columns per row, pixels."""
DIGITS_TEST_COPIES = 4
"""Distorted copies of every test image (with --data, one). All test images are distorted."""
DIGITS_TEST_ROWS, DIGITS_COPIES, DIGITS_HIDDEN = 500, 32, 1600
MNIST_HIDDEN = 2000
ROWS = 1500
QUICK_ROWS, QUICK_COPIES, QUICK_HIDDEN = 100, 6, 100
MOST_WORKERS = 8
"""Default limit. A model learns four of the 32 parts in turn, so 8 workers can learn at once."""
KINDS = {
    "batch": ("read, distort", GREEN),
    "learnt": ("features, learn", BLUE),
    "add": ("merge", VERMILLION),
    "transfer": ("wait for data from other workers", GREY),
}
"""Names of tasks in Dask's graph, and their names in the picture."""


class Part(NamedTuple):
    """A partition: some rows of a copy of the images. Copy 0 is not distorted."""

    copy: int
    start: int
    stop: int


@dataclass(frozen=True)
class Files:
    """The folder with the images, and with a file that names a killed worker."""

    folder: Path

    def write(self, data: ImageData) -> None:
        """Write the training and test images."""
        for name, values in asdict(data).items():
            np.save(self.folder / f"{name}.npy", values)

    def tests(self) -> tuple[Array, Array]:
        """Return the test images and their labels."""
        return np.load(self.folder / "x_test.npy"), np.load(self.folder / "y_test.npy")

    def read(self, part: Part) -> tuple[Array, Array]:
        """Return a partition, which is the same for every reader."""
        rows = slice(part.start, part.stop)
        images, labels = (
            np.array(np.load(self.folder / name, mmap_mode="r")[rows])
            for name in ("x_train.npy", "y_train.npy")
        )
        return distorted(images, (part.copy, part.start)) if part.copy else images, labels

    @property
    def killed(self) -> Path:
        """The file that names the killed worker; it exists only after a kill."""
        return self.folder / "killed"

    def kill_once(self) -> None:
        """Kill the calling process, unless a worker has been killed before."""
        with suppress(FileExistsError), self.killed.open("x") as file:
            file.write(get_worker().address)
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Course:
    """The model of one process, its learning time in seconds, and its test errors over time."""

    model: ShallowConvClassifier
    seconds: float
    rows: list[int]
    errors: list[float]


class Task(NamedTuple):
    """One task of a worker, with times in seconds since the beginning."""

    worker: str
    kind: str
    start: float
    stop: float


@dataclass(frozen=True)
class Run:
    """The model of the workers, their tasks, and the data that moved between them."""

    model: ShallowConvClassifier
    seconds: float
    tasks: list[Task]
    n_again: int
    n_bytes: int
    killed: tuple[str, float] | None


@dataclass(frozen=True)
class Comparison:
    """The test error of the merged model, and its difference to the model of one process."""

    n_tests: int
    error: float
    other_labels: int
    difference: float


def main(argv: list[str] | None = None) -> None:
    parser = parser_of_options()
    arguments = parser.parse_args(argv)
    try:
        data = read_data(arguments)
        network = make_network(arguments, data)
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    parts = parts_of(arguments, len(data.y_train))
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        files.write(data)
        with console.status("Starting workers"):
            client = start_workers(arguments.workers)
        with client:
            # Every worker runs everything once before the clock starts, so imports are not timed.
            client.run(network.transform_many, data.x_test[:1])
            course = one_process(client, console, network, files, parts)
            console.print(f"{arguments.workers} workers learn {len(parts)} parts")
            halfway = course.seconds / arguments.workers / 2 if arguments.kill else inf
            run = all_workers(client, network, files, parts, halfway)
    compared = compare(course, run, data.x_test, data.y_test)
    draw(arguments.output, course, run, compared)
    table = summary(course, run, compared, arguments.workers)
    table.add_row("Picture", str(arguments.output))
    console.print(table)


def parser_of_options() -> argparse.ArgumentParser:
    parser = make_parser(__doc__, "many_workers.png")
    add = parser.add_argument
    data = (
        "MNIST or Fashion-MNIST: a folder of IDX files, or an .npz file with x_train, y_train, "
        "x_test and y_test (default: scikit-learn's digits)"
    )
    cores = min(MOST_WORKERS, os.cpu_count() or 1)
    add("--data", type=Path, help=data)
    add("--workers", type=positive, default=cores, help="processes (%(default)s)")
    copies = f"copies of every image, all but one distorted ({DIGITS_COPIES}; with --data 1)"
    add("--copies", type=positive, help=copies)
    add("--kill", action="store_true", help="kill one worker halfway")
    quick = f"only {QUICK_COPIES * 4 * QUICK_ROWS:,} images, {QUICK_HIDDEN} hidden units"
    add("--quick", action="store_true", help=quick)
    return parser


# -- the data and the model -----------------------------------------------------------------------


def read_data(arguments: argparse.Namespace) -> ImageData:
    """Read the images to learn and to test on; of the digits the last 500 are of other writers."""
    copies = 1
    if arguments.data:
        data = read_image_data(arguments.data)
    else:
        from sklearn.datasets import load_digits  # Here, since workers import this file, too.

        digits, copies = load_digits(), DIGITS_TEST_COPIES
        x_train, x_test = np.split(digits.images, [-DIGITS_TEST_ROWS])
        y_train, y_test = np.split(digits.target, [-DIGITS_TEST_ROWS])
        data = ImageData(x_train, y_train, x_test, y_test)
    rows, test_rows = slice(None), slice(None)
    if arguments.quick:
        rows, test_rows = slice(4 * QUICK_ROWS), slice(QUICK_ROWS)
    tests = distorted(np.repeat(data.x_test[test_rows], copies, axis=0), 0)
    labels = np.repeat(data.y_test[test_rows], copies)
    return ImageData(data.x_train[rows], data.y_train[rows], tests, labels)


def distorted(images: Array, seed: Any) -> Array:
    """Rotate, scale, slant and shift every image at random about its centre."""
    random = np.random.default_rng(seed)
    centre = (np.array(images.shape[1:]) - 1) / 2
    copies = np.empty(images.shape, dtype=np.float32)
    for image, copy in zip(images.astype(np.float32), copies, strict=True):
        angle = random.uniform(-MAX_ANGLE, MAX_ANGLE)
        height, width = 1 + random.uniform(-MAX_SCALE, MAX_SCALE, 2)
        slant = random.uniform(-MAX_SLANT, MAX_SLANT)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        matrix = np.array([[height, 0.0], [slant, width]]) @ turn
        offset = centre - matrix @ centre + random.uniform(-MAX_SHIFT, MAX_SHIFT, 2)
        affine_transform(image, matrix, offset, output=copy, order=1)
    return copies


def parts_of(arguments: argparse.Namespace, n_rows: int) -> list[Part]:
    """Return the partitions of all copies of the images."""
    copies = arguments.copies or (1 if arguments.data else DIGITS_COPIES)
    size = ROWS
    if arguments.quick:
        copies, size = arguments.copies or QUICK_COPIES, QUICK_ROWS
    starts = range(0, n_rows, size)
    return [Part(copy, at, min(at + size, n_rows)) for copy in range(copies) for at in starts]


def make_network(arguments: argparse.Namespace, data: ImageData) -> ShallowConvClassifier:
    """Return an empty network with features that are fixed by the first images."""
    preset, n_hidden = ("mnist", MNIST_HIDDEN) if arguments.data else ("digits", DIGITS_HIDDEN)
    if arguments.quick:
        n_hidden = QUICK_HIDDEN
    network = ShallowConvClassifier.from_preset(preset, n_hidden=n_hidden)
    first = slice(min(network.warm_up, len(data.y_train)))
    network.learn_many(data.x_train[first], data.y_train[first])
    network.fix_features()
    return network.empty()


# -- one process, and many ------------------------------------------------------------------------


def start_workers(n_workers: int) -> Client:
    """Return the client of a local cluster. Closing the client closes the cluster."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return Client(
        n_workers=n_workers,
        threads_per_worker=1,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    )


def one_process(
    client: Client,
    console: Console,
    network: ShallowConvClassifier,
    files: Files,
    parts: list[Part],
) -> Course:
    """Learn everything in one worker, with a progress bar."""
    with progress_bar(console) as bar:
        task = bar.add_task("One process learns", total=len(parts))
        client.subscribe_topic("parts", lambda event: bar.update(task, completed=event[1]))
        course = client.submit(learn_in_turn, client.scatter(network), files, parts, pure=False)
        result: Course = course.result()
        bar.update(task, completed=len(parts))
    client.unsubscribe_topic("parts")
    return result


def learn_in_turn(network: ShallowConvClassifier, files: Files, parts: list[Part]) -> Course:
    """Learn all partitions in this process; test after 1, 2, 4, … of them, outside the clock."""
    model, seconds = network.empty(), 0.0
    rows, errors = [], []
    tests, labels = files.tests()
    for done, part in enumerate(parts, 1):
        started = time.perf_counter()
        model.learn_many(*files.read(part))
        seconds += time.perf_counter() - started
        if done == len(parts) or done & (done - 1) == 0:
            rows.append(model.count)
            errors.append(float(np.mean(model.predict_many(tests) != labels)))
        get_worker().log_event("parts", done)
    return Course(model, seconds, rows, errors)


def all_workers(
    client: Client, network: ShallowConvClassifier, files: Files, parts: list[Part], kill_at: float
) -> Run:
    """Learn in all workers and record their tasks; kill one worker after some seconds."""

    def batch(part: Part) -> tuple[Array, Array]:
        if time.time() > began + kill_at:
            files.kill_once()
        return files.read(part)

    before, began = received(client), time.time()
    with get_task_stream(client) as stream:
        model = fit(network, [delayed(batch, pure=False)(part) for part in parts], progress=True)
        seconds = time.time() - began
    killed = None
    if files.killed.exists():
        killed = files.killed.read_text(), files.killed.stat().st_mtime - began
    return Run(
        model,
        seconds,
        tasks=list(tasks_of(stream.data, began)),
        n_again=len(stream.data) - len({each["key"] for each in stream.data}),
        n_bytes=received(client) - before,
        killed=killed,
    )


def received(client: Client) -> int:
    """Return how many bytes the living workers have received from each other."""
    return sum(client.run(received_here).values())


def received_here(dask_worker: Any) -> int:
    return sum(each["total"] for each in dask_worker.transfer_incoming_log)


def tasks_of(stream: list[Any], began: float) -> Iterator[Task]:
    """Yield the tasks of the workers from Dask's task stream."""
    for each in stream:
        name = each["key"].partition("-")[0]
        for span in each["startstops"]:
            kind = "transfer" if span["action"] == "transfer" else name
            if kind in KINDS and span["action"] in ("compute", "transfer"):
                yield Task(each["worker"], kind, span["start"] - began, span["stop"] - began)


def compare(course: Course, run: Run, test: Array, labels: Array) -> Comparison:
    predicted, expected = run.model.predict_many(test), course.model.predict_many(test)
    weights, others = run.model.output_weights, course.model.output_weights
    return Comparison(
        n_tests=len(labels),
        error=float(np.mean(predicted != labels)),
        other_labels=int(np.sum(predicted != expected)),
        difference=float(np.abs(weights - others).max() / np.abs(others).max()),
    )


def summary(course: Course, run: Run, compared: Comparison, n_workers: int) -> Table:
    table = table_of()
    table.add_row("Images learnt", f"{course.model.count:,} and {run.model.count:,}")
    table.add_row("One process", f"{course.seconds:.1f} s, {course.errors[-1]:.2%} test error")
    merged = f"{run.seconds:.1f} s, {compared.error:.2%} test error"
    table.add_row(f"{n_workers} workers, merged", merged)
    if run.killed:
        again = f"after {run.killed[1]:.1f} s, {run.n_again} tasks repeated"
        table.add_row("  one worker killed", again)
    table.add_row("Data moved between workers", f"{run.n_bytes / 1e6:.1f} MB")
    table.add_row("Test images with another label", str(compared.other_labels))
    table.add_row("Merged weights and weights of one process", "")
    table.add_row("  largest relative difference", f"{compared.difference:.1e}")
    return table


# -- the picture ----------------------------------------------------------------------------------


def draw(path: Path, course: Course, run: Run, compared: Comparison) -> None:
    """Draw the tasks of each worker over time, and the test errors."""
    heading = f"{run.model.count:,} images, one process and workers"
    workers = list(dict.fromkeys(task.worker for task in run.tasks))
    with figure(path, 6.5, 5.2 + 0.45 * len(workers), heading) as made:
        above, below = made.subplots(2, 1)
        draw_tasks(above, workers, course, run)
        draw_errors(below, course, compared)
        handles, labels = above.get_legend_handles_labels()
        made.legend(handles, labels, loc="outside lower left", ncols=2, frameon=False)


def draw_tasks(axes: Axes, workers: list[str], course: Course, run: Run) -> None:
    """Draw one lane for the single process and one for every worker."""
    lanes = {worker: number for number, worker in enumerate(workers, 1)}
    axes.barh(0, course.seconds, 0.7, color=GREY)
    axes.text(0, 0, "  the same parts, one after the other", va="center", color="white")
    for kind, (text, colour) in KINDS.items():
        tasks = [task for task in run.tasks if task.kind == kind]
        places = np.array([lanes[task.worker] for task in tasks])
        starts = np.array([task.start for task in tasks])
        lasted = np.array([task.stop for task in tasks]) - starts
        # Workers wait for data while they compute; waiting is drawn below.
        below, height = (0.42, 0.1) if kind == "transfer" else (0.0, 0.7)
        # White edges would cover short tasks.
        width = 0.3 if kind in ("batch", "learnt") else 0.0
        style: dict[str, Any] = {"color": colour, "edgecolor": "white", "linewidth": width}
        axes.barh(places + below, lasted, height, starts, label=text, **style)
    axes.vlines(run.seconds, 0.5, len(workers) + 0.5, color=INK, linewidth=1.0)
    for lane, seconds in ((0, course.seconds), (len(workers) / 2 + 0.5, run.seconds)):
        axes.text(seconds, lane, f"  {seconds:.1f} s", va="center", weight="bold")
    names = {worker: f"worker {number}" for worker, number in lanes.items()}
    if run.killed:
        mark_killed(axes, lanes, *run.killed)
        early = {task.worker for task in run.tasks if task.start < run.killed[1]}
        names |= {worker: f"{names[worker]}, new" for worker in lanes.keys() - early}
    axes.set_yticks(range(len(names) + 1), ["one process", *names.values()])
    axes.invert_yaxis()
    axes.set(xlabel="seconds", xlim=(0, 1.12 * max(course.seconds, run.seconds)))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_title("Tasks of each worker")


def mark_killed(axes: Axes, lanes: dict[str, int], worker: str, seconds: float) -> None:
    """Mark the moment when a worker was killed."""
    if worker in lanes:
        axes.plot(seconds, lanes[worker], "X", color=VERMILLION, markersize=11)
        style: dict[str, Any] = {"color": VERMILLION, "va": "center", "weight": "bold"}
        axes.text(seconds, lanes[worker], "   killed", **style)


def draw_errors(axes: Axes, course: Course, compared: Comparison) -> None:
    """Draw the test errors of the single process and the error of the merged model."""
    axes.plot(course.rows, course.errors, "o-", color=GREY, label="one process")
    merged, label = (course.rows[-1], compared.error), f"workers, merged: {compared.error:.1%}"
    axes.plot(*merged, "o", color=BLUE, label=label, fillstyle="none", ms=13, mew=2.5)
    axes.set_xscale("log")
    mark_shares(axes, "images learnt")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0)
    axes.set_title(f"Error on {compared.n_tests:,} test images")
    axes.legend(frameon=False)
    text = f"largest relative difference\nof weights: {compared.difference:.0e}"
    axes.text(0.97, 0.72, text, color=BLUE, ha="right", va="top", transform=axes.transAxes)


if __name__ == "__main__":
    main()
