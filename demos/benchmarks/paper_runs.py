"""One run of a network of the paper: learn in one pass, test, and measure time and memory."""

from __future__ import annotations

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.progress import track

from onlinels import ShallowConvClassifier
from onlinels.datasets import read_image_data


@dataclass(frozen=True)
class Network:
    """A network and the test error that the paper reports for it, in percent."""

    preset: str
    paper_error: float | None


NETWORKS = {
    "mnist": Network("mnist", 0.37),
    "fashion-mnist": Network("mnist", None),
    "norb": Network("norb", 2.21),
    "svhn": Network("svhn", 3.96),
    "cifar10": Network("cifar10", 24.14),
}
"""By data set: Table 4 of the paper, and Fashion-MNIST, which came later, as MNIST."""


@dataclass(frozen=True)
class Run:
    """All that defines a run: data, size of the network and of the stream, and the draw."""

    data: str
    path: str
    n_hidden: int | None
    seed: int
    rows: int | None
    batch_size: int

    @property
    def key(self) -> dict[str, Any]:
        """What the results file knows the run by: everything but where the data lies."""
        return {name: value for name, value in asdict(self).items() if name != "path"}


def run_network(run: Run) -> dict[str, Any]:
    """Run in a process of its own, so that peak memory is that of the run alone."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_run_here, run).result()


def _run_here(run: Run) -> dict[str, Any]:
    data = read_image_data(run.path)
    x_train, y_train = data.x_train[: run.rows], data.y_train[: run.rows]
    overrides = {"seed": run.seed} | ({"n_hidden": run.n_hidden} if run.n_hidden else {})
    model = ShallowConvClassifier.from_preset(NETWORKS[run.data].preset, **overrides)
    started = time.perf_counter()
    for start in track(range(0, len(x_train), run.batch_size), description="Learning"):
        batch = slice(start, start + run.batch_size)
        model.learn_many(x_train[batch], y_train[batch])
    model.fix_features()
    learnt = time.perf_counter()
    _ = model.output_weights
    solved = time.perf_counter()
    error = float(np.mean(model.predict_many(data.x_test) != data.y_test))
    tested = time.perf_counter()
    return {
        "error": error,
        "learning": learnt - started,
        "solving": solved - learnt,
        "testing": tested - solved,
        "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
