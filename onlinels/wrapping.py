"""What wrappers of a model need to know of it, be it alone or at the end of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from river import base, compose

from onlinels.checks import check_matrix
from onlinels.classifier import LeastSquaresClassifier
from onlinels.labels import Label
from onlinels.numerics import Lock
from onlinels.rows import as_frame
from onlinels.saving.files import Savable


def is_pipeline(model: Any) -> bool:
    """Tell whether a model is a pipeline of river's."""
    return isinstance(model, compose.Pipeline)


def steps_of(model: Any) -> list[Any]:
    """Return the steps of a pipeline; any other model is its own."""
    return list(model.steps.values()) if is_pipeline(model) else [model]


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline; any other model is its own."""
    return model[-1] if is_pipeline(model) else model


def planned(model: Any) -> Any:
    """Return a model that, if it is a pipeline, has laid down how it goes through its steps.

    River does so in the first call, and an interrupt there would leave half of it for ever.
    """
    if is_pipeline(model) and hasattr(model, "_build_plan"):
        model._build_plan()
    return model


def emptied(model: Any) -> Any:
    """Return a model of the same settings and fixed features that has learnt nothing."""
    if is_pipeline(model):
        return compose.Pipeline(*((name, emptied(step)) for name, step in model.steps.items()))
    return model.empty() if hasattr(model, "empty") else model.clone()


def samples_of(X: Any) -> Iterator[Mapping[Any, Any]]:
    """Iterate over the rows of a mini-batch as river samples, values as they are.

    Parameters
    ----------
    X : array (n_rows, n_features), frame, or list of dicts

    Raises
    ------
    TypeError, ValueError
        If it is none of these.

    Examples
    --------
    >>> list(samples_of(np.array([[1.0, 2.0]])))
    [{0: 1.0, 1: 2.0}]
    """
    if isinstance(X, np.ndarray):
        return (dict(enumerate(row)) for row in check_matrix("X", X).tolist())
    if isinstance(X, (list, tuple)):
        return iter(X)
    rows: Iterator[Mapping[Any, Any]] = as_frame(X).iter_rows(named=True)
    return rows


class WrappedClassifier(base.Wrapper[base.Estimator], base.Classifier, Savable):
    """Answer as the wrapped classifier, or pipeline, does; subclasses learn in their own way."""

    _lock: Lock
    classifier: base.Estimator

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return vars(self).copy()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": LeastSquaresClassifier()}

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"classifier"}

    @property
    def _wrapped_model(self) -> base.Estimator:
        return self.classifier

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels that the wrapped model knows, in the order of its columns."""
        labels: tuple[Label, ...] = last_step(self.classifier).classes
        return labels

    @property
    def count(self) -> int:
        """Number of rows that the wrapped model has learnt, whatever their weights are now."""
        return int(last_step(self.classifier).count)

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the wrapped model's label for one sample; None before anything is learnt."""
        with self._lock:
            model: Any = self.classifier
            return model.predict_one(x, **kwargs)

    def predict_many(self, X: Any, **kwargs: Any) -> Any:
        """Return the wrapped model's label of every row, in the kind of `X`."""
        with self._lock:
            model: Any = self.classifier
            return model.predict_many(X, **kwargs)
