"""Saving a large model, and how long until the loaded one answers, beside the disk and a pickle.

python demos/benchmarks/speed/saving.py
python demos/benchmarks/speed/saving.py --gibibytes 4

A classifier of ten classes in the Gram form, with as many features as its statistics need to fill
the file. Every answer is given in a new process, whose imports are not counted, and where the
system lets one say so, the file is not in its cache.
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import onlinels
from onlinels import LeastSquaresClassifier

sys.path.append(str(Path(__file__).resolve().parents[1]))

from command_line import above_zero, positive
from own_process import call_alone

N_CLASSES = 10
AT_ONCE = 1 << 24


def main() -> None:
    arguments = parse_arguments()
    gibibytes, turns = (0.01, 1) if arguments.quick else (arguments.gibibytes, arguments.turns)
    n_features = round((gibibytes * 2**30 / 4) ** 0.5)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        saved, pickled, copied = (Path(folder) / name for name in ("npz", "pickle", "copy"))
        model = make_model(n_features)
        saving = seconds(partial(model.save, saved))
        with open(pickled, "wb") as file:
            pickle.dump(model, file, protocol=pickle.HIGHEST_PROTOCOL)
        del model  # Its memory is needed no more.
        writing = seconds(lambda: write_anew(saved, copied))
        size = saved.stat().st_size / 2**30
        print(f"{os.cpu_count()} cores; {n_features} features, a file of {size:.2f} GiB")
        table = Table("", "seconds", "times the disk alone", box=SIMPLE)
        add(table, "to save", saving, writing)
        reading = median(turns, read_whole, saved)
        for name, function, path in (
            ("to load and answer once", load_and_answer, saved),
            ("to unpickle and answer once", unpickle_and_answer, pickled),
            ("to load and learn once", load_and_learn, saved),
        ):
            add(table, name, median(turns, function, path), reading)
    Console().print(table)


def add(table: Table, name: str, taken: float, floor: float) -> None:
    table.add_row(name, f"{taken:.3f}", f"{taken / floor:.2f}")


def median(turns: int, function: Callable[[Path], float], path: Path) -> float:
    return float(statistics.median(call_alone(function, path) for _ in range(turns)))


def make_model(n_features: int) -> LeastSquaresClassifier:
    """Return a model of rows enough to have weights, and its weights solved."""
    random = np.random.default_rng(0)
    model = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
    rows = random.random((500, n_features))
    model.learn_many(rows, (np.arange(500) % N_CLASSES).tolist())
    _ = model.output_weights
    return model


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def write_anew(path: Path, copy: Path) -> None:
    """Write a file's bytes to another one and bring them to the disk: what saving cannot beat."""
    with open(path, "rb") as source, open(copy, "wb") as file:
        while piece := source.read(AT_ONCE):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def forget(path: Path) -> None:
    """Have the system drop a file from its cache, where it can be told so."""
    if hasattr(os, "posix_fadvise"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_whole(path: Path) -> float:
    forget(path)

    def read() -> None:
        with open(path, "rb") as file:
            while file.read(AT_ONCE):
                pass

    return seconds(read)


def sample_of(model: LeastSquaresClassifier) -> dict[Any, float]:
    return dict.fromkeys(model.feature_names, 0.5)


def load_and_answer(path: Path) -> float:
    forget(path)
    return seconds(lambda: answer(onlinels.load(path)))


def unpickle_and_answer(path: Path) -> float:
    forget(path)

    def work() -> None:
        with open(path, "rb") as file:
            answer(pickle.load(file))  # noqa: S301 (its own)

    return seconds(work)


def answer(model: LeastSquaresClassifier) -> None:
    model.predict_one(sample_of(model))


def load_and_learn(path: Path) -> float:
    forget(path)

    def work() -> None:
        model = onlinels.load(path)
        model.learn_one(sample_of(model), 0)

    return seconds(work)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--gibibytes", type=above_zero, default=1.0, help="size of the file, about")
    add("--turns", type=positive, default=5, help="new processes for each figure")
    add("--folder", type=Path, help="where files are written for a while")
    add("--quick", action="store_true", help="a small model")
    return parser.parse_args()


if __name__ == "__main__":
    main()
