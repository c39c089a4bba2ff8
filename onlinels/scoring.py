"""From scores to labels and probabilities: the prediction half of every classifier here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from river import base

from onlinels.arrays import Floats
from onlinels.labels import Label
from onlinels.outputs import labels_like, table_like
from onlinels.probabilities import probabilities_of


class ScoringClassifier(base.MiniBatchClassifier):
    """A classifier whose answers all follow from one score per class.

    Subclasses give the scores of one sample and of a batch. The label is that of the highest
    score, the first of them on a tie; probabilities are the scores projected onto the simplex (see
    `onlinels.probabilities.probabilities_of`).
    """

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    @abstractmethod
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order in which they were first learnt."""

    @abstractmethod
    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        """Return the scores of one sample, (1, n_classes)."""

    @abstractmethod
    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        """Return what was read, for an answer in kind, and its scores (n, n_classes)."""

    def scores_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """Return the raw least-squares output of every class for one sample."""
        return dict(zip(self.classes, self._row_scores(x)[0].tolist(), strict=True))

    def scores_many(self, X: Any) -> Any:
        """Return the raw least-squares outputs, a column per class, in the kind of `X`."""
        source, scores = self._batch_scores(X)
        return table_like(source, self.classes, scores)

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class for one sample; {} before anything is learnt."""
        probabilities = probabilities_of(self._row_scores(x))
        return dict(zip(self.classes, probabilities[0].tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Return probabilities, a column per class, in the kind of `X`."""
        source, scores = self._batch_scores(X)
        return table_like(source, self.classes, probabilities_of(scores))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the label of highest score for one sample; None before anything is learnt."""
        (scores,) = self._row_scores(x)
        return self.classes[scores.argmax()] if scores.size else None

    def predict_many(self, X: Any) -> Any:
        """Return the label of highest score of every row, in the kind of `X`."""
        source, scores = self._batch_scores(X)
        classes = self.classes
        if not classes:
            return labels_like(source, [None] * len(scores))
        return labels_like(source, [classes[column] for column in scores.argmax(axis=1)])
