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
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sensor_stream_data import GasRows, Recordings, read_gas, read_watch
from sensor_stream_gas import make_contenders, test_then_train
from sensor_stream_gas import summary as gas_summary
from sensor_stream_plot import draw_gas, draw_watch
from sensor_stream_watch import WARM_UP, WINDOW, follow, make_models
from sensor_stream_watch import summary as watch_summary
from whole_numbers import not_negative

QUICK_RECORDINGS = 20
QUICK_STEP = 8
"""Of the gas sensors' rows, every so many are taken."""


def main(argv: list[str] | None = None) -> None:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    console = Console()
    try:
        arguments.out.mkdir(exist_ok=True)
        if arguments.data:
            rows = read_gas(arguments.data)
        else:
            n_recordings = QUICK_RECORDINGS if arguments.quick else None
            recordings = read_watch(n_recordings, arguments.seed)
    except (ModuleNotFoundError, OSError, ValueError) as error:
        parser.error(str(error))
    if arguments.data:
        step = QUICK_STEP if arguments.quick else 1
        tell_gases(rows, step, arguments, console)
    else:
        tell_activities(recordings, arguments, console)


def tell_activities(
    recordings: Recordings, arguments: argparse.Namespace, console: Console
) -> None:
    with progress_bar(console) as progress:
        results = {
            name: follow(name, model, recordings, progress)
            for name, model in make_models(recordings).items()
        }
    console.print(
        f"{len(recordings)} recordings, answers at every reading from the {WINDOW}th on. "
        f"The first {WARM_UP} are only learnt."
    )
    console.print(watch_summary(results))
    path = arguments.out / "sensor_stream_watch.png"
    draw_watch(path, recordings, results)
    console.print(f"Picture: {path}")


def tell_gases(rows: GasRows, step: int, arguments: argparse.Namespace, console: Console) -> None:
    stream = rows.shuffled(arguments.seed)
    stream = stream.taken(np.arange(0, len(stream), step))
    with progress_bar(console) as progress:
        results = {
            name: test_then_train(name, contender, stream, progress)
            for name, contender in make_contenders(arguments.seed).items()
        }
    console.print(
        f"Repeating the last label is right in {rows.repeated:.0%} in the order of the files, "
        f"and in {stream.repeated:.0%} here, shuffled within batches."
    )
    console.print(gas_summary(results, stream))
    path = arguments.out / "sensor_stream_gas.png"
    draw_gas(path, stream, results)
    console.print(f"Picture: {path}")


def progress_bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<18}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="gas sensors: a folder with batch1.dat, … or gas*.npz, or an .npz file with "
        "x (n, 128), y and batch (default: the watch)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(), help="folder for the picture (this one)"
    )
    parser.add_argument(
        "--seed", type=not_negative, default=0, help="for the order and the hidden units"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"only {QUICK_RECORDINGS} recordings, or every {QUICK_STEP}th row",
    )
    return parser


if __name__ == "__main__":
    main()
