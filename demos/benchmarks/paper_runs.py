"""One run of a network of the paper: learn in one pass, test, and measure time and memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from digests import digest
from numpy.typing import NDArray
from own_process import peak_memory
from results_file import data_key
from rich.console import Console
from rich.progress import track

from onlinels import ShallowConvClassifier
from onlinels.datasets import stream_image_data
from onlinels.presets import preset_settings

Array = NDArray[Any]
Settings = Mapping[str, Any]


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
class DataSet:
    """A data set, where it lies, and how many images of it are learnt.

    Parameters
    ----------
    name : str
    path : Path
    n_train, n_test : int
        Images that are there.
    rows : int
        Training images that are learnt: the first ones.
    """

    name: str
    path: Path
    n_train: int
    n_test: int
    rows: int

    @classmethod
    def open(cls, name: str, path: Path, rows: int | None) -> DataSet:
        """Count the images; headers and sizes of files tell.

        Raises
        ------
        FileNotFoundError, ValueError
            If a file is missing or seen to be damaged.
        """
        n_train, n_test = (_count(path, part) for part in ("train", "test"))
        return cls(name, path, n_train, n_test, min(rows or n_train, n_train))

    @property
    def key(self) -> dict[str, Any]:
        """What tells it from others: everything but where it lies."""
        return data_key(self.name, self.n_train, self.n_test) | {"rows": self.rows}


def _count(path: Path, part: str) -> int:
    return sum(len(labels) for _, labels in stream_image_data(path, 10_000, part))


@dataclass(frozen=True)
class Run:
    """All that defines a run: data, settings of the network, size of mini-batches, and the draw."""

    data: DataSet
    overrides: Settings
    batch_size: int
    seed: int

    @property
    def key(self) -> dict[str, Any]:
        """What the results file knows the run by."""
        settings = self.settings
        return self.data.key | {
            "n_hidden": settings["hidden"]["n_hidden"],
            "batch_size": self.batch_size,
            "seed": self.seed,
            "settings": digest(settings),
        }

    @property
    def preset(self) -> str:
        """The preset for the data set."""
        return NETWORKS[self.data.name].preset

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings of all parts of the network."""
        return preset_settings(self.preset, {**self.overrides, "seed": self.seed})

    def measure(self) -> dict[str, float]:
        """Learn, solve and test, in this process; reading the files does not count as learning."""
        model, learning = self._learn()
        started = time.perf_counter()
        _ = model.output_weights
        solving = time.perf_counter() - started
        error, testing = self._test(model)
        return {
            "error": error,
            "learning": learning,
            "solving": solving,
            "testing": testing,
            "peak_memory": peak_memory(),
        }

    def _learn(self) -> tuple[ShallowConvClassifier, float]:
        """Return the network after one pass, and the seconds that learning takes."""
        warm_up = min(self.settings["network"]["warm_up"], self.data.rows)
        settings = {**self.overrides, "seed": self.seed, "warm_up": warm_up}
        model = ShallowConvClassifier.from_preset(self.preset, **settings)
        learning = 0.0
        for images, labels in self._batches("train", self.data.rows):
            started = time.perf_counter()
            model.learn_many(images, labels)
            learning += time.perf_counter() - started
        return model, learning

    def _test(self, model: ShallowConvClassifier) -> tuple[float, float]:
        """Return the share of test images that are misread, and the time that answers take."""
        wrong, testing = 0, 0.0
        for images, labels in self._batches("test", self.data.n_test):
            started = time.perf_counter()
            answers = model.predict_many(images)
            testing += time.perf_counter() - started
            wrong += int(np.count_nonzero(answers != labels))
        return wrong / self.data.n_test, testing

    def _batches(self, part: str, rows: int) -> Iterator[tuple[Array, Array]]:
        size = min(self.batch_size, rows)
        batches = first_rows(stream_image_data(self.data.path, size, part), rows)
        return progress(batches, f"{self.data.name}, {part}", ceil(rows / size))


def first_rows(batches: Iterable[tuple[Array, Array]], rows: int) -> Iterator[tuple[Array, Array]]:
    """Cut mini-batches off after so many rows."""
    left = rows
    for images, labels in batches:
        yield images[:left], labels[:left]
        left -= len(labels)
        if left <= 0:
            return


def progress(steps: Iterable[Any], description: str, n_steps: int) -> Iterator[Any]:
    """Show a bar on the error stream, so that results alone go to the output."""
    return iter(track(steps, description, n_steps, console=Console(stderr=True)))
