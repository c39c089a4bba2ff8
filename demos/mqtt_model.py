"""The model that learns from sensors: fixed features before one exact linear layer.

Nothing before the linear layer depends on the stream, so the weights are those of one batch of all
rows learnt, whatever their order: units are agreed on, not estimated, and tanh saturates where a
sensor reads a thousand times more than usual.
"""

from __future__ import annotations

from collections.abc import Mapping

from river import compose

from onlinels import HiddenLayer, LeastSquaresClassifier

UNIT = 100.0
"""What most readings of the shuttle's sensors are below."""
N_HIDDEN = 100
RIDGE = 0.1


def make_model() -> compose.Pipeline:
    return make_pipeline(
        HiddenLayer(N_HIDDEN, activation="tanh", bias=True, seed=0),
        LeastSquaresClassifier(ridge=RIDGE),
    )


def make_pipeline(hidden: HiddenLayer, classifier: LeastSquaresClassifier) -> compose.Pipeline:
    """Return the model that has these layers, be they new or out of a file."""
    return compose.FuncTransformer(in_units) | hidden | classifier


def in_units(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value / UNIT for name, value in values.items()}


def layers_of(model: compose.Pipeline) -> tuple[HiddenLayer, LeastSquaresClassifier]:
    """Return what the model consists of, but for the function."""
    _, hidden, classifier = model.steps.values()
    return hidden, classifier


def classifier_of(model: compose.Pipeline) -> LeastSquaresClassifier:
    """Return the last step."""
    return layers_of(model)[1]
