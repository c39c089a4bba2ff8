"""Measure saving a large model and predicting after loading, compared with the disk and a pickle.

python demos/benchmarks/speed/saving.py
python demos/benchmarks/speed/saving.py --gibibytes 4

The model is a classifier of ten classes in the Gram form, with so many features that its statistics
fill the file. Every prediction is made in a new process, whose imports do not count. If the system
allows it, the file is removed from the cache first.
"""

from __future__ import annotations

import os
import pickle
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import (
    above_zero,
    call_alone,
    machine,
    make_parser,
    positive,
    print_table,
    seconds_of,
    table_of,
)

import onlinels
from onlinels import LeastSquaresClassifier

N_CLASSES = 10
AT_ONCE = 1 << 24


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--gibibytes", type=above_zero, default=1.0, help="approximate file size (%(default)s)")
    add("--turns", type=positive, default=5, help="new processes per figure (%(default)s)")
    add("--folder", type=Path, help="folder for temporary files")
    add("--quick", action="store_true", help="a small model")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.gibibytes, arguments.turns = 0.01, 1
    n_features = round((arguments.gibibytes * 2**30 / 4) ** 0.5)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        saved, pickled, copied = (Path(folder) / name for name in ("npz", "pickle", "copy"))
        model = make_model(n_features)
        saving = seconds_of(partial(model.save, saved))
        with open(pickled, "wb") as file:
            pickle.dump(model, file, protocol=pickle.HIGHEST_PROTOCOL)
        del model  # To free its memory.
        writing = seconds_of(partial(write_anew, saved, copied))
        size = saved.stat().st_size / 2**30
        print(f"{machine()}; {n_features} features, a file of {size:.2f} GiB")
        table = table_of("", "seconds", "times the disk alone")
        table.add_row("to save", f"{saving:.3f}", f"{saving / writing:.2f}")
        floor = 0.0
        for name, work, path in (
            ("to read the bytes", read_whole, saved),
            ("to load and predict once", load_and_predict, saved),
            ("to unpickle and predict once", unpickle_and_predict, pickled),
            ("to load and learn once", load_and_learn, saved),
        ):
            turns = range(arguments.turns)
            taken = statistics.median(call_alone(timed, work, path) for _ in turns)
            floor = floor or taken
            table.add_row(name, f"{taken:.3f}", f"{taken / floor:.2f}")
    print_table(table)


def make_model(n_features: int) -> LeastSquaresClassifier:
    """Return a model that has learnt rows and computed its weights."""
    random = np.random.default_rng(0)
    model = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
    rows = random.random((500, n_features))
    model.learn_many(rows, (np.arange(500) % N_CLASSES).tolist())
    _ = model.output_weights
    return model


def write_anew(path: Path, copy: Path) -> None:
    """Copy a file's bytes to another file and flush them to the disk: the floor for saving."""
    with open(path, "rb") as source, open(copy, "wb") as file:
        while piece := source.read(AT_ONCE):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def timed(work: Callable[[Path], None], path: Path) -> float:
    """Return the seconds of work on a file that is not in the system's cache."""
    if hasattr(os, "posix_fadvise"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return seconds_of(partial(work, path))


def read_whole(path: Path) -> None:
    with open(path, "rb") as file:
        while file.read(AT_ONCE):
            pass


def predict(model: LeastSquaresClassifier) -> None:
    model.predict_one(dict.fromkeys(model.feature_names, 0.5))


def load_and_predict(path: Path) -> None:
    predict(onlinels.load(path))


def unpickle_and_predict(path: Path) -> None:
    with open(path, "rb") as file:
        predict(pickle.load(file))  # noqa: S301 - written by this script


def load_and_learn(path: Path) -> None:
    model = onlinels.load(path)
    model.learn_one(dict.fromkeys(model.feature_names, 0.5), 0)


if __name__ == "__main__":
    main()
