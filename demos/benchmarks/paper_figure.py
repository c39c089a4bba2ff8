"""Figure 2 of the paper: test error on MNIST against the number of hidden units.

The statistics of the first m hidden units are the leading block of those of all units. So one pass
over the rows gives the error of every size at once.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from paper_runs import NETWORKS
from results_file import ResultsFile
from rich.progress import track

from onlinels import ConvolutionalFeatures, GramAccumulator, HiddenLayer
from onlinels.datasets import ImageData, read_image_data
from onlinels.presets import preset_settings
from onlinels.ridge import choose_ridge
from onlinels.solve import solve_gram

Array = NDArray[Any]
Curve = dict[int, list[float]]

SMALLEST = 100
BLOCK_ROWS = 1000


def measure_curve(path: Path, results: ResultsFile, arguments: argparse.Namespace) -> Curve:
    """Return the test errors, one per draw of the input weights, by number of hidden units."""
    overrides = {"n_hidden": arguments.n_hidden} if arguments.n_hidden else {}
    curve: Curve = {}
    features: tuple[Array, Array] | None = None
    data: ImageData | None = None
    with cache_folder(arguments.cache) as cache:
        for seed in range(arguments.figure_draws):
            settings = preset_settings("mnist", overrides | {"seed": seed})
            n_hidden = settings["hidden"]["n_hidden"]
            key = {"figure": "mnist", "n_hidden": n_hidden, "seed": seed, "rows": arguments.rows}
            errors = results.find(key)
            if errors is None:
                if data is None or features is None:
                    data = first_rows(read_image_data(path), arguments.rows)
                    features = cached_features(data, cache, arguments.rows)
                errors = errors_by_size(data, features, settings)
                results.add(key, errors)
            for size, error in errors.items():
                curve.setdefault(int(size), []).append(error)
    return curve


def first_rows(data: ImageData, rows: int | None) -> ImageData:
    return ImageData(data.x_train[:rows], data.y_train[:rows], data.x_test, data.y_test)


@contextmanager
def cache_folder(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary)


def cached_features(data: ImageData, cache: Path, rows: int | None) -> tuple[Array, Array]:
    """Return the stage-1 features of training and test images, on disk, made only once."""
    settings = preset_settings(NETWORKS["mnist"].preset, {"seed": 0})
    warm_up = slice(settings["network"]["warm_up"])
    stage = ConvolutionalFeatures.from_examples(
        data.x_train[warm_up], data.y_train[warm_up], **settings["features"]
    )
    parts = {"train": data.x_train, "test": data.x_test}
    return tuple(  # type: ignore[return-value]
        on_disk(stage, images, cache / f"mnist_{name}_{rows or 'all'}.npy")
        for name, images in parts.items()
    )


def on_disk(stage: ConvolutionalFeatures, images: Array, path: Path) -> Array:
    if not path.exists():
        shape = (len(images), stage.n_features(images.shape[1:]))
        unfinished = path.with_suffix(".part.npy")
        file = np.lib.format.open_memmap(unfinished, "w+", stage.dtype, shape)
        for rows in track(blocks(len(images)), description=f"Features of {len(images)} images"):
            file[rows] = stage.transform_many(images[rows])
        file.flush()
        unfinished.rename(path)
    loaded: Array = np.load(path, mmap_mode="r")
    return loaded


def blocks(n_rows: int) -> list[slice]:
    return [slice(start, start + BLOCK_ROWS) for start in range(0, n_rows, BLOCK_ROWS)]


def errors_by_size(
    data: ImageData, features: tuple[Array, Array], settings: dict[str, dict[str, Any]]
) -> dict[str, float]:
    train, test = features
    warm_up = slice(settings["network"]["warm_up"])
    hidden = HiddenLayer.from_examples(
        np.array(train[warm_up]), data.y_train[warm_up], **settings["hidden"]
    )
    sums = GramAccumulator()
    for rows in track(blocks(len(train)), description=f"Draw {hidden.seed}"):
        sums.update(hidden.transform_many(np.array(train[rows])), data.y_train[rows])
    activations = np.concatenate(
        [hidden.transform_many(np.array(test[rows])) for rows in blocks(len(test))]
    )
    gram, cross, diagonal = sums.gram, sums.cross, sums.diagonal
    errors = {}
    for size in sizes(hidden.n_hidden):
        ridge = choose_ridge("paper", diagonal[:size], sums.n_targets)
        weights = solve_gram(gram[:size, :size], cross[:size], ridge, diagonal[:size])
        predicted = (activations[:, :size] @ weights).argmax(axis=1)
        errors[str(size)] = float(np.mean(predicted != data.y_test))
    return errors


def sizes(largest: int) -> list[int]:
    """Double from 100 units up to all of them."""
    doubled = [SMALLEST]
    while 2 * doubled[-1] < largest:
        doubled.append(2 * doubled[-1])
    return [size for size in doubled if size < largest] + [largest]


def draw_figure(curve: Curve, path: Path) -> None:
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    hidden = sorted(curve)
    for size in hidden:
        axes.plot([size] * len(curve[size]), 100 * np.array(curve[size]), ".", color="0.7")
    means = [100 * float(np.mean(curve[size])) for size in hidden]
    axes.plot(hidden, means, "o-", label=f"mean of {len(curve[hidden[0]])} draws")
    in_paper = NETWORKS["mnist"].paper_error or np.nan
    axes.plot([12_000], [in_paper], "k*", markersize=12, label="the paper")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="hidden units",
        ylabel="test error, %",
        title="MNIST, one pass over 60,000 images",
    )
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
