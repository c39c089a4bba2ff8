"""Figure 2 of the paper: test error on MNIST against the number of hidden units.

The statistics of the first m hidden units are the leading block of those of all units. So one pass
over the rows gives the error of every size at once. All draws of the input weights share one set of
filters, so that their features are made once and lie on disk.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from digests import digest
from own_process import call_alone
from paper_runs import DataSet, Settings, progress
from paper_stage import Array, Parts, Stage
from results_file import ResultsFile
from slices import row_slices

from onlinels import GramAccumulator, HiddenLayer, __version__
from onlinels.datasets import ImageData, read_image_data
from onlinels.linalg.packed import SymmetricPanels
from onlinels.linalg.selection import check_ridge, choose_ridge
from onlinels.presets import PARTS, preset_settings
from onlinels.solve import solve_gram

Curve = dict[int, list[float]]

SMALLEST = 100
BLOCK_ROWS = 1000
"""Rows whose activations are held at a time, to bound memory."""


def check_settings(overrides: Settings) -> None:
    """Check that a curve can be made with these settings, as a whole pass comes first.

    Raises
    ------
    TypeError, ValueError
        If a setting of the linear layer other than the ridge is set, or the ridge is neither a
        number nor "paper".
    """
    for name in overrides:
        if name in PARTS["classifier"] and name != "ridge":
            raise ValueError(
                f"The figure knows no {name!r}. Leave it out, or pass --figure-draws 0."
            )
    ridge = overrides.get("ridge", "paper")
    check_ridge(ridge)
    if ridge != "paper" and not isinstance(ridge, Real):
        raise ValueError(
            f"ridge={ridge!r}: the figure knows a number or 'paper'. Pass one, or --figure-draws 0."
        )


def measure_curve(
    data: DataSet, overrides: Settings, n_draws: int, results: ResultsFile, cache: Path | None
) -> Curve:
    """Return the test errors, one per draw of the input weights, by number of hidden units.

    Raises
    ------
    CallFailedError
        If a draw cannot be measured.
    """
    curve: Curve = {}
    with cache_folder(cache) as folder:
        for seed in range(n_draws):
            settings = preset_settings("mnist", {**overrides, "seed": seed})
            key = data.key | {"figure": 2, "seed": seed, "settings": digest(settings)}
            errors = results.find(key)
            if errors is None:
                errors = call_alone(measure_draw, data, overrides, seed, folder)
                results.add(key, errors)
            for size, error in errors.items():
                curve.setdefault(int(size), []).append(error)
    return curve


@contextmanager
def cache_folder(chosen: Path | None) -> Iterator[Path]:
    """Give a folder for the features: the chosen one, or one that goes away again.

    What an interruption leaves unfinished in the chosen one goes away, too.
    """
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        try:
            yield chosen
        finally:
            for unfinished in chosen.glob(f"*{unfinished_suffix()}"):
                unfinished.unlink()
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary)


def measure_draw(found: DataSet, overrides: Settings, seed: int, cache: Path) -> dict[str, float]:
    """Return the test error of one draw of the input weights, by number of hidden units."""
    read = read_image_data(found.path)
    train = (read.x_train[: found.rows], read.y_train[: found.rows])
    data = ImageData(*train, read.x_test, read.y_test)
    features = cached_features(data, preset_settings("mnist", {**overrides, "seed": 0}), cache)
    return errors_by_size(data, features, preset_settings("mnist", {**overrides, "seed": seed}))


def cached_features(data: ImageData, settings: Parts, cache: Path) -> tuple[Array, Array]:
    """Return the stage-1 features of training and test images, on disk, made only once.

    The names of the files have a digest of all that the features depend on: the settings, the
    images and their labels, and the version of the package.
    """
    first = slice(settings["network"]["warm_up"])
    stages = {part: settings[part] for part in ("preprocessing", "features", "network")}
    made_from = (__version__, stages, data.x_train[first], data.y_train[first])
    parts = {"train": data.x_train, "test": data.x_test}
    paths = {
        part: cache / f"mnist_{part}_{len(images)}_{digest(*made_from, images)}.npy"
        for part, images in parts.items()
    }
    if not all(path.exists() for path in paths.values()):
        stage = Stage(data.x_train[first], data.y_train[first], settings)
        for part, images in parts.items():
            write_features(stage, images, paths[part])
    train, test = (np.load(path, mmap_mode="r") for path in paths.values())
    return train, test


def write_features(stage: Stage, images: Array, path: Path) -> None:
    """Write the features of images into a file that has its name only once it is whole."""
    shape = (len(images), stage.features(images[:1]).shape[1])
    unfinished = path.with_suffix(unfinished_suffix())
    file = np.lib.format.open_memmap(unfinished, "w+", stage.filters.dtype, shape)
    parts = row_slices(len(images), BLOCK_ROWS)
    for rows in progress(parts, f"Features of {len(images)} images", len(parts)):
        file[rows] = stage.features(images[rows])
    file.flush()
    unfinished.replace(path)


def unfinished_suffix() -> str:
    """End the names of unfinished files: with the command's own number, so that two do not meet.

    It is that of the process that waits, which outlives the one that writes.
    """
    parent = parent_process()
    return f".{os.getpid() if parent is None else parent.pid}.part"


def errors_by_size(
    data: ImageData, features: tuple[Array, Array], settings: Parts
) -> dict[str, float]:
    """Learn all rows once and return the test error of the first m hidden units, for every m."""
    train, test = features
    first = slice(settings["network"]["warm_up"])
    layer = HiddenLayer.from_examples(
        np.array(train[first]), data.y_train[first], **settings["hidden"]
    )
    classes, columns = np.unique(data.y_train, return_inverse=True)
    sums = GramAccumulator(layer.n_hidden, len(classes))
    parts = row_slices(len(train), BLOCK_ROWS)
    for rows in progress(parts, f"Figure: draw {layer.seed + 1}", len(parts)):
        sums.update(layer.transform_many(np.array(train[rows])), columns[rows])
    tested = row_slices(len(test), BLOCK_ROWS)
    activations = [layer.transform_many(np.array(test[rows])) for rows in tested]
    statistics = (sums.gram, sums.cross, sums.diagonal)
    errors = {}
    for size in sizes(layer.n_hidden):
        weights = leading_weights(*statistics, size, settings["classifier"]["ridge"])
        best = np.concatenate([(some[:, :size] @ weights).argmax(axis=1) for some in activations])
        errors[str(size)] = float(np.mean(classes[best] != data.y_test))
    return errors


def leading_weights(gram: Array, cross: Array, diagonal: Array, size: int, ridge: Any) -> Array:
    """Return the output weights (size, n_classes) of the first hidden units by themselves."""
    chosen = choose_ridge(ridge, diagonal[:size], cross.shape[1])
    leading = SymmetricPanels.of(gram[:size, :size])
    return solve_gram(leading, cross[:size], chosen, diagonal[:size])


def sizes(largest: int) -> list[int]:
    """Double from 100 units up to all of them."""
    doubled = [SMALLEST]
    while 2 * doubled[-1] < largest:
        doubled.append(2 * doubled[-1])
    return [size for size in doubled if size < largest] + [largest]
