"""What a classifier of windows is asked: several windows together where it can, else one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from river import base

from onlinels.arrays import Floats
from onlinels.features.convolution.minirocket import MiniRocketFeatures
from onlinels.features.convolution.transformer import FilteringTransformer
from onlinels.features.hidden.layer import HiddenLayer
from onlinels.scoring import ScoringClassifier
from onlinels.windowed.following import Labelled
from onlinels.wrapping import is_pipeline, undone_on_error

TOGETHER = (ScoringClassifier, FilteringTransformer, MiniRocketFeatures, HiddenLayer)
"""Steps that take lists of windows, all or none, with the same result as one by one."""


def learn_windows(classifier: base.Classifier, due: Sequence[Labelled]) -> None:
    """Let a classifier learn labelled windows, in order, all or none.

    Parameters
    ----------
    classifier : classifier or pipeline
        It takes {"window": array}.
    due : sequence of (window, label)
    """
    model: Any = classifier
    if len(due) > 1 and takes_together(model):
        model.learn_many([_sample(window) for window, _ in due], [label for _, label in due])
        return
    with undone_on_error(*_at_risk(model, len(due))):
        for window, label in due:
            model.learn_one(_sample(window), label)


def _at_risk(model: Any, n_windows: int) -> list[Any]:
    """Return what could be left changed by windows of which one is refused."""
    if n_windows > 1:
        return [model]
    # Of one window, steps of this package learn nothing before the last one takes or refuses it.
    return [step for step in _steps(model) if n_windows and not isinstance(step, TOGETHER)]


def answers(
    classifier: base.Classifier, method: str, windows: Sequence[Floats | None], nothing: Any
) -> list[Any]:
    """Return what a classifier answers for each window, and `nothing` where there is none.

    Parameters
    ----------
    classifier : classifier or pipeline
        It takes {"window": array}.
    method : "predict" or "predict_proba"
    windows : sequence of ndarray (length, n_channels) or None
    nothing : object
    """
    model: Any = classifier
    samples = [_sample(window) for window in windows if window is not None]
    if len(samples) > 1 and takes_together(model):
        given = iter(getattr(model, f"{method}_many")(samples))
    else:
        given = iter([getattr(model, f"{method}_one")(sample) for sample in samples])
    return [nothing if window is None else next(given) for window in windows]


def takes_together(model: Any) -> bool:
    """Tell whether a classifier, or every step of a pipeline, takes lists of windows."""
    return all(isinstance(step, TOGETHER) for step in _steps(model))


def _steps(model: Any) -> list[Any]:
    return list(model.steps.values()) if is_pipeline(model) else [model]


def _sample(window: Floats) -> dict[str, Floats]:
    """Return a sample with a copy of the window, as most of it is part of later ones too."""
    return {"window": window.copy()}
