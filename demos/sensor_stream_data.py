"""What sensor_stream.py reads: the recordings of a smart watch, and gas sensors that age."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CHANNELS = ("ax", "ay", "az", "gx", "gy", "gz")
"""Three axes of the accelerometer and three of the gyroscope, in the order of the files."""
SAMPLE_RATE = 10
"""Readings of the watch in a second."""
N_VALUES = 128
"""Of a row of the gas sensors: eight of each of the 16 sensors."""
ARRAYS = ("x", "y", "batch")
NO_WATCH = (
    "the recordings of the watch come with the package sktime, which is not installed. "
    "Get it with pip install 'sktime>=0.38', or pass --data"
)


@dataclass(frozen=True)
class Recordings:
    """Stretches of readings (n, n_readings, n_channels), each of one activity."""

    readings: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, number: int) -> list[dict[str, float]]:
        """Return the readings of a recording, one after the other."""
        values = self.readings[number].tolist()
        return [dict(zip(CHANNELS, row, strict=True)) for row in values]


@dataclass(frozen=True)
class GasRows:
    """Rows (n, 128) of the gas sensors, what the gas was, and the batch, which never decreases."""

    values: Array
    labels: Array
    batches: Array

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_first(self) -> Array:
        """Which rows are of the first batch."""
        first: Array = self.batches == self.batches[0]
        return first

    def taken(self, rows: Array) -> GasRows:
        """Return some rows, by their numbers."""
        return GasRows(self.values[rows], self.labels[rows], self.batches[rows])

    def shuffled(self, seed: int) -> GasRows:
        """Return the batches in their order, and the rows of each in any order."""
        ties = np.random.default_rng(seed).random(len(self))
        return self.taken(np.lexsort([ties, self.batches]))

    def scaled(self) -> GasRows:
        """Return logarithms of the values, by the mean and deviation of the first batch.

        Values range from -24,000 to 670,000: arcsinh is a logarithm with a sign. Nothing later
        than the first batch goes into the scale, so all models may have it.
        """
        logarithms = np.arcsinh(self.values)
        first = logarithms[self.is_first]
        deviation = first.std(axis=0)
        scale = np.where(deviation > 0, deviation, 1.0)
        return GasRows((logarithms - first.mean(axis=0)) / scale, self.labels, self.batches)

    @property
    def repeated(self) -> float:
        """Share of rows of the label before them."""
        return float(np.mean(self.labels[1:] == self.labels[:-1]))


def read_watch(n_recordings: int | None, seed: int) -> Recordings:
    """Return so many recordings of BasicMotions (None: all 80) in an order drawn from the seed.

    Raises
    ------
    ModuleNotFoundError
        If sktime, which brings them, is not installed.
    """
    try:
        from sktime.datasets import load_basic_motions  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(NO_WATCH) from error
    values, labels = load_basic_motions(return_type="numpy3D")
    order = np.random.default_rng(seed).permutation(len(labels))[:n_recordings]
    return Recordings(values[order].transpose(0, 2, 1), labels[order])


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
    if path.is_dir():
        texts = sorted(path.glob("batch*.dat"), key=batch_number)
        if texts:
            return checked(joined([read_text(text) for text in texts]), path)
        found = sorted(path.glob("gas*.npz"))
        if len(found) != 1:
            raise FileNotFoundError(
                f"{path} holds no batch1.dat, … and {len(found)} files gas*.npz, expected one"
            )
        (path,) = found
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    with np.load(path) as arrays:
        missing = [name for name in ARRAYS if name not in arrays]
        if missing:
            raise ValueError(f"{path} lacks {', '.join(missing)}, expected {', '.join(ARRAYS)}")
        return checked(GasRows(*(arrays[name] for name in ARRAYS)), path)


def batch_number(path: Path) -> int:
    return int(path.stem.removeprefix("batch"))


def read_text(path: Path) -> GasRows:
    """Read a file of UCI: lines of gas[;concentration], counted from 1, and number:value."""
    labels, rows = [], []
    for line in path.read_text(encoding="ascii").splitlines():
        gas, *entries = line.split()
        labels.append(int(gas.partition(";")[0]) - 1)
        rows.append([float(entry.partition(":")[2]) for entry in entries])
    number = np.full(len(labels), batch_number(path))
    return GasRows(np.array(rows), np.array(labels), number)


def joined(parts: list[GasRows]) -> GasRows:
    return GasRows(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.batches for part in parts]),
    )


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
