"""The classifiers that are compared on streams of dicts, as they come, with fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from river import dummy, ensemble, forest, linear_model, naive_bayes, neighbors, tree
from river.preprocessing import StandardScaler

from onlinels import HiddenLayer, LeastSquaresClassifier, StreamClassifier

OURS, PEER = "StreamClassifier", "ARF"
"""The two that the summary sets side by side."""


def dict_pipeline() -> Any:
    """Return the parts of onlinels in a pipeline of river's: one model, one length of memory."""
    last = LeastSquaresClassifier(1.0, accumulator="recursive", forgetting_factor=0.999)
    return StandardScaler() | HiddenLayer(300, activation="relu", bias=True) | last


MODELS: dict[str, Callable[[], Any]] = {
    OURS: StreamClassifier,
    "dict pipeline": dict_pipeline,
    PEER: lambda: forest.ARFClassifier(n_models=10, seed=1),
    "SRP": lambda: ensemble.SRPClassifier(n_models=10, seed=1),
    "HAT": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
    "KNN": lambda: StandardScaler() | neighbors.KNNClassifier(),
    "Softmax": lambda: StandardScaler() | linear_model.SoftmaxRegression(),
    "GaussianNB": naive_bayes.GaussianNB,
    "NoChange": dummy.NoChangeClassifier,
}

QUICK = (OURS, "dict pipeline", "HAT", "Softmax", "GaussianNB", "NoChange")
