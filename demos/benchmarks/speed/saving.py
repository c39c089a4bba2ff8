"""Saving a large model, and how long until the loaded one answers, beside the disk and a pickle.

python demos/benchmarks/speed/saving.py
python demos/benchmarks/speed/saving.py --gibibytes 4

A classifier of ten classes in the Gram form, with as many features as its statistics need to fill
the file. Every answer is given in a new process, whose imports are not counted, and where the
system lets one say so, the file is not in its cache.
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
    add("--gibibytes", type=above_zero, default=1.0, help="size of the file, about (%(default)s)")
    add("--turns", type=positive, default=5, help="new processes for each figure (%(default)s)")
    add("--folder", type=Path, help="where files are written for a while")
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
        del model  # Its memory is needed no more.
        writing = seconds_of(partial(write_anew, saved, copied))
        size = saved.stat().st_size / 2**30
        print(f"{machine()}; {n_features} features, a file of {size:.2f} GiB")
        table = table_of("", "seconds", "times the disk alone")
        table.add_row("to save", f"{saving:.3f}", f"{saving / writing:.2f}")
        floor = 0.0
        for name, work, path in (
            ("to read the bytes", read_whole, saved),
            ("to load and answer once", load_and_answer, saved),
            ("to unpickle and answer once", unpickle_and_answer, pickled),
            ("to load and learn once", load_and_learn, saved),
        ):
            turns = range(arguments.turns)
            taken = statistics.median(call_alone(timed, work, path) for _ in turns)
            floor = floor or taken
            table.add_row(name, f"{taken:.3f}", f"{taken / floor:.2f}")
    print_table(table)


def make_model(n_features: int) -> LeastSquaresClassifier:
    """Return a model of rows enough to have weights, and its weights solved."""
    random = np.random.default_rng(0)
    model = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
    rows = random.random((500, n_features))
    model.learn_many(rows, (np.arange(500) % N_CLASSES).tolist())
    _ = model.output_weights
    return model


def write_anew(path: Path, copy: Path) -> None:
    """Write a file's bytes to another one and bring them to the disk: what saving cannot beat."""
    with open(path, "rb") as source, open(copy, "wb") as file:
        while piece := source.read(AT_ONCE):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def timed(work: Callable[[Path], None], path: Path) -> float:
    """Return the seconds of work on a file that the system has dropped from its cache."""
    if hasattr(os, "posix_fadvise"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return seconds_of(partial(work, path))


def read_whole(path: Path) -> None:
    with open(path, "rb") as file:
        while file.read(AT_ONCE):
            pass


def answer(model: LeastSquaresClassifier) -> None:
    model.predict_one(dict.fromkeys(model.feature_names, 0.5))


def load_and_answer(path: Path) -> None:
    answer(onlinels.load(path))


def unpickle_and_answer(path: Path) -> None:
    with open(path, "rb") as file:
        answer(pickle.load(file))  # noqa: S301 - its own


def load_and_learn(path: Path) -> None:
    model = onlinels.load(path)
    model.learn_one(dict.fromkeys(model.feature_names, 0.5), 0)


if __name__ == "__main__":
    main()
