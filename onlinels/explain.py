"""What a linear model's scores are made of, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onlinels.checks import Floats
from onlinels.linear_layer import LinearLeastSquares

STRONGEST = 10
"""Features shown per output."""


def explain(model: LinearLeastSquares, outputs: Sequence[Any], activations: Floats) -> str:
    """Return the score of every output and what the ten strongest features add to it.

    Parameters
    ----------
    model : LinearLeastSquares
    outputs : sequence
        Names of the outputs (classes or targets), in the order of the columns of the weights.
    activations : ndarray (n_features,)
        One row, its columns in the model's order.
    """
    parts = activations[:, None] * model.output_weights
    scores = activations @ model.output_weights + model.intercept
    lines = []
    for column, output in enumerate(outputs):
        intercept = model.intercept[column]
        lines.append(f"{output}: score {scores[column]:.5f}, intercept {intercept:.5f}")
        strongest = np.argsort(-np.abs(parts[:, column]), kind="stable")[:STRONGEST]
        lines += [
            f"    {model.feature_names[feature]}: {activations[feature]:.5f} * "
            f"{model.output_weights[feature, column]:.5f} = {parts[feature, column]:.5f}"
            for feature in strongest
        ]
    return "\n".join(lines)
