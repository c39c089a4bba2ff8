"""What a classifier of windows is asked: several windows together where it can, else one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from river import base

from onlinels.ahead import FIXED, learn_as_one
from onlinels.arrays import Floats
from onlinels.commit import Commit
from onlinels.scoring import ScoringClassifier
from onlinels.windowed.following import Labelled
from onlinels.wrapping import last_step, steps_of

TOGETHER = (*FIXED, ScoringClassifier)
"""Steps that take lists of windows, all or none, with the same result as one by one."""


def learn_windows(
    classifier: base.Classifier, due: Sequence[Labelled], gather: Callable[[Commit], None]
) -> None:
    """Let a classifier learn labelled windows, in order, as one with changes elsewhere.

    Parameters
    ----------
    classifier : classifier or pipeline
        It takes {"window": array}.
    due : sequence of (window, label)
    gather : callable
        Gathers the changes elsewhere.
    """
    samples, labels = [_sample(window) for window, _ in due], [label for _, label in due]
    together = len(due) > 1 and takes_together(classifier)

    def learn(model: Any) -> None:
        """Learn the windows that are due."""
        if together:
            model.learn_many(samples, labels)
            return
        for sample, label in zip(samples, labels, strict=True):
            model.learn_one(sample, label)

    # What learns several windows one by one does so in a copy.
    copied = [last_step(classifier)] if len(due) > 1 and not together else []
    learn_as_one(classifier, learn, gather, copied)


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
    return all(isinstance(step, TOGETHER) for step in steps_of(model))


def _sample(window: Floats) -> dict[str, Floats]:
    """Return a sample with a copy of the window, as most of it is part of later ones too."""
    return {"window": window.copy()}
