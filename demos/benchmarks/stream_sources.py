"""Labelled streams of dicts: bundled with river, made by river with drift, and read from a folder.

Every call of a source begins the same stream anew: seeds are fixed, files are read in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from river import datasets
from river.datasets import synth

Row = tuple[dict[Any, Any], Hashable]
Source = Callable[[], Iterator[Row]]

SHUTTLE_ROWS = 20_000

BUNDLED: dict[str, Source] = {
    "Phishing": lambda: iter(datasets.Phishing()),
    "Bananas": lambda: iter(datasets.Bananas()),  # type: ignore[no-untyped-call]
    "ImageSegments": lambda: iter(datasets.ImageSegments()),  # type: ignore[no-untyped-call]
    "Shuttle": lambda: islice(datasets.Shuttle(), SHUTTLE_ROWS),
}
"""All that river brings along with one label a row; its others need a download or have more."""


def one_after_another(make: Callable[[int], Iterable[Row]], n_rows: int) -> Iterator[Row]:
    """Yield a third of the rows of concept 0, then of concept 1, then of concept 2."""
    return chain.from_iterable(islice(make(concept), n_rows // 3) for concept in range(3))


def _sea(concept: int) -> Iterable[Row]:
    return synth.SEA(variant=concept, noise=0.1, seed=1 + concept)


def _agrawal(concept: int) -> Iterable[Row]:
    return synth.Agrawal(classification_function=concept, seed=1 + concept)


def _sine(concept: int) -> Iterable[Row]:
    return synth.Sine(classification_function=concept, seed=1 + concept)


def _mixed(concept: int) -> Iterable[Row]:
    return synth.Mixed(classification_function=concept % 2, seed=1 + concept, balance_classes=False)


def _stagger(concept: int) -> Iterable[Row]:
    return synth.STAGGER(classification_function=concept, seed=1 + concept)


def _led() -> Iterator[Row]:
    stream = synth.LEDDrift(
        seed=1, noise_percentage=0.1, irrelevant_features=True, n_drift_features=4
    )
    return islice(stream, 10_000)


def _random_rbf() -> Iterator[Row]:
    stream = synth.RandomRBFDrift(
        seed_model=1,
        seed_sample=2,
        n_classes=4,
        n_features=10,
        n_centroids=30,
        change_speed=0.001,
        n_drift_centroids=15,
    )
    return islice(stream, 15_000)


def _hyperplane() -> Iterator[Row]:
    stream = synth.Hyperplane(
        seed=1, n_features=10, n_drift_features=5, mag_change=0.001, noise_percentage=0.05
    )
    return islice(stream, 15_000)


def _random_tree() -> Iterator[Row]:
    stream = synth.RandomTree(
        seed_tree=1,
        seed_sample=2,
        n_classes=3,
        n_num_features=5,
        n_cat_features=3,
        max_tree_depth=6,
        first_leaf_level=3,
    )
    return islice(stream, 10_000)


def _waveform() -> Iterator[Row]:
    return islice(synth.Waveform(seed=1, has_noise=True), 8_000)


MADE: dict[str, Source] = {
    "SEA": lambda: one_after_another(_sea, 15_000),
    "Agrawal": lambda: one_after_another(_agrawal, 15_000),
    "LED": _led,
    "RBFDrift": _random_rbf,
    "Hyperplane": _hyperplane,
    "Sine": lambda: one_after_another(_sine, 9_000),
    "Mixed": lambda: one_after_another(_mixed, 9_000),
    "STAGGER": lambda: one_after_another(_stagger, 9_000),
    "RandomTree": _random_tree,
    "Waveform": _waveform,
}
"""Made by river; all but RandomTree and Waveform drift, at once or all the time."""

FILES = {
    "elec2": "elec2.npz",
    "gas": "gas_drift_b1-6_8_9.npz",
    "wisdm": "wisdm_transformed.npz",
}
"""Electricity, Gas Sensor Array Drift and WISDM: files with arrays x (n, n_features) and y (n,)."""

NAMES = (*BUNDLED, *MADE, *FILES)


def find_sources(folder: Path | None) -> tuple[dict[str, Source], dict[str, str]]:
    """Return the streams that are there, and why the others are not, by name."""
    absent = {}
    sources = BUNDLED | MADE
    for name, file in FILES.items():
        if folder is None:
            absent[name] = f"--data names no folder with {file}"
        elif not (folder / file).is_file():
            absent[name] = f"{folder} holds no {file}"
        else:
            sources[name] = _reader(folder / file)
    return sources, absent


def _reader(path: Path) -> Source:
    return lambda: read_rows(path)


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file in their order, features that are NaN left out.

    Raises
    ------
    ValueError
        If it holds no arrays x and y of as many rows.
    """
    with np.load(path) as arrays:
        if not {"x", "y"} <= set(arrays.files) or len(arrays["x"]) != len(arrays["y"]):
            raise ValueError(f"{path} holds no arrays x and y of as many rows.")
        x, labels = np.asarray(arrays["x"], dtype=float), arrays["y"].tolist()
    for values, label in zip(x.tolist(), labels, strict=True):
        known = ((column, value) for column, value in enumerate(values) if value == value)
        yield {f"f{column}": value for column, value in known}, label
