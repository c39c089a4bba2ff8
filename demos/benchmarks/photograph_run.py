"""One pass over photographs: fix the features, learn every row once, answer for other rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from hidden_beside import Features, HiddenFeatures, Joint
from labelled_images import LabelledImages
from numpy.typing import NDArray
from patch_network import MirrorFeatures, Settings
from rich.progress import track
from shifts import shifted
from slices import row_slices
from stopwatch import Stopwatch

from onlinels import LeastSquaresClassifier

Array = NDArray[Any]

SCALED_ROWS = 2000
"""Rows of the warm-up, at most, from which features' standard deviations are estimated."""


@dataclass(frozen=True, eq=False)
class PhotographRun:
    """What one pass over photographs needs to know."""

    settings: Settings
    warm_up: int
    ridge: float
    batch_size: int
    test_shifts: int
    show: bool = True
    n_hidden: int = 0

    def batches(self, n_rows: int, text: str) -> Iterator[slice]:
        """Yield slices of rows, and show how far they have come."""
        slices = row_slices(n_rows, self.batch_size)
        yield from track(slices, description=text, disable=not self.show)


def learn(
    run: PhotographRun, train: LabelledImages, watch: Stopwatch
) -> tuple[Joint, LeastSquaresClassifier]:
    """Fix the features, learn all rows in one pass, and solve for the output weights."""
    with watch.stage("warm_up"):
        features = fix_features(run, train.x[: run.warm_up], train.y[: run.warm_up])
    model = LeastSquaresClassifier(run.ridge * len(train), fit_intercept=True)
    for rows in run.batches(len(train), "Learning"):
        with watch.stage("features"):
            activations = features.transform(train.x[rows])
        with watch.stage("learning"):
            model.learn_many(activations, train.y[rows])
    with watch.stage("solving"):
        _ = model.output_weights
    return features, model


def fix_features(run: PhotographRun, x: Array, y: Array) -> Joint:
    """Return features of one size whose filters and input weights are made of these images."""
    parts: list[Features] = [MirrorFeatures.from_examples(x, run.settings)]
    if run.n_hidden:
        parts.append(HiddenFeatures.from_examples(x, y, run.n_hidden, run.settings.seed))
    return Joint(tuple(scaled(part, run, x[:SCALED_ROWS]) for part in parts))


def scaled(features: Features, run: PhotographRun, some: Array) -> Features:
    """Return features divided by their standard deviations in some rows."""
    batches = run.batches(len(some), "Warm-up")
    activations = [features.transform(some[rows]) for rows in batches]
    return features.scaled_by(np.concatenate(activations))


def predict(
    run: PhotographRun, features: Joint, model: LeastSquaresClassifier, x: Array, watch: Stopwatch
) -> Array:
    """Return for every image the label of the largest score, summed over shifted views."""
    labels, answers = np.array(model.classes), []
    with watch.stage("testing"):
        for rows in run.batches(len(x), "Testing"):
            scores = np.zeros((len(x[rows]), len(labels)))
            for view in shifted(x[rows], run.test_shifts, "edge"):
                scores += model.scores_many(features.transform(view))
            answers.append(labels[scores.argmax(axis=1)])
    return np.concatenate(answers)
