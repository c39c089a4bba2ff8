"""What classifiers around a least-squares classifier have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from river import base

from onlinels.classifier import LeastSquaresClassifier
from onlinels.labels import Label
from onlinels.wrapping import last_step


class WrappedClassifier(base.Wrapper[base.Estimator], base.Classifier):
    """Answer as the wrapped classifier, or pipeline, does; subclasses learn in their own way."""

    classifier: base.Estimator

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
        model: Any = self.classifier
        return model.predict_one(x, **kwargs)

    def predict_many(self, X: Any, **kwargs: Any) -> Any:
        """Return the wrapped model's label of every row, in the kind of `X`."""
        model: Any = self.classifier
        return model.predict_many(X, **kwargs)
